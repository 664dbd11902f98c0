//! What is found out about rules before they run, and what running them again would make.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::explanation::ExplainedJob;
use crate::ids::{EventId, JobId, ReplayId};
use crate::name::Name;
use crate::rule_version::RuleVersion;
use crate::time::Timestamp;

/// The tests of a rule, and what came of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleTestReport {
    /// The rule, by name.
    pub rule: Name,
    /// Each of its tests, in order.
    pub tests: Vec<RuleTestResult>,
}

/// What came of one test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleTestResult {
    /// Its place among the tests of its rule, from 0.
    pub place: u32,
    /// Whether the rule does what the test says.
    pub outcome: TestOutcome,
    /// What was expected, and what was found.
    pub why: String,
}

/// Whether a rule does what a test says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TestOutcome {
    /// The rule does what the test says.
    Passed,
    /// It does not, or the test cannot be tried.
    Failed,
}

/// Something about a rule that is allowed, and probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LintFinding {
    /// The rule, by name.
    pub rule: Name,
    /// Which of the flaws that are looked for it is.
    pub flaw: RuleFlaw,
    /// The field of the rule.
    pub field: String,
    /// What is wrong, and what to do.
    pub text: String,
}

/// The flaws of rules that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleFlaw {
    /// An expression is the same for every event.
    ConstantCondition,
    /// Two rules move or remove the file of the same event.
    SameFile,
    /// A rule before commands refuses what starts it.
    Shadowed,
    /// What it does starts it again.
    StartsItself,
    /// A step needs a file that a step before it has removed.
    ReadAfterDelete,
    /// All files are written to the same name, each in place of the one before.
    FixedTarget,
    /// It watches a folder that clients of this server write to.
    OwnFolder,
    /// A step has what looks like a secret in plain text.
    PlainSecret,
}

/// What differs between a rule as a document has it and as it is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleDiff {
    /// The rule, by name.
    pub rule: Name,
    /// Whether a rule of this name is stored.
    pub stored: bool,
    /// What differs; empty: they mean the same.
    pub changes: Vec<RuleChange>,
    /// How many events were looked at, the newest ones.
    pub events: u32,
    /// When the oldest of them happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// On how many of them both start.
    pub unchanged: u32,
    /// Those on which only the document starts.
    pub gained: Vec<DiffedEvent>,
    /// Those on which only the stored rule starts.
    pub lost: Vec<DiffedEvent>,
}

/// A field that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleChange {
    /// Its path; a step stands under what jobs know it by.
    pub field: String,
    /// As it is stored; unset: it is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Value>,
    /// As the document has it; unset: it has not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Value>,
}

/// An event on which one of two rules starts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiffedEvent {
    /// Names the event.
    pub id: EventId,
    /// When it happened.
    pub at: Timestamp,
    /// The kind of the event.
    pub kind: String,
    /// The file that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Why the other one does not start on it.
    pub why: String,
}

/// The jobs that a rule makes again of events, or a part of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleReplay {
    /// The rule, by name.
    pub rule: Name,
    /// The name of this replay; ordering it makes the jobs.
    pub replay: ReplayId,
    /// Whether the jobs were made.
    pub made: bool,
    /// The first moment of which events were looked at; unset: of one event alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// The end of the time of which events were looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The document of the rule that the jobs run.
    pub rule_version: RuleVersion,
    /// How many events were looked at.
    pub events: u32,
    /// When the last of them happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<Timestamp>,
    /// The events on which the rule starts, the oldest first.
    pub jobs: Vec<ReplayedEvent>,
    /// More events follow: `after` of the order of the next part. Unset: this is the last part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<i64>,
}

impl RuleReplay {
    /// Takes in the part that follows.
    pub fn go_on(&mut self, part: RuleReplay) {
        self.events = self.events.saturating_add(part.events);
        self.jobs.extend(part.jobs);
        (self.reached, self.next) = (part.reached.or(self.reached), part.next);
    }

    /// How many jobs were made, or would be.
    pub fn jobs_made(&self) -> usize {
        self.jobs.iter().filter(|event| event.job.is_some()).count()
    }
}

/// An event on which a rule starts again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReplayedEvent {
    /// Names the event.
    pub event: EventId,
    /// When it happened.
    pub at: Timestamp,
    /// The file that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The jobs that the rule has made of it before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub earlier: Vec<ExplainedJob>,
    /// The job that is made; unset: none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<JobId>,
    /// Why none is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_out: Option<String>,
}
