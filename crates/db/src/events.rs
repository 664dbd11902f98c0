//! The audit log.

use entrepot_nouns::event::VersionFact;
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
    /// Only those earlier in the table than this sequence.
    pub before_sequence: Option<i64>,
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
            before_sequence: None,
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

/// What one page of a search found, and where the next one goes on.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EventPage {
    /// The events, in the order that was asked for; perhaps fewer than the limit, or none, though
    /// there are more.
    pub rows: Vec<EventRow>,
    /// The sequence to go on from, as [`EventFilter::after_sequence`], or newest first as
    /// [`EventFilter::before_sequence`]. `None`: everything was searched.
    pub next: Option<i64>,
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
            "AND (CAST($9 AS UUID) IS NULL OR session = $9) ",
            "AND (CAST($10 AS UUID) IS NULL OR job = $10) ",
            $lead,
            " ORDER BY sequence ",
            $order,
            " LIMIT $12",
        )
    };
}

/// The row at which a page ends because enough rows were looked at.
macro_rules! bound {
    ($lead:literal, $order:literal) => {
        sql!(
            "SELECT sequence FROM events WHERE site = $1 AND sequence > $2 AND sequence <= $3 ",
            $lead,
            " ORDER BY sequence ",
            $order,
            " LIMIT 1 OFFSET $5",
        )
    };
}

statements! {
    BY_TRANSFER = search!("AND transfer = $11", "");
    BY_TRANSFER_NEWEST = search!("AND transfer = $11", "DESC");
    BY_SESSION = search!("AND session = $11", "");
    BY_SESSION_NEWEST = search!("AND session = $11", "DESC");
    BY_JOB = search!("AND job = $11", "");
    BY_JOB_NEWEST = search!("AND job = $11", "DESC");
    BY_ACCOUNT = search!("AND account = $11", "");
    BY_ACCOUNT_NEWEST = search!("AND account = $11", "DESC");
    BY_KIND = search!("AND kind = $11", "");
    BY_KIND_NEWEST = search!("AND kind = $11", "DESC");
    BY_SITE = search!("AND CAST($11 AS TEXT) IS NULL", "");
    BY_SITE_NEWEST = search!("AND CAST($11 AS TEXT) IS NULL", "DESC");
    END_BY_TRANSFER = bound!("AND transfer = $4", "");
    END_BY_TRANSFER_NEWEST = bound!("AND transfer = $4", "DESC");
    END_BY_SESSION = bound!("AND session = $4", "");
    END_BY_SESSION_NEWEST = bound!("AND session = $4", "DESC");
    END_BY_JOB = bound!("AND job = $4", "");
    END_BY_JOB_NEWEST = bound!("AND job = $4", "DESC");
    END_BY_ACCOUNT = bound!("AND account = $4", "");
    END_BY_ACCOUNT_NEWEST = bound!("AND account = $4", "DESC");
    END_BY_KIND = bound!("AND kind = $4", "");
    END_BY_KIND_NEWEST = bound!("AND kind = $4", "DESC");
    END_BY_SITE = bound!("AND CAST($4 AS TEXT) IS NULL", "");
    END_BY_SITE_NEWEST = bound!("AND CAST($4 AS TEXT) IS NULL", "DESC");
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
    BY_ID = sql!("SELECT sequence, body FROM events WHERE id = $1");
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

/// Appends the twelve values of an event's row; `body` is its JSON.
pub(crate) fn push_row(event: &Event, sequence: Option<u64>, body: String, row: &mut Vec<Value>) {
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
        Value::text(body),
    ]);
}

/// What a search by path looks through.
fn path(fact: &Fact) -> Option<String> {
    Some(event_paths(fact).join("\n")).filter(|paths| !paths.is_empty())
}

