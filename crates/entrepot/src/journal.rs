//! `journal verify`.

use std::path::PathBuf;

use crate::args::JournalCommand;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Runs `journal`.
pub(crate) fn run(
    config: impl FnOnce() -> Result<Config, Failure>,
    output: Output,
    command: JournalCommand,
) -> Result<(), Failure> {
    let JournalCommand::Verify { folder } = command;
    let folder: PathBuf = match folder {
        Some(folder) => folder,
        None => config()?.journal(),
    };
    let report = entrepot_journal::verify(&folder)
        .map_err(|error| Failure::new(error.code(), Exit::Failed, error.to_string()))?;
    output.value(&report, || print!("{report}"))?;
    match report.is_intact() {
        true => Ok(()),
        false => Err(Failure::new("EP0206", Exit::Findings, "the journal was tampered with")),
    }
}
