//! A client of HTTP/1.1 (RFC 9110, RFC 9112) over TCP, TLS or a Unix socket.
//!
//! What it guarantees:
//! 1. Connections are made by [`dial`], so that no URL leads into a private network unless the
//!    request allows it.
//! 2. A request has a connection of its own and is sent once: no redirection is followed, nothing
//!    is tried again.
//! 3. The head of a response is limited in bytes and fields, its body by the caller, and each wait
//!    for the server has a limit. Dropping a response closes its connection.

use std::error::Error as _;
use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use hyper::client::conn::http1;
use hyper::http::uri::{PathAndQuery, Scheme, Uri};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;

pub use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
pub use hyper::{Method, StatusCode};

use crate::dial::{self, DialPolicy};
use crate::dialled::Dialled;
use crate::error::NetError;
use crate::limits::{HTTP_BODY_TIME, HTTP_FIELDS, HTTP_HEAD_BYTES, HTTP_HEAD_TIME};
use crate::tls::{
    ClientIdentity, HandshakeError, ServerTls, ServerTrust, TlsClient, TlsConfigError,
};

mod outgoing;
#[cfg(test)]
mod tests;

use outgoing::Outgoing;
pub use outgoing::{BodyWriter, NotTaken, StreamedBody, streamed};

/// Why there is no response, or only a part of one. [`HttpError::code`] names the page in
/// `docs/errors`.
#[derive(Debug, Error)]
pub enum HttpError {
    /// The URL cannot be used.
    #[error("'{url}' is no URL such as https://host.example/path")]
    Url {
        /// As it was given.
        url: String,
    },
    /// The request would leave this machine without TLS, and must not.
    #[error("'{host}' is not this machine, write https")]
    ClearText {
        /// The host of the URL.
        host: String,
    },
    /// No connection: the name, its addresses or the server.
    #[error(transparent)]
    Dial(#[from] NetError),
    /// The certificates to check the server by cannot be used.
    #[error(transparent)]
    Trust(#[from] TlsConfigError),
    /// The connection did not get into TLS, or the server's certificate is not trusted.
    #[error(transparent)]
    Handshake(#[from] HandshakeError),
    /// Nothing can be reached at the Unix socket.
    #[error("no server answers at the socket '{}': {error}", path.display())]
    Socket {
        /// The socket in the file system.
        path: PathBuf,
        /// What the system says.
        error: std::io::Error,
    },
    /// The server took longer than the request allows, for the head of the response or for the
    /// next part of its body.
    #[error("the server did not answer within {0:?}")]
    Timeout(Duration),
    /// The body of the response is longer than the caller reads.
    #[error("the response is longer than {0} bytes")]
    TooLong(usize),
    /// The connection broke, or what came is no response of HTTP/1.1 within the limits.
    #[error("the HTTP exchange failed: {0}")]
    Exchange(String),
}

impl HttpError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            HttpError::Url { .. } => "EP0260",
            HttpError::ClearText { .. } => "EP0261",
            HttpError::Dial(error) => error.code(),
            HttpError::Trust(error) => error.code(),
            HttpError::Handshake(error) => error.code(),
            HttpError::Socket { .. } => "EP0262",
            HttpError::Timeout(_) => "EP0263",
            HttpError::TooLong(_) => "EP0264",
            HttpError::Exchange(_) => "EP0265",
        }
    }

    /// True if trying again later may help without anyone changing anything. The server may have
    /// acted on a request whose response did not come.
    pub fn is_temporary(&self) -> bool {
        match self {
            HttpError::Dial(error) => error.is_temporary(),
            HttpError::Handshake(_)
            | HttpError::Socket { .. }
            | HttpError::Timeout(_)
            | HttpError::Exchange(_) => true,
            HttpError::Url { .. }
            | HttpError::ClearText { .. }
            | HttpError::Trust(_)
            | HttpError::TooLong(_) => false,
        }
    }
}

impl From<hyper::Error> for HttpError {
    fn from(error: hyper::Error) -> Self {
        let reason = match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        HttpError::Exchange(reason)
    }
}

/// To which servers a request may go without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClearText {
    /// To all that may be dialled.
    Anywhere,
    /// To those of this machine: what counts is the address of the connection, not the name.
    ThisMachine,
}

