//! One live connection of one account, any protocol, in or out.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use entrepot_auth::{AuthError, Grant, LiveSession, Peer, Principal, Throttles, TransferPlace};
use entrepot_journal::Scope;
use entrepot_model::{
    CommandFact, Event, EventId, Fact, JobId, Protocol, SessionId, Timestamp, VPath,
};
use parking_lot::Mutex;

use crate::book::Moving;
use crate::error::{Result, VfsError};
use crate::hooks::Hooks;
use crate::service::{Service, SessionInfo};
use crate::vfs::Vfs;

/// An open session. Only a [`Grant`] opens one, and only a session has a [`Vfs`].
pub struct Session {
    vfs: Vfs,
}

/// What everything of one session shares.
pub(crate) struct State {
    pub(crate) service: Service,
    pub(crate) id: SessionId,
    pub(crate) live: LiveSession,
    pub(crate) scope: Scope,
    peer: Peer,
    opened_at: Timestamp,
    pub(crate) moved_in: AtomicU64,
    pub(crate) moved_out: AtomicU64,
    pub(crate) transfers: AtomicU64,
    /// Uploads open now, by path: their owner sees them.
    pub(crate) uploads: Mutex<HashMap<VPath, Arc<Moving>>>,
    closed: AtomicBool,
}

impl Session {
    /// Opens a session for whom the gate admitted.
    ///
    /// # Errors
    /// The login cannot be recorded.
    pub async fn open(service: &Service, grant: Grant) -> Result<Session> {
        Self::open_in(service, grant, None)
    }

    /// Opens a session for a job that an event caused; what it does carries that cause.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub async fn open_for_job(
        service: &Service,
        grant: Grant,
        job: JobId,
        cause: EventId,
        depth: u8,
    ) -> Result<Session> {
        Self::open_in(service, grant, Some((job, cause, depth)))
    }

    /// What rules look at before and after its commands.
    pub fn hooks(&self) -> &Hooks {
        self.vfs.0.service.hooks()
    }

    /// A command of its peer, as it came.
    pub fn command(&self, verb: &str, argument: &str) -> CommandFact {
        let peer = &self.vfs.0.peer;
        let address = peer.address.ip().to_canonical().to_string();
        CommandFact::new((peer.protocol, verb), argument, (peer.listener.clone(), address))
    }

    fn open_in(
        service: &Service,
        grant: Grant,
        job: Option<(JobId, EventId, u8)>,
    ) -> Result<Session> {
        let principal = grant.principal();
        let id: SessionId = service.0.env.new_id();
        let is_peer = grant.peer().protocol != Protocol::Internal;
        let live = match service.0.directory.enlist(&grant, id) {
            Ok(live) => live,
            Err(error) => return Err(refused(service, &grant, &error)),
        };
        let scope = Scope {
            site: principal.site,
            account: Some(principal.account.name.clone()),
            session: is_peer.then_some(id),
            job: job.map(|(job, _, _)| job),
            cause: job.map(|(_, cause, _)| cause),
            depth: job.map_or(0, |(_, _, depth)| depth),
        };
        if is_peer {
            let peer = grant.peer();
            let opened = Fact::SessionOpened {
                protocol: peer.protocol,
                address: peer.address.ip().to_string(),
                client: peer.client.clone(),
                proof: grant.proof().to_owned(),
            };
            service.0.recorder.record(&scope, opened)?;
        }
        let state = Arc::new(State {
            service: service.clone(),
            id,
            live,
            scope,
            peer: grant.peer().clone(),
            opened_at: service.0.env.now(),
            moved_in: AtomicU64::new(0),
            moved_out: AtomicU64::new(0),
            transfers: AtomicU64::new(0),
            uploads: Mutex::default(),
            closed: AtomicBool::new(false),
        });
        service.0.sessions.lock().insert(id, state.clone());
        service.0.meters.sessions_changed(1);
        Ok(Session { vfs: Vfs(state) })
    }

    /// Its id.
    pub fn id(&self) -> SessionId {
        self.vfs.0.id
    }

    /// The files as this session may see them.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// The account as it is now.
    pub fn principal(&self) -> Arc<Principal> {
        self.vfs.0.live.principal()
    }

    /// One more whenever the account changed: a cheap look.
    pub fn generation(&self) -> u64 {
        self.vfs.0.live.generation()
    }

    /// The bandwidth limits that hold for it; changed live.
    pub fn throttles(&self) -> Throttles {
        self.vfs.0.live.throttles()
    }

    /// Waits until the account may not go on; gives the reason.
    pub fn ended(&self) -> impl Future<Output = String> + Send + 'static {
        let state = self.vfs.0.clone();
        async move { state.live.ended().await }
    }

    /// Closes it in good order. `bytes_in` and `bytes_out` are those of the connection.
    pub async fn close(self, reason: &str, bytes_in: u64, bytes_out: u64) {
        self.vfs.0.close(reason, bytes_in, bytes_out);
    }
}

/// A login that came as one too many.
fn refused(service: &Service, grant: &Grant, error: &AuthError) -> VfsError {
    let reason = match error {
        AuthError::Refused { reason, .. } => reason.clone(),
        other => other.to_string(),
    };
    let fact = Fact::LoginRefused {
        protocol: grant.peer().protocol,
        address: grant.peer().address.ip().to_string(),
        name: grant.principal().account.name.to_string(),
        reason: reason.clone(),
    };
    if let Err(error) = service.0.recorder.record(&Scope::site(grant.peer().site), fact) {
        tracing::error!(code = error.code(), %error, "a refused login was not recorded");
    }
    VfsError::Ended { reason }
}

impl Drop for Session {
    fn drop(&mut self) {
        let state = &self.vfs.0;
        let moved = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        state.close("the session broke off", moved(&state.moved_in), moved(&state.moved_out));
    }
}

impl State {
    fn close(&self, reason: &str, bytes_in: u64, bytes_out: u64) {
        if self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        self.service.0.sessions.lock().remove(&self.id);
        self.service.0.meters.sessions_changed(-1);
        if self.protocol() == Protocol::Internal {
            return;
        }
        let fact = Fact::SessionClosed { reason: reason.to_owned(), bytes_in, bytes_out };
        self.service.0.book.tell(&self.event(fact));
    }

    pub(crate) fn protocol(&self) -> Protocol {
        self.peer.protocol
    }

    pub(crate) fn event(&self, fact: Fact) -> Event {
        self.service.0.recorder.event(&self.scope, fact)
    }

    /// A place for one more transfer.
    pub(crate) fn turn(&self) -> Result<TransferPlace> {
        let place = self.live.begin_transfer();
        place.ok_or_else(|| VfsError::busy("the account has too many transfers open at a time"))
    }

    /// Counts bytes that are about to be hashed because the client asks for it.
    ///
    /// # Errors
    /// The account has had as many hashed as it may within the hour.
    pub(crate) fn may_hash(&self, bytes: u64) -> Result<()> {
        let why = "the account has had as much digested as it may within the hour";
        if self.live.may_digest(bytes) { Ok(()) } else { Err(VfsError::busy(why)) }
    }

    /// Fails if the session may not go on.
    pub(crate) fn check(&self) -> Result<()> {
        match self.live.end_reason() {
            None => Ok(()),
            Some(reason) => Err(VfsError::Ended { reason }),
        }
    }

    pub(crate) fn info(&self) -> SessionInfo {
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
            wire: (throttles.upload.moved(), throttles.download.moved()),
            transfers: self.transfers.load(Ordering::Relaxed),
        }
    }
}
