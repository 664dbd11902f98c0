//! Headers of WebDAV (RFC 4918 §10), but for If.

use std::time::Duration;

use crate::limits::{LOCK_TIME, LOCK_TIME_DEFAULT};

/// A header that is not as its section says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the header {header} {problem}")]
pub struct BadHeader {
    /// The name of the header.
    pub header: &'static str,
    /// What is wrong with its value.
    pub problem: &'static str,
}

impl BadHeader {
    /// A Destination on another server.
    pub const OTHER_SERVER: BadHeader = BadHeader {
        header: "Destination",
        problem: "names another server: copy through the client",
    };
}

pub(crate) fn bad(header: &'static str, problem: &'static str) -> BadHeader {
    BadHeader { header, problem }
}

/// How far below a resource a request reaches (§10.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The resource alone.
    Zero,
    /// The resource and what lies directly in it.
    One,
    /// The resource and everything below it.
    Infinity,
}

impl Depth {
    /// As the header says; without one, as the method does then.
    ///
    /// # Errors
    /// It has another value than these three.
    pub fn parse(header: Option<&str>, otherwise: Depth) -> Result<Depth, BadHeader> {
        match header.map(str::trim) {
            None => Ok(otherwise),
            Some("0") => Ok(Depth::Zero),
            Some("1") => Ok(Depth::One),
            Some(word) if word.eq_ignore_ascii_case("infinity") => Ok(Depth::Infinity),
            Some(_) => Err(bad("Depth", "is 0, 1 or infinity")),
        }
    }

    /// As it is written.
    pub fn as_str(self) -> &'static str {
        match self {
            Depth::Zero => "0",
            Depth::One => "1",
            Depth::Infinity => "infinity",
        }
    }
}

/// What becomes of a resource that has the name already (§10.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overwrite {
    /// It is replaced.
    Replace,
    /// The request is refused.
    Refuse,
}

impl Overwrite {
    /// As the header says; without one a resource is replaced.
    ///
    /// # Errors
    /// It is neither T nor F.
    pub fn parse(header: Option<&str>) -> Result<Overwrite, BadHeader> {
        match header.map(str::trim) {
            None | Some("T" | "t") => Ok(Overwrite::Replace),
            Some("F" | "f") => Ok(Overwrite::Refuse),
            Some(_) => Err(bad("Overwrite", "is T or F")),
        }
    }
}

/// For how long a lock is asked for (§10.7): the first time that can be read, and never longer
/// than [`LOCK_TIME`].
pub fn timeout(header: Option<&str>) -> Duration {
    let Some(header) = header else { return LOCK_TIME_DEFAULT };
    let read = |word: &str| -> Option<Duration> {
        if word.eq_ignore_ascii_case("infinite") {
            return Some(LOCK_TIME);
        }
        let (unit, seconds) = word.split_once('-')?;
        if !unit.eq_ignore_ascii_case("second") || !seconds.bytes().all(|it| it.is_ascii_digit()) {
            return None;
        }
        // More digits than a number has: longer than is given anyway.
        let seconds = seconds.parse().unwrap_or(u64::MAX);
        Some(Duration::from_secs(seconds).min(LOCK_TIME))
    };
    header.split(',').map(str::trim).find_map(read).unwrap_or(LOCK_TIME_DEFAULT)
}

/// The token in a Lock-Token header (§10.5), without its angle brackets.
///
/// # Errors
/// There are no angle brackets, or nothing in them.
pub fn lock_token(header: &str) -> Result<&str, BadHeader> {
    let token = header.trim().strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    token
        .filter(|token| !token.is_empty() && !token.contains(['<', '>']))
        .ok_or(bad("Lock-Token", "is one token between < and >"))
}

/// The path in a Destination header (§10.3), still percent-encoded. `host` is what the request was
/// sent to: another one, or a scheme of its own, is another server's.
///
/// # Errors
/// It is neither a path nor a URI of this host.
pub fn destination<'a>(header: &'a str, host: Option<&str>) -> Result<&'a str, BadHeader> {
    let header = header.trim();
    let path = if header.starts_with('/') {
        header
    } else {
        let (scheme, rest) = header.split_once("://").ok_or(bad("Destination", "is no URI"))?;
        if !scheme.eq_ignore_ascii_case("http") && !scheme.eq_ignore_ascii_case("https") {
            return Err(BadHeader::OTHER_SERVER);
        }
        let at = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(at);
        if !host.is_some_and(|host| host.eq_ignore_ascii_case(authority)) {
            return Err(BadHeader::OTHER_SERVER);
        }
        if path.is_empty() { "/" } else { path }
    };
    if path.starts_with("//") || path.contains(['?', '#', '\r', '\n', '\0']) {
        return Err(bad("Destination", "is a path without query and fragment"));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths() {
        let parse = |text| Depth::parse(Some(text), Depth::One);
        for depth in [Depth::Zero, Depth::One, Depth::Infinity] {
            assert_eq!(parse(depth.as_str()), Ok(depth));
        }
        assert_eq!(parse("Infinity"), Ok(Depth::Infinity));
        assert_eq!(Depth::parse(None, Depth::Zero), Ok(Depth::Zero));
        for text in ["", "2", "1,noroot", "-1"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_of_locks_are_bounded() {
        let cases: &[(Option<&str>, Duration)] = &[
            (None, LOCK_TIME_DEFAULT),
            (Some("Second-30"), Duration::from_secs(30)),
            (Some("Infinite, Second-4100000000"), LOCK_TIME),
            (Some("Second-99999999999999999999999"), LOCK_TIME),
            (Some("Week-1, second-7"), Duration::from_secs(7)),
            (Some("Second--1"), LOCK_TIME_DEFAULT),
            (Some("nonsense"), LOCK_TIME_DEFAULT),
        ];
        for (header, time) in cases {
            assert_eq!(timeout(*header), *time, "{header:?}");
        }
    }

    #[test]
    fn tokens() {
        assert_eq!(lock_token("<urn:uuid:1>"), Ok("urn:uuid:1"));
        for text in ["urn:uuid:1", "<>", "<a><b>", "", "<a"] {
            assert!(lock_token(text).is_err(), "{text}");
        }
    }

    #[test]
    fn destinations_lie_on_this_server() {
        let host = Some("files.example:8443");
        for (header, path) in [
            ("https://files.example:8443/dav/a%20b", "/dav/a%20b"),
            ("HTTP://FILES.example:8443/x", "/x"),
            ("https://files.example:8443", "/"),
            ("/dav/x", "/dav/x"),
        ] {
            assert_eq!(destination(header, host), Ok(path), "{header}");
        }
        for header in [
            "https://other.example/x",
            "https://files.example/x",
            "ftp://files.example:8443/x",
            "//files.example:8443/x",
            "x",
            "/a?b",
            "/a#b",
            "https://files.example:8443@evil/x",
        ] {
            assert!(destination(header, host).is_err(), "{header}");
        }
        assert!(destination("https://files.example/x", None).is_err());
        assert_eq!(Overwrite::parse(None), Ok(Overwrite::Replace));
        assert_eq!(Overwrite::parse(Some("F")), Ok(Overwrite::Refuse));
        assert!(Overwrite::parse(Some("yes")).is_err());
    }
}
