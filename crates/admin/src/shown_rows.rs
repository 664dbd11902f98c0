//! Rows that answers show, of what has no file of its own.

use entrepot_nouns::{Event, SessionInfo, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A signed head: how the journal of a node was when it had so many records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalHead {
    /// How many records it covers.
    pub records: u64,
    /// When it was signed.
    pub signed_at: Timestamp,
    /// The signed note (C2SP `tlog-checkpoint`).
    pub note: String,
}

/// A backup that was made of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackupNote {
    /// The folder that holds it.
    pub folder: String,
    /// BLAKE3 of its manifest.
    pub manifest: String,
    /// The last record of the journal that it holds.
    pub records: u64,
    /// Published files that it lists.
    pub files: u64,
    /// It holds the master key.
    pub with_master_key: bool,
}

/// An open session with what only its list says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionRow {
    /// Name of the account's site; its id while the database cannot be asked.
    pub site: String,
    /// The session, its fields beside the name of its site.
    #[serde(flatten)]
    pub session: SessionInfo,
    /// Bytes a second on the wire, at present, from the client.
    pub in_per_second: u64,
    /// Bytes a second on the wire, at present, to the client.
    pub out_per_second: u64,
}

/// An event with its sequence number in the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NumberedEvent {
    /// Grows; gaps mean nothing.
    pub sequence: i64,
    /// The event, its fields beside the sequence.
    #[serde(flatten)]
    pub event: Event,
}
