//! Listening TCP sockets: bound in one place, with one error for each way in which that fails.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::NetError;
use crate::limits::{ACCEPT_FAILURES_LOGGED, ACCEPT_PAUSE, LISTEN_BACKLOG};
use crate::socket;

/// A bound and listening TCP socket.
#[derive(Debug)]
pub struct TcpAcceptor {
    listener: TcpListener,
    address: SocketAddr,
}

/// Binds and listens; what is accepted has no delay of Nagle's. Port 0 takes a free one, see
/// [`TcpAcceptor::local_address`].
///
/// # Errors
/// A busy port, a forbidden one, an address of no interface: each its own sentence.
pub fn bind(address: SocketAddr) -> Result<TcpAcceptor, NetError> {
    let acceptor = bind_for_files(address)?;
    // Connections take it over from the socket that accepts them.
    socket::send_at_once(&acceptor.listener)
        .map_err(|error| NetError::Listen { address, error })?;
    Ok(acceptor)
}

/// As [`bind`], with Nagle's delay: for connections that carry one file.
pub(crate) fn bind_for_files(address: SocketAddr) -> Result<TcpAcceptor, NetError> {
    let listener = listen(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => NetError::PortBusy(address),
        ErrorKind::PermissionDenied => NetError::PortForbidden(address),
        ErrorKind::AddrNotAvailable => NetError::AddressMissing(address),
        _ => NetError::Listen { address, error },
    })?;
    let address = listener.local_addr().unwrap_or(address);
    Ok(TcpAcceptor { listener, address })
}

/// `address` if nobody listens there now; with port 0 a port that is free now.
///
/// # Errors
/// As [`bind`].
pub fn free_address(address: SocketAddr) -> Result<SocketAddr, NetError> {
    bind(address).map(|acceptor| acceptor.local_address())
}

impl TcpAcceptor {
    /// Where it listens, with the real port.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// One more that accepts at the same socket, which is closed with the last of them.
    ///
    /// # Errors
    /// Want of descriptors.
    pub fn of_the_same_socket(&self) -> Result<TcpAcceptor, NetError> {
        let address = self.address;
        let another = || {
            let socket = self.listener.as_fd().try_clone_to_owned()?;
            TcpListener::from_std(std::net::TcpListener::from(socket))
        };
        let listener = another().map_err(|error| NetError::Listen { address, error })?;
        Ok(TcpAcceptor { listener, address })
    }

    /// The socket itself, for servers that accept on their own.
    pub fn into_inner(self) -> TcpListener {
        self.listener
    }

    /// Where all its connections come to, if it listens at one address.
    pub(crate) fn only_address(&self) -> Option<SocketAddr> {
        (!self.address.ip().is_unspecified()).then_some(self.address)
    }

    /// The next connection. Never fails: what concerns one connection is skipped, want of
    /// descriptors is waited out.
    pub async fn accept(&self) -> (TcpStream, SocketAddr) {
        let mut failures = AcceptFailures::default();
        loop {
            match self.listener.accept().await {
                Ok(accepted) => return accepted,
                Err(error) => failures.wait_out(self.address, &error).await,
            }
        }
    }
}

/// How often a socket could not accept since it last did.
#[derive(Default)]
pub(crate) struct AcceptFailures(u32);

impl AcceptFailures {
    /// What concerns one connection is skipped; want of descriptors is waited out, and told now
    /// and then.
    pub(crate) async fn wait_out(&mut self, address: SocketAddr, error: &std::io::Error) {
        if error.kind() == ErrorKind::ConnectionAborted {
            return;
        }
        if self.0.is_multiple_of(ACCEPT_FAILURES_LOGGED) {
            tracing::warn!(%address, %error, "cannot accept, waiting");
        }
        self.0 = self.0.wrapping_add(1);
        tokio::time::sleep(ACCEPT_PAUSE).await;
    }
}

impl AsFd for TcpAcceptor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(LISTEN_BACKLOG)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[tokio::test]
    async fn a_busy_port_has_its_own_sentence() {
        let first = bind(loopback()).unwrap();
        let error = bind(first.local_address()).unwrap_err();
        assert_eq!(error.code(), "EP0210");
        assert!(error.to_string().contains(&first.local_address().to_string()));
    }

    #[tokio::test]
    async fn an_address_of_no_interface_has_its_own_sentence() {
        let error = bind(SocketAddr::from(([192, 0, 2, 1], 0))).unwrap_err();
        assert_eq!(error.code(), "EP0212");
    }

    #[tokio::test]
    async fn a_free_address_can_be_bound_and_a_busy_one_is_told() {
        let free = free_address(loopback()).unwrap();
        assert_ne!(free.port(), 0);
        let _taken = bind(free).unwrap();
        assert_eq!(free_address(free).unwrap_err().code(), "EP0210");
    }

    #[tokio::test]
    async fn accepted_connections_have_no_delay() {
        let acceptor = bind(loopback()).unwrap();
        let client = TcpStream::connect(acceptor.local_address()).await.unwrap();
        let (server, peer) = acceptor.accept().await;
        assert!(server.nodelay().unwrap());
        assert_eq!(peer, client.local_addr().unwrap());
    }
}
