//! The one way in for every public listener: it accepts connections, reads the PROXY header of
//! balancers, asks whether an address may connect, limits connections that have not logged in, and
//! drains when the listener or the node stops. What is spoken on a connection is a [`Protocol`].
//!
//! 1. A connection is counted before its first byte is read, so a flood meets the limits of
//!    [`crate::guard`] at once.
//! 2. An address that may not connect is left without a word; one that finds no room is told so in
//!    the words of the protocol, where it has any in clear text.
//! 3. A bug that ends one connection ends no other.

use std::borrow::Cow;
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Env, Listener};
use ipnet::IpNet;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::guard::{UnauthenticatedConnection, UnauthenticatedConnections, UnauthenticatedLimit};
use crate::limits::{DRAIN_INTERVAL, FAREWELL_TIME, PROXIES_WAITING};
use crate::listen::TcpAcceptor;
use crate::meter::{self, EndClass, SessionMeter};
use crate::proxy;

/// Which addresses a listener treats in ways of their own.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    /// Balancers: connections from there must begin with a PROXY header that names the client.
    pub proxies: Vec<IpNet>,
    /// Networks with a limit of their own of connections that have not logged in.
    pub unauthenticated: Vec<UnauthenticatedLimit>,
    /// Who may connect without a proxy between.
    pub direct: DirectClients,
}

/// Who may connect to a listener without one of its proxies between.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DirectClients {
    /// Whoever the policies admit.
    #[default]
    All,
    /// Programs of this machine only: what is spoken must not cross a network unencrypted.
    OfThisMachine,
}

impl Admission {
    /// As a listener says.
    pub fn of(listener: &Listener) -> Admission {
        let limit = |it: &entrepot_nouns::listener::UnauthenticatedLimit| UnauthenticatedLimit {
            network: it.network,
            connections: it.connections as usize,
        };
        Admission {
            proxies: listener.proxies.clone(),
            unauthenticated: listener.unauthenticated.iter().map(limit).collect(),
            direct: match (listener.protocol, listener.redirects_to_https()) {
                (entrepot_nouns::Protocol::Http, None) => DirectClients::OfThisMachine,
                _ => DirectClients::All,
            },
        }
    }

    /// Whether a connection that no proxy has made may come from `address`.
    fn admits_directly(&self, address: IpAddr) -> bool {
        match self.direct {
            DirectClients::All => true,
            DirectClients::OfThisMachine => address.to_canonical().is_loopback(),
        }
    }

    fn is_proxy(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.proxies.iter().any(|network| network.contains(&address))
    }
}

/// Why a connection is refused before anything is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Too many connections have not logged in; see [`crate::guard`].
    NoRoom,
    /// The node is stopping.
    Stopping,
}

/// What is spoken on the connections of a listener.
pub trait Protocol: Send + Sync + 'static {
    /// How the listener presents itself. Cheap to clone: each connection keeps what it began with.
    type Config: Clone + Send + Sync + 'static;

    /// Which addresses are treated in ways of their own.
    fn admission(config: &Self::Config) -> &Admission;

    /// The bytes that tell a client in clear text why it is refused. `None`: there are none, and
    /// the connection is closed without a word.
    fn refusal(config: &Self::Config, why: Refusal) -> Option<Cow<'static, [u8]>>;

    /// Sets what all connections take over from the socket that accepts them.
    fn prepare(_acceptor: &TcpAcceptor) -> std::io::Result<()> {
        Ok(())
    }

    /// Whether an address may connect.
    fn admits(&self, peer: SocketAddr) -> bool;

    /// Carries one connection to its end, at the latest when [`Drain::supervise`] returns: then the
    /// client is told why, as far as the protocol can, and the connection is closed.
    fn serve(
        self: Arc<Self>,
        connection: Incoming<Self::Config>,
    ) -> impl Future<Output = ()> + Send + 'static;
}

