//! The PostgreSQL side: a pool that survives restarts of the server.

mod hosts;
mod tls;

use std::error::Error as _;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use deadpool_postgres::{
    Hook, HookError, Manager, ManagerConfig, Object, Pool, PoolError, RecyclingMethod, Runtime,
    Timeouts,
};
use futures_util::future::join_all;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, NoTls};
use uuid::Uuid;

use crate::error::{DbError, Result};
use crate::limits;
use crate::migrate::{self, OldTables, Version};
use crate::sql::{Reader, Row, Sql, Value, statements};
use hosts::InTurn;
use tls::Tls;

/// Session settings. A commit must be durable on the server before it answers, whatever the
/// role's or the database's default says; nothing waits for ever for a lock or a dead peer.
const SESSION: &str = "\
    SET statement_timeout = '60s'; \
    SET lock_timeout = '15s'; \
    SET idle_in_transaction_session_timeout = '60s'; \
    SELECT set_config('synchronous_commit', 'on', false) \
    WHERE current_setting('synchronous_commit') = 'off'";

/// Transactions on configuration come one after the other over all nodes, as they do in SQLite.
const BEGIN_CONFIGURATION: &str = "BEGIN; SELECT pg_advisory_xact_lock(6915000001)";
/// So do those that write events: their sequence is then the order of their commits, and who has
/// read up to a sequence never misses an earlier one.
const BEGIN_EVENTS: &str = "BEGIN; SELECT pg_advisory_xact_lock(6915000002)";
const BEGIN: &str = "BEGIN";
const LOCK_EVENTS: &str = "SELECT pg_advisory_xact_lock(6915000002)";
/// Held while tables are made; nodes that start together wait for each other.
const LOCK_MIGRATION: &str = "SELECT pg_advisory_lock(6915000003)";

/// Gives the serving role what it needs, and no right to change tables. The role's name is a
/// setting of the session: PostgreSQL itself quotes it.
const GRANT: &str = "\
    DO $$ DECLARE serving TEXT := current_setting('entrepot.serving_role'); BEGIN \
    IF serving <> current_user THEN \
    EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), serving); \
    EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA %I TO %I', \
    current_schema(), serving); \
    EXECUTE format('REVOKE INSERT, UPDATE, DELETE ON refinery_schema_history FROM %I', serving); \
    END IF; END $$";

statements! {
    /// Is what is committed safe from a power cut?
    DURABLE = crate::sql::sql!(
        "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
    );
    SET_ROLE = crate::sql::sql!("SELECT set_config('entrepot.serving_role', $1, false)");
}

/// What a transaction is for; it decides what it waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// It changes nouns: it waits for other changes of the configuration, of all nodes.
    Configuration,
    /// It writes events: it waits for all others that write events.
    Events,
    /// It changes neither, and waits only where it meets a locked row.
    Other,
}

/// A PostgreSQL server.
pub(crate) struct Postgres {
    pool: Pool,
    opening: Opening,
    /// Set once the server was found to be one that can be served from.
    opened: AtomicBool,
}

/// What is needed to look at a server for the first time.
struct Opening {
    /// The role that may change tables.
    migrate_url: String,
    /// The role that serves.
    serving: String,
    /// What may be done with older tables.
    old: OldTables,
}

impl Postgres {
    /// Connects to nothing yet. Tables are brought up to date as far as `old` allows it.
    pub(crate) fn new(
        url: &str,
        migrate_url: Option<&str>,
        connections: usize,
        old: OldTables,
    ) -> Result<Self> {
        let (config, tls) = tls::parse(url)?;
        let opening = Opening {
            migrate_url: migrate_url.unwrap_or(url).to_owned(),
            serving: config.get_user().unwrap_or_default().to_owned(),
            old,
        };
        Ok(Postgres {
            pool: pool(config, tls, connections)?,
            opening,
            opened: AtomicBool::new(false),
        })
    }

    /// Brings the tables up to date (with the URL for that, so that the serving role needs no right
    /// to), and checks that commits are durable.
    async fn look(&self) -> Result<()> {
        let client = self.connection().await?;
        let found = version(&client).await?;
        if migrate::must_run(found, self.opening.old)? {
            migrate_tables(&self.opening.migrate_url, &self.opening.serving).await?;
        }
        check_durable(&client).await
    }

    /// A connection to a server that can be served from.
    async fn client(&self) -> Result<Object> {
        if !self.opened.load(Ordering::Acquire) {
            // Several may look at a time: nobody waits for another one's time limit.
            self.look().await?;
            self.opened.store(true, Ordering::Release);
        }
        self.connection().await
    }

    async fn connection(&self) -> Result<Object> {
        self.pool.get().await.map_err(unreachable_server)
    }

