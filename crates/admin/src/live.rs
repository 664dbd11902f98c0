//! The live state of a node as the administration sees and steers it: open sessions, rates, the
//! end of the node. The process that serves implements [`LiveNode`] over its data plane.

use entrepot_nouns::{PerDirection, SessionId, SessionInfo};

use crate::log_levels::LogLevels;

/// A node that serves clients.
pub trait LiveNode: Send + Sync {
    /// The open sessions of clients, of every site.
    fn sessions(&self) -> Vec<SessionInfo>;

    /// Ends a session; its `session.closed` gives this reason. False if it is not open.
    fn end_session(&self, id: SessionId, reason: &str) -> bool;

    /// Sets the rates of a session until it ends; `None` restores those of its policies. False if
    /// it is not open.
    fn limit_session(&self, id: SessionId, rates: Option<PerDirection>) -> bool;

    /// Sets the rates that all sessions of the node share until the node ends, and records
    /// `node.limited`; `None` restores those of the policy of the site `main`. Returns the rates
    /// in force now.
    ///
    /// # Errors
    /// It could not be recorded; the rates are as before.
    fn limit_node(
        &self,
        rates: Option<PerDirection>,
        by: &str,
    ) -> Result<PerDirection, NotRecorded>;

    /// Records `node.draining` and begins the end of the node: running transfers may finish,
    /// nothing new begins.
    ///
    /// # Errors
    /// It could not be recorded; the node goes on.
    fn drain_node(&self, by: &str) -> Result<(), NotRecorded>;

    /// How its log differs from what the process file says.
    fn log_levels(&self) -> LogLevels;

    /// From now on its log is as the process file says but for `levels`.
    ///
    /// # Errors
    /// Why not; the log is as before.
    fn set_log_levels(&self, levels: LogLevels) -> Result<(), String>;
}

/// The journal refused the event of an order, so the order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecorded {
    /// The error code of the journal's refusal.
    pub code: &'static str,
    /// A sentence that says what to do.
    pub problem: String,
}
