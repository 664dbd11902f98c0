//! `sftp://user@host:port/path`, as browsers and curl write it, and the same with `ftp` and `ftps`:
//! `/~/path` lies below the home.

use entrepot_nouns::StorePath;

/// How a server is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scheme {
    Sftp,
    Ftp,
    /// FTP under TLS from the first byte.
    Ftps,
}

impl Scheme {
    const ALL: [Scheme; 3] = [Scheme::Sftp, Scheme::Ftp, Scheme::Ftps];

    fn prefix(self) -> &'static str {
        match self {
            Scheme::Sftp => "sftp://",
            Scheme::Ftp => "ftp://",
            Scheme::Ftps => "ftps://",
        }
    }

    fn port(self) -> u16 {
        match self {
            Scheme::Sftp => 22,
            Scheme::Ftp => 21,
            Scheme::Ftps => 990,
        }
    }
}

/// A place on a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) scheme: Scheme,
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
        let begins = |scheme: Scheme| Some((scheme, url.strip_prefix(scheme.prefix())?));
        let (scheme, rest) = Scheme::ALL
            .into_iter()
            .find_map(begins)
            .ok_or_else(|| wrong("it begins with none of sftp://, ftp:// and ftps://"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (user, place) = match authority.rsplit_once('@') {
            Some((user, _)) if user.contains(':') => {
                return Err(wrong("a password does not belong into a command line"));
            }
            Some((user, place)) => (decode(user).ok_or_else(|| wrong("the user"))?, place),
            None => (std::env::var("USER").unwrap_or_default(), authority),
        };
        let (host, port) = split_port(place).ok_or_else(|| wrong("the port"))?;
        let port = port.unwrap_or_else(|| scheme.port());
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
        let host = host.to_owned();
        Ok(Place { scheme, user, host, port, from_home, path, is_directory })
    }

    /// The URL of a path on the same server.
    pub(super) fn url(&self, path: &StorePath) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = self.port == self.scheme.port();
        let port = if usual { String::new() } else { format!(":{}", self.port) };
        let home = if self.from_home { "~/" } else { "" };
        let scheme = self.scheme.prefix();
        format!("{scheme}{}@{host}{port}/{home}{}", self.user, path.as_str())
    }
}

/// Host, and the port if one is named; an IPv6 address stands in brackets.
fn split_port(place: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = place.strip_prefix('[') {
        let (host, port) = rest.split_once(']')?;
        return match port.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => port.is_empty().then_some((host, None)),
        };
    }
    match place.split_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((place, None)),
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
        for (url, port) in [("ftp://bob@example.org/a", 21), ("ftps://bob@example.org/a", 990)] {
            let place = Place::parse(url).unwrap();
            assert_eq!((place.port, place.url(&place.path)), (port, url.to_owned()));
        }
        let place = Place::parse("ftp://bob@example.org:990/a").unwrap();
        assert_eq!(place.url(&place.path), "ftp://bob@example.org:990/a");
    }

    #[test]
    fn other_urls_are_refused() {
        let bad = [
            "",
            "bob@example.org/x",
            "http://bob@example.org/x",
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
