//! `journal verify`: checks the chain of every record, and compares the journal with its signed
//! heads and the table of events. It changes nothing and needs no server.

use std::io::Read as _;
use std::path::Path;

use entrepot_db::{Db, DbOptions, OldTables};
use entrepot_journal::JournalError;
use entrepot_proof::{Compared, ProofError, SentHead, compare, limits, read_heads};

use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::Output;

/// Verifies the named folder by itself; without one the journal of the process file, which is read
/// only then, against the database.
pub(crate) async fn run(
    config: impl FnOnce() -> Result<Config, Failure>,
    output: Output,
    folder: Option<&Path>,
    heads: Option<&Path>,
) -> Result<(), Failure> {
    let intact = match folder {
        Some(folder) => alone(output, folder)?,
        None => with_database(&config()?, output, heads).await?,
    };
    if intact {
        Ok(())
    } else {
        Err(Failure::new("EP0206", Exit::Findings, "the journal was tampered with"))
    }
}

/// A folder, without anything to compare it with.
fn alone(output: Output, folder: &Path) -> Result<bool, Failure> {
    let report = entrepot_journal::verify(folder).map_err(unreadable)?;
    output.value(&report, || println!("{report}"))?;
    Ok(report.is_intact())
}

/// The heads of a file.
fn kept_heads(file: &Path) -> Result<Vec<SentHead>, Failure> {
    let name = file.display().to_string();
    let cannot = |error: std::io::Error| Failure::file(format!("cannot read '{name}': {error}"));
    let mut text = String::new();
    let opened = std::fs::File::open(file).map_err(cannot)?;
    opened.take(limits::HEADS_FILE_BYTES).read_to_string(&mut text).map_err(cannot)?;
    read_heads(&name, &text)
        .map_err(|error| Failure::new(error.code(), Exit::Invalid, error.to_string()))
}

async fn with_database(
    config: &Config,
    output: Output,
    heads: Option<&Path>,
) -> Result<bool, Failure> {
    let outside = heads.map(kept_heads).transpose()?.unwrap_or_default();
    let away = |error: entrepot_db::DbError| {
        let failure = crate::parts::db_failure(error);
        let hint = "verify the folder alone: 'entrepot journal verify FOLDER'";
        Failure { message: format!("{}; {hint}", failure.message), ..failure }
    };
    let options = DbOptions { old_tables: OldTables::Refuse, ..DbOptions::default() };
    let db = Db::open(&config.database, options).await.map_err(away)?;
    let nodes = db.nodes().await.map_err(away)?;
    let Some(node) = nodes.into_iter().find(|node| node.name == config.node) else {
        // It never served: there is nothing to compare its journal with.
        return alone(output, &config.journal());
    };
    let key = db.node_key(node.id).await.map_err(away)?;
    let keys = key.and_then(|key| key.public.parse().ok()).into_iter().collect();
    let signers = db.node_keys().await.map_err(away)?;
    let signers = signers.iter().filter_map(|key| key.parse().ok()).collect();
    let (node, id, folder) = (node.name, node.id, config.journal());
    let compared = Compared { db, node, id, folder, keys, signers, outside };
    let found = compare(compared).await.map_err(|error| match error {
        ProofError::Journal(error) => unreadable(error),
        ProofError::Db(error) => away(error),
        error => Failure::new(error.code(), Exit::Failed, error.to_string()),
    })?;
    output.value(&found, || println!("{found}"))?;
    Ok(found.is_intact())
}

fn unreadable(error: JournalError) -> Failure {
    let exit = match error {
        JournalError::NoJournal { .. } => Exit::NotFound,
        _ => Exit::Failed,
    };
    Failure::new(error.code(), exit, error.to_string())
}
