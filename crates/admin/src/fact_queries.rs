//! What is asked of transfers, events and jobs.

use entrepot_nouns::as2::{As2MessageName, As2State};
use entrepot_nouns::{JobId, Name, SessionId, Timestamp, TransferId};
use serde::{Deserialize, Serialize};

use crate::cursor::Cursor;

/// Which transfers; what is unset does not filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransferQuery {
    /// Of this account.
    pub account: Option<Name>,
    /// In this state.
    pub state: Option<entrepot_nouns::TransferState>,
    /// In this direction.
    pub direction: Option<entrepot_nouns::Direction>,
    /// Path holds this text.
    pub path: Option<String>,
    /// Changed at or after.
    pub since: Option<Timestamp>,
    /// Where the page begins: `next` of the page before.
    pub after: Option<Cursor>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}

/// Which events; what is unset does not filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EventQuery {
    /// Of these kinds; empty: all.
    pub kinds: Vec<String>,
    /// Of this account.
    pub account: Option<Name>,
    /// Path holds this text.
    pub path: Option<String>,
    /// Of this session.
    pub session: Option<SessionId>,
    /// Of this transfer.
    pub transfer: Option<TransferId>,
    /// Of this job.
    pub job: Option<JobId>,
    /// At or after.
    pub since: Option<Timestamp>,
    /// Before this time.
    pub until: Option<Timestamp>,
    /// With a sequence above this, oldest first; unset: the newest.
    pub after: Option<i64>,
    /// With a sequence below this.
    pub before: Option<i64>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}

/// Which jobs; what is unset does not filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobQuery {
    /// In this state.
    pub state: Option<entrepot_nouns::JobState>,
    /// Of this rule.
    pub rule: Option<Name>,
    /// Where the page begins: `next` of the page before.
    pub after: Option<Cursor>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}

/// Which messages of AS2; what is unset does not filter.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct As2Query {
    /// Of the partner of this endpoint.
    pub partner: Option<Name>,
    /// This one, or those with this Message-ID.
    pub message: Option<As2MessageName>,
    /// In this direction.
    pub direction: Option<entrepot_nouns::Direction>,
    /// In this state.
    pub state: Option<As2State>,
    /// In their state at or after.
    pub since: Option<Timestamp>,
    /// In their state before this time.
    pub until: Option<Timestamp>,
    /// Where the page begins: `next` of the page before.
    pub after: Option<Cursor>,
    /// Most rows; 100 if unset.
    pub limit: Option<u32>,
}
