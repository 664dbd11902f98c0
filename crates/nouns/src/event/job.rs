//! What events say of jobs, and of what starts them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ReplayId;
use crate::name::Name;
use crate::rule_version::RuleVersion;
use crate::time::Timestamp;

/// An order whose jobs stand still behind one that failed for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoppedFact {
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
    /// What its jobs have in common: what the rule's `order` stands for.
    pub order: String,
    /// Why the job failed, one sentence.
    pub error: String,
}

/// A job whose attempt failed, and that is tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetryingFact {
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
    /// Attempts made so far, counting this one.
    pub attempts: u32,
    /// Why, one sentence.
    pub error: String,
    /// When the next attempt may begin.
    pub due_at: Timestamp,
}

/// Jobs of a rule that were made again by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayedFact {
    /// The rule, by name.
    pub rule: Name,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
    /// The replay, under which no job is made twice.
    pub replay: ReplayId,
    /// How many jobs were made.
    pub jobs: u64,
}

/// A job that was made due again by hand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetriedFact {
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
    /// The document of the rule that it runs from now on, where that was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_version: Option<RuleVersion>,
}

/// A rule whose jobs wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PausedFact {
    /// The rule, by name.
    pub rule: Name,
    /// Who: an admin account, `cli:<user>`, or `node:<name>` of one that ran too often.
    pub by: String,
    /// Of one that ran too often: the path that it ran on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Of one that ran too often: that, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A rule whose jobs go on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ResumedFact {
    /// The rule, by name.
    pub rule: Name,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}
