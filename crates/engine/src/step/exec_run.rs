//! `exec`: runs a program for the file of the event.
//!
//! A program is not ours, so what it does happens at least once: an attempt that a crash or a lost
//! lease cut off is made again; and one whose output is the file of later steps runs again where
//! that file is not.

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_db::EventFilter;
use entrepot_nouns::Fact;
use entrepot_nouns::rule::{ExecSpec, ExecStdin, ExecStdout, ExitMeaning};
use entrepot_spawn::{Ended, How, Program};
use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe::Receiver;

use super::change::made_name;
use super::exec::{Ran, no_local, not_run, with};
use super::made::Making;
use super::source::{self, Input};
use super::{Step, StepError};
use crate::exec::{self, Setting};
use crate::ids::StepKey;
use crate::limits::{BLOCK_BYTES, OUTPUT_DRAIN};
use crate::pattern::Values;
use crate::pause::Pause;
use crate::rules;
use crate::run::Run;

#[async_trait]
impl Step for ExecSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let made = made(self, run.values())?;
        let file = if exec::asks_for(self, "file") { Some(local_file(run).await?) } else { None };
        let ip = if exec::asks_for(self, "ip") { address(run).await? } else { None };
        let (rule, event, noted) = (&run.job.rule, &run.job.event, Some(&run.noted));
        let program = exec::program(self, &Setting { rule, event, noted, file, ip })?;
        let input = match self.stdin {
            ExecStdin::None => None,
            ExecStdin::File => Some(Input::open(run).await?),
        };
        let mut making = match &made {
            Some(_) => Some(Making::begin(run, key).await?),
            None => None,
        };
        run.hold.fence().await?;
        let ended = match &mut making {
            Some(making) => into_file(self, run, program, input.as_ref(), making).await,
            None => run.hold.waiting(with(&run.shared.spawner, program, input.as_ref())).await,
        };
        let ended = match ended.and_then(|ended| ended?.map_err(|error| not_run(&error))) {
            Ok(ended) => ended,
            Err(error) => {
                discard(making).await;
                return Err(error);
            }
        };
        let mut scope = rules::caused_by(&run.job.event);
        scope.job = Some(run.job.id);
        let program = exec::told(self, &run.job.rule, &ended);
        let said = format!("{}: {}", program.how, program.words);
        let fact = Fact::ProgramEnded { program };
        run.seal(&run.shared.recorder.event(&scope, fact)).await?;
        let said = said.trim_end_matches(": ");
        match (exec::meaning(self, &ended), making.take(), made) {
            (ExitMeaning::Done, Some(making), Some(name)) => {
                run.reached(Pause::Written)?;
                making.finish(run, name).await?;
                run.reached(Pause::Published)?;
                note(self, run, &ended)
            }
            (ExitMeaning::Done, ..) => note(self, run, &ended),
            (meaning, making, _) => {
                discard(making).await;
                Err(match meaning {
                    ExitMeaning::Retry => StepError::transient("EP0824", said),
                    ExitMeaning::Fail | ExitMeaning::Done => StepError::permanent("EP0824", said),
                })
            }
        }
    }
}

/// What the file is called that it makes, if it makes one.
pub(super) fn made(spec: &ExecSpec, values: Values<'_>) -> Result<Option<String>, StepError> {
    let name = || made_name(values, spec.name.as_deref(), str::to_owned);
    (spec.stdout == ExecStdout::File).then(name).transpose()
}

async fn discard(making: Option<Making>) {
    if let Some(making) = making {
        making.discard().await;
    }
}

/// Runs it, and has what it writes become the file. The outer error is one of the run of the job,
/// the one inside it one of a file.
async fn into_file(
    spec: &ExecSpec,
    run: &Run<'_>,
    mut program: Program,
    input: Option<&Input>,
    making: &mut Making,
) -> Result<Ran, StepError> {
    let pipe = entrepot_spawn::output_pipe();
    let (output, stdout) = pipe.map_err(|error| {
        StepError::transient("EP0821", format!("no pipe to a program: {error}"))
    })?;
    program.stdout = stdout;
    let running = with(&run.shared.spawner, program, input);
    let filling = fill(spec, run, output, making);
    let both = async {
        let mut running = std::pin::pin!(running);
        let mut filling = std::pin::pin!(filling);
        tokio::select! {
            biased;
            // Too much, or a full disk: dropping the program kills it.
            filled = &mut filling => {
                filled?;
                running.await
            }
            ended = &mut running => {
                let drained = tokio::time::timeout(OUTPUT_DRAIN, filling).await;
                drained.unwrap_or_else(|_| {
                    let text = "it has ended, and something that it left running still has its \
                                standard output: nobody knows whether the file is whole";
                    Err(StepError::permanent("EP0819", text))
                })?;
                ended
            }
        }
    };
    run.hold.waiting(both).await
}

async fn fill(
    spec: &ExecSpec,
    run: &Run<'_>,
    mut output: Receiver,
    making: &mut Making,
) -> Result<(), StepError> {
    let most = u64::from(spec.output_mib) << 20;
    loop {
        let mut block = BytesMut::with_capacity(BLOCK_BYTES);
        let read = output.read_buf(&mut block).await.map_err(|error| {
            StepError::transient("EP0821", format!("the output of a program: {error}"))
        })?;
        if read == 0 {
            return Ok(());
        }
        if making.size().saturating_add(read as u64) > most {
            let text = format!("it wrote more than {} MiB to standard output", spec.output_mib);
            return Err(StepError::permanent("EP0871", text));
        }
        making.write(run, block.freeze()).await?;
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
