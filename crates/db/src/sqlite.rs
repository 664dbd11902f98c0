//! The SQLite side: one connection that writes, a few that read, none on the async threads.
//!
//! Write-ahead log with `synchronous=FULL`: a commit is on stable storage when it returns
//! (<https://www.sqlite.org/pragma.html#pragma_synchronous>), readers never wait for the writer.
//! Transactions that [`Kept::WithTheNext`] have `NORMAL`, which writes the log and waits for no
//! disk: a power cut may take the last of them away, never one from between others.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, params_from_iter};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, Semaphore};
use tokio::task::{JoinError, spawn_blocking};

use crate::error::{DbError, Result};
use crate::limits;
use crate::migrate::{self, OldTables, Version};
use crate::sql::{Reader, Row, Sql, Value};

/// An open SQLite database.
pub(crate) struct Sqlite {
    writer: Arc<AsyncMutex<Writing>>,
    readers: Arc<Readers>,
    permits: Arc<Semaphore>,
}

/// When a transaction is safe from a power cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// When its commit returns.
    Now,
    /// When the next commit that is kept at once returns, or before. For what is done anew, with
    /// the same end, if it was lost.
    WithTheNext,
}

/// The connection that writes.
struct Writing {
    connection: Connection,
    /// When it keeps what it commits.
    kept: Kept,
}

impl Writing {
    /// Outside of a transaction: when those to come are kept.
    fn keep(&mut self, kept: Kept) -> Result<()> {
        if self.kept != kept {
            let setting = match kept {
                Kept::Now => "PRAGMA synchronous = FULL",
                Kept::WithTheNext => "PRAGMA synchronous = NORMAL",
            };
            self.connection.execute_batch(setting).map_err(refused)?;
            self.kept = kept;
        }
        Ok(())
    }

    fn begin(&mut self, kept: Kept) -> Result<()> {
        self.keep(kept)?;
        self.connection.execute_batch("BEGIN IMMEDIATE").map_err(refused)
    }
}

/// Reading connections at rest.
struct Readers {
    path: PathBuf,
    idle: Mutex<Vec<Connection>>,
}

impl Sqlite {
    /// Opens or creates the file at `path` (mode 0600); `old` says what becomes of its tables.
    pub(crate) async fn open(path: PathBuf, old: OldTables) -> Result<Self> {
        let readers = Arc::new(Readers { path: path.clone(), idle: Mutex::default() });
        let writer = spawn_blocking(move || {
            if old != OldTables::Update {
                // Before a connection is made that may change the file, or what lies beside it.
                migrate::must_run(look(&path)?, old)?;
            }
            create(&path)?;
            let mut writer = connect(&path)?;
            bring_up_to_date(&mut writer, old)?;
            Ok(writer)
        });
        let writing = Writing { connection: writer.await.map_err(joined)??, kept: Kept::Now };
        Ok(Sqlite {
            writer: Arc::new(AsyncMutex::new(writing)),
            readers,
            permits: Arc::new(Semaphore::new(limits::SQLITE_READERS)),
        })
    }

