//! PostgreSQL: every change is a serializable transaction, tried again when it met another one.

use std::error::Error as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{Bytes, BytesMut};
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::tls::{ServerTrust, TlsClient};
use entrepot_nouns::endpoint::SqlTarget;
use entrepot_nouns::{Displaced, Secret, Timestamp};
use futures_util::StreamExt as _;
use parking_lot::Mutex;
use tokio::sync::{RwLock, Semaphore};
use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Config, IsolationLevel, NoTls, SimpleQueryMessage, Transaction};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::csv::Csv;
use super::row::{Change, Changed, Row, check_put, check_read, check_renamed, check_size};
use super::statements::{NO_DELETE, NO_WRITE, Statements, bare};
use crate::ResolvedSecrets;
use crate::error::{Result, StoreError};
use crate::limits::{
    SQL_CONNECT, SQL_CONNECTIONS, SQL_FILE_BYTES, SQL_OPERATION, SQL_STATEMENT, SQL_TRIES,
};
use crate::store::Existing;

/// Settings of a session: what is committed is durable, and nothing waits for ever.
fn session_settings() -> String {
    let seconds = SQL_STATEMENT.as_secs();
    format!(
        "SET statement_timeout = '{seconds}s'; SET lock_timeout = '15s'; \
         SET idle_in_transaction_session_timeout = '{seconds}s'; \
         SELECT set_config('synchronous_commit', 'on', false) \
         WHERE current_setting('synchronous_commit') = 'off'"
    )
}

pub(super) struct Postgres {
    config: Config,
    host: String,
    port: u16,
    policy: DialPolicy,
    tls: Option<MakeRustlsConnect>,
    statements: Arc<Statements>,
    idle: Mutex<Vec<Link>>,
    room: Semaphore,
    /// Changes go side by side; one that met another is tried again alone, for of those that meet
    /// one always comes through, so that only other nodes can still come between.
    turns: RwLock<()>,
}

/// A connection, and the task that moves its bytes.
struct Link {
    client: Client,
    task: JoinHandle<()>,
}

impl Drop for Link {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Whose fault an error is.
fn said(error: tokio_postgres::Error) -> StoreError {
    let Some(state) = error.code().cloned() else { return said_by_driver(&error) };
    let text = error.as_db_error().map_or_else(String::new, |it| it.message().to_owned());
    let text = format!("the database says '{text}' ({})", state.code());
    if state == SqlState::DISK_FULL {
        return StoreError::NoSpace;
    }
    match state.code().get(..2) {
        Some("08" | "40" | "53" | "55" | "57") => StoreError::Unavailable(text),
        Some("58" | "XX") => StoreError::Io(text),
        _ => StoreError::Denied(text),
    }
}

/// Without a code it is the connection's, or a value of another type than expected.
fn said_by_driver(error: &tokio_postgres::Error) -> StoreError {
    use std::io::ErrorKind;
    let why =
        error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
    let source = error.source().and_then(|source| source.downcast_ref::<std::io::Error>());
    match source.map(std::io::Error::kind) {
        // A certificate, or a value that cannot be sent: neither becomes another one by itself.
        Some(ErrorKind::InvalidData | ErrorKind::InvalidInput) => StoreError::Denied(why),
        Some(_) => StoreError::Unavailable(format!("the database went away: {why}")),
        None if error.is_closed() => {
            StoreError::Unavailable(format!("the database went away: {why}"))
        }
        None => {
            StoreError::Denied(format!("the database gives something else than expected: {why}"))
        }
    }
}

/// Work with the database that may not take for ever: a server that is gone without a word
/// answers nothing. With the work goes its connection.
async fn within<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let late = |_| StoreError::Unavailable("the database does not answer in time".to_owned());
    tokio::time::timeout(SQL_OPERATION, work).await.map_err(late)?
}

/// True if the same transaction may come through when it is tried again.
fn is_conflict(error: &StoreError) -> bool {
    let codes = [
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::T_R_DEADLOCK_DETECTED,
        // Of two that insert the same name one gets this error.
        SqlState::UNIQUE_VIOLATION,
    ];
    let (StoreError::Unavailable(text) | StoreError::Denied(text)) = error else { return false };
    codes.iter().any(|code| text.ends_with(&format!("({})", code.code())))
}

