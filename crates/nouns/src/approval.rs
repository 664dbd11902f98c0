//! What an `approve` step of a job asks, and what people answered.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::JobId;
use crate::name::Name;
use crate::rule_version::StepAddress;
use crate::time::Timestamp;

/// A question of an `approve` step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The job that rests until it is answered.
    pub job: JobId,
    /// The step that asks.
    pub step: StepAddress,
    /// Which life of the job asks: a job that is retried by hand asks anew.
    pub life: i64,
    /// The rule of the job, by name; it may have been deleted since.
    pub rule: Name,
    /// What people read.
    pub text: String,
    /// Who may answer: accounts of type admin, and groups of such accounts.
    pub by: Vec<Name>,
    /// How many people must approve.
    pub need: u32,
    /// How many have approved so far.
    #[serde(default)]
    pub yes: u32,
    /// When it was asked.
    pub asked_at: Timestamp,
    /// It can be answered until then.
    pub until: Timestamp,
    /// When nothing was left to answer: enough people approved, somebody refused, or the time was
    /// over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_at: Option<Timestamp>,
    /// The answers, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<ApprovalAnswer>,
}

/// What one person answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalAnswer {
    /// The account that answered.
    pub account: Name,
    /// What it said.
    pub verdict: ApprovalVerdict,
    /// Why, in its words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it answered.
    pub at: Timestamp,
}

/// What somebody says to a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ApprovalVerdict {
    /// The job may go on.
    Approved,
    /// It may not, whatever others say.
    Refused,
}

impl ApprovalVerdict {
    /// The word in documents and tables.
    pub fn as_str(self) -> &'static str {
        match self {
            ApprovalVerdict::Approved => "approved",
            ApprovalVerdict::Refused => "refused",
        }
    }
}

/// How a question stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ApprovalState<'a> {
    /// Not enough people have answered.
    Waiting,
    /// Enough people approved.
    Approved,
    /// Somebody said no, in these words; other answers do not matter.
    Refused(&'a ApprovalAnswer),
    /// The time was over before enough people had approved.
    Over,
}

impl Approval {
    /// How it stands, by the answers and by whether it was closed.
    pub fn state(&self) -> ApprovalState<'_> {
        let is_refusal = |it: &&ApprovalAnswer| it.verdict == ApprovalVerdict::Refused;
        match self.answers.iter().find(is_refusal) {
            Some(refusal) => ApprovalState::Refused(refusal),
            None if self.yes >= self.need => ApprovalState::Approved,
            None if self.decided_at.is_some() => ApprovalState::Over,
            None => ApprovalState::Waiting,
        }
    }

    /// What the job waits for, behind `waits`.
    pub fn waits(&self) -> String {
        let by: Vec<&str> = self.by.iter().map(Name::as_str).collect();
        format!(
            "for an approval by {} until {} ({} of {})",
            by.join(" or "),
            self.until,
            self.yes,
            self.need
        )
    }
}
