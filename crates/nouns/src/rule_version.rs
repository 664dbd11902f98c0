//! What jobs know their rule and its steps by.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which step of its rule, for as long as the rule has it: its name, or its place (`do.1`,
/// `else.0`). Of a step in an `each` also in which turn: `do.1.each.do[5].0`, `send[5]`.
#[derive(
    Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct StepAddress(pub String);

impl StepAddress {
    /// What the step is known by in the document of the rule, in whatever turn of an `each`.
    #[must_use]
    pub fn in_rule(&self) -> StepAddress {
        let mut parts = self.0.split('[');
        let first = parts.next().unwrap_or_default().to_owned();
        let behind = parts.filter_map(|part| Some(part.split_once(']')?.1));
        StepAddress(behind.fold(first, |place, part| place + part))
    }
}

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