/// A value of a column as its bytes, for types whose bytes are what users mean.
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(
        _: &Type,
        raw: &'a [u8],
    ) -> std::result::Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Raw(raw.to_vec()))
    }

    fn accepts(ty: &Type) -> bool {
        is_bytes(ty)
    }
}

fn is_bytes(ty: &Type) -> bool {
    let known = [Type::BYTEA, Type::TEXT, Type::VARCHAR, Type::BPCHAR, Type::JSON, Type::XML];
    known.contains(ty) || *ty == Type::NAME
}

/// Bytes for a parameter of such a type.
#[derive(Debug)]
struct Out(Bytes);

impl ToSql for Out {
    fn to_sql(
        &self,
        _: &Type,
        out: &mut BytesMut,
    ) -> std::result::Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }

    fn accepts(ty: &Type) -> bool {
        is_bytes(ty)
    }

    to_sql_checked!();
}

type Parameter = Box<dyn ToSql + Sync + Send>;

/// The three values of a statement, as far as it names them and in the types that it wants.
fn parameters(types: &[Type], name: &str, content: &Bytes, at: Timestamp) -> Vec<Parameter> {
    let seconds = at.seconds();
    let time = || match u64::try_from(seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds),
        Err(_) => UNIX_EPOCH,
    };
    let one = |(number, ty): (usize, &Type)| -> Parameter {
        match (number, ty) {
            (0, _) => Box::new(Out(Bytes::copy_from_slice(name.as_bytes()))),
            (1, _) => Box::new(Out(content.clone())),
            (_, ty) if [Type::TIMESTAMPTZ, Type::TIMESTAMP].contains(ty) => Box::new(time()),
            (_, ty) if *ty == Type::INT4 => Box::new(i32::try_from(seconds).unwrap_or(i32::MAX)),
            (_, ty) if *ty == Type::FLOAT8 => Box::new(seconds as f64),
            _ => Box::new(seconds),
        }
    };
    types.iter().enumerate().map(one).collect()
}

fn refs(parameters: &[Parameter]) -> Vec<&(dyn ToSql + Sync)> {
    parameters.iter().map(|it| -> &(dyn ToSql + Sync) { &**it }).collect()
}

fn row_of(row: &tokio_postgres::Row) -> Result<Option<Row>> {
    let name: Option<String> = row.try_get(0).map_err(said)?;
    let size: Option<i64> = row.try_get(1).map_err(said)?;
    let Some(name) = name else { return Ok(None) };
    let ty = row.columns().get(2).map(|column| column.type_().clone());
    let seconds = match ty {
        Some(Type::TIMESTAMPTZ | Type::TIMESTAMP) => {
            let time: Option<SystemTime> = row.try_get(2).map_err(said)?;
            let since = time.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            let micros = since.map_or(0, |since| since.as_micros());
            return Ok(Some(Row {
                name,
                size: u64::try_from(size.unwrap_or(0)).unwrap_or(0),
                modified: Timestamp(i64::try_from(micros).unwrap_or(0)),
            }));
        }
        Some(Type::INT4) => row.try_get::<_, Option<i32>>(2).map_err(said)?.map(i64::from),
        Some(Type::FLOAT8) => {
            row.try_get::<_, Option<f64>>(2).map_err(said)?.map(|seconds| seconds as i64)
        }
        _ => row.try_get::<_, Option<i64>>(2).map_err(said)?,
    };
    let modified = Timestamp::from_seconds(seconds.unwrap_or(0));
    Ok(Some(Row { name, size: u64::try_from(size.unwrap_or(0)).unwrap_or(0), modified }))
}

