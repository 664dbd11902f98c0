//! Names of nouns: what an operator types, and what stands in paths, logs and documents.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::NAME_BYTES;

/// A checked name: 1 to 64 bytes of ASCII letters, digits, `.`, `_`, `-`, `@`, starting with a
/// letter or digit. Compared as written.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Name(String);

/// Why a text is no [`Name`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' is not a name: use 1 to 64 of a-z A-Z 0-9 . _ - @, starting with a letter or digit"
)]
pub struct NameError {
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl Name {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let first_ok = text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric());
        let rest_ok = text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-@".contains(&b));
        if first_ok && rest_ok && text.len() <= NAME_BYTES {
            Ok(Name(text.to_owned()))
        } else {
            Err(NameError { text: text.chars().take(80).collect() })
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_accepted_and_refused() {
        let long = "a".repeat(64);
        for good in ["a", "acme", "a.b-c_d@e", "0x", long.as_str()] {
            assert_eq!(good.parse::<Name>().unwrap().as_str(), good);
        }
        let too_long = "a".repeat(65);
        for bad in ["", ".a", "-a", "a b", "a/b", "ä", "a\0", "../a", too_long.as_str()] {
            assert!(bad.parse::<Name>().is_err(), "{bad:?} was taken");
        }
    }
}
