//! What a rule would do for an event, step by step. It is found out by looking: nothing is changed,
//! nothing is recorded, and what a look cannot tell is said to be unknown.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::event::Event;
use crate::explanation::{ConditionExplanation, ExplainedSite, RuleExplanation};
use crate::name::Name;
use crate::noun::Stored;
use crate::rule::Rule;
use crate::rule_version::StepAddress;
use crate::time::Timestamp;

/// What is to be tried, and with which event.
#[derive(Clone, Debug)]
pub struct DryRunSubject {
    /// The rule, stored or not.
    pub rule: Stored<Rule>,
    /// The site that the rule belongs to.
    pub site: ExplainedSite,
    /// Events that it may be tried with, the best first: the first that the rule starts on is
    /// taken, else the first. Without any, one is made up.
    pub events: Vec<Event>,
    /// The path of an event that is made up.
    pub path: Option<String>,
    /// The account of an event that is made up.
    pub account: Option<Name>,
}

/// What a rule would do for an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleDryRun {
    /// The event that was taken.
    pub event: Event,
    /// Whether it happened.
    pub origin: EventOrigin,
    /// Whether the rule starts on it, and why.
    pub start: RuleExplanation,
    /// The account whose files the steps work on; unset: there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
    /// The file of the event, and what is there now; unset: the event is about no file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<LookedAt>,
    /// The steps of `do`, whether or not the rule starts.
    pub steps: Vec<ForeseenStep>,
    /// The steps of `else`, if those of `do` would fail.
    #[serde(rename = "else", default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<ForeseenStep>,
    /// How a job would end.
    pub ending: ForeseenEnding,
    /// The same in a sentence.
    pub why: String,
}

/// Where the event of a dry run comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EventOrigin {
    /// It is in the audit log.
    Recorded,
    /// There is none: it was made up, like any other that the rule starts on.
    MadeUp,
}

/// How a job would end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ForeseenEnding {
    /// All its steps would be behind it.
    Done,
    /// A step would end it before the others.
    Stopped,
    /// A step would fail.
    Failed,
    /// It depends on what a step finds when it runs.
    Unknown,
}

/// One step, as far as it can be foreseen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ForeseenStep {
    /// What jobs know it by.
    pub address: StepAddress,
    /// Its word in a document.
    pub word: String,
    /// Whether it would run.
    pub outcome: StepOutcome,
    /// What it would do, or why not, in a sentence.
    pub what: String,
    /// Its expressions with the values of their parts: its `if`, and those of the step itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub expressions: Vec<ForeseenExpression>,
    /// The placeholders of its texts and what stands for them; one that has no value is left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub values: BTreeMap<String, String>,
    /// Where it would write or remove a file, and what is there now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<LookedAt>,
    /// The branch that would be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The steps of that branch.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<ForeseenStep>,
}

/// Whether a step would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// It would run, and what it does is known.
    Runs,
    /// Its `if` is false.
    Skipped,
    /// It would fail.
    Fails,
    /// It would run; what comes of it shows only then.
    Unknown,
    /// The job would end before it.
    NotReached,
}

/// An expression of a step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ForeseenExpression {
    /// The field that has it, such as `if` or `set`.
    pub field: String,
    /// Its value, and those of its parts.
    pub explained: ConditionExplanation,
}

/// A place for a file, and what was there when it was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LookedAt {
    /// The endpoint; unset: the path is one of the account's view.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Name>,
    /// The path there.
    pub path: String,
    /// What is there.
    pub found: LookedFor,
}

/// What a look at a path found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookedFor {
    /// Nothing has this name.
    Nothing,
    /// A file has the name.
    File {
        /// Its size in bytes.
        size: u64,
        /// When it changed last.
        modified: Timestamp,
    },
    /// A directory has the name.
    Directory,
    /// It could not be looked at.
    Unknown {
        /// Why it was not seen.
        why: String,
    },
}
