//! The server's side of control connections, for [`Server`](crate::server::Server).

use std::borrow::Cow;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::{Control, ControlEnds};
use crate::guard::UnauthenticatedConnection;
use crate::listen::TcpAcceptor;
use crate::server::{Admission, Incoming, Protocol, Refusal};
use crate::socket;
use crate::tls::{TlsConfig, TlsSession};

/// The answer to connections that come while the node stops.
const STOPPING: &[u8] = b"421 The server is stopping: try again later.\r\n";
/// The answer to connections for which there is no room; see [`crate::guard`].
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
    /// Which addresses are treated in ways of their own.
    pub admission: Arc<Admission>,
    /// When a control connection goes under TLS, and with which certificate.
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
    pub unauthenticated: UnauthenticatedConnection,
    /// The TLS of this session, for AUTH TLS and for its data connections.
    pub tls: Option<TlsSession>,
}

/// What a protocol does with its connections.
pub trait ControlSessions: Send + Sync + 'static {
    /// Whether an address may connect; if not, it is closed without a word.
    fn admits(&self, peer: SocketAddr) -> bool;

    /// Carries one connection to its end. When
    /// [`SessionMeter::ending`](crate::meter::SessionMeter::ending) answers, it tells the client
    /// why and ends the connection; half a second later it is cut. It notes a login by
    /// [`Stage::LoggedIn`](crate::meter::Stage::LoggedIn), a running transfer by
    /// [`SessionMeter::running`](crate::meter::SessionMeter::running).
    fn serve(&self, guest: ControlGuest) -> impl Future<Output = ()> + Send + 'static;
}

/// Control connections of FTP, for [`Server`](crate::server::Server).
#[derive(Debug)]
pub struct ControlProtocol<S>(pub S);

impl<S: ControlSessions> Protocol for ControlProtocol<S> {
    type Config = ControlOptions;

    fn admission(options: &ControlOptions) -> &Admission {
        &options.admission
    }

    fn refusal(options: &ControlOptions, why: Refusal) -> Option<Cow<'static, [u8]>> {
        // Under implicit TLS nothing can be said without a handshake.
        if matches!(options.tls, ControlTls::Implicit(_)) {
            return None;
        }
        Some(Cow::Borrowed(match why {
            Refusal::NoRoom => NO_ROOM,
            Refusal::Stopping => STOPPING,
        }))
    }

    fn prepare(acceptor: &TcpAcceptor) -> io::Result<()> {
        socket::keep_urgent_inline(acceptor)
    }

    fn admits(&self, peer: SocketAddr) -> bool {
        self.0.admits(peer)
    }

    async fn serve(self: Arc<Self>, connection: Incoming<ControlOptions>) {
        let Incoming { stream, peer, local, meter, unauthenticated, config: options, drain } =
            connection;
        let Ok(local) = local.map_or_else(|| stream.local_addr(), Ok) else { return };
        let control = Control::new(stream, ControlEnds { peer, local }, Arc::clone(&meter));
        tokio::select! {
            () = self.converse(&options.tls, control, unauthenticated) => {}
            () = drain.cut_when_over(&meter, options.login_time) => {}
        }
    }
}

impl<S: ControlSessions> ControlProtocol<S> {
    async fn converse(
        &self,
        tls: &ControlTls,
        mut control: Control,
        unauthenticated: UnauthenticatedConnection,
    ) {
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
        self.0.serve(ControlGuest { control, unauthenticated, tls: session }).await;
    }
}
