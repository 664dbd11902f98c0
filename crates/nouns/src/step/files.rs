//! Steps that bring files from one place to another.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Existing;
use crate::document::is_default;
use crate::name::Name;

/// Write the file that the steps work on into the account's view, as an upload of the account
/// would: under its rights, quotas and events. The directories above it are made.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CopySpec {
    /// Path as the account sees it; placeholders as in `deliver`.
    pub to: String,
    /// What if a file of that name is there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub existing: Existing,
}

/// Fetch a file from an endpoint. Later steps work on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FetchSpec {
    /// The endpoint that has it; unset: the one that the event names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Name>,
    /// Path there; placeholders as in `deliver`.
    #[serde(default = "event_path", skip_serializing_if = "is_event_path")]
    pub path: String,
    /// What becomes of the file there when the job has ended well. Until then it stays as it is,
    /// and it stays if it is not the file any more that was fetched.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: AfterFetch,
    /// Where `after: move` puts it at the endpoint; placeholders as in `deliver`, of the file that
    /// was fetched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What becomes of a fetched file where it came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AfterFetch {
    /// The endpoint keeps it as it is.
    #[default]
    Keep,
    /// It is removed there.
    Delete,
    /// It gets the name that `to` says, in place of a file that has it.
    Move,
}

/// Make a directory, with those above it. One that is there is what was wanted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MkdirSpec {
    /// Path of the directory; placeholders as in `deliver`.
    pub path: String,
    /// The endpoint that gets it; unset: the account does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Name>,
}

fn event_path() -> String {
    "{path}".to_owned()
}

// The signature is what serde's `skip_serializing_if` asks for.
fn is_event_path(path: &str) -> bool {
    path == event_path()
}
