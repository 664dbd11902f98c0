//! What events say of endpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::name::Name;

/// An endpoint to which nothing is sent any more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DisabledFact {
    /// Nothing is sent there until somebody enables it.
    pub endpoint: Name,
    /// The rule whose step was refused, by name.
    pub rule: Name,
    /// What its server answered, one sentence.
    pub reason: String,
}

/// A procedure of a host application was called.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProcedureFact {
    /// The model of the application.
    pub model: Name,
    /// The procedure's name in it.
    pub procedure: String,
    /// The session that its client holds, where it was called in one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_session: Option<SessionId>,
    /// How long it took, with the wait for a session.
    pub milliseconds: u64,
    /// Why it failed, by the error catalogue; unset: it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The model's word for it, where the application refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// A session with a host that a client holds, or has held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSessionFact {
    /// The model of the application.
    pub model: Name,
    /// The session, as its client names it.
    pub host_session: SessionId,
}

/// How a client came to the end of a session with a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HostSessionEnd {
    /// The model of the application.
    pub model: Name,
    /// The session, as its client named it.
    pub host_session: SessionId,
    /// How long it was held.
    pub milliseconds: u64,
    /// Keys that were pressed at its screens; those of procedures are not among them.
    pub keys: u64,
    /// Why it ended.
    pub why: HostSessionEnding,
}

/// Why a session with a host is not held any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum HostSessionEnding {
    /// Its client ended it.
    Ended,
    /// Nothing came from its client for too long.
    Left,
    /// The connection to the host ended.
    Broken,
    /// The model was changed or taken away, or the node stopped.
    Stopped,
}
