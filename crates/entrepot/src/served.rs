//! The node that the administration of a server sees and steers.

use entrepot_admin::{LiveNode, LogLevels, NotRecorded};
use entrepot_nouns::{PerDirection, SessionId, SessionInfo};
use entrepot_vfs::{Service, VfsError};

use crate::log::LogControl;

/// The data plane of this process, as the administration steers it.
pub(crate) struct ServedNode {
    pub(crate) vfs: Service,
    pub(crate) log: LogControl,
}

impl LiveNode for ServedNode {
    fn sessions(&self) -> Vec<SessionInfo> {
        self.vfs.sessions()
    }

    fn end_session(&self, id: SessionId, reason: &str) -> bool {
        self.vfs.end_session(id, reason)
    }

    fn limit_session(&self, id: SessionId, rates: Option<PerDirection>) -> bool {
        self.vfs.limit_session(id, rates)
    }

    fn limit_node(
        &self,
        rates: Option<PerDirection>,
        by: &str,
    ) -> Result<PerDirection, NotRecorded> {
        self.vfs.limit_node(rates, by).map_err(|error| not_recorded(&error))
    }

    fn drain_node(&self, by: &str) -> Result<(), NotRecorded> {
        self.vfs.drain_node(by).map_err(|error| not_recorded(&error))
    }

    fn log_levels(&self) -> LogLevels {
        self.log.levels()
    }

    fn set_log_levels(&self, levels: LogLevels) -> Result<(), String> {
        self.log.set(levels)
    }
}

fn not_recorded(error: &VfsError) -> NotRecorded {
    NotRecorded { code: error.code(), problem: error.to_string() }
}
