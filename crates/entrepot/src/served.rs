//! The node that the administration of a server sees and steers.

use entrepot_admin::{LiveNode, NotRecorded};
use entrepot_nouns::{PerDirection, SessionId, SessionInfo};
use entrepot_vfs::{Service, VfsError};

/// The data plane of this process, as the administration steers it.
pub(crate) struct ServedNode(pub(crate) Service);

impl LiveNode for ServedNode {
    fn sessions(&self) -> Vec<SessionInfo> {
        self.0.sessions()
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
