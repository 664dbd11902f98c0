//! A listening server of control connections.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_model::Env;
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::Control;
use crate::guard::{Stranger, StrangerLimit, Strangers};
use crate::limits::{DRAIN_INTERVAL, FAREWELL_TIME, PROXIES_WAITING};
use crate::listen::TcpAcceptor;
use crate::meter::{self, EndClass, SessionMeter};
use crate::proxy;
use crate::tls::{TlsConfig, TlsSession};

/// What a newcomer hears while the node stops.
const STOPPING: &[u8] = b"421 The server is stopping: try again later.\r\n";
/// What a newcomer hears for whom there is no room; see [`crate::guard`].
const NO_ROOM: &[u8] =
    b"421 Too many connections have not logged in yet: try again in a moment.\r\n";

/// How a listener speaks TLS.
#[derive(Clone, Debug, Default)]
pub enum ControlTls {
    /// It does not.
    #[default]
    Off,
    /// After AUTH TLS (RFC 4217).
    Explicit(TlsConfig),
    /// From the first byte (port 990).
    Implicit(TlsConfig),
}

/// How a listener takes connections in; connections that come after a change see the new one.
#[derive(Clone, Debug)]
pub struct ControlOptions {
    /// Balancers that say in a PROXY header for whom they connect.
    pub proxies: Vec<IpNet>,
    /// Networks with a limit of their own of connections without a login.
    pub strangers: Vec<StrangerLimit>,
    /// TLS.
    pub tls: ControlTls,
    /// A client must have logged in by then; the time in which its credentials are checked is not
    /// counted.
    pub login_time: Duration,
}

/// A connection at its start.
#[derive(Debug)]
pub struct ControlGuest {
    /// The connection; under TLS already if TLS is implicit.
    pub control: Control,
    /// Its place among those who have not logged in.
    pub stranger: Stranger,
    /// The TLS of this session, for AUTH TLS and for its data connections.
    pub tls: Option<TlsSession>,
}

/// What a protocol does with its connections.
pub trait ControlSessions: Send + Sync + 'static {
    /// Whether an address may connect; if not, it is closed without a word.
    fn admit(&self, peer: SocketAddr) -> bool;

    /// Carries one connection to its end. When [`SessionMeter::ending`] answers, the client is to
    /// be told why and the connection ended; half a second later it is cut. Login is told by
    /// [`Stage::LoggedIn`], a running transfer by [`SessionMeter::running`].
    fn serve(&self, guest: ControlGuest) -> impl Future<Output = ()> + Send + 'static;
}

/// A listening server.
#[derive(Debug)]
pub struct ControlServer<S> {
    /// Where it accepts.
    pub acceptor: TcpAcceptor,
    /// How it takes connections in.
    pub options: watch::Receiver<ControlOptions>,
    /// Who has not logged in, shared by all servers of the process.
    pub strangers: Strangers,
    /// Clock of meters.
    pub env: Env,
    /// What it serves.
    pub sessions: S,
    /// When stopping: running transfers get so long.
    pub drain: Duration,
    /// Cancelled when the whole node stops, not this listener alone: then newcomers are told so.
    pub draining: CancellationToken,
}

impl<S: ControlSessions> ControlServer<S> {
    /// Serves until `stop`, then lets nobody in, ends idle connections at once, lets running
    /// transfers end within the drain limit, and returns when every connection is over. Newcomers
    /// are answered 421 until then if the whole node stops.
    pub async fn run(self, stop: CancellationToken) {
        let mut connections = JoinSet::new();
        let waiting = Arc::new(Semaphore::new(PROXIES_WAITING));
        let house = Arc::new(House {
            strangers: self.strangers,
            env: self.env,
            sessions: self.sessions,
            drain: self.drain,
            stop: stop.clone(),
        });
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                (stream, peer) = self.acceptor.accept() => {
                    let options = self.options.borrow().clone();
                    let ip = peer.ip().to_canonical();
                    if !options.proxies.iter().any(|network| network.contains(&ip)) {
                        connections.spawn(Arc::clone(&house).welcome(options, stream, peer));
                    } else if let Ok(place) = Arc::clone(&waiting).try_acquire_owned() {
                        let house = Arc::clone(&house);
                        connections.spawn(house.welcome_behind_proxy(options, stream, peer, place));
                    }
                }
                Some(ended) = connections.join_next() => report(ended),
            }
        }
        let acceptor = self.draining.is_cancelled().then_some(self.acceptor);
        while let Some(acceptor) = &acceptor
            && !connections.is_empty()
        {
            tokio::select! {
                (stream, _) = acceptor.accept() => turn_away(&stream, &self.options.borrow()),
                Some(ended) = connections.join_next() => report(ended),
            }
        }
        drop(acceptor);
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    }
}

