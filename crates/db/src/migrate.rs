//! Migrations: embedded, only forward. A file fits both databases, or there is one for each.
//!
//! Each names the oldest program that may still serve on the tables that it leaves, so that nodes
//! can be brought to a newer version one after the other.
//!
//! This file knows the steps. How a database says at which step it is, and who must wait for whom
//! while it changes, stands in `sqlite.rs` and `postgres.rs`.

use refinery::{Migration, Runner};
use rusqlite::Connection;
use tokio_postgres::Client;

use crate::error::{DbError, Result};

/// One step of the tables.
struct Step {
    /// `V`, its number, `__` and what it is about.
    name: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    /// The newest step that the oldest program knows which may serve after this one.
    oldest_program: i64,
}

impl Step {
    /// What the database knows it by. Numbers grow from step to step; one may be left out.
    fn number(&self) -> i64 {
        let number = self.name.strip_prefix('V').and_then(|rest| rest.split_once("__"));
        number.and_then(|(number, _)| number.parse().ok()).unwrap_or_default()
    }
}

/// A step after which only programs may serve that know it, unless it names an older one.
macro_rules! step {
    ($name:literal, $oldest:expr) => {{
        const TEXT: &str = include_str!(concat!("../migrations/", $name, ".sql"));
        Step { name: $name, sqlite: TEXT, postgres: TEXT, oldest_program: $oldest }
    }};
    ($name:literal, each, $oldest:expr) => {
        Step {
            name: $name,
            sqlite: include_str!(concat!("../migrations/", $name, ".sqlite.sql")),
            postgres: include_str!(concat!("../migrations/", $name, ".postgres.sql")),
            oldest_program: $oldest,
        }
    };
}

/// In order; only ever appended to.
const STEPS: &[Step] = &[
    step!("V1__configuration", 1),
    step!("V2__events", each, 2),
    step!("V3__work", 3),
    step!("V4__codes", 4),
    step!("V5__nodes", each, NODES),
    step!("V6__penalties", 5),
    step!("V7__heads", 5),
    step!("V8__retention", 5),
    step!("V9__speaks", 5),
    step!("V10__sign_in", 5),
    step!("V12__request_answers", 5),
    step!("V17__links", 5),
    step!("V18__acme", 5),
    step!("V19__passkeys", 5),
    step!("V21__trash", 5),
    step!("V22__oidc", 5),
    step!("V23__versions", 5),
    step!("V26__job_steps", 5),
    step!("V27__schedules", 5),
    step!("V28__job_lanes", each, 5),
    step!("V29__watches", 5),
    step!("V32__jobs_by_event", 5),
    step!("V33__job_approvals", 5),
    step!("V34__expected", 5),
    step!("V35__job_order", 5),
    step!("V36__job_waits", 5),
    step!("V40__as2_messages", 5),
    step!("V41__models", 5),
    step!("V44__watch_hints", 5),
    step!("V50__as2_receipts", 5),
    step!("V51__events_of_an_account", 5),
    step!("V52__as2_log", 5),
    step!("V53__transfer_names", 5),
    step!("V55__job_indexes", each, 5),
];

/// The step that makes the table in which the others say which programs they serve.
const NODES: i64 = 5;

/// What opening a database does with tables that are older than this program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OldTables {
    /// They are brought up to date, and made where there are none.
    #[default]
    Update,
    /// They are made where there are none, and left as they are elsewhere: [`DbError::Outdated`].
    MakeOnly,
    /// They are left as they are, and so is an empty database: [`DbError::Outdated`].
    Refuse,
}

/// What the tables say of themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Version {
    /// The newest step; 0: there are no tables.
    pub(crate) newest: i64,
    /// The oldest program that may serve on them, by the newest step it knows.
    pub(crate) oldest_program: i64,
}

/// Which program may serve, once the newest step is known.
pub(crate) const OLDEST_PROGRAM: &str =
    "SELECT oldest_program FROM schema_compatibility WHERE only_row = 1";

