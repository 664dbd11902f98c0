//! Steps that decide how a job goes on. They touch nothing outside it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use schemars::JsonSchema;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::{Step, StepFlaw};
use crate::document::{OnByDefault, is_default};
use crate::limits::{
    APPROVAL_TEXT_BYTES, APPROVALS, APPROVE_LONGEST, APPROVE_WITHIN, APPROVERS, EACH_AT_ONCE,
    EACH_FOUND, FILE_PATTERNS, PARALLEL_BRANCHES, WAIT_LONGEST, WAIT_WITHIN,
};
use crate::name::Name;
use crate::period::Period;
use crate::watch::{FileChoice, FilePattern, is_temporary, temporary};

/// Goes on with one of two lists of steps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IfSpec {
    /// A CEL expression as that of the rule, which may also look at `vars` and `steps`. It is
    /// decided once: later attempts of the job take the same branch.
    pub when: String,
    /// The steps if it holds.
    pub then: Vec<Step>,
    /// The steps if it does not.
    #[serde(rename = "else", default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Step>,
}

/// Runs steps once for each item of a list. Each turn begins with the file that steps worked on
/// before, and the steps behind it have that file again; files that steps made in a turn go with
/// its end. Variables that a turn sets are there in the next, unless turns run at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EachSpec {
    /// A CEL expression that gives a list, of 10,000 items and 1 MiB as JSON at most, such as
    /// `hook.body.orders` or `steps.look.out.names`. It is asked once: later attempts of the job
    /// have the same list.
    #[serde(rename = "in", default, skip_serializing_if = "Option::is_none")]
    pub list: Option<String>,
    /// In place of `in`: files at an endpoint, listed once. Each item has `path`, `name`, `size`
    /// and `modified`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub find: Option<FindSpec>,
    /// How many turns run at the same time, on the node that has the job; from 1 to 16. Of more
    /// than one, each has the variables that were there before the `each`, and so have the steps
    /// behind it; and no turn may take the file away.
    #[serde(default = "one_at_once", skip_serializing_if = "is_one_at_once")]
    pub at_once: u32,
    /// What is done with each: `item` and `index`, from 0 on, in conditions; `{item}`,
    /// `{item.FIELD}` and `{index}` in placeholders.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
}

/// Files at an endpoint, in the order of their paths.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindSpec {
    /// Where they are: a directory, a bucket, an SFTP or FTP server.
    pub endpoint: Name,
    /// The folder there, which may have placeholders.
    #[serde(default = "root", skip_serializing_if = "is_root")]
    pub path: String,
    /// Which of them: by name, or by the path below the folder if the pattern has a slash. Empty:
    /// all.
    #[serde(rename = "match", default, skip_serializing_if = "Vec::is_empty")]
    pub matching: Vec<FilePattern>,
    /// Which of them not; unset: names that are temporary by custom, such as `*.part` and `.*`.
    #[serde(default = "temporary", skip_serializing_if = "is_temporary")]
    pub ignore: Vec<FilePattern>,
    /// Also in the folders below it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub recursive: bool,
    /// The first so many of them; `steps.NAME.more` says whether there are more.
    #[serde(default = "thousand", skip_serializing_if = "is_thousand")]
    pub limit: u32,
}

fn root() -> String {
    "/".to_owned()
}

const fn one_at_once() -> u32 {
    1
}

const fn thousand() -> u32 {
    1_000
}

// The signatures are what serde's `skip_serializing_if` asks for.
fn is_root(path: &str) -> bool {
    path == "/"
}

fn is_one_at_once(count: &u32) -> bool {
    *count == one_at_once()
}

fn is_thousand(limit: &u32) -> bool {
    *limit == thousand()
}

impl FindSpec {
    /// Which files it means. What a job has taken is never one of them.
    pub fn files(&self) -> FileChoice<'_> {
        FileChoice { matching: &self.matching, ignore: &self.ignore, recursive: self.recursive }
    }
}

impl EachSpec {
    /// The folder whose files it goes through, with its placeholders.
    pub fn folder(&self) -> Option<&str> {
        self.find.as_ref().map(|find| find.path.as_str())
    }

