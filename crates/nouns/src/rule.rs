//! Rules: when, if, do, else.

use std::collections::{BTreeSet, HashMap, HashSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::{OnByDefault, is_default};
use crate::lane::{JobLane, Priority, StepLane};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::order::Order;
use crate::rule_version::StepAddress;
use crate::watch::Watch;

mod waited;

pub use crate::retry::Retry;
pub use crate::step::place::*;
pub use crate::step::*;
pub use crate::triggers::Triggers;
pub use crate::when::When;

/// `when` · `if` · `do` · `else`. Runs as jobs: durable, leased, retried.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Unique among the rules of its site; never changes.
    pub name: Name,
    /// A disabled rule starts no new job; running ones go on.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub enabled: bool,
    /// Its jobs are made, and wait until it is resumed; what runs goes on.
    #[serde(default, skip_serializing_if = "is_default")]
    pub paused: bool,
    /// What it starts on.
    pub when: Triggers,
    /// A CEL expression over `event`, `file` (`path`, `dir`, `name`, `stem`, `extension`, `size`,
    /// `digest`) and `command`; unset: always.
    #[serde(rename = "if", default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The service account it reads and writes as; unset: the account that caused the event.
    #[serde(rename = "as", default, skip_serializing_if = "Option::is_none")]
    pub run_as: Option<Name>,
    /// Steps, in order.
    #[serde(rename = "do")]
    pub steps: Vec<Step>,
    /// Steps after the last attempt failed.
    #[serde(rename = "else", default, skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Step>,
    /// How often and how long it is tried.
    #[serde(default)]
    pub retry: Retry,
    /// Its jobs with the same value run one after the other; unset: as there are places.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub order: Option<Order>,
    /// How many jobs a minute a node makes of it for files that come to the same path: the next one
    /// pauses the rule, for so do rules look that start each other. Unset: 100; 0: any number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loop_limit: Option<u32>,
    /// How often its jobs get a place while those of other rules wait for one too.
    #[serde(default, skip_serializing_if = "is_default")]
    pub priority: Priority,
    /// Events that did not happen, and what the rule makes of them: tried whenever it is stored.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tests: Vec<RuleTest>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// An event that did not happen, and whether the rule starts on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RuleTest {
    /// Fields of the event as the audit log has them, `kind` among them. Those that are left out
    /// are those of an upload, or of a command, like any other.
    pub event: serde_json::Map<String, serde_json::Value>,
    /// Calendars, by the names of their policies, for which `inCalendar` is true in the test; it is
    /// false for all others, so that a test does not depend on the days of this year.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub in_calendars: BTreeSet<Name>,
    /// Whether the rule starts.
    pub runs: bool,
}

impl Noun for Rule {
    const KIND: Kind = Kind::Rule;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        let mut found = Vec::new();
        for place in self.all_places() {
            if let Some(endpoint) = place.step.endpoint() {
                let field = format!("{}.{}", place.field, endpoint.field);
                found.push(Reference::new(field, Kind::Endpoint, endpoint.name));
            }
            if let StepSpec::Call(call) = &place.step.spec {
                let field = format!("{}.call.rule", place.field);
                found.push(Reference::new(field, Kind::Rule, &call.rule));
            }
            if let StepSpec::Approve(approve) = &place.step.spec {
                let field = |at| format!("{}.approve.by.{at}", place.field);
                let named = approve.by.iter().enumerate();
                found.extend(named.map(|(at, it)| Reference::new(field(at), Kind::Account, it)));
            }
            if let StepSpec::Procedure(procedure) = &place.step.spec {
                let field = format!("{}.procedure.model", place.field);
                found.push(Reference::new(field, Kind::Model, &procedure.model));
            }
            for key in place.step.spec.keys() {
                let field = format!("{}.{}", place.field, key.field);
                found.push(Reference::new(field, Kind::Key, key.name));
            }
        }
        found.extend(self.when.references());
        found.extend(self.run_as.iter().map(|name| Reference::new("as", Kind::Account, name)));
        found
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.steps.is_empty() {
            return Err(FieldError::new("do", "a rule needs at least one step"));
        }
        self.when.check()?;
        self.check_steps()?;
        self.check_names()?;
        if self.order.is_some() && self.is_waited_for() {
            let text = "a client waits for this rule: its steps run at once, and in no order";
            return Err(FieldError::new("order", text));
        }
        if self.paused && self.is_waited_for() {
            let text = "a client waits for this rule, so it makes no jobs: disable it instead";
            return Err(FieldError::new("paused", text));
        }
        if self.retry.attempts == 0 {
            return Err(FieldError::new("retry.attempts", "at least 1"));
        }
        Ok(())
    }
    fn programs(&self) -> Vec<&str> {
        let programs = self.all_places().into_iter().filter_map(|place| match &place.step.spec {
            StepSpec::Exec(exec) => exec.argv.first().map(String::as_str),
            _ => None,
        });
        programs.collect()
    }
}

