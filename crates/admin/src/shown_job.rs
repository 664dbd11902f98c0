//! Jobs as administrators see them.

use entrepot_nouns::approval::Approval;
use entrepot_nouns::{EventId, Job, JobId, JobStep, Name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job, and what it remembers of its steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShownJob {
    /// The job itself.
    #[serde(flatten)]
    pub job: Job,
    /// The steps that it went past or failed at, in the order in which they ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<JobStep>,
    /// What it asks people, where it rests until they have answered; several things where lists of
    /// a `parallel` ask.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<Approval>,
    /// Another job of its order that has to end before it, the last of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<JobId>,
    /// It waits until somebody resumes its rule, which is paused.
    #[serde(default)]
    pub rule_paused: bool,
    /// It waits until this endpoint of its next step is paused no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint_paused: Option<Name>,
}

/// A rule that was started by hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StartedRule {
    /// The event that says so: `rule.called`.
    pub event: EventId,
    /// The job that it makes; it is there as soon as the event is in the database.
    pub job: JobId,
}

/// By which document of its rule a job goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RetryRule {
    /// By the one that it was made of.
    #[default]
    Pinned,
    /// By the rule as it is now, if that has each step that the job went past or failed at, under
    /// the same address and with the same word.
    Current,
}

/// What becomes of the jobs of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RulePause {
    /// They are made, and wait.
    Paused,
    /// They run, with those that have waited.
    Resumed,
}