impl ClearText {
    fn allows(self, peer: SocketAddr) -> bool {
        match self {
            ClearText::Anywhere => true,
            ClearText::ThisMachine => peer.ip().to_canonical().is_loopback(),
        }
    }
}

/// How the names of fields are written. They mean the same, and old servers know one of them alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HeaderCase {
    /// Small letters, as in `content-type`.
    #[default]
    Lower,
    /// Words begin with a capital letter, as in `Content-Type`.
    Title,
}

/// A request. `Host`, `Connection` and `Content-Length` are set when it is
/// sent. Not `Debug`: headers and body may hold secrets.
pub struct Request {
    method: Method,
    target: Target,
    /// Fields of the head, besides those that the client sets.
    pub headers: HeaderMap,
    /// Empty unless it is set.
    pub body: Bytes,
    /// Sent instead of `body`.
    pub streamed: Option<StreamedBody>,
    /// How the names of its fields are written.
    pub case: HeaderCase,
    /// The addresses that may be dialled; only public ones unless it is set.
    pub dial: DialPolicy,
    /// Anywhere unless it is set: a URL of `http` is the choice of the one who wrote it.
    pub clear_text: ClearText,
    /// Time from the start to the head of the response, connecting, TLS and the body of the request
    /// included; [`HTTP_HEAD_TIME`] unless it is set.
    pub head_time: Duration,
    /// Time for each further part of the body of the response; [`HTTP_BODY_TIME`] unless it is
    /// set.
    pub body_time: Duration,
}

/// The host of a URL of `http` or `https`, in small letters; `None`: it is none that can be used.
pub fn host_of(url: &str) -> Option<String> {
    Target::parse(url).map(|target| target.host.to_ascii_lowercase())
}

/// The server that a URL names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UrlServer {
    /// Name or address; an IPv6 address in its brackets.
    pub host: String,
    /// The usual one of the scheme, if it names none.
    pub port: u16,
    /// Whether it is reached under TLS.
    pub is_tls: bool,
}

/// The server of a URL of `http` or `https`; `None`: it is none that can be used.
pub fn server_of(url: &str) -> Option<UrlServer> {
    let Target { scheme, host, port, .. } = Target::parse(url)?;
    Some(UrlServer { host, port, is_tls: scheme == Scheme::HTTPS })
}

/// Whether two URLs are of one origin: scheme, host and port (RFC 6454).
pub fn is_same_origin(one: &str, other: &str) -> bool {
    let origin = |url| {
        let Target { scheme, host, port, .. } = Target::parse(url)?;
        Some((scheme, host.to_ascii_lowercase(), port))
    };
    origin(one).is_some_and(|one| Some(one) == origin(other))
}

impl Request {
    /// A request without body for a URL of `http` or `https`.
    ///
    /// # Errors
    /// [`HttpError::Url`]: another scheme, no host, or a user name in it.
    pub fn new(method: Method, url: &str) -> Result<Self, HttpError> {
        let target = Target::parse(url).ok_or_else(|| HttpError::Url { url: url.to_owned() })?;
        Ok(Request {
            method,
            target,
            headers: HeaderMap::new(),
            body: Bytes::new(),
            streamed: None,
            case: HeaderCase::default(),
            dial: DialPolicy::default(),
            clear_text: ClearText::Anywhere,
            head_time: HTTP_HEAD_TIME,
            body_time: HTTP_BODY_TIME,
        })
    }

    /// With a field in its head.
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// With a body of a media type, such as `application/json`.
    pub fn content(mut self, media_type: HeaderValue, body: Bytes) -> Self {
        self.body = body;
        self.header(header::CONTENT_TYPE, media_type)
    }

    fn into_message(self) -> hyper::Request<Outgoing> {
        let is_empty = self.body.is_empty() && self.streamed.is_none();
        let wants_body = [Method::POST, Method::PUT, Method::PATCH].contains(&self.method);
        let body = self.streamed.map_or(Outgoing::Whole(self.body), Outgoing::Streamed);
        let mut message = hyper::Request::new(body);
        *message.method_mut() = self.method;
        *message.uri_mut() = Uri::from(self.target.path);
        *message.headers_mut() = self.headers;
        let headers = message.headers_mut();
        headers.insert(header::HOST, self.target.authority);
        headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
        // Derived from the body that is there, not from what the caller thinks of it.
        headers.remove(header::CONTENT_LENGTH);
        headers.remove(header::TRANSFER_ENCODING);
        if is_empty && wants_body {
            // RFC 9110 section 8.6: some servers refuse such a method without a length (411).
            headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        }
        message
    }
}

