//! What was removed or replaced and can be put back: rows that follow from events, so that every
//! node knows what any of them keeps.

use entrepot_nouns::event::VersionFact;
use entrepot_nouns::{Event, EventId, Fact, Name, SiteId, Timestamp};
use uuid::Uuid;

use crate::Db;
use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::Batch;

statements! {
    INSERT_SQLITE = sql!(
        "INSERT INTO trash (id, site, endpoint, prefix, kept_until, body, version_of, size, ",
        "most_kept, most_bytes) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ",
        "ON CONFLICT (id) DO NOTHING",
    );
    DELETE_SQLITE = sql!("DELETE FROM trash WHERE id = $1");
    FIND = sql!("SELECT body FROM trash WHERE site = $1 AND id = $2");
    NEWEST = sql!(
        "SELECT body FROM trash WHERE site = $1 AND endpoint = $2 AND prefix = $3 AND id < $4 ",
        "AND version_of IS NULL ORDER BY id DESC LIMIT $5",
    );
    NEWEST_VERSIONS = sql!(
        "SELECT body FROM trash WHERE site = $1 AND endpoint = $2 AND prefix = $3 AND id < $4 ",
        "AND version_of = $5 ORDER BY id DESC LIMIT $6",
    );
    // Of each file, and of each directory with a limit, the newest row says what is kept at most;
    // what was removed and versions have limits of their own.
    OVER = sql!(
        "WITH by_file AS (SELECT id, ROW_NUMBER() OVER newest AS rank, ",
        "FIRST_VALUE(most_kept) OVER newest AS most FROM trash WHERE version_of IS NOT NULL ",
        "WINDOW newest AS (PARTITION BY site, endpoint, prefix, version_of ORDER BY id DESC)), ",
        "by_size AS (SELECT id, SUM(COALESCE(size, 0)) OVER newest AS total, ",
        "FIRST_VALUE(most_bytes) OVER newest AS most FROM trash ",
        "WHERE (site, endpoint, prefix) IN ",
        "(SELECT site, endpoint, prefix FROM trash WHERE most_bytes IS NOT NULL) ",
        "WINDOW newest AS (PARTITION BY site, endpoint, prefix, version_of IS NULL ",
        "ORDER BY id DESC)) ",
        "SELECT body FROM trash WHERE id > $1 AND id IN (",
        "SELECT id FROM trash WHERE kept_until <= $2 ",
        "UNION SELECT id FROM by_file WHERE rank > most ",
        "UNION SELECT id FROM by_size WHERE total > most) ORDER BY id LIMIT $3",
    );
    UNCOUNTED = sql!(
        "SELECT body FROM trash WHERE size IS NULL AND (site, endpoint, prefix) IN ",
        "(SELECT site, endpoint, prefix FROM trash WHERE most_bytes IS NOT NULL) ",
        "AND id > $1 ORDER BY id LIMIT $2",
    );
    COUNTED = sql!("UPDATE trash SET size = $1 WHERE id = $2");
}

/// As `INSERT_SQLITE`, an array a column.
pub(crate) const INSERT_POSTGRES: Sql = sql!(
    "INSERT INTO trash (id, site, endpoint, prefix, kept_until, body, version_of, size, ",
    "most_kept, most_bytes) SELECT * FROM UNNEST($1::UUID[], $2::UUID[], $3::TEXT[], $4::TEXT[], ",
    "$5::BIGINT[], $6::TEXT[], $7::TEXT[], $8::BIGINT[], $9::BIGINT[], $10::BIGINT[]) ",
    "ON CONFLICT (id) DO NOTHING",
);
/// As `DELETE_SQLITE`, an array a column.
pub(crate) const DELETE_POSTGRES: Sql = sql!("DELETE FROM trash WHERE id = ANY($1::UUID[])");

