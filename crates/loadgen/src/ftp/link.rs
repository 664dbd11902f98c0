//! One logged-in control connection and its data connections: the client machine, driven.

use std::io;
use std::net::SocketAddr;

use entrepot_ftp_proto::client::{
    Account, Client, Event, Mode, Moves, Op, OpError, Tls as ProtoTls,
};
use entrepot_net::data::{self, ClientPort, Pattern};
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::tls::{ClientTlsStream, LoadClient};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::bench::{FtpBench, Tls};
use super::error::BenchError;
use crate::limits::{CONNECT_TIME, CONTROL_BYTES};
use crate::report::Counts;

/// A control connection.
pub(super) struct Link {
    client: Client,
    wire: Wire,
    /// Our end and the server's.
    ends: (SocketAddr, SocketAddr),
    tls: Option<LoadClient>,
    /// Kept over all transfers of the session.
    port: Option<ClientPort>,
    data: Data,
    /// TLS handshakes since it was asked last: resumed, and in all.
    handshakes: (u64, u64),
}

enum Wire {
    Clear(TcpStream),
    Tls(Box<ClientTlsStream>),
    /// TLS is being made.
    Between,
}

/// The next data connection.
enum Data {
    None,
    /// It will come to our port.
    Awaited,
    Here(TcpStream),
}

/// What a transfer moves.
#[derive(Clone, Copy)]
enum Load<'a> {
    Nothing,
    /// So many bytes are expected.
    Down(u64),
    Up(&'a Pattern, u64),
}

impl Wire {
    async fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Wire::Clear(stream) => stream.read(into).await,
            Wire::Tls(stream) => stream.read(into).await,
            Wire::Between => Err(io::ErrorKind::NotConnected.into()),
        }
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Wire::Clear(stream) => stream.write_all(bytes).await,
            Wire::Tls(stream) => {
                stream.write_all(bytes).await?;
                stream.flush().await
            }
            Wire::Between => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Link {
    /// Connects and logs in.
    pub(super) async fn open(
        bench: &FtpBench,
        mode: Mode,
        tls: Option<&LoadClient>,
    ) -> Result<Link, BenchError> {
        let policy = DialPolicy { allow_private: true };
        let stream = dial::tcp(&bench.host, bench.port, &policy, CONNECT_TIME).await?;
        let ends = (stream.local_addr()?, stream.peer_addr()?);
        let mut link = Link {
            client: Client::new(account(bench, mode), ends.1),
            wire: Wire::Clear(stream),
            ends,
            tls: tls.cloned(),
            port: None,
            data: Data::None,
            handshakes: (0, 0),
        };
        if bench.tls == Tls::Implicit {
            link.start_tls().await?;
        }
        link.until_done(Load::Nothing).await?;
        Ok(link)
    }

    /// RETR; the bytes are counted and dropped.
    pub(super) async fn retrieve(&mut self, path: &str, size: u64) -> Result<(), BenchError> {
        self.client.begin(Op::Retrieve { path: path.to_owned(), offset: 0 })?;
        self.until_done(Load::Down(size)).await
    }

    /// STOR of `size` bytes of `pattern`, over what has the name.
    pub(super) async fn store(
        &mut self,
        path: &str,
        pattern: &Pattern,
        size: u64,
    ) -> Result<(), BenchError> {
        self.client.begin(Op::Store { path: path.to_owned(), offset: 0 })?;
        self.until_done(Load::Up(pattern, size)).await
    }

    /// DELE; a name that nothing has is refused.
    pub(super) async fn delete(&mut self, path: &str) -> Result<(), BenchError> {
        self.client.begin(Op::Delete(path.to_owned()))?;
        self.until_done(Load::Nothing).await
    }

    /// QUIT, and its answer.
    pub(super) async fn quit(mut self) -> Result<(), BenchError> {
        self.client.begin(Op::Quit)?;
        self.until_done(Load::Nothing).await
    }

    /// Counts the TLS handshakes since the last call.
    pub(super) fn count_handshakes(&mut self, counts: &mut Counts) {
        let (resumed, all) = std::mem::take(&mut self.handshakes);
        counts.resumed += resumed;
        counts.handshakes += all;
    }

    /// Drives the machine to the end of its operation.
    async fn until_done(&mut self, load: Load<'_>) -> Result<(), BenchError> {
        let mut inbox = [0; CONTROL_BYTES];
        loop {
            while let Some(event) = self.client.poll_event()? {
                match event {
                    Event::Done(_) => return Ok(()),
                    Event::Failed(error) => return Err(error.into()),
                    Event::StartTls => {
                        self.flush().await?;
                        self.start_tls().await?;
                        self.client.tls_stands();
                    }
                    Event::Connect { address, .. } => {
                        self.data = Data::Here(data::dial(self.ends.1, address.port()).await?);
                    }
                    Event::Listen { .. } => {
                        let address = self.listen()?;
                        self.client.listening(address);
                    }
                    Event::DropData => {
                        // A connection that comes late must not be taken for the next one.
                        (self.data, self.port) = (Data::None, None);
                    }
                    Event::Transfer(moves) => {
                        let moved = self.transfer(moves, load).await;
                        match moved {
                            Ok(_) => self.client.data_moved(),
                            Err(_) => self.client.data_failed(),
                        }
                        if let Err(error @ BenchError::Length { .. }) = moved {
                            return Err(error);
                        }
                    }
                }
            }
            self.flush().await?;
            match self.wire.read(&mut inbox).await? {
                0 => return Err(BenchError::HungUp),
                count => self.client.receive(inbox.get(..count).unwrap_or_default()),
            }
        }
    }

    async fn flush(&mut self) -> Result<(), BenchError> {
        let output = self.client.output();
        if !output.is_empty() {
            self.wire.write(output).await?;
            let count = output.len();
            self.client.written(count);
        }
        Ok(())
    }

    async fn start_tls(&mut self) -> Result<(), BenchError> {
        let (Some(tls), Wire::Clear(stream)) =
            (&self.tls, std::mem::replace(&mut self.wire, Wire::Between))
        else {
            return Err(BenchError::HungUp);
        };
        let (stream, resumed) = tls.connect(stream).await?;
        self.wire = Wire::Tls(Box::new(stream));
        self.handshakes.0 += u64::from(resumed);
        self.handshakes.1 += 1;
        Ok(())
    }

    fn listen(&mut self) -> Result<SocketAddr, BenchError> {
        let port = match self.port.take() {
            Some(port) => port,
            None => ClientPort::bind(self.ends.0, self.ends.1)?,
        };
        self.data = Data::Awaited;
        Ok(self.port.insert(port).address())
    }

    async fn transfer(&mut self, moves: Moves, load: Load<'_>) -> Result<(), BenchError> {
        let stream = match (std::mem::replace(&mut self.data, Data::None), &self.port) {
            (Data::Here(stream), _) => stream,
            (Data::Awaited, Some(port)) => port.accept().await,
            _ => return Err(OpError::Data.into()),
        };
        let got = match (&self.tls, moves, load) {
            (None, Moves::Upload, Load::Up(pattern, size)) => {
                pattern.send(&stream, size).await?;
                return Ok(());
            }
            (None, ..) => data::discard(&stream).await?,
            (Some(tls), ..) => {
                let (mut stream, resumed) = tls.connect(stream).await?;
                self.handshakes.0 += u64::from(resumed);
                self.handshakes.1 += 1;
                if let Load::Up(pattern, size) = load {
                    return send(&mut stream, pattern, size).await;
                }
                receive(&mut stream).await?
            }
        };
        match load {
            Load::Down(wanted) if wanted != got => Err(BenchError::Length { wanted, got }),
            _ => Ok(()),
        }
    }
}

