//! `journal verify`: checks the chain of every record. It reads files only and needs no server.

use std::path::PathBuf;

use entrepot_journal::JournalError;

use crate::args::JournalCommand;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Verifies the named folder; without one the journal of the process file, which is read only then.
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
    let report = entrepot_journal::verify(&folder).map_err(|error| {
        let exit = match error {
            JournalError::NoJournal { .. } => Exit::NotFound,
            _ => Exit::Failed,
        };
        Failure::new(error.code(), exit, error.to_string())
    })?;
    output.value(&report, || println!("{report}"))?;
    if report.is_intact() {
        Ok(())
    } else {
        Err(Failure::new("EP0206", Exit::Findings, "the journal was tampered with"))
    }
}
