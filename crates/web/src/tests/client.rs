//! A client of HTTP/1.1 that sends what a test writes, byte for byte.

use std::net::SocketAddr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_net::tls::TlsClient;
use entrepot_world::PASSWORD;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::soon;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// One connection.
pub(super) struct Client {
    stream: Box<dyn Stream>,
    unread: Vec<u8>,
}

/// An answer.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    fields: Vec<(String, String)>,
    pub(super) body: Vec<u8>,
}

impl Answer {
    /// The value of a field; empty if there is none.
    pub(super) fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(known, _)| known == name);
        found.map_or("", |(_, value)| value)
    }

    pub(super) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// All values of a field.
    pub(super) fn fields(&self, name: &str) -> Vec<&str> {
        let found = self.fields.iter().filter(|(known, _)| known == name);
        found.map(|(_, value)| value.as_str()).collect()
    }

    /// The code of a problem.
    pub(super) fn code(&self) -> String {
        assert_eq!(self.field("content-type"), "application/problem+json", "{self:?}");
        let problem = self.json();
        assert_eq!(problem["status"], self.status, "{problem}");
        assert!(!problem["title"].as_str().unwrap().is_empty(), "{problem}");
        problem["code"].as_str().unwrap().to_owned()
    }
}

/// The field that signs `user` in.
pub(super) fn basic(user: &str) -> String {
    basic_with(user, PASSWORD)
}

/// The field that shows an API token.
pub(super) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}\r\n")
}

pub(super) fn basic_with(user: &str, password: &str) -> String {
    format!("Authorization: Basic {}\r\n", STANDARD.encode(format!("{user}:{password}")))
}

impl Client {
    pub(super) async fn connect(address: SocketAddr) -> Client {
        let stream = soon(TcpStream::connect(address)).await.unwrap();
        Client { stream: Box::new(stream), unread: Vec::new() }
    }

    pub(super) async fn connect_tls(address: SocketAddr, tls: &TlsClient) -> Client {
        let stream = soon(TcpStream::connect(address)).await.unwrap();
        let (stream, _) = soon(tls.connect(stream)).await.unwrap();
        Client { stream: Box::new(stream), unread: Vec::new() }
    }

    pub(super) async fn send(&mut self, bytes: impl AsRef<[u8]>) {
        soon(self.stream.write_all(bytes.as_ref())).await.unwrap();
        soon(self.stream.flush()).await.unwrap();
    }

    /// Sends a request without a body; `fields` are whole lines.
    pub(super) async fn request(&mut self, line: &str, fields: &str) -> Answer {
        self.send(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")).await;
        if line.starts_with("HEAD") { self.head().await.0 } else { self.answer().await }
    }

    /// Sends a request with a body.
    pub(super) async fn upload(&mut self, line: &str, fields: &str, body: &[u8]) -> Answer {
        let length = body.len();
        let fields = format!("{fields}Content-Length: {length}\r\n");
        self.send(format!("{line} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n")).await;
        self.send(body).await;
        self.answer().await
    }

    /// Reads one answer.
    pub(super) async fn answer(&mut self) -> Answer {
        let (mut answer, length) = self.head().await;
        let chunked = answer.field("transfer-encoding") == "chunked";
        while !chunked && self.unread.len() < length {
            assert!(self.read().await > 0, "the answer ends early: {answer:?}");
        }
        answer.body =
            if chunked { self.chunks().await } else { self.unread.drain(..length).collect() };
        answer
    }

    async fn head(&mut self) -> (Answer, usize) {
        let end = loop {
            if let Some(end) = self.unread.windows(4).position(|four| four == b"\r\n\r\n") {
                break end;
            }
            assert!(self.read().await > 0, "no answer: {:?}", self.unread);
        };
        let head: Vec<u8> = self.unread.drain(..end + 4).collect();
        let head = String::from_utf8(head).unwrap();
        let mut lines = head.trim_end().split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let field = |line: &str| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_ascii_lowercase(), value.to_owned())
        };
        let answer = Answer { status, fields: lines.map(field).collect(), body: Vec::new() };
        let length = answer.field("content-length").parse().unwrap_or(0);
        (answer, length)
    }

    async fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let Some(end) = self.unread.windows(2).position(|two| two == b"\r\n") else {
                assert!(self.read().await > 0, "a chunk is missing");
                continue;
            };
            let size = std::str::from_utf8(&self.unread[..end]).unwrap();
            let size = usize::from_str_radix(size, 16).unwrap();
            while self.unread.len() < end + 2 + size + 2 {
                assert!(self.read().await > 0, "a chunk is cut");
            }
            body.extend_from_slice(&self.unread[end + 2..end + 2 + size]);
            self.unread.drain(..end + 2 + size + 2);
            if size == 0 {
                return body;
            }
        }
    }

    async fn read(&mut self) -> usize {
        let mut bytes = vec![0; 64 * 1024];
        let count = soon(self.stream.read(&mut bytes)).await.unwrap_or(0);
        self.unread.extend_from_slice(&bytes[..count]);
        count
    }

    /// What has come and was not read; waits for something.
    pub(super) async fn more(&mut self) -> String {
        assert!(self.read().await > 0, "the connection is closed");
        String::from_utf8_lossy(&std::mem::take(&mut self.unread)).into_owned()
    }

    /// Reads what comes until the server closes the connection.
    pub(super) async fn rest(&mut self) -> String {
        while self.read().await > 0 {}
        String::from_utf8_lossy(&std::mem::take(&mut self.unread)).into_owned()
    }
}
