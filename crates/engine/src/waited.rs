//! What a rule does that a client waits for: its steps in order, once, without a job.
//!
//! A step that does not end well refuses the command, unless the rule goes on without it; a
//! condition that fails refuses as well. All that the steps need from the configuration was read
//! with the rules, so that a database that says nothing holds up nobody.

use std::time::Duration;

use entrepot_icap_proto::Verdict;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::{
    ExecSpec, ExecStdin, HttpSpec, OnError, RefuseSpec, ScanSpec, SetSpec, Step, StepSpec,
};
use entrepot_nouns::{Endpoint, Event, Fact, Job, JobId, JobState, Name, Rule, StepState, VPath};
use entrepot_spawn::How;
use entrepot_vfs::{CommandRefusal, Moment, RefusalClass};
use serde_json::{Value as Json, json};
use tokio::time::timeout;
use uuid::Uuid;

use crate::client_key;
use crate::condition::Subject;
use crate::exec::{self, Setting};
use crate::files::AccountFiles;
use crate::ids::{self, StepKey};
use crate::noted::Noted;
use crate::pattern::Values;
use crate::rules::{self, Rules, Servers, WaitedRule, scan_time};
use crate::shared::Shared;
use crate::step::{Input, StepError, exec as programs, flow, http, scan};

/// Asks all rules that a client waits for at this command.
///
/// # Errors
/// One of them refuses, or did not end well.
pub(crate) async fn decide(
    shared: &Shared,
    rules: &Rules,
    moment: Moment,
    event: &Event,
) -> Result<(), CommandRefusal> {
    for (rule, holds) in rules.asked(moment, event) {
        match holds {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) => {
                let rule = &rule.noun().name;
                tracing::error!(code = "EP0803", rule = rule.as_str(), %error, "cannot be asked");
                return Err(failed(rule, None));
            }
        }
        let bare = rules.subject(event);
        let (servers, noted) = (rules.servers(event.site), Noted::default());
        let mut answer =
            Answer { shared, rule, servers, moment, event, bare, noted, begun: 0, files: None };
        let decided = answer.steps().await;
        if let Some(files) = answer.files {
            files.close().await;
        }
        decided?;
    }
    Ok(())
}

/// One rule at work on one command.
struct Answer<'a> {
    shared: &'a Shared,
    rule: &'a WaitedRule,
    servers: Option<&'a Servers>,
    moment: Moment,
    event: &'a Event,
    /// What expressions may look at but for what steps left.
    bare: Subject,
    noted: Noted,
    /// Steps that were begun.
    begun: u32,
    /// The files of the account that gave the command.
    files: Option<Box<dyn AccountFiles>>,
}

/// How a step ended, and what it leaves.
struct StepOutcome {
    result: Option<Json>,
    ended: Result<(), StepError>,
}

impl From<Result<Option<Json>, StepError>> for StepOutcome {
    fn from(ended: Result<Option<Json>, StepError>) -> StepOutcome {
        match ended {
            Ok(result) => StepOutcome { result, ended: Ok(()) },
            Err(error) => StepOutcome { result: None, ended: Err(error) },
        }
    }
}

impl<'a> Answer<'a> {
    async fn steps(&mut self) -> Result<(), CommandRefusal> {
        let rule: &'a WaitedRule = self.rule;
        // Lists inside lists; they nest as deep as rules may.
        let mut lists = vec![rule.noun().steps.iter()];
        while let Some(list) = lists.last_mut() {
            let Some(step) = list.next() else {
                lists.pop();
                continue;
            };
            if let Some(condition) = &step.condition
                && !self.holds(condition)?
            {
                self.note(step, StepState::Skipped, None);
                continue;
            }
            match &step.spec {
                StepSpec::Refuse(refuse) => return Err(self.refusal(refuse)),
                StepSpec::If(branch) => {
                    let holds = self.holds(&branch.when)?;
                    let taken = if holds { &branch.then } else { &branch.otherwise };
                    lists.push(taken.iter());
                }
                spec => self.step(step, spec).await?,
            }
        }
        Ok(())
    }

