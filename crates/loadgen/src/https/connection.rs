//! Connections of HTTP/1.1 and HTTP/2, and requests over them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::tls::LoadClient;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::bench::{HttpVersion, HttpsBench, Scheme};
use super::content::Content;
use super::error::BenchError;
use crate::limits::{CONNECT_TIME, CONNECTION_WINDOW, FRAME_BYTES, SEND_BYTES, STREAM_WINDOW};
use crate::report::Counts;

/// The name of HTTP/2 in ALPN.
const H2: &[u8] = b"h2";

/// Makes connections to the server under test.
pub(super) struct Dialler {
    /// Where it is reached, which may be a relay.
    host: String,
    port: u16,
    version: HttpVersion,
    tls: Option<LoadClient>,
    resumed: AtomicU64,
    handshakes: AtomicU64,
}

/// One connection that several streams of HTTP/2 share; of HTTP/1.1 it holds nothing.
#[derive(Default)]
pub(super) struct Line(Mutex<Option<Http2>>);

#[derive(Clone)]
struct Http2 {
    sender: http2::SendRequest<Content>,
    _driver: Arc<Driver>,
}

/// What drives a connection; it ends with the last stream that uses it.
pub(super) struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Where one stream sends its requests.
pub(super) enum Sender {
    Http1 { sender: http1::SendRequest<Content>, _driver: Driver },
    Http2 { sender: http2::SendRequest<Content>, _driver: Arc<Driver> },
}

impl Dialler {
    /// # Errors
    /// The host is no name.
    pub(super) fn new(bench: &HttpsBench) -> Result<Dialler, BenchError> {
        let target = &bench.target;
        let protocol = match bench.version {
            HttpVersion::Http1 => b"http/1.1".as_slice(),
            HttpVersion::Http2 => H2,
        };
        let client = || {
            let host = target.host.trim_matches(['[', ']']);
            let client = LoadClient::unverified(host, bench.tls_version)?;
            Ok::<_, BenchError>(client.speaking(&[protocol]))
        };
        Ok(Dialler {
            host: target.host.clone(),
            port: target.port,
            version: bench.version,
            tls: if target.scheme == Scheme::Https { Some(client()?) } else { None },
            resumed: AtomicU64::new(0),
            handshakes: AtomicU64::new(0),
        })
    }

    /// Reaches the server by a relay.
    pub(super) fn by_way_of(&mut self, relay: std::net::SocketAddr) {
        (self.host, self.port) = (relay.ip().to_string(), relay.port());
    }

    /// Adds the handshakes since they were counted last.
    pub(super) fn count_handshakes(&self, counts: &mut Counts) {
        counts.resumed += self.resumed.swap(0, Ordering::Relaxed);
        counts.handshakes += self.handshakes.swap(0, Ordering::Relaxed);
    }

    /// A connection: of HTTP/2 the one of the line, as long as it lives.
    pub(super) async fn open(&self, line: &Line) -> Result<Sender, BenchError> {
        if self.version == HttpVersion::Http1 {
            return self.connect().await;
        }
        let mut shared = line.0.lock().await;
        if let Some(Http2 { sender, _driver }) = shared.clone()
            && !sender.is_closed()
        {
            return Ok(Sender::Http2 { sender, _driver });
        }
        let opened = self.connect().await?;
        if let Sender::Http2 { sender, _driver } = &opened {
            *shared = Some(Http2 { sender: sender.clone(), _driver: Arc::clone(_driver) });
        }
        Ok(opened)
    }

    async fn connect(&self) -> Result<Sender, BenchError> {
        let policy = DialPolicy { allow_private: true };
        let stream = dial::tcp(&self.host, self.port, &policy, CONNECT_TIME).await?;
        let Some(tls) = &self.tls else { return self.speak(stream).await };
        let (stream, resumed) = tls.connect(stream).await?;
        self.handshakes.fetch_add(1, Ordering::Relaxed);
        self.resumed.fetch_add(u64::from(resumed), Ordering::Relaxed);
        if self.version == HttpVersion::Http2 && stream.get_ref().1.alpn_protocol() != Some(H2) {
            return Err(BenchError::NoHttp2);
        }
        self.speak(stream).await
    }

