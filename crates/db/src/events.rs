//! The audit log.

use entrepot_nouns::{Event, EventId, Fact, JobId, Name, SessionId, SiteId, Timestamp, TransferId};

use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::tx::{Batch, Tx};
use crate::{Db, limits, name_filter, page};

/// Which events are wanted. The default wants all, oldest first, as many as a page holds.
#[derive(Clone, Debug)]
pub struct EventFilter {
    /// Only these kinds; empty: all.
    pub kinds: Vec<String>,
    /// Only of this account.
    pub account: Option<Name>,
    /// Only with this text in a path, as written.
    pub path_contains: Option<String>,
    /// Only of this session.
    pub session: Option<SessionId>,
    /// Only of this transfer.
    pub transfer: Option<TransferId>,
    /// Only of this job.
    pub job: Option<JobId>,
    /// Only those that happened at or after this moment.
    pub since: Option<Timestamp>,
    /// Only those that happened before this moment.
    pub until: Option<Timestamp>,
    /// Only those later in the table than this sequence. Who goes on from the last sequence seen
    /// misses none: sequences appear in the order of commits.
    pub after_sequence: Option<i64>,
    /// In the opposite order of sequences: then `limit` keeps the newest.
    pub newest_first: bool,
    /// At most this many, and never more than [`crate::limits::PAGE_ROWS`].
    pub limit: u32,
}

impl Default for EventFilter {
    fn default() -> Self {
        EventFilter {
            kinds: Vec::new(),
            account: None,
            path_contains: None,
            session: None,
            transfer: None,
            job: None,
            since: None,
            until: None,
            after_sequence: None,
            newest_first: false,
            limit: crate::limits::PAGE_ROWS,
        }
    }
}

/// An event and its place in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct EventRow {
    /// Its place: grows in the order of commits, with gaps.
    pub sequence: i64,
    /// The event as it was recorded; that it is here does not mean that it is sealed.
    pub event: Event,
}

macro_rules! search {
    ($lead:literal, $order:literal) => {
        sql!(
            "SELECT sequence, body FROM events WHERE site = $1 AND sequence > $2 ",
            "AND sequence <= $3 ",
            "AND (CAST($4 AS TEXT) IS NULL OR $4 LIKE '%,' || kind || ',%') ",
            "AND (CAST($5 AS TEXT) IS NULL OR account = $5) ",
            "AND (CAST($6 AS TEXT) IS NULL OR replace(path, $6, '') <> path) ",
            "AND (CAST($7 AS BIGINT) IS NULL OR at >= $7) ",
            "AND (CAST($8 AS BIGINT) IS NULL OR at < $8) ",
            $lead,
            " ORDER BY sequence ",
            $order,
            " LIMIT $10",
        )
    };
}

statements! {
    BY_TRANSFER = search!("AND transfer = $9", "");
    BY_TRANSFER_NEWEST = search!("AND transfer = $9", "DESC");
    BY_SESSION = search!("AND session = $9", "");
    BY_SESSION_NEWEST = search!("AND session = $9", "DESC");
    BY_JOB = search!("AND job = $9", "");
    BY_JOB_NEWEST = search!("AND job = $9", "DESC");
    BY_ACCOUNT = search!("AND account = $9", "");
    BY_ACCOUNT_NEWEST = search!("AND account = $9", "DESC");
    BY_KIND = search!("AND kind = $9", "");
    BY_KIND_NEWEST = search!("AND kind = $9", "DESC");
    BY_SITE = search!("AND CAST($9 AS TEXT) IS NULL", "");
    BY_SITE_NEWEST = search!("AND CAST($9 AS TEXT) IS NULL", "DESC");
    /// The stretch in which events of a time may lie, and where no stretch is known any more.
    STRETCH = sql!(
        "SELECT MIN(first_sequence), MAX(last_sequence), ",
        "(SELECT COALESCE(MAX(last_sequence), 0) FROM event_times) FROM event_times ",
        "WHERE latest >= $1 AND earliest < $2",
    );
    FORGET_STRETCHES = sql!(
        "DELETE FROM event_times WHERE last_sequence < (SELECT MIN(sequence) FROM events)",
    );
    SUMMARIZE_STRETCH = sql!(
        "INSERT INTO event_times (last_sequence, first_sequence, earliest, latest) ",
        "SELECT MAX(sequence), ",
        "(SELECT COALESCE(MAX(last_sequence), 0) FROM event_times) + 1, MIN(at), MAX(at) ",
        "FROM events ",
        "WHERE sequence > (SELECT COALESCE(MAX(last_sequence), 0) FROM event_times) ",
        "AND (SELECT COALESCE(MAX(sequence), 0) FROM events) >= ",
        "(SELECT COALESCE(MAX(last_sequence), 0) FROM event_times) + $1 HAVING COUNT(*) > 0",
    );
    INSERT_UNSEALED = sql!(
        "INSERT INTO events (id, at, site, node, node_sequence, kind, account, session, ",
        "transfer, job, path, body, sealed) ",
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, FALSE) ",
        "ON CONFLICT (id) DO NOTHING",
    );
    PROJECT_SQLITE = sql!(
        "INSERT INTO events (id, at, site, node, node_sequence, kind, account, session, ",
        "transfer, job, path, body, sealed) ",
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, TRUE) ",
        "ON CONFLICT (id) DO UPDATE SET sealed = TRUE, node_sequence = excluded.node_sequence ",
        "WHERE events.node_sequence IS NULL",
    );
    UNSEALED = sql!("SELECT body FROM events WHERE node = $1 AND NOT sealed ORDER BY sequence");
    SEAL_SQLITE = sql!("UPDATE events SET sealed = TRUE WHERE id = $1");
}

