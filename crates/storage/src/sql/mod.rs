//! Rows of a database, shown as the files of one directory: the worked example of
//! `docs/howto/add-a-store.md`.
//!
//! A file is a row: the endpoint's statements say how files are listed, read, written and removed.
//! What is written is staged in memory and becomes visible by one transaction, which looks whether
//! the name is free, stores the row and looks at it again, so that a file is there whole or not at
//! all. A process that ends loses what was staged; nothing of it was acknowledged.
//!
//! There are no directories, and no times can be set. A query may be shown as a file of CSV; it is
//! run whenever it is looked at.

mod csv;
mod postgres;
mod sqlite;
mod staged;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_model::endpoint::{MemoryTarget, SqlTarget};
use entrepot_model::{Env, StorePath, Timestamp, TransferId};

use self::postgres::Postgres;
use self::sqlite::Sqlite;
use self::staged::SqlStaged;
use crate::error::{Result, StoreError};
use crate::limits::{LIST_PAGE, SQL_FILE_BYTES, SQL_STAGED_BYTES};
use crate::parts::names::check_below_root;
use crate::reserved::{check_makeable, check_visible};
use crate::store::{
    AnyStore, Caps, Entry, EntryKind, Existing, Listing, Meta, ReadFile, Renamed, Space, Staged,
    StagedFile, Store,
};
use crate::{ResolvedSecrets, memory};

/// The store of a database. Nothing is opened yet.
///
/// # Errors
/// [`StoreError::Denied`] for a URL that cannot be used.
pub fn open(target: &SqlTarget, secrets: &ResolvedSecrets, env: &Env) -> Result<AnyStore> {
    let statements = Arc::new(Statements::of(target));
    let database = match target.url.strip_prefix("sqlite:") {
        Some(file) => Database::Sqlite(Sqlite::new(file, target.content, statements)),
        None => Database::Postgres(Box::new(Postgres::new(target, secrets, statements)?)),
    };
    let staging = memory::open(&MemoryTarget { size_bytes: Some(SQL_STAGED_BYTES) }, env)?;
    let reports = target.reports.clone();
    let core = Core { database, reports, writes: target.write.is_some(), env: env.clone() };
    Ok(Arc::new(SqlStore { core: Arc::new(core), staging }))
}

/// The endpoint's statements, and ours around them.
struct Statements {
    /// Files behind the name `$1`, in order, at most `$2`.
    page: Option<String>,
    /// The file `$1`.
    one: Option<String>,
    read: Option<String>,
    write: Option<String>,
    delete: Option<String>,
}

impl Statements {
    fn of(target: &SqlTarget) -> Self {
        let sqlite = target.url.starts_with("sqlite:");
        // Names are compared byte by byte, whatever the column says.
        let (order, columns) = if sqlite {
            let time = "CASE typeof(modified) WHEN 'text' THEN unixepoch(modified) \
                        ELSE CAST(modified AS INTEGER) END";
            ("name COLLATE BINARY", format!("name, CAST(size AS INTEGER), {time}"))
        } else {
            ("name::text COLLATE \"C\"", "name::text, size::bigint, modified".to_owned())
        };
        // A comment at the end of theirs ends with the line.
        let from = |list: &String| format!("SELECT {columns} FROM (\n{}\n) AS files", bare(list));
        let page = |list| format!("{} WHERE {order} > $1 ORDER BY {order} LIMIT $2", from(list));
        // The column's own comparison finds the row by its index, ours takes no other.
        let name = if sqlite { "name" } else { "name::text" };
        let one = |list| format!("{} WHERE {name} = $1 AND {order} = $1", from(list));
        let theirs = |statement: &Option<String>| statement.as_deref().map(bare);
        Statements {
            page: target.list.as_ref().map(page),
            one: target.list.as_ref().map(one),
            read: theirs(&target.read),
            write: theirs(&target.write),
            delete: theirs(&target.delete),
        }
    }
}

/// Without the semicolon at its end.
fn bare(statement: &str) -> String {
    statement.trim_end_matches([';', ' ', '\t', '\r', '\n']).to_owned()
}

/// A file as the list tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Row {
    name: String,
    size: u64,
    modified: Timestamp,
}

impl Row {
    fn meta(&self) -> Meta {
        Meta {
            kind: EntryKind::File,
            size: self.size,
            modified: self.modified,
            accessed: self.modified,
            identity: None,
            mode: None,
        }
    }
}

/// One change of files, done in one transaction or not at all.
#[derive(Clone, Debug)]
enum Change {
    Put { name: String, content: Bytes, modified: Timestamp, existing: Existing },
    Rename { from: String, to: String, existing: Existing },
    Remove { name: String },
}

/// What came of it.
struct Changed {
    replaced: bool,
    /// The file that was put, as the list tells it now.
    row: Option<Row>,
}