    /// Runs a statement that only reads.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        let permit = self.permits.clone().acquire_owned().await;
        let permit = permit.map_err(|e| DbError::Unavailable(e.to_string()))?;
        let readers = self.readers.clone();
        let work = spawn_blocking(move || {
            let _permit = permit;
            let resting = readers.idle.lock().pop();
            let connection = match resting {
                Some(connection) => connection,
                None => connect(&readers.path)?,
            };
            let rows = query(&connection, sql, &values, reader);
            readers.idle.lock().push(connection);
            rows
        });
        work.await.map_err(joined)?
    }

    /// Runs one statement that changes rows, in a transaction of its own.
    pub(crate) async fn write<T: Send + 'static>(
        &self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        let mut writer = Writer(self.writer.clone().lock_owned().await);
        let work = spawn_blocking(move || {
            writer.0.keep(Kept::Now)?;
            query(&writer.0.connection, sql, &values, reader)
        });
        work.await.map_err(joined)?
    }

    /// As [`Sqlite::write`] for a statement without an answer: how many rows it changed.
    pub(crate) async fn execute(&self, sql: Sql, values: Vec<Value>) -> Result<u64> {
        let mut writer = Writer(self.writer.clone().lock_owned().await);
        let work = spawn_blocking(move || {
            writer.0.keep(Kept::Now)?;
            execute(&writer.0.connection, sql, &values)
        });
        work.await.map_err(joined)?
    }

    /// Writes the database as it is now into a new file, whole and durable (`VACUUM INTO`). Writers
    /// go on meanwhile.
    pub(crate) async fn copy_to(&self, target: PathBuf) -> Result<()> {
        let path = self.readers.path.clone();
        let work = spawn_blocking(move || {
            // SQLite takes an empty file for a new one; this one is its owner's alone.
            create(&target)?;
            let source = connect(&path)?;
            let name = target.display().to_string();
            source.execute("VACUUM INTO ?1", [name]).map_err(refused)?;
            let unusable = |error| DbError::Setup(format!("'{}': {error}", target.display()));
            File::open(&target).and_then(|file| file.sync_all()).map_err(unusable)
        });
        work.await.map_err(joined)?
    }

    /// Begins a transaction; until it ends there is no other writer.
    pub(crate) async fn begin(&self, kept: Kept) -> Work {
        let writer = Writer(self.writer.clone().lock_owned().await);
        Work { writer: Some(writer), begins: Some(kept) }
    }
}

#[cfg(test)]
impl Sqlite {
    /// Runs statements on the writing connection.
    pub(crate) async fn raw(&self, text: &'static str) -> Result<()> {
        self.writer.lock().await.connection.execute_batch(text).map_err(refused)
    }

    /// What a setting of the writing connection (or of a reading one) is.
    pub(crate) async fn setting(&self, name: &str, of_reader: bool) -> String {
        let writer = self.writer.lock().await;
        let fresh = connect(&self.readers.path).unwrap();
        let connection = if of_reader { &fresh } else { &writer.connection };
        let value: rusqlite::types::Value =
            connection.pragma_query_value(None, name, |row| row.get(0)).unwrap();
        match value {
            rusqlite::types::Value::Integer(number) => number.to_string(),
            rusqlite::types::Value::Text(text) => text,
            other => format!("{other:?}"),
        }
    }
}

/// The writing connection while somebody has it. Whatever happened, it is handed back without an
/// open transaction.
struct Writer(OwnedMutexGuard<Writing>);

impl Drop for Writer {
    fn drop(&mut self) {
        let connection = &self.0.connection;
        if !connection.is_autocommit()
            && let Err(error) = connection.execute_batch("ROLLBACK")
        {
            tracing::error!(%error, "a transaction could not be rolled back");
        }
    }
}

/// A transaction. Dropped without a commit it is rolled back.
pub(crate) struct Work {
    /// `None` only while, or after, a statement whose caller went away.
    writer: Option<Writer>,
    /// It begins with the first statement, on the thread that runs that: each change of threads
    /// costs as much as a statement.
    begins: Option<Kept>,
}

impl Work {
    async fn on<T: Send + 'static>(
        &mut self,
        act: impl FnOnce(&Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let writer = self.writer.take();
        let mut writer =
            writer.ok_or_else(|| DbError::Sql("the transaction is over".to_owned()))?;
        let begins = self.begins.take();
        let work = spawn_blocking(move || {
            if let Some(kept) = begins {
                writer.0.begin(kept)?;
            }
            let result = act(&writer.0.connection);
            Ok::<_, DbError>((writer, result))
        });
        // One that could not begin is over: outside of it each statement would be kept.
        let (writer, result) = work.await.map_err(joined)??;
        self.writer = Some(writer);
        result
    }

