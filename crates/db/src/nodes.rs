//! Nodes: member processes.

use entrepot_nouns::{Name, Timestamp};

use crate::Db;
use crate::error::Result;
use crate::sql::{Value, sql, statements};

/// A member process, as the others see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Unique among the nodes of this database; each process has it from its own configuration.
    pub name: Name,
    /// When it last gave a sign of life.
    pub heartbeat_at: Timestamp,
    /// An operator asked it to take no new work.
    pub drained: bool,
    /// The last sequence of its journal that is in the database.
    pub projected_up_to: u64,
}

statements! {
    /// The cursor never goes back: a repeated piece changes nothing.
    ADVANCE_CURSOR = sql!(
        "INSERT INTO nodes (name, heartbeat_at, drained, projected_up_to) ",
        "VALUES ($1, 0, FALSE, $2) ON CONFLICT (name) DO UPDATE ",
        "SET projected_up_to = excluded.projected_up_to ",
        "WHERE nodes.projected_up_to < excluded.projected_up_to",
    );
    READ_CURSOR = sql!("SELECT projected_up_to FROM nodes WHERE name = $1");
    HEARTBEAT = sql!(
        "INSERT INTO nodes (name, heartbeat_at, drained, projected_up_to) ",
        "VALUES ($1, $2, FALSE, 0) ON CONFLICT (name) DO UPDATE ",
        "SET heartbeat_at = excluded.heartbeat_at",
    );
    LIST = sql!("SELECT name, heartbeat_at, drained, projected_up_to FROM nodes ORDER BY name");
    DRAIN = sql!("UPDATE nodes SET drained = $1 WHERE name = $2");
}

pub(crate) const ADVANCE: crate::sql::Sql = ADVANCE_CURSOR;
pub(crate) const CURSOR: crate::sql::Sql = READ_CURSOR;

impl Db {
    /// Notes that `node` lives.
    pub async fn heartbeat(&self, node: &Name, now: Timestamp) -> Result<()> {
        self.execute(HEARTBEAT, vec![node.into(), now.into()]).await.map(drop)
    }

    /// All nodes that ever gave a sign of life or projected, by name.
    pub async fn nodes(&self) -> Result<Vec<Node>> {
        self.read(LIST, Vec::new(), |row| {
            Ok(Node {
                name: row.name(0)?,
                heartbeat_at: row.time(1)?,
                drained: row.bool(2)?,
                projected_up_to: row.unsigned(3)?,
            })
        })
        .await
    }

    /// Asks `node` to take no new work; false if there is no such node.
    pub async fn drain(&self, node: &Name) -> Result<bool> {
        Ok(self.execute(DRAIN, vec![Value::Bool(true), node.into()]).await? > 0)
    }

    /// Takes [`Db::drain`] back; false if there is no such node.
    pub async fn undrain(&self, node: &Name) -> Result<bool> {
        Ok(self.execute(DRAIN, vec![Value::Bool(false), node.into()]).await? > 0)
    }
}
