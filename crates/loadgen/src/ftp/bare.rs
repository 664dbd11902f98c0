//! A bare server of FTP in clear text: every password is right, and whole files go both ways. What
//! a transfer needs of sockets is done by the runtime alone, and a large file is copied on its way
//! down, so a server whose files are sent by sendfile(2) may spend less on that one.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf as _, BytesMut};
use entrepot_ftp_proto::{
    Answer, AsciiPolicy, Data, End, Login, Refusal, Request, Server, Settings, StoreHow, Why,
};
use entrepot_net::NetError;
use entrepot_net::data::{self, ActiveFrom, ClientPort};
use entrepot_net::listen::{self, TcpAcceptor};
use futures_util::FutureExt as _;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::bare::BareServer;
use crate::bare::files::{File, Files, Kind};
use crate::limits::{BARE_FILE_BYTES, BODY_PIECE_BYTES, CONNECT_TIME, CONTROL_BYTES};

/// No limit of time is looked at, so the machine may believe that it stands still.
const NOW: Duration = Duration::ZERO;

/// Serves FTP from memory.
///
/// # Errors
/// The address is taken.
pub fn serve_bare(address: SocketAddr) -> Result<BareServer, NetError> {
    let acceptor = listen::bind(address)?;
    let address = acceptor.local_address();
    Ok(BareServer::spawn(address, serve(acceptor)))
}

async fn serve(acceptor: TcpAcceptor) {
    let files = Arc::new(Files::default());
    // Dropped with this task, and with it every session.
    let mut sessions = JoinSet::new();
    loop {
        let (control, peer) = acceptor.accept().await;
        while sessions.try_join_next().is_some() {}
        let session = Session {
            machine: Server::new(settings(peer, acceptor.local_address()), NOW),
            control,
            peer,
            port: None,
            files: Arc::clone(&files),
        };
        sessions.spawn(async move {
            // A connection that breaks is the client's matter.
            let _ = session.converse().await;
        });
    }
}

/// Nothing is announced that is not served.
fn settings(peer: SocketAddr, local: SocketAddr) -> Settings {
    let mut settings = Settings::new(peer, local);
    settings.algorithms = Vec::new();
    settings.space = false;
    settings.ascii = AsciiPolicy::Binary;
    settings
}

/// One control connection; while it carries a file it hears nothing but its end.
struct Session {
    machine: Server,
    control: TcpStream,
    peer: SocketAddr,
    /// Where data connections are awaited: bound once, at the first PASV or EPSV.
    port: Option<ClientPort>,
    files: Arc<Files>,
}

impl Session {
    async fn converse(mut self) -> io::Result<()> {
        let mut inbox = [0; CONTROL_BYTES];
        loop {
            while let Some(request) = self.machine.poll_request() {
                if matches!(request, Request::Close) {
                    return self.flush().await;
                }
                self.carry_out(request).await?;
            }
            self.flush().await?;
            match self.control.read(&mut inbox).await? {
                0 => return Ok(()),
                count => self.machine.receive(inbox.get(..count).unwrap_or_default(), NOW),
            }
        }
    }

    async fn flush(&mut self) -> io::Result<()> {
        let output = self.machine.output();
        if !output.is_empty() {
            self.control.write_all(output).await?;
            let count = output.len();
            self.machine.written(count);
        }
        Ok(())
    }

    async fn carry_out(&mut self, request: Request) -> io::Result<()> {
        let refused = |why| Answer::Refused(Refusal::new(why));
        let done_or = |is_done, why| if is_done { Answer::Done } else { refused(why) };
        let files = &self.files;
        let answer = match request {
            Request::Password { .. } => Answer::LoggedIn(Login::at_root()),
            Request::Passive { .. } => match self.listen() {
                Some(address) => Answer::Passive(address),
                None => refused(Why::NoData),
            },
            Request::Retrieve { path, offset: 0, length: None, channel, .. } => {
                return self.retrieve(&path, channel.data).await;
            }
            Request::Store { path, how: StoreHow::Replace, channel, .. } => {
                return self.store(path, channel.data).await;
            }
            Request::Retrieve { .. } | Request::Store { .. } | Request::List { .. } => {
                self.transfer_ended(End::Refused(Refusal::new(Why::Unsupported)));
                return Ok(());
            }
            Request::Size { path, .. } => match files.kind(&path) {
                Some(Kind::File(size)) => Answer::Number(size),
                _ => refused(Why::NotFound),
            },
            Request::Delete(path) => done_or(files.remove(&path), Why::NotFound),
            Request::ChangeDir(path) => {
                done_or(files.kind(&path) == Some(Kind::Folder), Why::NotFound)
            }
            Request::MakeDir { path, .. } => done_or(files.make_folder(path), Why::Exists),
            Request::RemoveDir(path) => done_or(files.remove_folder(&path), Why::NotFound),
            Request::DropData => {
                // A connection that comes late must not be taken for the next one.
                self.port = None;
                return Ok(());
            }
            Request::Logout | Request::After { .. } | Request::Abort => return Ok(()),
            _ => refused(Why::Unsupported),
        };
        self.machine.answer(answer, NOW);
        Ok(())
    }

