//! `exec`: runs a program for the file of the event.
//!
//! A program is not ours, so what it does happens at least once: an attempt that a crash or a lost
//! lease cut off is made again.

use async_trait::async_trait;
use entrepot_db::EventFilter;
use entrepot_nouns::Fact;
use entrepot_nouns::rule::{ExecSpec, ExecStdin, ExitMeaning};
use entrepot_spawn::{Ended, How, Program, SpawnError};
use tokio::io::AsyncWriteExt as _;

use super::source::{self, Input};
use super::{Step, StepError};
use crate::exec::{self, Setting};
use crate::ids::StepKey;
use crate::rules;
use crate::run::Run;

#[async_trait]
impl Step for ExecSpec {
    async fn run(&self, run: &mut Run<'_>, _key: &StepKey) -> Result<(), StepError> {
        let file = if exec::asks_for(self, "file") { Some(local_file(run).await?) } else { None };
        let ip = if exec::asks_for(self, "ip") { address(run).await? } else { None };
        let (rule, event, noted) = (&run.job.rule, &run.job.event, Some(&run.noted));
        let program = exec::program(self, &Setting { rule, event, noted, file, ip })?;
        run.hold.fence().await?;
        let ended = match self.stdin {
            ExecStdin::None => run.hold.waiting(run.shared.spawner.run(program)).await?,
            ExecStdin::File => with_file(run, program).await?,
        };
        let ended = ended.map_err(|error| not_run(&error))?;
        let mut scope = rules::caused_by(&run.job.event);
        scope.job = Some(run.job.id);
        let program = exec::told(self, &run.job.rule, &ended);
        let said = format!("{}: {}", program.how, program.words);
        let fact = Fact::ProgramEnded { program };
        run.seal(&run.shared.recorder.event(&scope, fact)).await?;
        let said = said.trim_end_matches(": ");
        match exec::meaning(self, &ended) {
            ExitMeaning::Done => note(self, run, &ended),
            ExitMeaning::Retry => Err(StepError::transient("EP0824", said)),
            ExitMeaning::Fail => Err(StepError::permanent("EP0824", said)),
        }
    }
}

/// Leaves for later steps what the program said.
fn note(spec: &ExecSpec, run: &mut Run<'_>, ended: &Ended) -> Result<(), StepError> {
    let output = exec::output(spec, ended).map_err(|text| StepError::permanent("EP0819", text))?;
    if let How::Code(code) = ended.how {
        run.leave("code", code.into());
    }
    if let Some(output) = output {
        run.leave("out", output);
    }
    Ok(())
}

/// What cannot run now may run later; what nobody allowed will not.
pub(crate) fn not_run(error: &SpawnError) -> StepError {
    match error {
        SpawnError::NotAllowed(_) => StepError::permanent(error.code(), error.to_string()),
        _ => StepError::transient(error.code(), error.to_string()),
    }
}

/// Where the file lies on this machine.
async fn local_file(run: &mut Run<'_>) -> Result<String, StepError> {
    if let Some(file) = &run.noted.file {
        let local = run.shared.work.local(run.job, file)?;
        let local = local.and_then(|local| local.into_os_string().into_string().ok());
        return local.ok_or_else(|| no_local(&file.name));
    }
    let path = run.path()?;
    source::verify(run, &path).await?;
    let hold = run.hold;
    let local = match run.held() {
        Some(held) => source::local_held(run, held).await?,
        None => hold.waiting(run.files().await?.local(&path)).await??,
    };
    let local = local.and_then(|local| local.into_os_string().into_string().ok());
    local.ok_or_else(|| no_local(&path.to_string()))
}

pub(crate) fn no_local(path: &str) -> StepError {
    let text = format!("'{path}' is on no disk of this machine, use 'stdin: file' for '{{file}}'");
    StepError::permanent("EP0825", text)
}

/// The remote address of the session in which the event happened.
async fn address(run: &Run<'_>) -> Result<Option<String>, StepError> {
    if let Some(command) = run.job.event.fact.command() {
        return Ok(Some(command.address.clone()));
    }
    let Some(session) = run.job.event.session else { return Ok(None) };
    let (db, site) = (&run.shared.db, run.job.site);
    let filter = EventFilter {
        kinds: vec!["session.opened".to_owned()],
        session: Some(session),
        limit: 1,
        ..EventFilter::default()
    };
    let found = run.hold.insist(|| db.events(site, &filter)).await?;
    Ok(found.into_iter().find_map(|row| match row.event.fact {
        Fact::SessionOpened { address, .. } => Some(address),
        _ => None,
    }))
}

/// Runs it with the bytes of the file on its standard input; it need not read them all.
async fn with_file(
    run: &mut Run<'_>,
    program: Program,
) -> Result<Result<Ended, SpawnError>, StepError> {
    let input = Input::open(run).await?;
    let both = run_with(&run.shared.spawner, program, &input);
    run.hold.waiting(both).await?
}

/// See [`with_file`]; an error of the file, not of the program, is the outer one.
pub(crate) async fn run_with(
    spawner: &entrepot_spawn::Spawner,
    mut program: Program,
    input: &Input,
) -> Result<Result<Ended, SpawnError>, StepError> {
    let pipe = entrepot_spawn::pipe();
    let (mut sender, stdin) = pipe.map_err(|error| {
        StepError::transient("EP0821", format!("no pipe to a program: {error}"))
    })?;
    program.stdin = stdin;
    let feeding = async move {
        let mut reading = input.read();
        while let Some(block) = reading.next().await? {
            if sender.write_all(&block).await.is_err() {
                // It reads no more, and knows why.
                return Ok(());
            }
        }
        reading.end()
    };
    let mut feeding = std::pin::pin!(feeding);
    let mut running = std::pin::pin!(spawner.run(program));
    tokio::select! {
        biased;
        ended = &mut running => Ok(ended),
        fed = &mut feeding => {
            // The wrong file: dropping the program kills it.
            fed?;
            Ok(running.await)
        }
    }
}
