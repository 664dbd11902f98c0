//! Paths of files in addresses: `/files` followed by the virtual path, percent-encoded.

use std::fmt::Write as _;

use entrepot_nouns::VPath;

use crate::problem::Problem;

/// A virtual path as an address names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePath {
    pub(crate) path: VPath,
    /// The address ends with a slash: only a directory is meant.
    pub(crate) is_directory: bool,
}

/// Why an address names no path; a sentence for the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathFlaw {
    Percent,
    Slash,
    Nul,
    Utf8,
    Dots,
    Empty,
    Long,
}

impl PathFlaw {
    fn sentence(self) -> &'static str {
        match self {
            PathFlaw::Percent => "the path has a '%' that two hexadecimal digits do not follow",
            PathFlaw::Slash => "the path has an encoded slash (%2F); no name can contain one",
            PathFlaw::Nul => "the path has a NUL byte; no name can contain one",
            PathFlaw::Utf8 => "the path is not valid UTF-8; encode names as UTF-8",
            PathFlaw::Dots => "the path has a '.' or '..' part; send the path that is meant",
            PathFlaw::Empty => "the path has two slashes in a row; send one",
            PathFlaw::Long => "the path is longer than 4096 bytes, or a name in it than 255 bytes",
        }
    }
}

impl From<PathFlaw> for Problem {
    fn from(flaw: PathFlaw) -> Problem {
        Problem::new(axum::http::StatusCode::BAD_REQUEST, "EP1004", flaw.sentence())
    }
}

/// Decodes what follows `/files` in an address. Clients resolve `.` and `..` themselves (RFC 3986
/// §5.2.4), so what has such a part is a mistake or an attack, and refused.
pub(crate) fn decode(encoded: &str) -> Result<FilePath, PathFlaw> {
    let rest = encoded.strip_prefix('/').unwrap_or(encoded);
    let is_directory = rest.is_empty() || rest.ends_with('/');
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let mut path = VPath::root();
    if rest.is_empty() {
        // `/files//` too is the root with a slash too many.
        return if encoded.len() > 1 {
            Err(PathFlaw::Empty)
        } else {
            Ok(FilePath { path, is_directory })
        };
    }
    for part in rest.split('/') {
        let name = decode_name(part)?;
        path = path.join(&name).map_err(|_| PathFlaw::Long)?;
    }
    Ok(FilePath { path, is_directory })
}

/// Decodes one name.
fn decode_name(part: &str) -> Result<String, PathFlaw> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let [first, behind @ ..] = rest {
        rest = behind;
        let byte = match first {
            b'%' => {
                let [high, low, behind @ ..] = behind else { return Err(PathFlaw::Percent) };
                rest = behind;
                hex(*high)? << 4 | hex(*low)?
            }
            byte => *byte,
        };
        match byte {
            0 => return Err(PathFlaw::Nul),
            b'/' => return Err(PathFlaw::Slash),
            byte => bytes.push(byte),
        }
    }
    let name = String::from_utf8(bytes).map_err(|_| PathFlaw::Utf8)?;
    // `..;x` is `..` to some proxies and servers behind them.
    match name.split(';').next().unwrap_or_default() {
        "" if name.is_empty() => Err(PathFlaw::Empty),
        "." | ".." => Err(PathFlaw::Dots),
        _ => Ok(name),
    }
}

fn hex(digit: u8) -> Result<u8, PathFlaw> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(PathFlaw::Percent),
    }
}

/// The address of a path, below the root of the server.
pub(crate) fn address(path: &VPath) -> String {
    address_below("/files", path)
}

/// The address of a path below another root.
pub(crate) fn address_below(root: &str, path: &VPath) -> String {
    let mut address = String::from(root);
    for name in path.components() {
        address.push('/');
        encode_into(&mut address, name);
    }
    if path.is_root() {
        address.push('/');
    }
    address
}

/// Adds a name with everything encoded but what needs it in no part of an address (RFC 3986 §2.3).
pub(crate) fn encode_into(address: &mut String, name: &str) {
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                address.push(char::from(byte));
            }
            // To write into a string cannot fail.
            _ => drop(write!(address, "%{byte:02X}")),
        }
    }
}

/// For fuzzing: whatever is taken can be written again and means the same.
pub(crate) fn fuzz(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(decoded) = decode(text) {
        for name in decoded.path.components() {
            assert!(!matches!(name, "." | "..") && !name.contains(['/', '\0']), "{name:?}");
        }
        let address = address(&decoded.path);
        assert!(address.is_ascii(), "{address:?}");
        let again = address.strip_prefix("/files").map(decode);
        assert!(again.is_some_and(|it| it.is_ok_and(|it| it.path == decoded.path)), "{text:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_once_and_nothing_leads_elsewhere() {
        for (encoded, path) in [
            ("", "/"),
            ("/", "/"),
            ("/a", "/a"),
            ("/a/b.txt", "/a/b.txt"),
            ("/a%20b", "/a b"),
            ("/%C3%A4", "/ä"),
            ("/ä", "/ä"),
            ("/a+b", "/a+b"),
            ("/100%25", "/100%"),
            ("/%252e%252e", "/%2e%2e"),
            ("/a;b", "/a;b"),
            ("/...", "/..."),
            ("/a\\b", "/a\\b"),
            ("/%E2%80%AEgpj.exe", "/\u{202e}gpj.exe"),
            ("/<script>", "/<script>"),
        ] {
            assert_eq!(decode(encoded).unwrap().path.as_str(), path, "{encoded}");
        }
        assert!(decode("/a/").unwrap().is_directory && !decode("/a").unwrap().is_directory);
        assert!(decode("").unwrap().is_directory);
    }

    #[test]
    fn hostile_names_are_refused_with_a_sentence() {
        let long = format!("/{}", "a".repeat(256));
        for (encoded, flaw) in [
            ("/..", PathFlaw::Dots),
            ("/a/../b", PathFlaw::Dots),
            ("/%2e%2e/b", PathFlaw::Dots),
            ("/.%2E", PathFlaw::Dots),
            ("/..;/b", PathFlaw::Dots),
            ("/..;a=b/b", PathFlaw::Dots),
            ("/%2e", PathFlaw::Dots),
            ("/a%2fb", PathFlaw::Slash),
            ("/a%2Fb", PathFlaw::Slash),
            ("/a%00", PathFlaw::Nul),
            ("/a\0", PathFlaw::Nul),
            ("/%ff", PathFlaw::Utf8),
            ("/%c0%af", PathFlaw::Utf8),
            ("/%", PathFlaw::Percent),
            ("/%4", PathFlaw::Percent),
            ("/%zz", PathFlaw::Percent),
            ("/%+1", PathFlaw::Percent),
            ("/a//b", PathFlaw::Empty),
            ("//", PathFlaw::Empty),
            ("//a", PathFlaw::Empty),
            (&long, PathFlaw::Long),
        ] {
            assert_eq!(decode(encoded), Err(flaw), "{encoded}");
        }
        let longest = format!("/{}", "a".repeat(255));
        assert!(decode(&longest).is_ok());
    }

    #[test]
    fn addresses_go_round() {
        for path in ["/", "/a", "/a b/ä", "/100%", "/a;b/<x>", "/\u{202e}", "/a\\b?c#d"] {
            let path: VPath = path.parse().unwrap();
            let address = address(&path);
            assert_eq!(decode(address.strip_prefix("/files").unwrap()).unwrap().path, path);
        }
        fuzz(b"/a%20b/%C3%A4");
        fuzz(b"/%ff");
    }
}