    async fn speak<S>(&self, stream: S) -> Result<Sender, BenchError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let stream = TokioIo::new(stream);
        // How a connection ends is seen by the requests on it.
        match self.version {
            HttpVersion::Http1 => {
                let (sender, connection) = http1::handshake(stream).await?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                Ok(Sender::Http1 { sender, _driver: Driver(driver) })
            }
            HttpVersion::Http2 => {
                let mut builder = http2::Builder::new(TokioExecutor::new());
                builder
                    .initial_stream_window_size(STREAM_WINDOW)
                    .initial_connection_window_size(CONNECTION_WINDOW)
                    .max_frame_size(FRAME_BYTES)
                    .max_send_buf_size(SEND_BYTES);
                let (sender, connection) = builder.handshake(stream).await?;
                let driver = tokio::spawn(async move { drop(connection.await) });
                Ok(Sender::Http2 { sender, _driver: Arc::new(Driver(driver)) })
            }
        }
    }
}

impl Line {
    /// Ends the connection for all who share it.
    pub(super) async fn cut(&self) {
        *self.0.lock().await = None;
    }
}

impl Sender {
    /// True if the server, or a fault, has ended the connection.
    pub(super) fn is_closed(&self) -> bool {
        match self {
            Sender::Http1 { sender, .. } => sender.is_closed(),
            Sender::Http2 { sender, .. } => sender.is_closed(),
        }
    }

    pub(super) async fn send(
        &mut self,
        request: Request<Content>,
    ) -> Result<Response<Incoming>, BenchError> {
        match self {
            Sender::Http1 { sender, .. } => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
            Sender::Http2 { sender, .. } => {
                sender.ready().await?;
                Ok(sender.send_request(request).await?)
            }
        }
    }
}

/// What all requests of a user have.
pub(super) struct Fields {
    version: HttpVersion,
    /// Scheme, host and port, as HTTP/2 wants them.
    origin: String,
    common: HeaderMap,
}

impl Fields {
    /// Of the user with this number.
    ///
    /// # Errors
    /// The host cannot be named.
    pub(super) fn new(bench: &HttpsBench, number: usize) -> Result<Fields, BenchError> {
        let target = &bench.target;
        let scheme = if target.scheme == Scheme::Https { "https" } else { "http" };
        let authority = format!("{}:{}", target.host, target.port);
        let value = |text: &str| HeaderValue::from_str(text).map_err(hyper::http::Error::from);
        let mut common = HeaderMap::new();
        if bench.version == HttpVersion::Http1 {
            common.insert(HOST, value(&authority)?);
        }
        if let Some(login) = &bench.login {
            let user = login.user.replace("{n}", &number.to_string());
            let password = String::from_utf8_lossy(login.password.expose());
            let pair = STANDARD.encode(format!("{user}:{password}"));
            common.insert(AUTHORIZATION, value(&format!("Basic {pair}"))?);
        }
        Ok(Fields { version: bench.version, origin: format!("{scheme}://{authority}"), common })
    }

    /// A request for a path, or for a whole address of the same server.
    pub(super) fn request(
        &self,
        method: Method,
        path: &str,
        content: Content,
    ) -> Result<Request<Content>, BenchError> {
        let address = match self.version {
            HttpVersion::Http1 => path.to_owned(),
            HttpVersion::Http2 => format!("{}{path}", self.origin),
        };
        let announces = method == Method::PUT || method == Method::PATCH || method == Method::POST;
        let mut request = Request::builder().method(method).uri(address);
        if let Some(fields) = request.headers_mut() {
            *fields = self.common.clone();
            if announces {
                fields.insert(CONTENT_LENGTH, HeaderValue::from(content.length()));
            }
        }
        Ok(request.body(content)?)
    }
}

/// Reads an answer to its end; answers its bytes.
///
/// # Errors
/// It breaks off, or is a refusal.
pub(super) async fn read(method: &str, response: Response<Incoming>) -> Result<u64, BenchError> {
    let status = response.status();
    let mut body = response.into_body();
    let mut count = 0u64;
    while let Some(frame) = body.frame().await {
        count = count.saturating_add(frame?.data_ref().map_or(0, |data| data.len() as u64));
    }
    if !status.is_success() {
        return Err(BenchError::Refused { method: method.to_owned(), status });
    }
    Ok(count)
}
