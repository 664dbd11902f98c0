//! What events say of sessions.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// How fast one session may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionLimitFact {
    /// The account of the session.
    pub name: Name,
    /// The rates of its policies hold again; else those below.
    pub by_policy: bool,
    /// Bytes a second from the client; none: no limit of its own.
    pub upload: Option<u64>,
    /// Bytes a second to the client.
    pub download: Option<u64>,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}

/// A browser that is signed in no more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SignInEndedFact {
    /// The account that was signed in.
    pub name: Name,
    /// Why, one sentence.
    pub reason: String,
    /// Who ended it, if an administrator did: an admin account, or `cli:<user>`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}
