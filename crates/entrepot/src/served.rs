//! The node that the administration of a server sees and steers.

use entrepot_admin::{
    CarriedOut, HeldDecision, HeldOrder, LiveNode, LogLevels, NotRecorded, TestedAs2,
};
use entrepot_auth::Gate;
use entrepot_engine::As2Tester;
use entrepot_nouns::{Endpoint, PerDirection, SessionId, SessionInfo, Stored};
use entrepot_vfs::{Existing, Service, Session, VfsError};

use crate::log::LogControl;

/// The data plane of this process, as the administration steers it.
pub(crate) struct ServedNode {
    pub(crate) vfs: Service,
    pub(crate) log: LogControl,
    pub(crate) gate: Gate,
    pub(crate) tester: As2Tester,
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

    fn carry_out(&self, order: HeldOrder) -> CarriedOut<'_> {
        Box::pin(async move {
            let HeldOrder { site, account, held, decision, by } = order;
            let why = format!("decided by {by}");
            let grant = self.gate.internal(site, &account, &why).await;
            let grant = grant.map_err(|error| error.to_string())?;
            let session = Session::open(&self.vfs, grant).await;
            let session = session.map_err(|error| error.to_string())?;
            let done = match decision {
                HeldDecision::Release => session.vfs().release(&held, Existing::Replace).await,
                HeldDecision::Discard => session.vfs().discard_held(&held, &by).await,
            };
            session.close(&why, 0, 0).await;
            done.map_err(|error| match error {
                VfsError::NotFound => {
                    "it is not there any more, or its mount shows another directory since".into()
                }
                error => error.to_string(),
            })
        })
    }

    fn test_as2(&self, endpoint: Stored<Endpoint>) -> TestedAs2<'_> {
        Box::pin(async move { self.tester.test(&endpoint).await })
    }
}

fn not_recorded(error: &VfsError) -> NotRecorded {
    NotRecorded { code: error.code(), problem: error.to_string() }
}
