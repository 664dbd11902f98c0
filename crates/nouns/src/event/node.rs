//! What events say of nodes, and of what runs on them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::NodeId;
use crate::lane::PoolPlaces;
use crate::name::Name;
use crate::time::Timestamp;

/// A certificate that an authority has given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RenewedFact {
    /// The listener that shows it.
    pub listener: Name,
    /// The names in it.
    pub names: Vec<String>,
    /// The directory of the authority.
    pub directory: String,
    /// Not valid from this moment on.
    pub not_after: Timestamp,
}

/// A certificate that an authority has not given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateFailure {
    /// The listener that was to get it.
    pub listener: Name,
    /// The names in it.
    pub names: Vec<String>,
    /// The directory of the authority.
    pub directory: String,
    /// The code of the page that says what to do.
    pub code: String,
    /// Why, as far as it is known.
    pub problem: String,
    /// How often it has failed in a row.
    pub failures: u64,
    /// It is tried again then.
    pub retry_at: Timestamp,
}

/// A key that ends soon, or has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExpiringFact {
    /// The key, by name.
    pub key: Name,
    /// Not valid from this moment on.
    pub not_after: Timestamp,
    /// It ends in so many days, or sooner.
    pub days: u32,
}

/// A node that was taken off the list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RemovedFact {
    /// The name that is free again.
    pub name: Name,
    /// The last record of its journal that is in the database.
    pub projected: u64,
    /// How many records behind that one its last heartbeat told of: events that are lost if
    /// the journal is.
    pub unprojected: u64,
    /// It did not stop in good order: there may be more of them.
    pub lost: bool,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}

/// A program that a rule started and that has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramFact {
    /// The name of the rule, which may have been deleted since.
    pub rule: Name,
    /// Its path; its arguments may be secrets of somebody.
    pub program: String,
    /// Whether it counts as done: exit code 0, or 1 with a warning.
    pub done: bool,
    /// Exit code, signal or limit, in words.
    pub how: String,
    /// From its start to its end.
    pub duration_ms: u64,
    /// The last words of what it wrote.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub words: String,
}

/// The sealed secrets of the installation got another master key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RotationFact {
    /// Names the master key that opens them no more; tells nothing of it.
    pub from: String,
    /// Names the one that opens them now.
    pub to: String,
    /// How many there are.
    pub secrets: u64,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}

/// How full the journal of a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalFact {
    /// Of what it may hold: 50, 75 or 90.
    pub percent: u32,
    /// Bytes that the database does not have.
    pub bytes: u64,
    /// Most bytes that may wait for it.
    pub limit_bytes: u64,
}

/// How fast everything together on a node may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LimitedFact {
    /// Bytes a second from peers to us, from now on; none: no limit.
    pub upload: Option<u64>,
    /// Bytes a second from us to peers.
    pub download: Option<u64>,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}

/// A node that has come to an installation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JoinedFact {
    /// Its id, made with its journal.
    pub node_id: NodeId,
    /// The smallest number that no other node has.
    pub slot: u32,
    /// Who: an admin account, or `cli:<user>`; else `node:<name>`.
    pub by: String,
}

/// Other sizes of the pools of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolsFact {
    /// The node whose pools they are.
    pub name: Name,
    /// The sizes that were named.
    pub places: PoolPlaces,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}
