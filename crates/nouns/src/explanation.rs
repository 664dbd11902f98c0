//! Why an event started the rules of its site, or did not. Nothing here is stored: it is found out
//! when somebody asks, by the rules as they are then.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::Calendar;
use crate::event::Event;
use crate::ids::{EventId, JobId};
use crate::job::JobState;
use crate::name::Name;
use crate::policy::Policy;
use crate::time::Timestamp;

/// What conditions of rules ask for of the site that the rules belong to.
#[derive(Clone, Debug, PartialEq)]
pub struct ExplainedSite {
    /// What it is called.
    pub name: Name,
    /// Its calendars, by the policies that have them.
    pub calendars: BTreeMap<Name, Calendar>,
}

impl ExplainedSite {
    /// The site of this name that has these policies.
    pub fn new(name: Name, policies: impl IntoIterator<Item = Policy>) -> ExplainedSite {
        let policies = policies.into_iter();
        let calendars = policies.filter_map(|policy| Some((policy.name, policy.calendar?)));
        ExplainedSite { name, calendars: calendars.collect() }
    }
}

/// How an event is named by who asks about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub enum EventName {
    /// By its id.
    Id(EventId),
    /// By its sequence number in the audit log of its site.
    Sequence(i64),
}

impl FromStr for EventName {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(sequence) = text.parse() {
            return Ok(EventName::Sequence(sequence));
        }
        let id = text.parse().map(EventName::Id);
        id.map_err(|_| format!("'{text}' is neither the id nor the sequence number of an event"))
    }
}

impl TryFrom<String> for EventName {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<EventName> for String {
    fn from(name: EventName) -> String {
        name.to_string()
    }
}

impl fmt::Display for EventName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            EventName::Id(id) => id.fmt(f),
            EventName::Sequence(sequence) => sequence.fmt(f),
        }
    }
}

/// The answer to the question why an event, or the events about a file, started which rules.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// The event, or the newest events about the path, the newest first.
    pub events: Vec<EventExplanation>,
    /// What is known beyond them, such as why there is none.
    pub remarks: Vec<Remark>,
}

/// Something that explains why no event could start a rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Remark {
    /// Which of the reasons that are known it is.
    pub reason: RemarkReason,
    /// A sentence for people, with what to do.
    pub text: String,
}

/// The reasons why there is no event that could start a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RemarkReason {
    /// No event of the site names the path as that of a file that arrived.
    NeverArrived,
    /// Its upload was interrupted and has not been finished.
    Interrupted,
    /// The file is there under the temporary name of its client only.
    TemporaryName,
    /// Another site has events about it.
    OtherSite,
    /// A file of this name is in another folder.
    OtherFolder,
    /// Older events were not searched.
    NotSearched,
    /// The site has no rule.
    NoRules,
    /// A rule that watches its folder leaves it alone.
    LeftAlone,
    /// A rule that watches its folder has found it, as it is or in an earlier version.
    SeenBefore,
    /// A rule watches its folder, and the folder cannot be listed.
    NotListed,
    /// A rule watches its folder, and has not found it there, or not whole.
    NotFoundYet,
}

/// One event, and what each rule makes of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct EventExplanation {
    /// The event itself.
    pub event: Event,
    /// The file that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The kinds of event that it counts as for rules; none while a file has its client's
    /// temporary name.
    pub counts_as: Vec<String>,
    /// Every rule of the site, or the one that was asked about, by name.
    pub rules: Vec<RuleExplanation>,
}

/// What a rule, as it is now, makes of an event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RuleExplanation {
    /// The rule, by name.
    pub rule: Name,
    /// The first check that decided, or that it starts.
    pub outcome: RuleOutcome,
    /// The same in a sentence.
    pub why: String,
    /// What it starts on, as its `when` says.
    pub trigger: String,
    /// Whether the event, or its command, is what the rule starts on.
    pub trigger_fits: bool,
    /// Whether it is enabled.
    pub enabled: bool,
    /// Its condition. Unset: it has none, or the event is not what the rule starts on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionExplanation>,
    /// How many events had caused each other up to this one.
    pub depth: u8,
    /// From which depth on no rule is started.
    pub depth_limit: u8,
    /// When the rule was changed, if that was after the event: then it may have been another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_at: Option<Timestamp>,
    /// The job that the event made of the rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<ExplainedJob>,
}

/// What decided whether a rule starts; the first of these that holds, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RuleOutcome {
    /// The rule belongs to another site than the event.
    OtherSite,
    /// A client waits for the rule: it is asked about commands and makes no jobs.
    Waited,
    /// The file has the temporary name of its client; its rename to the final name is the arrival.
    TemporaryName,
    /// The rule starts on another kind of event.
    OtherKind,
    /// The rule starts on other commands.
    OtherCommand,
    /// The rule is disabled.
    Disabled,
    /// The condition does not hold.
    ConditionFalse,
    /// The condition cannot be evaluated for this event, or at all.
    ConditionFails,
    /// Too many events caused each other.
    TooDeep,
    /// The event starts the rule.
    Starts,
}

/// A condition and the values of its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConditionExplanation {
    /// As the rule has it.
    pub source: String,
    /// Whether it holds; unset: it cannot be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holds: Option<bool>,
    /// Why that cannot be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The whole expression with its parts; unset: it cannot be compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace: Option<TracedExpression>,
}

/// An expression, its value, and the parts that the value was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TracedExpression {
    /// The expression, written out from what was understood of it.
    pub text: String,
    /// Its value, as the language writes it; a long one is cut. Unset together with `error`: it was
    /// not evaluated, because what stands before it decides already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Why it has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Whether the value of the whole condition comes from this part. Where several parts are
    /// marked, they decided together.
    pub deciding: bool,
    /// What it consists of, but for literals.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<TracedExpression>,
}

/// A job that an event made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExplainedJob {
    /// Names it; it follows from the event and the rule.
    pub id: JobId,
    /// What became of it; unset: there is no such job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<JobState>,
    /// Why its last attempt failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl RuleExplanation {
    /// Whether the job exists.
    pub fn has_job(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.state.is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_named_by_id_or_number() {
        assert_eq!("17".parse(), Ok(EventName::Sequence(17)));
        let id = "0192f1c4-7d7a-7abc-8def-0123456789ab";
        let Ok(EventName::Id(named)) = id.parse() else { panic!("{id} is no id") };
        assert_eq!(named.to_string(), id);
        assert!("x".parse::<EventName>().is_err());
    }
}