/// Tells a newcomer that the node stops; what it does not take at once it does not hear.
fn turn_away(stream: &TcpStream, options: &ControlOptions) {
    // Under implicit TLS nothing can be said without a handshake.
    if !matches!(options.tls, ControlTls::Implicit(_)) {
        let _ = stream.try_write(STOPPING);
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection failed by a bug; others go on");
    }
}

/// What all connections of a server share.
pub(super) struct House<S> {
    pub(super) strangers: Strangers,
    pub(super) env: Env,
    pub(super) sessions: S,
    pub(super) drain: Duration,
    pub(super) stop: CancellationToken,
}

impl<S: ControlSessions> House<S> {
    /// Takes a connection in at once, so that strangers are counted as they come; what is left is
    /// the conversation.
    fn welcome(
        self: Arc<Self>,
        options: ControlOptions,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send + 'static {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let meter = Arc::new(SessionMeter::new(self.env.clone()));
        let admitted = self.sessions.admit(peer);
        let stranger =
            admitted.then(|| self.strangers.admit(peer.ip(), &options.strangers, &meter));
        async move {
            let stranger = match stranger {
                None => return,
                // Under implicit TLS nothing can be said without a handshake.
                Some(Err(_)) if matches!(options.tls, ControlTls::Implicit(_)) => return,
                Some(Err(refused)) => return refused.tell(stream, NO_ROOM).await,
                Some(Ok(stranger)) => stranger,
            };
            let Ok(control) = Control::new(stream, peer, Arc::clone(&meter)) else { return };
            tokio::select! {
                () = self.converse(&options.tls, control, stranger) => {}
                () = self.watch(&meter, options.login_time) => {}
            }
        }
    }

    async fn converse(&self, tls: &ControlTls, mut control: Control, stranger: Stranger) {
        let session = match tls {
            ControlTls::Off => None,
            ControlTls::Explicit(config) => Some(config.session()),
            ControlTls::Implicit(config) => {
                let session = config.session();
                if let Err(error) = control.start_tls(&session).await {
                    tracing::info!(peer = %control.peer(), %error, "no implicit TLS");
                    return;
                }
                Some(session)
            }
        };
        self.sessions.serve(ControlGuest { control, stranger, tls: session }).await;
    }

    /// Ends the connection when it does not log in in time, hardly moves its transfer, or the
    /// server stops, and cuts it when it does not end after it was told to. Returns long after, if
    /// it lives on without its stream.
    pub(super) async fn watch(&self, meter: &SessionMeter, login_time: Duration) {
        let late = "the login took too long";
        tokio::select! {
            () = meter::watch_login(meter, login_time) => meter.end(EndClass::Login, late),
            () = self.drained(meter) => meter.end(EndClass::Decision, "the server is stopping"),
            () = meter::watch_pace(meter) => {}
            _ = meter.ending() => {}
        }
        sleep(FAREWELL_TIME).await;
        meter.cut();
        // Whoever waits for something else than its stream is dropped after a while.
        sleep(FAREWELL_TIME).await;
        if meter.is_busy() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the stop, and then for the running transfer, within the limit.
    async fn drained(&self, meter: &SessionMeter) {
        self.stop.cancelled().await;
        let idle = async {
            while meter.is_busy() {
                sleep(DRAIN_INTERVAL).await;
            }
        };
        let _ = tokio::time::timeout(self.drain, idle).await;
    }

    async fn welcome_behind_proxy(
        self: Arc<Self>,
        options: ControlOptions,
        mut stream: TcpStream,
        proxy: SocketAddr,
        place: OwnedSemaphorePermit,
    ) {
        let client = tokio::select! {
            client = proxy::client_behind(&mut stream, proxy) => client,
            () = self.stop.cancelled() => return,
        };
        drop(place);
        match client {
            Ok(peer) => self.welcome(options, stream, peer).await,
            Err(error) => tracing::info!(%proxy, %error, "a proxy was not understood"),
        }
    }
}