    fn listen(&mut self) -> Option<SocketAddr> {
        let port = match self.port.take() {
            Some(port) => port,
            None => ClientPort::bind(self.control.local_addr().ok()?, self.peer).ok()?,
        };
        Some(self.port.insert(port).address())
    }

    fn transfer_begins(&mut self) {
        let begun = Answer::TransferStarted { connected: false, size: None, name: None };
        self.machine.answer(begun, NOW);
    }

    fn transfer_ended(&mut self, end: End) {
        if end != End::Complete {
            self.port = None;
        }
        self.machine.answer(Answer::TransferEnded(end), NOW);
    }

    /// RETR. The 150 waits as long as the client need not wait for it, and mostly leaves with the
    /// 226.
    async fn retrieve(&mut self, path: &str, data: Data) -> io::Result<()> {
        let Some(file) = self.files.find(path) else {
            self.transfer_ended(End::Refused(Refusal::new(Why::NotFound)));
            return Ok(());
        };
        self.transfer_begins();
        let end = match self.connected(data).await? {
            Some(stream) => self.send(&file, &stream).await?,
            None => End::NoConnection,
        };
        self.transfer_ended(end);
        Ok(())
    }

    /// STOR: under its name when it has come to its end.
    async fn store(&mut self, path: String, data: Data) -> io::Result<()> {
        self.transfer_begins();
        self.flush().await?;
        let file = File::new(0);
        let end = match self.connected(data).await? {
            Some(stream) => self.receive(stream, &file).await?,
            None => End::NoConnection,
        };
        if end == End::Complete {
            self.files.put(path, file);
        }
        self.transfer_ended(end);
        Ok(())
    }

    /// The data connection; `None`: there is none.
    async fn connected(&mut self, data: Data) -> io::Result<Option<TcpStream>> {
        let port = match (data, &self.port) {
            (Data::Active(address), _) => {
                let from = ActiveFrom { local: self.control.local_addr()?, port: None };
                return Ok(data::connect(from, address, CONNECT_TIME).await.ok());
            }
            (Data::Passive, None) => return Ok(None),
            (Data::Passive, Some(port)) => port,
        };
        if let Some(stream) = port.accept().now_or_never() {
            return Ok(Some(stream));
        }
        self.flush().await?;
        let Some(port) = &self.port else { return Ok(None) };
        unless_gone(&self.control, port.accept()).await.map(Some)
    }

    async fn send(&mut self, file: &Mutex<File>, stream: &TcpStream) -> io::Result<End> {
        let blocks = file.lock().blocks();
        for mut block in blocks {
            while block.has_remaining() {
                if unless_gone(&self.control, stream.writable()).await?.is_err() {
                    return Ok(End::Cut);
                }
                match stream.try_write(&block) {
                    Ok(count) => block.advance(count),
                    // The client may begin to read when it has heard that the file comes.
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.flush().await?,
                    Err(_) => return Ok(End::Cut),
                }
            }
        }
        Ok(End::Complete)
    }

    async fn receive(&mut self, mut stream: TcpStream, file: &Mutex<File>) -> io::Result<End> {
        let mut piece = BytesMut::with_capacity(BODY_PIECE_BYTES);
        loop {
            piece.clear();
            let Ok(count) = unless_gone(&self.control, stream.read_buf(&mut piece)).await? else {
                return Ok(End::Cut);
            };
            let mut file = file.lock();
            if count == 0 {
                return Ok(End::Complete);
            }
            if file.size() + count as u64 > BARE_FILE_BYTES {
                return Ok(End::Refused(Refusal::new(Why::NoSpace)));
            }
            file.append(&piece);
        }
    }
}

/// Waits for `what`; an error if the client closes its control connection before.
async fn unless_gone<T>(control: &TcpStream, what: impl Future<Output = T>) -> io::Result<T> {
    let gone = async {
        // What it says meanwhile waits until the file is through.
        if control.peek(&mut [0]).await.is_ok_and(|count| count > 0) {
            std::future::pending::<()>().await;
        }
    };
    tokio::select! {
        biased;
        came = what => Ok(came),
        () = gone => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
