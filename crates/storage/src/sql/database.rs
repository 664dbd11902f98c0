//! The database of an endpoint, whichever it is, and its files.

use std::collections::BTreeMap;

use bytes::Bytes;
use entrepot_nouns::Env;

use super::postgres::Postgres;
use super::row::{Change, Changed, Row};
use super::sqlite::Sqlite;
use crate::error::Result;

pub(super) enum Database {
    Sqlite(Sqlite),
    Postgres(Box<Postgres>),
}

impl Database {
    pub(super) async fn page(&self, after: &str, most: usize) -> Result<Vec<Row>> {
        match self {
            Database::Sqlite(sqlite) => sqlite.page(after.to_owned(), most).await,
            Database::Postgres(postgres) => postgres.page(after, most).await,
        }
    }

    pub(super) async fn one(&self, name: &str) -> Result<Option<Row>> {
        match self {
            Database::Sqlite(sqlite) => sqlite.one(name.to_owned()).await,
            Database::Postgres(postgres) => postgres.one(name).await,
        }
    }

    pub(super) async fn read(&self, name: &str) -> Result<Option<(Row, Bytes)>> {
        match self {
            Database::Sqlite(sqlite) => sqlite.read(name.to_owned()).await,
            Database::Postgres(postgres) => postgres.read(name).await,
        }
    }

    pub(super) async fn change(&self, change: Change) -> Result<Changed> {
        match self {
            Database::Sqlite(sqlite) => sqlite.change(change).await,
            Database::Postgres(postgres) => postgres.change(&change).await,
        }
    }

    pub(super) async fn report(&self, statement: &str) -> Result<Bytes> {
        match self {
            Database::Sqlite(sqlite) => sqlite.report(statement.to_owned()).await,
            Database::Postgres(postgres) => postgres.report(statement).await,
        }
    }
}

/// The files of an endpoint: rows, and reports.
pub(super) struct Files {
    pub(super) database: Database,
    pub(super) reports: BTreeMap<String, String>,
    pub(super) writes: bool,
    pub(super) env: Env,
}

impl Files {
    /// The file of a name. A report is run to know its size; its content is given along.
    pub(super) async fn find(&self, name: &str) -> Result<Option<(Row, Option<Bytes>)>> {
        let Some(report) = self.reports.get(name) else {
            return Ok(self.database.one(name).await?.map(|row| (row, None)));
        };
        let content = self.database.report(report).await?;
        let (size, modified) = (content.len() as u64, self.env.now());
        Ok(Some((Row { name: name.to_owned(), size, modified }, Some(content))))
    }
}
