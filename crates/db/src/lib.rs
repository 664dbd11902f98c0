//! All SQL of Entrepot: configuration, the audit log, transfers, jobs and nodes, on SQLite or
//! PostgreSQL.
//!
//! See `README.md` for what this crate guarantees. Statements are static text with bound values
//! ([`sql`]), written once for both databases; what differs stands in `sqlite.rs` and
//! `postgres.rs`.

mod acme;
mod answers;
mod api_tokens;
mod approvals;
mod as2_log;
mod as2_messages;
mod as2_receipts;
mod claims;
mod codes;
mod configuration;
mod error;
mod events;
mod expected;
mod heads;
mod job_rows;
mod job_steps;
mod jobs;
mod known;
mod lanes;
pub mod limits;
mod link_uses;
mod migrate;
mod moment;
mod nodes;
mod nouns;
mod oidc;
mod order;
mod passkeys;
mod penalties;
mod postgres;
mod project;
mod recovery_codes;
mod references;
mod retention;
mod schedules;
mod set_up;
mod sign_ins;
mod sql;
mod sqlite;
mod transfers;
mod trash;
mod tx;
mod waits;
mod wakes;
mod watches;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Env, Name, SiteId, Timestamp};
use parking_lot::RwLock;
use uuid::Uuid;

pub use acme::{AcmeAnswer, AcmeFailure, AcmeIssued, AcmeOrder, ListenerPlace, StoredAcmeAccount};
pub use answers::{AnswerKey, StoredAnswer};
pub use api_tokens::{ApiTokenRow, ApiTokenUse};
pub use approvals::{AnswerOutcome, ApprovalKey};
pub use as2_log::As2Filter;
pub use as2_messages::{As2Claim, As2MessageKey, As2Publisher};
pub use as2_receipts::{As2QueuedReceipt, As2SentMessage};
pub use claims::{Claim, JobClaim, JobsWritten};
pub use error::{DbError, Result};
pub use events::{EventFilter, EventPage, EventRow, event_paths};
pub use expected::{
    Arrival, ArrivalTime, Decision, ExpectTelling, Expectation, ExpectedWindow, Judging,
};
pub use heads::{EventPlace, NodeKey, ProjectedEvent, StoredHead, StoredNodeKey};
pub use job_steps::RuleDocument;
pub use jobs::{
    ELSE_UNIT, HandOver, JobChange, JobCounts, JobEnd, JobEnding, JobFilter, JobHold, JobWrite,
    PassedStep, RestsFor,
};
pub use known::Configuration;
pub use lanes::{EndpointLimit, LaneCounts, LaneKey, LaneWant};
pub use link_uses::{LinkAllowance, LinkPlace, LinkUse, LinkUses};
pub use migrate::OldTables;
pub use nodes::{Beat, BeatAnswer, Beaten, Drained, Incarnation, Node, NodeIdentity};
pub use passkeys::{PasskeyUse, PasskeyUseRow};
pub use penalties::{Penalty, PenaltyAccount, PenaltyKind, PenaltyPosition, PenaltyRow};
pub use project::{Projected, Projection};
pub use references::NounUser;
pub use retention::{EventRange, OldEvent, PrunedKind, StoredStub};
pub use schedules::{Deciding, Schedule, Telling};
pub use sign_ins::SignInRow;
pub use transfers::TransferFilter;
pub use trash::TrashPlace;
pub use tx::Tx;
pub use waits::{CameKind, EventRest, EventWait, WaitKey};
pub use watches::{WatchLease, WatchedFile};

use known::KnownConfiguration;
use postgres::Purpose;
use sql::{Reader, Sql, Value, sql, statements};
use sqlite::Kept;

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
    /// What becomes of tables that are older than this program.
    pub old_tables: OldTables,
}

/// How the tables of a database stand to this program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TablesState {
    /// The newest step that they have; 0: there are none.
    pub found: i64,
    /// The newest one that this program knows.
    pub known: i64,
    /// The steps that [`Db::open`] would run with [`OldTables::Update`].
    pub missing: Vec<&'static str>,
}

impl Default for DbOptions {
    fn default() -> Self {
        DbOptions {
            env: Env::real(),
            migrate_url: None,
            connections: None,
            old_tables: OldTables::default(),
        }
    }
}

/// An open database. Cheap to clone.
#[derive(Clone)]
pub struct Db {
    backend: Arc<Backend>,
    env: Env,
    /// What answers for the database while it is away.
    known: Arc<RwLock<Option<Arc<KnownConfiguration>>>>,
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
    /// role, password or database, [`DbError::Schema`], [`DbError::NotDurable`], and
    /// [`DbError::Outdated`] where the options say so.
    pub async fn open(url: &str, options: DbOptions) -> Result<Db> {
        let backend = match Place::of(url)? {
            Place::File(path) => {
                Backend::Sqlite(sqlite::Sqlite::open(path, options.old_tables).await?)
            }
            Place::Server => Backend::Postgres(postgres(url, &options)?),
        };
        let db = Db::over(backend, options.env);
        db.reach().await?;
        Ok(db)
    }