    /// Whether its parts go together.
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        if self.list.is_some() == self.find.is_some() {
            return Err(("each", "says what it goes through: a list 'in', or files to 'find'"));
        }
        if self.steps.is_empty() {
            return Err(("each.do", "needs at least one step"));
        }
        if !(1..=EACH_AT_ONCE).contains(&self.at_once) {
            return Err(("each.at_once", "is from 1 to 16"));
        }
        let Some(find) = &self.find else { return Ok(()) };
        if find.matching.len() > FILE_PATTERNS || find.ignore.len() > FILE_PATTERNS {
            return Err(("each.find", "has more than 64 patterns"));
        }
        if !(1..=EACH_FOUND).contains(&find.limit) {
            return Err(("each.find.limit", "is from 1 to 10000"));
        }
        Ok(())
    }
}

/// Runs lists of steps at the same time, on the node that has the job. Each begins with the file
/// and the variables that were there before, and the steps behind it have those again; of the
/// named steps of all lists `steps.NAME` stays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ParallelSpec {
    /// How many of the lists must come to their end.
    #[serde(default, skip_serializing_if = "is_default")]
    pub need: ParallelNeed,
    /// From 2 to 16 lists of steps. None of them may take the file away. A list that waits lets the
    /// others go on; the job rests when all that are left wait.
    #[serde(rename = "do")]
    pub branches: Vec<Vec<Step>>,
}

/// How many branches of a `parallel` must come to their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ParallelNeed {
    /// Each of them: one that fails ends the others at their next step, and fails the attempt.
    #[default]
    All,
    /// One of them: it ends the others at their next step. The attempt fails if all do.
    Any,
}

impl ParallelSpec {
    /// What the lists are known by inside the step: their field in the document.
    const KEYS: [&'static str; PARALLEL_BRANCHES] = [
        "do.0", "do.1", "do.2", "do.3", "do.4", "do.5", "do.6", "do.7", "do.8", "do.9", "do.10",
        "do.11", "do.12", "do.13", "do.14", "do.15",
    ];

    /// Its lists, each with its field.
    pub(crate) fn lists(&self) -> Vec<(&'static str, &[Step])> {
        Self::KEYS.into_iter().zip(self.branches.iter().map(Vec::as_slice)).collect()
    }

    /// The field that cannot be so, if one cannot, and why.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        if !(2..=PARALLEL_BRANCHES).contains(&self.branches.len()) {
            return Err(("parallel.do", "from 2 to 16 lists of steps"));
        }
        if self.branches.iter().any(Vec::is_empty) {
            return Err(("parallel.do", "each list needs at least one step"));
        }
        Ok(())
    }
}

/// Gives values names, for conditions and placeholders of later steps: `vars.NAME` and
/// `{vars.NAME}`. In a document a mapping from each name to a CEL expression; each may look at
/// those above it.
#[derive(Clone, Debug, PartialEq, Default)]
pub struct SetSpec(pub Vec<Variable>);

/// One value of a `set` step.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// A letter, then letters, digits and `_`.
    pub name: String,
    /// A CEL expression.
    pub expression: String,
}

/// Fails the job, for good, unless a condition holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckSpec {
    /// A CEL expression as that of a step's `if`.
    pub that: String,
    /// What the error of the job says if it does not hold; placeholders as in paths.
    pub message: String,
}

/// Ends the job before the steps that follow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StopSpec {
    /// How it ends.
    #[serde(rename = "as", default)]
    pub ending: StopEnding,
    /// Why, for whoever reads the job; placeholders as in paths. Required where it fails.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// Lets the job rest. It holds no place of a pool meanwhile, and goes on after a restart of the
/// node, or on another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WaitSpec {
    /// For so long from now on; as text: `30s`, `4h`.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub period: Option<Period>,
    /// Until this instant: a CEL expression that gives one, such as
    /// `timestamp(event.at) + duration('24h')`. One that is over lets the job go on at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Until an event comes: one that is told of behind the event which the job is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event: Option<AwaitedEvent>,
    /// With `event`: how long; at most 30 days. If none comes in that time, the job fails for good.
    /// Unset: `24h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<Period>,
}

/// An event that a job waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AwaitedEvent {
    /// Its kind, such as `file.uploaded`.
    pub kind: String,
    /// A CEL expression in which `event`, `file`, `account` and so on are those of the event that
    /// came, and `vars`, `steps` and `item` those of the job. Unset: any of that kind.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

impl WaitSpec {
    /// How long an event may take.
    pub fn within(&self) -> Period {
        self.within.unwrap_or(WAIT_WITHIN)
    }

