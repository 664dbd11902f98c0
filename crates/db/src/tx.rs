//! Transactions.

use entrepot_model::{AnyNoun, Event, JobId, Kind, Name, Noun, SiteId, Stored, Timestamp};
use uuid::Uuid;

use crate::error::{DbError, Result};
use crate::sql::{Reader, Sql, Value};
use crate::{events, jobs, nouns, postgres, sqlite};

/// A write transaction on what administrators change: nouns and the state of jobs, with the
/// events that tell of it.
pub struct Tx {
    work: Work,
    changed: bool,
}

impl Tx {
    pub(crate) fn new(work: Work) -> Self {
        Tx { work, changed: false }
    }

    /// Creates the noun (revision 1) or replaces the one with this id and name (one revision
    /// more). Returns the revision.
    ///
    /// # Errors
    /// [`DbError::Conflict`] if the name belongs to another id, the id to another name, site or
    /// kind of row, or the site does not exist. The transaction can then only be dropped.
    pub async fn put<N: Noun>(
        &mut self,
        site: SiteId,
        id: Uuid,
        noun: &N,
        at: Timestamp,
    ) -> Result<i64> {
        let revision = nouns::put(&mut self.work, site, id, noun, at).await;
        self.changed = true;
        self.work.noted(revision)
    }

    /// As [`Tx::put`].
    pub async fn put_any(
        &mut self,
        site: SiteId,
        id: Uuid,
        noun: &AnyNoun,
        at: Timestamp,
    ) -> Result<i64> {
        match noun {
            AnyNoun::Site(noun) => self.put(site, id, noun, at).await,
            AnyNoun::Policy(noun) => self.put(site, id, noun, at).await,
            AnyNoun::Key(noun) => self.put(site, id, noun, at).await,
            AnyNoun::Endpoint(noun) => self.put(site, id, noun, at).await,
            AnyNoun::Account(noun) => self.put(site, id, noun, at).await,
            AnyNoun::Mount(noun) => self.put(site, id, noun, at).await,
            AnyNoun::Rule(noun) => self.put(site, id, noun, at).await,
            AnyNoun::Listener(noun) => self.put(site, id, noun, at).await,
        }
    }

    /// Deletes a noun; false if there is none of that name. The site `main` cannot be deleted.
    ///
    /// # Errors
    /// [`DbError::Conflict`] for a site that still owns something.
    pub async fn delete(&mut self, site: SiteId, kind: Kind, name: &Name) -> Result<bool> {
        let deleted = nouns::delete(&mut self.work, site, kind, name).await?;
        self.changed |= deleted;
        Ok(deleted)
    }

    /// Writes an event that is not yet in the chain of its node's journal: see
    /// [`crate::Db::unsealed_events`].
    pub async fn insert_event(&mut self, event: &Event) -> Result<()> {
        events::insert_unsealed(&mut self.work, event).await
    }

    /// Makes a failed, cancelled or waiting job due at once, with its attempts counted anew; the
    /// steps already done stay done. False if there is no such job in such a state.
    pub async fn retry_job(&mut self, site: SiteId, id: JobId, now: Timestamp) -> Result<bool> {
        jobs::retry(&mut self.work, site, id, now).await
    }

    /// Ends a ready, running or failed job; a node at work on it finds it lost. False if there is
    /// no such job in such a state.
    pub async fn cancel_job(&mut self, site: SiteId, id: JobId, now: Timestamp) -> Result<bool> {
        jobs::cancel(&mut self.work, site, id, now).await
    }

    /// As [`crate::Db::list`], with what this transaction changed.
    pub async fn list<N: Noun>(&mut self, site: SiteId) -> Result<Vec<Stored<N>>> {
        let (sql, values, reader) = nouns::list::<N>(site);
        self.work.query(sql, values, reader).await
    }

    /// As [`crate::Db::find`], with what this transaction changed.
    pub async fn find<N: Noun>(&mut self, site: SiteId, name: &Name) -> Result<Option<Stored<N>>> {
        let (sql, values, reader) = nouns::find::<N>(site, name);
        Ok(self.work.query(sql, values, reader).await?.pop())
    }

    /// Commits; durable when it returns. The configuration has one revision more if a noun
    /// changed.
    pub async fn commit(mut self) -> Result<()> {
        if self.changed {
            nouns::bump_revision(&mut self.work).await?;
        }
        self.work.commit().await
    }
}

/// An open transaction of either database. Dropped without a commit it leaves nothing.
pub(crate) struct Work {
    backend: WorkOf,
    /// A statement failed. PostgreSQL would answer a commit with a silent rollback, SQLite would
    /// keep the rest; here both refuse.
    failed: bool,
}

enum WorkOf {
    Sqlite(sqlite::Work),
    Postgres(Box<postgres::Work>),
}

/// One statement for many rows: a row at a time for SQLite, an array a column for PostgreSQL.
#[derive(Clone, Copy)]
pub(crate) struct Batch {
    pub(crate) sqlite: Sql,
    pub(crate) postgres: Sql,
    /// Values of a row.
    pub(crate) width: usize,
}

impl Work {
    pub(crate) fn sqlite(work: sqlite::Work) -> Self {
        Work { backend: WorkOf::Sqlite(work), failed: false }
    }

    pub(crate) fn postgres(work: postgres::Work) -> Self {
        Work { backend: WorkOf::Postgres(Box::new(work)), failed: false }
    }

    fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
        self.failed |= result.is_err();
        result
    }

    pub(crate) async fn query<T: Send + 'static>(
        &mut self,
        sql: Sql,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        let result = match &mut self.backend {
            WorkOf::Sqlite(work) => work.query(sql, values, reader).await,
            WorkOf::Postgres(work) => work.query(sql, values, reader).await,
        };
        self.noted(result)
    }

    pub(crate) async fn execute(&mut self, sql: Sql, values: Vec<Value>) -> Result<u64> {
        let result = match &mut self.backend {
            WorkOf::Sqlite(work) => work.execute(sql, values).await,
            WorkOf::Postgres(work) => work.execute(sql, values).await,
        };
        self.noted(result)
    }

    /// Runs the statement for all rows, laid end to end in `values`.
    pub(crate) async fn each(&mut self, batch: Batch, values: Vec<Value>) -> Result<()> {
        if values.is_empty() {
            return Ok(());
        }
        let result = match &mut self.backend {
            WorkOf::Sqlite(work) => work.each(batch.sqlite, batch.width, values).await,
            WorkOf::Postgres(work) => work.each(batch.postgres, batch.width, values).await,
        };
        self.noted(result)
    }

    /// Waits for other transactions that write events; SQLite has only one at a time anyway.
    pub(crate) async fn lock_events(&mut self) -> Result<()> {
        let result = match &mut self.backend {
            WorkOf::Sqlite(_) => Ok(()),
            WorkOf::Postgres(work) => work.lock_events().await,
        };
        self.noted(result)
    }

    pub(crate) async fn commit(self) -> Result<()> {
        if self.failed {
            return Err(DbError::Sql(
                "an earlier statement of the transaction failed, nothing was kept".to_owned(),
            ));
        }
        match self.backend {
            WorkOf::Sqlite(work) => work.commit().await,
            WorkOf::Postgres(work) => work.commit().await,
        }
    }
}
