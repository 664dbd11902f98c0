//! One connection: what is known of its client, and of who has signed in on it.

use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_auth::{Attempt, Peer, Throttles};
use entrepot_net::guard::{Checking, UnauthenticatedConnection};
use entrepot_net::meter::{EndClass, SessionMeter, Stage};
use entrepot_net::tls::{ClientCertificate, TlsInfo};
use entrepot_nouns::event::As2Tls;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{SessionId, SiteId};
use entrepot_vfs::TicketedUpload;
use parking_lot::Mutex;
use tokio::sync::{MappedMutexGuard, Mutex as AsyncMutex, MutexGuard};
use tokio_util::sync::CancellationToken;

use crate::activity::{Activity, Check};
use crate::config::WebConfig;
use crate::heads::KeptHeads;
use crate::sessions::WebSession;
use crate::shared::ListenerShared;
use crate::tasks::ConnectionTasks;

/// A connection whose handshake is done.
pub(crate) struct Connection {
    /// Names it in the ids of its requests.
    pub(crate) id: u32,
    /// The client, also behind a balancer.
    pub(crate) peer: SocketAddr,
    pub(crate) meter: Arc<SessionMeter>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) tasks: ConnectionTasks,
    /// How the listener presented itself when it came.
    pub(crate) config: WebConfig,
    /// What was agreed on, under TLS.
    tls: Option<TlsInfo>,
    /// What the client has shown under TLS.
    certificate: Option<ClientCertificate>,
    /// Why the policy of the listener turns it away.
    unwelcome: Option<String>,
    /// It counts as one without a sign-in until then.
    unauthenticated: Mutex<Option<UnauthenticatedConnection>>,
    /// All tries to sign in on this connection, one after another.
    attempt: AsyncMutex<Option<Attempt>>,
    /// Whose limits of bandwidth it has.
    bound: Mutex<Option<SessionId>>,
    /// It takes no further request.
    closing: CancellationToken,
    /// Heads as they came, of requests that are not answered yet.
    heads: KeptHeads,
}

/// What a connection begins with.
pub(crate) struct ConnectionStart {
    pub(crate) peer: SocketAddr,
    pub(crate) meter: Arc<SessionMeter>,
    pub(crate) activity: Arc<Activity>,
    pub(crate) config: WebConfig,
    pub(crate) tls: Option<TlsInfo>,
    pub(crate) certificate: Option<ClientCertificate>,
    pub(crate) unauthenticated: UnauthenticatedConnection,
    pub(crate) tasks: ConnectionTasks,
    pub(crate) heads: KeptHeads,
}

/// While the credentials of a request are checked: the connection gives way to no newcomer, its
/// time to sign in does not run, and nothing is read from it.
pub(crate) struct CredentialCheck {
    _counted: Option<Checking>,
    _unread: Check,
}

impl Connection {
    /// Asks the gate whether the listener's policy lets the address in.
    pub(crate) async fn new(shared: &ListenerShared, start: ConnectionStart) -> Connection {
        let ConnectionStart { peer, meter, activity, config, tls, .. } = start;
        let ConnectionStart { certificate, unauthenticated, tasks, heads, .. } = start;
        let mut id = [0; 4];
        shared.env().fill_random(&mut id);
        let mut connection = Connection {
            id: u32::from_be_bytes(id),
            peer,
            meter,
            activity,
            tasks,
            config,
            tls,
            certificate,
            unwelcome: None,
            unauthenticated: Mutex::new(Some(unauthenticated)),
            attempt: AsyncMutex::default(),
            bound: Mutex::default(),
            closing: CancellationToken::new(),
            heads,
        };
        let peer = connection.as_peer(shared, shared.site());
        connection.unwelcome = shared.gate().why_unwelcome(&peer).await;
        connection
    }

    /// The client, for the gate, about to sign in at `site`.
    pub(crate) fn as_peer(&self, shared: &ListenerShared, site: SiteId) -> Peer {
        Peer {
            site,
            home: shared.site(),
            protocol: self.config.protocol(),
            encrypted: self.tls.is_some(),
            listener: shared.listener().clone(),
            address: self.peer,
            client: self.meter.client().to_owned(),
            algorithms: self
                .tls
                .as_ref()
                .map(|info| format!("{} {}", info.version, info.suite))
                .unwrap_or_default(),
        }
    }

