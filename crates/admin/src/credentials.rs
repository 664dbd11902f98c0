//! What requests about API tokens and passkeys carry, and their answers.

use std::fmt;

use entrepot_nouns::{Name, Source, Timestamp, TokenScope};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A secret that is given out once and stored nowhere. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct ShownOnce(String);

impl ShownOnce {
    /// Takes a secret that is text.
    pub(crate) fn new(text: impl Into<String>) -> Self {
        ShownOnce(text.into())
    }

    /// The text, to be shown to the person who asked for it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for ShownOnce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// A token that is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TokenOrder {
    /// The account that it lets in.
    pub account: Name,
    /// Of the key; unset: one is made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// What it may be used for.
    pub scopes: Vec<TokenScope>,
    /// It counts no more from then on; unset: after as many days as the policy of the account says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// Addresses that it may be used from; empty: anywhere.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub from: Vec<Source>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// An API token in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TokenRow {
    /// Of the key.
    pub name: Name,
    /// The account that it lets in.
    pub account: Name,
    /// Whether it counts now.
    pub state: TokenState,
    /// What it may be used for.
    pub scopes: Vec<TokenScope>,
    /// When it ends.
    pub not_after: Option<Timestamp>,
    /// The time of its last use, within a minute; unset: it was never used.
    pub used_at: Option<Timestamp>,
    /// The IP address that it was used from.
    pub used_from: Option<String>,
    /// Free text for people.
    pub note: String,
}

/// Whether an API token counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TokenState {
    /// It lets its account in.
    Active,
    /// Its begin lies ahead.
    Pending,
    /// Its end is past.
    Expired,
    /// Somebody revoked it.
    Revoked,
}

impl TokenState {
    /// The word in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            TokenState::Active => "active",
            TokenState::Pending => "pending",
            TokenState::Expired => "expired",
            TokenState::Revoked => "revoked",
        }
    }
}

/// A passkey in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PasskeyRow {
    /// Of the key.
    pub name: Name,
    /// The account that it signs in.
    pub account: Name,
    /// What its owner calls it.
    pub note: String,
    /// The host that it was made at, and the only one that it signs in at.
    pub host: String,
    /// A disabled one signs nobody in.
    pub enabled: bool,
    /// The time of its last use; unset: it was never used.
    pub used_at: Option<Timestamp>,
    /// The IP address that it was used from.
    pub used_from: Option<String>,
}
