//! Signed heads of the journals, and the events of a node in the order of its journal: the copies
//! that a journal is compared with.

use entrepot_nouns::{EventId, Name, NodeId, Sealed, Timestamp};

use crate::Db;
use crate::error::{DbError, Result};
use crate::sql::{Row, Value, sql, statements};
use crate::tx::Tx;

/// A signed head: how a journal was when it had so many records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredHead {
    /// The last record that it covers.
    pub size: u64,
    /// When it was signed.
    pub at: Timestamp,
    /// The signed note (C2SP `tlog-checkpoint`).
    pub note: String,
}

/// The key by which a node signs its heads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeKey {
    /// The public half, as signed notes name it (C2SP `signed-note`).
    pub public: String,
    /// The private half, sealed.
    pub private_sealed: Sealed,
}

/// An event as the table has it, to be compared with the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProjectedEvent {
    /// Its place in the journal of its node.
    pub node_sequence: u64,
    /// Its id, as its column says.
    pub id: EventId,
    /// Its kind, as its column says.
    pub kind: String,
    /// Its account, as its column says.
    pub account: Option<String>,
    /// When it happened, as its column says.
    pub at: Timestamp,
    /// The event as JSON.
    pub body: String,
}

statements! {
    /// A head that is there is not replaced: two heads of one size are either equal or a finding.
    INSERT = sql!(
        "INSERT INTO heads (node, size, at, note) VALUES ($1, $2, $3, $4) ",
        "ON CONFLICT (node, size) DO NOTHING",
    );
    LAST = sql!(
        "SELECT size, at, note FROM heads WHERE node = $1 ORDER BY size DESC LIMIT 1",
    );
    COVERING = sql!(
        "SELECT size, at, note FROM heads WHERE node = $1 AND size >= $2 ORDER BY size LIMIT 1",
    );
    AFTER = sql!(
        "SELECT size, at, note FROM heads WHERE node = $1 AND size > $2 ORDER BY size LIMIT $3",
    );
    EVENTS = sql!(
        "SELECT node_sequence, id, kind, account, at, body FROM events ",
        "WHERE node = $1 AND node_sequence > $2 ORDER BY node_sequence LIMIT $3",
    );
    /// The first key stays: heads are verified by it.
    ADD_KEY = sql!(
        "INSERT INTO node_keys (node, public, private_sealed) VALUES ($1, $2, $3) ",
        "ON CONFLICT (node) DO NOTHING",
    );
    KEY = sql!("SELECT public, private_sealed FROM node_keys WHERE node = $1");
    ALL_KEYS = sql!("SELECT node, public, private_sealed FROM node_keys ORDER BY node");
    RESEAL_KEY = sql!("UPDATE node_keys SET private_sealed = $1 WHERE node = $2");
    KEYS = sql!("SELECT public FROM node_keys ORDER BY public");
    SINK = sql!("SELECT size FROM head_sinks WHERE node = $1 AND sink = $2");
    MOVE_SINK = sql!(
        "INSERT INTO head_sinks (node, sink, size) VALUES ($1, $2, $3) ",
        "ON CONFLICT (node, sink) DO UPDATE SET size = excluded.size",
    );
    PLACE = sql!("SELECT node, node_sequence FROM events WHERE id = $1 AND sealed");
}

fn read_head(row: &Row<'_>) -> Result<StoredHead> {
    Ok(StoredHead { size: row.unsigned(0)?, at: row.time(1)?, note: row.text(2)? })
}

fn read_event(row: &Row<'_>) -> Result<ProjectedEvent> {
    Ok(ProjectedEvent {
        node_sequence: row.unsigned(0)?,
        id: EventId(row.id(1)?),
        kind: row.text(2)?,
        account: row.maybe_text(3)?,
        at: row.time(4)?,
        body: row.text(5)?,
    })
}

impl Db {
    /// The key of a node; `None` before its first start.
    pub async fn node_key(&self, node: NodeId) -> Result<Option<NodeKey>> {
        let found = self.read(KEY, vec![node.0.into()], |row| {
            Ok(NodeKey { public: row.text(0)?, private_sealed: Sealed(row.text(1)?) })
        });
        Ok(found.await?.into_iter().next())
    }

    /// The public keys of all nodes that ever served, as signed notes name them.
    pub async fn node_keys(&self) -> Result<Vec<String>> {
        self.read(KEYS, Vec::new(), |row| row.text(0)).await
    }