/// As `PROJECT_SQLITE`, an array a column.
pub(crate) const PROJECT_POSTGRES: Sql = sql!(
    "INSERT INTO events (id, at, site, node, node_sequence, kind, account, session, ",
    "transfer, job, path, body, sealed) ",
    "SELECT *, TRUE FROM UNNEST($1::UUID[], $2::BIGINT[], $3::UUID[], $4::TEXT[], ",
    "$5::BIGINT[], $6::TEXT[], $7::TEXT[], $8::UUID[], $9::UUID[], $10::UUID[], $11::TEXT[], ",
    "$12::TEXT[]) ",
    "ON CONFLICT (id) DO UPDATE SET sealed = TRUE, node_sequence = excluded.node_sequence ",
    "WHERE events.node_sequence IS NULL",
);
/// As `SEAL_SQLITE`, an array a column.
pub(crate) const SEAL_POSTGRES: Sql =
    sql!("UPDATE events SET sealed = TRUE WHERE id = ANY($1::UUID[])");

/// Events of the journal. One that [`Tx::insert_event`] wrote before (unsealed) is sealed.
pub(crate) const PROJECT: Batch =
    Batch { sqlite: PROJECT_SQLITE, postgres: PROJECT_POSTGRES, width: 12 };
const SEAL: Batch = Batch { sqlite: SEAL_SQLITE, postgres: SEAL_POSTGRES, width: 1 };

/// Notes when the events at the end of the table happened, once they are [`limits::STRETCH_ROWS`].
/// Only inside a transaction that writes events: no earlier sequence appears later.
pub(crate) const SUMMARIZE: Sql = SUMMARIZE_STRETCH;

/// Sequences that a search looks into: behind the first number, up to the second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stretch {
    pub(crate) after: i64,
    pub(crate) up_to: i64,
}

/// Appends the twelve values of an event's row.
pub(crate) fn push_row(event: &Event, sequence: Option<u64>, row: &mut Vec<Value>) -> Result<()> {
    row.extend([
        event.id.0.into(),
        event.at.into(),
        event.site.0.into(),
        (&event.node).into(),
        sequence.map_or(Value::Int(None), Value::unsigned),
        event.fact.kind().into(),
        name_filter(event.account.as_ref()),
        event.session.map(|id| id.0).into(),
        event.fact.file().map(|file| file.transfer.0).into(),
        event.job.map(|id| id.0).into(),
        path(&event.fact).map_or(Value::Text(None), Value::text),
        Value::text(to_json(event)?),
    ]);
    Ok(())
}

/// What a search by path looks through; both names of a renamed file.
fn path(fact: &Fact) -> Option<String> {
    match fact {
        Fact::FileRenamed { from, to, .. } | Fact::FileLinked { from, to, .. } => {
            Some(format!("{from}\n{to}"))
        }
        Fact::LinkCreated { path, target } => Some(format!("{path}\n{target}")),
        Fact::FileRemoved { path }
        | Fact::ModeChanged { path, .. }
        | Fact::DirectoryCreated { path }
        | Fact::DirectoryRemoved { path } => Some(path.clone()),
        other => other.file().map(|file| file.path.clone()),
    }
}

