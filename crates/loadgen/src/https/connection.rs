//! Connections of HTTP/1.1 and HTTP/2, and requests over them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::tls::{LoadClient, TlsVersion};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper::header::{AUTHORIZATION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;

use super::bench::{HttpVersion, Login, Scheme, Target};
use super::content::Content;
use super::error::BenchError;
use crate::limits::{CONNECT_TIME, CONNECTION_WINDOW, FRAME_BYTES, SEND_BYTES, STREAM_WINDOW};
use crate::report::Counts;

/// The name of HTTP/2 in ALPN.
const H2: &[u8] = b"h2";

/// Makes connections to the server under test.
pub(crate) struct Dialler {
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
pub(crate) struct Line(Mutex<Option<Http2>>);

#[derive(Clone)]
struct Http2 {
    sender: http2::SendRequest<Content>,
    _driver: Arc<Driver>,
}

/// What drives a connection; it ends with the last stream that uses it.
pub(crate) struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Where one stream sends its requests.
pub(crate) enum Sender {
    Http1 { sender: http1::SendRequest<Content>, _driver: Driver },
    Http2 { sender: http2::SendRequest<Content>, _driver: Arc<Driver> },
}

impl Dialler {
    /// # Errors
    /// The host is no name.
    pub(crate) fn new(
        target: &Target,
        version: HttpVersion,
        tls_version: TlsVersion,
    ) -> Result<Dialler, BenchError> {
        let protocol = match version {
            HttpVersion::Http1 => b"http/1.1".as_slice(),
            HttpVersion::Http2 => H2,
        };
        let client = || {
            let host = target.host.trim_matches(['[', ']']);
            let client = LoadClient::unverified(host, tls_version)?;
            Ok::<_, BenchError>(client.speaking(&[protocol]))
        };
        Ok(Dialler {
            host: target.host.clone(),
            port: target.port,
            version,
            tls: if target.scheme == Scheme::Https { Some(client()?) } else { None },
            resumed: AtomicU64::new(0),
            handshakes: AtomicU64::new(0),
        })
    }

    /// Reaches the server by a relay.
    pub(crate) fn by_way_of(&mut self, relay: std::net::SocketAddr) {
        (self.host, self.port) = (relay.ip().to_string(), relay.port());
    }

    /// Adds the handshakes since they were counted last.
    pub(crate) fn count_handshakes(&self, counts: &mut Counts) {
        counts.resumed += self.resumed.swap(0, Ordering::Relaxed);
        counts.handshakes += self.handshakes.swap(0, Ordering::Relaxed);
    }

    /// A connection: of HTTP/2 the one of the line, as long as it lives.
    pub(crate) async fn open(&self, line: &Line) -> Result<Sender, BenchError> {
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
                let builder = http1::Builder::new().title_case_headers(true).handshake(stream);
                let (sender, connection) = builder.await?;
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
    pub(crate) async fn cut(&self) {
        *self.0.lock().await = None;
    }
}

impl Sender {
    /// True if the server, or a fault, has ended the connection.
    pub(crate) fn is_closed(&self) -> bool {
        match self {
            Sender::Http1 { sender, .. } => sender.is_closed(),
            Sender::Http2 { sender, .. } => sender.is_closed(),
        }
    }

    pub(crate) async fn send(
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

/// Who sends requests, and where they go.
#[derive(Clone, Copy)]
pub(crate) struct Client<'a> {
    pub(crate) target: &'a Target,
    pub(crate) version: HttpVersion,
    pub(crate) login: Option<&'a Login>,
    /// Stands for `{n}` in the name.
    pub(crate) number: usize,
}

/// What all requests of a user have.
pub(crate) struct Fields {
    version: HttpVersion,
    /// Scheme, host and port, as HTTP/2 wants them.
    origin: String,
    common: HeaderMap,
}

impl Fields {
    /// Of one user.
    ///
    /// # Errors
    /// The host cannot be named.
    pub(crate) fn new(client: Client<'_>) -> Result<Fields, BenchError> {
        let Client { target, version, login, number } = client;
        let scheme = if target.scheme == Scheme::Https { "https" } else { "http" };
        let authority = format!("{}:{}", target.host, target.port);
        let value = |text: &str| HeaderValue::from_str(text).map_err(hyper::http::Error::from);
        let mut common = HeaderMap::new();
        if version == HttpVersion::Http1 {
            common.insert(HOST, value(&authority)?);
        }
        if let Some(login) = login {
            let user = login.user.replace("{n}", &number.to_string());
            let password = String::from_utf8_lossy(login.password.expose());
            let pair = STANDARD.encode(format!("{user}:{password}"));
            common.insert(AUTHORIZATION, value(&format!("Basic {pair}"))?);
        }
        Ok(Fields { version, origin: format!("{scheme}://{authority}"), common })
    }

    /// All bodies are JSON.
    pub(crate) fn speak_json(&mut self) {
        self.common.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    }

    /// A request for a path, or for a whole address of the same server.
    pub(crate) fn request(
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
pub(crate) async fn read(method: &str, response: Response<Incoming>) -> Result<u64, BenchError> {
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