enum Database {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Database {
    async fn page(&self, after: &str, most: usize) -> Result<Vec<Row>> {
        match self {
            Database::Sqlite(sqlite) => sqlite.page(after.to_owned(), most).await,
            Database::Postgres(postgres) => postgres.page(after, most).await,
        }
    }

    async fn one(&self, name: &str) -> Result<Option<Row>> {
        match self {
            Database::Sqlite(sqlite) => sqlite.one(name.to_owned()).await,
            Database::Postgres(postgres) => postgres.one(name).await,
        }
    }

    async fn read(&self, name: &str) -> Result<Option<(Row, Bytes)>> {
        match self {
            Database::Sqlite(sqlite) => sqlite.read(name.to_owned()).await,
            Database::Postgres(postgres) => postgres.read(name).await,
        }
    }

    async fn change(&self, change: Change) -> Result<Changed> {
        match self {
            Database::Sqlite(sqlite) => sqlite.change(change).await,
            Database::Postgres(postgres) => postgres.change(&change).await,
        }
    }

    async fn report(&self, statement: &str) -> Result<Bytes> {
        match self {
            Database::Sqlite(sqlite) => sqlite.report(statement.to_owned()).await,
            Database::Postgres(postgres) => postgres.report(statement).await,
        }
    }
}

/// Of the row that a change has put: it must be there as it was sent.
fn check_put(row: Option<Row>, size: usize) -> Result<Row> {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    match row {
        Some(row) if row.size == size => Ok(row),
        Some(row) => Err(StoreError::Denied(format!(
            "after 'write' the endpoint's 'list' tells {} bytes instead of {size}",
            row.size
        ))),
        None => Err(StoreError::Denied(
            "after 'write' the endpoint's 'list' does not tell the file: another name may be the \
             same to the table"
                .to_owned(),
        )),
    }
}

/// The content must be what the list tells of it.
fn check_read(row: Row, content: Bytes) -> Result<(Row, Bytes)> {
    if row.size == content.len() as u64 {
        return Ok((row, content));
    }
    Err(StoreError::Io(format!(
        "the endpoint's 'list' tells {} bytes of '{}', 'read' gives {}: 'size' counts bytes",
        row.size,
        row.name,
        content.len()
    )))
}

/// Of what a rename has put, when the old name is gone: to a table that takes both names for one it
/// may have gone with it.
fn check_renamed(row: Option<Row>) -> Result<()> {
    match row {
        Some(_) => Ok(()),
        None => Err(StoreError::Denied(
            "'delete' of the old name removes the new one: to the table they are the same"
                .to_owned(),
        )),
    }
}

fn cannot(what: &'static str) -> StoreError {
    StoreError::Unsupported(what)
}

const NO_WRITE: &str = "the endpoint has no statement 'write'";
const NO_DELETE: &str = "the endpoint has no statement 'delete'";
const NO_DIRECTORIES: &str = "directories in a database";

struct Core {
    database: Database,
    reports: BTreeMap<String, String>,
    writes: bool,
    env: Env,
}

impl Core {
    /// What has a name, also a report, which is run for it.
    async fn find(&self, name: &str) -> Result<Option<(Row, Option<Bytes>)>> {
        let Some(report) = self.reports.get(name) else {
            return Ok(self.database.one(name).await?.map(|row| (row, None)));
        };
        let content = self.database.report(report).await?;
        let (size, modified) = (content.len() as u64, self.env.now());
        Ok(Some((Row { name: name.to_owned(), size, modified }, Some(content))))
    }
}

struct SqlStore {
    core: Arc<Core>,
    /// Holds what is staged, under plain names.
    staging: AnyStore,
}

/// The name of a file; there are no others than those in the root.
fn name_of(path: &StorePath) -> Result<&str> {
    check_visible(path)?;
    let mut components = path.components();
    match (components.next(), components.next()) {
        (Some(name), None) => Ok(name),
        (None, _) => Err(StoreError::IsDirectory),
        _ => Err(StoreError::NotFound),
    }
}

fn root_meta() -> Meta {
    let never = Timestamp(0);
    let kind = EntryKind::Directory;
    Meta { kind, size: 0, modified: never, accessed: never, identity: None, mode: None }
}

impl SqlStore {
    /// The name of a file that may be made.
    fn new_name<'a>(&self, path: &'a StorePath) -> Result<&'a str> {
        check_makeable(path)?;
        let name = name_of(path)?;
        if self.core.reports.contains_key(name) {
            return Err(StoreError::Denied("a report is made by its query".to_owned()));
        }
        Ok(name)
    }
}

