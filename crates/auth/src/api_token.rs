//! API tokens of an account: what is known of each, and when it counts.

use std::net::IpAddr;

use entrepot_crypto::TokenHash;
use entrepot_nouns::{Key, KeyType, Name, Rights, Source, Timestamp, TokenScope};

/// A token that lets an account in.
#[derive(Clone, Debug, PartialEq)]
pub struct ApiToken {
    /// The key's noun.
    pub name: Name,
    /// What is stored of the token itself.
    pub hash: TokenHash,
    /// What it may be used for.
    pub scopes: Vec<TokenScope>,
    not_before: Option<Timestamp>,
    not_after: Option<Timestamp>,
    from: Vec<Source>,
    read_only: bool,
    enabled: bool,
}

impl ApiToken {
    /// The token of a noun; `None` for keys of other types.
    pub(crate) fn of(key: &Key) -> Option<ApiToken> {
        if key.key_type != KeyType::ApiToken {
            return None;
        }
        Some(ApiToken {
            hash: key.token_hash()?.parse().ok()?,
            name: key.name.clone(),
            scopes: key.scopes.clone(),
            not_before: key.not_before,
            not_after: key.not_after,
            from: key.from.clone(),
            read_only: key.read_only,
            enabled: key.enabled,
        })
    }

    /// Why it does not count for who comes from `address` at `now`; `None`: it counts.
    pub(crate) fn why_not(&self, address: IpAddr, now: Timestamp) -> Option<&'static str> {
        if !self.enabled {
            Some("the API token was revoked")
        } else if self.not_after.is_none_or(|to| to <= now) {
            Some("the API token has expired")
        } else if self.not_before.is_some_and(|from| now < from) {
            Some("the API token is not valid yet")
        } else if !Source::admit(&self.from, address) {
            Some("the API token may not be used from this address")
        } else {
            None
        }
    }

    /// The rights on files that it leaves to its account.
    pub(crate) fn rights(&self) -> Rights {
        let rights = TokenScope::rights_of(&self.scopes);
        if self.read_only { rights.and(Rights::read_only()) } else { rights }
    }
}
