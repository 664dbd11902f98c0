//! What requests about share links carry, and their answers.

use std::collections::BTreeSet;

use entrepot_nouns::{LinkAction, LinkTerms, Name, Secret, Timestamp, VPath};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::credentials::ShownOnce;

/// A share link that is to be made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkOrder {
    /// The account whose files it opens; unset: the one that asks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<Name>,
    /// Of the link; unset: one is made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Name>,
    /// The folder that it opens, as the owner sees it.
    pub folder: VPath,
    /// Only these files of the folder; empty: the whole folder.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// What recipients may do.
    pub allows: BTreeSet<LinkAction>,
    /// It opens nothing from then on; unset: after 14 days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Recipients must show it besides the link; hashed on the way in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<GivenPassword>,
    /// Mail addresses of the only recipients, each of whom gets a link of its own. Empty: everybody
    /// who has the link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub people: Vec<String>,
    /// Most downloads; unset: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downloads: Option<u32>,
    /// Most files that may be added; unset: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uploads: Option<u32>,
    /// Largest file that may be added, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file_size_bytes: Option<u64>,
    /// Most bytes that may be added, all files together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_bytes: Option<u64>,
    /// Shown to recipients above the files.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Free text for those who administer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A password in clear text, on its way to be hashed. `Debug` prints `***`.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct GivenPassword(String);

impl GivenPassword {
    pub(crate) fn secret(&self) -> Secret {
        Secret::new(self.0.as_bytes())
    }
}

impl std::fmt::Debug for GivenPassword {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("***")
    }
}

/// A share link as lists show it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LinkRow {
    /// The name of its account, which events and transfers have.
    pub name: Name,
    /// Whether it opens anything now.
    pub state: LinkState,
    /// What it opens.
    #[serde(flatten)]
    pub terms: LinkTerms,
    /// It opens nothing from then on.
    pub expires_at: Option<Timestamp>,
    /// Recipients must show a password.
    pub has_password: bool,
    /// Mail addresses of the only recipients; empty: everybody who has the link.
    pub people: Vec<String>,
    /// What was used of its limits.
    pub used: LinkUsesRow,
    /// Free text for those who administer.
    pub note: String,
}

/// How often a link was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkUsesRow {
    /// Files and archives that were downloaded.
    pub downloads: u64,
    /// Files that were added.
    pub uploads: u64,
    /// Bytes of the files that were added.
    pub upload_bytes: u64,
    /// The last of them.
    pub at: Option<Timestamp>,
}

/// Whether a share link opens anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LinkState {
    /// It opens what its terms say.
    Active,
    /// Its end is past.
    Expired,
    /// Somebody revoked it.
    Revoked,
    /// It was used as often as it may be.
    Exhausted,
}

impl LinkState {
    /// The word in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            LinkState::Active => "active",
            LinkState::Expired => "expired",
            LinkState::Revoked => "revoked",
            LinkState::Exhausted => "exhausted",
        }
    }
}

/// An address of a new link, which is shown once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkAddress {
    /// The only person that it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub person: Option<String>,
    /// `/s/` and the secret; in front of it the name of this server, where it is known.
    pub address: ShownOnce,
}
