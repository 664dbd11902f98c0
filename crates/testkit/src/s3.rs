//! A real S3 server for tests: s3s over a directory, on a free port of loopback, in a thread of
//! its own.

mod bucket;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use hyper::body::Incoming;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use s3s::auth::SimpleAuth;
use s3s::service::{S3Service, S3ServiceBuilder};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// Access key id that the server knows.
pub const ACCESS_KEY_ID: &str = "AKIDEXAMPLE";
/// Its secret key.
pub const SECRET_KEY: &str = "test-secret-key";
/// The bucket that is there from the start.
pub const BUCKET: &str = "bucket";

/// What a request meets before it is served: a wait, and a refusal that is all its answer.
type Gate = dyn Fn(String) -> Pin<Box<dyn Future<Output = Option<StatusCode>> + Send>> + Send;

/// The gate of a server, if it has one.
type Gates = Arc<Mutex<Option<Box<Gate>>>>;

/// A running S3 server with one empty bucket; stops when dropped. Its objects lie in
/// `root/bucket` as plain files.
pub struct S3Server {
    address: SocketAddr,
    root: tempfile::TempDir,
    gate: Gates,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl S3Server {
    /// Starts it.
    ///
    /// # Errors
    /// What the system says of the directory, the port or the thread.
    pub fn start() -> Result<Self> {
        let root = tempfile::tempdir().context("a directory for objects")?;
        std::fs::create_dir(root.path().join(BUCKET))?;
        let mut builder = S3ServiceBuilder::new(bucket::Buckets::new(root.path())?);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY_ID, SECRET_KEY));
        let service = builder.build();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let (path, gate) = (root.path().to_owned(), Gates::default());
        let gates = Arc::clone(&gate);
        let thread = std::thread::Builder::new().name("s3".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let run = serve(service, (path, gates), tell, stopped);
            if let Err(error) = runtime.map_err(Into::into).and_then(|it| it.block_on(run)) {
                eprintln!("the S3 server of the test ended: {error:#}");
            }
        })?;
        let address = told.recv().context("the S3 server did not start")?;
        Ok(S3Server { address, root, gate, stop: Some(stop), thread: Some(thread) })
    }

    /// Base URL, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The document of an endpoint with this name on [`BUCKET`]; further fields of the target may
    /// follow, six blanks before each.
    pub fn endpoint(&self, name: &str) -> String {
        format!(
            "endpoint:\n  name: {name}\n  target:\n    object:\n      bucket: {BUCKET}\n      \
             url: {}\n      access_key_id: {ACCESS_KEY_ID}\n      secret_key: {SECRET_KEY}\n      \
             allow_private: true\n",
            self.url()
        )
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the objects of [`BUCKET`] lie as files.
    pub fn objects(&self) -> PathBuf {
        self.root.path().join(BUCKET)
    }

    /// Asks `gate` before a request for an object is served: its method (`COPY` for a copy) and
    /// the key, as in `PUT some/key`. What it answers, a status, is answered instead of serving.
    /// A request that came is served also if its client goes.
    pub fn set_gate<F>(&self, gate: impl Fn(String) -> F + Send + 'static)
    where
        F: Future<Output = Option<u16>> + Send + 'static,
    {
        let gate = move |request| {
            let answer = gate(request);
            let status = async move { answer.await.and_then(|code| code.try_into().ok()) };
            Box::pin(status) as Pin<Box<dyn Future<Output = Option<StatusCode>> + Send>>
        };
        *self.gate.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(gate));
    }

    /// Parts of uploads that are neither completed nor aborted.
    ///
    /// # Errors
    /// What the system says of the directory.
    pub fn orphan_parts(&self) -> Result<usize> {
        let names = std::fs::read_dir(self.root.path())?;
        let is_part = |name: &str| name.starts_with(".upload_id-") || name.contains(".part-");
        Ok(names.flatten().filter(|e| e.file_name().to_str().is_some_and(is_part)).count())
    }
}

impl Drop for S3Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

async fn serve(
    service: S3Service,
    (root, gates): (PathBuf, Gates),
    tell: std::sync::mpsc::Sender<SocketAddr>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
    tell.send(listener.local_addr()?)?;
    let mut tasks = tokio::task::JoinSet::new();
    loop {
        let (socket, _) = tokio::select! {
            accepted = listener.accept() => accepted?,
            _ = &mut stopped => break,
        };
        socket.set_nodelay(true)?;
        let (service, root, gates) = (service.clone(), root.clone(), Arc::clone(&gates));
        tasks.spawn(async move {
            let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
                let (service, missing) = (service.clone(), asks_for_a_directory(&root, &request));
                let gate = gates.lock().unwrap_or_else(PoisonError::into_inner);
                let gate = gate.as_ref().map(|gate| gate(line(&request)));
                async move {
                    if missing {
                        return Ok(refusal(StatusCode::NOT_FOUND));
                    }
                    let Some(gate) = gate else {
                        return service.call(request.map(s3s::Body::from)).await;
                    };
                    let served = tokio::spawn(async move {
                        match gate.await {
                            Some(status) => Ok(refusal(status)),
                            None => service.call(request.map(s3s::Body::from)).await,
                        }
                    });
                    let failed = |_| Ok(refusal(StatusCode::INTERNAL_SERVER_ERROR));
                    served.await.unwrap_or_else(failed)
                }
            });
            let builder = Builder::new(TokioExecutor::new());
            // A client that goes away is no matter of the server's.
            let _ = builder.serve_connection(TokioIo::new(socket), answer).await;
        });
    }
    tasks.shutdown().await;
    Ok(())
}

fn refusal(status: StatusCode) -> Response<s3s::Body> {
    let mut response = Response::new(s3s::Body::empty());
    *response.status_mut() = status;
    response
}

/// A request as a gate sees it.
fn line(request: &Request<Incoming>) -> String {
    let path = decode(request.uri().path().trim_start_matches('/'));
    let key = path.split_once('/').map_or("", |(_, key)| key);
    if request.headers().contains_key("x-amz-copy-source") {
        format!("COPY {key}")
    } else {
        format!("{} {key}", request.method())
    }
}

/// s3s-fs 0.14 answers for a directory of the disk as if it were an object; S3 has no such object.
fn asks_for_a_directory(root: &Path, request: &Request<Incoming>) -> bool {
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    let path = request.uri().path().trim_start_matches('/');
    let has_key = path.split_once('/').is_some_and(|(_, key)| !key.is_empty());
    reads && has_key && root.join(decode(path)).is_dir()
}

/// Percent-decodes.
fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let hex = after.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let code = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        rest = after;
        match (first, code) {
            (b'%', Some(code)) => {
                bytes.push(code);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => bytes.push(first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