    /// Whether its parts go together.
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        let ways = [self.period.is_some(), self.until.is_some(), self.event.is_some()];
        if ways.into_iter().filter(|is_said| *is_said).count() != 1 {
            return Err(("wait", "says 'for' how long, 'until' when, or for which 'event'"));
        }
        if self.within.is_some() && self.event.is_none() {
            return Err(("wait.within", "goes with 'event'"));
        }
        if self.within().duration().is_zero() || self.within() > WAIT_LONGEST {
            return Err(("wait.within", "from 1s to 30d"));
        }
        Ok(())
    }
}

/// Starts another rule of the site, one that starts by `call`, once: another attempt of the step,
/// also on another node, finds the job that the first one started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallSpec {
    /// The rule that is started.
    pub rule: Name,
    /// A CEL expression for each parameter that it gets; the others have their defaults.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, String>,
    /// The job rests until that of the other rule has ended, and fails if that one did; else it
    /// goes on at once.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub wait: bool,
}

/// Asks people whether the job may go on, and lets it rest until enough of them have said yes. One
/// no, or the end of the time, fails it for good.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApproveSpec {
    /// Who may answer: accounts of type admin of the rule's site, and groups, for each account of
    /// type admin that is in them. Never who caused the event.
    pub by: Vec<Name>,
    /// How long they may take; at most 30 days.
    #[serde(default = "approve_within", skip_serializing_if = "is_approve_within")]
    pub within: Period,
    /// What they read; placeholders as in paths.
    pub text: String,
    /// How many of them must say yes.
    #[serde(default = "approve_need", skip_serializing_if = "is_approve_need")]
    pub need: u32,
}

impl ApproveSpec {
    /// The field that cannot be so, if one cannot, and why.
    pub(crate) fn check(&self) -> Result<(), (&'static str, &'static str)> {
        let names: BTreeSet<&Name> = self.by.iter().collect();
        if self.by.is_empty() || self.by.len() > APPROVERS {
            return Err(("approve.by", "name from 1 to 20 accounts or groups that may answer"));
        }
        if names.len() < self.by.len() {
            return Err(("approve.by", "the same name stands there twice"));
        }
        if self.text.trim().is_empty() || self.text.len() > APPROVAL_TEXT_BYTES {
            return Err(("approve.text", "say in 1,000 bytes at most what is to be approved"));
        }
        if self.within.duration().is_zero() || self.within > APPROVE_LONGEST {
            return Err(("approve.within", "from 1s to 30d"));
        }
        if self.need == 0 || self.need > APPROVALS {
            return Err(("approve.need", "from 1 to 20"));
        }
        Ok(())
    }
}

fn approve_within() -> Period {
    APPROVE_WITHIN
}

fn approve_need() -> u32 {
    1
}

// The signatures are what serde's `skip_serializing_if` asks for.
fn is_approve_within(within: &Period) -> bool {
    *within == approve_within()
}

fn is_approve_need(need: &u32) -> bool {
    *need == approve_need()
}

/// How a `stop` step ends a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StopEnding {
    /// All that was to be done is done.
    #[default]
    Done,
    /// It failed: the steps of `else` follow, and it is not tried again.
    Failed,
}

impl Serialize for SetSpec {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_map(self.0.iter().map(|variable| (&variable.name, &variable.expression)))
    }
}

impl<'de> Deserialize<'de> for SetSpec {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(SetVisitor)
    }
}

impl JsonSchema for SetSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SetSpec".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Gives values names, for conditions and placeholders of later steps.",
            "type": "object",
            "additionalProperties": {"type": "string", "description": "A CEL expression."},
        })
    }
}

/// Keeps the order of the document, which a map does not.
struct SetVisitor;

impl<'de> Visitor<'de> for SetVisitor {
    type Value = SetSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a mapping from names to CEL expressions")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<SetSpec, A::Error> {
        let mut variables: Vec<Variable> = Vec::new();
        while let Some((name, expression)) = map.next_entry::<String, String>()? {
            if !is_variable_name(&name) {
                return Err(A::Error::custom(format!(
                    "'{name}' is no name of a variable: begin with a letter, and use letters, \
                     digits and '_'"
                )));
            }
            if variables.iter().any(|variable| variable.name == name) {
                return Err(A::Error::custom(format!("'{name}' is set twice")));
            }
            variables.push(Variable { name, expression });
        }
        if variables.is_empty() {
            return Err(A::Error::custom("set at least one variable"));
        }
        Ok(SetSpec(variables))
    }
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic())
        && name.len() <= 64
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}
