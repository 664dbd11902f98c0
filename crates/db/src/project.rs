//! The projection of a node's journal into the database.

use std::collections::HashSet;

use entrepot_nouns::{Event, Job, Name};

use crate::error::Result;
use crate::sql::Value;
use crate::transfers::Changes;
use crate::{Db, Purpose, events, jobs, nodes, transfers};

/// A piece of a node's journal.
#[derive(Clone, Copy, Debug)]
pub struct Projection<'a> {
    /// The node whose journal it is; its cursor moves to `up_to`.
    pub node: &'a Name,
    /// The last sequence that this piece covers, events or not.
    pub up_to: u64,
    /// Its events with their journal sequences, in order.
    pub events: &'a [(u64, Event)],
    /// The jobs that rules make of these events.
    pub jobs: &'a [Job],
}

impl Db {
    /// Takes a piece of a journal over, in one transaction that is durable when this returns:
    /// events, the transfers they tell of, jobs, and how far the node has come.
    ///
    /// Exactly once: an event, a transfer's fact or a job that is there already changes nothing,
    /// so that a piece may be repeated, overlap another, or come after a lost answer.
    ///
    /// # Errors
    /// As everywhere; nothing of the piece is kept then, but see [`crate::DbError`].
    pub async fn project(&self, piece: &Projection<'_>) -> Result<()> {
        let mut seen = HashSet::with_capacity(piece.events.len());
        let mut changes = Changes::default();
        let mut rows = Vec::with_capacity(piece.events.len() * events::PROJECT.width);
        for (sequence, event) in piece.events {
            if seen.insert(event.id) {
                events::push_row(event, Some(*sequence), &mut rows)?;
                changes.add(event);
            }
        }
        let job_rows = jobs::rows(piece.jobs)?;
        let mut work = self.work(Purpose::Events).await?;
        work.each(events::PROJECT, rows).await?;
        work.each(transfers::UPSERT, changes.rows()).await?;
        work.each(jobs::INSERT, job_rows).await?;
        let cursor = vec![piece.node.into(), Value::unsigned(piece.up_to)];
        work.execute(nodes::ADVANCE, cursor).await?;
        work.commit().await
    }

    /// The last journal sequence of `node` that is in the database; 0 before the first.
    pub async fn projected_up_to(&self, node: &Name) -> Result<u64> {
        let found = self.read(nodes::CURSOR, vec![node.into()], |row| row.unsigned(0)).await?;
        Ok(found.into_iter().next().unwrap_or(0))
    }
}