/// A URL in its parts.
struct Target {
    scheme: Scheme,
    /// Name or address; an IPv6 address in its brackets.
    host: String,
    port: u16,
    /// Host and, unless it is the usual one, port.
    authority: HeaderValue,
    path: PathAndQuery,
}

impl Target {
    fn parse(url: &str) -> Option<Self> {
        let parts = url.parse::<Uri>().ok()?.into_parts();
        let (scheme, authority) = (parts.scheme?, parts.authority?);
        let usual = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return None,
        };
        let host = authority.host().to_owned();
        if host.is_empty() || authority.as_str().contains('@') {
            return None;
        }
        let port = match authority.port() {
            Some(port) if port.as_str().bytes().all(|byte| byte.is_ascii_digit()) => port.as_u16(),
            None if authority.as_str() == host => usual,
            _ => return None,
        };
        let named = if port == usual { host.clone() } else { format!("{host}:{port}") };
        let authority = HeaderValue::try_from(named).ok()?;
        let path = parts.path_and_query.unwrap_or_else(|| PathAndQuery::from_static("/"));
        Some(Target { scheme, host, port, authority, path })
    }
}

/// Sends requests. Clones share what was read of the trusted certificates.
#[derive(Clone)]
pub struct Client(Arc<Route>);

/// How servers are reached.
enum Route {
    Network {
        trust: ServerTrust,
        /// What is shown to servers that ask who we are.
        identity: Option<ClientIdentity>,
        /// Made of `trust` at the first request under TLS.
        tls: OnceLock<TlsClient>,
    },
    Socket(PathBuf),
}

impl Client {
    /// Reaches servers over the network, and checks those of `https` by `trust`, which is read at
    /// the first request that needs it.
    pub fn new(trust: ServerTrust) -> Self {
        Client(Arc::new(Route::Network { trust, identity: None, tls: OnceLock::new() }))
    }

    /// The same, and shows a certificate to those that ask for one.
    pub fn with_identity(trust: ServerTrust, identity: ClientIdentity) -> Self {
        let identity = Some(identity);
        Client(Arc::new(Route::Network { trust, identity, tls: OnceLock::new() }))
    }

    /// Reaches the server behind a Unix socket, in clear text whatever the URL's scheme; of the
    /// URL only host, path and query are sent.
    pub fn over_socket(path: impl Into<PathBuf>) -> Self {
        Client(Arc::new(Route::Socket(path.into())))
    }

    /// Sends a request on a connection of its own, and waits for the head of its response. The
    /// response may have any status.
    ///
    /// # Errors
    /// Any of [`HttpError`] except [`HttpError::Url`] and [`HttpError::TooLong`].
    pub async fn send(&self, request: Request) -> Result<Response, HttpError> {
        let time = request.head_time;
        let sending = async {
            match &*self.0 {
                Route::Network { trust, identity, tls } => {
                    let known = Known { trust, identity: identity.as_ref(), tls };
                    let stream = connect(&request, known).await?;
                    let tls = stream.tls();
                    exchange(stream, request).await.map(|response| Response { tls, ..response })
                }
                Route::Socket(path) => {
                    let stream = UnixStream::connect(path)
                        .await
                        .map_err(|error| HttpError::Socket { path: path.clone(), error })?;
                    exchange(stream, request).await
                }
            }
        };
        let answered = tokio::time::timeout(time, sending).await;
        answered.unwrap_or(Err(HttpError::Timeout(time)))
    }
}

/// What a client knows of TLS.
struct Known<'a> {
    trust: &'a ServerTrust,
    identity: Option<&'a ClientIdentity>,
    tls: &'a OnceLock<TlsClient>,
}

