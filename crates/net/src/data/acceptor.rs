//! The socket of a kept port: it accepts connections without making them known to the runtime.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use super::lazy::LazySocket;
use crate::listen::AcceptFailures;
use crate::{NetError, listen, socket};

/// A bound port that accepts data connections, with Nagle's delay: each carries one file.
#[derive(Debug)]
pub(super) struct DataAcceptor {
    listener: AsyncFd<std::net::TcpListener>,
    address: SocketAddr,
}

impl DataAcceptor {
    /// Binds and listens.
    ///
    /// # Errors
    /// As [`listen::bind`].
    pub(super) fn bind(address: SocketAddr) -> Result<DataAcceptor, NetError> {
        let acceptor = listen::bind_for_files(address)?;
        let address = acceptor.local_address();
        let listener = acceptor.into_inner().into_std().and_then(socket::watch_readable);
        let listener = listener.map_err(|error| NetError::Listen { address, error })?;
        Ok(DataAcceptor { listener, address })
    }

    /// Where it listens, with the real port.
    pub(super) fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// The next connection. Never fails: what concerns one connection is skipped, want of
    /// descriptors is waited out.
    pub(super) async fn accept(&self) -> (LazySocket, SocketAddr) {
        let mut failures = AcceptFailures::default();
        loop {
            let accepting = self.listener.async_io(Interest::READABLE, |it| socket::accept_now(it));
            match accepting.await {
                Ok((accepted, peer)) => return (LazySocket::accepted(accepted), peer),
                Err(error) => failures.wait_out(self.address, &error).await,
            }
        }
    }

    /// A connection that the kernel holds already. `None`: there is none now.
    pub(super) fn accept_now(&self) -> Option<(LazySocket, SocketAddr)> {
        self.accept_by(|| socket::accept_now(self.listener.get_ref()))
    }

    /// One more behind another that [`DataAcceptor::accept`] gave. `None`: there is none, and the
    /// runtime tells of the next.
    pub(super) fn accept_next(&self) -> Option<(LazySocket, SocketAddr)> {
        self.accept_by(|| self.listener.try_io(Interest::READABLE, |it| socket::accept_now(it)))
    }

    fn accept_by(
        &self,
        accept: impl Fn() -> io::Result<(TcpStream, SocketAddr)>,
    ) -> Option<(LazySocket, SocketAddr)> {
        loop {
            match accept() {
                Ok((accepted, peer)) => return Some((LazySocket::accepted(accepted), peer)),
                // What concerns one connection is skipped.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return None,
                Err(error) => {
                    tracing::debug!(address = %self.address, %error, "cannot accept now");
                    return None;
                }
            }
        }
    }
}