/// A connection that was taken in.
#[derive(Debug)]
pub struct Incoming<C> {
    /// Nothing has been read but the header of a proxy.
    pub stream: TcpStream,
    /// The client, also behind a balancer; IPv4 addresses are never mapped to IPv6.
    pub peer: SocketAddr,
    /// Where it came to, if that is known without asking: the listener has one address.
    pub local: Option<SocketAddr>,
    /// Its counters, its limits, and the switch that ends it.
    pub meter: Arc<SessionMeter>,
    /// Its place among the connections that have not logged in.
    pub unauthenticated: UnauthenticatedConnection,
    /// How the listener presented itself when it came.
    pub config: C,
    /// When it must end with the listener.
    pub drain: Drain,
}

/// When a connection must end because its listener or the node stops.
#[derive(Clone, Debug)]
pub struct Drain {
    /// Cancelled when the listener stops.
    pub stop: CancellationToken,
    /// A running transfer may go on for so long then.
    pub limit: Duration,
}

impl Drain {
    /// Ends the connection when it must end: nobody has logged in within `login_time`, its
    /// transfers are slower than the least rate, or the listener stops; or returns when somebody
    /// else has ended it. [`SessionMeter::ended`] says why.
    pub async fn supervise(&self, meter: &SessionMeter, login_time: Duration) {
        tokio::select! {
            _ = meter.ending() => {}
            () = meter::watch_login(meter, login_time) => {
                meter.end(EndClass::Login, "nobody logged in in time");
            }
            () = meter::watch_pace(meter) => {}
            () = self.drained(meter) => meter.end(EndClass::Decision, "the server is stopping"),
        }
    }

    /// Waits until the connection must end, and cuts it when it does not end by itself after its
    /// client was told to. Returns long after, if it lives on without its stream.
    pub async fn cut_when_over(&self, meter: &SessionMeter, login_time: Duration) {
        self.supervise(meter, login_time).await;
        sleep(FAREWELL_TIME).await;
        meter.cut();
        // A session that waits for something else than its stream is dropped after a while.
        sleep(FAREWELL_TIME).await;
        if meter.is_busy() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits for the stop, and then for running transfers, within the limit.
    async fn drained(&self, meter: &SessionMeter) {
        self.stop.cancelled().await;
        let idle = async {
            while meter.is_busy() {
                sleep(DRAIN_INTERVAL).await;
            }
        };
        if timeout(self.limit, idle).await.is_err() {
            tracing::warn!("a transfer was still running at the end of the drain limit");
        }
    }
}

/// What all listeners of a node share, and how long they may take to stop.
#[derive(Clone, Debug)]
pub struct ServerShared {
    /// Connections that have not logged in, of all listeners.
    pub unauthenticated: UnauthenticatedConnections,
    /// Clock of meters.
    pub env: Env,
    /// When the listener stops, running transfers may go on for so long.
    pub drain: Duration,
    /// Cancelled when the whole node stops, and not this listener alone: clients that come then are
    /// told so.
    pub stopping: CancellationToken,
}

/// A bound listener, before anything is served on it.
#[derive(Debug)]
pub struct Listening<C> {
    /// Where it accepts.
    pub acceptor: TcpAcceptor,
    /// How it presents itself to connections from now on.
    pub config: watch::Receiver<C>,
    /// What it shares with others.
    pub shared: ServerShared,
}

/// A listener with the protocol that it speaks.
#[derive(Debug)]
pub struct Server<P: Protocol> {
    /// Where it accepts, and how it presents itself.
    pub listening: Listening<P::Config>,
    /// What it speaks.
    pub protocol: P,
}

impl<P: Protocol> Server<P> {
    /// Serves until `stop`, then lets nobody in, ends idle connections at once, lets running
    /// transfers end within the drain limit, and returns when every connection is over. If the
    /// whole node stops, clients that come until then are told so where the protocol can.
    pub async fn run(self, stop: CancellationToken) {
        let Listening { acceptor, config, shared } = self.listening;
        let mut connections = JoinSet::new();
        let waiting = Arc::new(Semaphore::new(PROXIES_WAITING));
        let drain = Drain { stop: stop.clone(), limit: shared.drain };
        let stopping = shared.stopping.clone();
        let (protocol, local) = (Arc::new(self.protocol), acceptor.only_address());
        let entrance = Arc::new(Entrance { shared, drain, protocol, local });
        if let Err(error) = P::prepare(&acceptor) {
            let address = acceptor.local_address();
            tracing::warn!(%address, %error, "an option of a listening socket is not set");
        }
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                (stream, peer) = acceptor.accept() => {
                    let config = config.borrow().clone();
                    let admission = P::admission(&config);
                    if !admission.is_proxy(peer.ip()) {
                        if admission.admits_directly(peer.ip()) {
                            connections.spawn(entrance.admit(config, stream, peer));
                        }
                    } else if let Ok(permit) = Arc::clone(&waiting).try_acquire_owned() {
                        let entrance = Arc::clone(&entrance);
                        connections.spawn(entrance.admit_from_proxy(config, stream, peer, permit));
                    }
                }
                Some(ended) = connections.join_next() => report(ended),
            }
        }
        let refusal = || P::refusal(&config.borrow(), Refusal::Stopping);
        if stopping.is_cancelled() && refusal().is_some() {
            while !connections.is_empty() {
                tokio::select! {
                    (stream, _) = acceptor.accept() => {
                        // What it does not take at once it does not hear.
                        let _ = refusal().map(|words| stream.try_write(&words));
                    }
                    Some(ended) = connections.join_next() => report(ended),
                }
            }
        }
        drop(acceptor);
        while let Some(ended) = connections.join_next().await {
            report(ended);
        }
    }
}

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection failed by a bug; others go on");
    }
}

