//! Active data connections: we dial. Whether we may is decided before, when PORT or EPRT come
//! ([`super::DataPeer::may_dial`]).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

use super::error::DataError;
use crate::socket;

/// Where an active connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ActiveFrom {
    /// The control connection's local address; its port is not used.
    pub local: SocketAddr,
    /// A port of our own, such as 20 (RFC 959 §3.2), which some firewalls expect and which needs
    /// CAP_NET_BIND_SERVICE; `None`: any. A fixed port serves one connection to a peer's port at a
    /// time, TIME_WAIT included.
    pub port: Option<u16>,
}

/// Connects to `peer` within `wait`.
///
/// # Errors
/// No answer, refused, or no way to it.
pub async fn connect(
    from: ActiveFrom,
    peer: SocketAddr,
    wait: Duration,
) -> Result<TcpStream, DataError> {
    let failed = |error| DataError::Connect { peer, error };
    let socket = bound(from, peer).map_err(failed)?;
    match timeout(wait, socket.connect(canonical(peer))).await {
        Ok(connected) => connected.map_err(failed),
        Err(_) => Err(DataError::Timeout),
    }
}

pub(super) fn bound(from: ActiveFrom, peer: SocketAddr) -> io::Result<TcpSocket> {
    let mut local = canonical(from.local);
    let is_v4 = canonical(peer).is_ipv4();
    if local.is_ipv4() != is_v4 {
        return Err(io::ErrorKind::AddrNotAvailable.into());
    }
    let socket = if is_v4 { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    local.set_port(from.port.unwrap_or(0));
    if from.port.is_some() {
        socket.set_reuseaddr(true)?;
    } else {
        socket::bind_without_port(&socket)?;
    }
    socket.bind(local)?;
    Ok(socket)
}

/// IPv4 as IPv4.
fn canonical(address: SocketAddr) -> SocketAddr {
    match address {
        SocketAddr::V6(v6) => match v6.ip().to_ipv4_mapped() {
            Some(ip) => SocketAddr::new(ip.into(), v6.port()),
            None => address,
        },
        SocketAddr::V4(_) => address,
    }
}
