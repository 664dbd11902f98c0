//! `migrate`: brings the tables of a stopped installation up to date and sets a torn end of its
//! journal aside, as the server does at its start; or says only that it would.

use entrepot_db::Db;
use entrepot_journal::JournalError;
use serde::Serialize;

use crate::args::MigrateArgs;
use crate::ask::problem;
use crate::config::Config;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::parts::{Opening, Parts, db_failure, journal_failure};

/// What there is to do, or was done.
#[derive(Debug, Serialize)]
struct Migration {
    /// The newest step that the tables have had so far.
    tables: i64,
    /// The newest step that this program knows.
    program: i64,
    /// Steps in between.
    steps: Vec<String>,
    /// Bytes at the end of the journal that are no whole record.
    torn_bytes: u64,
}

impl Migration {
    async fn due(config: &Config) -> Result<Migration, Failure> {
        let state = Db::look(&config.database).await.map_err(db_failure)?;
        let torn_bytes = match entrepot_journal::verify(&config.journal()) {
            Ok(report) => report.torn_bytes,
            Err(JournalError::NoJournal { .. }) => 0,
            Err(error) => return Err(journal_failure(error)),
        };
        Ok(Migration {
            tables: state.found,
            program: state.known,
            steps: state.missing.iter().map(|step| (*step).to_owned()).collect(),
            torn_bytes,
        })
    }

    fn is_nothing(&self) -> bool {
        self.steps.is_empty() && self.torn_bytes == 0
    }

    fn print(&self, verb: &str) {
        if self.steps.is_empty() {
            println!("the tables are of version {}: nothing to do", self.tables);
        } else {
            println!("tables {verb} from version {} to {}:", self.tables, self.program);
            self.steps.iter().for_each(|step| println!("  {step}"));
        }
        match self.torn_bytes {
            0 => println!("the journal ends in a whole record: nothing to do"),
            bytes => println!("{bytes} torn bytes at the end of the journal {verb} into 'torn/'"),
        }
    }
}

/// Migrates, or with `--check` says what there is to do: exit code 7 if there is something.
pub(crate) async fn run(
    config: &Config,
    output: Output,
    args: &MigrateArgs,
) -> Result<(), Failure> {
    let due = Migration::due(config).await?;
    if args.check {
        output.value(&due, || due.print("would be moved"))?;
        if due.is_nothing() {
            return Ok(());
        }
        let why = "there is something to do; nothing was changed; run 'entrepot migrate'";
        return Err(Failure::new("EP0290", Exit::Outdated, why));
    }
    // A running server holds the journal, and is told apart by that.
    let parts = Parts::open(config, Opening::MayMend).await?;
    let joined = parts.admin(None).join().await;
    let done = Migration { torn_bytes: parts.recovered.torn_bytes, ..due };
    parts.close().await?;
    joined.map_err(|error| problem(error.into()))?;
    output.value(&done, || done.print("moved"))
}