impl Rule {
    /// The folder that it watches, if its steps work on the files of the endpoint: it names no
    /// account.
    pub fn watched_without_account(&self) -> Option<&Watch> {
        self.when.watch().filter(|_| self.run_as.is_none())
    }

    /// Whether its steps work on files that their mount holds.
    fn is_of_held(&self) -> bool {
        self.when.kinds().any(|kind| kind == "file.held")
    }

    /// The steps of a list.
    pub fn list(&self, list: StepList) -> &[Step] {
        match list {
            StepList::Do => &self.steps,
            StepList::Else => &self.otherwise,
        }
    }

    /// The steps of a list and those inside them, each behind the one that it stands in.
    pub fn places(&self, list: StepList) -> Vec<StepPlace<'_>> {
        crate::step::place::of_list(list, self.list(list))
    }

    /// Where a job of it is before its first step, for an event that names `endpoint`.
    pub fn first_lane(&self, endpoint: Option<&Name>) -> JobLane {
        let lane = self.first_lane_of(&self.steps, endpoint);
        lane.unwrap_or_else(|| JobLane { priority: self.priority, ..JobLane::default() })
    }

    /// That of the first step which has one, where it is known that it runs.
    fn first_lane_of(&self, steps: &[Step], endpoint: Option<&Name>) -> Option<JobLane> {
        steps.iter().find_map(|step| match &step.spec {
            StepSpec::Parallel(parallel) => {
                let mut branches = parallel.branches.iter();
                branches.find_map(|steps| self.first_lane_of(steps, endpoint))
            }
            spec => self.lane_of(spec, endpoint),
        })
    }

    /// Where a step of it runs, for an event that names `endpoint`; `None`: wherever the job is.
    pub fn lane_of(&self, step: &StepSpec, endpoint: Option<&Name>) -> Option<JobLane> {
        match step.lane(endpoint) {
            StepLane::Same => None,
            StepLane::In(pool, endpoint) => {
                Some(JobLane { pool, endpoint, priority: self.priority })
            }
        }
    }

    /// Every step of the rule.
    pub fn all_places(&self) -> Vec<StepPlace<'_>> {
        let mut found = self.places(StepList::Do);
        found.extend(self.places(StepList::Else));
        found
    }

    /// Says whether a job that has gone past, or failed at, these steps of this rule can go on with
    /// `other`, a document of the same rule: each step must be there under the same address and
    /// with the same word.
    ///
    /// # Errors
    /// Which are not, as a sentence.
    pub fn check_move<'a>(
        &self,
        recorded: impl Iterator<Item = &'a StepAddress>,
        other: &Rule,
    ) -> Result<(), String> {
        let words = |rule: &Rule| -> HashMap<StepAddress, &'static str> {
            let places = rule.all_places().into_iter();
            places.map(|place| (place.address, place.step.spec.word())).collect()
        };
        let (before, after) = (words(self), words(other));
        let mut flaws = Vec::new();
        for address in recorded.map(StepAddress::in_rule).collect::<BTreeSet<_>>() {
            let was = before.get(&address).copied().unwrap_or("another step");
            match after.get(&address) {
                Some(word) if *word == was => {}
                Some(word) => flaws.push(format!("'{address}' was '{was}' and is '{word}'")),
                None => flaws.push(format!("'{address}', a '{was}', is not there any more")),
            }
        }
        if flaws.is_empty() {
            return Ok(());
        }
        Err(format!(
            "the rule as it is now does not fit what the job has done: {}; give steps a name to \
             keep them apart",
            flaws.join(", ")
        ))
    }

    /// The names of steps are told apart from each other and from places.
    fn check_names(&self) -> Result<(), FieldError> {
        let mut seen = HashSet::new();
        for place in self.all_places() {
            let Some(name) = &place.step.name else { continue };
            let field = || format!("{}.name", place.field);
            if name.as_str().contains('.') {
                return Err(FieldError::new(field(), "the name of a step has no dot"));
            }
            if !seen.insert(name) {
                let text = format!("two steps are named '{name}'");
                return Err(FieldError::new(field(), text));
            }
        }
        Ok(())
    }

    fn check_timeout(&self, step: &Step) -> Result<(), StepFlaw> {
        let elsewhere = match &step.spec {
            _ if step.timeout.is_none() => return Ok(()),
            spec if self.is_waited_for() => match spec.own_limit() {
                Some(field) => field,
                None => return Ok(()),
            },
            StepSpec::Call(_) => "the job rests meanwhile: limit the steps of the other rule",
            StepSpec::Each(EachSpec { find: None, .. }) | StepSpec::Parallel(_) => {
                "limit the steps inside it"
            }
            StepSpec::Approve(_) => "the job rests meanwhile: use 'approve.within'",
            _ => return Ok(()),
        };
        Err(("timeout", elsewhere))
    }

    fn check_retry(&self, place: &StepPlace<'_>) -> Result<(), StepFlaw> {
        let Some(retry) = place.step.retry else { return Ok(()) };
        let why = match &place.step.spec {
            _ if self.is_waited_for() => "a client waits for this rule: each step runs once",
            _ if place.field.starts_with("else.") => "steps of 'else' are tried once",
            StepSpec::If(_)
            | StepSpec::Each(EachSpec { find: None, .. })
            | StepSpec::Parallel(_) => "say it of the steps inside it",
            StepSpec::Call(_) => "the other rule has its own",
            spec if spec.ends_alike() => "it ends in the same way however often it runs",
            _ if retry.attempts == 0 => "'attempts' is at least 1",
            _ => return Ok(()),
        };
        Err(("retry", why))
    }

    fn check_steps(&self) -> Result<(), FieldError> {
        let waited = self.is_waited_for();
        if waited && !(self.otherwise.is_empty() && self.run_as.is_none()) {
            let text = "a client waits for this rule: it has no 'else' and no 'as'";
            return Err(FieldError::new("when", text));
        }
        let mut there = Following::new(FileThere::of(self));
        for place in self.all_places() {
            let step = place.step;
            let file = *there.at(&place);
            if place.depth > crate::limits::STEP_DEPTH {
                let text = format!("steps nest {} deep at most", crate::limits::STEP_DEPTH);
                return Err(FieldError::new(place.field, text));
            }
            let common = self.check_timeout(step).and_then(|()| check_on_error(step));
            let common = common.and_then(|()| self.check_retry(&place));
            let checked = match &step.spec {
                _ if common.is_err() => common,
                spec if step.after_crash != AfterCrash::Run && (waited || !spec.is_unkeyed()) => {
                    Err((
                        "after_crash",
                        "goes with 'exec' and 'http' of a durable job: a procedure is always \
                         called again, and other steps end in the same place however often they \
                         run",
                    ))
                }
                spec if step.after_crash != AfterCrash::Run && spec.makes_file() => Err((
                    "after_crash",
                    "goes with no 'stdout: file': the program runs again where its file is not",
                )),
                spec if waited => self.check_waited(step, spec, place.following),
                StepSpec::Call(call) if call.rule == self.name => {
                    Err(("call.rule", "a rule cannot call itself"))
                }
                StepSpec::Wait(WaitSpec { event: None, .. })
                    if (place.depth == 0 || place.is_in_branch) && place.following.is_empty() =>
                {
                    Err(("wait", "nothing waits for it, let steps follow"))
                }
                spec if spec.waits() => Err((spec.reply_field(), NO_REPLY)),
                StepSpec::Exec(exec) => exec.check(self, file),
                StepSpec::Refuse(_) => Err(("refuse", NO_REFUSAL)),
                spec if self.is_of_held() => check_of_held(spec),
                StepSpec::Release(_) | StepSpec::Quarantine(_) => Err((
                    step.spec.word(),
                    "only a rule on the event 'file.held' has a file that its mount holds",
                )),
                _ if FileThere::of(self) == FileThere::No => {
                    self.check_without_file(&step.spec, file)
                }
                _ => Ok(()),
            };
            let beside = || place.beside.map_or(Ok(()), |it| it.check_inside(&step.spec));
            let checked = checked.and_then(|()| step.spec.check_parts(place.following));
            checked.and_then(|()| beside()).map_err(|(field, text)| {
                let place = format!("{}.{field}", place.field);
                FieldError::new(place.trim_end_matches('.'), text)
            })?;
            if step.spec.makes_file() {
                *there.at(&place) = FileThere::Yes;
            }
        }
        Ok(())
    }
}

