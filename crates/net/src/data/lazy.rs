//! A socket of a data connection, which the runtime learns of when it must wait for the first time.
//!
//! A small transfer moves all its bytes in one or two calls that need not wait. To watch its
//! socket would take more calls than the transfer itself: one to begin, one to end, and a turn of
//! the runtime that says that the socket may be written to. So what is asked of it is tried at
//! once, and only when that would wait the socket is watched.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use crate::socket;

/// So many calls are made that the runtime does not know of: a socket that never has to wait must
/// leave others their turn all the same.
const TRIES: u8 = 4;

/// See the module.
#[derive(Debug)]
pub(crate) struct LazySocket(Kind);

#[derive(Debug)]
enum Kind {
    Accepted(Unwatched),
    /// One that we have dialled: to connect is to wait.
    Dialled(TcpStream),
}

#[derive(Debug)]
struct Unwatched {
    /// Ends before the socket is closed.
    watch: Option<AsyncFd<Arc<std::net::TcpStream>>>,
    socket: Arc<std::net::TcpStream>,
    tries: u8,
}

impl From<TcpStream> for LazySocket {
    fn from(stream: TcpStream) -> Self {
        LazySocket(Kind::Dialled(stream))
    }
}

impl Unwatched {
    /// Makes a call at once, if such a one is left; `None`: it would wait.
    fn attempt<T>(
        &mut self,
        call: &mut impl FnMut(&std::net::TcpStream) -> io::Result<T>,
    ) -> Option<io::Result<T>> {
        if self.watch.is_some() || self.tries == 0 {
            return None;
        }
        self.tries -= 1;
        match call(&self.socket) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            done => Some(done),
        }
    }

    fn watch(&mut self) -> io::Result<&AsyncFd<Arc<std::net::TcpStream>>> {
        let watch = match self.watch.take() {
            Some(watch) => watch,
            None => socket::watch(Arc::clone(&self.socket))?,
        };
        Ok(self.watch.insert(watch))
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, out: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let room = out.initialize_unfilled();
        let wanted = room.len();
        let mut read = |mut socket: &std::net::TcpStream| socket.read(room);
        if let Some(done) = self.attempt(&mut read) {
            out.advance(done?);
            return Poll::Ready(Ok(()));
        }
        let watch = self.watch()?;
        loop {
            let mut ready = ready!(watch.poll_read_ready(cx))?;
            if let Ok(done) = ready.try_io(|watch| read(watch.get_ref())) {
                let count = done?;
                // There is no more: what comes later, the end as well, is told anew.
                if 0 < count && count < wanted {
                    ready.clear_ready();
                }
                out.advance(count);
                return Poll::Ready(Ok(()));
            }
        }
    }

    fn poll_write_by<T>(
        &mut self,
        cx: &mut Context<'_>,
        call: &mut impl FnMut(&std::net::TcpStream) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        if let Some(done) = self.attempt(call) {
            return Poll::Ready(done);
        }
        let watch = self.watch()?;
        loop {
            let mut ready = ready!(watch.poll_write_ready(cx))?;
            if let Ok(done) = ready.try_io(|watch| call(watch.get_ref())) {
                return Poll::Ready(done);
            }
        }
    }
}

impl LazySocket {
    /// One that was accepted, and that makes nobody wait (O_NONBLOCK).
    pub(super) fn accepted(socket: std::net::TcpStream) -> Self {
        LazySocket(Kind::Accepted(Unwatched {
            watch: None,
            socket: Arc::new(socket),
            tries: TRIES,
        }))
    }

    /// Makes a call that writes, now or when the socket takes something.
    pub(super) fn poll_write_by<T>(
        &mut self,
        cx: &mut Context<'_>,
        mut call: impl FnMut(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Poll<io::Result<T>> {
        let stream = match &mut self.0 {
            Kind::Accepted(socket) => {
                return socket.poll_write_by(cx, &mut |socket| call(socket.as_fd()));
            }
            Kind::Dialled(stream) => stream,
        };
        loop {
            ready!(stream.poll_write_ready(cx))?;
            match stream.try_io(Interest::WRITABLE, || call(stream.as_fd())) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }

    /// Reads what is there, without waiting; `None`: nothing is.
    pub(super) fn read_now(&self, out: &mut [u8]) -> io::Result<Option<usize>> {
        socket::read_now(self, out)
    }

    /// Whether the runtime watches it.
    pub(super) fn is_watched(&self) -> bool {
        match &self.0 {
            Kind::Accepted(socket) => socket.watch.is_some(),
            Kind::Dialled(_) => true,
        }
    }

    /// Closing it from now on resets it.
    pub(super) fn reset_when_closed(&self) {
        if let Err(error) = socket::reset_when_closed(self) {
            tracing::debug!(%error, "a connection was closed, not reset");
        }
    }
}

impl AsFd for LazySocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.0 {
            Kind::Accepted(socket) => socket.socket.as_fd(),
            Kind::Dialled(stream) => stream.as_fd(),
        }
    }
}

impl AsyncRead for LazySocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Accepted(socket) => socket.poll_read(cx, out),
            Kind::Dialled(stream) => Pin::new(stream).poll_read(cx, out),
        }
    }
}

impl AsyncWrite for LazySocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Accepted(socket) => socket.poll_write_by(cx, &mut |mut to| to.write(data)),
            Kind::Dialled(stream) => Pin::new(stream).poll_write(cx, data),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Accepted(socket) => {
                socket.poll_write_by(cx, &mut |mut to| to.write_vectored(slices))
            }
            Kind::Dialled(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Accepted(socket) => Poll::Ready(socket.socket.shutdown(Shutdown::Write)),
            Kind::Dialled(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
