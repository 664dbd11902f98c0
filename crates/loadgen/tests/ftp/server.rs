//! A server of the protocol machine over sockets and files in memory, with its faults.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_ftp_proto::{
    Answer, Channel, Data, End, Login, Refusal, Request, Server, Settings, TlsMode, Why,
};
use entrepot_net::listen::{self, TcpAcceptor};
use entrepot_net::tls::{
    ClientCertificates, Reuse, TlsConfig, TlsOptions, TlsSession, TlsStream, TlsVersion,
};
use entrepot_nouns::{Env, Secret};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How it behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Script {
    Good,
    /// Good, with AUTH TLS; data connections must resume.
    Tls,
    /// Accepts and says nothing.
    Silent,
    /// Says 150 and nothing more.
    HangsInTransfers,
    /// Greets in no protocol.
    Garbage,
    /// Downloads lack their last byte.
    Short,
    /// Hangs up at once.
    Gone,
}

#[derive(Default)]
struct State {
    files: BTreeMap<String, Vec<u8>>,
    stored: Vec<usize>,
}

pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    // Ends with the test.
    _sessions: JoinSet<()>,
}

trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

impl Fake {
    pub(crate) async fn start(script: Script) -> Fake {
        let acceptor = listen::bind(loopback()).unwrap();
        let (address, state) = (acceptor.local_address(), Arc::new(Mutex::new(State::default())));
        let tls = (script == Script::Tls).then(tls_config);
        let mut sessions = JoinSet::new();
        let shared = Arc::clone(&state);
        sessions.spawn(async move {
            let mut running = JoinSet::new();
            loop {
                let (stream, peer) = acceptor.accept().await;
                let tls = tls.as_ref().map(TlsConfig::session);
                let mut settings = Settings::new(peer, stream.local_addr().unwrap());
                settings.tls = if tls.is_some() { TlsMode::Explicit } else { TlsMode::Off };
                let machine = Server::new(settings, Duration::ZERO);
                let (wire, state) = (Some(Wire::Clear(stream)), Arc::clone(&shared));
                let session = Session { machine, wire, tls, port: None, state, script };
                running.spawn(session.run());
            }
        });
        Fake { address, state, _sessions: sessions }
    }

    /// Sizes of all that was ever stored.
    pub(crate) fn stored(&self) -> Vec<usize> {
        self.state.lock().stored.clone()
    }

    pub(crate) fn files(&self) -> usize {
        self.state.lock().files.len()
    }
}

fn tls_config() -> TlsConfig {
    let key = rcgen::KeyPair::generate().unwrap();
    let params = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
    let options = TlsOptions {
        chain: params.self_signed(&key).unwrap().pem().into_bytes(),
        key: Secret::new(key.serialize_pem()),
        clients: ClientCertificates::Off,
        least: TlsVersion::Tls12,
    };
    TlsConfig::new(&options, &Env::real()).unwrap()
}

