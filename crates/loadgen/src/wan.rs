//! A WAN between two sockets of this machine: a relay that holds every byte for half a round trip
//! and passes no more of them than the line carries, each direction for itself.
//!
//! The line: bytes leave one behind the other at the line's rate, then travel for the delay. What
//! waits for the line is bounded by [`QUEUE_TIME`] of it; then the relay reads no more and the
//! sender's TCP waits, as it would behind a router that drops nothing.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use entrepot_net::NetError;
use entrepot_net::dial::{self, DialPolicy};
use entrepot_net::listen::{self, TcpAcceptor};
use entrepot_nouns::Env;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::{JoinHandle, JoinSet};

use crate::limits::{CONNECT_TIME, QUEUE_BYTES, QUEUE_TIME, RELAY_READ_BYTES};

/// What the line is like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wan {
    /// Round-trip time that is added: half of it in each direction.
    pub delay: Duration,
    /// Bits a second, each direction; `None`: as fast as this machine.
    pub rate: Option<u64>,
}

/// What was on its way at most, per direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    /// Bytes towards the server.
    pub up_bytes: u64,
    /// Bytes towards the client.
    pub down_bytes: u64,
}

/// A relay towards one server. Ends all its connections when dropped.
#[derive(Debug)]
pub struct Relay {
    address: SocketAddr,
    peaks: Arc<[AtomicU64; 2]>,
    task: JoinHandle<()>,
}

