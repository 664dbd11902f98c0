//! Migrations: embedded, only forward. A file fits both databases, or there is one for each.
//!
//! This file knows the steps. How a database says at which step it is, and who must wait for whom
//! while it changes, stands in `sqlite.rs` and `postgres.rs`.

use refinery::{Migration, Runner};
use rusqlite::Connection;
use tokio_postgres::Client;

use crate::error::{DbError, Result};

/// One step of the tables.
struct Step {
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
}

macro_rules! step {
    ($name:literal) => {{
        const TEXT: &str = include_str!(concat!("../migrations/", $name, ".sql"));
        Step { name: $name, sqlite: TEXT, postgres: TEXT }
    }};
    ($name:literal, each) => {
        Step {
            name: $name,
            sqlite: include_str!(concat!("../migrations/", $name, ".sqlite.sql")),
            postgres: include_str!(concat!("../migrations/", $name, ".postgres.sql")),
        }
    };
}

/// In order; only ever appended to.
const STEPS: [Step; 5] = [
    step!("V1__configuration"),
    step!("V2__events", each),
    step!("V3__work"),
    step!("V4__codes"),
    step!("V6__penalties"),
];

/// The version that tables have after a step: the number in its name.
fn version_of(step: &Step) -> i64 {
    let number = step.name.trim_start_matches('V').split("__").next();
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// True if steps are missing in tables of this version; version 0 means that there are no tables.
///
/// # Errors
/// [`DbError::Schema`] if the tables come from a newer program.
pub(crate) fn is_outdated(version: i64) -> Result<bool> {
    let latest = STEPS.last().map_or(0, version_of);
    if version > latest {
        return Err(DbError::Schema(format!(
            "it is at version {version}, this program knows {latest} at most; start the newer \
             program"
        )));
    }
    Ok(version < latest)
}

/// Runs the missing steps on a SQLite file, in one transaction.
pub(crate) fn run_on_sqlite(connection: &mut Connection) -> Result<()> {
    runner(|step| step.sqlite)?.run(connection).map(drop).map_err(failed)
}

/// Runs the missing steps on a PostgreSQL database, in one transaction.
pub(crate) async fn run_on_postgres(client: &mut Client) -> Result<()> {
    runner(|step| step.postgres)?.run_async(client).await.map(drop).map_err(failed)
}

fn runner(text: fn(&Step) -> &'static str) -> Result<Runner> {
    let migrations: std::result::Result<Vec<_>, _> =
        STEPS.iter().map(|step| Migration::unapplied(step.name, text(step))).collect();
    Ok(Runner::new(&migrations.map_err(failed)?).set_grouped(true))
}

fn failed(error: refinery::Error) -> DbError {
    let mut why = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(inner) = source {
        why.push_str(": ");
        why.push_str(&inner.to_string());
        source = inner.source();
    }
    DbError::Schema(why)
}
