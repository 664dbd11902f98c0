//! What events say of endpoints.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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
    /// How long it took, with the wait for a session.
    pub milliseconds: u64,
    /// Why it failed, by the error catalogue; unset: it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The model's word for it, where the application refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}