    /// One step that does something.
    async fn step(&mut self, step: &Step, spec: &StepSpec) -> Result<(), CommandRefusal> {
        self.begun = self.begun.saturating_add(1);
        let StepOutcome { result, ended } = match spec {
            StepSpec::Exec(exec) => self.program(exec).await.into(),
            StepSpec::Scan(scan) => self.scan(scan, scan_time(step)).await,
            StepSpec::Http(http) => self.http(http).await.map(Some).into(),
            StepSpec::Set(set) => self.set(set).into(),
            // The invariant: no other step is taken into such a rule.
            other => {
                let text = format!("a client waits for no step '{}'", other.word());
                Err(StepError::permanent("EP0812", text)).into()
            }
        };
        let rule = self.rule.noun().name.as_str();
        match ended {
            Ok(()) => {
                self.note(step, StepState::Done, result.as_ref());
                Ok(())
            }
            Err(error) if step.on_error == OnError::Continue => {
                tracing::warn!(code = "EP0883", rule, %error, "a rule goes on without a step");
                self.note(step, StepState::Ignored, result.as_ref());
                Ok(())
            }
            Err(error) => {
                tracing::warn!(code = "EP0883", rule, %error, "a command is refused");
                Err(self.told(spec, &error))
            }
        }
    }

    /// Remembers for the steps behind it how one ended, and what it leaves.
    fn note(&mut self, step: &Step, state: StepState, result: Option<&Json>) {
        if let Some(name) = &step.name {
            self.noted.note(name.to_string(), state, result);
        }
    }

    fn holds(&self, expression: &str) -> Result<bool, CommandRefusal> {
        self.rule.run.holds(expression, &self.subject(&self.noted)).map_err(|error| {
            let rule = &self.rule.noun().name;
            tracing::error!(code = "EP0803", rule = rule.as_str(), %error, "cannot be asked");
            failed(rule, None)
        })
    }

    fn subject(&self, noted: &Noted) -> Subject {
        self.bare.clone().with_noted(self.event, noted)
    }

    fn set(&mut self, set: &SetSpec) -> Result<Option<Json>, StepError> {
        let mut noted = self.noted.clone();
        for variable in &set.0 {
            let value = self.rule.run.value(&variable.expression, &self.subject(&noted));
            let value = value.map_err(|error| StepError::permanent("EP0803", error.to_string()))?;
            noted.vars.insert(variable.name.clone(), value);
        }
        flow::check_size(&noted)?;
        self.noted = noted;
        Ok(None)
    }

    async fn http(&mut self, spec: &HttpSpec) -> Result<Json, StepError> {
        let server = self.server(&spec.endpoint)?;
        let draft = http::draft(spec, Values { event: self.event, noted: Some(&self.noted) })?;
        let key = self.servers.and_then(|servers| servers.key_for(server));
        let identity = client_key::identity(self.shared, server, key).await?;
        let asking = http::HttpAsking { shared: self.shared, spec, server, identity };
        let key = ids::sent_by_step(JobId(self.event.id.0), &StepKey::numbered(self.begun));
        asking.ask(draft, &key.to_string()).await
    }

