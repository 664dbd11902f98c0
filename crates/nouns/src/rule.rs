//! Rules: when, if, do, else.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::command::CommandPattern;
use crate::cron::Cron;
use crate::document::{OnByDefault, is_default};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::path::VPath;

/// What a rule starts on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum When {
    /// An event of this kind, such as `file.uploaded`.
    Event(String),
    /// One of these commands came and has not run: it may be refused.
    Before(Vec<CommandPattern>),
    /// One of these commands has run.
    After(Vec<CommandPattern>),
    /// The clock, by a schedule.
    Cron(Cron),
}

impl When {
    /// The commands it starts on, if any.
    pub fn commands(&self) -> &[CommandPattern] {
        match self {
            When::Event(_) | When::Cron(_) => &[],
            When::Before(commands) | When::After(commands) => commands,
        }
    }
}

/// `when` · `if` · `do` · `else`. Runs as jobs: durable, leased, retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique among the rules of its site; never changes.
    pub name: Name,
    /// A disabled rule starts no new job; running ones go on.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// What it starts on.
    pub when: When,
    /// A CEL expression over `event`, `file` (`path`, `name`, `size`, `digest`) and `command`;
    /// unset: always.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepSpec {
    /// Copy the file to an endpoint.
    Deliver(DeliverSpec),
    /// Rename the file within what the account sees.
    Move(MoveSpec),
    /// Remove the file.
    Delete(DeleteSpec),
    /// Run a program.
    Exec(ExecSpec),
    /// Refuse the command; only in rules `before` a command.
    Refuse(RefuseSpec),
}

/// Run a program: the argument list as it stands, never a shell. Exit code 0 is done, 1 is done
/// with a warning, anything else failed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecSpec {
    /// Absolute path of a program that the process file allows, and its arguments. In each
    /// argument alone placeholders are replaced once; see `docs/configuration.md`.
    pub argv: Vec<String>,
    /// More environment; placeholders as in `argv`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What it reads.
    #[serde(default, skip_serializing_if = "is_default")]
    pub stdin: ExecStdin,
    /// It is killed, with all it started, when this is over.
    #[serde(default = "exec_seconds", skip_serializing_if = "is_exec_seconds")]
    pub timeout_seconds: u32,
    /// Its address space in MiB.
    #[serde(default = "exec_memory", skip_serializing_if = "is_exec_memory")]
    pub memory_mib: u32,
    /// In a rule `after` a command: whether the reply waits for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub reply: ReplyTime,
    /// Where a client waits for it: the reply code of FTP if it fails, 4xx or 5xx. A client of
    /// SFTP is told that the request failed (4xx) or is denied (5xx).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_code: Option<u16>,
}

/// What a program reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ExecStdin {
    /// Standard input is empty.
    #[default]
    None,
    /// The bytes of the file.
    File,
}

/// When the reply of a command leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ReplyTime {
    /// At once; the program runs as a durable job.
    #[default]
    Leave,
    /// When the program has ended well; else the client is told of the failure.
    Wait,
}

/// Refuse the command with these words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RefuseSpec {
    /// The reply code of FTP, any 4xx or 5xx. A client of SFTP is told that the request failed
    /// (4xx) or is denied (5xx).
    #[serde(default = "refuse_code")]
    pub code: u16,
    /// One line that the client gets: why it was refused, and what to do. 1,000 bytes at most.
    pub text: String,
}

fn refuse_code() -> u16 {
    550
}

fn exec_seconds() -> u32 {
    60
}

fn exec_memory() -> u32 {
    1024
}

// The signatures are what serde's `skip_serializing_if` asks for.
fn is_exec_seconds(seconds: &u32) -> bool {
    *seconds == exec_seconds()
}

fn is_exec_memory(mib: &u32) -> bool {
    *mib == exec_memory()
}

/// Copy the file to an endpoint: read through the account's mounts, written under a temporary
/// name and published whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeliverSpec {
    /// The endpoint that gets the copy.
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Existing {
    /// The new one takes its place, whole.
    #[default]
    Replace,
    /// The step fails and is not tried again.
    Refuse,
}

/// Rename the file within what the account sees.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MoveSpec {
    /// New path; the same placeholders as [`DeliverSpec::path`].
    pub to: String,
    /// What if a file of that name is there.
    #[serde(default)]
    pub existing: Existing,
}

