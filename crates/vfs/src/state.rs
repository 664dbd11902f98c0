//! What the files, uploads and downloads of one session share.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use entrepot_auth::TransferPlace;
use entrepot_journal::Scope;
use entrepot_nouns::{Event, Fact, Protocol, VPath};
use parking_lot::Mutex;

use crate::book::Moving;
use crate::budgets::Shares;
use crate::error::{Result, VfsError};
use crate::service::{DataPlane, Service};
use crate::sessions::OpenSession;

/// One session, for everything that is done in it.
pub(crate) struct SessionState {
    pub(crate) service: Service,
    pub(crate) session: Arc<OpenSession>,
    pub(crate) scope: Scope,
    /// Uploads open now, by path: their owner sees them.
    pub(crate) uploads: Mutex<HashMap<VPath, Arc<Moving>>>,
    /// What it may take of what the node has.
    pub(crate) shares: Shares,
    closed: AtomicBool,
}

impl SessionState {
    /// Lists the session among those that are open.
    pub(crate) fn open(
        service: &Service,
        session: OpenSession,
        scope: Scope,
        shares: Shares,
    ) -> SessionState {
        let session = Arc::new(session);
        service.0.sessions.add(session.clone());
        SessionState {
            service: service.clone(),
            session,
            scope,
            uploads: Mutex::default(),
            shares,
            closed: AtomicBool::new(false),
        }
    }

    /// What all sessions of the node share.
    pub(crate) fn data_plane(&self) -> &DataPlane {
        &self.service.0
    }

    /// Records the end of the session, once.
    pub(crate) fn close(&self, reason: &str, bytes_in: u64, bytes_out: u64) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.data_plane().sessions.remove(self.session.id);
        if self.protocol() == Protocol::Internal {
            return;
        }
        let fact = Fact::SessionClosed { reason: reason.to_owned(), bytes_in, bytes_out };
        self.data_plane().book.tell(&self.event(fact));
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.session.peer.protocol
    }

    pub(crate) fn event(&self, fact: Fact) -> Event {
        self.data_plane().recorder.event(&self.scope, fact)
    }

    /// Counts one more transfer towards the limit of the account, until the answer is dropped.
    pub(crate) fn transfer_slot(&self) -> Result<TransferPlace> {
        let slot = self.session.live.begin_transfer();
        slot.ok_or_else(|| VfsError::busy("the account has too many transfers open at a time"))
    }

    /// Counts bytes that are about to be hashed because the client asks for it.
    ///
    /// # Errors
    /// The account has had as many hashed as it may within the hour.
    pub(crate) fn may_hash(&self, bytes: u64) -> Result<()> {
        let why = "the account has had as much digested as it may within the hour";
        if self.session.live.may_digest(bytes) { Ok(()) } else { Err(VfsError::busy(why)) }
    }

    /// Fails if the session may not go on.
    pub(crate) fn check(&self) -> Result<()> {
        match self.session.live.end_reason() {
            None => Ok(()),
            Some(reason) => Err(VfsError::Ended { reason }),
        }
    }
}