    /// Runs a statement that only reads. The server may have ended the connection while it rested
    /// in the pool: then it is tried once more on another.
    pub(crate) async fn read<T>(
        &self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        let client = self.client().await?;
        match query(&client, sql, &values, reader).await {
            Err(DbError::Unavailable(_)) => {
                drop(Object::take(client));
                query(&self.client().await?, sql, &values, reader).await
            }
            result => result,
        }
    }

    /// Runs one statement that changes rows, in a transaction of its own.
    pub(crate) async fn write<T>(
        &self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        let client = self.client().await?;
        let result = query(&client, sql, &values, reader).await;
        leave(client, result)
    }

    /// As [`Postgres::write`] for a statement without an answer: how many rows it changed.
    pub(crate) async fn execute(&self, sql: Sql, values: Vec<Value>) -> Result<u64> {
        let client = self.client().await?;
        let result = execute(&client, sql, &values).await;
        leave(client, result)
    }

    /// Begins a transaction.
    pub(crate) async fn begin(&self, purpose: Purpose) -> Result<Work> {
        let work = Work { client: Some(self.client().await?) };
        let begin = match purpose {
            Purpose::Configuration => BEGIN_CONFIGURATION,
            Purpose::Events => BEGIN_EVENTS,
            Purpose::Other => BEGIN,
        };
        work.client()?.batch_execute(begin).await.map_err(refused)?;
        Ok(work)
    }
}

#[cfg(test)]
impl Postgres {
    /// Runs statements on any connection.
    pub(crate) async fn raw(&self, text: &'static str) -> Result<()> {
        self.client().await?.batch_execute(text).await.map_err(refused)
    }

    /// Prepares a statement.
    pub(crate) async fn prepare(&self, sql: Sql) -> Result<()> {
        self.client().await?.prepare(sql.text()).await.map(drop).map_err(refused)
    }
}

/// A transaction. Dropped without a commit its connection is closed, and with it the transaction.
pub(crate) struct Work {
    client: Option<Object>,
}

impl Drop for Work {
    fn drop(&mut self) {
        if let Some(client) = self.client.take() {
            drop(Object::take(client));
        }
    }
}

impl Work {
    fn client(&self) -> Result<&Object> {
        self.client.as_ref().ok_or_else(|| DbError::Sql("the transaction is over".to_owned()))
    }

    /// Waits for the other transactions that write events.
    pub(crate) async fn lock_events(&self) -> Result<()> {
        self.client()?.batch_execute(LOCK_EVENTS).await.map_err(refused)
    }

    /// Runs a statement and reads its answer.
    pub(crate) async fn query<T>(
        &self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        query(self.client()?, sql, &values, reader).await
    }

    /// Runs a statement: how many rows it changed.
    pub(crate) async fn execute(&self, sql: Sql, values: Vec<Value>) -> Result<u64> {
        execute(self.client()?, sql, &values).await
    }

    /// Runs one statement after the other: how many rows each changed. All of them are sent at
    /// once, in their order, so that the server is not waited for between two; behind one that it
    /// refuses it refuses the others too, and the error is that of the first.
    pub(crate) async fn many(&self, statements: Vec<(Sql, Vec<Value>)>) -> Result<Vec<u64>> {
        let client = self.client()?;
        let mut prepared = Vec::with_capacity(statements.len());
        for (sql, values) in &statements {
            let statement = client.prepare_cached(sql.text()).await.map_err(refused)?;
            let bound: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as _).collect();
            prepared.push((statement, bound));
        }
        // What is first polled first is sent first.
        let sent = prepared.iter().map(|(statement, bound)| client.execute(statement, bound));
        join_all(sent).await.into_iter().map(|changed| changed.map_err(refused)).collect()
    }

    /// Runs a statement that takes its rows as one array a column (`UNNEST`).
    pub(crate) async fn each(&self, sql: Sql, width: usize, values: Vec<Value>) -> Result<()> {
        self.rows(sql, width, &values, |_| Ok(())).await.map(drop)
    }

    /// As [`Work::each`], and reads its answer.
    pub(crate) async fn rows<T>(
        &self,
        sql: Sql,
        width: usize,
        values: &[Value],
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        let columns = transpose(width, values)?;
        let client = self.client()?;
        let statement = client.prepare_cached(sql.text()).await.map_err(refused)?;
        let bound: Vec<&(dyn ToSql + Sync)> = columns.iter().map(Column::as_sql).collect();
        let rows = client.query(&statement, &bound).await.map_err(refused)?;
        rows.iter().map(|row| reader(&Row::Postgres(row))).collect()
    }

    /// Commits; durable when it returns.
    pub(crate) async fn commit(mut self) -> Result<()> {
        self.client()?.batch_execute("COMMIT").await.map_err(refused)?;
        // Back into the pool: the transaction has ended.
        self.client = None;
        Ok(())
    }
}