/// The paths that an event is about, as a search by path finds them; both names of a renamed file.
pub fn event_paths(fact: &Fact) -> Vec<&str> {
    match fact {
        Fact::FileRenamed { from, to, .. } | Fact::FileLinked { from, to, .. } => vec![from, to],
        Fact::LinkCreated { path, target } => vec![path, target],
        Fact::FileRemoved { path }
        | Fact::FileTrashed { path, .. }
        | Fact::FileVersioned { version: VersionFact { path, .. } }
        | Fact::FileRestored { path, .. }
        | Fact::FilePurged { path, .. }
        | Fact::WatchFound { path, .. }
        | Fact::WatchGone { path, .. }
        | Fact::ModeChanged { path, .. }
        | Fact::DirectoryCreated { path }
        | Fact::DirectoryRemoved { path } => vec![path],
        other => other.file().map(|file| file.path.as_str()).into_iter().collect(),
    }
}

/// A search by the index that fits a filter best.
struct Search {
    find: Sql,
    /// Finds where a page ends.
    end: Sql,
    /// What the index is asked for.
    key: Value,
    /// The index answers one condition of the filter.
    conditions_answered: usize,
}

impl Search {
    fn of(filter: &EventFilter) -> Search {
        let newest = filter.newest_first;
        let choose = |oldest: [Sql; 2], newest_first: [Sql; 2], key: Value| {
            let [find, end] = if newest { newest_first } else { oldest };
            Search { find, end, key, conditions_answered: 1 }
        };
        if let Some(id) = filter.transfer {
            let newest = [BY_TRANSFER_NEWEST, END_BY_TRANSFER_NEWEST];
            return choose([BY_TRANSFER, END_BY_TRANSFER], newest, id.0.into());
        }
        if let Some(id) = filter.job {
            let newest = [BY_JOB_NEWEST, END_BY_JOB_NEWEST];
            return choose([BY_JOB, END_BY_JOB], newest, id.0.into());
        }
        if let Some(id) = filter.session {
            let newest = [BY_SESSION_NEWEST, END_BY_SESSION_NEWEST];
            return choose([BY_SESSION, END_BY_SESSION], newest, id.0.into());
        }
        if let Some(account) = &filter.account {
            let newest = [BY_ACCOUNT_NEWEST, END_BY_ACCOUNT_NEWEST];
            return choose([BY_ACCOUNT, END_BY_ACCOUNT], newest, account.into());
        }
        if let [kind] = &*filter.kinds {
            let newest = [BY_KIND_NEWEST, END_BY_KIND_NEWEST];
            return choose([BY_KIND, END_BY_KIND], newest, Value::text(kind));
        }
        let newest = [BY_SITE_NEWEST, END_BY_SITE_NEWEST];
        let all = choose([BY_SITE, END_BY_SITE], newest, Value::Text(None));
        Search { conditions_answered: 0, ..all }
    }

    /// True if rows are looked at that the filter then leaves out.
    fn looks_further(&self, filter: &EventFilter) -> bool {
        let conditions = [
            !filter.kinds.is_empty(),
            filter.account.is_some(),
            filter.path_contains.is_some(),
            filter.session.is_some(),
            filter.transfer.is_some(),
            filter.job.is_some(),
            filter.since.is_some() || filter.until.is_some(),
        ];
        conditions.iter().filter(|asked| **asked).count() > self.conditions_answered
    }
}

fn read_row(row: &Row<'_>) -> Result<EventRow> {
    Ok(EventRow { sequence: row.int(0)?, event: row.json(1)? })
}

impl Db {
    /// The event of this id, whichever site it belongs to.
    pub async fn event(&self, id: EventId) -> Result<Option<EventRow>> {
        Ok(self.read(BY_ID, vec![id.0.into()], read_row).await?.pop())
    }

    /// Events of a site that match: of as many pages as that takes.
    pub async fn events(&self, site: SiteId, filter: &EventFilter) -> Result<Vec<EventRow>> {
        let mut filter =
            EventFilter { limit: filter.limit.min(limits::PAGE_ROWS), ..filter.clone() };
        let mut found: Vec<EventRow> = Vec::new();
        loop {
            let page = self.event_page(site, &filter).await?;
            let rows = u32::try_from(page.rows.len()).unwrap_or(u32::MAX);
            filter.limit = filter.limit.saturating_sub(rows);
            found.extend(page.rows);
            let Some(next) = page.next.filter(|_| filter.limit > 0) else { return Ok(found) };
            if filter.newest_first {
                filter.before_sequence = Some(next);
            } else {
                filter.after_sequence = Some(next);
            }
        }
    }

