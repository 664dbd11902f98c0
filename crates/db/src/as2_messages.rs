//! Messages of AS2 by their ids: each is published once, by whichever node it came to.
//!
//! A node claims the id before it publishes the message. The claim ends when the event of the
//! message is projected, or is given back when nothing was published. Nobody takes a claim of
//! another node: while that node is away, it alone knows whether it has published.

use std::collections::HashSet;

use entrepot_nouns::event::As2Message;
use entrepot_nouns::{Event, EventId, Fact, NodeId, SiteId, Timestamp};
use uuid::Uuid;

use crate::error::Result;
use crate::sql::{Row, Sql, Value, sql, statements};
use crate::tx::Batch;
use crate::{Db, limits};

statements! {
    CLAIM = sql!(
        "INSERT INTO as2_messages ",
        "(site, sender, receiver, message_id, node, start_id, claimed_at) ",
        "VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT DO NOTHING",
    );
    FIND = sql!(
        "SELECT node, start_id, event_id FROM as2_messages ",
        "WHERE site = $1 AND sender = $2 AND receiver = $3 AND message_id = $4",
    );
    GIVE_BACK = sql!(
        "DELETE FROM as2_messages WHERE site = $1 AND sender = $2 AND receiver = $3 ",
        "AND message_id = $4 AND start_id = $5 AND event_id IS NULL",
    );
    END_EARLIER = sql!(
        "DELETE FROM as2_messages WHERE node = $1 AND start_id <> $2 AND event_id IS NULL",
    );
    FORGET_NODE = sql!("DELETE FROM as2_messages WHERE node = $1 AND event_id IS NULL");
    FORGET = sql!(
        "DELETE FROM as2_messages WHERE claimed_at < $1 AND event_id IS NOT NULL",
    );
    RECEIVED_SQLITE = sql!(
        "INSERT INTO as2_messages ",
        "(site, sender, receiver, message_id, node, start_id, claimed_at, event_id) ",
        "VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ",
        "ON CONFLICT (site, sender, receiver, message_id) DO UPDATE SET ",
        "event_id = excluded.event_id WHERE as2_messages.event_id IS NULL",
    );
}

/// As `RECEIVED_SQLITE`, an array a column.
pub(crate) const RECEIVED_POSTGRES: Sql = sql!(
    "INSERT INTO as2_messages ",
    "(site, sender, receiver, message_id, node, start_id, claimed_at, event_id) ",
    "SELECT * FROM UNNEST($1::UUID[], $2::TEXT[], $3::TEXT[], $4::TEXT[], $5::UUID[], ",
    "$6::UUID[], $7::BIGINT[], $8::UUID[]) ",
    "ON CONFLICT (site, sender, receiver, message_id) DO UPDATE SET ",
    "event_id = excluded.event_id WHERE as2_messages.event_id IS NULL",
);
/// Messages whose events are among the events from now on.
pub(crate) const RECEIVED: Batch =
    Batch { sqlite: RECEIVED_SQLITE, postgres: RECEIVED_POSTGRES, width: 8 };
/// The claims of a node that is taken off the list.
pub(crate) const FORGET_CLAIMS: Sql = FORGET_NODE;

/// A message of AS2 as its sender names it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct As2MessageKey {
    /// The site that received it.
    pub site: SiteId,
    /// `AS2-From` of the message.
    pub sender: String,
    /// `AS2-To` of the message.
    pub receiver: String,
    /// `Message-ID`, as it came.
    pub message_id: String,
}

impl As2MessageKey {
    /// Of a message that came to a site.
    pub fn of(site: SiteId, message: &As2Message) -> As2MessageKey {
        As2MessageKey {
            site,
            sender: message.from.clone(),
            receiver: message.to.clone(),
            message_id: message.message_id.clone(),
        }
    }

    fn values(&self) -> Vec<Value> {
        let Self { site, sender, receiver, message_id } = self;
        vec![site.0.into(), Value::text(sender), Value::text(receiver), Value::text(message_id)]
    }
}

/// Who publishes a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct As2Publisher {
    /// Which node it is.
    pub node: NodeId,
    /// One start of its process.
    pub start: Uuid,
}

/// How the id of a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum As2Claim {
    /// It was free, and is ours now.
    Ours,
    /// The message was received: this event says so.
    Received(EventId),
    /// It is claimed by this publisher, which may have published it.
    Claimed(As2Publisher),
}

impl Db {
    /// Claims the id of a message.
    ///
    /// # Errors
    /// As everywhere; then it may be claimed or not.
    pub async fn claim_as2_message(
        &self,
        key: &As2MessageKey,
        by: As2Publisher,
        now: Timestamp,
    ) -> Result<As2Claim> {
        let mut values = key.values();
        values.extend([by.node.0.into(), by.start.into(), now.into()]);
        for _ in 0..limits::CLAIM_TRIES {
            if self.execute(CLAIM, values.clone()).await? > 0 {
                return Ok(As2Claim::Ours);
            }
            let read = |row: &Row<'_>| {
                let publisher = As2Publisher { node: NodeId(row.id(0)?), start: row.id(1)? };
                Ok((publisher, row.maybe_id(2)?))
            };
            let found = self.read(FIND, key.values(), read).await?.pop();
            match found {
                Some((_, Some(event))) => return Ok(As2Claim::Received(EventId(event))),
                Some((publisher, None)) => return Ok(As2Claim::Claimed(publisher)),
                // It was given back between the two.
                None => {}
            }
        }
        // Others claim it and give it back all the time: one of them has it.
        Ok(As2Claim::Claimed(by))
    }

    /// Gives the id of a message back, for nothing was published.
    ///
    /// # Errors
    /// As everywhere; giving it back twice changes nothing.
    pub async fn give_back_as2_message(&self, key: &As2MessageKey, start: Uuid) -> Result<()> {
        let mut values = key.values();
        values.push(start.into());
        self.execute(GIVE_BACK, values).await.map(drop)
    }

    /// Gives back what earlier starts of a node have claimed: to be called when all that they have
    /// recorded is projected.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn end_earlier_as2_claims(&self, by: As2Publisher) -> Result<u64> {
        self.execute(END_EARLIER, vec![by.node.0.into(), by.start.into()]).await
    }

    /// Forgets messages that were claimed before `before` and received: their ids count as new.
    ///
    /// # Errors
    /// As everywhere.
    pub async fn forget_as2_messages(&self, before: Timestamp) -> Result<u64> {
        self.execute(FORGET, vec![before.into()]).await
    }
}

/// What [`RECEIVED`] is to be run for.
pub(crate) fn received(node: NodeId, events: &[(u64, Event)]) -> Vec<Value> {
    let (mut values, mut seen) = (Vec::new(), HashSet::new());
    for (_, event) in events {
        let (Fact::FileUploaded { .. } | Fact::FileRecovered { .. } | Fact::FileHeld { .. }) =
            &event.fact
        else {
            continue;
        };
        let Some(message) = event.fact.file().and_then(|file| file.as2.as_deref()) else {
            continue;
        };
        let key = As2MessageKey::of(event.site, message);
        // A message that is held, then released, has two events: the first one counts.
        if !seen.insert(key.clone()) {
            continue;
        }
        values.extend(key.values());
        values.extend([node.0.into(), node.0.into(), event.at.into(), event.id.0.into()]);
    }
    values
}
