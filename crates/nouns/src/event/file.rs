//! What events say of files.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::As2Message;
use crate::document::is_default;
use crate::ids::TransferId;
use crate::listener::Protocol;
use crate::name::Name;
use crate::time::Timestamp;
use crate::transfer::Digests;

/// A file that arrived, left or changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FileFact {
    /// The transfer that moved it, also named by the row of the transfers table.
    pub transfer: TransferId,
    /// Virtual path as the account sees it.
    pub path: String,
    /// Size of the file in bytes, unless the kind of fact says otherwise.
    pub size: u64,
    /// Digests, as far as known.
    #[serde(flatten)]
    pub digests: Digests,
    /// Spoken with the peer.
    pub protocol: Protocol,
    /// When the transfer began.
    pub started_at: Timestamp,
    /// Which file it is, as its store tells it from every other one; none where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The file that had the name and lost it to this one; none if the name was free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub displaced: Option<Displaced>,
    /// Published under a name its client calls temporary (`.filepart`, …): no rule starts on it;
    /// the rename to the final name is the arrival.
    #[serde(default, skip_serializing_if = "is_default")]
    pub temporary: bool,
    /// The message of AS2 that brought it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as2: Option<Box<As2Message>>,
}

/// A file that waits, hidden, until a rule releases it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HeldFact {
    /// The file; `path` is the one that it gets when it is released.
    #[serde(flatten)]
    pub file: FileFact,
    /// The endpoint that has it.
    pub endpoint: Name,
    /// The directory of the endpoint that the mount shows: the file lies hidden in it, under the
    /// id of its transfer.
    pub prefix: String,
    /// The path at the endpoint that it gets when it is released.
    pub stored: String,
}

/// What an admin decided about a file that is held.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DecidedFact {
    /// The file, and where it lies.
    #[serde(flatten)]
    pub held: HeldFact,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}

/// A file that events were written to before they were deleted: NDJSON, compressed by zstd.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ExportedFile {
    /// The endpoint that has it.
    pub endpoint: Name,
    /// Its path there.
    pub path: String,
    /// Its size in bytes.
    pub size: u64,
    /// SHA-256 of its bytes, 64 hexadecimal digits.
    pub sha256: String,
}

/// The file that had a name until another file took it. What several nodes publish under one name
/// is put in order by it: each names the file before it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Displaced {
    /// Which file it was, as its store tells it from every other one; none where it cannot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
}

/// A file that another one has replaced, and that its mount keeps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionFact {
    /// Virtual path as the account sees it.
    pub path: String,
    /// Bytes of the file that was replaced.
    pub size: u64,
    /// When its content had last changed.
    pub modified: Timestamp,
    /// The endpoint that keeps it.
    pub endpoint: Name,
    /// The directory of the endpoint that the mount shows: it has the versions in it.
    pub prefix: String,
    /// The path that it had at the endpoint.
    pub stored: String,
    /// From then on it is deleted for good; none: its time does not end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Most versions of the file that the mount keeps; none: as many as come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<u16>,
    /// Most bytes of versions that the mount keeps; none: as many as come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bytes: Option<u64>,
}