/// A `parallel` itself never fails: the steps inside it do.
fn check_on_error(step: &Step) -> Result<(), StepFlaw> {
    match &step.spec {
        StepSpec::Parallel(_) if step.on_error != OnError::Fail => {
            Err(("on_error", "say it of the steps inside it"))
        }
        _ => Ok(()),
    }
}

/// Whether a step can work on a file that has no name yet.
fn check_of_held(step: &StepSpec) -> Result<(), StepFlaw> {
    const HIDDEN: &str = "the file is hidden and has no name yet: release it, and let a rule on \
                          'file.uploaded' go on";
    match step {
        StepSpec::Move(_) => Err(("move", HIDDEN)),
        StepSpec::Delete(delete) if delete.path.is_none() => Err(("delete.path", HIDDEN)),
        StepSpec::Quarantine(it) if it.reason.trim().is_empty() => {
            Err(("quarantine.reason", "say why, for whoever decides what becomes of the file"))
        }
        _ => Ok(()),
    }
}

impl StepSpec {
    /// Whether the parts of a step go together.
    fn check_parts(&self, following: &[Step]) -> Result<(), StepFlaw> {
        match self {
            StepSpec::If(branch) if branch.then.is_empty() => {
                Err(("if.then", "needs at least one step"))
            }
            StepSpec::Each(each) => each.check(),
            StepSpec::Parallel(parallel) => parallel.check(),
            StepSpec::Fetch(fetch) if fetch.to.is_some() != (fetch.after == AfterFetch::Move) => {
                Err(("fetch.to", "goes with 'after: move', and 'after: move' needs it"))
            }
            StepSpec::Gzip(GzipSpec { level: Some(level), .. }) if !(1..=9).contains(level) => {
                Err(("gzip.level", "is from 1 to 9"))
            }
            StepSpec::Zstd(ZstdSpec { level: Some(level), .. }) if !(1..=19).contains(level) => {
                Err(("zstd.level", "is from 1 to 19"))
            }
            StepSpec::Encrypt(encrypt) if encrypt.keys.is_empty() => {
                Err(("encrypt.keys", "name a key that opens the message"))
            }
            StepSpec::Decrypt(decrypt) if decrypt.keys.is_empty() => {
                Err(("decrypt.keys", "name a key that opens the message"))
            }
            StepSpec::Verify(verify) if verify.signed_by.is_empty() => {
                Err(("verify.signed_by", "name a key that may have signed it"))
            }
            StepSpec::Transcode(it) => it.check(),
            StepSpec::Split(split) => split.check(),
            StepSpec::Join(join) if !join.from.contains("{part") => {
                Err(("join.from", "says where the number of a part is by '{part}', or '{part:04}'"))
            }
            StepSpec::Check(check) if check.message.trim().is_empty() => {
                Err(("check.message", "say what is wrong when it does not hold"))
            }
            StepSpec::Stop(_) if !following.is_empty() => {
                Err(("stop", "nothing can follow it, make it the last step of its list"))
            }
            StepSpec::Wait(wait) => wait.check(),
            StepSpec::Approve(approve) => approve.check(),
            StepSpec::Http(http) => http.check(),
            StepSpec::Mail(mail) => mail.check(),
            StepSpec::As2(as2) => as2.check(),
            StepSpec::Procedure(procedure) => procedure.check(),
            StepSpec::Stop(StopSpec { ending: StopEnding::Failed, message })
                if message.trim().is_empty() =>
            {
                Err(("stop.message", "say why the job fails"))
            }
            _ => Ok(()),
        }
    }
}

