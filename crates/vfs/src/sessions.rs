//! The sessions that are open on this node, as administrators list, limit and end them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use entrepot_auth::{LiveSession, Peer};
use entrepot_nouns::{PerDirection, Protocol, SessionId, SessionInfo, Timestamp};
use parking_lot::Mutex;

use crate::book::Book;
use crate::meters::Meters;

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
pub(crate) struct Sessions {
    open: Mutex<HashMap<SessionId, Arc<OpenSession>>>,
    /// Has the bytes of transfers that still move.
    book: Arc<Book>,
    meters: Arc<Meters>,
}

impl Sessions {
    pub(crate) fn new(book: Arc<Book>, meters: Arc<Meters>) -> Sessions {
        Sessions { open: Mutex::default(), book, meters }
    }

    pub(crate) fn add(&self, session: Arc<OpenSession>) {
        self.open.lock().insert(session.id, session);
        self.meters.sessions_changed(1);
    }

    pub(crate) fn remove(&self, id: SessionId) {
        self.open.lock().remove(&id);
        self.meters.sessions_changed(-1);
    }

    /// Those of peers, with the bytes of their running transfers.
    pub(crate) fn of_peers(&self) -> Vec<SessionInfo> {
        let moving = self.book.moving_bytes();
        let sessions = self.open.lock();
        let peers = sessions.values().filter(|open| open.peer.protocol != Protocol::Internal);
        let infos = peers.map(|open| {
            let mut info = open.info();
            let (received, sent) = moving.get(&info.id).copied().unwrap_or_default();
            info.bytes_in += received;
            info.bytes_out += sent;
            info
        });
        infos.collect()
    }

    /// Ends a session; false if it is not open.
    pub(crate) fn end(&self, id: SessionId, reason: &str) -> bool {
        let session = self.open.lock().get(&id).cloned();
        if let Some(session) = &session {
            session.live.end(reason);
        }
        session.is_some()
    }

    /// Sets the rates of a session, `None`: those of its policies; false if it is not open.
    pub(crate) fn limit(&self, id: SessionId, rates: Option<PerDirection>) -> bool {
        let session = self.open.lock().get(&id).cloned();
        if let Some(session) = &session {
            session.live.order_rates(rates);
        }
        session.is_some()
    }
}
