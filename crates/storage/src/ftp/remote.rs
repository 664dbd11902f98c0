//! One session: the client machine, its control connection, and the data connection of the one
//! operation at a time.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::BytesMut;
use entrepot_ftp_proto::client::{Account, Client, Event, Features, Moves, Op, Outcome, Tls};
use entrepot_net::data::{self, ClientPort};
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::dialled::Dialled;
use entrepot_net::tls::TlsClient;
use entrepot_nouns::{Env, StorePath, Timestamp};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::timeout;

use super::errors::Failed;
use crate::limits::{FTP_ANSWER, FTP_CONNECT, FTP_CONTROL_BYTES, FTP_FINISH};

/// Where a server is and how to log in.
pub(super) struct Place {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) policy: DialPolicy,
    pub(super) account: Account,
    /// `None`: all in clear text.
    pub(super) tls: Option<TlsClient>,
    /// Directory on the server below which everything lies; empty: the login directory.
    pub(super) root: String,
    pub(super) env: Env,
}

/// The next data connection.
enum Data {
    None,
    /// It will come to our port.
    Awaited,
    Here(Dialled),
}

/// How far an operation came.
enum Step {
    Done(Outcome),
    /// The data connection stands.
    Moving(Moves),
}

/// A session, logged in. Ends when dropped.
pub(super) struct Remote {
    client: Client,
    /// `None` after a failed handshake.
    control: Option<Dialled>,
    /// Our end and the server's.
    ends: (SocketAddr, SocketAddr),
    /// With the tickets of this session.
    tls: Option<TlsClient>,
    /// Kept over all transfers of the session.
    port: Option<ClientPort>,
    data: Data,
    /// Of the transfer that runs.
    moving: Option<Dialled>,
    root: String,
    lost: bool,
    env: Env,
    used_at: Timestamp,
}

fn silent() -> Failed {
    Failed::Lost("the server does not answer".to_owned())
}

fn broken(error: &std::io::Error) -> Failed {
    Failed::Lost(format!("the connection broke: {error}"))
}

impl Remote {
    /// Dials, begins TLS, logs in and finds the root.
    pub(super) async fn connect(place: &Place) -> Result<Remote, Failed> {
        let stream = dial::tcp(&place.host, place.port, &place.policy, FTP_CONNECT).await?;
        let local = stream.local_addr().map_err(|error| broken(&error))?;
        let peer = stream.peer_addr().map_err(|error| broken(&error))?;
        let mut remote = Remote {
            client: Client::new(place.account.clone(), peer),
            control: Some(Dialled::Clear(stream)),
            ends: (local, peer),
            tls: place.tls.as_ref().map(TlsClient::session),
            port: None,
            data: Data::None,
            moving: None,
            root: String::new(),
            lost: false,
            env: place.env.clone(),
            used_at: place.env.now(),
        };
        if place.account.tls == Tls::Implicit {
            remote.start_tls().await?;
        }
        remote.step(FTP_ANSWER).await?;
        remote.root = remote.find_root(&place.root).await?;
        Ok(remote)
    }

    async fn find_root(&mut self, root: &str) -> Result<String, Failed> {
        if root.starts_with('/') {
            return Ok(root.trim_end_matches('/').to_owned());
        }
        let home = match self.ask(Op::WorkingDir).await? {
            Outcome::WorkingDir(home) => home,
            other => return Err(self.unexpected(&other)),
        };
        let home = home.trim_end_matches('/');
        let root = root.trim_end_matches('/');
        Ok(if root.is_empty() { home.to_owned() } else { format!("{home}/{root}") })
    }

    /// The absolute name on the server: no server takes it for an option.
    pub(super) fn path(&self, path: &StorePath) -> String {
        match (path.is_root(), self.root.is_empty()) {
            (true, true) => "/".to_owned(),
            (true, false) => self.root.clone(),
            _ => format!("{}/{}", self.root, path.as_str()),
        }
    }

    /// What the server offers.
    pub(super) fn features(&self) -> Features {
        self.client.features()
    }

    /// True if another operation can be asked, as far as is known without asking.
    pub(super) fn is_usable(&self) -> bool {
        let spent = self.tls.as_ref().is_some_and(TlsClient::is_spent);
        let open = self.control.as_ref().is_some_and(Dialled::is_open);
        !self.lost && !spent && open && self.client.is_idle()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.env.now()
    }

    /// How long nothing was asked.
    pub(super) fn rested(&self) -> Duration {
        self.env.now().since(self.used_at)
    }

    pub(super) fn unexpected(&mut self, outcome: &Outcome) -> Failed {
        self.lose(Failed::Lost(format!("the server's answer fits nothing: {outcome:?}")))
    }

    fn lose(&mut self, failed: Failed) -> Failed {
        self.lost = true;
        (self.data, self.moving) = (Data::None, None);
        failed
    }

