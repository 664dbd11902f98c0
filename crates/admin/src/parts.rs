//! What the administration works with.

use std::sync::Arc;

use entrepot_auth::{Directory, Gate};
use entrepot_crypto::MasterKey;
use entrepot_db::Db;
use entrepot_journal::Recorder;
use entrepot_nouns::Env;

use crate::live::LiveNode;

/// What every [`crate::Admin`] works with.
pub struct AdminParts {
    /// Where the configuration and its events are stored.
    pub db: Db,
    /// Seals the secrets of nouns.
    pub master: MasterKey,
    /// Names the node in events and seals them into its journal.
    pub recorder: Recorder,
    /// The accounts that logins of this process are checked against; it is refreshed after each
    /// change. A process that serves no logins has none.
    pub directory: Option<Directory>,
    /// The clock, ids and randomness.
    pub env: Env,
}

/// What an [`crate::Admin`] works with besides in a process that serves clients.
#[derive(Clone)]
pub struct ServingParts {
    /// Its sessions and limits.
    pub node: Arc<dyn LiveNode>,
    /// Its logins, with the wrong passwords that it remembers.
    pub gate: Gate,
}