    /// How the tables stand to this program. Looks only: no file is made or changed.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub async fn look(url: &str) -> Result<TablesState> {
        let found = match Place::of(url)? {
            Place::File(path) => {
                let looked = tokio::task::spawn_blocking(move || sqlite::look(&path)).await;
                looked.map_err(|error| DbError::Sql(error.to_string()))??
            }
            Place::Server => postgres::look(url).await?,
        };
        let missing =
            if migrate::is_outdated(found)? { migrate::behind(found.newest) } else { Vec::new() };
        Ok(TablesState { found: found.newest, known: migrate::known(), missing })
    }

    /// A PostgreSQL database that is away now. What [`Db::open`] looks at is looked at with the
    /// first connection, and until it was found good every question is refused.
    ///
    /// # Errors
    /// [`DbError::Setup`] for a wrong URL.
    pub fn open_later(url: &str, options: DbOptions) -> Result<Db> {
        let backend = Backend::Postgres(postgres(url, &options)?);
        Ok(Db::over(backend, options.env))
    }

    fn over(backend: Backend, env: Env) -> Db {
        Db { backend: Arc::new(backend), env, known: Arc::default() }
    }

    /// Whether the database answers, and is one that can be served from: looks at all that
    /// [`Db::open`] looks at, unless that was done.
    ///
    /// # Errors
    /// As [`Db::open`].
    pub async fn reach(&self) -> Result<()> {
        self.make_main_site().await?;
        self.ping().await.map(drop)
    }

    fn known(&self) -> Option<Arc<KnownConfiguration>> {
        self.known.read().clone()
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

    /// Writes a SQLite database as it is now into a new file at `target`, while others work on it.
    /// `false`: it is PostgreSQL, which has tools of its own for that.
    pub async fn copy_to(&self, target: &Path) -> Result<bool> {
        match &*self.backend {
            Backend::Sqlite(sqlite) => sqlite.copy_to(target.to_owned()).await.map(|()| true),
            Backend::Postgres(_) => Ok(false),
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
    ///
    /// # Errors
    /// [`DbError::Copied`] while a copy answers for the database.
    pub async fn begin(&self) -> Result<Tx> {
        if self.answers_from_copy() {
            return Err(DbError::Copied);
        }
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

    /// Begins a transaction that is durable when its commit returns.
    async fn work(&self, purpose: Purpose) -> Result<tx::Work> {
        self.work_kept(purpose, Kept::Now).await
    }

    /// Begins a transaction that SQLite keeps with the next one that is durable: for what a process
    /// that starts behind a power cut does again. PostgreSQL keeps it at once, for there other
    /// nodes live on and have seen it.
    async fn repeatable_work(&self, purpose: Purpose) -> Result<tx::Work> {
        self.work_kept(purpose, Kept::WithTheNext).await
    }

    async fn work_kept(&self, purpose: Purpose, kept: Kept) -> Result<tx::Work> {
        Ok(match &*self.backend {
            Backend::Sqlite(sqlite) => tx::Work::sqlite(sqlite.begin(kept).await),
            Backend::Postgres(postgres) => tx::Work::postgres(postgres.begin(purpose).await?),
        })
    }
}

impl fmt::Debug for Db {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Db({})", self.dialect())
    }
}

/// Where the URL of a database leads.
enum Place {
    /// A SQLite file.
    File(PathBuf),
    /// A PostgreSQL server.
    Server,
}

impl Place {
    fn of(url: &str) -> Result<Place> {
        match url.split_once("://") {
            Some(("sqlite", path)) if path.starts_with('/') => Ok(Place::File(path.into())),
            Some(("postgres" | "postgresql", _)) => Ok(Place::Server),
            _ => Err(DbError::Setup(
                "the URL must be sqlite:///absolute/path.db or postgres://user@host/database"
                    .to_owned(),
            )),
        }
    }
}

fn postgres(url: &str, options: &DbOptions) -> Result<postgres::Postgres> {
    let connections = options.connections.unwrap_or(limits::POSTGRES_CONNECTIONS);
    let (migrate_url, old) = (options.migrate_url.as_deref(), options.old_tables);
    postgres::Postgres::new(url, migrate_url, connections, old)
}

/// The place of a row in a list that is ordered by a time and then by the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPosition {
    /// The time by which the list is ordered.
    pub at: Timestamp,
    /// The id of the row.
    pub id: Uuid,
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
