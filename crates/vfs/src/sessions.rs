//! The sessions that are open on this node, as administrators list, limit and end them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use entrepot_auth::{LiveSession, Peer};
use entrepot_nouns::{PerDirection, Protocol, SessionId, SessionInfo, Timestamp};
use parking_lot::Mutex;

/// A session while it is open.
pub(crate) struct OpenSession {
    pub(crate) id: SessionId,
    pub(crate) live: LiveSession,
    pub(crate) peer: Peer,
    pub(crate) opened_at: Timestamp,
    /// Bytes of uploads that have ended.
    pub(crate) moved_in: AtomicU64,
    /// Bytes of downloads that have ended.
    pub(crate) moved_out: AtomicU64,
    pub(crate) transfers: AtomicU64,
}

impl OpenSession {
    pub(crate) fn new(id: SessionId, live: LiveSession, peer: Peer, opened_at: Timestamp) -> Self {
        let counter = || AtomicU64::new(0);
        OpenSession {
            id,
            live,
            peer,
            opened_at,
            moved_in: counter(),
            moved_out: counter(),
            transfers: counter(),
        }
    }

    fn info(&self) -> SessionInfo {
        let throttles = self.live.throttles();
        SessionInfo {
            id: self.id,
            site: self.peer.site,
            account: self.live.principal().account.name.clone(),
            protocol: self.peer.protocol,
            address: self.peer.address.to_string(),
            client: self.peer.client.clone(),
            algorithms: self.peer.algorithms.clone(),
            opened_at: self.opened_at,
            bytes_in: self.moved_in.load(Ordering::Relaxed),
            bytes_out: self.moved_out.load(Ordering::Relaxed),
            wire_in: throttles.upload.moved(),
            wire_out: throttles.download.moved(),
            transfers: self.transfers.load(Ordering::Relaxed),
        }
    }
}

/// All sessions that are open, those of jobs included.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<SessionId, Arc<OpenSession>>>);

impl Sessions {
    pub(crate) fn add(&self, session: Arc<OpenSession>) {
        self.0.lock().insert(session.id, session);
    }

    pub(crate) fn remove(&self, id: SessionId) {
        self.0.lock().remove(&id);
    }

    /// Those of peers.
    pub(crate) fn of_peers(&self) -> Vec<SessionInfo> {
        let sessions = self.0.lock();
        let peers = sessions.values().filter(|open| open.peer.protocol != Protocol::Internal);
        peers.map(|open| open.info()).collect()
    }

    /// Ends a session; false if it is not open.
    pub(crate) fn end(&self, id: SessionId, reason: &str) -> bool {
        let session = self.0.lock().get(&id).cloned();
        if let Some(session) = &session {
            session.live.end(reason);
        }
        session.is_some()
    }

    /// Sets the rates of a session, `None`: those of its policies; false if it is not open.
    pub(crate) fn limit(&self, id: SessionId, rates: Option<PerDirection>) -> bool {
        let session = self.0.lock().get(&id).cloned();
        if let Some(session) = &session {
            session.live.order_rates(rates);
        }
        session.is_some()
    }
}
