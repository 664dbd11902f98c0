//! One live connection of one account, any protocol, in or out.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use entrepot_auth::{AuthError, Grant, Principal, Throttles};
use entrepot_journal::Scope;
use entrepot_nouns::{
    CommandOrigin, CommandProtocol, EventId, Fact, JobId, Protocol, SessionId, TokenScope,
};
use entrepot_storage::budget::Holder;

use crate::commands::CommandAuthor;
use crate::error::{Result, VfsError};
use crate::hooks::Hooks;
use crate::service::Service;
use crate::sessions::OpenSession;
use crate::state::SessionState;
use crate::vfs::Vfs;

/// An open session. Only a [`Grant`] opens one, and only a session has a [`Vfs`].
pub struct Session {
    vfs: Vfs,
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

    /// The listener and address that its commands come by, in the words of this protocol.
    pub fn command_origin(&self, protocol: CommandProtocol) -> CommandOrigin {
        let peer = &self.vfs.0.session.peer;
        let address = peer.address.ip().to_canonical().to_string();
        CommandOrigin { protocol, listener: peer.listener.clone(), address }
    }

    /// The author of its commands, for rules and events.
    pub fn author(&self) -> CommandAuthor {
        let principal = self.principal();
        let account = principal.account.name.clone();
        CommandAuthor::account(principal.site, account, Some(self.id()))
    }

    fn open_in(
        service: &Service,
        grant: Grant,
        job: Option<(JobId, EventId, u8)>,
    ) -> Result<Session> {
        let principal = grant.principal();
        let id: SessionId = service.0.env.new_id();
        let is_peer = grant.peer().protocol != Protocol::Internal;
        let holder = match job {
            Some(_) => Holder::Rules,
            None => Holder::Account(principal.id),
        };
        let shares = match service.0.budgets.admit(&grant, holder) {
            Ok(shares) => shares,
            Err(error) => return Err(refused(service, &grant, error.to_string())),
        };
        let live = match service.0.directory.enlist(&grant, id) {
            Ok(live) => live,
            Err(AuthError::Refused { reason, .. }) => {
                return Err(refused(service, &grant, reason));
            }
            Err(error) => return Err(refused(service, &grant, error.to_string())),
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
        let open = OpenSession::new(id, live, grant.peer().clone(), service.0.env.now());
        let state = Arc::new(SessionState::open(service, open, scope, shares));
        Ok(Session { vfs: Vfs(state) })
    }

    /// The id that events of this session carry.
    pub fn id(&self) -> SessionId {
        self.vfs.0.session.id
    }

    /// The files as this session may see them.
    pub fn vfs(&self) -> &Vfs {
        &self.vfs
    }

    /// The account as it is now.
    pub fn principal(&self) -> Arc<Principal> {
        self.vfs.0.session.live.principal()
    }

    /// What the API token that it was opened with may be used for now; `None`: no token opened it.
    pub fn scopes(&self) -> Option<Vec<TokenScope>> {
        self.vfs.0.session.live.scopes()
    }

    /// One more whenever the account changed: a cheap look.
    pub fn generation(&self) -> u64 {
        self.vfs.0.session.live.generation()
    }

    /// The bandwidth limits that hold for it; changed live.
    pub fn throttles(&self) -> Throttles {
        self.vfs.0.session.live.throttles()
    }

    /// How many bytes of answers may wait for the client: fewer the more sessions are open, so that
    /// clients which ask and take nothing do not fill the memory.
    pub fn answer_bytes(&self) -> u64 {
        self.vfs.0.shares.answer_bytes()
    }

    /// Records that the client asked for a forwarding of this kind and was refused.
    pub fn record_refused_forwarding(&self, what: &str) {
        let state = &self.vfs.0;
        let address = state.session.peer.address.ip().to_string();
        let fact = Fact::ForwardingRefused { what: what.to_owned(), address };
        if let Err(error) = state.data_plane().recorder.record(&state.scope, fact) {
            tracing::error!(code = error.code(), %error, "a refused forwarding was not recorded");
        }
    }

    /// Waits until the account may not go on; gives the reason.
    pub fn ended(&self) -> impl Future<Output = String> + Send + 'static {
        let state = self.vfs.0.clone();
        async move { state.session.live.ended().await }
    }

    /// Closes it in good order. `bytes_in` and `bytes_out` are those of the connection.
    pub async fn close(self, reason: &str, bytes_in: u64, bytes_out: u64) {
        self.vfs.0.close(reason, bytes_in, bytes_out);
    }
}

/// Records a login that came as one too many.
fn refused(service: &Service, grant: &Grant, reason: String) -> VfsError {
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
        let open = &state.session;
        state.close("the session broke off", moved(&open.moved_in), moved(&open.moved_out));
    }
}