    /// Why the policy of the listener turns it away.
    pub(crate) fn why_unwelcome(&self) -> Option<&str> {
        self.unwelcome.as_deref()
    }

    /// The name of the server that the client has asked TLS for.
    pub(crate) fn server_name(&self) -> Option<&str> {
        self.tls.as_ref()?.server_name.as_deref()
    }

    /// The certificate of the client, as long as the listener asks for such ones.
    pub(crate) fn certificate(&self, shared: &ListenerShared) -> Option<&ClientCertificate> {
        self.certificate.as_ref().filter(|_| shared.asks_as(&self.config))
    }

    /// The head of the request that begins, as it came; `None`: that is not kept here.
    pub(crate) fn next_head(&self) -> Option<Vec<u8>> {
        self.heads.next()
    }

    /// What was agreed on, as events of AS2 have it.
    pub(crate) fn as2_tls(&self) -> Option<As2Tls> {
        let info = self.tls.as_ref()?;
        let shown = self.certificate.as_ref();
        Some(As2Tls {
            version: info.version.to_string(),
            suite: info.suite.clone(),
            certificate: shown.map(|certificate| hex(&certificate.fingerprint)),
        })
    }

    /// True under TLS.
    pub(crate) fn is_encrypted(&self) -> bool {
        self.tls.is_some()
    }

    /// The tries to sign in on this connection; the next one waits until this one is decided, so
    /// that requests beside each other guess no faster than those behind each other.
    pub(crate) async fn attempt(
        &self,
        shared: &ListenerShared,
        peer: Peer,
    ) -> MappedMutexGuard<'_, Attempt> {
        let mut attempt = self.attempt.lock().await;
        match &mut *attempt {
            Some(attempt) => attempt.begin_again(peer),
            None => *attempt = Some(shared.gate().attempt(peer)),
        }
        self.meter.advance(Stage::Authenticating);
        MutexGuard::map(attempt, |attempt| {
            // The invariant: it was set a moment ago, and the lock is held.
            attempt.as_mut().expect("the attempt has begun")
        })
    }

    /// Begins a check of credentials; it lasts until the guard is dropped.
    pub(crate) fn checking(&self) -> CredentialCheck {
        let unauthenticated = self.unauthenticated.lock();
        let counted = unauthenticated.as_ref().and_then(UnauthenticatedConnection::checking);
        CredentialCheck { _counted: counted, _unread: self.activity.check() }
    }

    /// A request is of this session: the connection has its limits from now on.
    pub(crate) fn signed_in(&self, session: &WebSession) {
        let id = session.id();
        // The policy may have changed since the last request.
        let least = session.vfs_session().principal().policy.least_bytes_per_second;
        self.meter.set_least_rate(least);
        if self.bound.lock().replace(id) == Some(id) {
            return;
        }
        self.bind(session.vfs_session().throttles());
    }

    /// A request continues an upload by its ticket: the connection has the limits of the account
    /// until a request of a session comes.
    pub(crate) fn continues(&self, upload: &TicketedUpload) {
        self.meter.set_least_rate(upload.principal().policy.least_bytes_per_second);
        *self.bound.lock() = None;
        self.bind(upload.throttles());
    }

    fn bind(&self, throttles: Throttles) {
        self.meter.bind(throttles);
        self.meter.advance(Stage::LoggedIn);
        if let Some(unauthenticated) = self.unauthenticated.lock().take() {
            unauthenticated.logged_in();
        }
    }

    /// The answers that are being given are the last ones.
    pub(crate) fn close_soon(&self) {
        self.closing.cancel();
    }

    /// True if the answers that are being given are the last ones.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.is_cancelled() || self.meter.ended().is_some()
    }

    /// Completes after [`Connection::close_soon`].
    pub(crate) async fn closes_soon(&self) {
        self.closing.cancelled().await;
    }

    /// Ends it because the gate has refused its client too often.
    pub(crate) fn end_after_refusals(&self) {
        self.end(EndClass::Login, "too many sign-ins were refused");
    }

    /// Ends it, half a second later at the latest, after the answers that are being given.
    pub(crate) fn end(&self, class: EndClass, reason: &str) {
        self.meter.end(class, reason);
    }
}
