//! Paths. Parsed once at the protocol's edge; everything behind it takes a checked value, so a
//! `..`, a NUL or an empty component has no way in.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{COMPONENT_BYTES, PATH_BYTES, PATH_COMPONENTS};

/// An absolute virtual path as a session sees it: `/` or `/a/b`. Valid UTF-8, no NUL, no empty,
/// `.` or `..` component, no trailing slash; stored and compared as sent (no normalising of
/// letters). A backslash is a letter.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct VPath(String);

/// A path below the root of an [`crate::Endpoint`]: the same rules without the leading slash;
/// empty is the root itself.
#[derive(Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct StorePath(String);

/// Why bytes are no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It has bytes that are not UTF-8; no legacy encoding is guessed.
    #[error("the name is not valid UTF-8")]
    NotUtf8,
    /// Contains a NUL byte.
    #[error("the name contains a NUL byte")]
    Nul,
    /// A component is longer than 255 bytes.
    #[error("a part of the name is longer than 255 bytes")]
    ComponentTooLong,
    /// Longer than 4,096 bytes or deeper than 256 components.
    #[error("the path is longer than 4096 bytes or 256 components")]
    TooLong,
    /// An empty, `.` or `..` component where a checked path is read back.
    #[error("the path has an empty, '.' or '..' component")]
    NotNormal,
}

fn check_component(part: &str) -> Result<(), PathError> {
    match part {
        "" | "." | ".." => Err(PathError::NotNormal),
        _ if part.len() > COMPONENT_BYTES => Err(PathError::ComponentTooLong),
        _ if part.contains('\0') => Err(PathError::Nul),
        _ if part.contains('/') => Err(PathError::NotNormal),
        _ => Ok(()),
    }
}

fn check_size(path: &str) -> Result<(), PathError> {
    if path.len() > PATH_BYTES || path.split('/').count() > PATH_COMPONENTS {
        return Err(PathError::TooLong);
    }
    Ok(())
}

impl VPath {
    /// The root `/`, the top of what a session sees.
    pub fn root() -> Self {
        VPath("/".to_owned())
    }

    /// Resolves what a peer sent, lexically: relative to `self` (its home or working directory),
    /// `.` and empty components dropped, `..` stops at `/`. The only door from bytes to a path.
    pub fn resolve(&self, sent: &[u8]) -> Result<VPath, PathError> {
        if sent.len() > PATH_BYTES {
            return Err(PathError::TooLong);
        }
        let text = std::str::from_utf8(sent).map_err(|_| PathError::NotUtf8)?;
        let mut parts: Vec<&str> =
            if text.starts_with('/') { Vec::new() } else { self.components().collect() };
        for part in text.split('/') {
            match part {
                "" | "." => {}
                ".." => {
                    parts.pop();
                }
                _ => {
                    check_component(part)?;
                    parts.push(part);
                }
            }
        }
        let path = format!("/{}", parts.join("/"));
        check_size(&path)?;
        Ok(VPath(path))
    }

    /// The path as text, beginning with `/`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for `/`.
    pub fn is_root(&self) -> bool {
        self.0 == "/"
    }

    /// The components from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The last component; `None` for `/`.
    pub fn file_name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// The directory above; `None` for `/`.
    pub fn parent(&self) -> Option<VPath> {
        let (above, _) = self.0.rsplit_once('/')?;
        match (self.is_root(), above) {
            (true, _) => None,
            (false, "") => Some(VPath::root()),
            (false, above) => Some(VPath(above.to_owned())),
        }
    }

    /// The path of a child named `component`.
    pub fn join(&self, component: &str) -> Result<VPath, PathError> {
        check_component(component)?;
        let slash = if self.is_root() { "" } else { "/" };
        let path = format!("{}{slash}{component}", self.0);
        check_size(&path)?;
        Ok(VPath(path))
    }

    /// What is left of `self` below `prefix`; `None` if it is not below (or at) it.
    /// `/in/a` below `/in` is `a`; `/in` below `/in` is empty.
    pub fn below(&self, prefix: &VPath) -> Option<StorePath> {
        if prefix.is_root() {
            return Some(StorePath(self.0.get(1..).unwrap_or_default().to_owned()));
        }
        match self.0.strip_prefix(prefix.as_str())? {
            "" => Some(StorePath::default()),
            rest => Some(StorePath(rest.strip_prefix('/')?.to_owned())),
        }
    }
}

impl StorePath {
    /// The root of the endpoint.
    pub fn root() -> Self {
        StorePath::default()
    }

