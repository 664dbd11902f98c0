//! Rules that clients wait for: before a command, and before its reply leaves.
//!
//! Each question is answered in a task of its own, under the limit of its rules; a rule whose
//! condition fails, and a program that does not end well, refuse. What is asked before a command is
//! given up when whoever asked is gone; what runs after one runs to its end, for the command has
//! happened. A stop waits for that as it does for jobs. The rules are read beside the answers: a
//! database that says nothing holds up nobody, the rules known last count meanwhile.

use std::collections::BTreeSet;
use std::sync::Arc;

use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::{ExecSpec, ExecStdin, OnError, StepSpec};
use entrepot_nouns::{Event, Fact, Job, JobId, JobLane, JobState, Name, Rule, SiteId, VPath};
use entrepot_vfs::{CommandRefusal, Hooks, Moment, RefusalClass, RuleQuestion};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, timeout};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::exec::{self, Setting};
use crate::files::AccountFiles;
use crate::limits::{HOOKS_AT_ONCE, HOOKS_POLL, HOOKS_READ};
use crate::rules::{self, Rules};
use crate::shared::Shared;
use crate::step::{Input, StepError, exec as programs};

/// What the answering task works with.
pub(crate) struct Desk {
    pub(crate) hooks: Hooks,
    pub(crate) questions: mpsc::Receiver<RuleQuestion>,
    /// True once the rules are known.
    pub(crate) ready: watch::Sender<bool>,
    pub(crate) stop: CancellationToken,
}

/// Answers until `stop`, then what was asked by then.
pub(crate) async fn run(shared: Arc<Shared>, mut desk: Desk) {
    let mut rules = Arc::new(Rules::none());
    // Of the readers there is one at a time.
    let (mut answering, mut reading) = (JoinSet::new(), JoinSet::new());
    let mut told = Unrunnable::new();
    let mut ticks = tokio::time::interval(HOOKS_POLL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let has_room = answering.len() < HOOKS_AT_ONCE;
        tokio::select! {
            () = desk.stop.cancelled() => break,
            _ = ticks.tick(), if reading.is_empty() => {
                reading.spawn(read(shared.clone(), rules.clone()));
            }
            // What was known goes on to count where nothing could be read.
            Some(read) = reading.join_next() => if let Ok(Some(read)) = read {
                told = warned(&shared, &read, &told);
                rules = read;
                desk.hooks.set(rules.hooks.clone());
                desk.ready.send_replace(true);
            },
            Some(question) = desk.questions.recv(), if has_room => {
                answering.spawn(answer(shared.clone(), rules.clone(), question));
            }
            Some(_) = answering.join_next() => {}
        }
    }
    desk.questions.close();
    while let Some(question) = desk.questions.recv().await {
        answering.spawn(answer(shared.clone(), rules.clone(), question));
    }
    while answering.join_next().await.is_some() {}
}

async fn read(shared: Arc<Shared>, rules: Arc<Rules>) -> Option<Arc<Rules>> {
    match timeout(HOOKS_READ, rules.refreshed(&shared.db)).await {
        Ok(Ok(read)) => return Some(read),
        Ok(Err(error)) => tracing::debug!(%error, "the rules cannot be read"),
        Err(_) => tracing::debug!("the rules cannot be read in time"),
    }
    None
}

/// Programs of enabled rules that this node does not start.
type Unrunnable = BTreeSet<(SiteId, Name, String)>;

/// Says of new ones, whoever stored the rule and on whatever node, that they will not run here.
fn warned(shared: &Shared, rules: &Rules, told: &Unrunnable) -> Unrunnable {
    let mut now = Unrunnable::new();
    for (site, rule, program) in &rules.programs {
        let Err(error) = shared.spawner.permits(program) else { continue };
        let found = (*site, rule.clone(), program.clone());
        if !told.contains(&found) {
            tracing::warn!(code = error.code(), %rule, %error, "a rule will not run on this node");
        }
        now.insert(found);
    }
    now
}

async fn answer(shared: Arc<Shared>, rules: Arc<Rules>, question: RuleQuestion) {
    let RuleQuestion { moment, event, limit, mut answer } = question;
    let asked = rules.asked(moment, &event);
    let decided = timeout(limit, decide(&shared, asked, &event));
    tokio::select! {
        // Whoever asked is gone: dropping the program kills it.
        () = answer.closed(), if moment == Moment::Before => {}
        decided = decided => match decided {
            // Whoever asked may be gone.
            Ok(decided) => drop(answer.send(decided)),
            Err(_) => tracing::error!(code = "EP0826", ?limit, "rules on a command took too long"),
        },
    }
}

type Asked<'a> = Vec<(&'a Stored<Rule>, Result<bool, crate::condition::ConditionError>)>;

