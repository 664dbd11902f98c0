//! Connections of HTTP: TLS, the choice between HTTP/1.1 and HTTP/2, and the end of each.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;

use entrepot_net::gather::Gathering;
use entrepot_net::meter::{EndClass, Stage};
use entrepot_net::metered::Metered;
use entrepot_net::server::{Admission, Drain, Incoming, Protocol, Refusal};
use entrepot_net::tls::{HandshakeError, TlsServer, TlsStream};
use entrepot_nouns::http::HttpService;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::time::sleep;

use crate::activity::{Activity, Moment};
use crate::config::{H2, WebConfig};
use crate::connection::{Connection, ConnectionStart};
use crate::heads::KeptHeads;
use crate::limits::{
    CONNECTION_WINDOW, FAULTY_STREAMS, FIELD_LIST_BYTES, FRAME_BYTES, HEAD_BYTES, HEAD_FIELDS,
    LOGIN_TIME, PING_TIME, RESET_STREAMS, SEND_BYTES, STREAM_WINDOW, STREAMS, WATCH_INTERVAL,
};
use crate::shared::ListenerShared;
use crate::stream::{GuardedStream, Socket, Transport};
use crate::tasks::ConnectionTasks;
use crate::{challenges, request};

/// Connections of HTTP, for [`Server`](entrepot_net::server::Server).
pub(crate) struct WebProtocol(pub(crate) Arc<ListenerShared>);

/// The version of HTTP that a connection speaks: by ALPN, and never by its first bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum HttpVersion {
    Http1,
    Http2,
}

const BUSY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 2\r\n\
                      Connection: close\r\nContent-Length: 0\r\n\r\n";

impl Protocol for WebProtocol {
    type Config = WebConfig;

    fn admission(config: &WebConfig) -> &Admission {
        config.admission()
    }

    fn refusal(config: &WebConfig, _: Refusal) -> Option<Cow<'static, [u8]>> {
        // Under TLS nothing can be said without a handshake.
        config.tls().is_none().then_some(Cow::Borrowed(BUSY))
    }

    fn admits(&self, peer: SocketAddr) -> bool {
        self.0.gate().may_admit(self.0.site(), self.0.listener(), peer.ip())
    }

    async fn serve(self: Arc<Self>, incoming: Incoming<WebConfig>) {
        let (meter, drain) = (Arc::clone(&incoming.meter), incoming.drain.clone());
        let tasks = ConnectionTasks::default();
        tokio::select! {
            () = self.converse(incoming, &tasks) => {}
            () = drain.cut_when_over(&meter, LOGIN_TIME) => {}
        }
        tasks.end().await;
    }
}

impl WebProtocol {
    async fn converse(&self, incoming: Incoming<WebConfig>, tasks: &ConnectionTasks) {
        let Incoming { stream, peer, meter, unauthenticated, config, drain, .. } = incoming;
        let metered = Metered::new(Gathering::new(stream), Arc::clone(&meter));
        let (transport, tls, certificate) = match config.tls() {
            None => (Transport::Clear(metered), None, None),
            Some(server) => match self.shake_hands(&config, server, metered).await {
                Ok(None) => return,
                Ok(Some(stream)) => {
                    let info = stream.info().clone();
                    let certificate = server.config().client(&info);
                    (Transport::Tls(Box::new(stream)), Some(info), certificate)
                }
                Err(error) => {
                    tracing::debug!(code = error.code(), %peer, %error, "no TLS");
                    return;
                }
            },
        };
        meter.advance(if tls.is_some() { Stage::Encrypted } else { Stage::Identified });
        let is_h2 = tls.as_ref().and_then(|tls| tls.protocol.as_deref()) == Some(H2);
        let version = if is_h2 { HttpVersion::Http2 } else { HttpVersion::Http1 };
        let activity = Arc::new(Activity::new(self.0.env().clone()));
        let mut stream = GuardedStream::new(transport, Arc::clone(&activity), Arc::clone(&meter));
        let heads = KeptHeads::default();
        if version == HttpVersion::Http1 && config.serves(HttpService::As2) {
            stream = stream.with_heads(heads.clone());
        }
        let start = ConnectionStart {
            peer,
            meter,
            activity,
            config,
            tls,
            certificate,
            unauthenticated,
            tasks: tasks.clone(),
            heads,
        };
        let connection = Arc::new(Connection::new(&self.0, start).await);
        self.carry(version, stream, &connection, &drain).await;
    }

