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