/// What was removed or replaced.
pub(crate) const INSERT: Batch =
    Batch { sqlite: INSERT_SQLITE, postgres: INSERT_POSTGRES, width: 10 };
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
            Fact::FileTrashed { until, directory, size, most_bytes, .. } => {
                let size = Some(*size).filter(|_| !directory);
                self.push(event, Terms::new(until.micros(), size, *most_bytes))?;
            }
            Fact::FileVersioned { version: VersionFact { until, size, keep, most_bytes, .. } } => {
                let until = until.map_or(FOREVER, Timestamp::micros);
                let terms = Terms::new(until, Some(*size), *most_bytes);
                self.push(event, Terms { most_kept: keep.map(i64::from), ..terms })?;
            }
            Fact::FileRestored { trashed, .. } | Fact::FilePurged { trashed, .. } => {
                self.deleted.push(trashed.0.into());
            }
            _ => {}
        }
        Ok(())
    }

    fn push(&mut self, event: &Event, terms: Terms) -> Result<()> {
        let Some(place) = TrashPlace::of(event) else { return Ok(()) };
        self.added.extend([
            event.id.0.into(),
            event.site.0.into(),
            place.endpoint.into(),
            place.prefix.into(),
            terms.until.into(),
            Value::text(to_json(event)?),
            Value::Text(place.version_of.map(str::to_owned)),
            Value::Int(terms.size),
            Value::Int(terms.most_kept),
            Value::Int(terms.most_bytes),
        ]);
        Ok(())
    }
}

/// The end of what has none.
const FOREVER: i64 = i64::MAX;

/// How long something is kept, and what counts towards which limits.
struct Terms {
    /// In microseconds since the epoch.
    until: i64,
    /// Of a directory it has to be counted.
    size: Option<i64>,
    most_kept: Option<i64>,
    most_bytes: Option<i64>,
}

impl Terms {
    fn new(until: i64, size: Option<u64>, most_bytes: Option<u64>) -> Terms {
        let number = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        Terms { until, size: size.map(number), most_kept: None, most_bytes: most_bytes.map(number) }
    }
}

/// Where things were removed, or a file was replaced: what a mount shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrashPlace<'a> {
    /// The site of the endpoint.
    pub site: SiteId,
    /// The endpoint that keeps them.
    pub endpoint: &'a Name,
    /// The directory of the endpoint that the mount shows.
    pub prefix: &'a str,
    /// The path at the endpoint of the file whose versions are meant; `None`: what was removed.
    pub version_of: Option<&'a str>,
}

impl<'a> TrashPlace<'a> {
    /// Where an event says that something was removed or replaced.
    pub fn of(event: &'a Event) -> Option<TrashPlace<'a>> {
        let site = event.site;
        match &event.fact {
            Fact::FileTrashed { endpoint, prefix, .. } => {
                Some(TrashPlace { site, endpoint, prefix, version_of: None })
            }
            Fact::FileVersioned { version: VersionFact { endpoint, prefix, stored, .. } } => {
                Some(TrashPlace { site, endpoint, prefix, version_of: Some(stored) })
            }
            _ => None,
        }
    }
}

fn event(row: &Row<'_>) -> Result<Event> {
    row.json(0)
}

impl Db {
    /// The event by which something was removed or replaced, as long as it can be put back.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn trashed(&self, site: SiteId, id: EventId) -> Result<Option<Event>> {
        let found = self.read(FIND, vec![site.0.into(), id.0.into()], event).await?;
        Ok(found.into_iter().next())
    }

    /// What was removed or replaced there before the event `before`, the newest first.
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
        let TrashPlace { site, endpoint, prefix, version_of } = place;
        let mut values = vec![site.0.into(), endpoint.into(), prefix.into(), before.into()];
        values.extend(version_of.map(Value::from));
        values.push(i64::from(limit).into());
        let statement = if version_of.is_some() { NEWEST_VERSIONS } else { NEWEST };
        self.read(statement, values, event).await
    }

    /// What was removed or replaced and is to be deleted for good, of all sites, behind the event
    /// `after`: its time is over at `now`, or newer ones fill what its mount keeps at most.
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
        self.read(OVER, vec![after.into(), now.into(), i64::from(limit).into()], event).await
    }

    /// What was removed where bytes are limited, and whose bytes nobody has counted: behind the
    /// event `after`.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn uncounted_trash(&self, after: Option<EventId>, limit: u32) -> Result<Vec<Event>> {
        let after = after.map_or(Uuid::nil(), |after| after.0);
        self.read(UNCOUNTED, vec![after.into(), i64::from(limit).into()], event).await
    }

    /// Notes how many bytes something has that was removed.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn count_trash(&self, id: EventId, bytes: u64) -> Result<()> {
        self.execute(COUNTED, vec![Value::unsigned(bytes), id.0.into()]).await?;
        Ok(())
    }
}
