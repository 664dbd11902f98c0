//! Writes facts into the journal as [`Event`]s, with the node, time and id filled in.

use entrepot_nouns::event::{Event, Fact};
use entrepot_nouns::{Env, EventId, JobId, Name, SessionId, SiteId};

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
}

impl Recorder {
    /// Events of `node`, with the clock and ids of `env`.
    pub fn new(journal: Journal, env: Env, node: Name) -> Self {
        Recorder { journal, env, node }
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

    /// Makes an event, and records nothing.
    pub fn event(&self, scope: &Scope, fact: Fact) -> Event {
        Event {
            id: self.env.new_id(),
            at: self.env.now(),
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
