//! A server of HTTP that takes requests and web hooks, and remembers them.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context as _, Result};

/// A request as it came, whole.
#[derive(Clone, Debug)]
pub(super) struct Got {
    pub(super) path: String,
    /// Its `Idempotency-Key`, its `webhook-id`, or its Message-ID: then its subject is the path.
    pub(super) key: String,
    pub(super) body: Vec<u8>,
}

/// A running server; it ends with the process.
pub(super) struct Receiver {
    port: u16,
    got: Arc<Mutex<Vec<Got>>>,
}

impl Receiver {
    pub(super) fn start() -> Result<Receiver> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let port = listener.local_addr()?.port();
        let got = Arc::<Mutex<Vec<Got>>>::default();
        let all = Arc::clone(&got);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let all = Arc::clone(&all);
                // A request that ends in the middle is none.
                std::thread::spawn(move || drop(serve(stream, &all)));
            }
        });
        Ok(Receiver { port, got })
    }

    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Every request so far.
    pub(super) fn got(&self) -> Vec<Got> {
        self.got.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn serve(mut stream: TcpStream, all: &Mutex<Vec<Got>>) -> Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.extend(byte);
    }
    let head = String::from_utf8(head)?;
    let field = |name: &str| {
        let mut fields = head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, it)| it.to_owned())
    };
    let mut body = vec![0; field("content-length").map_or(Ok(0), |it| it.parse())?];
    stream.read_exact(&mut body)?;
    let path = head.split(' ').nth(1).context("a path")?.to_owned();
    let path = field("subject").unwrap_or(path);
    let key = field("idempotency-key").or_else(|| field("webhook-id"));
    let key = key.or_else(|| field("message-id")).context("a key")?;
    let (is_flaky, got) = (path.starts_with("/flaky-"), Got { path, key, body });
    let is_new = {
        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
        let seen: BTreeSet<&String> = all.iter().map(|got| &got.key).collect();
        let is_new = !seen.contains(&got.key);
        all.push(got);
        is_new
    };
    let status = if is_flaky && is_new { "503 Not Now" } else { "200 OK" };
    let answer =
        format!("HTTP/1.1 {status}\r\nContent-Length: 8\r\nConnection: close\r\n\r\n{{\"id\":7}}");
    Ok(stream.write_all(answer.as_bytes())?)
}
