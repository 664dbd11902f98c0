//! What events tell of files that a rule expects.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::time::Timestamp;

/// What a rule expects in one of its windows, and what has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExpectedFact {
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
    /// The begin of the window.
    pub begins: Timestamp,
    /// Its end: the files should have come before.
    pub deadline: Timestamp,
    /// How many have come; of `expected.late` those after the end are counted too.
    pub seen: u64,
    /// How many should come.
    pub count: u64,
}
