//! What jobs know their rule and its steps by.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which step of its rule, for as long as the rule has it: its name, or its place (`do.1`,
/// `else.0`).
#[derive(
    Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct StepAddress(pub String);

impl fmt::Display for StepAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// A document of a rule: BLAKE3 of the normalised text, 64 hexadecimal digits.
#[derive(
    Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct RuleVersion(pub String);

impl fmt::Display for RuleVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}