/// The statement whose index fits the filter best, and the value that leads it.
fn lead(filter: &EventFilter) -> (Sql, Sql, Value) {
    if let Some(id) = filter.transfer {
        return (BY_TRANSFER, BY_TRANSFER_NEWEST, id.0.into());
    }
    if let Some(id) = filter.job {
        return (BY_JOB, BY_JOB_NEWEST, id.0.into());
    }
    if let Some(id) = filter.session {
        return (BY_SESSION, BY_SESSION_NEWEST, id.0.into());
    }
    if let Some(account) = &filter.account {
        return (BY_ACCOUNT, BY_ACCOUNT_NEWEST, account.into());
    }
    if let [kind] = &*filter.kinds {
        return (BY_KIND, BY_KIND_NEWEST, Value::text(kind));
    }
    (BY_SITE, BY_SITE_NEWEST, Value::Text(None))
}

fn read_row(row: &Row<'_>) -> Result<EventRow> {
    Ok(EventRow { sequence: row.int(0)?, event: row.json(1)? })
}

impl Db {
    /// Events of a site that match.
    pub async fn events(&self, site: SiteId, filter: &EventFilter) -> Result<Vec<EventRow>> {
        let (oldest_first, newest_first, key) = lead(filter);
        let sql = if filter.newest_first { newest_first } else { oldest_first };
        let kinds = match &*filter.kinds {
            [] => Value::Text(None),
            kinds => Value::text(format!(",{},", kinds.join(","))),
        };
        let path = filter.path_contains.as_deref().filter(|text| !text.is_empty());
        let wanted = filter.limit.min(limits::PAGE_ROWS);
        let mut found: Vec<EventRow> = Vec::new();
        for stretch in self.stretches(filter).await? {
            let left = wanted.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            if left == 0 {
                break;
            }
            let values = vec![
                site.0.into(),
                stretch.after.into(),
                stretch.up_to.into(),
                kinds.clone(),
                name_filter(filter.account.as_ref()),
                Value::maybe_text(path),
                filter.since.into(),
                filter.until.into(),
                key.clone(),
                page(left),
            ];
            found.extend(self.read(sql, values, read_row).await?);
        }
        Ok(found)
    }

    /// Where events that the filter lets pass may lie, in the order of the search.
    pub(crate) async fn stretches(&self, filter: &EventFilter) -> Result<Vec<Stretch>> {
        let after = filter.after_sequence.unwrap_or(0);
        if filter.since.is_none() && filter.until.is_none() {
            return Ok(vec![Stretch { after, up_to: i64::MAX }]);
        }
        let since = filter.since.unwrap_or(Timestamp(i64::MIN));
        let until = filter.until.unwrap_or(Timestamp(i64::MAX));
        let found = self.read(STRETCH, vec![since.into(), until.into()], |row| {
            Ok((row.maybe_int(0)?, row.maybe_int(1)?, row.int(2)?))
        });
        let Some((first, last, known)) = found.await?.pop() else { return Ok(Vec::new()) };
        let mut stretches = Vec::with_capacity(2);
        if let (Some(first), Some(last)) = (first, last) {
            stretches.push(Stretch { after: after.max(first - 1), up_to: last });
        }
        stretches.push(Stretch { after: after.max(known), up_to: i64::MAX });
        if filter.newest_first {
            stretches.reverse();
        }
        Ok(stretches)
    }

    /// Forgets when events happened that are all deleted.
    pub async fn forget_event_times(&self) -> Result<()> {
        self.execute(FORGET_STRETCHES, Vec::new()).await.map(drop)
    }

    /// Events that `node` wrote with a change of configuration and that are not yet in the chain
    /// of its journal, oldest first. The node appends them there; the projection (or
    /// [`Db::mark_sealed`]) then marks them.
    pub async fn unsealed_events(&self, node: &Name) -> Result<Vec<Event>> {
        self.read(UNSEALED, vec![node.into()], |row| row.json(0)).await
    }

    /// Notes that these events stand in the journal of their node.
    pub async fn mark_sealed(&self, ids: &[EventId]) -> Result<()> {
        let mut work = self.work(crate::Purpose::Other).await?;
        work.each(SEAL, ids.iter().map(|id| id.0.into()).collect()).await?;
        work.commit().await
    }
}

impl Tx {
    /// Writes an event that is not yet in the chain of its node's journal: see
    /// [`Db::unsealed_events`].
    pub async fn insert_event(&mut self, event: &Event) -> Result<()> {
        let mut row = Vec::with_capacity(PROJECT.width);
        push_row(event, None, &mut row)?;
        self.work.lock_events().await?;
        self.work.execute(INSERT_UNSEALED, row).await.map(drop)
    }
}
