//! What events tell of backups, and of configuration that was exported.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::noun::Kind;

/// A backup that was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupFact {
    /// The folder that holds it, on the machine of the node.
    pub folder: String,
    /// BLAKE3 of its manifest, which holds the digests of all its parts.
    pub manifest: String,
    /// The last record of the node's journal that it holds.
    pub records: u64,
    /// Published files of directory endpoints that it lists.
    pub files: u64,
    /// It holds the master key.
    pub with_master_key: bool,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}

/// Configuration that was read as documents.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ConfigExportFact {
    /// Which kinds of nouns.
    pub kinds: Vec<Kind>,
    /// Hashes of passwords and sealed secrets were among it.
    pub secrets: bool,
    /// Who: an admin account, or `cli:<user>`.
    pub by: String,
}
