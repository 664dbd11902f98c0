//! Reads the whole configuration, and lets a value of it answer for a database that is away.

use entrepot_nouns::{Kind, SiteId};

use crate::error::{DbError, Result};
use crate::known::{Configuration, KnownConfiguration, StoredRow, TableRow};
use crate::moment::{era_postgres, era_sqlite};
use crate::nouns;
use crate::sql::{Row, Sql, sql, statements};
use crate::{Db, Dialect, limits};

fn table_row(row: &Row<'_>) -> Result<TableRow> {
    Ok(TableRow {
        id: row.id(0)?,
        site: SiteId(row.id(1)?),
        name: row.name(2)?,
        revision: row.int(3)?,
        changed_at: row.time(4)?,
        body: row.text(5)?,
    })
}

statements! {
    ERA_SQLITE = sql!("SELECT ", era_sqlite!());
}
/// As `ERA_SQLITE`, of the server.
pub(crate) const ERA_POSTGRES: Sql = sql!("SELECT ", era_postgres!());

impl Db {
    /// Reads all nouns of all sites as they are at one moment.
    ///
    /// # Errors
    /// Those of the database; [`DbError::Unavailable`] too where the configuration changes all the
    /// time.
    pub async fn configuration(&self) -> Result<Configuration> {
        for _ in 0..limits::CONFIGURATION_READS {
            let revision = self.config_revision().await?;
            let era = match self.dialect() {
                Dialect::Sqlite => ERA_SQLITE,
                Dialect::Postgres => ERA_POSTGRES,
            };
            let era = self.read(era, Vec::new(), |row| row.text(0)).await?.pop();
            let mut rows = Vec::new();
            for kind in Kind::ALL {
                let found = self.read(nouns::all(kind), Vec::new(), table_row).await?;
                rows.extend(found.into_iter().map(|row| StoredRow { kind, row }));
            }
            // Each change raises the revision in its own transaction.
            if self.config_revision().await? == revision {
                return Ok(Configuration { revision, era: era.unwrap_or_default(), rows });
            }
        }
        Err(DbError::Unavailable("the configuration changes all the time".to_owned()))
    }

    /// Answers questions about the configuration from `configuration` from now on, and refuses
    /// changes of it, until [`Db::answer_itself`]: for a node that starts while the database is
    /// away. The revision that [`Db::config_revision`] tells is none that the database has.
    ///
    /// # Errors
    /// [`DbError::Corrupt`]
    pub fn answer_from(&self, configuration: Configuration) -> Result<()> {
        let known = KnownConfiguration::new(configuration)?;
        *self.known.write() = Some(known.into());
        Ok(())
    }

    /// The end of [`Db::answer_from`]: the database answers again.
    pub fn answer_itself(&self) {
        *self.known.write() = None;
    }

    /// True while [`Db::answer_from`] holds.
    pub fn answers_from_copy(&self) -> bool {
        self.known.read().is_some()
    }
}