    /// `None`: an authority has checked a name, and wants nothing else.
    async fn shake_hands(
        &self,
        config: &WebConfig,
        server: &TlsServer,
        stream: Socket,
    ) -> Result<Option<TlsStream<Socket>>, HandshakeError> {
        if config.answers_challenges() {
            challenges::accept(&self.0, server, stream).await
        } else {
            server.accept(stream).await.map(Some)
        }
    }

    /// Answers requests until the connection ends or must end; then those that are being answered.
    async fn carry(
        &self,
        version: HttpVersion,
        stream: GuardedStream,
        connection: &Arc<Connection>,
        drain: &Drain,
    ) {
        let remains = stream.remains();
        let ended = self.answer_requests(version, stream, connection, drain).await;
        if let Err(error) = ended {
            tracing::debug!(peer = %connection.peer, %error, "a connection broke");
            if !connection.is_closing() {
                remains.read_on().await;
            }
        }
        // What is read on of a refused request is read on over this connection.
        connection.tasks.finish().await;
    }

    async fn answer_requests(
        &self,
        version: HttpVersion,
        stream: GuardedStream,
        connection: &Arc<Connection>,
        drain: &Drain,
    ) -> Result<(), Box<dyn Error + Send + Sync>> {
        let builder = builder(version, connection.tasks.clone());
        let service = service_fn(|request| {
            let (shared, connection) = (Arc::clone(&self.0), Arc::clone(connection));
            async move { Ok::<_, Infallible>(request::answer(shared, connection, request).await) }
        });
        let mut conversation = pin!(builder.serve_connection(TokioIo::new(stream), service));
        let talking = async {
            tokio::select! {
                ended = conversation.as_mut() => return ended,
                () = must_close(version, connection, drain) => {}
            }
            conversation.as_mut().graceful_shutdown();
            conversation.await
        };
        tokio::select! {
            ended = talking => ended,
            never = watch_pace(version, connection) => match never {},
        }
    }
}

/// Completes when no further request is to be taken.
async fn must_close(version: HttpVersion, connection: &Connection, drain: &Drain) {
    tokio::select! {
        _ = connection.meter.ending() => {}
        () = drain.stop.cancelled() => {}
        () = connection.closes_soon() => {}
        () = idle(version, connection) => {}
    }
}

/// Completes when nothing has been asked for too long.
async fn idle(version: HttpVersion, connection: &Connection) {
    let limit = connection.config.idle_time();
    loop {
        sleep(WATCH_INTERVAL).await;
        match (connection.activity.moment(), version) {
            // In HTTP/2 what comes between requests need not be the beginning of one.
            (Moment::Resting(time), _) | (Moment::Beginning(time), HttpVersion::Http2)
                if time >= limit =>
            {
                return;
            }
            _ => {}
        }
    }
}

/// Ends the connection of a client that sends a head, or takes an answer, too slowly.
async fn watch_pace(version: HttpVersion, connection: &Connection) -> Infallible {
    let config = &connection.config;
    loop {
        sleep(WATCH_INTERVAL).await;
        match (connection.activity.moment(), version) {
            (Moment::Beginning(time), HttpVersion::Http1) if time >= config.header_time() => {
                connection.end(EndClass::Protocol, "the head of a request came too slowly");
            }
            (Moment::Running(time), _) if time >= config.answer_time() => {
                connection.end(EndClass::Decision, "the client took nothing of its answer");
            }
            _ => {}
        }
    }
}

fn builder(version: HttpVersion, tasks: ConnectionTasks) -> auto::Builder<ConnectionTasks> {
    let mut builder = auto::Builder::new(tasks);
    builder
        .http1()
        .timer(TokioTimer::new())
        // Heads that come slowly are the matter of `watch`, which tells them from idle clients.
        .header_read_timeout(None)
        .max_buf_size(HEAD_BYTES)
        .max_headers(HEAD_FIELDS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_BYTES)
        .max_header_list_size(FIELD_LIST_BYTES)
        .max_send_buf_size(SEND_BYTES)
        .max_pending_accept_reset_streams(RESET_STREAMS)
        .max_local_error_reset_streams(FAULTY_STREAMS)
        .keep_alive_interval(PING_TIME)
        .keep_alive_timeout(PING_TIME);
    match version {
        HttpVersion::Http1 => builder.http1_only(),
        HttpVersion::Http2 => builder.http2_only(),
    }
}
