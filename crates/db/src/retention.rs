//! What is deleted when it is older than a site keeps it, in batches that are small enough for
//! others to write between them, and the signed stubs that stay in its place.

use std::time::Duration;

use entrepot_nouns::{Event, EventId, Name, NodeId, SiteId, Timestamp};

use crate::error::Result;
use crate::moment::{now_postgres, now_sqlite};
use crate::sql::{Row, Sql, Value, sql, statements, to_json};
use crate::{Db, Dialect, Purpose, approvals, as2_log, job_steps, waits};

/// What a stub stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PrunedKind {
    /// Rows of the table of events.
    Events,
    /// Segments of the archive of a journal.
    Archive,
}

impl PrunedKind {
    /// The word in the table and in events.
    pub fn as_str(self) -> &'static str {
        match self {
            PrunedKind::Events => "events",
            PrunedKind::Archive => "archive",
        }
    }
}

/// A signed stub: what stays of records or rows that retention deleted.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredStub {
    /// The node whose journal has the records.
    pub node: NodeId,
    /// What was deleted.
    pub kind: PrunedKind,
    /// The site of the rows; `main` for an archive.
    pub site: SiteId,
    /// The last record before those it is about.
    pub after: u64,
    /// The last record that it is about.
    pub up_to: u64,
    /// When it was signed.
    pub at: Timestamp,
    /// The signed note (C2SP `signed-note`).
    pub note: String,
    /// Of an archive: which of its records are events, as JSON.
    pub numbers: Option<String>,
    /// The event that tells of it, while what it names may not all be deleted.
    pub pending: Option<Event>,
}

/// An event that may be old enough to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldEvent {
    /// Its record in the journal of its node.
    pub node_sequence: u64,
    /// What the jobs that were made of it name.
    pub id: EventId,
    /// When it happened.
    pub at: Timestamp,
    /// The event as JSON.
    pub body: String,
    /// Its transfer is under way, or its upload can still be resumed.
    pub transfer_open: bool,
}

/// Which rows of the table of events are meant.
#[derive(Clone, Copy, Debug)]
pub struct EventRange<'a> {
    /// Of this site.
    pub site: SiteId,
    /// Of this node.
    pub node: &'a Name,
    /// Behind this record of its journal.
    pub after: u64,
    /// Up to this one.
    pub up_to: u64,
}

macro_rules! lease {
    ($now:ident) => {
        sql!(
            "UPDATE retention_lease SET node = $1, until = $2 + ",
            $now!("3"),
            " WHERE only_row = 1 AND (node = $1 OR until < ",
            $now!("3"),
            ")",
        )
    };
}

macro_rules! stubs {
    ($rest:literal) => {
        sql!(
            "SELECT node, what, site, from_record, up_to, at, note, numbers, pending ",
            "FROM retention_stubs ",
            $rest,
        )
    };
}

statements! {
    LEASE_SQLITE = lease!(now_sqlite);
    RELEASE = sql!("UPDATE retention_lease SET until = 0 WHERE node = $1");
    ADD_STUB = sql!(
        "INSERT INTO retention_stubs ",
        "(node, what, site, up_to, from_record, at, note, numbers, pending) ",
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ",
        "ON CONFLICT (node, what, site, up_to) DO NOTHING",
    );
    END_STUB = sql!(
        "UPDATE retention_stubs SET pending = NULL ",
        "WHERE node = $1 AND what = $2 AND site = $3 AND up_to = $4",
    );
    PENDING_STUBS = stubs!("WHERE pending IS NOT NULL AND what = $1 ORDER BY what, at LIMIT $2");
    STUBS_OF_NODE = stubs!("WHERE node = $1 AND what = $2 AND up_to > $3 ORDER BY up_to LIMIT $4");
    PRUNED_UP_TO = sql!(
        "SELECT COALESCE(MAX(up_to), 0) FROM retention_stubs ",
        "WHERE node = $1 AND what = $2 AND site = $3",
    );
    /// The state of a transfer that ended no longer changes; one that nobody resumed for so long
    /// has nothing left to resume.
    OLD_EVENTS = sql!(
        "SELECT events.node_sequence, events.id, events.at, events.body, ",
        "transfers.id IS NOT NULL FROM events LEFT JOIN transfers ",
        "ON transfers.id = events.transfer AND transfers.state IN ('active', 'partial') ",
        "AND transfers.changed_at >= $1 ",
        "WHERE events.node = $2 AND events.node_sequence > $3 AND events.node_sequence <= $4 ",
        "AND events.site = $5 ORDER BY events.node_sequence",
    );
    /// What waits and what runs.
    OPEN_JOBS = sql!(
        "SELECT event_id FROM jobs WHERE claim_at IS NOT NULL AND site = $1 LIMIT $2",
    );
    DELETE_EVENTS = sql!(
        "DELETE FROM events WHERE sequence IN (SELECT sequence FROM events WHERE node = $1 ",
        "AND node_sequence > $2 AND node_sequence <= $3 AND site = $4 ",
        "ORDER BY node_sequence LIMIT $5)",
    );
    DELETE_JOBS = sql!(
        "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs WHERE site = $1 AND claim_at IS NULL ",
        "AND created_at < $2 AND changed_at < $2 ORDER BY created_at LIMIT $3) RETURNING id",
    );
    /// A delivery of a job that is not over is looked up by its transfer.
    DELETE_TRANSFERS = sql!(
        "DELETE FROM transfers WHERE id IN (SELECT id FROM transfers WHERE site = $1 ",
        "AND changed_at < $2 AND (state NOT IN ('active', 'partial') OR changed_at < $3) ",
        "AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = transfers.job ",
        "AND jobs.claim_at IS NOT NULL) ORDER BY changed_at LIMIT $4)",
    );
    COUNT_OLD_JOBS = sql!(
        "SELECT COUNT(*) FROM jobs WHERE site = $1 AND claim_at IS NULL AND created_at < $2 ",
        "AND changed_at < $2",
    );
    COUNT_OLD_TRANSFERS = sql!(
        "SELECT COUNT(*) FROM transfers WHERE site = $1 AND changed_at < $2 ",
        "AND (state NOT IN ('active', 'partial') OR changed_at < $3) ",
        "AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = transfers.job ",
        "AND jobs.claim_at IS NOT NULL)",
    );
    /// Of each hour the last head is kept: it covers what those before it covered.
    THIN_HEADS = sql!(
        "DELETE FROM heads WHERE node = $1 AND size IN (SELECT older.size FROM heads AS older ",
        "WHERE older.node = $1 AND older.size > $2 AND older.at < $3 AND older.at / $4 = ",
        "(SELECT newer.at / $4 FROM heads AS newer WHERE newer.node = $1 ",
        "AND newer.size > older.size ORDER BY newer.size LIMIT 1) ",
        "ORDER BY older.size LIMIT $5)",
    );
}