    /// Keeps the key of a node that has none yet, and gives the one that it has then.
    pub async fn insert_node_key(&self, node: NodeId, key: &NodeKey) -> Result<Option<NodeKey>> {
        let sealed = Value::text(&key.private_sealed.0);
        let values = vec![node.0.into(), Value::text(&key.public), sealed];
        self.execute(ADD_KEY, values).await?;
        self.node_key(node).await
    }

    /// Keeps a signed head of `node`.
    pub async fn insert_head(&self, node: NodeId, head: &StoredHead) -> Result<()> {
        let values = vec![
            node.0.into(),
            Value::unsigned(head.size),
            head.at.into(),
            Value::text(&head.note),
        ];
        self.execute(INSERT, values).await.map(drop)
    }

    /// The head of `node` that covers most.
    pub async fn last_head(&self, node: NodeId) -> Result<Option<StoredHead>> {
        Ok(self.read(LAST, vec![node.0.into()], read_head).await?.into_iter().next())
    }

    /// The first head of `node` that covers the record `sequence`.
    pub async fn head_covering(&self, node: NodeId, sequence: u64) -> Result<Option<StoredHead>> {
        let values = vec![node.0.into(), Value::unsigned(sequence)];
        Ok(self.read(COVERING, values, read_head).await?.into_iter().next())
    }

    /// Heads of `node` that cover more than `size` records, the shortest first; at most `limit`.
    pub async fn heads_after(
        &self,
        node: NodeId,
        size: u64,
        limit: u32,
    ) -> Result<Vec<StoredHead>> {
        let values = vec![node.0.into(), Value::unsigned(size), crate::page(limit)];
        self.read(AFTER, values, read_head).await
    }

    /// The last head of `node` that a sink has, by the records it covers; 0: none yet.
    pub async fn sink_position(&self, node: NodeId, sink: &str) -> Result<u64> {
        let values = vec![node.0.into(), sink.into()];
        let found = self.read(SINK, values, |row| row.unsigned(0)).await?;
        Ok(found.into_iter().next().unwrap_or(0))
    }

    /// Notes that a sink has the heads of `node` up to this one.
    pub async fn move_sink(&self, node: NodeId, sink: &str, size: u64) -> Result<()> {
        let values = vec![node.0.into(), sink.into(), Value::unsigned(size)];
        self.execute(MOVE_SINK, values).await.map(drop)
    }

    /// Events of `node` behind this place of its journal, of all sites, at most `limit`.
    pub async fn projected_events(
        &self,
        node: &Name,
        after: u64,
        limit: u32,
    ) -> Result<Vec<ProjectedEvent>> {
        let values = vec![node.into(), Value::unsigned(after), crate::page(limit)];
        self.read(EVENTS, values, read_event).await
    }

    /// The node in whose journal an event stands, and where; `None` if there is no such event, or
    /// it is not in a journal yet.
    pub async fn place_of_event(&self, id: EventId) -> Result<Option<EventPlace>> {
        let found = self.read(PLACE, vec![id.0.into()], |row| {
            let sequence = row.maybe_int(1)?.and_then(|sequence| u64::try_from(sequence).ok());
            Ok(EventPlace { node: row.name(0)?, node_sequence: sequence })
        });
        Ok(found.await?.into_iter().next())
    }
}

/// The key of a node, which may have been removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredNodeKey {
    /// The node that signs with it.
    pub node: NodeId,
    /// What that node is, or was, called: its name stands in the public half.
    pub name: Name,
    /// Its public and its sealed private half.
    pub key: NodeKey,
}

impl Tx {
    /// The keys of all nodes that ever had one.
    pub async fn node_keys(&mut self) -> Result<Vec<StoredNodeKey>> {
        let read = |row: &Row<'_>| {
            let key = NodeKey { public: row.text(1)?, private_sealed: Sealed(row.text(2)?) };
            // The name of a log is `entrepot/NODE/ID`.
            let name = key.public.split('/').nth(1).and_then(|name| name.parse().ok());
            let name = name.ok_or_else(|| {
                DbError::Corrupt(format!("'{}' is no public key of a node", key.public))
            })?;
            Ok(StoredNodeKey { node: NodeId(row.id(0)?), name, key })
        };
        self.work.query(ALL_KEYS, Vec::new(), read).await
    }

    /// Replaces the sealed half of a node's key.
    pub async fn reseal_node_key(&mut self, node: NodeId, sealed: &Sealed) -> Result<()> {
        let values = vec![Value::text(&sealed.0), node.0.into()];
        self.work.execute(RESEAL_KEY, values).await.map(drop)
    }
}

/// Where an event stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventPlace {
    /// The node that recorded it.
    pub node: Name,
    /// Its place in the journal of that node, once it has been projected from there.
    pub node_sequence: Option<u64>,
}
