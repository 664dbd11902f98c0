//! The node that the administration of a server sees and steers.

use entrepot_admin::{LiveNode, NotRecorded, OpenSession};
use entrepot_nouns::{PerDirection, SessionId};
use entrepot_vfs::{Service, SessionInfo, VfsError};

/// The data plane of this process, as the administration steers it.
pub(crate) struct ServedNode(pub(crate) Service);

impl LiveNode for ServedNode {
    fn sessions(&self) -> Vec<OpenSession> {
        self.0.sessions().into_iter().map(open_session).collect()
    }

    fn end_session(&self, id: SessionId, reason: &str) -> bool {
        self.0.end_session(id, reason)
    }

    fn limit_session(&self, id: SessionId, rates: Option<PerDirection>) -> bool {
        self.0.limit_session(id, rates)
    }

    fn limit_node(
        &self,
        rates: Option<PerDirection>,
        by: &str,
    ) -> Result<PerDirection, NotRecorded> {
        self.0.limit_node(rates, by).map_err(|error| not_recorded(&error))
    }

    fn drain_node(&self, by: &str) -> Result<(), NotRecorded> {
        self.0.drain_node(by).map_err(|error| not_recorded(&error))
    }
}

fn not_recorded(error: &VfsError) -> NotRecorded {
    NotRecorded { code: error.code(), problem: error.to_string() }
}

fn open_session(info: SessionInfo) -> OpenSession {
    let (wire_in, wire_out) = info.wire;
    OpenSession {
        id: info.id,
        site: info.site,
        account: info.account,
        protocol: info.protocol,
        address: info.address,
        client: info.client,
        algorithms: info.algorithms,
        opened_at: info.opened_at,
        bytes_in: info.bytes_in,
        bytes_out: info.bytes_out,
        wire_in,
        wire_out,
        transfers: info.transfers,
    }
}
