//! What events tell of answers to `approve` steps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::rule_version::StepAddress;

/// What somebody answered to an `approve` step of a job.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalFact {
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
    /// The address of the step that asked.
    pub step: StepAddress,
    /// What it asked.
    pub text: String,
    /// Who answered: an admin account.
    pub by: String,
    /// Why, in the words of who answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}