    /// Runs a statement and reads its answer.
    pub(crate) async fn query<T: Send + 'static>(
        &mut self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        self.on(move |writer| query(writer, sql, &values, reader)).await
    }

    /// Runs a statement: how many rows it changed.
    pub(crate) async fn execute(&mut self, sql: Sql, values: Vec<Value>) -> Result<u64> {
        self.on(move |writer| execute(writer, sql, &values)).await
    }

    /// Runs one statement after the other: how many rows each changed.
    pub(crate) async fn many(&mut self, statements: Vec<(Sql, Vec<Value>)>) -> Result<Vec<u64>> {
        self.on(move |writer| {
            statements.iter().map(|(sql, values)| execute(writer, *sql, values)).collect()
        })
        .await
    }

    /// Runs a statement once for each `width` values.
    pub(crate) async fn each(&mut self, sql: Sql, width: usize, values: Vec<Value>) -> Result<()> {
        self.on(move |writer| {
            let mut statement = writer.prepare_cached(sql.text()).map_err(refused)?;
            for row in values.chunks(width) {
                statement.execute(params_from_iter(row)).map_err(refused)?;
            }
            Ok(())
        })
        .await
    }

    /// Commits; durable when it is [`Kept`].
    pub(crate) async fn commit(mut self) -> Result<()> {
        self.on(|writer| writer.execute_batch("COMMIT").map_err(refused)).await
    }
}

/// Creates an empty file only its owner may read, durable by name, if there is none.
fn create(path: &Path) -> Result<()> {
    let unusable = |error: std::io::Error| {
        DbError::Setup(format!("cannot create '{}': {error}; check the folder", path.display()))
    };
    let mut options = OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(file) => file.sync_all().map_err(unusable)?,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(unusable(error)),
    }
    let folder = path.parent().unwrap_or_else(|| Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(unusable)
}

/// Opens a connection with the settings that all of them share.
fn connect(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(refused)?;
    connection.busy_timeout(limits::SQLITE_BUSY).map_err(refused)?;
    connection.set_prepared_statement_cache_capacity(limits::STATEMENTS);
    let settings: [(&str, rusqlite::types::Value); 7] = [
        ("synchronous", "FULL".to_owned().into()),
        ("foreign_keys", true.into()),
        ("trusted_schema", false.into()),
        ("temp_store", "MEMORY".to_owned().into()),
        ("cache_size", (-limits::SQLITE_CACHE_KIB).into()),
        ("journal_size_limit", limits::SQLITE_LOG_BYTES.into()),
        ("wal_autocheckpoint", limits::SQLITE_CHECKPOINT_PAGES.into()),
    ];
    let mode = write_ahead(&connection)?;
    if mode != "wal" {
        return Err(DbError::Setup(format!(
            "'{}' cannot use a write-ahead log (it says '{mode}'); put it on a local disk",
            path.display()
        )));
    }
    for (name, value) in settings {
        // Some settings answer with their value, some with nothing.
        connection.pragma(None, name, value, |_| Ok(())).map_err(refused)?;
    }
    Ok(connection)
}

/// Asks for a write-ahead log. When several open a new file at once SQLite does not wait for the
/// one that makes the log, whatever the time-out says: then it is asked again.
fn write_ahead(connection: &Connection) -> Result<String> {
    let mut attempt = 1;
    loop {
        let asked = connection
            .pragma_update_and_check(None, "journal_mode", "WAL", |row| row.get(0))
            .map_err(refused);
        match asked {
            Err(DbError::Unavailable(_)) if attempt < limits::WRITE_AHEAD_ATTEMPTS => attempt += 1,
            done => return done,
        }
        std::thread::sleep(limits::WRITE_AHEAD_PAUSE);
    }
}

