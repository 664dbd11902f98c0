//! What is asked about rules besides why they started, and who answers.

use std::pin::Pin;
use std::sync::Arc;

use entrepot_nouns::dry_run::{DryRunSubject, RuleDryRun};
use entrepot_nouns::explanation::EventName;
use entrepot_nouns::rule_report::{LintFinding, RuleTestResult};
use entrepot_nouns::{Event, Job, Mount, Name, ReplayId, Rule, RuleVersion, Stored, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document_text::Document;
use crate::rule_question::RuleSubject;

/// Rules that are stored, or that documents have.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleSource {
    /// The rule of this name; unset: all there are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Name>,
    /// Documents that are not stored: the rules are those of them. Empty: the stored rules.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<Document>,
}

impl RuleSource {
    /// True if it brings documents, which are checked as `plan` does.
    pub(crate) fn has_documents(&self) -> bool {
        !self.documents.is_empty()
    }
}

/// Says what a rule would do; an error if the process is ending.
pub type RuleDryRunner = Arc<dyn Fn(DryRunSubject) -> DryRunAnswer + Send + Sync>;

/// What a [`RuleDryRunner`] will have said.
pub type DryRunAnswer =
    Pin<Box<dyn Future<Output = std::result::Result<RuleDryRun, String>> + Send>>;

/// Which rule is to be tried, and with which event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DryRunOrder {
    /// The rule of this name; unset: the only one of the documents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<Name>,
    /// Documents that are not stored, of which it is one. Empty: the stored rule.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub documents: Vec<Document>,
    /// The event, or the path of a file: then the newest event about it that the rule starts on.
    /// Where there is none, or nothing is named, an event is made up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub about: Option<RuleSubject>,
    /// The account of an event that is made up; unset: that of the rule's `as`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<Name>,
}

/// What is to be replayed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayOrder {
    /// The rule, by name, as it is stored.
    pub rule: Name,
    /// Of which events.
    pub of: ReplayedEvents,
    /// Whether a job is made again of an event of which the rule has one that ended.
    #[serde(default)]
    pub again: Again,
    /// The id that asking without one has given: the jobs are made. Unset: nothing is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay: Option<ReplayId>,
    /// The part behind this place: what the part before gave as `next`. Unset: the first part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<i64>,
    /// With `after`, where nothing is made: the id that the first part gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<ReplayId>,
    /// With `after`: the document of the rule that the parts before were of. If the rule was
    /// changed since, it is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule_version: Option<RuleVersion>,
}

/// Of which events a rule makes jobs again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum ReplayedEvents {
    /// Of this one: its id, or its number at the site.
    Event(EventName),
    /// Of those of a time.
    Time {
        /// From here on.
        since: Timestamp,
        /// Up to here, not included; unset: up to now.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Timestamp>,
    },
}

/// What becomes of an event of which the rule has a job that ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Again {
    /// It is left out.
    #[default]
    No,
    /// It makes another job.
    Yes,
}

/// Whoever runs rules says these things of them.
#[derive(Clone, Copy)]
pub struct RuleCritics {
    /// What came of the tests of a rule.
    pub test: fn(&Rule) -> Vec<RuleTestResult>,
    /// What of rules is probably not meant, beside the mounts that accounts write to.
    pub lint: fn(&[Rule], &[Mount]) -> Vec<LintFinding>,
    /// The job of a rule that an event makes again, in the replay of this id.
    pub replayed: ReplayedJob,
}

/// The job that a replay makes of an event.
pub type ReplayedJob = fn(&Event, &Stored<Rule>, ReplayId, Timestamp) -> Job;