impl Relay {
    /// Listens on a free port of loopback and passes on to `host:port`.
    ///
    /// # Errors
    /// No port is free.
    pub fn start(host: &str, port: u16, wan: Wan, env: &Env) -> Result<Relay, NetError> {
        let acceptor = listen::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        let address = acceptor.local_address();
        let peaks = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let line = Line { wan, env: env.clone() };
        let server = Server { host: host.to_owned(), port };
        let task = tokio::spawn(relay(acceptor, server, line, peaks.clone()));
        Ok(Relay { address, peaks, task })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What was on its way at most, since the start.
    pub fn peaks(&self) -> Peaks {
        let [up, down] = &*self.peaks;
        let read = |peak: &AtomicU64| peak.load(Ordering::Relaxed);
        Peaks { up_bytes: read(up), down_bytes: read(down) }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The server behind the relay.
#[derive(Clone)]
struct Server {
    host: String,
    port: u16,
}

#[derive(Clone)]
struct Line {
    wan: Wan,
    env: Env,
}

async fn relay(acceptor: TcpAcceptor, server: Server, line: Line, peaks: Arc<[AtomicU64; 2]>) {
    // Dropped with this task, and with it every connection.
    let mut connections = JoinSet::new();
    loop {
        let (near, _) = acceptor.accept().await;
        while connections.try_join_next().is_some() {}
        let (server, line, peaks) = (server.clone(), line.clone(), peaks.clone());
        connections.spawn(async move {
            let policy = DialPolicy { allow_private: true };
            let far = dial::tcp(&server.host, server.port, &policy, CONNECT_TIME).await;
            let Ok(far) = far else { return };
            let (near_in, near_out) = near.into_split();
            let (far_in, far_out) = far.into_split();
            let [up, down] = &*peaks;
            let up = pass(near_in, far_out, &line, up);
            let down = pass(far_in, near_out, &line, down);
            tokio::join!(up, down);
        });
    }
}

/// What is on its way in one direction.
#[derive(Default)]
struct Road {
    state: Mutex<Travelling>,
    filled: Notify,
    emptied: Notify,
}

#[derive(Default)]
struct Travelling {
    /// Bytes and when they arrive; no bytes: the end.
    pieces: VecDeque<(Duration, Bytes)>,
    bytes: u64,
}

/// One direction, to its end.
async fn pass(
    from: impl AsyncRead + Unpin,
    to: impl AsyncWrite + Unpin,
    line: &Line,
    peak: &AtomicU64,
) {
    let road = Road::default();
    tokio::join!(depart(from, &road, line, peak), arrive(to, &road, line));
}

async fn depart(mut from: impl AsyncRead + Unpin, road: &Road, line: &Line, peak: &AtomicU64) {
    let (rate, delay) = (line.wan.rate, line.wan.delay / 2);
    // When the line has sent all that was given to it.
    let mut free = Duration::ZERO;
    loop {
        while road.state.lock().bytes >= room(line.wan) {
            road.emptied.notified().await;
        }
        let mut buffer = bytes::BytesMut::with_capacity(RELAY_READ_BYTES);
        // A broken connection ends like one that was closed.
        let read = from.read_buf(&mut buffer).await.unwrap_or(0);
        let sending = rate.map_or(Duration::ZERO, |rate| {
            let nanos = (read as u64).saturating_mul(8_000_000_000) / rate.max(1);
            Duration::from_nanos(nanos)
        });
        free = free.max(line.env.elapsed()) + sending;
        let mut state = road.state.lock();
        state.bytes += read as u64;
        state.pieces.push_back((free + delay, buffer.freeze()));
        peak.fetch_max(state.bytes, Ordering::Relaxed);
        drop(state);
        road.filled.notify_one();
        if read == 0 {
            return;
        }
    }
}

async fn arrive(mut to: impl AsyncWrite + Unpin, road: &Road, line: &Line) {
    let mut gone = false;
    loop {
        let next = road.state.lock().pieces.pop_front();
        let Some((due, bytes)) = next else {
            road.filled.notified().await;
            continue;
        };
        let wait = due.saturating_sub(line.env.elapsed());
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if bytes.is_empty() {
            // The peer may be gone already.
            let _ = to.shutdown().await;
            return;
        }
        // Without a receiver the bytes are lost; the sender's own socket shows it.
        gone = gone || to.write_all(&bytes).await.is_err();
        road.state.lock().bytes -= bytes.len() as u64;
        road.emptied.notify_one();
    }
}

/// Bytes that may be on their way and wait for the line.
fn room(wan: Wan) -> u64 {
    let time = wan.delay / 2 + QUEUE_TIME;
    let carried = |rate: u64| (rate as f64 / 8.0 * time.as_secs_f64()) as u64;
    wan.rate.map_or(QUEUE_BYTES, |rate| carried(rate).clamp(RELAY_READ_BYTES as u64, QUEUE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn echo() -> (SocketAddr, JoinHandle<()>) {
        let acceptor = listen::bind(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let address = acceptor.local_address();
        let task = tokio::spawn(async move {
            let (mut stream, _) = acceptor.accept().await;
            let (mut input, mut output) = stream.split();
            tokio::io::copy(&mut input, &mut output).await.unwrap();
            output.shutdown().await.unwrap();
        });
        (address, task)
    }

    async fn through(relay: &Relay) -> tokio::net::TcpStream {
        let policy = DialPolicy { allow_private: true };
        let address = relay.address();
        dial::tcp("127.0.0.1", address.port(), &policy, CONNECT_TIME).await.unwrap()
    }

    #[tokio::test]
    async fn bytes_come_back_after_a_round_trip_and_the_end_behind_them() {
        let env = Env::real();
        let (address, server) = echo().await;
        let delay = Duration::from_millis(120);
        let wan = Wan { delay, rate: None };
        let relay = Relay::start("127.0.0.1", address.port(), wan, &env).unwrap();
        let mut stream = through(&relay).await;
        let began = env.elapsed();
        stream.write_all(b"hello").await.unwrap();
        stream.shutdown().await.unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"hello");
        assert!(env.elapsed() - began >= delay, "it was faster than the line");
        assert_eq!(relay.peaks(), Peaks { up_bytes: 5, down_bytes: 5 });
        server.await.unwrap();
    }

    #[tokio::test]
    async fn no_more_passes_than_the_line_carries() {
        let env = Env::real();
        let (address, server) = echo().await;
        let wan = Wan { delay: Duration::from_millis(10), rate: Some(80_000_000) };
        let relay = Relay::start("127.0.0.1", address.port(), wan, &env).unwrap();
        let stream = through(&relay).await;
        let (mut input, mut output) = stream.into_split();
        let began = env.elapsed();
        let sent = vec![7; 2_000_000];
        let (written, got) = tokio::join!(
            async move {
                output.write_all(&sent).await.unwrap();
                output.shutdown().await.unwrap();
                sent
            },
            async {
                let mut got = Vec::new();
                input.read_to_end(&mut got).await.unwrap();
                got
            }
        );
        assert!(written == got);
        // 2 MB at 10 MB a second.
        assert!(env.elapsed() - began >= Duration::from_millis(200));
        assert!(relay.peaks().up_bytes <= room(wan) + RELAY_READ_BYTES as u64);
        server.await.unwrap();
    }
}
