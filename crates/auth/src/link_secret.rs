//! The secrets that open share links: what is known of each, and when it counts.

use entrepot_crypto::TokenHash;
use entrepot_nouns::{Key, KeyType, Name, Timestamp};

/// A secret that opens a share link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LinkSecret {
    pub(crate) name: Name,
    pub(crate) hash: TokenHash,
    /// The person that it was made for; empty: everybody who has it.
    pub(crate) person: String,
    not_after: Option<Timestamp>,
    enabled: bool,
}

impl LinkSecret {
    /// The secret of a noun; `None` for keys of other types.
    pub(crate) fn of(key: &Key) -> Option<LinkSecret> {
        if key.key_type != KeyType::Link {
            return None;
        }
        Some(LinkSecret {
            name: key.name.clone(),
            hash: key.token_hash()?.parse().ok()?,
            person: key.note.clone(),
            not_after: key.not_after,
            enabled: key.enabled,
        })
    }

    /// Why it opens the link no more; `None`: it does.
    pub(crate) fn why_not(&self, now: Timestamp) -> Option<&'static str> {
        if !self.enabled {
            Some("the secret of the link was revoked")
        } else if self.not_after.is_some_and(|end| end <= now) {
            Some("the secret of the link has expired")
        } else {
            None
        }
    }
}
