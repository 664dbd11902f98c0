//! The live state of a node as the administration sees and steers it: open sessions, rates, the
//! end of the node. The process that serves implements [`LiveNode`] over its data plane.

use std::pin::Pin;

use entrepot_nouns::as2::As2Test;
use entrepot_nouns::event::HeldFact;
use entrepot_nouns::{Endpoint, Name, PerDirection, SessionId, SessionInfo, SiteId, Stored};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

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

    /// Carries out what was decided about a file that is held, in the name of the account that
    /// uploaded it.
    fn carry_out(&self, order: HeldOrder) -> CarriedOut<'_>;

    /// Tests the connection to a partner of AS2, with a message of a few bytes.
    fn test_as2(&self, endpoint: Stored<Endpoint>) -> TestedAs2<'_>;
}

/// What the test found.
pub type TestedAs2<'a> = Pin<Box<dyn Future<Output = As2Test> + Send + 'a>>;

/// Whether it was carried out; else why not, in one sentence.
pub type CarriedOut<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// What becomes of a file that is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum HeldDecision {
    /// It gets its name, in place of a file that has it.
    Release,
    /// It is deleted for good.
    Discard,
}

/// What was decided about a file.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldOrder {
    /// The site of the account.
    pub site: SiteId,
    /// The account that uploaded it.
    pub account: Name,
    /// The file, and where it lies.
    pub held: HeldFact,
    /// What becomes of it.
    pub decision: HeldDecision,
    /// The administrator who decided.
    pub by: String,
}

/// The journal refused the event of an order, so the order was not carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotRecorded {
    /// The error code of the journal's refusal.
    pub code: &'static str,
    /// A sentence that says what to do.
    pub problem: String,
}
