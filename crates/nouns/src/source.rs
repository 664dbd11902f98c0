//! Where somebody may come from: the patterns of `from=` in sshd(8), AUTHORIZED_KEYS FILE FORMAT,
//! without host names, for a name is only what a resolver says.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::limits::SOURCE_BYTES;

/// One pattern of addresses: an address, a network (`192.0.2.0/24`), or a text with `*` and `?`;
/// `!` in front refuses what it matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    refuses: bool,
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    Address(IpAddr),
    Network(IpNet),
    Wildcard(String),
}

/// Why a text is no [`Source`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' is no pattern of addresses: use 192.0.2.7, 192.0.2.0/24, 192.0.2.* or !192.0.2.7; \
     names of hosts are not taken"
)]
pub struct SourceError {
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl Source {
    /// True if it refuses what it matches.
    pub fn refuses(&self) -> bool {
        self.refuses
    }

    fn matches(&self, address: IpAddr) -> bool {
        match &self.what {
            What::Address(wanted) => wanted.to_canonical() == address,
            What::Network(network) => network.contains(&address),
            What::Wildcard(pattern) => wildcard(pattern, &address.to_string()),
        }
    }

    /// True if `address` may come: there is no pattern, or one matches it and none refuses it.
    pub fn admit(sources: &[Source], address: IpAddr) -> bool {
        let address = address.to_canonical();
        let of = |refuses: bool| {
            let mut those = sources.iter().filter(move |source| source.refuses == refuses);
            those.any(|source| source.matches(address))
        };
        sources.is_empty() || (of(false) && !of(true))
    }
}

/// True if `text` fits `pattern`, in which `*` stands for any letters and `?` for one.
pub fn wildcard(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    let (mut at, mut pos) = (0, 0);
    // Where to go on if the letters after the last `*` do not fit: that star, one letter further.
    let mut star: Option<(usize, usize)> = None;
    while let Some(letter) = text.get(pos) {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, pos));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == letter => {
                at += 1;
                pos += 1;
            }
            _ => match &mut star {
                Some((of, from)) => {
                    *from += 1;
                    (at, pos) = (*of + 1, *from);
                }
                None => return false,
            },
        }
    }
    pattern.get(at..).is_some_and(|rest| rest.iter().all(|letter| *letter == b'*'))
}

impl FromStr for Source {
    type Err = SourceError;

    fn from_str(text: &str) -> Result<Self, SourceError> {
        let error = || SourceError { text: text.chars().take(80).collect() };
        let (refuses, rest) = match text.strip_prefix('!') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let wild = |letter: u8| b"*?.:".contains(&letter) || letter.is_ascii_hexdigit();
        let what = if let Ok(address) = rest.parse() {
            What::Address(address)
        } else if let Ok(network) = rest.parse() {
            What::Network(network)
        } else if rest.len() <= SOURCE_BYTES && rest.contains(['*', '?']) && rest.bytes().all(wild)
        {
            What::Wildcard(rest.to_ascii_lowercase())
        } else {
            return Err(error());
        };
        Ok(Source { refuses, what })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.refuses { "!" } else { "" })?;
        match &self.what {
            What::Address(address) => write!(f, "{address}"),
            What::Network(network) => write!(f, "{network}"),
            What::Wildcard(pattern) => f.write_str(pattern),
        }
    }
}

impl Serialize for Source {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Source {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(sources: &[&str], address: &str) -> bool {
        let sources: Vec<Source> = sources.iter().map(|text| text.parse().unwrap()).collect();
        Source::admit(&sources, address.parse().unwrap())
    }

    #[test]
    fn addresses_networks_and_wildcards_admit_and_a_mark_refuses() {
        assert!(admit(&[], "192.0.2.1"));
        assert!(admit(&["192.0.2.1"], "192.0.2.1"));
        assert!(admit(&["192.0.2.1"], "::ffff:192.0.2.1"), "as a v6 socket shows it");
        assert!(!admit(&["192.0.2.1"], "192.0.2.11"));
        assert!(admit(&["10.0.0.0/8", "192.0.2.0/24"], "192.0.2.200"));
        assert!(!admit(&["10.0.0.0/8"], "11.0.0.1"));
        assert!(admit(&["192.0.2.*"], "192.0.2.7") && !admit(&["192.0.2.*"], "192.0.20.7"));
        assert!(admit(&["2001:db8::*"], "2001:db8::17"));
        assert!(admit(&["10.?.0.1"], "10.5.0.1") && !admit(&["10.?.0.1"], "10.55.0.1"));
        assert!(!admit(&["10.0.0.0/8", "!10.9.0.0/16"], "10.9.1.1"));
        assert!(!admit(&["!10.9.0.0/16", "10.0.0.0/8"], "10.9.1.1"), "whatever the order");
        assert!(!admit(&["!10.9.0.0/16"], "10.8.1.1"), "nothing admits");
    }

    #[test]
    fn names_of_hosts_are_no_patterns() {
        for text in ["", "!", "host.example", "*.example", "10.0.0.0/33", "10.0.0.1 ", "a b"] {
            assert!(text.parse::<Source>().is_err(), "{text:?}");
        }
        assert_eq!("!10.9.0.0/16".parse::<Source>().unwrap().to_string(), "!10.9.0.0/16");
    }

    #[test]
    fn wildcards_take_any_length_and_end_in_time() {
        assert!(wildcard("a*b*c", "aXXbYYc") && wildcard("*", "") && wildcard("a**", "a"));
        assert!(!wildcard("a*b", "aXc") && !wildcard("", "a") && !wildcard("?", ""));
        let (pattern, text) = ("*a".repeat(200) + "b", "a".repeat(4000));
        assert!(!wildcard(&pattern, &text));
    }
}
