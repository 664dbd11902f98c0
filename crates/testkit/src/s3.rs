//! A real S3 server for tests: s3s over a directory, on a free port of loopback, in a thread of
//! its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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

/// A running S3 server with one empty bucket; stops when dropped. Its objects lie in
/// `root/bucket` as plain files.
pub struct S3Server {
    address: SocketAddr,
    root: tempfile::TempDir,
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
        let files = s3s_fs::FileSystem::new(root.path())
            .map_err(|error| anyhow::anyhow!("the S3 server: {error:?}"))?;
        let mut builder = S3ServiceBuilder::new(files);
        builder.set_auth(SimpleAuth::from_single(ACCESS_KEY_ID, SECRET_KEY));
        let service = builder.build();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let path = root.path().to_owned();
        let thread = std::thread::Builder::new().name("s3".to_owned()).spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let run = serve(service, path, tell, stopped);
            if let Err(error) = runtime.map_err(Into::into).and_then(|it| it.block_on(run)) {
                eprintln!("the S3 server of the test ended: {error:#}");
            }
        })?;
        let address = told.recv().context("the S3 server did not start")?;
        Ok(S3Server { address, root, stop: Some(stop), thread: Some(thread) })
    }

    /// Base URL, `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the objects of [`BUCKET`] lie as files.
    pub fn objects(&self) -> PathBuf {
        self.root.path().join(BUCKET)
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
    root: PathBuf,
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
        let (service, root) = (service.clone(), root.clone());
        tasks.spawn(async move {
            let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
                let (service, missing) = (service.clone(), asks_for_a_directory(&root, &request));
                async move {
                    if missing {
                        let mut response = Response::new(s3s::Body::empty());
                        *response.status_mut() = StatusCode::NOT_FOUND;
                        return Ok(response);
                    }
                    service.call(request.map(s3s::Body::from)).await
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
