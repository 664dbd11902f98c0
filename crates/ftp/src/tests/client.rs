//! A client that sends one line at a time and reads one reply at a time. It knows nothing of FTP
//! but the form of replies and the port in the answer to EPSV.

use std::net::SocketAddr;

use entrepot_net::tls::{ClientTlsStream, TlsClient};
use entrepot_world::PASSWORD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use super::soon;

/// A reply: its code, and its lines with what stands before and behind the text of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reply {
    pub(super) code: u16,
    pub(super) text: String,
}

/// A connection, in clear or under TLS.
pub(super) enum Stream {
    Clear(TcpStream),
    Secure(Box<ClientTlsStream>),
}

impl Stream {
    /// Reads what is there; nothing at the end.
    pub(super) async fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        soon(async {
            match self {
                Stream::Clear(stream) => stream.read(buffer).await,
                Stream::Secure(stream) => stream.read(buffer).await,
            }
        })
        .await
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) {
        soon(async {
            match self {
                Stream::Clear(stream) => stream.write_all(bytes).await,
                Stream::Secure(stream) => {
                    stream.write_all(bytes).await?;
                    stream.flush().await
                }
            }
        })
        .await
        .unwrap();
    }

    /// Ends our direction as a client does that has sent all.
    pub(super) async fn finish(&mut self) {
        soon(async {
            match self {
                Stream::Clear(stream) => stream.shutdown().await,
                Stream::Secure(stream) => stream.shutdown().await,
            }
        })
        .await
        .unwrap();
    }

    /// Everything up to the end.
    pub(super) async fn read_all(&mut self) -> Vec<u8> {
        let (mut all, mut buffer) = (Vec::new(), [0; 8192]);
        loop {
            match self.read(&mut buffer).await.unwrap() {
                0 => return all,
                count => all.extend_from_slice(&buffer[..count]),
            }
        }
    }

    /// The connection below TLS, which then ends without a word.
    pub(super) fn into_tcp(self) -> TcpStream {
        match self {
            Stream::Clear(stream) => stream,
            Stream::Secure(stream) => stream.into_inner().0,
        }
    }
}

/// One control connection.
pub(super) struct Client {
    control: Option<Stream>,
    server: SocketAddr,
    tls: Option<TlsClient>,
    /// PROT P was said.
    protected: bool,
}

impl Client {
    /// Connects where TLS begins at once, and reads the greeting under it.
    pub(super) async fn connect_secure(server: SocketAddr, tls: TlsClient) -> Client {
        let stream = soon(TcpStream::connect(server)).await.unwrap();
        let (stream, _) = tls.connect(stream).await.unwrap();
        let control = Some(Stream::Secure(Box::new(stream)));
        let mut client = Client { control, server, tls: Some(tls), protected: true };
        assert_eq!(client.reply().await.code, 220);
        client
    }

    /// Connects and reads the greeting.
    pub(super) async fn connect(server: SocketAddr) -> Client {
        let control = soon(TcpStream::connect(server)).await.unwrap();
        let control = Some(Stream::Clear(control));
        let mut client = Client { control, server, tls: None, protected: false };
        assert_eq!(client.reply().await.code, 220);
        client
    }

    pub(super) async fn log_in(&mut self, account: &str) {
        assert_eq!(self.code(&format!("USER {account}")).await, 331);
        assert_eq!(self.code(&format!("PASS {PASSWORD}")).await, 230);
        assert_eq!(self.code("TYPE I").await, 200);
    }

    /// AUTH TLS, and data under TLS too.
    pub(super) async fn begin_tls(&mut self, tls: TlsClient) {
        assert_eq!(self.code("AUTH TLS").await, 234);
        let stream = self.control.take().unwrap().into_tcp();
        let (stream, _) = tls.connect(stream).await.unwrap();
        self.control = Some(Stream::Secure(Box::new(stream)));
        self.tls = Some(tls);
        assert_eq!(self.code("PBSZ 0").await, 200);
    }

    pub(super) async fn protect_data(&mut self) {
        assert_eq!(self.code("PROT P").await, 200);
        self.protected = true;
    }

    /// From now on TLS of data connections begins anew, as with a client that resumes nothing.
    pub(super) fn resume_nothing(&mut self, other: TlsClient) {
        self.tls = Some(other);
    }

    fn control(&mut self) -> &mut Stream {
        self.control.as_mut().unwrap()
    }

    pub(super) async fn send(&mut self, line: &str) {
        self.control().write(format!("{line}\r\n").as_bytes()).await;
    }

