//! `sftp://user@host:port/path`, as browsers and curl write it: `/~/path` lies below the home.

use entrepot_model::StorePath;

/// A place on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) user: String,
    pub(super) host: String,
    pub(super) port: u16,
    /// The path is relative to the login directory.
    pub(super) from_home: bool,
    pub(super) path: StorePath,
    /// The path ends in a slash: it means a directory.
    pub(super) is_directory: bool,
}

impl Place {
    /// Reads a URL.
    pub(super) fn parse(url: &str) -> Result<Place, String> {
        let wrong = |what: &str| format!("'{url}' is no sftp://user@host:port/path: {what}");
        let rest = url.strip_prefix("sftp://").ok_or_else(|| wrong("it begins otherwise"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err(wrong("a password does not belong into a command line"));
            }
            Some((user, place)) => (decode(user).ok_or_else(|| wrong("the user"))?, place),
            None => (std::env::var("USER").unwrap_or_default(), authority),
        };
        let (host, port) = split_port(place).ok_or_else(|| wrong("the port"))?;
        if host.is_empty() || user.is_empty() {
            return Err(wrong("user and host must be named"));
        }
        let path = decode(path).ok_or_else(|| wrong("the path"))?;
        let below = path.strip_prefix("~/").or((path == "~").then_some(""));
        let from_home = below.is_some();
        let path = below.unwrap_or(&path);
        let is_directory = path.is_empty() || path.ends_with('/');
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let path = parts.join("/").parse().map_err(|error| wrong(&format!("{error}")))?;
        Ok(Place { user, host: host.to_owned(), port, from_home, path, is_directory })
    }

    /// The URL of a path on the same server.
    pub(super) fn url(&self, path: &StorePath) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let port = if self.port == 22 { String::new() } else { format!(":{}", self.port) };
        let home = if self.from_home { "~/" } else { "" };
        format!("sftp://{}@{host}{port}/{home}{}", self.user, path.as_str())
    }
}

/// Host and port; an IPv6 address stands in brackets.
fn split_port(place: &str) -> Option<(&str, u16)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, port.parse().ok()?)),
            None => port.is_empty().then_some((host, 22)),
        };
    }
    match place.split_once(':') {
        Some((host, port)) => Some((host, port.parse().ok()?)),
        None => Some((place, 22)),
    }
}

/// Undoes `%41`; a percent sign that is none of these stays as it is.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, behind)) = rest.split_first() {
        let hex = behind.get(..2).filter(|_| *first == b'%');
        let hex = hex.and_then(|hex| std::str::from_utf8(hex).ok());
        match hex.and_then(|hex| u8::from_str_radix(hex, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = behind.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_user_host_port_and_path() {
        let place = Place::parse("sftp://bob@[::1]:2022/in/a%20b%41.txt").unwrap();
        assert_eq!((place.user.as_str(), place.host.as_str(), place.port), ("bob", "::1", 2022));
        assert_eq!(place.path.as_str(), "in/a bA.txt");
        assert!(!place.from_home && !place.is_directory);
        assert_eq!(place.url(&place.path), "sftp://bob@[::1]:2022/in/a bA.txt");
        let home = Place::parse("sftp://bob@example.org/~/in/").unwrap();
        assert_eq!((home.path.as_str(), home.port), ("in", 22));
        assert!(home.from_home && home.is_directory);
        assert!(Place::parse("sftp://bob@example.org").unwrap().path.is_root());
    }

    #[test]
    fn other_urls_are_refused() {
        let bad = [
            "",
            "bob@example.org/x",
            "sftp://bob:secret@example.org/x",
            "sftp://bob@/x",
            "sftp://bob@h:port/x",
            "sftp://bob@h/../x",
            "sftp://bob@[::1/x",
        ];
        for url in bad {
            assert!(Place::parse(url).is_err(), "{url:?}");
        }
    }
}