/// As `LEASE_SQLITE`, by the server's clock.
pub(crate) const LEASE_POSTGRES: Sql = lease!(now_postgres);

fn read_stub(row: &Row<'_>) -> Result<StoredStub> {
    let kind = match row.text(1)?.as_str() {
        "archive" => PrunedKind::Archive,
        _ => PrunedKind::Events,
    };
    let pending = match row.maybe_text(8)? {
        Some(_) => Some(row.json(8)?),
        None => None,
    };
    Ok(StoredStub {
        node: NodeId(row.id(0)?),
        kind,
        site: SiteId(row.id(2)?),
        after: row.unsigned(3)?,
        up_to: row.unsigned(4)?,
        at: row.time(5)?,
        note: row.text(6)?,
        numbers: row.maybe_text(7)?,
        pending,
    })
}

fn read_old_event(row: &Row<'_>) -> Result<OldEvent> {
    Ok(OldEvent {
        node_sequence: row.unsigned(0)?,
        id: EventId(row.id(1)?),
        at: row.time(2)?,
        body: row.text(3)?,
        transfer_open: row.bool(4)?,
    })
}

impl Db {
    /// Makes `node` the one that deletes, for `time` from now on; false if another one is.
    pub async fn lease_retention(&self, node: NodeId, time: Duration) -> Result<bool> {
        let sql = match self.dialect() {
            Dialect::Sqlite => LEASE_SQLITE,
            Dialect::Postgres => LEASE_POSTGRES,
        };
        let time = i64::try_from(time.as_micros()).unwrap_or(i64::MAX);
        let values = vec![node.0.into(), time.into(), self.clock()];
        Ok(self.execute(sql, values).await? > 0)
    }

    /// Lets another node delete.
    pub async fn release_retention(&self, node: NodeId) -> Result<()> {
        self.execute(RELEASE, vec![node.0.into()]).await.map(drop)
    }

    /// Keeps a stub. One that is there already stays.
    pub async fn insert_stub(&self, stub: &StoredStub) -> Result<()> {
        let pending = stub.pending.as_ref().map(to_json).transpose()?;
        let values = vec![
            stub.node.0.into(),
            stub.kind.as_str().into(),
            stub.site.0.into(),
            Value::unsigned(stub.up_to),
            Value::unsigned(stub.after),
            stub.at.into(),
            Value::text(&stub.note),
            Value::maybe_text(stub.numbers.as_deref()),
            Value::maybe_text(pending),
        ];
        self.execute(ADD_STUB, values).await.map(drop)
    }

    /// Notes that all that a stub names is deleted.
    pub async fn end_stub(&self, stub: &StoredStub) -> Result<()> {
        let (node, what) = (stub.node.0.into(), stub.kind.as_str().into());
        let values = vec![node, what, stub.site.0.into(), Value::unsigned(stub.up_to)];
        self.execute(END_STUB, values).await.map(drop)
    }

    /// Stubs of a kind whose deletion has not ended, the oldest first.
    pub async fn pending_stubs(&self, kind: PrunedKind, limit: u32) -> Result<Vec<StoredStub>> {
        self.read(PENDING_STUBS, vec![kind.as_str().into(), crate::page(limit)], read_stub).await
    }

