//! The sessions of one listener. Each request of HTTP stands for itself, but to compare a password
//! and to record a sign-in costs too much for each: so the session that a sign-in has opened is
//! kept for the requests that show the same credentials from the same address, until none has come
//! for [`SESSION_REST`], the account may not go on, or an administrator ends it.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use axum::http::StatusCode;
use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::{Env, Secret, SessionId, SiteId};
use entrepot_vfs::Session;
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::limits::{SESSION_REST, SESSIONS};
use crate::problem::Problem;

/// What the requests of one session have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionKey {
    site: SiteId,
    holder: Holder,
    address: IpAddr,
    /// Of the secret that was shown, under a key that only this process has.
    proof: [u8; 32],
}

/// Who has the secret of a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Holder {
    /// Who has the password of this name, a certificate, or both.
    User { name: String, certificate: Option<ShownCertificate> },
    /// Who has an API token.
    Token,
    /// Who has the cookie of a browser.
    Browser,
    /// Who has the secret of a share link, and its password if it has one.
    Link,
    /// A partner of AS2, whose messages prove themselves.
    As2,
}

/// The certificate of a client as far as it says whose session it may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ShownCertificate {
    fingerprint: [u8; 32],
    certified: bool,
}

impl From<&ClientCertificate> for ShownCertificate {
    fn from(shown: &ClientCertificate) -> Self {
        let ClientCertificate { fingerprint, certified, .. } = *shown;
        ShownCertificate { fingerprint, certified }
    }
}

/// An open session of an account.
pub(crate) struct WebSession {
    /// `None` only while it is dropped.
    session: Option<Session>,
    gone: CancellationToken,
    why_gone: Arc<OnceLock<String>>,
    /// When a request last ended, in milliseconds of [`Env::elapsed`].
    used_ms: AtomicU64,
    env: Env,
    /// Watches for the end of the account's permission.
    _watch: JoinSet<()>,
}

/// A session as a request uses it.
#[derive(Clone)]
pub(crate) struct UsedSession(Arc<WebSession>);

/// The sessions of one listener.
pub(crate) struct Sessions {
    env: Env,
    key: [u8; 32],
    table: Mutex<HashMap<SessionKey, Entry>>,
}

enum Entry {
    /// Another request shows the same credentials, and they are being checked: the channel closes
    /// when that is decided.
    Opening(watch::Receiver<()>),
    Open(Arc<WebSession>),
}

/// What the table has for a request.
enum Found<'a> {
    Open(UsedSession),
    Opening(watch::Receiver<()>),
    Nothing(Opening<'a>),
}

/// The right to open the session of a key; others wait until it is dropped.
struct Opening<'a> {
    sessions: &'a Sessions,
    key: &'a SessionKey,
    _decided: watch::Sender<()>,
}

impl WebSession {
    /// Of a sign-in.
    pub(crate) fn new(session: Session, env: Env) -> WebSession {
        let (gone, why_gone) = (CancellationToken::new(), Arc::new(OnceLock::new()));
        let mut watch = JoinSet::new();
        let (ended, cancel, why) = (session.ended(), gone.clone(), Arc::clone(&why_gone));
        watch.spawn(async move {
            let reason = ended.await;
            // Nobody else sets it before the session is dropped.
            let _ = why.set(reason);
            cancel.cancel();
        });
        let session = Some(session);
        let used_ms = AtomicU64::new(0);
        let opened = WebSession { session, gone, why_gone, used_ms, env, _watch: watch };
        opened.touch();
        opened
    }

    /// The session with its files.
    pub(crate) fn vfs_session(&self) -> &Session {
        // The invariant: only `drop` takes it.
        self.session.as_ref().expect("the session is open until it is dropped")
    }

    /// The id that events of this session carry.
    pub(crate) fn id(&self) -> SessionId {
        self.vfs_session().id()
    }

    /// Completes when the account may not go on.
    pub(crate) async fn ended(&self) {
        self.gone.cancelled().await;
    }

    fn touch(&self) {
        self.used_ms.store(millis(self.env.elapsed()), Ordering::Relaxed);
    }

    /// True if no request has it, and none has had it for as long as a session may rest: the policy
    /// of the account may say less than we do.
    fn has_rested(self: &Arc<Self>) -> bool {
        let idle_seconds = self.vfs_session().principal().policy.idle_seconds;
        let most = SESSION_REST.min(Duration::from_secs(u64::from(idle_seconds)));
        let since = millis(self.env.elapsed()).saturating_sub(self.used_ms.load(Ordering::Relaxed));
        Arc::strong_count(self) == 1 && since >= millis(most)
    }