    async fn scan(&mut self, spec: &ScanSpec, limit: Duration) -> StepOutcome {
        let file = match self.file_to_scan().await {
            Ok(Some(file)) => file,
            // The command says so itself.
            Ok(None) => return Ok(Some(json!({ "verdict": "none" }))).into(),
            Err(error) => return Err(error).into(),
        };
        let scanner = match self.server(&spec.endpoint) {
            Ok(scanner) => scanner,
            Err(error) => return Err(error).into(),
        };
        let verdict = match timeout(limit, scan::show(self.shared, scanner, &file)).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(error)) => return Err(error).into(),
            Err(_) => Verdict::Unsure { why: format!("it had not answered after {limit:?}") },
        };
        let judged = scan::judge(spec, file.name(), verdict);
        StepOutcome { result: Some(judged.result), ended: judged.ended }
    }

    /// The file that the command names; `None`: before it, there is none.
    async fn file_to_scan(&mut self) -> Result<Option<Input>, StepError> {
        let path = self.path()?;
        match self.files().await?.open(&path).await {
            Ok(source) => Ok(Some(Input::whatever(path, source))),
            Err(error) if error.is_missing() && self.moment == Moment::Before => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn server(&self, name: &Name) -> Result<&'a Stored<Endpoint>, StepError> {
        let found = self.servers.and_then(|servers| servers.endpoint(name));
        found
            .ok_or_else(|| StepError::permanent("EP0811", format!("there is no endpoint '{name}'")))
    }

    fn path(&self) -> Result<VPath, StepError> {
        let path = self.event.fact.command().and_then(|command| command.path.as_deref());
        let path = path.and_then(|path| path.parse().ok());
        path.ok_or_else(|| StepError::permanent("EP0812", "the command is about no file"))
    }

    /// The files of the account that gave the command.
    async fn files(&mut self) -> Result<&dyn AccountFiles, StepError> {
        let opened = match self.files.take() {
            Some(files) => files,
            None => {
                let nobody = || StepError::permanent("EP0811", "nobody is logged in");
                let account = self.event.account.as_ref().ok_or_else(nobody)?;
                let job = passing_job(self.shared, self.rule.noun(), self.event);
                self.shared.file_access.open_account(&job, account).await?
            }
        };
        Ok(&**self.files.insert(opened))
    }

    /// Runs one program and tells of its end; an error if it did not end well.
    async fn program(&mut self, spec: &ExecSpec) -> Result<Option<Json>, StepError> {
        let (shared, event, rule) = (self.shared, self.event, &self.rule.noun().name);
        let file = if exec::asks_for(spec, "file") {
            let path = self.path()?;
            let local = self.files().await?.local(&path).await?;
            let local = local.and_then(|local| local.into_os_string().into_string().ok());
            Some(local.ok_or_else(|| programs::no_local(&path.to_string()))?)
        } else {
            None
        };
        let ip = event.fact.command().map(|command| command.address.clone());
        let setting = Setting { rule, event, noted: Some(&self.noted), file, ip };
        let program = exec::program(spec, &setting)?;
        let ended = match spec.stdin {
            ExecStdin::None => shared.spawner.run(program).await,
            ExecStdin::File => {
                let path = self.path()?;
                let source = self.files().await?.open(&path).await?;
                let input = Input::whatever(path, source);
                programs::run_with(&shared.spawner, program, &input).await?
            }
        };
        let ended = ended.map_err(|error| programs::not_run(&error))?;
        let fact = Fact::ProgramEnded { program: exec::told(spec, rule, &ended) };
        let scope = entrepot_journal::Scope {
            session: event.session,
            cause: None,
            depth: event.depth,
            ..rules::caused_by(event)
        };
        if let Err(error) = shared.recorder.record(&scope, fact) {
            tracing::error!(code = error.code(), %error, "the end of a program was not recorded");
        }
        if !exec::is_done(spec, &ended) {
            return Err(StepError::transient("EP0824", ended.how.to_string()));
        }
        Ok(match ended.how {
            How::Code(code) => Some(json!({ "code": code })),
            _ => None,
        })
    }

    fn refusal(&self, refuse: &RefuseSpec) -> CommandRefusal {
        CommandRefusal {
            class: class_of(refuse.code),
            text: refuse.text.clone(),
            rule: Some(self.rule.noun().name.clone()),
            ftp_code: Some(refuse.code),
        }
    }

    /// What the client is told where a step did not end well.
    fn told(&self, spec: &StepSpec, error: &StepError) -> CommandRefusal {
        let rule = &self.rule.noun().name;
        let code = match error {
            StepError::Permanent { code, .. } | StepError::Transient { code, .. } => *code,
            _ => "",
        };
        let said = |class, text: String| CommandRefusal {
            class,
            text,
            rule: Some(rule.clone()),
            ftp_code: None,
        };
        match (spec, code) {
            (StepSpec::Exec(exec), _) => failed(rule, exec.failure_code),
            (StepSpec::Scan(_), scan::FOUND) => {
                let text = "The scanner of this server has found something in the file.";
                said(RefusalClass::Denied, text.to_owned())
            }
            (StepSpec::Scan(_), scan::UNSURE) => {
                let text = "The file cannot be scanned at the moment: try again later.";
                said(RefusalClass::RuleFailed, text.to_owned())
            }
            // A server that was asked says no.
            (StepSpec::Http(_), http::REFUSED) => {
                let text = format!("The rule '{rule}' of this server does not allow it.");
                said(RefusalClass::Denied, text)
            }
            _ => failed(rule, None),
        }
    }
}

/// What the client is told when a rule or its program failed. `ftp_code` is the reply of FTP that
/// the author of the rule names for that.
fn failed(rule: &Name, ftp_code: Option<u16>) -> CommandRefusal {
    CommandRefusal {
        class: ftp_code.map_or(RefusalClass::RuleFailed, class_of),
        text: format!("The rule '{rule}' of this server did not end well: try again later."),
        rule: Some(rule.clone()),
        ftp_code,
    }
}

/// What the author of a rule means by a reply code of FTP: 4yz is a transient refusal, 5yz a
/// permanent one (RFC 959 §4.2.1).
fn class_of(ftp_code: u16) -> RefusalClass {
    if ftp_code < 500 { RefusalClass::NotNow } else { RefusalClass::Denied }
}

/// A job that is in no table: the files of accounts are opened for jobs.
fn passing_job(shared: &Shared, rule: &Rule, event: &Event) -> Job {
    let env = shared.recorder.env();
    let job = Job::new(JobId(env.new_id::<Uuid>()), rule.name.clone(), event.clone(), env.now());
    Job { state: JobState::Running, attempts: 1, epoch: 1, ..job }
}
