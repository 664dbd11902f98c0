//! What sockets are asked for below tokio: one function a system call.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, SocketFlags};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// How the peer of a control connection stands right now, with nothing read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// It may go on.
    Open,
    /// It sends no more, but what it sent before has not been read yet: a QUIT may be in it.
    ClosedBehindBytes,
    /// It sends no more.
    Closed,
    /// It has reset the connection.
    Reset,
}

/// Looks without reading and without waiting.
pub(crate) fn peer_state(socket: impl AsFd) -> PeerState {
    let mut polled = [PollFd::new(&socket, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let events = match rustix::event::poll(&mut polled, Some(&now)) {
        Ok(0) | Err(_) => return PeerState::Open,
        Ok(_) => polled.first().map_or(PollFlags::empty(), PollFd::revents),
    };
    if events.contains(PollFlags::ERR) {
        return PeerState::Reset;
    }
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(&socket, &mut [0; 1], flags) {
        Ok((0, _)) => PeerState::Closed,
        Ok(_) => PeerState::ClosedBehindBytes,
        Err(Errno::AGAIN) => PeerState::Open,
        Err(_) => PeerState::Reset,
    }
}

/// Accepts a connection, without waiting, and says where it comes from.
pub(crate) fn accept_now(listener: impl AsFd) -> io::Result<(TcpStream, SocketAddr)> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let (accepted, peer) = rustix::net::acceptfrom_with(listener, flags)?;
    // Without an address it was gone at once.
    let peer = peer.ok_or(Errno::CONNABORTED)?;
    Ok((accepted.into(), SocketAddr::try_from(peer)?))
}

/// From now on the runtime watches the connection.
pub(crate) fn watch(socket: Arc<TcpStream>) -> io::Result<AsyncFd<Arc<TcpStream>>> {
    // Deprecated for types that may close their descriptor behind its back: this one owns it.
    #[allow(deprecated)]
    AsyncFd::new(socket)
}

/// From now on the runtime watches what can be read, or accepted.
pub(crate) fn watch_readable<T: AsRawFd>(source: T) -> io::Result<AsyncFd<T>> {
    // As in `watch`.
    #[allow(deprecated)]
    AsyncFd::with_interest(source, Interest::READABLE)
}

/// Closing the socket from now on resets its connection (SO_LINGER 0, socket(7)).
pub(crate) fn reset_when_closed(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO))?)
}

/// Lets connect(2) choose the port although an address is bound (IP_BIND_ADDRESS_NO_PORT, ip(7)):
/// bind(2) would need a port that no connection uses, connect needs one that none to this peer
/// uses.
pub(crate) fn bind_without_port(socket: impl AsFd) -> io::Result<()> {
    const NO_PORT: IntOption =
        IntOption { level: libc::IPPROTO_IP, name: libc::IP_BIND_ADDRESS_NO_PORT };
    set(socket, NO_PORT, 1)
}

/// Who waits for bytes is woken when so many are there, or the end (SO_RCVLOWAT, socket(7)); at
/// once if they are there already. Reading takes what is there as ever.
pub(crate) fn wake_at(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    const LOW_WATER: IntOption = IntOption { level: libc::SOL_SOCKET, name: libc::SO_RCVLOWAT };
    set(socket, LOW_WATER, bytes.try_into().unwrap_or(libc::c_int::MAX))
}

/// Acknowledges what was read now, and does not wait for an answer to go with it until the next
/// one (TCP_QUICKACK, tcp(7)).
pub(crate) fn acknowledge(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_quickack(socket, true)?)
}

/// A socket option whose value is one C int.
struct IntOption {
    level: libc::c_int,
    name: libc::c_int,
}

fn set(socket: impl AsFd, option: IntOption, value: libc::c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of_val(&value)).unwrap_or_default();
    // SAFETY: the descriptor is open as long as it is borrowed, and the pointer is of a C int that
    // lives until the call returns, with its size.
    let done = unsafe {
        let fd = socket.as_fd().as_raw_fd();
        libc::setsockopt(fd, option.level, option.name, (&raw const value).cast(), length)
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What is written leaves at once, without Nagle's delay (TCP_NODELAY, tcp(7)).
pub(crate) fn send_at_once(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_tcp_nodelay(socket, true)?)
}

/// Writes without waiting; `None`: the socket takes nothing now.
pub(crate) fn write_now(socket: impl AsFd, data: &[u8]) -> io::Result<Option<usize>> {
    match rustix::net::send(&socket, data, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
        Ok(count) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Urgent bytes stay where they are in the stream (SO_OOBINLINE): Telnet's Synch (RFC 854).
pub(crate) fn keep_urgent_inline(socket: impl AsFd) -> io::Result<()> {
    Ok(rustix::net::sockopt::set_socket_oobinline(socket, true)?)
}

/// Reads what is there, without waiting; `None`: nothing is.
pub(crate) fn read_now(socket: impl AsFd, out: &mut [u8]) -> io::Result<Option<usize>> {
    match rustix::net::recv(&socket, out, RecvFlags::DONTWAIT) {
        Ok((count, _)) => Ok(Some(count)),
        Err(Errno::AGAIN) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
