//! What events tell of what retention deletes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ExportedFile;
use crate::name::Name;
use crate::time::Timestamp;

/// What retention deletes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PrunedFact {
    /// `events`, `transfers`, `jobs` or `archive`.
    pub what: String,
    /// Of events and archives: the node whose journal has their records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<Name>,
    /// The first record of that journal that is concerned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first: Option<u64>,
    /// The last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u64>,
    /// How many rows, or records of an archive.
    pub count: u64,
    /// Everything deleted is older than this.
    pub older_than: Timestamp,
    /// The file that the events were written to before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exported: Option<ExportedFile>,
    /// The signed note by which the rest still verifies.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stub: Option<String>,
}