/// Remove the file.
#[derive(Clone, Debug, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
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
    fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        for (list, steps) in [("do", &self.steps), ("else", &self.otherwise)] {
            for (at, step) in steps.iter().enumerate() {
                if let StepSpec::Deliver(deliver) = step {
                    let field = format!("{list}[{at}].deliver.endpoint");
                    found.push(Reference::new(field, Kind::Endpoint, &deliver.endpoint));
                }
            }
        }
        found.extend(self.run_as.iter().map(|name| Reference::new("as", Kind::Account, name)));
        found
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.steps.is_empty() {
            return Err(FieldError::new("do", "a rule needs at least one step"));
        }
        match &self.when {
            When::Event(kind) => {
                if !crate::event::Fact::KINDS.contains(&kind.as_str()) {
                    let known = crate::event::Fact::KINDS.join(", ");
                    let text = format!("no such event; known: {known}");
                    return Err(FieldError::new("when.event", text));
                }
            }
            When::Before(commands) | When::After(commands) => {
                if commands.is_empty() {
                    return Err(FieldError::new("when", "name at least one command"));
                }
            }
            When::Cron(_) => {}
        }
        self.check_steps()?;
        if self.retry.attempts == 0 {
            return Err(FieldError::new("retry.attempts", "at least 1"));
        }
        Ok(())
    }
    fn programs(&self) -> Vec<&str> {
        let steps = self.steps.iter().chain(&self.otherwise);
        let programs = steps.filter_map(|step| match step {
            StepSpec::Exec(exec) => exec.argv.first().map(String::as_str),
            _ => None,
        });
        programs.collect()
    }
}

impl Rule {
    /// Whether a client waits for its steps: they run at once, in order, once; else they are a
    /// durable job.
    pub fn is_waited_for(&self) -> bool {
        match &self.when {
            When::Event(_) | When::Cron(_) => false,
            When::Before(_) => true,
            When::After(_) => {
                self.steps.iter().any(|step| matches!(step, StepSpec::Exec(exec) if exec.waits()))
            }
        }
    }

    fn check_steps(&self) -> Result<(), FieldError> {
        let waited = self.is_waited_for();
        if waited && !(self.otherwise.is_empty() && self.run_as.is_none()) {
            let text = "a client waits for this rule: it has no 'else' and no 'as'";
            return Err(FieldError::new("when", text));
        }
        for (list, steps) in [("do", &self.steps), ("else", &self.otherwise)] {
            for (at, step) in steps.iter().enumerate() {
                let checked = match step {
                    StepSpec::Exec(exec) => exec.check(self),
                    StepSpec::Refuse(refuse) if matches!(self.when, When::Before(_)) => {
                        refuse.check(steps.get(at + 1..).unwrap_or_default())
                    }
                    StepSpec::Refuse(_) => Err(("refuse", "only a rule 'before' can refuse")),
                    _ if matches!(self.when, When::Cron(_)) => self.check_without_file(step),
                    _ if waited => {
                        Err(("", "a client waits: only 'exec' and 'refuse' are possible"))
                    }
                    _ => Ok(()),
                };
                checked.map_err(|(field, text)| {
                    let place = format!("{list}.{at}.{field}");
                    FieldError::new(place.trim_end_matches('.'), text)
                })?;
            }
        }
        Ok(())
    }
}

impl Rule {
    /// Whether `step` can do without a file that an event brings, and without its account.
    fn check_without_file(&self, step: &StepSpec) -> Result<(), StepFlaw> {
        match step {
            StepSpec::Deliver(_) => {
                Err(("deliver", "a rule that starts by the clock has no file to deliver"))
            }
            StepSpec::Move(_) => Err(("move", "a rule that starts by the clock has no file")),
            StepSpec::Delete(delete) if delete.path.is_none() => {
                Err(("delete.path", "a rule that starts by the clock has no file: name one"))
            }
            StepSpec::Delete(_) if self.run_as.is_none() => {
                Err(("delete", "as which account? Set 'as' of the rule"))
            }
            _ => Ok(()),
        }
    }
}

type StepFlaw = (&'static str, &'static str);

impl ExecSpec {
    /// Whether the reply of a command waits for it.
    pub fn waits(&self) -> bool {
        self.reply == ReplyTime::Wait
    }

    /// Whether it can be a step of `rule`.
    fn check(&self, rule: &Rule) -> Result<(), StepFlaw> {
        let waited = rule.is_waited_for();
        let program = self.argv.first().map_or("", String::as_str);
        if !program.starts_with('/') || program.contains(['{', '}']) {
            return Err(("exec.argv", "begins with the absolute path of a program"));
        }
        if self.timeout_seconds == 0 || self.timeout_seconds > 24 * 3600 {
            return Err(("exec.timeout_seconds", "from 1 to 86400"));
        }
        if self.memory_mib < 64 {
            return Err(("exec.memory_mib", "at least 64"));
        }
        if self.env.keys().any(|name| !is_variable(name)) {
            return Err(("exec.env", "a name has letters, digits and '_' only"));
        }
        match rule.when {
            When::Event(_) | When::Cron(_) if self.waits() => {
                return Err((
                    "exec.reply",
                    "only a rule 'after' a command can make its reply wait",
                ));
            }
            When::After(_) if waited && !self.waits() => {
                return Err((
                    "exec.reply",
                    "in one rule the reply waits for all steps or for none",
                ));
            }
            When::Before(_) if self.stdin == ExecStdin::File => {
                return Err(("exec.stdin", "before a command there is no file yet"));
            }
            When::Cron(_) if self.stdin == ExecStdin::File => {
                return Err(("exec.stdin", "a rule that starts by the clock has no file"));
            }
            _ => {}
        }
        match self.failure_code {
            Some(_) if !waited => Err(("exec.failure_code", "no client waits for this program")),
            Some(code) if !(400..600).contains(&code) => {
                Err(("exec.failure_code", "from 400 to 599"))
            }
            _ => Ok(()),
        }
    }
}

