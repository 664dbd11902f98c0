//! All SQL of Entrepot: configuration, the audit log, transfers, jobs and nodes, on SQLite or
//! PostgreSQL.
//!
//! See `README.md` for what this crate guarantees. Statements are static text with bound values
//! ([`sql`]), written once for both databases; what differs stands in `sqlite.rs` and
//! `postgres.rs`.

mod codes;
mod error;
mod events;
mod heads;
mod jobs;
pub mod limits;
mod migrate;
mod moment;
mod nodes;
mod nouns;
mod penalties;
mod postgres;
mod project;
mod references;
mod retention;
mod sql;
mod sqlite;
mod transfers;
mod tx;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Env, Name, SiteId};

pub use error::{DbError, Result};
pub use events::{EventFilter, EventRow};
pub use heads::{EventPlace, NodeKey, ProjectedEvent, StoredHead};
pub use jobs::{Claim, JobCounts, JobEnd, JobFilter, JobHold};
pub use nodes::{Beat, BeatAnswer, Beaten, Drained, Incarnation, Node, NodeIdentity};
pub use penalties::{Penalty, PenaltyAccount, PenaltyKind, PenaltyPosition, PenaltyRow};
pub use project::{Projected, Projection};
pub use references::NounUser;
pub use retention::{EventRange, OldEvent, PrunedKind, StoredStub};
pub use transfers::TransferFilter;
pub use tx::Tx;

use postgres::Purpose;
use sql::{Reader, Sql, Value, sql, statements};

/// The kinds of database that a [`Db`] can be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Dialect {
    /// A SQLite file: one node.
    Sqlite,
    /// A PostgreSQL server: any number of nodes.
    Postgres,
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgres",
        })
    }
}

/// How to open a database.
#[derive(Clone, Debug)]
pub struct DbOptions {
    /// Source of time, for [`Db::ping`] and, on SQLite, for heartbeats of nodes.
    pub env: Env,
    /// URL of a PostgreSQL role that may change tables; then the role of the serving URL needs
    /// no such right and is granted what it needs. Unset: the serving role migrates.
    pub migrate_url: Option<String>,
    /// Most connections to PostgreSQL. Unset: [`limits::POSTGRES_CONNECTIONS`].
    pub connections: Option<usize>,
}

impl Default for DbOptions {
    fn default() -> Self {
        DbOptions { env: Env::real(), migrate_url: None, connections: None }
    }
}

/// An open database. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    backend: Arc<Backend>,
    env: Env,
}

enum Backend {
    Sqlite(sqlite::Sqlite),
    Postgres(postgres::Postgres),
}

statements! {
    PING = sql!("SELECT CAST(1 AS BIGINT)");
    MAIN_SITE = sql!(
        "INSERT INTO sites (id, site, name, revision, changed_at, body) ",
        "VALUES ($1, $1, $2, 1, $3, $4) ON CONFLICT DO NOTHING",
    );
}

impl Db {
    /// Opens `sqlite:///absolute/path.db` (made with mode 0600 if missing) or
    /// `postgres://user@host/database`, brings the tables up to date and makes sure that the site
    /// `main` is there.
    ///
    /// TLS towards PostgreSQL: `sslmode=disable`, or `require`, `verify-ca`, `verify-full`, which
    /// all check chain and host name (`sslrootcert=FILE`, else the system's authorities). Without
    /// `sslmode` only a Unix socket or loopback is spoken to in clear.
    ///
    /// # Errors
    /// [`DbError::Unavailable`] if it cannot be reached now, [`DbError::Setup`] for a wrong URL,
    /// role, password or database, [`DbError::Schema`], [`DbError::NotDurable`].
    pub async fn open(url: &str, options: DbOptions) -> Result<Db> {
        let backend = match url.split_once("://") {
            Some(("sqlite", path)) if path.starts_with('/') => {
                Backend::Sqlite(sqlite::Sqlite::open(PathBuf::from(path)).await?)
            }
            Some(("postgres" | "postgresql", _)) => {
                let connections = options.connections.unwrap_or(limits::POSTGRES_CONNECTIONS);
                let migrate = options.migrate_url.as_deref();
                Backend::Postgres(postgres::Postgres::open(url, migrate, connections).await?)
            }
            _ => {
                return Err(DbError::Setup(
                    "the URL must be sqlite:///absolute/path.db or postgres://user@host/database"
                        .to_owned(),
                ));
            }
        };
        let db = Db { backend: Arc::new(backend), env: options.env };
        db.make_main_site().await?;
        Ok(db)
    }

    async fn make_main_site(&self) -> Result<()> {
        let body = serde_json::json!({ "name": "main" }).to_string();
        let values =
            vec![SiteId::MAIN.0.into(), "main".into(), self.env.now().into(), Value::text(body)];
        self.execute(MAIN_SITE, values).await.map(drop)
    }

    /// Which database it is.
    pub fn dialect(&self) -> Dialect {
        match *self.backend {
            Backend::Sqlite(_) => Dialect::Sqlite,
            Backend::Postgres(_) => Dialect::Postgres,
        }
    }

    /// Asks the database for an answer; how long it took.
    pub async fn ping(&self) -> Result<Duration> {
        let before = self.env.elapsed();
        self.read(PING, Vec::new(), |row| row.int(0)).await?;
        Ok(self.env.elapsed().saturating_sub(before))
    }

    /// Begins a transaction that changes configuration. Over all nodes only one is open at a
    /// time; others wait. Keep it short. Dropped without a commit it leaves nothing.
    pub async fn begin(&self) -> Result<Tx> {
        Ok(Tx::new(self.work(Purpose::Configuration).await?))
    }

    /// Runs a statement that only reads.
    async fn read<T: Send + 'static>(
        &self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        match &*self.backend {
            Backend::Sqlite(sqlite) => sqlite.read(sql, values, reader).await,
            Backend::Postgres(postgres) => postgres.read(sql, values, reader).await,
        }
    }

    /// Runs one statement that changes rows and answers with some.
    async fn write<T: Send + 'static>(
        &self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        match &*self.backend {
            Backend::Sqlite(sqlite) => sqlite.write(sql, values, reader).await,
            Backend::Postgres(postgres) => postgres.write(sql, values, reader).await,
        }
    }

    /// Runs one statement that changes rows: how many.
    async fn execute(&self, sql: Sql, values: Vec<Value>) -> Result<u64> {
        match &*self.backend {
            Backend::Sqlite(sqlite) => sqlite.execute(sql, values).await,
            Backend::Postgres(postgres) => postgres.execute(sql, values).await,
        }
    }

    async fn work(&self, purpose: Purpose) -> Result<tx::Work> {
        Ok(match &*self.backend {
            Backend::Sqlite(sqlite) => tx::Work::sqlite(sqlite.begin().await?),
            Backend::Postgres(postgres) => tx::Work::postgres(postgres.begin(purpose).await?),
        })
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.dialect())
    }
}

/// What most filters begin with.
fn name_filter(name: Option<&Name>) -> Value {
    Value::maybe_text(name.map(Name::as_str))
}

/// `limit` within [`limits::PAGE_ROWS`].
fn page(limit: u32) -> Value {
    Value::from(i64::from(limit.min(limits::PAGE_ROWS)))
}

#[cfg(test)]
mod tests;
