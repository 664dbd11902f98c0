//! Nodes as lists show them.

use entrepot_nouns::{Name, NodeId, PoolPlaces, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A node of the installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRow {
    /// As its process file names it.
    pub name: Name,
    /// What its heartbeat says of it.
    pub state: NodeState,
    /// Made with its journal.
    pub id: NodeId,
    /// The smallest number that no other node has.
    pub slot: Option<u32>,
    /// How often it was started.
    pub incarnation: i64,
    /// Version of its program.
    pub program: String,
    /// The newest level of formats that its program reads and writes.
    pub speaks: u32,
    /// An operator asked it to take no new work.
    pub drained: bool,
    /// It brings back what a database lost that fell back.
    pub rebuilding: bool,
    /// The time of its last heartbeat, by the database's clock.
    pub heartbeat_at: Timestamp,
    /// How far its clock is ahead of the database's, microseconds; negative: behind.
    pub clock_ahead_us: i64,
    /// How long its last heartbeat took, microseconds.
    pub round_trip_us: i64,
    /// The last sequence number of its journal that is in the database.
    pub projected_up_to: u64,
    /// How many records of its journal were not in the database at its last heartbeat.
    pub unprojected: u64,
    /// The sizes of its pools that an operator set; those that are unset are as its process file
    /// says.
    #[serde(default)]
    pub pools: PoolPlaces,
}

/// What is known of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    /// Its heartbeat is recent.
    Serving,
    /// Its heartbeat is recent, and it was asked to take no new work.
    Drained,
    /// It ended in good order, or has never served.
    Stopped,
    /// Its heartbeat stopped: it crashed, or does not reach the database. Others do its jobs.
    Silent,
}

impl NodeState {
    /// The word in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            NodeState::Serving => "serving",
            NodeState::Drained => "drained",
            NodeState::Stopped => "stopped",
            NodeState::Silent => "silent",
        }
    }
}
