//! The recorder: it stands between terminals and their host, passes on every byte, and writes a
//! trace of each session without its secrets.

mod transcript;

use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_net::NetError;
use entrepot_net::accepted::Accepted;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::dialled::Dialled;
use entrepot_net::listen::{self, TcpAcceptor};
use entrepot_net::tls::{ServerTrust, TlsClient};
use entrepot_nouns::Env;
use entrepot_tn3270_proto::CodePage;
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::address::{HostAddress, HostTls};
use crate::error::HostError;
use crate::limits::READ_BYTES;
use transcript::Transcript;

/// Between whom a recorder stands.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// Where terminals connect, in clear text.
    pub listen: SocketAddr,
    /// The host that they mean.
    pub to: HostAddress,
    /// By what the host is known under TLS.
    pub trust: ServerTrust,
    /// Longest time for connecting to the host.
    pub patience: Duration,
    /// What codes of the host mean.
    pub page: CodePage,
}

/// Where traces go: a file for the session with this number, from 1.
pub trait TraceFiles: Send + Sync + 'static {
    /// Makes a new file.
    ///
    /// # Errors
    /// It cannot be made; then the session does not come about.
    fn create(&self, session: u64) -> std::io::Result<Box<dyn Write + Send>>;
}

/// What a recorder has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecorderReport {
    /// Sessions that were recorded.
    pub sessions: u64,
    /// Terminals that found no host, or whose trace could not be written to its end.
    pub failed: u64,
}

/// A recorder that listens.
pub struct Recorder {
    acceptor: TcpAcceptor,
    shared: Arc<Shared>,
}

struct Shared {
    options: RecorderOptions,
    page: Arc<CodePage>,
    files: Box<dyn TraceFiles>,
    env: Env,
}

impl Recorder {
    /// Binds; terminals can connect from now on.
    ///
    /// # Errors
    /// The address cannot be bound.
    pub fn bind(
        options: RecorderOptions,
        files: Box<dyn TraceFiles>,
        env: Env,
    ) -> Result<Self, NetError> {
        let acceptor = listen::bind(options.listen)?;
        let page = Arc::new(options.page.clone());
        Ok(Recorder { acceptor, shared: Arc::new(Shared { options, page, files, env }) })
    }

    /// Where it listens, with the real port.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.local_address()
    }

    /// Records until `stop`, and closes all connections then.
    pub async fn run(self, stop: CancellationToken) -> RecorderReport {
        let mut report = RecorderReport::default();
        let mut sessions = JoinSet::new();
        let mut count = |ended: Result<Result<(), HostError>, JoinError>| match ended {
            Ok(Ok(())) => {}
            Err(error) if error.is_cancelled() => {}
            Ok(Err(error)) => {
                tracing::warn!(code = error.code(), %error, "a session was not recorded whole");
                report.failed += 1;
            }
            Err(_) => report.failed += 1,
        };
        let mut number = 0;
        loop {
            tokio::select! {
                () = stop.cancelled() => break,
                (stream, _) = self.acceptor.accept() => {
                    number += 1;
                    let shared = Arc::clone(&self.shared);
                    sessions.spawn(async move { shared.record(stream, number).await });
                }
                Some(ended) = sessions.join_next() => count(ended),
            }
        }
        // Those that still run are recorded as far as they came.
        sessions.abort_all();
        while let Some(ended) = sessions.join_next().await {
            count(ended);
        }
        RecorderReport { sessions: number, ..report }
    }
}

impl Shared {
    async fn record(&self, stream: TcpStream, number: u64) -> Result<(), HostError> {
        let host = self.dial().await?;
        let mut file = self.files.create(number)?;
        writeln!(file, "Trace of a session with {}, secrets masked", self.options.to)?;
        let session = Recorded {
            shared: self,
            terminal: Accepted::new(stream),
            host,
            transcript: Transcript::new(Arc::clone(&self.page)),
            file,
        };
        session.pass().await
    }

    async fn dial(&self) -> Result<Dialled, HostError> {
        let HostAddress { host, port, tls } = &self.options.to;
        let policy = DialPolicy { allow_private: true };
        let stream = dial::tcp(host, *port, &policy, self.options.patience).await?;
        let stream = Dialled::Clear(stream);
        if *tls == HostTls::WhenAsked {
            return Ok(stream);
        }
        Ok(stream.start_tls(&self.tls_client()?).await?.0)
    }

    fn tls_client(&self) -> Result<TlsClient, HostError> {
        Ok(TlsClient::new(&self.options.to.host, &self.options.trust)?)
    }
}

/// One terminal, its host and the trace of both.
struct Recorded<'a> {
    shared: &'a Shared,
    terminal: Accepted,
    host: Dialled,
    transcript: Transcript,
    file: Box<dyn Write + Send>,
}

/// What a host says that asks for TLS (STARTTLS), what it is answered, and what it says then.
const DO_START_TLS: [u8; 3] = [255, 253, 46];
const START_TLS: [u8; 9] = [255, 251, 46, 255, 250, 46, 1, 255, 240];
const FOLLOWS: [u8; 6] = [255, 250, 46, 1, 255, 240];

impl Recorded<'_> {
    /// Passes bytes on, in both directions, until one side closes.
    async fn pass(mut self) -> Result<(), HostError> {
        let mut from_host = vec![0; READ_BYTES];
        let mut from_terminal = vec![0; READ_BYTES];
        let mut is_first = true;
        loop {
            tokio::select! {
                read = self.host.read(&mut from_host) => {
                    let bytes = from_host.get(..read?).unwrap_or_default();
                    if bytes.is_empty() {
                        return Ok(self.terminal.shutdown().await?);
                    }
                    if std::mem::take(&mut is_first) && bytes.starts_with(&DO_START_TLS) {
                        let said = bytes.to_vec();
                        self = self.start_tls(said).await?;
                        continue;
                    }
                    let lines = self.transcript.host(bytes, self.shared.env.now());
                    self.file.write_all(lines.as_bytes())?;
                    self.terminal.write_all(bytes).await?;
                    self.terminal.flush().await?;
                }
                read = self.terminal.read(&mut from_terminal) => {
                    let bytes = from_terminal.get(..read?).unwrap_or_default();
                    if bytes.is_empty() {
                        return Ok(self.host.shutdown().await?);
                    }
                    let lines = self.transcript.terminal(bytes, self.shared.env.now());
                    self.file.write_all(lines.as_bytes())?;
                    self.host.write_all(bytes).await?;
                    self.host.flush().await?;
                }
            }
        }
    }

    /// TLS with the host is ours: what the terminal encrypted could not be recorded. The host
    /// negotiates anew behind it, and the terminal takes part from there on.
    async fn start_tls(mut self, mut said: Vec<u8>) -> Result<Self, HostError> {
        self.host.write_all(&START_TLS).await?;
        self.host.flush().await?;
        while !said.ends_with(&FOLLOWS) {
            if said.len() > READ_BYTES {
                return Err(HostError::Overlong);
            }
            if self.host.read_buf(&mut said).await? == 0 {
                return Err(HostError::Closed);
            }
        }
        let client = self.shared.tls_client()?;
        let host = self.host.start_tls(&client).await?.0;
        Ok(Recorded { host, ..self })
    }
}
