//! A bare server of HTTP, under TLS or in clear text. It takes PUT, GET and DELETE of any path, and
//! the core of tus with creation: POST, HEAD, PATCH.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use entrepot_net::listen::{self, TcpAcceptor};
use entrepot_net::tls::{
    ClientCertificates, TlsConfig, TlsOptions, TlsServer, TlsVersion, self_signed,
};
use entrepot_nouns::Env;
use http_body_util::BodyExt as _;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{HeaderValue, LOCATION};
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinSet;

use super::bench::Scheme;
use super::error::BenchError;
use crate::bare::BareServer;
use crate::bare::files::{File, Files};
use crate::limits::{BARE_FILE_BYTES, BLOCK_BYTES, CONNECTION_WINDOW, FRAME_BYTES, STREAM_WINDOW};

const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
const OFFSET: &str = "upload-offset";

/// A file on its way to the client.
struct Sent {
    blocks: VecDeque<Bytes>,
    left: u64,
}

/// Serves HTTP from memory, under TLS with a certificate of its own making, or in clear text.
///
/// # Errors
/// The address is taken, or no certificate can be made.
pub fn serve_bare(
    address: SocketAddr,
    scheme: Scheme,
    env: &Env,
) -> Result<BareServer, BenchError> {
    let tls = if scheme == Scheme::Https { Some(own_tls(env)?) } else { None };
    let acceptor = listen::bind(address)?;
    let address = acceptor.local_address();
    Ok(BareServer::spawn(address, serve(acceptor, tls)))
}

fn own_tls(env: &Env) -> Result<TlsServer, BenchError> {
    let own = self_signed(vec!["localhost".to_owned()]).map_err(std::io::Error::other)?;
    let options = TlsOptions {
        chain: own.chain.into_bytes(),
        key: own.key,
        clients: ClientCertificates::Off,
        least: TlsVersion::Tls12,
    };
    let config = TlsConfig::new(&options, env).map_err(std::io::Error::other)?;
    Ok(config.server(&PROTOCOLS))
}

async fn serve(acceptor: TcpAcceptor, tls: Option<TlsServer>) {
    let files = Arc::new(Files::default());
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = acceptor.accept().await;
        while connections.try_join_next().is_some() {}
        let (tls, files) = (tls.clone(), Arc::clone(&files));
        connections.spawn(async move {
            // Without it answers in two pieces wait for an acknowledgement.
            if stream.set_nodelay(true).is_err() {
                return;
            }
            let Some(tls) = tls else { return carry(stream, Version::Http1, files).await };
            let Ok(stream) = tls.accept(stream).await else { return };
            let is_h2 = stream.info().protocol.as_deref() == Some(b"h2");
            let version = if is_h2 { Version::Http2 } else { Version::Http1 };
            carry(stream, version, files).await;
        });
    }
}

enum Version {
    Http1,
    Http2,
}

async fn carry<S>(stream: S, version: Version, files: Arc<Files>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |request| {
        let files = Arc::clone(&files);
        async move { Ok::<_, Infallible>(answer(&files, request).await) }
    });
    let stream = TokioIo::new(stream);
    // A connection that breaks is the client's matter.
    match version {
        Version::Http1 => drop(http1::Builder::new().serve_connection(stream, service).await),
        Version::Http2 => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_frame_size(FRAME_BYTES);
            drop(builder.serve_connection(stream, service).await);
        }
    }
}

async fn answer(files: &Files, request: Request<Incoming>) -> Response<Sent> {
    let path = request.uri().path().to_owned();
    match *request.method() {
        Method::PUT => {
            let body = request.into_body();
            let expected = body.size_hint().exact().and_then(|size| usize::try_from(size).ok());
            let file = File::new(expected.unwrap_or(BLOCK_BYTES));
            let whole = receive(&file, body, 0).await;
            if whole {
                files.put(path, file);
            }
            said(if whole { StatusCode::CREATED } else { StatusCode::BAD_REQUEST })
        }
        // A folder is as empty as it can be.
        Method::GET if path.ends_with('/') => said(StatusCode::OK),
        Method::GET => match files.find(&path) {
            Some(file) => Response::new(Sent::of(&file.lock())),
            None => said(StatusCode::NOT_FOUND),
        },
        Method::DELETE if files.remove(&path) => said(StatusCode::NO_CONTENT),
        Method::DELETE => said(StatusCode::NOT_FOUND),
        Method::POST => create(files, &path),
        Method::HEAD => match files.find(&path) {
            Some(file) => stands_at(file.lock().size(), StatusCode::OK),
            None => said(StatusCode::NOT_FOUND),
        },
        Method::PATCH => append(files, &path, request).await,
        _ => said(StatusCode::METHOD_NOT_ALLOWED),
    }
}

/// An upload of tus: a file whose name nobody else has.
fn create(files: &Files, path: &str) -> Response<Sent> {
    let name = files.put_unnamed(path.trim_end_matches('/'));
    let mut answer = said(StatusCode::CREATED);
    if let Ok(location) = HeaderValue::from_str(&name) {
        answer.headers_mut().insert(LOCATION, location);
    }
    answer
}

async fn append(files: &Files, path: &str, request: Request<Incoming>) -> Response<Sent> {
    let offset = request.headers().get(OFFSET).and_then(|value| value.to_str().ok());
    let offset = offset.and_then(|value| value.parse::<u64>().ok());
    let Some(file) = files.find(path) else { return said(StatusCode::NOT_FOUND) };
    let writer = {
        let mut file = file.lock();
        if offset != Some(file.size()) {
            return said(StatusCode::CONFLICT);
        }
        file.writer += 1;
        file.writer
    };
    if !receive(&file, request.into_body(), writer).await {
        return said(StatusCode::BAD_REQUEST);
    }
    let size = file.lock().size();
    stands_at(size, StatusCode::NO_CONTENT)
}

/// Adds a body to a file; true if all of it came.
async fn receive(file: &Mutex<File>, mut body: Incoming, writer: u64) -> bool {
    while let Some(frame) = body.frame().await {
        let Ok(Ok(data)) = frame.map(Frame::into_data) else { return false };
        let mut file = file.lock();
        let size = file.size().saturating_add(data.len() as u64);
        if file.writer != writer || size > BARE_FILE_BYTES {
            return false;
        }
        file.append(&data);
    }
    true
}

impl Sent {
    fn of(file: &File) -> Sent {
        Sent { blocks: file.blocks(), left: file.size() }
    }
}

fn said(status: StatusCode) -> Response<Sent> {
    let mut answer = Response::new(Sent { blocks: VecDeque::new(), left: 0 });
    *answer.status_mut() = status;
    answer
}

fn stands_at(offset: u64, status: StatusCode) -> Response<Sent> {
    let mut answer = said(status);
    answer.headers_mut().insert(OFFSET, HeaderValue::from(offset));
    answer
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(block) = self.blocks.pop_front() else { return Poll::Ready(None) };
        self.left = self.left.saturating_sub(block.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(block))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