    fn is_over(&self) -> bool {
        self.gone.is_cancelled()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

impl Drop for WebSession {
    fn drop(&mut self) {
        let Some(session) = self.session.take() else { return };
        let throttles = session.throttles();
        let (received, sent) = (throttles.upload.moved(), throttles.download.moved());
        let reason = self.why_gone.get().map_or("no request came any more", |reason| reason);
        // To close it waits for nothing.
        session.close(reason, received, sent).now_or_never();
    }
}

impl UsedSession {
    fn new(session: Arc<WebSession>) -> UsedSession {
        session.touch();
        UsedSession(session)
    }
}

impl std::ops::Deref for UsedSession {
    type Target = WebSession;

    fn deref(&self) -> &WebSession {
        &self.0
    }
}

impl Drop for UsedSession {
    fn drop(&mut self) {
        self.0.touch();
    }
}

impl Sessions {
    pub(crate) fn new(env: Env) -> Sessions {
        let mut key = [0; 32];
        env.fill_random(&mut key);
        Sessions { env, key, table: Mutex::default() }
    }

    /// The key of requests in which `holder` shows `secret`.
    pub(crate) fn key(
        &self,
        site: SiteId,
        holder: Holder,
        secret: &Secret,
        address: IpAddr,
    ) -> SessionKey {
        let proof = *blake3::keyed_hash(&self.key, secret.expose()).as_bytes();
        SessionKey { site, holder, address, proof }
    }

    /// The session of a key. One that is not open is opened by `open`, once, however many requests
    /// ask for it.
    ///
    /// # Errors
    /// As `open` says.
    pub(crate) async fn find_or_open(
        &self,
        key: &SessionKey,
        open: impl Future<Output = Result<Session, Problem>>,
    ) -> Result<UsedSession, Problem> {
        let opening = loop {
            match self.find(key)? {
                Found::Open(session) => return Ok(session),
                // It closes when the other request knows; what it knows is in the table then.
                Found::Opening(mut other) => while other.changed().await.is_ok() {},
                Found::Nothing(opening) => break opening,
            }
        };
        let session = Arc::new(WebSession::new(open.await?, self.env.clone()));
        opening.opened(&session);
        Ok(UsedSession::new(session))
    }

    fn find<'a>(&'a self, key: &'a SessionKey) -> Result<Found<'a>, Problem> {
        let mut table = self.table.lock();
        match table.get(key) {
            Some(Entry::Open(session)) if !session.is_over() => {
                return Ok(Found::Open(UsedSession::new(Arc::clone(session))));
            }
            Some(Entry::Opening(decided)) => return Ok(Found::Opening(decided.clone())),
            Some(Entry::Open(_)) | None => {}
        }
        if table.len() >= SESSIONS && !table.contains_key(key) {
            let why = "too many accounts are signed in at this moment; try again later";
            return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1003", why));
        }
        let (sender, decided) = watch::channel(());
        let over = table.insert(key.clone(), Entry::Opening(decided));
        drop(table);
        drop(over);
        Ok(Found::Nothing(Opening { sessions: self, key, _decided: sender }))
    }

    /// Closes the session of a key, when the last request that has it is answered.
    pub(crate) fn end(&self, key: &SessionKey, why: &str) {
        let mut table = self.table.lock();
        // One that is being opened belongs to another request.
        let is_open = matches!(table.get(key), Some(Entry::Open(_)));
        let ended = if is_open { table.remove(key) } else { None };
        drop(table);
        if let Some(Entry::Open(session)) = ended {
            // If it is over already it has a reason of its own.
            let _ = session.why_gone.set(why.to_owned());
        }
    }

    /// Closes sessions that no request has had for long, and those that may not go on.
    pub(crate) fn sweep(&self) {
        let mut closed = Vec::new();
        self.table.lock().retain(|_, entry| match entry {
            Entry::Open(session) if session.is_over() || session.has_rested() => {
                closed.push(Arc::clone(session));
                false
            }
            Entry::Open(_) | Entry::Opening(_) => true,
        });
    }

    /// Closes all of them, because the listener stops.
    pub(crate) fn close(&self) {
        let table = std::mem::take(&mut *self.table.lock());
        for entry in table.into_values() {
            if let Entry::Open(session) = entry {
                // If it is over already it has a reason of its own.
                let _ = session.why_gone.set("the server is stopping".to_owned());
            }
        }
    }
}

impl Opening<'_> {
    fn opened(self, session: &Arc<WebSession>) {
        let entry = Entry::Open(Arc::clone(session));
        self.sessions.table.lock().insert(self.key.clone(), entry);
    }
}

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        let mut table = self.sessions.table.lock();
        if matches!(table.get(self.key), Some(Entry::Opening(_))) {
            table.remove(self.key);
        }
    }
}