/// Of a rule that starts on something else than a command.
const NO_REPLY: &str = "only a rule 'after' a command can make its reply wait";

/// Of any other rule than one before a command.
const NO_REFUSAL: &str = "only a rule 'before' can refuse";

/// Whether there is a file that a step can work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FileThere {
    Yes,
    No,
}

impl FileThere {
    /// At the first step of a rule. The file of a watched folder is in no account's view, and a
    /// file that was removed is nowhere.
    fn of(rule: &Rule) -> FileThere {
        let is_there = |when: &When| match when {
            When::Cron(_) | When::Call(_) | When::Hook(_) | When::Expect(_) => false,
            When::Watch(watch) => rule.run_as.is_none() && !watch.is_for_removed(),
            When::Event(_) | When::Before(_) | When::After(_) => true,
        };
        if rule.when.all().iter().all(is_there) { FileThere::Yes } else { FileThere::No }
    }
}

impl Rule {
    /// Whether `step` can do without the file and the account that an event brings.
    fn check_without_file(&self, step: &StepSpec, file: FileThere) -> Result<(), StepFlaw> {
        match step {
            step if step.needs_file() && file == FileThere::No => Err((
                step.word(),
                "what starts this rule brings no file: let a step before this one make it",
            )),
            StepSpec::Move(_) => Err(("move", "what starts this rule brings no file")),
            StepSpec::Mail(mail)
                if mail.attach == MailAttachment::File && file == FileThere::No =>
            {
                Err(("mail.attach", "what starts this rule brings no file"))
            }
            StepSpec::Http(http) if http.body == HttpBody::File && file == FileThere::No => {
                Err(("http.body", "what starts this rule brings no file"))
            }
            StepSpec::Delete(delete) if delete.path.is_none() => {
                Err(("delete.path", "what starts this rule brings no file: name one"))
            }
            step if step.needs_account() && self.run_as.is_none() => {
                Err((step.word(), "as which account? Set 'as' of the rule"))
            }
            _ => Ok(()),
        }
    }
}

impl ExecSpec {
    /// Whether it can be a step of `rule`.
    fn check(&self, rule: &Rule, file: FileThere) -> Result<(), StepFlaw> {
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
        if rule.when.before().is_some() && self.stdin == ExecStdin::File {
            return Err(("exec.stdin", "before a command there is no file yet"));
        }
        if rule.when.watch().is_none() && self.stdin == ExecStdin::File && file == FileThere::No {
            return Err(("exec.stdin", "what starts this rule brings no file"));
        }
        if waited && self.stdout != ExecStdout::None {
            return Err(("exec.stdout", "a client waits for this rule: no step reads it"));
        }
        let is_plain = self.name.is_none() && self.output_mib == exec_output();
        if self.stdout != ExecStdout::File && !is_plain {
            return Err(("exec.stdout", "'name' and 'output_mib' go with 'stdout: file'"));
        }
        if self.output_mib == 0 {
            return Err(("exec.output_mib", "at least 1"));
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
    fn check(&self, following: &[Step]) -> Result<(), StepFlaw> {
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
mod tests;