    /// What has come at once.
    pub(super) async fn read_once(&mut self) -> String {
        let mut buffer = [0; 1024];
        let count = self.control().read(&mut buffer).await.unwrap();
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    /// The next line without its end; `None` at the end of the connection.
    async fn line(&mut self) -> Option<String> {
        let mut line = Vec::new();
        loop {
            let mut byte = [0];
            match self.control().read(&mut byte).await {
                Ok(1) => line.push(byte[0]),
                Ok(_) | Err(_) => return None,
            }
            if line.ends_with(b"\r\n") {
                line.truncate(line.len() - 2);
                return Some(String::from_utf8(line).unwrap());
            }
        }
    }

    /// The next reply.
    pub(super) async fn reply(&mut self) -> Reply {
        self.reply_or_end().await.expect("the control connection ended")
    }

    pub(super) async fn reply_or_end(&mut self) -> Option<Reply> {
        let first = self.line().await?;
        let code = first[..3].parse().unwrap();
        let mut text = first[4..].to_owned();
        if first.as_bytes()[3] == b'-' {
            let last = format!("{code} ");
            loop {
                let line = self.line().await?;
                text.push('\n');
                match line.strip_prefix(&last) {
                    Some(end) => {
                        text.push_str(end);
                        break;
                    }
                    None => text.push_str(&line),
                }
            }
        }
        Some(Reply { code, text })
    }

    pub(super) async fn command(&mut self, line: &str) -> Reply {
        self.send(line).await;
        self.reply().await
    }

    pub(super) async fn code(&mut self, line: &str) -> u16 {
        self.command(line).await.code
    }

    /// True once the server has ended the control connection and nothing was said before.
    pub(super) async fn is_ended(&mut self) -> bool {
        self.reply_or_end().await.is_none()
    }

    /// EPSV, and a connection to that port, without TLS.
    pub(super) async fn passive(&mut self) -> TcpStream {
        let address = self.passive_address().await;
        soon(TcpStream::connect(address)).await.unwrap()
    }

    /// EPSV.
    pub(super) async fn passive_address(&mut self) -> SocketAddr {
        let reply = self.command("EPSV").await;
        assert_eq!(reply.code, 229, "{reply:?}");
        let port = reply.text.split('|').nth(3).unwrap().parse().unwrap();
        SocketAddr::new(self.server.ip(), port)
    }

    /// TLS on a data connection if PROT P was said.
    pub(super) async fn secured(&mut self, stream: TcpStream) -> std::io::Result<Stream> {
        match self.tls.as_ref().filter(|_| self.protected) {
            None => Ok(Stream::Clear(stream)),
            Some(tls) => {
                let (stream, _) = tls.connect(stream).await.map_err(std::io::Error::other)?;
                Ok(Stream::Secure(Box::new(stream)))
            }
        }
    }

    /// Begins a transfer over a passive connection: the 150 has come.
    pub(super) async fn begin(&mut self, line: &str) -> Stream {
        let stream = self.passive().await;
        let begun = self.command(line).await;
        assert_eq!(begun.code, 150, "{line}: {begun:?}");
        self.secured(stream).await.unwrap()
    }

    /// A whole upload; answers its last reply, which may be a refusal before the first byte.
    pub(super) async fn upload(&mut self, line: &str, bytes: &[u8]) -> Reply {
        let stream = self.passive().await;
        let begun = self.command(line).await;
        if begun.code != 150 {
            return begun;
        }
        let mut stream = self.secured(stream).await.unwrap();
        stream.write(bytes).await;
        stream.finish().await;
        self.reply().await
    }

    /// A whole download or listing.
    pub(super) async fn download(&mut self, line: &str) -> Vec<u8> {
        let mut stream = self.begin(line).await;
        let bytes = stream.read_all().await;
        drop(stream);
        let end = self.reply().await;
        assert_eq!(end.code, 226, "{line}: {end:?}");
        bytes
    }

    pub(super) async fn listing(&mut self, line: &str) -> Vec<String> {
        let bytes = self.download(line).await;
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.is_empty() || text.ends_with("\r\n"), "{text:?}");
        text.lines().map(str::to_owned).collect()
    }

    /// A port of ours for PORT.
    pub(super) async fn port() -> TcpListener {
        TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap()
    }
}

/// The argument of PORT.
pub(super) fn port_argument(port: u16) -> String {
    format!("127,0,0,1,{},{}", port >> 8, port & 0xff)
}
