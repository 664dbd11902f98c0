//! Passkeys of an account: what is known of each, and when it counts.

use std::net::IpAddr;

use entrepot_nouns::{Key, Name, PasskeyPublic, Source, Timestamp};

/// A passkey that signs an account in.
#[derive(Clone, Debug, PartialEq)]
pub struct Passkey {
    /// The key's noun.
    pub name: Name,
    /// The public half, and the host that it was made at.
    pub public: PasskeyPublic,
    /// Whoever signs in with it may list and read only.
    pub(crate) read_only: bool,
    not_before: Option<Timestamp>,
    not_after: Option<Timestamp>,
    from: Vec<Source>,
    enabled: bool,
}

impl Passkey {
    /// The passkey of a noun; `None` for keys of other types.
    pub(crate) fn of(key: &Key) -> Option<Passkey> {
        Some(Passkey {
            public: key.passkey()?,
            name: key.name.clone(),
            read_only: key.read_only,
            not_before: key.not_before,
            not_after: key.not_after,
            from: key.from.clone(),
            enabled: key.enabled,
        })
    }

    /// Why it does not count for who comes from `address` at `now`; `None`: it counts.
    pub(crate) fn why_not(&self, address: IpAddr, now: Timestamp) -> Option<&'static str> {
        if !self.enabled {
            Some("the passkey is disabled")
        } else if self.not_after.is_some_and(|to| to <= now) {
            Some("the passkey has expired")
        } else if self.not_before.is_some_and(|from| now < from) {
            Some("the passkey is not valid yet")
        } else if !Source::admit(&self.from, address) {
            Some("the passkey may not be used from this address")
        } else {
            None
        }
    }
}