fn is_variable(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

impl RefuseSpec {
    /// Whether it can be a step before `following`.
    fn check(&self, following: &[StepSpec]) -> Result<(), StepFlaw> {
        if !(400..600).contains(&self.code) {
            return Err(("refuse.code", "from 400 to 599"));
        }
        if self.text.trim().is_empty() || self.text.chars().any(char::is_control) {
            return Err(("refuse.text", "one line that says why, and what to do"));
        }
        if self.text.len() > crate::limits::REFUSE_TEXT {
            return Err(("refuse.text", "too long, at most 1000 bytes"));
        }
        if !following.is_empty() {
            return Err(("refuse", "nothing can follow a refusal, make it the last step"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn field(when: &serde_json::Value, steps: &serde_json::Value) -> Result<(), String> {
        let rule = json!({"name": "r", "when": when, "do": steps});
        let rule: Rule = serde_json::from_value(rule).map_err(|error| error.to_string())?;
        rule.check().map_err(|error| error.field)
    }

    #[test]
    fn steps_that_cannot_be_are_named_by_their_field() {
        let before = json!({"before": ["ftp DELE"]});
        let after = json!({"after": ["ftp STOR"]});
        let event = json!({"event": "file.uploaded"});
        let cron = json!({"cron": "0 3 * * *"});
        let refuse = |code: u16, text: &str| json!({"refuse": {"code": code, "text": text}});
        let exec = |more: serde_json::Value| {
            let mut exec = json!({"argv": ["/bin/scan", "{path}"]});
            exec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            json!({ "exec": exec })
        };
        let wait = || exec(json!({"reply": "wait"}));
        for good in [
            (&before, json!([refuse(550, "No.")])),
            (&before, json!([exec(json!({"failure_code": 421})), refuse(450, "No.")])),
            (&after, json!([wait(), exec(json!({"reply": "wait", "failure_code": 421}))])),
            (&after, json!([exec(json!({})), {"delete": {}}])),
            (&event, json!([exec(json!({"stdin": "file"}))])),
            (&cron, json!([exec(json!({}))])),
        ] {
            assert_eq!(field(good.0, &good.1), Ok(()), "{}", good.1);
        }
        for (when, steps, wrong) in [
            (&before, json!([refuse(200, "No.")]), "do.0.refuse.code"),
            (&before, json!([refuse(600, "No.")]), "do.0.refuse.code"),
            (&before, json!([refuse(550, "")]), "do.0.refuse.text"),
            (&before, json!([refuse(550, "No.\r\n230 Yes")]), "do.0.refuse.text"),
            (&before, json!([refuse(550, "No."), exec(json!({}))]), "do.0.refuse"),
            (&before, json!([{"delete": {}}]), "do.0"),
            (&before, json!([exec(json!({"stdin": "file"}))]), "do.0.exec.stdin"),
            (&after, json!([refuse(550, "No.")]), "do.0.refuse"),
            (&after, json!([wait(), exec(json!({}))]), "do.1.exec.reply"),
            (&after, json!([wait(), {"delete": {}}]), "do.1"),
            (&event, json!([wait()]), "do.0.exec.reply"),
            (&event, json!([refuse(550, "No.")]), "do.0.refuse"),
            (&event, json!([exec(json!({"failure_code": 421}))]), "do.0.exec.failure_code"),
            (&event, json!([exec(json!({"argv": ["scan"]}))]), "do.0.exec.argv"),
            (&event, json!([exec(json!({"argv": []}))]), "do.0.exec.argv"),
            (&event, json!([exec(json!({"argv": ["/bin/{name}"]}))]), "do.0.exec.argv"),
            (&event, json!([exec(json!({"env": {"A=B": "x"}}))]), "do.0.exec.env"),
            (&event, json!([exec(json!({"timeout_seconds": 0}))]), "do.0.exec.timeout_seconds"),
            (&json!({"before": []}), json!([refuse(550, "No.")]), "when"),
            (&cron, json!([wait()]), "do.0.exec.reply"),
            (&cron, json!([exec(json!({"stdin": "file"}))]), "do.0.exec.stdin"),
            (&cron, json!([{"deliver": {"endpoint": "e"}}]), "do.0.deliver"),
            (&cron, json!([{"move": {"to": "/a"}}]), "do.0.move"),
            (&cron, json!([{"delete": {}}]), "do.0.delete.path"),
            (&cron, json!([{"delete": {"path": "/a"}}]), "do.0.delete"),
            (&cron, json!([refuse(550, "No.")]), "do.0.refuse"),
        ] {
            assert_eq!(field(when, &steps), Err(wrong.to_owned()), "{steps}");
        }
        assert!(field(&json!({"before": ["DELE"]}), &json!([refuse(550, "No.")])).is_err());
    }
}