/// What the tables of the file at `path` say of themselves. Nothing is changed: neither the file
/// nor its folder, whoever asks.
pub(crate) fn look(path: &Path) -> Result<Version> {
    if !path.exists() {
        return Ok(Version { newest: 0, oldest_program: 0 });
    }
    // A file without a log is whole, and is read without making one. Where there is a log, a server
    // runs, or one was killed; reading moves nothing of it into the file.
    let log = PathBuf::from(format!("{}-wal", path.display()));
    let has_log = std::fs::metadata(&log).is_ok_and(|log| log.len() > 0);
    let immutable = if has_log { "" } else { "&immutable=1" };
    let escaped = path.display().to_string();
    let escaped = escaped.replace('%', "%25").replace('?', "%3f").replace('#', "%23");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let uri = format!("file:{escaped}?mode=ro{immutable}");
    let connection = Connection::open_with_flags(uri, flags).map_err(refused)?;
    connection.busy_timeout(limits::SQLITE_BUSY).map_err(refused)?;
    version(&connection)
}

/// Brings the tables up to date, as far as `old` lets that be done.
fn bring_up_to_date(connection: &mut Connection, old: OldTables) -> Result<()> {
    let mut attempt = 1;
    while migrate::must_run(version(connection)?, old)? {
        // Another process may be making the same tables: the one that comes second fails, looks
        // again and finds them.
        match migrate::run_on_sqlite(connection) {
            Err(error) if attempt == limits::MIGRATION_ATTEMPTS => return Err(error),
            _ => attempt += 1,
        }
    }
    Ok(())
}

/// What the tables say of themselves.
fn version(connection: &Connection) -> Result<Version> {
    if !connection.table_exists(None, "refinery_schema_history").map_err(refused)? {
        return Ok(Version { newest: 0, oldest_program: 0 });
    }
    let newest = "SELECT COALESCE(MAX(version), 0) FROM refinery_schema_history";
    let newest = connection.query_row(newest, [], |row| row.get(0)).map_err(refused)?;
    let mut oldest_program = newest;
    if migrate::names_its_programs(newest) {
        let asked = connection.query_row(migrate::OLDEST_PROGRAM, [], |row| row.get(0));
        oldest_program = asked.map_err(refused)?;
    }
    Ok(Version { newest, oldest_program })
}

fn query<T>(
    connection: &Connection,
    sql: Sql,
    values: &[Value],
    reader: Reader<T>,
) -> Result<Vec<T>> {
    let mut statement = connection.prepare_cached(sql.text()).map_err(refused)?;
    let mut rows = statement.query(params_from_iter(values)).map_err(refused)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(refused)? {
        found.push(reader(&Row::Sqlite(row))?);
    }
    Ok(found)
}

fn execute(connection: &Connection, sql: Sql, values: &[Value]) -> Result<u64> {
    let mut statement = connection.prepare_cached(sql.text()).map_err(refused)?;
    let changed = statement.execute(params_from_iter(values)).map_err(refused)?;
    Ok(changed as u64)
}

impl rusqlite::ToSql for Value {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Value::Text(Some(text)) => ValueRef::Text(text.as_bytes()),
            Value::Int(Some(number)) => ValueRef::Integer(*number),
            Value::Id(Some(id)) => ValueRef::Blob(id.as_bytes()),
            Value::Bool(truth) => ValueRef::Integer(i64::from(*truth)),
            Value::Text(None) | Value::Int(None) | Value::Id(None) => ValueRef::Null,
        }))
    }
}

/// Sorts an error of SQLite by what the caller can do about it.
fn refused(error: rusqlite::Error) -> DbError {
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::DiskFull
            | ErrorCode::SystemIoFailure
            | ErrorCode::ReadOnly
            | ErrorCode::CannotOpen
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OutOfMemory,
        ) => DbError::Unavailable(text),
        Some(ErrorCode::ConstraintViolation) => DbError::Conflict(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => DbError::Corrupt(text),
        _ => DbError::Sql(text),
    }
}

/// A thread that ended without an answer.
fn joined(error: JoinError) -> DbError {
    if error.is_cancelled() {
        return DbError::Unavailable("the process is stopping".to_owned());
    }
    DbError::Sql(format!("a database thread failed: {error}"))
}
