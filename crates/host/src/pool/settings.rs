//! What a pool is made of, and why a call has no session of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use entrepot_nouns::SessionPool;

use crate::debug::DebugRecords;
use crate::model::Model;
use crate::session::HostOptions;

/// What the sessions of a pool are.
#[derive(Clone, Debug)]
pub struct PoolSettings {
    /// What is known of the application.
    pub model: Arc<Model>,
    /// Where it is.
    pub host: HostOptions,
    /// What each session is given.
    pub variables: BTreeMap<String, String>,
    /// What one session at a time is given besides: a user and a password, as a rule. None: all
    /// sessions are alike.
    pub users: Vec<BTreeMap<String, String>>,
    /// How many there are.
    pub limits: SessionPool,
    /// Where it is recorded what happens in them.
    pub debug: Option<DebugRecords>,
}

/// A call has no session.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// Too many wait already.
    #[error("{waiting} calls wait for a session already")]
    Crowded {
        /// How many of them.
        waiting: u32,
    },
    /// None came free in time.
    #[error("no session came free within {seconds} s{}", because(failure))]
    Late {
        /// So long was waited.
        seconds: u64,
        /// Why none can be opened, if the last attempt failed.
        failure: Option<String>,
    },
    /// None can be opened for the caller alone.
    #[error("no session can be opened: {failure}")]
    NotOpened {
        /// What the last attempt came to.
        failure: String,
    },
    /// The pool has stopped, or stops.
    #[error("the sessions of the model are being closed")]
    Stopped,
    /// The session is not held any more.
    #[error("the session is not held: it was closed, or taken back as nothing came for too long")]
    NotHeld,
}

fn because(failure: &Option<String>) -> String {
    failure.as_ref().map(|failure| format!("; none can be opened: {failure}")).unwrap_or_default()
}

impl PoolError {
    /// The error catalogue's code.
    pub fn code(&self) -> &'static str {
        match self {
            PoolError::Crowded { .. } | PoolError::Late { failure: None, .. } => "EP1310",
            PoolError::Late { .. } | PoolError::NotOpened { .. } => "EP1311",
            PoolError::Stopped => "EP1312",
            PoolError::NotHeld => "EP1313",
        }
    }
}
