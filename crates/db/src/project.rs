//! The projection of a node's journal into the database.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use entrepot_nouns::{Event, Fact, Job, JobId, JobState, Name, NodeId, Timestamp};

use crate::error::Result;
use crate::expected::{self, Arrival};
use crate::job_steps::{self, RuleDocument};
use crate::sql::{Value, to_json};
use crate::transfers::Changes;
use crate::trash::TrashRows;
use crate::waits::CameKind;
use crate::{
    Db, Dialect, Purpose, as2_log, as2_messages, as2_receipts, events, jobs, limits, nodes,
    schedules, transfers, trash, waits,
};

/// A piece of a node's journal.
#[derive(Clone, Copy, Debug)]
pub struct Projection<'a> {
    /// The node whose journal it is; its cursor moves to `up_to`.
    pub node: NodeId,
    /// What the node is called.
    pub name: &'a Name,
    /// The last sequence before this piece, as far as the node knows in the database.
    pub after: u64,
    /// The last sequence that this piece covers, events or not.
    pub up_to: u64,
    /// Its events with their journal sequences, in order.
    pub events: &'a [(u64, Event)],
    /// The JSON of these events, in their order, as the journal has it. Of those without, it is
    /// made.
    pub bodies: &'a [Option<String>],
    /// The jobs that rules make of these events.
    pub jobs: &'a [Job],
    /// Files that rules expect, of which these events tell.
    pub arrivals: &'a [Arrival],
    /// The documents of the rules that these jobs run.
    pub rules: &'a [RuleDocument],
    /// What the events count as, for jobs that wait for one.
    pub came: &'a HashSet<CameKind>,
    /// The node's clock.
    pub at: Timestamp,
    /// The piece was in the database before it fell back: jobs that its events name have been
    /// worked on, and some have ended.
    pub repeated: bool,
}

impl<'a> Projection<'a> {
    /// The first piece of the journal of a node, with these events and nothing else.
    pub fn of(node: NodeId, name: &'a Name, events: &'a [(u64, Event)]) -> Projection<'a> {
        static NOTHING: LazyLock<HashSet<CameKind>> = LazyLock::new(HashSet::new);
        Projection {
            node,
            name,
            after: 0,
            up_to: events.last().map_or(0, |(sequence, _)| *sequence),
            events,
            bodies: &[],
            jobs: &[],
            arrivals: &[],
            rules: &[],
            came: &NOTHING,
            at: events.last().map_or(Timestamp::default(), |(_, event)| event.at),
            repeated: false,
        }
    }
}

/// What became of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Projected {
    /// It is in the database.
    Kept,
    /// The database has less of the journal than the piece takes for granted: it fell back.
    /// Nothing was written; what it misses begins behind this sequence.
    Behind(u64),
}

impl Db {
    /// Takes a piece of a journal over, in one transaction: events, the transfers they tell of,
    /// what was removed and can be put back, files that rules expect, jobs, and how far the node
    /// has come. On PostgreSQL it is durable when this returns, on SQLite with the next transaction
    /// that is: what a power cut takes away the journal still has, and it is taken over anew.
    ///
    /// Exactly once: an event, a transfer's fact or a job that is there already changes nothing,
    /// so that a piece may be repeated, overlap another, or come after a lost answer. The cursor
    /// is read in the same transaction, so that a database that fell back never skips a record.
    ///
    /// # Errors
    /// As everywhere; nothing of the piece is kept then, but see [`crate::DbError`].
    pub async fn project(&self, piece: &Projection<'_>) -> Result<Projected> {
        let mut seen = HashSet::with_capacity(piece.events.len());
        let mut changes = Changes::default();
        let mut trashed = TrashRows::default();
        let mut rows = Vec::with_capacity(piece.events.len() * events::PROJECT.width);
        let bodies = piece.bodies.iter().map(Option::as_deref).chain(std::iter::repeat(None));
        for ((sequence, event), body) in piece.events.iter().zip(bodies) {
            if seen.insert(event.id) {
                let body = body.map_or_else(|| to_json(event), |body| Ok(body.to_owned()))?;
                events::push_row(event, Some(*sequence), body, &mut rows);
                changes.add(event);
                trashed.add(event)?;
            }
        }
        let job_rows = jobs::rows(piece.jobs)?;
        let lock = match self.dialect() {
            // Its transactions exclude each other.
            Dialect::Sqlite => nodes::CURSOR,
            Dialect::Postgres => nodes::LOCK_CURSOR_POSTGRES,
        };
        let mut work = self.repeatable_work(Purpose::Events).await?;
        let cursor = work.query(lock, vec![piece.node.0.into()], |row| row.unsigned(0)).await?;
        let cursor = cursor.first().copied().unwrap_or(0);
        if cursor < piece.after {
            return Ok(Projected::Behind(cursor));
        }
        // Before the events: those that are there were counted.
        work.each(expected::COUNT, expected::counted(piece.arrivals)).await?;
        work.each(events::PROJECT, rows).await?;
        work.each(transfers::UPSERT, changes.rows()).await?;
        work.each(as2_messages::RECEIVED, as2_messages::received(piece.node, piece.events)).await?;
        work.each(as2_log::PROJECT, as2_log::rows(piece.events)).await?;
        work.each(as2_receipts::QUEUE, as2_receipts::queued(piece.events)).await?;
        work.each(trash::INSERT, trashed.added).await?;
        work.each(trash::DELETE, trashed.deleted).await?;
        if let Some(now) = piece.jobs.iter().map(|job| job.created_at).max() {
            job_steps::keep(&mut work, piece.rules, now).await?;
        }
        work.each(jobs::INSERT, job_rows).await?;
        work.each(schedules::TOLD, schedules::told(piece.events)).await?;
        work.each(waits::TELL, waits::told(piece.came)).await?;
        work.each(waits::WAKE, waits::woken(piece.came, piece.at)).await?;
        if piece.repeated {
            work.each(jobs::REPEAT, repeats(piece.events)).await?;
        }
        work.execute(events::SUMMARIZE, vec![i64::from(limits::STRETCH_ROWS).into()]).await?;
        let cursor = vec![piece.node.0.into(), piece.name.into(), Value::unsigned(piece.up_to)];
        work.execute(nodes::ADVANCE, cursor).await?;
        work.commit().await?;
        Ok(Projected::Kept)
    }

    /// The last journal sequence of `node` that is in the database; 0 before the first.
    pub async fn projected_up_to(&self, node: NodeId) -> Result<u64> {
        let found = self.read(nodes::CURSOR, vec![node.0.into()], |row| row.unsigned(0)).await?;
        Ok(found.into_iter().next().unwrap_or(0))
    }
}

/// What events say of jobs: that they were worked on, and how they stand since.
fn repeats(events: &[(u64, Event)]) -> Vec<Value> {
    let mut last: HashMap<JobId, Option<JobState>> = HashMap::new();
    for (_, event) in events {
        let Some(job) = event.job else { continue };
        let state = match &event.fact {
            Fact::JobDone { .. } => Some(JobState::Done),
            Fact::JobFailed { .. } => Some(JobState::Failed),
            Fact::JobCancelled { .. } => Some(JobState::Cancelled),
            Fact::JobRetried { .. } => Some(JobState::Ready),
            _ => None,
        };
        let known = last.entry(job).or_default();
        *known = state.or(*known);
    }
    let mut rows = Vec::with_capacity(last.len() * jobs::REPEAT.width);
    for (job, state) in last {
        rows.extend([Value::maybe_text(state.map(JobState::as_str)), job.0.into()]);
    }
    rows
}