/// True if a table says which programs the tables serve.
pub(crate) fn names_its_programs(newest: i64) -> bool {
    newest >= NODES
}

/// True if steps are missing in the tables.
///
/// # Errors
/// [`DbError::Schema`] if the tables come from a newer program and do not serve this one.
pub(crate) fn is_outdated(found: Version) -> Result<bool> {
    let latest = known();
    let Version { newest, oldest_program } = found;
    if newest > latest && oldest_program > latest {
        return Err(DbError::Schema(format!(
            "it is at version {newest} and serves programs from version {oldest_program} on, this \
             program knows {latest}; start the newer program"
        )));
    }
    Ok(newest < latest)
}

/// True if steps are missing that `old` lets this program run.
///
/// # Errors
/// [`DbError::Outdated`] if they are missing and are not to be run; as [`is_outdated`].
pub(crate) fn must_run(found: Version, old: OldTables) -> Result<bool> {
    if !is_outdated(found)? {
        return Ok(false);
    }
    match old {
        OldTables::Update => Ok(true),
        OldTables::MakeOnly if found.newest == 0 => Ok(true),
        OldTables::MakeOnly | OldTables::Refuse => {
            Err(DbError::Outdated { found: found.newest, known: known() })
        }
    }
}

/// The newest step that this program knows.
pub(crate) fn known() -> i64 {
    STEPS.last().map_or(0, Step::number)
}

/// The names of the steps behind this one.
pub(crate) fn behind(newest: i64) -> Vec<&'static str> {
    STEPS.iter().filter(|step| step.number() > newest).map(|step| step.name).collect()
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
    let migrations: std::result::Result<Vec<_>, _> = STEPS
        .iter()
        .map(|step| {
            let mut sql = text(step).to_owned();
            if names_its_programs(step.number()) {
                let oldest = step.oldest_program;
                sql.push_str("UPDATE schema_compatibility SET oldest_program = ");
                sql.push_str(&format!("{oldest};\n"));
            }
            Migration::unapplied(step.name, &sql)
        })
        .collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_schema_serves_the_programs_that_it_names() {
        let latest = known();
        let found = |newest, oldest_program| is_outdated(Version { newest, oldest_program });
        assert!(found(0, 0).unwrap());
        assert!(found(latest - 1, latest - 1).unwrap());
        assert!(!found(latest, latest).unwrap());
        assert!(!found(latest + 2, latest).unwrap(), "the newer tables serve this program");
        assert!(matches!(found(latest + 2, latest + 1), Err(DbError::Schema(_))));
    }

    #[test]
    fn old_tables_are_changed_only_where_that_was_asked_for() {
        let latest = known();
        let run = |newest, old| must_run(Version { newest, oldest_program: newest }, old);
        let older = STEPS[STEPS.len() - 2].number();
        assert!(run(older, OldTables::Update).unwrap());
        for old in [OldTables::MakeOnly, OldTables::Refuse] {
            let error = run(older, old).unwrap_err();
            assert!(error.to_string().contains("entrepot migrate"), "{error}");
            assert!(!run(latest, old).unwrap());
        }
        assert!(run(0, OldTables::MakeOnly).unwrap());
        assert!(matches!(run(0, OldTables::Refuse), Err(DbError::Outdated { found: 0, .. })));
        assert_eq!(behind(older), [STEPS.last().unwrap().name]);
    }

    #[test]
    fn each_step_names_a_program_that_knows_tables_and_is_no_newer_than_itself() {
        let mut before = 0;
        for step in STEPS {
            let number = step.number();
            assert!((1..=number).contains(&step.oldest_program), "{}", step.name);
            assert!(step.name.starts_with(&format!("V{number}__")), "{}", step.name);
            assert!(number > before, "{}", step.name);
            before = number;
        }
        assert!(STEPS.is_sorted_by(|one, next| one.number() < next.number()), "not in order");
    }
}
