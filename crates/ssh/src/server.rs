//! SSH as a server speaks it. What is done with a connection is a [`Service`]; it runs inline in
//! the session task.

use std::borrow::Cow;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_net::gather::Gathering;
use entrepot_net::guard::{TOO_MANY, UnauthenticatedConnection};
use entrepot_net::limits::{DRAIN_INTERVAL, FAREWELL_TIME};
use entrepot_net::meter::{EndClass, SessionMeter};
use entrepot_net::server::{Admission, Drain, Incoming, Protocol, Refusal};
use russh::Disconnect;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::sync::oneshot;

use crate::algorithms;
use crate::channels::{ConnectionChannels, Stop};
use crate::config::IDENTIFICATION_LINE;
use crate::farewell;
use crate::handler::Connection;
use crate::kexinit::Offer;
use crate::limits;
use crate::stream::Guarded;

pub use crate::channels::{Link, Replies};
pub use crate::config::{SshConfig, SshOptions};
pub use crate::service::{Program, Service, Services, Started, Summary, Verdict};

/// SSH as a server speaks it, for [`Server`](entrepot_net::server::Server).
#[derive(Debug)]
pub struct Ssh<F>(pub F);

impl<F: Services> Protocol for Ssh<F> {
    type Config = SshConfig;

    fn admission(config: &SshConfig) -> &Admission {
        &config.presentation.admission
    }

    fn refusal(_: &SshConfig, why: Refusal) -> Option<Cow<'static, [u8]>> {
        match why {
            Refusal::NoRoom => {
                let packet = farewell::in_clear(Disconnect::TooManyConnections, TOO_MANY);
                Some(Cow::Owned([IDENTIFICATION_LINE, &packet].concat()))
            }
            // Clients try the next address of a name only where nobody accepts.
            Refusal::Stopping => None,
        }
    }

    fn admits(&self, peer: SocketAddr) -> bool {
        self.0.admits(peer)
    }

    fn serve(
        self: Arc<Self>,
        connection: Incoming<SshConfig>,
    ) -> impl Future<Output = ()> + Send + 'static {
        let Incoming { stream, peer, meter, unauthenticated, config, drain, .. } = connection;
        let service = self.0.connect(peer, &meter);
        let guest = Guest { peer, meter, unauthenticated };
        converse(config, Gathering::new(stream), guest, service, drain)
    }
}

/// A connection at its start.
#[derive(Debug)]
pub struct Guest {
    /// Where it comes from.
    pub peer: SocketAddr,
    /// Counts its bytes and ends it; the bandwidth limits of its account are set here after login.
    pub meter: Arc<SessionMeter>,
    /// Its place among those who have not logged in.
    pub unauthenticated: UnauthenticatedConnection,
}

/// Carries one connection from its first byte to [`Service::ended`]. The stream may be anything;
/// tests use an in-memory one.
pub async fn converse<T, S>(config: SshConfig, stream: T, guest: Guest, service: S, drain: Drain)
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let Guest { peer, meter, unauthenticated } = guest;
    let (back, returned) = oneshot::channel();
    let shared = Arc::new(ConnectionChannels::new(Arc::clone(&meter)));
    let presentation = Arc::clone(&config.presentation);
    let connection = Connection::new(service, back, shared, unauthenticated, presentation);
    let guarded = Guarded::server(stream, Arc::clone(&meter));
    let outcome = session(config, guarded, connection, &meter, &drain).await;
    let reason = match (meter.ended(), outcome) {
        (Some(end), _) => end.reason.clone(),
        (None, Ok(())) => "the client ended the connection".to_owned(),
        (None, Err(reason)) => reason,
    };
    let summary =
        Summary { peer, reason, bytes_in: meter.bytes_in(), bytes_out: meter.bytes_out() };
    // The handler hands its service back when it is dropped, also after a panic.
    if let Ok(service) = returned.await {
        service.ended(&summary).await;
    }
}

