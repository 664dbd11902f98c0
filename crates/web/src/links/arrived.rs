//! What recipients of a link have sent, as they are told.

use serde::Serialize;

/// A file that arrived whole and is durable.
#[derive(Serialize)]
pub(super) struct Arrived {
    pub(super) name: String,
    pub(super) size: u64,
    /// 64 hexadecimal digits.
    pub(super) blake3: Option<String>,
    /// Where the mount asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) sha256: Option<String>,
}
