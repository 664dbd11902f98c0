//! The client's side of data connections in clear: connecting to the peer of the control
//! connection, listening for it, and moving bytes that nobody looks at.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, OwnedFd};

use rustix::fs::MemfdFlags;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::Interest;
use tokio::net::TcpStream;

use super::buffer::UploadBuffer;
use crate::NetError;
use crate::limits::{DATA_STEP_BYTES, POOLED_BUFFER_BYTES};
use crate::listen::{self, TcpAcceptor};

/// Connects to the port that the server named. No look at the address: it is the peer's of a
/// control connection that was dialled under a policy, never one that the server chose.
///
/// # Errors
/// Refused, or no way to it.
pub async fn dial(control: SocketAddr, port: u16) -> io::Result<TcpStream> {
    TcpStream::connect(SocketAddr::new(control.ip(), port)).await
}

/// A port on which a client waits for its server. Bound once for a session: a bind for each
/// transfer walks over all ports in TIME_WAIT.
#[derive(Debug)]
pub struct ClientPort {
    acceptor: TcpAcceptor,
    server: IpAddr,
}

impl ClientPort {
    /// A free port on the control connection's local address.
    ///
    /// # Errors
    /// No port is free, or the address has gone.
    pub fn bind(local: SocketAddr, server: SocketAddr) -> Result<Self, NetError> {
        let acceptor = listen::bind_for_files(SocketAddr::new(local.ip(), 0))?;
        Ok(ClientPort { acceptor, server: server.ip() })
    }

    /// Where it listens, for PORT and EPRT.
    pub fn address(&self) -> SocketAddr {
        self.acceptor.local_address()
    }

    /// The next connection of the server; others are closed.
    pub async fn accept(&self) -> TcpStream {
        loop {
            let (stream, peer) = self.acceptor.accept().await;
            if peer.ip() == self.server {
                return stream;
            }
        }
    }
}

/// Reads to the end and counts; the kernel drops the bytes (MSG_TRUNC, tcp(7)), no copy is made.
///
/// # Errors
/// Of the connection.
pub async fn discard(stream: &TcpStream) -> io::Result<u64> {
    let mut total = 0;
    loop {
        let received = stream.async_io(Interest::READABLE, || {
            // Room that says how much may be dropped; nothing is written to it.
            let mut room = UploadBuffer::default();
            let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
            Ok(rustix::net::recv(stream.as_fd(), room.space(), flags)?.1)
        });
        match received.await? {
            0 => return Ok(total),
            count => total += count as u64,
        }
    }
}

/// Bytes to send again and again, in memory and as a file in memory for sendfile(2).
#[derive(Debug)]
pub struct Pattern {
    bytes: Vec<u8>,
    file: OwnedFd,
}

impl Pattern {
    /// Of these bytes.
    ///
    /// # Errors
    /// No memory, no descriptors, or no bytes.
    pub fn new(bytes: Vec<u8>) -> io::Result<Self> {
        if bytes.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let file = rustix::fs::memfd_create("entrepot-pattern", MemfdFlags::CLOEXEC)?;
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let count = rustix::io::write(&file, rest)?;
            rest = rest.get(count..).unwrap_or_default();
        }
        Ok(Pattern { bytes, file })
    }

    /// What is at `offset` of the endless stream, up to the pattern's end or `most` bytes.
    pub fn piece(&self, offset: u64, most: u64) -> &[u8] {
        let length = self.bytes.len() as u64;
        let at = usize::try_from(offset % length).unwrap_or(0);
        let rest = self.bytes.get(at..).unwrap_or_default();
        rest.get(..usize::try_from(most).unwrap_or(usize::MAX)).unwrap_or(rest)
    }

    /// Sends `size` bytes, the pattern again and again. What is small is copied, the rest not.
    ///
    /// # Errors
    /// Of the connection.
    pub async fn send(&self, stream: &TcpStream, size: u64) -> io::Result<()> {
        let mut sent = 0;
        while sent < size {
            let piece = self.piece(sent, (size - sent).min(DATA_STEP_BYTES as u64));
            let count = stream.async_io(Interest::WRITABLE, || {
                if piece.len() == self.bytes.len() || piece.len() > POOLED_BUFFER_BYTES {
                    let mut offset = sent % self.bytes.len() as u64;
                    let (socket, at) = (stream.as_fd(), Some(&mut offset));
                    return Ok(rustix::fs::sendfile(socket, &self.file, at, piece.len())?);
                }
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                Ok(rustix::net::send(stream.as_fd(), piece, flags)?)
            });
            sent += count.await? as u64;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    fn loopback() -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 0))
    }

    #[tokio::test]
    async fn a_port_takes_the_server_only() {
        let port = ClientPort::bind(loopback(), loopback()).unwrap();
        let intruder = tokio::net::TcpSocket::new_v4().unwrap();
        intruder.bind(SocketAddr::from(([127, 0, 0, 2], 0))).unwrap();
        let mut intruder = intruder.connect(port.address()).await.unwrap();
        let server = dial(loopback(), port.address().port()).await.unwrap();
        let taken = port.accept().await;
        assert_eq!(taken.peer_addr().unwrap(), server.local_addr().unwrap());
        assert_eq!(intruder.read(&mut [0]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn the_pattern_is_sent_whole_and_counted_where_it_is_dropped() {
        let bytes: Vec<u8> = (0..300_000u32).map(|n| n.to_le_bytes()[0] ^ 0x5a).collect();
        let pattern = Pattern::new(bytes.clone()).unwrap();
        let port = ClientPort::bind(loopback(), loopback()).unwrap();
        for size in [0u64, 1000, 1_000_001] {
            let sender = dial(loopback(), port.address().port()).await.unwrap();
            let mut receiver = port.accept().await;
            let mut got = Vec::new();
            let (sent, _) = tokio::join!(
                async {
                    let sent = pattern.send(&sender, size).await;
                    drop(sender);
                    sent
                },
                receiver.read_to_end(&mut got)
            );
            sent.unwrap();
            let wanted: Vec<u8> = bytes.iter().copied().cycle().take(size as usize).collect();
            assert!(got == wanted, "{size}: {} bytes", got.len());
            let sender = dial(loopback(), port.address().port()).await.unwrap();
            let receiver = port.accept().await;
            let (_, counted) = tokio::join!(
                async {
                    pattern.send(&sender, size).await.unwrap();
                    drop(sender);
                },
                discard(&receiver)
            );
            assert_eq!(counted.unwrap(), size);
        }
        assert!(Pattern::new(Vec::new()).is_err());
    }
}
