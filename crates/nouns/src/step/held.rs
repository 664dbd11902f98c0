//! Steps about files that their mount holds.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Existing;
use crate::document::is_default;

/// Give the file the name that it was uploaded under: it is visible from then on, and counts as
/// uploaded. Only in a rule on `file.held`.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseSpec {
    /// What if a file of that name is there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub existing: Existing,
}

/// Keep the file hidden, and let no rule release it any more: an admin releases or deletes it.
/// Only in a rule on `file.held`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QuarantineSpec {
    /// Why, for whoever decides; placeholders as in paths.
    pub reason: String,
}
