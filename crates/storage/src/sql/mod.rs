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
mod database;
mod postgres;
mod row;
mod sqlite;
mod staged;
mod statements;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::{MemoryTarget, SqlTarget};
use entrepot_nouns::{Env, StorePath, Timestamp, TransferId};

use self::database::{Database, Files};
use self::postgres::Postgres;
use self::row::{Change, Row};
use self::sqlite::Sqlite;
use self::staged::SqlStaged;
use self::statements::{NO_WRITE, Statements};
use crate::error::{Result, StoreError};
use crate::limits::{LIST_PAGE, SQL_STAGED_BYTES};
use crate::parts::names::check_below_root;
use crate::reserved::{check_makeable, check_visible};
use crate::store::{
    AnyStore, Caps, Entry, EntryKind, Existing, Listing, Meta, ReadFile, Renamed, Space, Staged,
    StagedFile, Store,
};
use crate::{ResolvedSecrets, memory};

const NO_DIRECTORIES: StoreError = StoreError::Unsupported("directories in a database");

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
    let files = Files { database, reports, writes: target.write.is_some(), env: env.clone() };
    Ok(Arc::new(SqlStore { files: Arc::new(files), staging }))
}

struct SqlStore {
    files: Arc<Files>,
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
        if self.files.reports.contains_key(name) {
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
            modes: false,
            resume: true,
            staged_apart: true,
            // Files have no identity by which recovery could know them without a look inside.
            local: false,
            durable_staging: false,
        }
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        if path.is_root() {
            return Ok(root_meta());
        }
        let found = self.files.find(name_of(path)?).await?;
        found.map(|(row, _)| row.meta()).ok_or(StoreError::NotFound)
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        if !path.is_root() {
            self.files.find(name_of(path)?).await?.ok_or(StoreError::NotFound)?;
            return Err(StoreError::NotDirectory);
        }
        let reports = self.files.reports.keys().cloned().collect();
        let files = Arc::clone(&self.files);
        Ok(Box::new(SqlListing { files, reports, after: Some(String::new()) }))
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        let name = name_of(path)?;
        let (row, content) = if self.files.reports.contains_key(name) {
            match self.files.find(name).await? {
                Some((row, Some(content))) => (row, content),
                _ => return Err(StoreError::NotFound),
            }
        } else {
            self.files.database.read(name).await?.ok_or(StoreError::NotFound)?
        };
        Ok(Box::new(SqlRead { meta: row.meta(), content }))
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        let name = self.new_name(target)?.to_owned();
        if !self.files.writes {
            return Err(StoreError::Unsupported(NO_WRITE));
        }
        let inner = self.staging.stage(id, target).await?;
        Ok(Box::new(SqlStaged::new(Arc::clone(&self.files), inner, name)))
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        let name = self.new_name(target)?.to_owned();
        let inner = self.staging.resume(id, target).await?;
        Ok(Box::new(SqlStaged::new(Arc::clone(&self.files), inner, name)))
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
        if self.files.reports.contains_key(&name) {
            return Err(StoreError::Denied("a report stays as long as its query".to_owned()));
        }
        self.files.database.change(Change::Remove { name }).await.map(drop)
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        Err(if path.is_root() { StoreError::Exists } else { NO_DIRECTORIES })
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        check_below_root(path)?;
        self.files.find(name_of(path)?).await?.ok_or(StoreError::NotFound)?;
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
        let changed = self.files.database.change(Change::Rename { from, to, existing }).await?;
        Ok(Renamed { displaced: changed.displaced })
    }

    async fn set_times(
        &self,
        _: &StorePath,
        _: Option<Timestamp>,
        _: Option<Timestamp>,
    ) -> Result<()> {
        Err(StoreError::Unsupported("setting the times of a row"))
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
    files: Arc<Files>,
    reports: VecDeque<String>,
    /// The last name that came; `None`: there are no more.
    after: Option<String>,
}

impl SqlListing {
    fn shows(&self, row: &Row) -> bool {
        let path: Result<StorePath, _> = StorePath::root().join(&row.name);
        let plain = path.is_ok_and(|path| name_of(&path).is_ok());
        plain && !self.files.reports.contains_key(&row.name)
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
            if let Some((row, _)) = self.files.find(&name).await? {
                page.push(Entry { name, meta: row.meta() });
            }
        }
        while page.len() < max
            && let Some(after) = &self.after
        {
            let most = max - page.len();
            let rows = self.files.database.page(after, most).await?;
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