async fn session<T, S>(
    config: SshConfig,
    mut stream: Guarded<T>,
    mut connection: Connection<S>,
    meter: &Arc<SessionMeter>,
    drain: &Drain,
) -> Result<(), String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    S: Service,
{
    let came = tokio::select! {
        seen = stream.preview(IDENTIFICATION_LINE, limits::KEXINIT_PATIENCE) => seen,
        () = supervise_start(meter, drain) => {
            return say_in_clear(&mut stream, meter).await.map_err(|error| error.to_string());
        }
    };
    let came = came.map_err(|error| Stop::from(russh::Error::from(error)).sentence())?;
    let has_gcm = |offer: &Offer| offer.has_cipher(algorithms::GCM_NAMES);
    let gcm = came && stream.offer().is(has_gcm);
    let transport = if gcm { config.gcm } else { config.any_cipher };
    connection.is_offered(Arc::clone(&transport), stream.offer());
    let mut running = tokio::select! {
        started = russh::server::run_stream(transport, stream, connection) => {
            started.map_err(|stop| stop.sentence())?
        }
        () = supervise_start(meter, drain) => return Ok(()),
    };
    tokio::select! {
        ended = &mut running => return ended.map_err(|stop| stop.sentence()),
        () = supervise(meter, drain) => {}
    }
    let end = meter.ending().await.clone();
    let handle = running.handle();
    let farewell = async {
        let reason = end.reason.clone();
        if handle.disconnect(disconnect(end.class), reason, "en".to_owned()).await.is_err() {
            tracing::trace!("the session has ended by itself");
        }
        (&mut running).await
    };
    if let Ok(ended) = tokio::time::timeout(FAREWELL_TIME, farewell).await {
        return ended.map_err(|stop| stop.sentence());
    }
    meter.cut();
    running.await.map_err(|stop| stop.sentence())
}

/// Returns when the connection must end before its key exchange; [`SessionMeter::ended`] says why.
async fn supervise_start(meter: &SessionMeter, drain: &Drain) {
    tokio::select! {
        _ = meter.ending() => {}
        () = tokio::time::sleep(limits::IDENTIFICATION_TIME) => {
            meter.end(EndClass::Login, "no identification line came in time");
        }
        () = drain.stop.cancelled() => meter.end(EndClass::Decision, "the server is stopping"),
    }
}

/// Tells the client in clear text why its connection ends.
async fn say_in_clear<T>(stream: &mut Guarded<T>, meter: &SessionMeter) -> std::io::Result<()>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Some(end) = meter.ended() else { return Ok(()) };
    let packet = farewell::in_clear(disconnect(end.class), &end.reason);
    // The stream drops the line, for it was sent ahead of whoever writes it.
    let words = [IDENTIFICATION_LINE, &packet].concat();
    let saying = async {
        stream.write_all(&words).await?;
        stream.shutdown().await
    };
    tokio::time::timeout(FAREWELL_TIME, saying).await.unwrap_or(Ok(()))
}

fn disconnect(class: EndClass) -> Disconnect {
    match class {
        EndClass::Decision => Disconnect::ByApplication,
        EndClass::TooMany => Disconnect::TooManyConnections,
        EndClass::Login => Disconnect::NoMoreAuthMethodsAvailable,
        EndClass::Protocol => Disconnect::ProtocolError,
    }
}

/// Returns when the connection must end; [`SessionMeter::ended`] says why.
async fn supervise(meter: &SessionMeter, drain: &Drain) {
    tokio::select! {
        () = drain.supervise(meter, limits::LOGIN_TIME) => {}
        () = watch_idle(meter) => {}
    }
}

/// Ends a session that is idle for too long; before login there is no such limit.
async fn watch_idle(meter: &SessionMeter) {
    loop {
        // Looks again now and then, for the limit changes live.
        let rest = meter.idle_limit().saturating_sub(meter.idle());
        // A client that waits for a rule is not idle.
        if meter.is_waited_for() {
            meter.touch();
        } else if rest.is_zero() {
            return meter.end(EndClass::Decision, "the session was idle for too long");
        }
        tokio::time::sleep(rest.clamp(DRAIN_INTERVAL, limits::LOGIN_TIME)).await;
    }
}

#[cfg(test)]
mod tests;
