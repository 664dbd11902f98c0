//! Rules: when, if, do, else.

use serde::{Deserialize, Serialize};

use crate::account::{is_yes, yes};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun};
use crate::path::VPath;

/// What a rule starts on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// An event of this kind, such as `file.uploaded`.
    Event(String),
}

/// `when` · `if` · `do` · `else`. Runs as jobs: durable, leased, retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Its name.
    pub name: Name,
    /// A disabled rule starts no new job; running ones go on.
    #[serde(default = "yes", skip_serializing_if = "is_yes")]
    pub enabled: bool,
    /// What it starts on.
    pub when: When,
    /// A CEL expression over `event` and `file` (`path`, `name`, `size`, `digest`); unset: always.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The service account it reads and writes as; unset: the account that caused the event.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<Name>,
    /// Steps, in order.
    #[serde(rename = "do")]
    pub steps: Vec<StepSpec>,
    /// Steps after the last attempt failed.
    #[serde(rename = "else", default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<StepSpec>,
    /// How often and how long it is tried.
    #[serde(default)]
    pub retry: Retry,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// How often and how long a failing job is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Retry {
    /// Attempts in all; 1 = no second try.
    pub attempts: u32,
    /// Seconds before the second attempt; doubles each time, with ± 20 % spread.
    pub first_delay_seconds: u32,
    /// Longest delay in seconds.
    pub longest_delay_seconds: u32,
}

impl Default for Retry {
    fn default() -> Self {
        Retry { attempts: 10, first_delay_seconds: 5, longest_delay_seconds: 3600 }
    }
}

/// One step. In a document a mapping with one key, the step's word.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StepSpec {
    /// Copy the file to an endpoint.
    Deliver(DeliverSpec),
    /// Rename the file within what the account sees.
    Move(MoveSpec),
    /// Remove the file.
    Delete(DeleteSpec),
}

/// Copy the file to an endpoint: read through the account's mounts, written under a temporary
/// name and published whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeliverSpec {
    /// Where to.
    pub endpoint: Name,
    /// Path there. `{name}`, `{stem}`, `{extension}`, `{account}`, `{date}` (UTC, `2026-11-21`),
    /// `{transfer}` are replaced once, from the event.
    #[serde(default = "name_pattern")]
    pub path: String,
    /// What if a file of that name is there.
    #[serde(default)]
    pub existing: Existing,
}

fn name_pattern() -> String {
    "{name}".to_owned()
}

/// What to do about a file that is already there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Existing {
    /// The new one takes its place, whole.
    #[default]
    Replace,
    /// The step fails and is not tried again.
    Refuse,
}

/// Rename the file within what the account sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MoveSpec {
    /// New path; the same placeholders as [`DeliverSpec::path`].
    pub to: String,
    /// What if a file of that name is there.
    #[serde(default)]
    pub existing: Existing,
}

/// Remove the file.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DeleteSpec {
    /// Another file than the one of the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<VPath>,
}

impl Noun for Rule {
    const KIND: Kind = Kind::Rule;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<(Kind, Name)> {
        let steps = self.steps.iter().chain(&self.otherwise);
        let endpoints = steps.filter_map(|step| match step {
            StepSpec::Deliver(deliver) => Some((Kind::Endpoint, deliver.endpoint.clone())),
            _ => None,
        });
        endpoints.chain(self.run_as.iter().map(|name| (Kind::Account, name.clone()))).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        let When::Event(kind) = &self.when;
        if !crate::event::Fact::KINDS.contains(&kind.as_str()) {
            let known = crate::event::Fact::KINDS.join(", ");
            return Err(FieldError::new("when.event", format!("no such event; known: {known}")));
        }
        if self.steps.is_empty() {
            return Err(FieldError::new("do", "a rule needs at least one step"));
        }
        if self.retry.attempts == 0 {
            return Err(FieldError::new("retry.attempts", "at least 1"));
        }
        Ok(())
    }
}