/// Connects to the host of a request, and goes under TLS if its URL says so.
async fn connect(request: &Request, known: Known<'_>) -> Result<Dialled, HttpError> {
    let Known { trust, identity, tls } = known;
    let Target { scheme, host, port, .. } = &request.target;
    // The time of the request covers this.
    let stream = dial::tcp(host, *port, &request.dial, Duration::MAX).await?;
    if *scheme == Scheme::HTTPS {
        let client = match tls.get() {
            Some(known) => known.towards(host)?,
            None => {
                let made = TlsClient::proving(host, trust, identity)?;
                // Another request may have made one meanwhile, towards its own host.
                tls.get_or_init(|| made).towards(host)?
            }
        };
        let (stream, _) = Dialled::Clear(stream).start_tls(&client).await?;
        return Ok(stream);
    }
    if stream.peer_addr().is_ok_and(|peer| request.clear_text.allows(peer)) {
        return Ok(Dialled::Clear(stream));
    }
    Err(HttpError::ClearText { host: host.clone() })
}

async fn exchange<S>(stream: S, request: Request) -> Result<Response, HttpError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let body_time = request.body_time;
    let mut builder = http1::Builder::new();
    builder.max_headers(HTTP_FIELDS).max_buf_size(HTTP_HEAD_BYTES);
    builder.title_case_headers(request.case == HeaderCase::Title);
    let (mut sender, connection) = builder.handshake(TokioIo::new(stream)).await?;
    // How the connection ends says nothing that the response does not.
    let mut connection: Option<Connection> = Some(Box::pin(async move {
        let _ = connection.await;
    }));
    let sending = sender.send_request(request.into_message());
    let (head, frames) = alongside(&mut connection, sending).await?.into_parts();
    let body = Body { frames, connection, time: body_time };
    Ok(Response { status: head.status, headers: head.headers, tls: None, body })
}

/// What moves the bytes of a connection, until it ends.
type Connection = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Does `work`, and moves the bytes of the connection that it waits for.
async fn alongside<T>(connection: &mut Option<Connection>, work: impl Future<Output = T>) -> T {
    let mut work = pin!(work);
    poll_fn(|cx| {
        let ended = connection.as_mut().is_some_and(|it| it.as_mut().poll(cx).is_ready());
        if ended {
            *connection = None;
        }
        work.as_mut().poll(cx)
    })
    .await
}

/// The head of a response, and its body, which is still on its way.
#[derive(Debug)]
pub struct Response {
    /// As the server sent it; redirections and errors included.
    pub status: StatusCode,
    /// The fields of its head.
    pub headers: HeaderMap,
    /// What was agreed on, under TLS.
    pub tls: Option<ServerTls>,
    /// Its content, without the framing of HTTP.
    pub body: Body,
}

/// The body of a response. Dropping it closes the connection.
pub struct Body {
    frames: Incoming,
    /// `None` once it has ended.
    connection: Option<Connection>,
    time: Duration,
}

impl Body {
    /// The next bytes, as they come; `None` at the end. May be dropped while it waits, and called
    /// again.
    ///
    /// # Errors
    /// Nothing came in time, or the connection broke before the end of the body.
    pub async fn next(&mut self) -> Result<Option<Bytes>, HttpError> {
        loop {
            let frame = alongside(&mut self.connection, self.frames.frame());
            let frame = tokio::time::timeout(self.time, frame).await;
            match frame.map_err(|_| HttpError::Timeout(self.time))?.transpose()? {
                None => return Ok(None),
                // Trailer fields are not looked at.
                Some(frame) => {
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
            }
        }
    }

    /// All of it, unless it is longer than `limit` bytes.
    ///
    /// # Errors
    /// As [`Body::next`], or [`HttpError::TooLong`].
    pub async fn read_all(mut self, limit: usize) -> Result<Bytes, HttpError> {
        let fits = |length: u64| usize::try_from(length).is_ok_and(|length| length <= limit);
        if !fits(self.frames.size_hint().lower()) {
            return Err(HttpError::TooLong(limit));
        }
        let mut whole = BytesMut::new();
        while let Some(part) = self.next().await? {
            if part.len() > limit - whole.len() {
                return Err(HttpError::TooLong(limit));
            }
            whole.extend_from_slice(&part);
        }
        Ok(whole.freeze())
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").finish_non_exhaustive()
    }
}