async fn check_durable(client: &Object) -> Result<()> {
    let both = |row: &Row<'_>| Ok((row.text(0)?, row.text(1)?));
    for (fsync, commit) in query(client, DURABLE, &[], both).await? {
        for (setting, value) in [("fsync", fsync), ("synchronous_commit", commit)] {
            if value == "off" {
                return Err(DbError::NotDurable { setting, value });
            }
        }
    }
    Ok(())
}

/// Gives a connection back to the pool, unless its server cannot be written to now: one that has
/// become a standby keeps its connections.
fn leave<T>(client: Object, result: Result<T>) -> Result<T> {
    if matches!(result, Err(DbError::Unavailable(_))) {
        drop(Object::take(client));
    }
    result
}

/// One column of many rows.
enum Column<'a> {
    Text(Vec<Option<&'a str>>),
    Int(Vec<Option<i64>>),
    Id(Vec<Option<Uuid>>),
    Bool(Vec<bool>),
}

impl<'a> Column<'a> {
    fn beginning(value: &'a Value) -> Self {
        match value {
            Value::Text(_) => Column::Text(Vec::new()),
            Value::Int(_) => Column::Int(Vec::new()),
            Value::Id(_) => Column::Id(Vec::new()),
            Value::Bool(_) => Column::Bool(Vec::new()),
        }
    }

    fn push(&mut self, value: &'a Value) -> Result<()> {
        match (self, value) {
            (Column::Text(column), Value::Text(text)) => column.push(text.as_deref()),
            (Column::Int(column), Value::Int(number)) => column.push(*number),
            (Column::Id(column), Value::Id(id)) => column.push(*id),
            (Column::Bool(column), Value::Bool(truth)) => column.push(*truth),
            _ => return Err(DbError::Sql("a column mixes types".to_owned())),
        }
        Ok(())
    }

    fn as_sql(&self) -> &(dyn ToSql + Sync) {
        match self {
            Column::Text(column) => column,
            Column::Int(column) => column,
            Column::Id(column) => column,
            Column::Bool(column) => column,
        }
    }
}

fn transpose(width: usize, values: &[Value]) -> Result<Vec<Column<'_>>> {
    let mut columns: Vec<Column<'_>> = values.iter().take(width).map(Column::beginning).collect();
    for row in values.chunks(width) {
        for (column, value) in columns.iter_mut().zip(row) {
            column.push(value)?;
        }
    }
    Ok(columns)
}

fn pool(config: Config, tls: Tls, connections: usize) -> Result<Pool> {
    let how = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let hosts = u32::try_from(config.get_hosts().len()).unwrap_or(u32::MAX);
    let (manager, create) = match (InTurn::of(&config, &tls), tls) {
        (Some(in_turn), _) => {
            let create = limits::POSTGRES_HOST.saturating_mul(hosts);
            let create = create.saturating_add(limits::POSTGRES_HOSTS_SPARE);
            (Manager::from_connect(config, in_turn, how), create)
        }
        (None, Tls::Off) => (Manager::from_config(config, NoTls, how), limits::POSTGRES_CONNECT),
        (None, Tls::Verified(connector)) => {
            (Manager::from_config(config, connector, how), limits::POSTGRES_CONNECT)
        }
    };
    let timeouts = Timeouts {
        wait: Some(limits::POSTGRES_WAIT.max(create)),
        create: Some(create),
        recycle: Some(limits::POSTGRES_CONNECT),
    };
    Pool::builder(manager)
        .max_size(connections)
        .timeouts(timeouts)
        .runtime(Runtime::Tokio1)
        .post_create(Hook::async_fn(|client, _| {
            Box::pin(async move { client.batch_execute(SESSION).await.map_err(HookError::Backend) })
        }))
        .build()
        .map_err(|e| DbError::Setup(e.to_string()))
}

/// What the tables say of themselves; nothing is changed.
pub(crate) async fn look(url: &str) -> Result<Version> {
    let (config, tls) = tls::parse(url)?;
    let one = pool(config, tls, 1)?;
    let client = one.get().await.map_err(unreachable_server)?;
    version(&client).await
}

async fn migrate_tables(url: &str, serving: &str) -> Result<()> {
    let (config, tls) = tls::parse(url)?;
    // The pool's own set-up gives a connection with its driver; one is enough.
    let one = pool(config, tls, 1)?;
    let mut client = one.get().await.map_err(unreachable_server)?;
    let longer = "SET statement_timeout = 0; SET lock_timeout = 0";
    client.batch_execute(longer).await.map_err(refused)?;
    client.batch_execute(LOCK_MIGRATION).await.map_err(refused)?;
    // Another node may have been first.
    if migrate::is_outdated(version(&client).await?)? {
        migrate::run_on_postgres(&mut client).await?;
    }
    query(&client, SET_ROLE, &[Value::text(serving)], |_| Ok(())).await?;
    client.batch_execute(GRANT).await.map_err(refused)?;
    // Closing the connection lets the lock go.
    drop(Object::take(client));
    Ok(())
}