    /// Asks one thing that moves nothing, and waits for the answer.
    pub(super) async fn ask(&mut self, op: Op) -> Result<Outcome, Failed> {
        self.client.begin(op).map_err(Failed::NotBegun)?;
        match self.step(FTP_ANSWER).await? {
            Step::Done(outcome) => Ok(outcome),
            Step::Moving(_) => Err(self.lose(silent())),
        }
    }

    /// Asks for a change; the outcome says no more than that it was made.
    pub(super) async fn change(&mut self, op: Op) -> Result<(), Failed> {
        self.ask(op).await.map(drop)
    }

    /// Begins a transfer; returns when its data connection stands.
    pub(super) async fn begin(&mut self, op: Op) -> Result<Moves, Failed> {
        self.client.begin(op).map_err(Failed::NotBegun)?;
        match self.step(FTP_ANSWER).await? {
            Step::Moving(moves) => Ok(moves),
            Step::Done(outcome) => Err(self.unexpected(&outcome)),
        }
    }

    /// Appends at most `most` bytes of the data connection to `buf`; 0 is its end as the server
    /// means it, under TLS its close_notify. Then [`Remote::finish`].
    pub(super) async fn receive(
        &mut self,
        buf: &mut BytesMut,
        most: usize,
    ) -> Result<usize, Failed> {
        use bytes::BufMut as _;
        let Some(stream) = &mut self.moving else { return Err(self.lose(silent())) };
        buf.reserve(most);
        let mut limited = buf.limit(most);
        match timeout(FTP_ANSWER, stream.read_buf(&mut limited)).await {
            Ok(Ok(count)) => Ok(count),
            Ok(Err(error)) => Err(self.cut(&error).await),
            Err(_) => Err(self.lose(silent())),
        }
    }

    /// Sends bytes on the data connection. What the server says meanwhile ends the transfer.
    pub(super) async fn send(&mut self, mut bytes: &[u8]) -> Result<(), Failed> {
        let mut inbox = [0; FTP_CONTROL_BYTES];
        while !bytes.is_empty() {
            let (Some(stream), Some(control)) = (&mut self.moving, &mut self.control) else {
                return Err(self.lose(silent()));
            };
            let moved = timeout(FTP_ANSWER, async {
                tokio::select! {
                    biased;
                    written = stream.write(bytes) => Moved::Out(written),
                    read = control.read(&mut inbox) => Moved::In(read),
                }
            });
            match moved.await {
                Ok(Moved::Out(Ok(0))) => return Err(self.lose(silent())),
                Ok(Moved::Out(Ok(count))) => bytes = bytes.get(count..).unwrap_or_default(),
                Ok(Moved::Out(Err(error))) => return Err(self.cut(&error).await),
                Ok(Moved::In(Ok(count))) => self.hear(&inbox, count)?,
                Ok(Moved::In(Err(error))) => return Err(self.lose(broken(&error))),
                Err(_) => return Err(self.lose(silent())),
            }
        }
        Ok(())
    }

    /// Takes what the server says while a file moves.
    fn hear(&mut self, inbox: &[u8], count: usize) -> Result<(), Failed> {
        if count == 0 {
            return Err(self.lose(Failed::Lost("the server hung up".to_owned())));
        }
        self.client.receive(inbox.get(..count).unwrap_or_default());
        loop {
            match self.client.poll_event() {
                Ok(None) => return Ok(()),
                Ok(Some(Event::Failed(error))) => {
                    (self.moving, self.port) = (None, None);
                    return Err(Failed::Op(error));
                }
                Ok(Some(_)) => {}
                Err(fault) => return Err(self.lose(fault.into())),
            }
        }
    }

    /// The data connection failed: the server's own words for it, if it has any.
    async fn cut(&mut self, error: &std::io::Error) -> Failed {
        tracing::debug!(%error, "a data connection of FTP failed");
        self.moving = None;
        self.client.data_failed();
        match self.step(FTP_ANSWER).await {
            Err(failed) => failed,
            Ok(_) => self.lose(broken(error)),
        }
    }

    /// The end of a transfer whose bytes have all been moved: closes the data connection and waits
    /// for the server's last word.
    pub(super) async fn finish(&mut self, moves: Moves) -> Result<(), Failed> {
        let Some(mut stream) = self.moving.take() else { return Err(self.lose(silent())) };
        let closed = timeout(FTP_ANSWER, stream.shutdown()).await;
        let whole = moves != Moves::Upload || matches!(closed, Ok(Ok(())));
        if whole && let Dialled::Tls(stream) = &mut stream {
            // To close over unread tickets would reset the connection and cut the file; and they
            // are of use. What is no ticket is no concern of ours.
            let drained = async { while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {} };
            let _ = timeout(FTP_ANSWER, drained).await;
        }
        drop(stream);
        if whole {
            self.client.data_moved();
        } else {
            self.client.data_failed();
        }
        match self.step(FTP_FINISH).await? {
            Step::Done(_) => Ok(()),
            Step::Moving(_) => Err(self.lose(silent())),
        }
    }