impl Postgres {
    pub(super) fn new(
        target: &SqlTarget,
        secrets: &ResolvedSecrets,
        statements: Arc<Statements>,
    ) -> Result<Self> {
        let unusable = |why: String| StoreError::Denied(format!("the URL cannot be used: {why}"));
        let mut config: Config =
            target.url.parse().map_err(|error| unusable(format!("{error}")))?;
        let host = match config.get_hosts() {
            [Host::Tcp(host)] => host.clone(),
            _ => return Err(unusable("name one host".to_owned())),
        };
        let port = config.get_ports().first().copied().unwrap_or(5432);
        let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
        let local = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        // In clear text to this machine only, unless the URL says so: `prefer` is the default of
        // the driver and says nothing.
        let clear = config.get_ssl_mode() == SslMode::Disable
            || (local && config.get_ssl_mode() == SslMode::Prefer);
        let tls = if clear {
            config.ssl_mode(SslMode::Disable);
            None
        } else {
            config.ssl_mode(SslMode::Require);
            let trust = match &target.authorities {
                Some(pem) => ServerTrust::Authorities(pem.clone().into_bytes()),
                None => ServerTrust::System,
            };
            let client = TlsClient::new(&host, &trust);
            let client = client.map_err(|error| StoreError::Denied(error.to_string()))?;
            Some(MakeRustlsConnect::new(client.config()))
        };
        if let Some(password) = secrets.secret.as_ref().map(Secret::expose) {
            config.password(password);
        }
        config.application_name("entrepot");
        let (idle, room) = (Mutex::default(), Semaphore::new(SQL_CONNECTIONS));
        let turns = RwLock::default();
        let policy = DialPolicy { allow_private: target.allow_private };
        Ok(Postgres { config, host, port, policy, tls, statements, idle, room, turns })
    }

    async fn connect(&self) -> Result<Link> {
        let away = |why: String| StoreError::Unavailable(format!("the database is away: {why}"));
        let stream = dial::tcp(&self.host, self.port, &self.policy, SQL_CONNECT).await;
        let stream = stream.map_err(|error| {
            let why = error.to_string();
            if error.is_temporary() { away(why) } else { StoreError::Denied(why) }
        })?;
        let connecting = async {
            let (client, task) = match &self.tls {
                None => {
                    let (client, connection) = self.config.connect_raw(stream, NoTls).await?;
                    (client, tokio::spawn(async move { drop(connection.await) }))
                }
                Some(tls) => {
                    let mut tls = tls.clone();
                    let tls = MakeTlsConnect::<tokio::net::TcpStream>::make_tls_connect(
                        &mut tls, &self.host,
                    );
                    // The name was taken as one of a server when the endpoint was opened.
                    let Ok(tls) = tls;
                    let (client, connection) = self.config.connect_raw(stream, tls).await?;
                    (client, tokio::spawn(async move { drop(connection.await) }))
                }
            };
            let link = Link { client, task };
            link.client.batch_execute(&session_settings()).await?;
            Ok(link)
        };
        match tokio::time::timeout(SQL_CONNECT, connecting).await {
            Ok(Ok(link)) => Ok(link),
            Ok(Err(error)) => Err(said(error)),
            Err(_) => Err(away("no answer".to_owned())),
        }
    }

    /// A connection that lives; what is given back after an error is not used again.
    async fn link(&self) -> Result<Link> {
        loop {
            let rested = self.idle.lock().pop();
            match rested {
                Some(link) if link.client.is_closed() => {}
                Some(link) => {
                    // The server may have gone without a word.
                    let asked = link.client.simple_query("");
                    if tokio::time::timeout(SQL_CONNECT, asked).await.is_ok_and(|it| it.is_ok()) {
                        return Ok(link);
                    }
                }
                None => return self.connect().await,
            }
        }
    }

    fn rest(&self, link: Link) {
        self.idle.lock().push(link);
    }

