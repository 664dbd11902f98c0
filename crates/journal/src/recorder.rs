//! Writes facts into the journal as [`Event`]s, with the node, time and id filled in.

use std::sync::Arc;

use entrepot_nouns::event::{Event, EventClock, Fact};
use entrepot_nouns::{Env, EventId, JobId, Name, NodeId, SessionId, SiteId};
use parking_lot::Mutex;

use crate::error::{JournalError, Result};
use crate::format::RecordKind;
use crate::journal::Journal;

/// What a fact belongs to: the fields of an [`Event`] that do not depend on the fact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scope {
    /// The site that owns what happened.
    pub site: SiteId,
    /// The account that acted; `None` for the server itself.
    pub account: Option<Name>,
    /// The session in which it happened.
    pub session: Option<SessionId>,
    /// The job in which it happened.
    pub job: Option<JobId>,
    /// The event that a rule reacted to.
    pub cause: Option<EventId>,
    /// Length of the chain of causes, which limits loops of rules.
    pub depth: u8,
}

impl Scope {
    /// A fact of the site as a whole.
    pub fn site(site: SiteId) -> Self {
        Scope { site, account: None, session: None, job: None, cause: None, depth: 0 }
    }
}

/// Writes events into the node's journal. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    journal: Journal,
    env: Env,
    node: Name,
    clock: Arc<Mutex<HybridClock>>,
}

/// Gives each event of the node its place among those of all nodes.
#[derive(Debug, Default)]
struct HybridClock {
    slot: Option<u32>,
    /// How far the node's clock is ahead of the database's, microseconds.
    ahead_us: i64,
    /// The last millisecond that was given, and how often.
    last: (i64, u32),
}

impl HybridClock {
    fn next(&mut self, now_us: i64) -> Option<EventClock> {
        let slot = self.slot?;
        let ms = now_us.saturating_sub(self.ahead_us).div_euclid(1000);
        let (last_ms, last_counter) = self.last;
        // It never goes back, whatever the clock does.
        self.last = if ms > last_ms { (ms, 0) } else { (last_ms, last_counter.saturating_add(1)) };
        Some(EventClock { ms: self.last.0, counter: self.last.1, slot })
    }
}

impl Recorder {
    /// Events of `node`, with the clock and ids of `env`.
    pub fn new(journal: Journal, env: Env, node: Name) -> Self {
        Recorder { journal, env, node, clock: Arc::default() }
    }

    /// Clock, ids and randomness.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// The journal that the events go to.
    pub fn journal(&self) -> &Journal {
        &self.journal
    }

    /// The node that the events are recorded for.
    pub fn node(&self) -> &Name {
        &self.node
    }

    /// The node as its journal and the database know it, whatever it is called.
    pub fn node_id(&self) -> NodeId {
        self.journal.node_id()
    }

    /// From now on events carry the node's slot.
    pub fn set_slot(&self, slot: u32) {
        self.clock.lock().slot = Some(slot);
    }

    /// The node's clock is so far ahead of the database's, in microseconds; negative: behind.
    pub fn set_clock_ahead(&self, ahead_us: i64) {
        self.clock.lock().ahead_us = ahead_us;
    }

    /// Makes an event, and records nothing.
    pub fn event(&self, scope: &Scope, fact: Fact) -> Event {
        let at = self.env.now();
        Event {
            id: self.env.new_id(),
            at,
            clock: self.clock.lock().next(at.micros()),
            site: scope.site,
            node: self.node.clone(),
            account: scope.account.clone(),
            session: scope.session,
            job: scope.job,
            cause: scope.cause,
            depth: scope.depth,
            fact,
        }
    }

    /// Records a fact; durable with the next sync.
    ///
    /// # Errors
    /// As [`Journal::append`].
    pub fn record(&self, scope: &Scope, fact: Fact) -> Result<Event> {
        let event = self.event(scope, fact);
        self.journal.append(RecordKind::Event, &encode(&event)?)?;
        Ok(event)
    }

    /// Records a fact and returns when it is on stable storage.
    ///
    /// # Errors
    /// As [`Journal::append_durable`].
    pub async fn record_durable(&self, scope: &Scope, fact: Fact) -> Result<Event> {
        let event = self.event(scope, fact);
        self.seal(&event).await?;
        Ok(event)
    }

    /// Records an event that was made, and perhaps stored, before; returns when it is on stable
    /// storage.
    ///
    /// # Errors
    /// As [`Journal::append_durable`].
    pub async fn seal(&self, event: &Event) -> Result<u64> {
        self.journal.append_durable(RecordKind::Event, &encode(event)?).await
    }
}

fn encode(event: &Event) -> Result<Vec<u8>> {
    serde_json::to_vec(event).map_err(|error| JournalError::Io {
        action: "encode",
        file: format!("event {}", event.id),
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_events_grows_whatever_the_clock_of_the_machine_does() {
        let mut clock = HybridClock::default();
        assert_eq!(clock.next(5_000), None, "no slot yet");
        clock.slot = Some(2);
        let mut last = None;
        // Two in a millisecond, a clock that is set back, a correction, and time that goes on.
        for (now_us, ahead_us, wanted) in [
            (5_000, 0, "5.0.2"),
            (5_900, 0, "5.1.2"),
            (1_000, 0, "5.2.2"),
            (9_000, 5_000, "5.3.2"),
            (9_000, 2_000, "7.0.2"),
            (9_000, -1_000, "10.0.2"),
        ] {
            clock.ahead_us = ahead_us;
            let next = clock.next(now_us);
            assert!(next > last, "{next:?} after {last:?}");
            assert_eq!(next.unwrap().to_string(), wanted);
            last = next;
        }
    }
}
