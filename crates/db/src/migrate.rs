//! Migrations: embedded, only forward. A file fits both databases, or there is one for each.

use refinery::{Migration, Runner};
use rusqlite::Connection;

use crate::error::{DbError, Result};
use crate::limits;
use crate::postgres;
use crate::sqlite;

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
const STEPS: [Step; 4] =
    [step!("V1__configuration"), step!("V2__events", each), step!("V3__work"), step!("V4__codes")];

/// The version of the tables this program works with.
pub(crate) fn latest() -> i64 {
    STEPS.len() as i64
}

/// The tables come from a newer program.
pub(crate) fn newer(found: i64) -> DbError {
    DbError::Schema(format!(
        "it is at version {found}, this program knows {} at most; start the newer program",
        latest()
    ))
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

/// Brings a SQLite file up to date.
pub(crate) fn sqlite(connection: &mut Connection) -> Result<()> {
    let mut attempt = 1;
    loop {
        let found = sqlite_version(connection)?;
        if found == latest() {
            return Ok(());
        }
        if found > latest() {
            return Err(newer(found));
        }
        // Another process may be making the same tables: whoever comes second fails, looks
        // again and finds them.
        match runner(|step| step.sqlite)?.run(connection).map_err(failed) {
            Err(error) if attempt == limits::MIGRATION_ATTEMPTS => return Err(error),
            _ => attempt += 1,
        }
    }
}

fn sqlite_version(connection: &Connection) -> Result<i64> {
    let known =
        connection.table_exists(None, "refinery_schema_history").map_err(sqlite::refused)?;
    if !known {
        return Ok(0);
    }
    connection
        .query_row("SELECT COALESCE(MAX(version), 0) FROM refinery_schema_history", [], |row| {
            row.get(0)
        })
        .map_err(sqlite::refused)
}

/// The version of the tables of a PostgreSQL database; 0 if there are none.
pub(crate) async fn postgres_version(client: &deadpool_postgres::Object) -> Result<i64> {
    let known = client
        .query_one("SELECT to_regclass('refinery_schema_history') IS NOT NULL", &[])
        .await
        .map_err(postgres::refused)?;
    if !known.get::<_, bool>(0) {
        return Ok(0);
    }
    let version = "SELECT COALESCE(MAX(version), 0)::BIGINT FROM refinery_schema_history";
    let row = client.query_one(version, &[]).await.map_err(postgres::refused)?;
    Ok(row.get(0))
}

/// Brings a PostgreSQL database up to date; the caller holds the lock.
pub(crate) async fn postgres(client: &mut deadpool_postgres::Object) -> Result<()> {
    let found = postgres_version(client).await?;
    if found >= latest() {
        return if found > latest() { Err(newer(found)) } else { Ok(()) };
    }
    runner(|step| step.postgres)?.run_async(postgres::raw(client)).await.map_err(failed)?;
    Ok(())
}