    /// Stubs about the journal of a node that reach behind the record `after`, in the order of
    /// their last records.
    pub async fn stubs_after(
        &self,
        node: NodeId,
        kind: PrunedKind,
        after: u64,
        limit: u32,
    ) -> Result<Vec<StoredStub>> {
        let what = kind.as_str().into();
        let values = vec![node.0.into(), what, Value::unsigned(after), crate::page(limit)];
        self.read(STUBS_OF_NODE, values, read_stub).await
    }

    /// The last record that a stub of this node, kind and site is about; 0 if there is none.
    pub async fn pruned_up_to(&self, node: NodeId, kind: PrunedKind, site: SiteId) -> Result<u64> {
        let values = vec![node.0.into(), kind.as_str().into(), site.0.into()];
        let found = self.read(PRUNED_UP_TO, values, |row| row.unsigned(0)).await?;
        Ok(found.into_iter().next().unwrap_or(0))
    }

    /// Events of a range, in the order of the journal. A transfer that is not over counts as open
    /// if its state changed at or after `open_since`.
    pub async fn old_events(
        &self,
        range: EventRange<'_>,
        open_since: Timestamp,
    ) -> Result<Vec<OldEvent>> {
        let values = vec![
            open_since.into(),
            range.node.into(),
            Value::unsigned(range.after),
            Value::unsigned(range.up_to),
            range.site.0.into(),
        ];
        self.read(OLD_EVENTS, values, read_old_event).await
    }

    /// The events that ready and running jobs of a site work on; at most `limit`.
    pub async fn events_of_open_jobs(&self, site: SiteId, limit: u32) -> Result<Vec<EventId>> {
        let values = vec![site.0.into(), crate::page(limit)];
        self.read(OPEN_JOBS, values, |row| Ok(EventId(row.id(0)?))).await
    }

    /// Deletes the first events of a range, at most `limit`; says how many.
    pub async fn delete_events(&self, range: EventRange<'_>, limit: u32) -> Result<u64> {
        let values = vec![
            range.node.into(),
            Value::unsigned(range.after),
            Value::unsigned(range.up_to),
            range.site.0.into(),
            crate::page(limit),
        ];
        let mut work = self.work(Purpose::Other).await?;
        work.execute(as2_log::PRUNE, values.clone()).await?;
        let deleted = work.execute(DELETE_EVENTS, values).await?;
        work.commit().await?;
        Ok(deleted)
    }

    /// How many jobs of a site have ended before `before`.
    pub async fn old_jobs(&self, site: SiteId, before: Timestamp) -> Result<u64> {
        let values = vec![site.0.into(), before.into()];
        let found = self.read(COUNT_OLD_JOBS, values, |row| row.unsigned(0)).await?;
        Ok(found.into_iter().next().unwrap_or(0))
    }

    /// Deletes jobs of a site that have ended before `before`, with what is remembered of their
    /// steps; at most `limit`, and says how many.
    pub async fn delete_jobs(&self, site: SiteId, before: Timestamp, limit: u32) -> Result<u64> {
        let values = vec![site.0.into(), before.into(), crate::page(limit)];
        let mut work = self.work(Purpose::Other).await?;
        let deleted = work.query(DELETE_JOBS, values, |row| row.id(0)).await?;
        let forgotten = [job_steps::FORGET, waits::FORGET].into_iter().chain(approvals::FORGET);
        for forgotten in forgotten {
            work.each(forgotten, deleted.iter().map(|id| (*id).into()).collect()).await?;
        }
        work.commit().await?;
        Ok(deleted.len() as u64)
    }

    /// How many transfers of a site reached their last state before `before`; such as can still be
    /// resumed count if nothing was heard of them since `open_since`.
    pub async fn old_transfers(
        &self,
        site: SiteId,
        before: Timestamp,
        open_since: Timestamp,
    ) -> Result<u64> {
        let values = vec![site.0.into(), before.into(), open_since.into()];
        let found = self.read(COUNT_OLD_TRANSFERS, values, |row| row.unsigned(0)).await?;
        Ok(found.into_iter().next().unwrap_or(0))
    }

    /// Deletes transfers that [`Db::old_transfers`] counts, at most `limit`; says how many.
    pub async fn delete_transfers(
        &self,
        site: SiteId,
        before: Timestamp,
        open_since: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        let values = vec![site.0.into(), before.into(), open_since.into(), crate::page(limit)];
        self.execute(DELETE_TRANSFERS, values).await
    }

    /// Deletes heads of `node` that cover more than `after` records, were signed before `before`,
    /// and are not the last of their hour; at most `limit`. Says how many.
    pub async fn thin_heads(
        &self,
        node: NodeId,
        after: u64,
        before: Timestamp,
        limit: u32,
    ) -> Result<u64> {
        const HOUR_US: i64 = 3_600_000_000;
        let after = Value::unsigned(after);
        let values = vec![node.0.into(), after, before.into(), HOUR_US.into(), crate::page(limit)];
        self.execute(THIN_HEADS, values).await
    }
}
