//! A server that does nothing but HTTP under TLS, with files in memory: what the protocol alone
//! costs with the libraries that this program uses, as the floor of what is measured beside it.
//!
//! It takes PUT, GET and DELETE of any path, and the core of tus with creation: POST, HEAD, PATCH.
//! It knows no accounts, and whoever reaches it can fill the memory: it is for measuring.

use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
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
use tokio::task::{JoinHandle, JoinSet};

use super::bench::Scheme;
use super::error::BenchError;
use crate::limits::{BARE_FILE_BYTES, BLOCK_BYTES, CONNECTION_WINDOW, FRAME_BYTES, STREAM_WINDOW};

const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];
const OFFSET: &str = "upload-offset";

/// Serves until it is dropped.
#[derive(Debug)]
pub struct BareServer {
    address: SocketAddr,
    task: JoinHandle<()>,
}

#[derive(Default)]
struct Files(Mutex<HashMap<String, Arc<Mutex<File>>>>);

/// Copied into blocks, as a memory file system would.
struct File {
    full: Vec<Bytes>,
    /// The last block, while there is room in it.
    tail: BytesMut,
    /// The request that may add to it, by number: a later one takes that away from an earlier one
    /// whose connection has broken unnoticed.
    writer: u64,
}

/// A file on its way to the client.
struct Sent {
    blocks: VecDeque<Bytes>,
    left: u64,
}

impl BareServer {
    /// Listens, under TLS with a certificate of its own making, or in clear text.
    ///
    /// # Errors
    /// The address is taken, or no certificate can be made.
    pub fn start(address: SocketAddr, scheme: Scheme, env: &Env) -> Result<BareServer, BenchError> {
        let tls = if scheme == Scheme::Https { Some(own_tls(env)?) } else { None };
        let acceptor = listen::bind(address)?;
        let address = acceptor.local_address();
        Ok(BareServer { address, task: tokio::spawn(serve(acceptor, tls)) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for BareServer {
    fn drop(&mut self) {
        self.task.abort();
    }
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
        async move { Ok::<_, Infallible>(files.answer(request).await) }
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

impl File {
    fn new(expected: Option<u64>) -> Arc<Mutex<File>> {
        let expected = expected.and_then(|size| usize::try_from(size).ok());
        let room = expected.unwrap_or(BLOCK_BYTES).min(BLOCK_BYTES);
        Arc::new(Mutex::new(File {
            full: Vec::new(),
            tail: BytesMut::with_capacity(room),
            writer: 0,
        }))
    }

    fn size(&self) -> u64 {
        (self.full.len() * BLOCK_BYTES + self.tail.len()) as u64
    }

    fn append(&mut self, mut data: Bytes) {
        while !data.is_empty() {
            let room = BLOCK_BYTES.saturating_sub(self.tail.len());
            let piece = data.split_to(room.min(data.len()));
            if self.tail.is_empty() && self.tail.capacity() < piece.len() {
                self.tail = BytesMut::with_capacity(BLOCK_BYTES);
            }
            self.tail.extend_from_slice(&piece);
            if self.tail.len() == BLOCK_BYTES {
                self.full.push(std::mem::take(&mut self.tail).freeze());
            }
        }
    }

    fn sent(&self) -> Sent {
        let mut blocks: VecDeque<Bytes> = self.full.iter().cloned().collect();
        if !self.tail.is_empty() {
            blocks.push_back(Bytes::copy_from_slice(&self.tail));
        }
        Sent { blocks, left: self.size() }
    }
}

impl Files {
    async fn answer(&self, request: Request<Incoming>) -> Response<Sent> {
        let path = request.uri().path().to_owned();
        match *request.method() {
            Method::PUT => {
                let body = request.into_body();
                let file = File::new(body.size_hint().exact());
                let whole = receive(&file, body, 0).await;
                if whole {
                    self.0.lock().insert(path, file);
                }
                said(if whole { StatusCode::CREATED } else { StatusCode::BAD_REQUEST })
            }
            // A folder is as empty as it can be.
            Method::GET if path.ends_with('/') => said(StatusCode::OK),
            Method::GET => match self.find(&path) {
                Some(file) => Response::new(file.lock().sent()),
                None => said(StatusCode::NOT_FOUND),
            },
            Method::DELETE => match self.0.lock().remove(&path) {
                Some(_) => said(StatusCode::NO_CONTENT),
                None => said(StatusCode::NOT_FOUND),
            },
            Method::POST => self.create(&path),
            Method::HEAD => match self.find(&path) {
                Some(file) => stands_at(file.lock().size(), StatusCode::OK),
                None => said(StatusCode::NOT_FOUND),
            },
            Method::PATCH => self.append(&path, request).await,
            _ => said(StatusCode::METHOD_NOT_ALLOWED),
        }
    }

    fn find(&self, path: &str) -> Option<Arc<Mutex<File>>> {
        self.0.lock().get(path).cloned()
    }

    /// An upload of tus: a file whose name nobody else has.
    fn create(&self, path: &str) -> Response<Sent> {
        let mut files = self.0.lock();
        let folder = path.trim_end_matches('/');
        let names = (files.len()..).map(|number| format!("{folder}/{number}"));
        let free = names.into_iter().find(|name| !files.contains_key(name));
        let mut answer = said(StatusCode::CREATED);
        if let Some(name) = free {
            if let Ok(location) = HeaderValue::from_str(&name) {
                answer.headers_mut().insert(LOCATION, location);
            }
            files.insert(name, File::new(None));
        }
        answer
    }

    async fn append(&self, path: &str, request: Request<Incoming>) -> Response<Sent> {
        let offset = request.headers().get(OFFSET).and_then(|value| value.to_str().ok());
        let offset = offset.and_then(|value| value.parse::<u64>().ok());
        let Some(file) = self.find(path) else { return said(StatusCode::NOT_FOUND) };
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
        file.append(data);
    }
    true
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
