//! What events say of jobs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ReplayId;
use crate::name::Name;
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