async fn decide(shared: &Shared, asked: Asked<'_>, event: &Event) -> Result<(), CommandRefusal> {
    for (rule, holds) in asked {
        let name = &rule.noun.name;
        match holds {
            Ok(false) => continue,
            Ok(true) => {}
            Err(error) => {
                let rule = name.as_str();
                tracing::error!(code = "EP0803", rule, %error, "a rule cannot be asked");
                return Err(failed(name, None));
            }
        }
        for step in &rule.noun.steps {
            match &step.spec {
                StepSpec::Refuse(refuse) => {
                    return Err(CommandRefusal {
                        class: class_of(refuse.code),
                        text: refuse.text.clone(),
                        rule: Some(name.clone()),
                        ftp_code: Some(refuse.code),
                    });
                }
                StepSpec::Exec(exec) => {
                    let ended = program(shared, rule, exec, event).await;
                    if let Err(error) = ended {
                        let rule = name.as_str();
                        if step.on_error == OnError::Continue {
                            tracing::warn!(code = "EP0824", rule, %error, "a rule goes on");
                            continue;
                        }
                        tracing::warn!(code = "EP0824", rule, %error, "a command is refused");
                        return Err(failed(name, exec.failure_code));
                    }
                }
                // The invariant: no other step is taken into such a rule.
                _ => return Err(failed(name, None)),
            }
        }
    }
    Ok(())
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

/// Runs one program and tells of its end; an error if it did not end well.
async fn program(
    shared: &Shared,
    rule: &Stored<Rule>,
    spec: &ExecSpec,
    event: &Event,
) -> Result<(), StepError> {
    let name = &rule.noun.name;
    let path = || -> Result<VPath, StepError> {
        let path = event.fact.command().and_then(|command| command.path.as_deref());
        let path = path.and_then(|path| path.parse().ok());
        path.ok_or_else(|| StepError::permanent("EP0812", "the command is about no file"))
    };
    let mut files = None;
    let file = if exec::asks_for(spec, "file") {
        let path = path()?;
        let local = account_files(shared, rule, event, &mut files).await?.local(&path).await?;
        let local = local.and_then(|local| local.into_os_string().into_string().ok());
        Some(local.ok_or_else(|| programs::no_local(&path.to_string()))?)
    } else {
        None
    };
    let ip = event.fact.command().map(|command| command.address.clone());
    let program = exec::program(spec, &Setting { rule: name, event, noted: None, file, ip })?;
    let ended = match spec.stdin {
        ExecStdin::None => shared.spawner.run(program).await,
        ExecStdin::File => {
            let path = path()?;
            let source = account_files(shared, rule, event, &mut files).await?.open(&path).await?;
            programs::run_with(&shared.spawner, program, &Input::whatever(path, source)).await?
        }
    };
    if let Some(files) = files {
        files.close().await;
    }
    let ended = ended.map_err(|error| programs::not_run(&error))?;
    let fact = Fact::ProgramEnded { program: exec::told(spec, name, &ended) };
    let how = ended.how;
    let scope = entrepot_journal::Scope {
        session: event.session,
        cause: None,
        depth: event.depth,
        ..rules::caused_by(event)
    };
    tell(shared, &scope, fact);
    if exec::is_done(spec, &ended) {
        Ok(())
    } else {
        Err(StepError::transient("EP0824", how.to_string()))
    }
}

fn tell(shared: &Shared, scope: &entrepot_journal::Scope, fact: Fact) {
    if let Err(error) = shared.recorder.record(scope, fact) {
        tracing::error!(code = error.code(), %error, "the end of a program was not recorded");
    }
}

/// The files of the account that gave the command.
async fn account_files<'a>(
    shared: &Shared,
    rule: &Stored<Rule>,
    event: &Event,
    files: &'a mut Option<Box<dyn AccountFiles>>,
) -> Result<&'a dyn AccountFiles, StepError> {
    let opened = match files.take() {
        Some(files) => files,
        None => {
            let nobody = || StepError::permanent("EP0811", "nobody is logged in");
            let account = event.account.as_ref().ok_or_else(nobody)?;
            shared.file_access.open_account(&passing_job(shared, rule, event), account).await?
        }
    };
    Ok(&**files.insert(opened))
}

/// A job that is in no table: the files of accounts are opened for jobs.
fn passing_job(shared: &Shared, rule: &Stored<Rule>, event: &Event) -> Job {
    let now = shared.recorder.env().now();
    Job {
        id: JobId(shared.recorder.env().new_id::<Uuid>()),
        site: event.site,
        rule: rule.noun.name.clone(),
        event_id: event.id,
        event: event.clone(),
        state: JobState::Running,
        rule_version: None,
        at: None,
        lane: JobLane::default(),
        order: None,
        attempts: 1,
        epoch: 1,
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