enum Wire {
    Clear(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Wire {
    /// For the next data connection.
    fn send_ticket(&mut self) {
        if let Wire::Tls(stream) = self {
            stream.send_ticket().unwrap();
        }
    }

    fn stream(&mut self) -> &mut dyn Stream {
        match self {
            Wire::Clear(stream) => stream,
            Wire::Tls(stream) => stream,
        }
    }
}

struct Session {
    machine: Server,
    wire: Option<Wire>,
    tls: Option<TlsSession>,
    port: Option<TcpAcceptor>,
    state: Arc<Mutex<State>>,
    script: Script,
}

impl Session {
    async fn run(mut self) {
        match self.script {
            Script::Silent => return std::future::pending().await,
            Script::Gone => return,
            Script::Garbage => {
                let wire = self.wire.as_mut().unwrap();
                let _ = wire.stream().write_all(b"SSH-2.0-x\r\n").await;
                return;
            }
            _ => {}
        }
        let mut inbox = [0; 4096];
        loop {
            while let Some(request) = self.machine.poll_request() {
                self.flush().await;
                if request == Request::Close {
                    return;
                }
                if let Some(answer) = self.answer(request).await {
                    if matches!(answer, Answer::TransferEnded(_)) {
                        self.wire.as_mut().unwrap().send_ticket();
                    }
                    self.machine.answer(answer, Duration::ZERO);
                }
            }
            self.flush().await;
            match self.wire.as_mut().unwrap().stream().read(&mut inbox).await {
                Ok(count) if count > 0 => self.machine.receive(&inbox[..count], Duration::ZERO),
                _ => return,
            }
        }
    }

    async fn flush(&mut self) {
        let output = self.machine.output().to_vec();
        let stream = self.wire.as_mut().unwrap().stream();
        // Who is gone is found by the next read.
        let _ = stream.write_all(&output).await;
        let _ = stream.flush().await;
        self.machine.written(output.len());
    }

    async fn answer(&mut self, request: Request) -> Option<Answer> {
        Some(match request {
            Request::Password { password, .. } if password.expose() == "secret" => {
                Answer::LoggedIn(Login::at_root())
            }
            Request::User(_) => Answer::NeedPassword,
            Request::Password { .. } => Answer::Denied,
            Request::StartTls => {
                let Some(Wire::Clear(stream)) = self.wire.take() else { unreachable!() };
                let tls = self.tls.as_ref().unwrap();
                let stream = tls.accept_control(stream).await.unwrap();
                self.wire = Some(Wire::Tls(Box::new(stream)));
                Answer::TlsStands
            }
            Request::Passive { .. } => {
                let port = self.port.take().unwrap_or_else(|| listen::bind(loopback()).unwrap());
                Answer::Passive(self.port.insert(port).local_address())
            }
            Request::Delete(path) => match self.state.lock().files.remove(&path) {
                Some(_) => Answer::Done,
                None => Answer::Refused(Refusal::new(Why::NotFound)),
            },
            Request::Retrieve { path, channel, .. } => {
                let file = self.state.lock().files.get(&path).cloned();
                self.transfer(channel, Some(file), path).await
            }
            Request::Store { path, channel, .. } => self.transfer(channel, None, path).await,
            Request::DropData | Request::Logout | Request::After { .. } => return None,
            _ => Answer::Done,
        })
    }

    /// `down`: the file, if there is one.
    async fn transfer(
        &mut self,
        channel: Channel,
        down: Option<Option<Vec<u8>>>,
        path: String,
    ) -> Answer {
        if down == Some(None) {
            return Answer::TransferEnded(End::Refused(Refusal::new(Why::NotFound)));
        }
        let begun = Answer::TransferStarted { connected: false, size: None, name: None };
        self.machine.answer(begun, Duration::ZERO);
        self.flush().await;
        let stream = match channel.data {
            Data::Active(address) => {
                let mut local = loopback();
                local.set_port(0);
                let from = entrepot_net::data::ActiveFrom { local, port: None };
                let wait = Duration::from_secs(10);
                entrepot_net::data::connect(from, address, wait).await.unwrap()
            }
            Data::Passive => self.port.as_ref().unwrap().accept().await.0,
        };
        if self.script == Script::HangsInTransfers {
            return std::future::pending().await;
        }
        let mut stream: Box<dyn Stream> = match &self.tls {
            Some(tls) if channel.protected => {
                match tls.accept_data(stream, Reuse::Required).await {
                    Ok(stream) => Box::new(stream),
                    Err(_) => return Answer::TransferEnded(End::NotResumed),
                }
            }
            _ => Box::new(stream),
        };
        match down.flatten() {
            Some(file) => {
                let cut = usize::from(self.script == Script::Short);
                let sent = stream.write_all(&file[..file.len() - cut]).await;
                if sent.is_err() || stream.shutdown().await.is_err() {
                    return Answer::TransferEnded(End::Cut);
                }
            }
            None => {
                let mut file = Vec::new();
                if stream.read_to_end(&mut file).await.is_err() {
                    return Answer::TransferEnded(End::Cut);
                }
                let _ = stream.shutdown().await;
                let mut state = self.state.lock();
                state.stored.push(file.len());
                state.files.insert(path, file);
            }
        }
        Answer::TransferEnded(End::Complete)
    }
}
