//! Jobs: durable runs of rules.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::{Event, Fact};
use crate::ids::{EventId, JobId, NodeId, SiteId};
use crate::lane::JobLane;
use crate::name::Name;
use crate::rule_version::{RuleVersion, StepAddress};
use crate::time::Timestamp;

/// The life of a job.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobState {
    /// Waits for a worker, from `due_at` on.
    Ready,
    /// Leased by a node until `leased_until`.
    Running,
    /// All steps done.
    Done,
    /// The last attempt failed: the dead-letter state. `retry` makes it ready again.
    Failed,
    /// Ended by an operator.
    Cancelled,
}

impl JobState {
    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            JobState::Ready => "ready",
            JobState::Running => "running",
            JobState::Done => "done",
            JobState::Failed => "failed",
            JobState::Cancelled => "cancelled",
        }
    }

    /// Whether nothing more is done for it, unless an operator asks for it.
    pub fn has_ended(self) -> bool {
        matches!(self, JobState::Done | JobState::Failed | JobState::Cancelled)
    }
}

/// The process that has leased a job. With the job's epoch it is the token that each later write
/// for the job carries.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
pub struct JobHolder {
    /// The node whose process it is.
    pub node: NodeId,
    /// Which start of the node: a lease ends with the process that took it.
    pub incarnation: i64,
    /// The era of the database at the claim: epochs fall back with a database that does.
    pub era: String,
}

/// How far a step of a job came.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepState {
    /// It is behind the job.
    Done,
    /// Its `if` was false: it is behind the job, and nothing was done.
    Skipped,
    /// It failed for good, and the job went on.
    Ignored,
    /// An attempt of the job ended with it, or it is a step of `else` that failed.
    Failed,
    /// It was begun, and nobody was there to say how it ended: recorded before the effect of a step
    /// whose rule says what is to be done `after_crash`.
    Begun,
}

impl StepState {
    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            StepState::Done => "done",
            StepState::Skipped => "skipped",
            StepState::Ignored => "ignored",
            StepState::Failed => "failed",
            StepState::Begun => "begun",
        }
    }
}

/// What is remembered of a step of a job: of each that the job went past or failed at. A job of
/// one step that went well remembers none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobStep {
    /// Which step of the rule.
    pub address: StepAddress,
    /// How far it came.
    pub state: StepState,
    /// The lease of the job in which it ran.
    pub epoch: i64,
    /// When it was begun.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What later steps need to know of it, such as the `path` to which it moved the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<serde_json::Value>,
    /// Why it failed, one sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// One durable run of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Job {
    /// Its id; derived from event and rule, so that one event makes one job of a rule.
    pub id: JobId,
    /// The site that owns the rule and the event.
    pub site: SiteId,
    /// The rule, by name.
    pub rule: Name,
    /// The event that started it.
    pub event_id: EventId,
    /// That event, whole: what the steps work on.
    pub event: Event,
    /// Where it is in its life; only `ready` and `running` can still change by themselves.
    pub state: JobState,
    /// The document of the rule that it runs, whatever became of the rule since. Unset for a job
    /// of a program that did not say: that runs the rule as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_version: Option<RuleVersion>,
    /// The step it goes on with; unset: the first that is not behind it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<StepAddress>,
    /// In which lane it runs or waits.
    #[serde(default, skip_serializing_if = "crate::document::is_default")]
    pub lane: JobLane,
    /// Jobs with the same text here run one after the other: what `order` of the rule gave for the
    /// event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<String>,
    /// Attempts begun since it was made or made ready by hand, one for each lease.
    pub attempts: u32,
    /// Fencing token: one more at each lease; every later write carries it.
    pub epoch: i64,
    /// How many leases, since it was made or made ready by hand, ended because its next step runs
    /// in another lane: they are no attempts.
    #[serde(default, skip_serializing_if = "crate::document::is_default")]
    pub handed_over: u32,
    /// The node that holds the lease.
    pub node: Option<Name>,
    /// The process of that node, and the era of its lease; it stays when the lease has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<JobHolder>,
    /// The job was made, or worked on, before the database fell back behind it: a run may find
    /// its effects done already.
    #[serde(default, skip_serializing_if = "crate::document::is_default")]
    pub repeated: bool,
    /// When the lease ends.
    pub leased_until: Option<Timestamp>,
    /// Not before this.
    pub due_at: Timestamp,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it last changed.
    pub changed_at: Timestamp,
    /// Why the last attempt failed, one sentence.
    pub error: Option<String>,
}

impl Job {
    /// A job of `rule` that `event` starts at `now`, and of which nothing is done yet.
    pub fn new(id: JobId, rule: Name, event: Event, now: Timestamp) -> Job {
        Job {
            id,
            site: event.site,
            rule,
            event_id: event.id,
            event,
            state: JobState::Ready,
            rule_version: None,
            at: None,
            lane: JobLane::default(),
            order: None,
            attempts: 0,
            epoch: 0,
            handed_over: 0,
            node: None,
            holder: None,
            repeated: false,
            leased_until: None,
            due_at: now,
            created_at: now,
            changed_at: now,
            error: None,
        }
    }

    /// The job of which a step started it, and that may rest until it has ended.
    pub fn caller(&self) -> Option<JobId> {
        self.event.job.filter(|_| matches!(self.event.fact, Fact::RuleCalled { .. }))
    }

    /// The epoch before its first lease since it was made or made ready by hand: the same for
    /// every lease of one life of the job.
    pub fn life(&self) -> i64 {
        let leases = i64::from(self.attempts).saturating_add(i64::from(self.handed_over));
        self.epoch.saturating_sub(leases)
    }
}