/// What the connections of a server share.
struct Entrance<P> {
    shared: ServerShared,
    drain: Drain,
    protocol: Arc<P>,
    local: Option<SocketAddr>,
}

impl<P: Protocol> Entrance<P> {
    /// Takes a connection in at once, so that it is counted when it comes; what is left to wait for
    /// is the conversation.
    fn admit(
        &self,
        config: P::Config,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> impl Future<Output = ()> + Send + 'static {
        let peer = SocketAddr::new(peer.ip().to_canonical(), peer.port());
        let meter = Arc::new(SessionMeter::new(self.shared.env.clone()));
        let (protocol, drain) = (Arc::clone(&self.protocol), self.drain.clone());
        let local = self.local;
        let admitted = self.protocol.admits(peer).then(|| {
            let limits = &P::admission(&config).unauthenticated;
            self.shared.unauthenticated.admit(peer.ip(), limits, &meter)
        });
        async move {
            match admitted {
                None => {}
                Some(Err(refused)) => {
                    if let Some(words) = P::refusal(&config, Refusal::NoRoom) {
                        refused.tell(stream, &words).await;
                    }
                }
                Some(Ok(unauthenticated)) => {
                    let connection =
                        Incoming { stream, peer, local, meter, unauthenticated, config, drain };
                    protocol.serve(connection).await;
                }
            }
        }
    }

    async fn admit_from_proxy(
        self: Arc<Self>,
        config: P::Config,
        mut stream: TcpStream,
        proxy: SocketAddr,
        permit: OwnedSemaphorePermit,
    ) {
        let client = tokio::select! {
            client = proxy::client_behind(&mut stream, proxy) => client,
            () = self.drain.stop.cancelled() => return,
        };
        drop(permit);
        match client {
            Ok(peer) => self.admit(config, stream, peer).await,
            Err(error) => tracing::info!(%proxy, %error, "a PROXY header was not understood"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clear_text_of_http_comes_from_this_machine_or_a_proxy() {
        let listener = |rest: &str| -> Admission {
            let text = format!(r#"{{"name": "web", "address": "0.0.0.0:80", {rest}}}"#);
            Admission::of(&serde_json::from_str(&text).unwrap())
        };
        let admits = |admission: &Admission, address: &str| {
            admission.admits_directly(address.parse().unwrap())
        };
        let http = listener(r#""protocol": "http", "proxies": ["10.0.0.0/8"]"#);
        assert!(http.is_proxy("10.0.0.1".parse().unwrap()));
        assert!(!admits(&http, "192.0.2.1") && !admits(&http, "2001:db8::1"));
        assert!(admits(&http, "127.0.0.1") && admits(&http, "::ffff:127.0.0.1"));
        let redirect = r#""protocol": "http", "http": {"redirect_to_https": 443}"#;
        assert!(admits(&listener(redirect), "192.0.2.1"));
        assert!(admits(&listener(r#""protocol": "https""#), "192.0.2.1"));
    }
}
