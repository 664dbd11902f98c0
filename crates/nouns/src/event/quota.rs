//! What events say of quotas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::name::Name;

/// How full a folder with a quota is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct QuotaFact {
    /// The endpoint that has the folder.
    pub endpoint: Name,
    /// The path of the folder there.
    pub folder: String,
    /// Of what may lie there, in bytes or in files: 80, 90 or 100.
    pub percent: u32,
    /// Bytes that lie there.
    pub bytes: u64,
    /// Files that lie there.
    pub files: u64,
}
