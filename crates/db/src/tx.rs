//! Transactions of either database: [`Tx`], in which administrators change things, and [`Work`],
//! the transaction below it, in which batches are written too. What a [`Tx`] can change stands
//! beside the statements that do it: `nouns.rs`, `jobs.rs`, `events.rs`.

use crate::error::{DbError, Result};
use crate::sql::{Reader, Sql, Value, sql, statements};
use crate::{postgres, sqlite};

/// A write transaction on what administrators change: nouns and the state of jobs, with the
/// events that tell of it.
pub struct Tx {
    pub(crate) work: Work,
    /// The commit must raise the revision of the configuration.
    pub(crate) nouns_changed: bool,
    /// Nobody else writes events until it ends: see [`Tx::lock_events`].
    events_locked: bool,
}

statements! {
    BUMP_REVISION = sql!("UPDATE config_revision SET revision = revision + 1");
}

impl Tx {
    pub(crate) fn new(work: Work) -> Self {
        Tx { work, nouns_changed: false, events_locked: false }
    }

    /// Waits for other transactions that write events. To be called before an event is written,
    /// and before any row is changed that a projection changes too (of jobs, documents and nodes):
    /// a projection locks events, then rows; who took them the other way round would wait for it
    /// while it waits for him.
    pub(crate) async fn lock_events(&mut self) -> Result<()> {
        if !self.events_locked {
            self.work.lock_events().await?;
            self.events_locked = true;
        }
        Ok(())
    }

    /// Commits; durable when it returns. The configuration has one revision more if a noun
    /// changed.
    pub async fn commit(mut self) -> Result<()> {
        if self.nouns_changed {
            self.work.execute(BUMP_REVISION, Vec::new()).await?;
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

    /// Refuses the commit from now on if `result` is an error.
    pub(crate) fn noted<T>(&mut self, result: Result<T>) -> Result<T> {
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

    /// Runs one statement after the other: how many rows each changed.
    pub(crate) async fn many(&mut self, statements: Vec<(Sql, Vec<Value>)>) -> Result<Vec<u64>> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let result = match &mut self.backend {
            WorkOf::Sqlite(work) => work.many(statements).await,
            WorkOf::Postgres(work) => work.many(statements).await,
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

    /// Runs a statement of PostgreSQL that takes an array a column for all rows, laid end to end in
    /// `values`, and reads its answer.
    pub(crate) async fn rows<T: Send + 'static>(
        &mut self,
        sql: Sql,
        width: usize,
        values: Vec<Value>,
        reader: Reader<T>,
    ) -> Result<Vec<T>> {
        let result = match &mut self.backend {
            WorkOf::Sqlite(_) => Err(DbError::Sql("SQLite knows no arrays".to_owned())),
            WorkOf::Postgres(work) => work.rows(sql, width, &values, reader).await,
        };
        self.noted(result)
    }

    /// Waits for other transactions that write events; SQLite has only one at a time anyway.
    async fn lock_events(&mut self) -> Result<()> {
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
