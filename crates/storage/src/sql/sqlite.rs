//! SQLite: a file of this machine, which must be there. Each call has a thread that may wait.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use entrepot_nouns::endpoint::SqlContent;
use entrepot_nouns::{Displaced, Timestamp};
use parking_lot::Mutex;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, ErrorCode, OpenFlags, Statement, TransactionBehavior};

use super::csv::Csv;
use super::row::{Change, Changed, Row, check_put, check_read, check_renamed, check_size};
use super::statements::{NO_DELETE, NO_WRITE, Statements, bare};
use crate::error::{Result, StoreError};
use crate::limits::{SQL_CONNECT, SQL_CONNECTIONS};
use crate::store::Existing;
use crate::thread::Threads;

pub(super) struct Sqlite {
    core: Arc<Core>,
    threads: Threads,
}

struct Core {
    file: PathBuf,
    content: SqlContent,
    statements: Arc<Statements>,
    idle: Mutex<Vec<Connection>>,
}

/// Whose fault an error is.
fn said(error: rusqlite::Error) -> StoreError {
    let text = format!("SQLite says '{error}'");
    let Some(code) = error.sqlite_error_code() else { return StoreError::Denied(text) };
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Unavailable(text),
        ErrorCode::DiskFull => StoreError::NoSpace,
        ErrorCode::SystemIoFailure | ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => {
            StoreError::Io(text)
        }
        _ => StoreError::Denied(text),
    }
}

/// Binds `$1`, `$2` and so on, as far as the statement names them.
fn bind(statement: &mut Statement<'_>, values: &[Value]) -> Result<()> {
    for (number, value) in values.iter().enumerate() {
        let index = statement.parameter_index(&format!("${}", number + 1)).map_err(said)?;
        if let Some(index) = index {
            statement.raw_bind_parameter(index, value).map_err(said)?;
        }
    }
    Ok(())
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// Rows of our three columns; names that are no text are not there.
fn rows(connection: &Connection, statement: &str, values: &[Value]) -> Result<Vec<Row>> {
    let mut statement = read_only(connection, statement)?;
    bind(&mut statement, values)?;
    let (mut found, mut rows) = (Vec::new(), statement.raw_query());
    while let Some(row) = rows.next().map_err(said)? {
        let ValueRef::Text(name) = row.get_ref(0).map_err(said)? else { continue };
        let Ok(name) = std::str::from_utf8(name) else { continue };
        let size: Option<i64> = row.get(1).map_err(said)?;
        let modified: Option<i64> = row.get(2).map_err(said)?;
        let size = u64::try_from(size.unwrap_or(0)).unwrap_or(0);
        let modified = Timestamp::from_seconds(modified.unwrap_or(0));
        found.push(Row { name: name.to_owned(), size, modified });
    }
    Ok(found)
}

fn read_only<'a>(connection: &'a Connection, statement: &str) -> Result<Statement<'a>> {
    let statement = connection.prepare(statement).map_err(said)?;
    if statement.readonly() {
        return Ok(statement);
    }
    Err(StoreError::Denied("a statement that should only read changes something".to_owned()))
}

fn execute(connection: &Connection, statement: &str, values: &[Value]) -> Result<()> {
    let mut statement = connection.prepare(statement).map_err(said)?;
    bind(&mut statement, values)?;
    // Also one that returns rows is run to its end.
    let mut rows = statement.raw_query();
    while rows.next().map_err(said)?.is_some() {}
    Ok(())
}

