//! What was removed and can be put back: rows that follow from events, so that every node knows
//! what any of them has removed.

use entrepot_nouns::{Event, EventId, Fact, Name, SiteId, Timestamp};
use uuid::Uuid;

use crate::Db;
use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::Batch;

statements! {
    INSERT_SQLITE = sql!(
        "INSERT INTO trash (id, site, endpoint, prefix, kept_until, body) ",
        "VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO NOTHING",
    );
    DELETE_SQLITE = sql!("DELETE FROM trash WHERE id = $1");
    FIND = sql!("SELECT body FROM trash WHERE site = $1 AND id = $2");
    NEWEST = sql!(
        "SELECT body FROM trash WHERE site = $1 AND endpoint = $2 AND prefix = $3 AND id < $4 ",
        "ORDER BY id DESC LIMIT $5",
    );
    OVER = sql!(
        "SELECT body FROM trash WHERE kept_until <= $1 AND id > $2 ORDER BY id LIMIT $3",
    );
}

/// As `INSERT_SQLITE`, an array a column.
pub(crate) const INSERT_POSTGRES: Sql = sql!(
    "INSERT INTO trash (id, site, endpoint, prefix, kept_until, body) ",
    "SELECT * FROM UNNEST($1::UUID[], $2::UUID[], $3::TEXT[], $4::TEXT[], $5::BIGINT[], ",
    "$6::TEXT[]) ON CONFLICT (id) DO NOTHING",
);
/// As `DELETE_SQLITE`, an array a column.
pub(crate) const DELETE_POSTGRES: Sql = sql!("DELETE FROM trash WHERE id = ANY($1::UUID[])");

/// What was removed.
pub(crate) const INSERT: Batch =
    Batch { sqlite: INSERT_SQLITE, postgres: INSERT_POSTGRES, width: 6 };
/// What was put back, or deleted for good. An id never comes back, so that these are deleted
/// behind all that a piece of a journal adds.
pub(crate) const DELETE: Batch =
    Batch { sqlite: DELETE_SQLITE, postgres: DELETE_POSTGRES, width: 1 };

/// The rows that a piece of a journal adds and deletes.
#[derive(Default)]
pub(crate) struct TrashRows {
    pub(crate) added: Vec<Value>,
    pub(crate) deleted: Vec<Value>,
}

impl TrashRows {
    /// Takes one more event into account.
    pub(crate) fn add(&mut self, event: &Event) -> Result<()> {
        match &event.fact {
            Fact::FileTrashed { endpoint, prefix, until, .. } => self.added.extend([
                event.id.0.into(),
                event.site.0.into(),
                endpoint.into(),
                prefix.as_str().into(),
                (*until).into(),
                Value::text(to_json(event)?),
            ]),
            Fact::FileRestored { trashed, .. } | Fact::FilePurged { trashed, .. } => {
                self.deleted.push(trashed.0.into());
            }
            _ => {}
        }
        Ok(())
    }
}

/// Where things were removed: what a mount shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrashPlace<'a> {
    /// The site of the endpoint.
    pub site: SiteId,
    /// The endpoint that keeps them.
    pub endpoint: &'a Name,
    /// The directory of the endpoint that the mount shows.
    pub prefix: &'a str,
}

fn event(row: &Row<'_>) -> Result<Event> {
    row.json(0)
}

impl Db {
    /// The event by which something was removed, as long as it can be put back.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn trashed(&self, site: SiteId, id: EventId) -> Result<Option<Event>> {
        let found = self.read(FIND, vec![site.0.into(), id.0.into()], event).await?;
        Ok(found.into_iter().next())
    }

    /// What was removed there before the event `before`, the newest first.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn newest_trash(
        &self,
        place: TrashPlace<'_>,
        before: Option<EventId>,
        limit: u32,
    ) -> Result<Vec<Event>> {
        let before = before.map_or(Uuid::max(), |before| before.0);
        let TrashPlace { site, endpoint, prefix } = place;
        let mut values = vec![site.0.into(), endpoint.into(), prefix.into()];
        values.extend([before.into(), i64::from(limit).into()]);
        self.read(NEWEST, values, event).await
    }

    /// What was removed and whose time is over at `now`, of all sites, behind the event `after`.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn trash_over(
        &self,
        now: Timestamp,
        after: Option<EventId>,
        limit: u32,
    ) -> Result<Vec<Event>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        self.read(OVER, vec![now.into(), after.into(), i64::from(limit).into()], event).await
    }
}