/// What the tables say of themselves.
async fn version(client: &Client) -> Result<Version> {
    let known = "SELECT to_regclass('refinery_schema_history') IS NOT NULL";
    if !client.query_one(known, &[]).await.map_err(refused)?.get::<_, bool>(0) {
        return Ok(Version { newest: 0, oldest_program: 0 });
    }
    let newest = "SELECT COALESCE(MAX(version), 0)::BIGINT FROM refinery_schema_history";
    let newest = client.query_one(newest, &[]).await.map_err(refused)?.get(0);
    let mut oldest_program = newest;
    if migrate::names_its_programs(newest) {
        let asked = client.query_one(migrate::OLDEST_PROGRAM, &[]).await;
        oldest_program = asked.map_err(refused)?.get(0);
    }
    Ok(Version { newest, oldest_program })
}

async fn query<T>(
    client: &Object,
    sql: Sql,
    values: &[Value],
    reader: Reader<T>,
) -> Result<Vec<T>> {
    let statement = client.prepare_cached(sql.text()).await.map_err(refused)?;
    let bound: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as _).collect();
    let rows = client.query(&statement, &bound).await.map_err(refused)?;
    rows.iter().map(|row| reader(&Row::Postgres(row))).collect()
}

async fn execute(client: &Object, sql: Sql, values: &[Value]) -> Result<u64> {
    let statement = client.prepare_cached(sql.text()).await.map_err(refused)?;
    let bound: Vec<&(dyn ToSql + Sync)> = values.iter().map(|v| v as _).collect();
    client.execute(&statement, &bound).await.map_err(refused)
}

impl ToSql for Value {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut bytes::BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match (self, ty) {
            (Value::Text(Some(text)), &Type::TEXT) => text.to_sql(ty, out),
            (Value::Int(Some(number)), &Type::INT8) => number.to_sql(ty, out),
            (Value::Id(Some(id)), &Type::UUID) => id.to_sql(ty, out),
            (Value::Bool(truth), &Type::BOOL) => truth.to_sql(ty, out),
            (Value::Text(None) | Value::Int(None) | Value::Id(None), _) => Ok(IsNull::Yes),
            (value, ty) => Err(format!("{value:?} is bound where {ty} is expected").into()),
        }
    }

    fn accepts(ty: &Type) -> bool {
        [Type::TEXT, Type::INT8, Type::UUID, Type::BOOL].contains(ty)
    }

    to_sql_checked!();
}

/// No connection could be had.
fn unreachable_server(error: PoolError) -> DbError {
    match error {
        PoolError::Backend(error) | PoolError::PostCreateHook(HookError::Backend(error)) => {
            match refused(error) {
                DbError::Sql(why) => DbError::Setup(why),
                other => other,
            }
        }
        other => DbError::Unavailable(other.to_string()),
    }
}

/// Sorts an error of PostgreSQL by what the caller can do about it (PostgreSQL 18 Documentation,
/// Appendix A).
fn refused(error: tokio_postgres::Error) -> DbError {
    let Some(db) = error.as_db_error() else {
        let why = with_source(&error);
        return if error.is_closed() || is_transport(&error) {
            DbError::Unavailable(why)
        } else {
            DbError::Sql(why)
        };
    };
    let why = format!("{} (SQLSTATE {})", db.message(), db.code().code());
    let class = db.code().code().get(..2).unwrap_or_default();
    match (db.code(), class) {
        (code, _) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => DbError::Unavailable(why),
        (code, _) if *code == SqlState::LOCK_NOT_AVAILABLE => DbError::Unavailable(why),
        // Connection, resources, operator intervention, system error, deadlock and serialization.
        (_, "08" | "53" | "57" | "58" | "40") => DbError::Unavailable(why),
        (_, "23") => DbError::Conflict(why),
        // Invalid authorization, unknown database.
        (_, "28" | "3D") => DbError::Setup(format!("{why}; check the database URL")),
        _ => DbError::Sql(why),
    }
}

/// True if bytes could not be exchanged; a certificate that is refused is not that.
fn is_transport(error: &tokio_postgres::Error) -> bool {
    let mut source = error.source();
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<io::Error>() {
            return !matches!(io.kind(), io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput);
        }
        source = inner.source();
    }
    // Its own connect timeout has no source; the text is all the crate lets us see.
    error.to_string().contains("timeout")
}

fn with_source(error: &tokio_postgres::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