#[async_trait]
impl Store for SqlStore {
    fn caps(&self) -> Caps {
        Caps {
            random_write: true,
            atomic_rename: true,
            directories: false,
            set_times: false,
            modes: false,
            conditional: true,
            resume: true,
            staged_apart: true,
            // Files have no identity by which recovery could know them without a look inside.
            local: false,
        }
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        if path.is_root() {
            return Ok(root_meta());
        }
        let found = self.core.find(name_of(path)?).await?;
        found.map(|(row, _)| row.meta()).ok_or(StoreError::NotFound)
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        if !path.is_root() {
            self.core.find(name_of(path)?).await?.ok_or(StoreError::NotFound)?;
            return Err(StoreError::NotDirectory);
        }
        let reports = self.core.reports.keys().cloned().collect();
        let core = Arc::clone(&self.core);
        Ok(Box::new(SqlListing { core, reports, after: Some(String::new()) }))
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        let name = name_of(path)?;
        let (row, content) = match self.core.reports.contains_key(name) {
            true => match self.core.find(name).await? {
                Some((row, Some(content))) => (row, content),
                _ => return Err(StoreError::NotFound),
            },
            false => self.core.database.read(name).await?.ok_or(StoreError::NotFound)?,
        };
        Ok(Box::new(SqlRead { meta: row.meta(), content }))
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        let name = self.new_name(target)?.to_owned();
        if !self.core.writes {
            return Err(cannot(NO_WRITE));
        }
        let inner = self.staging.stage(id, target).await?;
        Ok(Box::new(SqlStaged::new(Arc::clone(&self.core), inner, name)))
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        let name = self.new_name(target)?.to_owned();
        let inner = self.staging.resume(id, target).await?;
        Ok(Box::new(SqlStaged::new(Arc::clone(&self.core), inner, name)))
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        let staged = self.staging.staged().await?;
        Ok(staged.into_iter().map(|staged| Staged { identity: None, ..staged }).collect())
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        self.staging.discard_staged(id).await
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        let name = name_of(path)?.to_owned();
        if self.core.reports.contains_key(&name) {
            return Err(StoreError::Denied("a report stays as long as its query".to_owned()));
        }
        self.core.database.change(Change::Remove { name }).await.map(drop)
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        Err(if path.is_root() { StoreError::Exists } else { cannot(NO_DIRECTORIES) })
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        check_below_root(path)?;
        self.core.find(name_of(path)?).await?.ok_or(StoreError::NotFound)?;
        Err(StoreError::NotDirectory)
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        let to = self.new_name(to)?.to_owned();
        let from = name_of(from)?.to_owned();
        let changed = self.core.database.change(Change::Rename { from, to, existing }).await?;
        Ok(Renamed { replaced: changed.replaced })
    }

    async fn set_times(
        &self,
        _: &StorePath,
        _: Option<Timestamp>,
        _: Option<Timestamp>,
    ) -> Result<()> {
        Err(cannot("setting the times of a row"))
    }

    async fn space(&self) -> Result<Space> {
        let unknown = u64::MAX;
        Ok(Space {
            total_bytes: unknown,
            free_bytes: unknown,
            total_files: unknown,
            free_files: unknown,
        })
    }
}

struct SqlListing {
    core: Arc<Core>,
    reports: VecDeque<String>,
    /// The last name that came; `None`: there are no more.
    after: Option<String>,
}

impl SqlListing {
    fn shows(&self, row: &Row) -> bool {
        let path: Result<StorePath, _> = StorePath::root().join(&row.name);
        let plain = path.is_ok_and(|path| name_of(&path).is_ok());
        plain && !self.core.reports.contains_key(&row.name)
    }
}

#[async_trait]
impl Listing for SqlListing {
    async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>> {
        let max = max.min(LIST_PAGE);
        let mut page = Vec::new();
        while page.len() < max
            && let Some(name) = self.reports.pop_front()
        {
            if let Some((row, _)) = self.core.find(&name).await? {
                page.push(Entry { name, meta: row.meta() });
            }
        }
        while page.len() < max
            && let Some(after) = &self.after
        {
            let most = max - page.len();
            let rows = self.core.database.page(after, most).await?;
            self.after = match rows.last() {
                Some(last) if rows.len() == most => Some(last.name.clone()),
                _ => None,
            };
            let shown = rows.into_iter().filter(|row| self.shows(row));
            page.extend(shown.map(|row| Entry { meta: row.meta(), name: row.name }));
        }
        Ok(page)
    }
}

/// A file as it was when it was opened.
struct SqlRead {
    meta: Meta,
    content: Bytes,
}

impl SqlRead {
    fn range(&self, offset: u64, len: usize) -> &[u8] {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.content.len());
        let until = from.saturating_add(len).min(self.content.len());
        self.content.get(from..until).unwrap_or_default()
    }
}

#[async_trait]
impl ReadFile for SqlRead {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        let found = self.range(offset, buf.len());
        buf.iter_mut().zip(found).for_each(|(to, from)| *to = *from);
        Ok(Some(found.len()))
    }

    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        buf.extend_from_slice(self.range(offset, len));
        Ok(buf)
    }
}

/// Files are no larger than this.
fn check_size(end: u64) -> Result<()> {
    if end <= SQL_FILE_BYTES {
        return Ok(());
    }
    let most = SQL_FILE_BYTES >> 20;
    Err(StoreError::Denied(format!("a file in a database has at most {most} MiB")))
}
