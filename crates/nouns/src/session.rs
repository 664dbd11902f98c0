//! Sessions: live connections of accounts, as lists show them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{SessionId, SiteId};
use crate::listener::Protocol;
use crate::name::Name;
use crate::time::Timestamp;

/// A session that is open now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SessionInfo {
    /// The id that events of the session carry.
    pub id: SessionId,
    /// The site of its account. Lists show its name as `site`.
    #[serde(rename = "site_id")]
    pub site: SiteId,
    /// The account that logged in.
    pub account: Name,
    /// The protocol of its connection.
    pub protocol: Protocol,
    /// The remote address, with the port.
    pub address: String,
    /// Name and version that the client gave of itself.
    pub client: String,
    /// The algorithms of its encryption, if any.
    pub algorithms: String,
    /// The time of its login.
    pub opened_at: Timestamp,
    /// Bytes of files from the client, unfinished transfers included.
    pub bytes_in: u64,
    /// Bytes of files to the client, unfinished transfers included.
    pub bytes_out: u64,
    /// Bytes on the wire from the client since login.
    pub wire_in: u64,
    /// Bytes on the wire to the client since login.
    pub wire_out: u64,
    /// Transfers begun, finished ones included.
    pub transfers: u64,
}