async fn send(
    stream: &mut ClientTlsStream,
    pattern: &Pattern,
    size: u64,
) -> Result<(), BenchError> {
    let mut sent = 0;
    while sent < size {
        sent += stream.write(pattern.piece(sent, size - sent)).await? as u64;
    }
    stream.shutdown().await?;
    // To close over unread tickets would reset the connection and cut the file.
    while stream.read(&mut [0; CONTROL_BYTES]).await.is_ok_and(|count| count > 0) {}
    Ok(())
}

async fn receive(stream: &mut ClientTlsStream) -> Result<u64, BenchError> {
    let mut inbox = vec![0; entrepot_net::limits::POOLED_BUFFER_BYTES];
    let mut total = 0;
    loop {
        match stream.read(&mut inbox).await {
            Ok(0) => break,
            Ok(count) => total += count as u64,
            // Without close_notify: the length tells whether something is missing.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => break,
            Err(error) => return Err(error.into()),
        }
    }
    // Some servers have gone by then.
    let _ = stream.shutdown().await;
    Ok(total)
}

fn account(bench: &FtpBench, mode: Mode) -> Account {
    let password = String::from_utf8_lossy(bench.password.expose()).into_owned();
    let mut account = Account::new(&bench.user, &password);
    account.tls = match bench.tls {
        Tls::Off => ProtoTls::Off,
        Tls::Explicit => ProtoTls::Explicit,
        Tls::Implicit => ProtoTls::Implicit,
    };
    account.mode = mode;
    account.negotiate = false;
    account
}
