//! Programs of steps: how they get the file that steps work on, and what it means if they do not
//! run.

use entrepot_spawn::{Ended, Program, SpawnError, Spawner};
use tokio::io::AsyncWriteExt as _;

use super::StepError;
use super::source::Input;

/// What cannot run now may run later; what nobody allowed will not.
pub(crate) fn not_run(error: &SpawnError) -> StepError {
    match error {
        SpawnError::NotAllowed(_) => StepError::permanent(error.code(), error.to_string()),
        _ => StepError::transient(error.code(), error.to_string()),
    }
}

pub(crate) fn no_local(path: &str) -> StepError {
    let text = format!("'{path}' is on no disk of this machine, use 'stdin: file' for '{{file}}'");
    StepError::permanent("EP0825", text)
}

/// How a program ended; an error of a file, not of the program, is the outer one.
pub(super) type Ran = Result<Result<Ended, SpawnError>, StepError>;

pub(super) async fn with(spawner: &Spawner, program: Program, input: Option<&Input>) -> Ran {
    match input {
        Some(input) => run_with(spawner, program, input).await,
        None => Ok(spawner.run(program).await),
    }
}

/// Runs it with the bytes of the file on its standard input; it need not read them all.
pub(crate) async fn run_with(spawner: &Spawner, mut program: Program, input: &Input) -> Ran {
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
        reading.end().map(drop)
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