    async fn place(&self) -> Result<tokio::sync::SemaphorePermit<'_>> {
        let closed = |_| StoreError::Unavailable("the store is closed".to_owned());
        self.room.acquire().await.map_err(closed)
    }

    pub(super) async fn page(&self, after: &str, most: usize) -> Result<Vec<Row>> {
        let Some(statement) = &self.statements.page else { return Ok(Vec::new()) };
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let rows = within(async {
            let _place = self.place().await?;
            let mut link = self.link().await?;
            let reading =
                link.client.build_transaction().read_only(true).start().await.map_err(said)?;
            let rows = reading.query(statement.as_str(), &[&after, &most]).await.map_err(said)?;
            drop(reading);
            self.rest(link);
            Ok(rows)
        });
        rows.await?.iter().filter_map(|row| row_of(row).transpose()).collect()
    }

    pub(super) async fn one(&self, name: &str) -> Result<Option<Row>> {
        within(async {
            let _place = self.place().await?;
            let mut link = self.link().await?;
            let reading =
                link.client.build_transaction().read_only(true).start().await.map_err(said)?;
            let row = self.find(&reading, name).await?;
            drop(reading);
            self.rest(link);
            Ok(row)
        })
        .await
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<(Row, Bytes)>> {
        within(async {
            let _place = self.place().await?;
            let mut link = self.link().await?;
            let reading = link.client.build_transaction().read_only(true);
            let reading = reading.isolation_level(IsolationLevel::RepeatableRead);
            let reading = reading.start().await.map_err(said)?;
            let row = self.find(&reading, name).await?;
            let content = match &row {
                Some(row) => self.content(&reading, row).await?,
                None => None,
            };
            drop(reading);
            self.rest(link);
            row.zip(content).map(|(row, content)| check_read(row, content)).transpose()
        })
        .await
    }

    async fn find(&self, transaction: &Transaction<'_>, name: &str) -> Result<Option<Row>> {
        let Some(statement) = &self.statements.one else { return Ok(None) };
        let row = transaction.query_opt(statement.as_str(), &[&name]).await.map_err(said)?;
        row.map_or(Ok(None), |row| row_of(&row))
    }

    /// The content of a file. One that is too large is not sent, whatever the list says of it.
    async fn content(&self, transaction: &Transaction<'_>, row: &Row) -> Result<Option<Bytes>> {
        let Some(statement) = &self.statements.read else { return Ok(None) };
        check_size(row.size)?;
        let theirs = transaction.prepare(statement).await.map_err(said)?;
        let Some(column) = theirs.columns().first().filter(|it| is_bytes(it.type_())) else {
            let why = "'read' gives neither bytes nor text: cast it".to_owned();
            return Err(StoreError::Denied(why));
        };
        let as_text = [Type::JSON, Type::XML, Type::NAME].contains(column.type_());
        let value = if as_text { "content::text" } else { "content" };
        let bounded = format!(
            "SELECT octet_length({value})::bigint, \
             CASE WHEN octet_length({value}) <= {SQL_FILE_BYTES} THEN content END \
             FROM (\n{statement}\n) AS files (content) LIMIT 1"
        );
        let prepared = transaction.prepare(&bounded).await.map_err(said)?;
        let values = parameters(prepared.params(), &row.name, &Bytes::new(), Timestamp(0));
        let found = transaction.query_opt(&prepared, &refs(&values)).await.map_err(said)?;
        let Some(found) = found else { return Ok(None) };
        let size: Option<i64> = found.try_get(0).map_err(said)?;
        check_size(u64::try_from(size.unwrap_or(0)).unwrap_or(u64::MAX))?;
        let raw: Option<Raw> = found.try_get(1).map_err(said)?;
        Ok(Some(raw.map_or_else(Bytes::new, |raw| raw.0.into())))
    }

    async fn put(
        &self,
        transaction: &Transaction<'_>,
        name: &str,
        content: &Bytes,
        at: Timestamp,
    ) -> Result<Row> {
        let statement = self.statements.write.as_ref().ok_or(StoreError::Unsupported(NO_WRITE))?;
        let prepared = transaction.prepare(statement).await.map_err(said)?;
        let values = parameters(prepared.params(), name, content, at);
        transaction.execute(&prepared, &refs(&values)).await.map_err(said)?;
        check_put(self.find(transaction, name).await?, content.len())
    }

    async fn remove(&self, transaction: &Transaction<'_>, name: &str) -> Result<()> {
        let statement =
            self.statements.delete.as_ref().ok_or(StoreError::Unsupported(NO_DELETE))?;
        let prepared = transaction.prepare(statement).await.map_err(said)?;
        let values = parameters(prepared.params(), name, &Bytes::new(), Timestamp(0));
        transaction.execute(&prepared, &refs(&values)).await.map_err(said)?;
        match self.find(transaction, name).await? {
            None => Ok(()),
            Some(_) => Err(StoreError::Denied("'delete' did not remove the file".to_owned())),
        }
    }

    pub(super) async fn change(&self, change: &Change) -> Result<Changed> {
        let beside = within(async { Ok(self.turns.read().await) }).await?;
        let first = self.change_once(change).await;
        drop(beside);
        let mut result = first;
        for _ in 1..SQL_TRIES {
            match &result {
                Err(error) if is_conflict(error) => {}
                _ => break,
            }
            let _alone = within(async { Ok(self.turns.write().await) }).await?;
            result = self.change_once(change).await;
        }
        result
    }

    async fn change_once(&self, change: &Change) -> Result<Changed> {
        within(async {
            let _place = self.place().await?;
            let mut link = self.link().await?;
            let changed = self.try_change(&mut link.client, change).await?;
            self.rest(link);
            Ok(changed)
        })
        .await
    }

    async fn try_change(&self, client: &mut Client, change: &Change) -> Result<Changed> {
        let building = client.build_transaction().isolation_level(IsolationLevel::Serializable);
        let transaction = building.start().await.map_err(said)?;
        let (name, existing) = match change {
            Change::Put { name, existing, .. } => (name, *existing),
            Change::Rename { to, existing, .. } => (to, *existing),
            Change::Remove { name } => (name, Existing::Replace),
        };
        let there = self.find(&transaction, name).await?;
        if there.is_some() && existing == Existing::Refuse {
            return Err(StoreError::Exists);
        }
        let row = match change {
            Change::Put { name, content, modified, .. } => {
                Some(self.put(&transaction, name, content, *modified).await?)
            }
            Change::Rename { from, to, .. } => {
                let source = self.find(&transaction, from).await?;
                let source = source.ok_or(StoreError::NotFound)?;
                let content = self.content(&transaction, &source).await?;
                let content = content.ok_or(StoreError::NotFound)?;
                if from != to {
                    self.put(&transaction, to, &content, source.modified).await?;
                    if self.find(&transaction, from).await?.is_some() {
                        self.remove(&transaction, from).await?;
                    }
                    check_renamed(self.find(&transaction, to).await?)?;
                }
                None
            }
            Change::Remove { .. } if there.is_none() => return Err(StoreError::NotFound),
            Change::Remove { name } => {
                self.remove(&transaction, name).await?;
                None
            }
        };
        transaction.commit().await.map_err(said)?;
        Ok(Changed { displaced: there.is_some().then(Displaced::default), row })
    }

    /// By the simple protocol, in which every value comes as text. What is too large is not heard
    /// to its end.
    pub(super) async fn report(&self, statement: &str) -> Result<Bytes> {
        within(async {
            let _place = self.place().await?;
            let mut link = self.link().await?;
            let reading =
                link.client.build_transaction().read_only(true).start().await.map_err(said)?;
            // Prepared first: that takes one statement and no more.
            let statement = bare(statement);
            reading.prepare(&statement).await.map_err(said)?;
            let messages = reading.client().simple_query_raw(&statement).await.map_err(said)?;
            let mut messages = std::pin::pin!(messages);
            let mut csv = Csv::default();
            while let Some(message) = messages.next().await {
                match message.map_err(said)? {
                    SimpleQueryMessage::RowDescription(columns) => {
                        csv.line(columns.iter().map(|column| Some(column.name())))?;
                    }
                    SimpleQueryMessage::Row(row) => {
                        csv.line((0..row.len()).map(|at| row.get(at)))?;
                    }
                    _ => {}
                }
            }
            drop(reading);
            self.rest(link);
            Ok(csv.finish())
        })
        .await
    }
}