    /// A page of the events of a site that match. However rare they are, no page looks at more
    /// than twice [`limits::SEARCHED_ROWS`] rows, so that none takes long.
    pub async fn event_page(&self, site: SiteId, filter: &EventFilter) -> Result<EventPage> {
        let search = Search::of(filter);
        let looks_further = search.looks_further(filter);
        let wanted = filter.limit.min(limits::PAGE_ROWS);
        let mut page = EventPage::default();
        if wanted == 0 {
            return Ok(page);
        }
        for whole in self.stretches(filter).await? {
            let end = if looks_further { self.page_end(site, &search, whole).await? } else { None };
            let stretch = match end {
                Some(end) if filter.newest_first => Stretch { after: end - 1, ..whole },
                Some(end) => Stretch { up_to: end, ..whole },
                None => whole,
            };
            let found = u32::try_from(page.rows.len()).unwrap_or(u32::MAX);
            let left = wanted.saturating_sub(found);
            let rows = self.search(site, filter, &search, stretch, left).await?;
            let is_full = rows.len() >= left as usize;
            page.rows.extend(rows);
            page.next = if is_full { page.rows.last().map(|row| row.sequence) } else { end };
            if page.next.is_some() {
                break;
            }
        }
        Ok(page)
    }

    /// The sequence at which a page over these rows ends; `None`: it may look at all of them.
    async fn page_end(
        &self,
        site: SiteId,
        search: &Search,
        stretch: Stretch,
    ) -> Result<Option<i64>> {
        let rows = i64::from(limits::SEARCHED_ROWS);
        let (after, up_to) = (stretch.after.into(), stretch.up_to.into());
        let values = vec![site.0.into(), after, up_to, search.key.clone(), rows.into()];
        Ok(self.read(search.end, values, |row| row.int(0)).await?.pop())
    }

    async fn search(
        &self,
        site: SiteId,
        filter: &EventFilter,
        search: &Search,
        stretch: Stretch,
        limit: u32,
    ) -> Result<Vec<EventRow>> {
        let kinds = match &*filter.kinds {
            [] => Value::Text(None),
            kinds => Value::text(format!(",{},", kinds.join(","))),
        };
        let path = filter.path_contains.as_deref().filter(|text| !text.is_empty());
        let values = vec![
            site.0.into(),
            stretch.after.into(),
            stretch.up_to.into(),
            kinds,
            name_filter(filter.account.as_ref()),
            Value::maybe_text(path),
            filter.since.into(),
            filter.until.into(),
            filter.session.map(|id| id.0).into(),
            filter.job.map(|id| id.0).into(),
            search.key.clone(),
            page(limit),
        ];
        self.read(search.find, values, read_row).await
    }

    /// Where events that the filter lets pass may lie, in the order of the search.
    pub(crate) async fn stretches(&self, filter: &EventFilter) -> Result<Vec<Stretch>> {
        let after = filter.after_sequence.unwrap_or(0);
        let up_to = filter.before_sequence.map_or(i64::MAX, |before| before.saturating_sub(1));
        if filter.since.is_none() && filter.until.is_none() {
            return Ok(vec![Stretch { after, up_to }]);
        }
        let since = filter.since.unwrap_or(Timestamp(i64::MIN));
        let until = filter.until.unwrap_or(Timestamp(i64::MAX));
        let found = self.read(STRETCH, vec![since.into(), until.into()], |row| {
            Ok((row.maybe_int(0)?, row.maybe_int(1)?, row.int(2)?))
        });
        let Some((first, last, known)) = found.await?.pop() else { return Ok(Vec::new()) };
        let mut stretches = Vec::with_capacity(2);
        if let (Some(first), Some(last)) = (first, last) {
            stretches.push(Stretch { after: after.max(first - 1), up_to: up_to.min(last) });
        }
        stretches.push(Stretch { after: after.max(known), up_to });
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
        push_row(event, None, to_json(event)?, &mut row);
        self.lock_events().await?;
        self.work.execute(INSERT_UNSEALED, row).await.map(drop)
    }
}