    /// The path as text, without a leading slash; empty for the root.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True for the root of the endpoint.
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The components from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// The last component; `None` for the root.
    pub fn file_name(&self) -> Option<&str> {
        self.components().next_back()
    }

    /// The directory above; `None` for the root.
    pub fn parent(&self) -> Option<StorePath> {
        if self.is_root() {
            return None;
        }
        Some(StorePath(self.0.rsplit_once('/').map_or("", |(above, _)| above).to_owned()))
    }

    /// The path of a child named `component`.
    pub fn join(&self, component: &str) -> Result<StorePath, PathError> {
        check_component(component)?;
        let path =
            if self.is_root() { component.to_owned() } else { format!("{}/{component}", self.0) };
        check_size(&path)?;
        Ok(StorePath(path))
    }

    /// `self` followed by all of `rest`.
    pub fn append(&self, rest: &StorePath) -> Result<StorePath, PathError> {
        let path = match (self.is_root(), rest.is_root()) {
            (true, _) => rest.0.clone(),
            (_, true) => self.0.clone(),
            _ => format!("{}/{}", self.0, rest.0),
        };
        check_size(&path)?;
        Ok(StorePath(path))
    }
}

impl FromStr for VPath {
    type Err = PathError;

    /// Reads back a path in normal form; unlike [`VPath::resolve`] nothing is resolved.
    fn from_str(text: &str) -> Result<Self, PathError> {
        check_size(text)?;
        match text.strip_prefix('/').ok_or(PathError::NotNormal)? {
            "" => Ok(VPath::root()),
            rest => {
                rest.split('/').try_for_each(check_component)?;
                Ok(VPath(text.to_owned()))
            }
        }
    }
}

impl FromStr for StorePath {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        check_size(text)?;
        if !text.is_empty() {
            text.split('/').try_for_each(check_component)?;
        }
        Ok(StorePath(text.to_owned()))
    }
}

macro_rules! text_form {
    ($($name:ident)*) => { $(
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
            }
        }
    )* };
}

text_form! { VPath StorePath }

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v(text: &str) -> VPath {
        text.parse().unwrap()
    }

    #[test]
    fn resolve_is_lexical_and_stops_at_the_root() {
        let home = v("/home/acme");
        for (sent, want) in [
            ("", "/home/acme"),
            (".", "/home/acme"),
            ("a", "/home/acme/a"),
            ("a/./b//c/", "/home/acme/a/b/c"),
            ("../x", "/home/x"),
            ("../../../../etc/passwd", "/etc/passwd"),
            ("/", "/"),
            ("/..", "/"),
            ("//a", "/a"),
            ("a\\..\\b", "/home/acme/a\\..\\b"),
            ("...", "/home/acme/..."),
        ] {
            assert_eq!(home.resolve(sent.as_bytes()).unwrap().as_str(), want, "{sent:?}");
        }
    }

    #[test]
    fn resolve_refuses_what_no_name_may_hold() {
        let root = VPath::root();
        assert_eq!(root.resolve(b"a\0b"), Err(PathError::Nul));
        assert_eq!(root.resolve(b"\xff"), Err(PathError::NotUtf8));
        assert_eq!(root.resolve(&[b'a'; 256]), Err(PathError::ComponentTooLong));
        assert_eq!(root.resolve(&[b'/'; 5000]), Err(PathError::TooLong));
        assert_eq!(root.resolve("a/".repeat(300).as_bytes()), Err(PathError::TooLong));
    }

    #[test]
    fn below_cuts_at_component_borders_only() {
        assert_eq!(v("/in/a").below(&v("/in")).unwrap().as_str(), "a");
        assert_eq!(v("/in").below(&v("/in")).unwrap().as_str(), "");
        assert_eq!(v("/inner/a").below(&v("/in")), None);
        assert_eq!(v("/a/b").below(&VPath::root()).unwrap().as_str(), "a/b");
    }

    #[test]
    fn parents() {
        assert_eq!(v("/a/b").parent(), Some(v("/a")));
        assert_eq!(v("/a").parent(), Some(VPath::root()));
        assert_eq!(VPath::root().parent(), None);
        let deep: StorePath = "a/b".parse().unwrap();
        assert_eq!(deep.parent().unwrap().as_str(), "a");
        assert_eq!(deep.parent().unwrap().parent().unwrap().as_str(), "");
    }

    proptest! {
        #[test]
        fn whatever_resolves_is_normal(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(path) = v("/home").resolve(&bytes) {
                prop_assert_eq!(path.as_str().parse::<VPath>().unwrap(), path);
            }
        }
    }
}