impl Core {
    fn connect(&self) -> Result<Connection> {
        let writes = self.statements.write.is_some() || self.statements.delete.is_some();
        let mode = if writes {
            OpenFlags::SQLITE_OPEN_READ_WRITE
        } else {
            OpenFlags::SQLITE_OPEN_READ_ONLY
        };
        let flags = mode | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.file, flags).map_err(|error| {
            StoreError::Unavailable(format!("the database cannot be opened: {error}"))
        })?;
        connection.busy_timeout(SQL_CONNECT).map_err(said)?;
        // A commit that was acknowledged survives a power cut, whatever the build's default is.
        connection
            .execute_batch("PRAGMA synchronous = FULL; PRAGMA trusted_schema = OFF")
            .map_err(said)?;
        Ok(connection)
    }

    fn with<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let rested = self.idle.lock().pop();
        let mut connection = match rested {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let result = work(&mut connection);
        let mut idle = self.idle.lock();
        if result.is_ok() && idle.len() < SQL_CONNECTIONS {
            idle.push(connection);
        }
        result
    }

    fn one(&self, connection: &Connection, name: &str) -> Result<Option<Row>> {
        match &self.statements.one {
            Some(statement) => Ok(rows(connection, statement, &[text(name)])?.into_iter().next()),
            None => Ok(None),
        }
    }

    fn content(&self, connection: &Connection, name: &str) -> Result<Option<Bytes>> {
        let Some(statement) = &self.statements.read else { return Ok(None) };
        let mut statement = read_only(connection, statement)?;
        bind(&mut statement, &[text(name)])?;
        let mut rows = statement.raw_query();
        let Some(row) = rows.next().map_err(said)? else { return Ok(None) };
        match row.get_ref(0).map_err(said)? {
            ValueRef::Blob(bytes) | ValueRef::Text(bytes) => {
                check_size(bytes.len() as u64)?;
                Ok(Some(Bytes::copy_from_slice(bytes)))
            }
            ValueRef::Null => Ok(Some(Bytes::new())),
            _ => Err(StoreError::Denied("'read' gives a number: cast it to text".to_owned())),
        }
    }

    fn read(&self, connection: &mut Connection, name: &str) -> Result<Option<(Row, Bytes)>> {
        let transaction = connection.transaction().map_err(said)?;
        let Some(row) = self.one(&transaction, name)? else { return Ok(None) };
        match self.content(&transaction, name)? {
            Some(content) => check_read(row, content).map(Some),
            None => Ok(None),
        }
    }

    fn put(
        &self,
        connection: &Connection,
        name: &str,
        content: &Bytes,
        at: Timestamp,
    ) -> Result<Row> {
        let statement = self.statements.write.as_ref().ok_or(StoreError::Unsupported(NO_WRITE))?;
        let value = match self.content {
            SqlContent::Bytes => Value::Blob(content.to_vec()),
            SqlContent::Text => match std::str::from_utf8(content) {
                Ok(content) => text(content),
                Err(_) => return Err(StoreError::Denied("the file is not UTF-8".to_owned())),
            },
        };
        execute(connection, statement, &[text(name), value, Value::Integer(at.seconds())])?;
        check_put(self.one(connection, name)?, content.len())
    }

    fn remove(&self, connection: &Connection, name: &str) -> Result<()> {
        let statement =
            self.statements.delete.as_ref().ok_or(StoreError::Unsupported(NO_DELETE))?;
        execute(connection, statement, &[text(name)])?;
        match self.one(connection, name)? {
            None => Ok(()),
            Some(_) => Err(StoreError::Denied("'delete' did not remove the file".to_owned())),
        }
    }

    fn change(&self, connection: &mut Connection, change: &Change) -> Result<Changed> {
        // Nobody else writes from here on.
        let behavior = TransactionBehavior::Immediate;
        let transaction = connection.transaction_with_behavior(behavior).map_err(said)?;
        let (name, existing) = match change {
            Change::Put { name, existing, .. } => (name, *existing),
            Change::Rename { to, existing, .. } => (to, *existing),
            Change::Remove { name } => (name, Existing::Replace),
        };
        let there = self.one(&transaction, name)?;
        if there.is_some() && existing == Existing::Refuse {
            return Err(StoreError::Exists);
        }
        let row = match change {
            Change::Put { name, content, modified, .. } => {
                Some(self.put(&transaction, name, content, *modified)?)
            }
            Change::Rename { from, to, .. } => {
                let source = self.one(&transaction, from)?.ok_or(StoreError::NotFound)?;
                let content = self.content(&transaction, from)?.ok_or(StoreError::NotFound)?;
                if from != to {
                    self.put(&transaction, to, &content, source.modified)?;
                    if self.one(&transaction, from)?.is_some() {
                        self.remove(&transaction, from)?;
                    }
                    check_renamed(self.one(&transaction, to)?)?;
                }
                None
            }
            Change::Remove { .. } if there.is_none() => return Err(StoreError::NotFound),
            Change::Remove { name } => {
                self.remove(&transaction, name)?;
                None
            }
        };
        transaction.commit().map_err(said)?;
        Ok(Changed { displaced: there.is_some().then(Displaced::default), row })
    }

    fn report(&self, connection: &Connection, statement: &str) -> Result<Bytes> {
        let mut statement = read_only(connection, &bare(statement))?;
        let mut csv = Csv::default();
        let names: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        csv.line(names.iter().map(|name| Some(name.as_str())))?;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next().map_err(said)? {
            let mut fields = Vec::with_capacity(names.len());
            for number in 0..names.len() {
                fields.push(match row.get_ref(number).map_err(said)? {
                    ValueRef::Null => None,
                    ValueRef::Integer(number) => Some(number.to_string()),
                    ValueRef::Real(number) => Some(number.to_string()),
                    ValueRef::Text(bytes) | ValueRef::Blob(bytes) => {
                        Some(String::from_utf8_lossy(bytes).into_owned())
                    }
                });
            }
            csv.line(fields.iter().map(Option::as_deref))?;
        }
        Ok(csv.finish())
    }
}

impl Sqlite {
    pub(super) fn new(file: &str, content: SqlContent, statements: Arc<Statements>) -> Self {
        let (file, idle) = (PathBuf::from(file), Mutex::default());
        let core = Arc::new(Core { file, content, statements, idle });
        Sqlite { core, threads: Threads::new(SQL_CONNECTIONS) }
    }

    async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Core, &mut Connection) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let core = Arc::clone(&self.core);
        self.threads.call(move || core.with(|connection| work(&core, connection))).await
    }

    pub(super) async fn page(&self, after: String, most: usize) -> Result<Vec<Row>> {
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        self.call(move |core, connection| match &core.statements.page {
            Some(statement) => rows(connection, statement, &[text(&after), Value::Integer(most)]),
            None => Ok(Vec::new()),
        })
        .await
    }

    pub(super) async fn one(&self, name: String) -> Result<Option<Row>> {
        self.call(move |core, connection| core.one(connection, &name)).await
    }

    pub(super) async fn read(&self, name: String) -> Result<Option<(Row, Bytes)>> {
        self.call(move |core, connection| core.read(connection, &name)).await
    }

    pub(super) async fn change(&self, change: Change) -> Result<Changed> {
        self.call(move |core, connection| core.change(connection, &change)).await
    }

    pub(super) async fn report(&self, statement: String) -> Result<Bytes> {
        self.call(move |core, connection| core.report(connection, &statement)).await
    }
}
