//! Data connections on loopback.

mod bytes;
mod passive;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::Env;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::mpsc;

use super::*;
use crate::listen;
use crate::meter::SessionMeter;

/// Long enough for anything on loopback.
const SOON: Duration = Duration::from_secs(20);

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// `count` ports in a row that are free now.
fn range(count: u16) -> PortRange {
    for _ in 0..100 {
        let first = listen::free_address((ip("127.0.0.1"), 0).into()).unwrap().port();
        let ports = first..first.saturating_add(count);
        let is_free = |port| listen::free_address((ip("127.0.0.1"), port).into()).is_ok();
        if ports.len() == usize::from(count) && ports.clone().all(is_free) {
            return PortRange::new(first, first + count - 1).unwrap();
        }
    }
    panic!("no ports are free");
}

struct Fixture {
    env: Env,
    ports: DataPorts,
    refusals: mpsc::Receiver<Refused>,
}

impl Fixture {
    fn new(range: PortRange, proxies: &[&str]) -> Self {
        let env = Env::simulated(1);
        let proxies = proxies.iter().map(|network| network.parse().unwrap()).collect();
        let options = DataPortsOptions { env: env.clone(), range, proxies };
        let (ports, refusals) = DataPorts::new(options);
        Fixture { env, ports, refusals }
    }

    fn seat(&self, peer: &str) -> PassiveSeat {
        self.seat_with(peer, DataPeer::Same)
    }

    fn seat_with(&self, peer: &str, policy: DataPeer) -> PassiveSeat {
        let local = "127.0.0.1:21".parse().unwrap();
        let meter = Arc::new(SessionMeter::new(self.env.clone()));
        self.ports.seat(SeatOptions { local, peer: ip(peer), policy, meter })
    }

    /// The next who was refused.
    async fn refused(&mut self) -> Refused {
        tokio::time::timeout(SOON, self.refusals.recv()).await.unwrap().unwrap()
    }
}

async fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    dial(from, to).await.unwrap()
}

async fn dial(from: &str, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((ip(from), 0).into()).unwrap();
    socket.connect(to).await
}

/// Connects; true if it is reset, at once or soon.
async fn is_refused(from: &str, to: SocketAddr) -> bool {
    match dial(from, to).await {
        Ok(mut stream) => is_reset(&mut stream).await,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
    }
}

/// True if the peer has reset the connection.
async fn is_reset(stream: &mut TcpStream) -> bool {
    let read = tokio::time::timeout(SOON, stream.read(&mut [0; 1])).await.unwrap();
    read.is_err_and(|error| error.kind() == std::io::ErrorKind::ConnectionReset)
}