    /// Drives the machine until its operation is over or its data connection stands.
    async fn step(&mut self, wait: Duration) -> Result<Step, Failed> {
        self.used_at = self.env.now();
        let mut stepped = self.drive(wait).await;
        if matches!(stepped, Ok(Step::Moving(_)))
            && let Err(failed) = self.open_data().await
        {
            // The server may say why: that it wants the session resumed, for one.
            self.client.data_failed();
            stepped = match self.drive(FTP_ANSWER).await {
                Err(said) if said.code() > 0 => Err(said),
                _ => Err(failed),
            };
        }
        match stepped {
            Err(failed @ (Failed::Lost(_) | Failed::Never(_))) => Err(self.lose(failed)),
            other => other,
        }
    }

    async fn drive(&mut self, wait: Duration) -> Result<Step, Failed> {
        let mut inbox = [0; FTP_CONTROL_BYTES];
        loop {
            while let Some(event) = self.client.poll_event()? {
                match event {
                    Event::Done(outcome) => return Ok(Step::Done(outcome)),
                    Event::Failed(error) => return Err(Failed::Op(error)),
                    Event::StartTls => {
                        self.flush().await?;
                        self.start_tls().await?;
                        self.client.tls_stands();
                    }
                    Event::Connect { address, .. } => self.dial_data(address).await?,
                    Event::Listen { .. } => self.listen()?,
                    // A connection that comes late must not be taken for the next one.
                    Event::DropData => {
                        (self.data, self.port, self.moving) = (Data::None, None, None);
                    }
                    Event::Transfer(moves) => return Ok(Step::Moving(moves)),
                }
            }
            self.flush().await?;
            let Some(control) = &mut self.control else { return Err(silent()) };
            match timeout(wait, control.read(&mut inbox)).await {
                Ok(Ok(0)) => return Err(Failed::Lost("the server hung up".to_owned())),
                Ok(Ok(count)) => self.client.receive(inbox.get(..count).unwrap_or_default()),
                Ok(Err(error)) => return Err(broken(&error)),
                Err(_) => return Err(silent()),
            }
        }
    }

    async fn flush(&mut self) -> Result<(), Failed> {
        let output = self.client.output();
        let Some(control) = &mut self.control else { return Err(silent()) };
        if output.is_empty() {
            return Ok(());
        }
        let writing = async {
            control.write_all(output).await?;
            control.flush().await
        };
        match timeout(FTP_ANSWER, writing).await {
            Ok(Ok(())) => {
                let count = output.len();
                self.client.written(count);
                Ok(())
            }
            Ok(Err(error)) => Err(broken(&error)),
            Err(_) => Err(silent()),
        }
    }

    async fn start_tls(&mut self) -> Result<(), Failed> {
        let (Some(tls), Some(control)) = (&self.tls, self.control.take()) else {
            return Err(silent());
        };
        self.control = Some(control.start_tls(tls).await?.0);
        Ok(())
    }

    /// Only ever the host of the control connection, whatever 227 says.
    async fn dial_data(&mut self, address: SocketAddr) -> Result<(), Failed> {
        let failed = |why: String| {
            Failed::Lost(format!("no data connection to port {}: {why}", address.port()))
        };
        match timeout(FTP_CONNECT, data::dial(self.ends.1, address.port())).await {
            Ok(Ok(stream)) => self.data = Data::Here(Dialled::Clear(stream)),
            Ok(Err(error)) => return Err(failed(error.to_string())),
            Err(_) => return Err(failed("no answer".to_owned())),
        }
        Ok(())
    }

    fn listen(&mut self) -> Result<(), Failed> {
        let port = match self.port.take() {
            Some(port) => port,
            None => ClientPort::bind(self.ends.0, self.ends.1)?,
        };
        self.data = Data::Awaited;
        self.client.listening(self.port.insert(port).address());
        Ok(())
    }

    async fn open_data(&mut self) -> Result<(), Failed> {
        let stream = match (std::mem::replace(&mut self.data, Data::None), &self.port) {
            (Data::Here(stream), _) => stream,
            (Data::Awaited, Some(port)) => match timeout(FTP_CONNECT, port.accept()).await {
                Ok(stream) => Dialled::Clear(stream),
                Err(_) => {
                    let why = "the server did not connect for data: look at firewalls, or use \
                               passive mode";
                    return Err(Failed::Lost(why.to_owned()));
                }
            },
            _ => return Err(silent()),
        };
        self.moving = Some(match &self.tls {
            None => stream,
            Some(tls) => {
                let (stream, resumed) = stream.start_tls(tls).await?;
                tracing::trace!(resumed, "a data connection of FTP under TLS");
                stream
            }
        });
        Ok(())
    }
}

enum Moved {
    Out(std::io::Result<usize>),
    In(std::io::Result<usize>),
}
