//! A socket whose reader is woken by the pile, not by the segment, while its peer sends in bulk.
//!
//! A server that is faster than its client sleeps and wakes for each packet, and the waking costs
//! more than the packet. SO_RCVLOWAT (socket(7)) lets the kernel wait until there is more to read.
//! What a peer sends before it waits for an answer is not known here: whenever nothing came for
//! [`GATHER_TIME`] the socket wakes for each byte again, and bulk is believed less easily.

use std::future::Future;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

use crate::acknowledging::Acknowledging;
use crate::limits::{
    BULK_AGAIN_BYTES, BULK_BYTES, BULK_MOST_BYTES, BULK_ONE_WAY_BYTES, GATHER_BYTES, GATHER_TIME,
};
use crate::socket;

/// A TCP socket for protocols that carry bulk.
#[derive(Debug)]
pub struct Gathering<S = TcpStream> {
    inner: Acknowledging<S>,
    bulk: Bulk,
    /// While the kernel gathers.
    lull: Option<Lull>,
}

/// The longest wait of a reader for a pile.
#[derive(Debug)]
struct Lull {
    timer: Pin<Box<Sleep>>,
    /// The reader waits, and the timer runs since then.
    is_waiting: bool,
}

/// When a peer is believed to send in bulk.
#[derive(Debug)]
struct Bulk {
    /// Received since the kernel began or ceased to gather.
    received: u64,
    /// So many bytes make it begin.
    wanted: u64,
}

impl Bulk {
    /// The peer has waited for us, or had no more to send.
    fn cease(&mut self) {
        self.wanted = if self.received >= BULK_BYTES {
            BULK_AGAIN_BYTES
        } else {
            self.wanted.saturating_mul(2).min(BULK_MOST_BYTES)
        };
        self.received = 0;
    }
}

impl<S: AsFd> Gathering<S> {
    /// Reads from `inner`.
    pub fn new(inner: S) -> Self {
        Gathering::behind(BULK_BYTES, inner)
    }

    /// The same for a connection that carries one file and no answers: its sender waits for
    /// nothing, and its end is told at once.
    pub(crate) fn one_way(inner: S) -> Self {
        Gathering::behind(BULK_ONE_WAY_BYTES, inner)
    }

    fn behind(wanted: u64, inner: S) -> Self {
        let inner = Acknowledging::new(inner);
        Gathering { inner, bulk: Bulk { received: 0, wanted }, lull: None }
    }

    pub(crate) fn get_ref(&self) -> &S {
        self.inner.get_ref()
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        self.inner.get_mut()
    }

    pub(crate) fn into_inner(self) -> S {
        self.inner.into_inner()
    }

    fn took(&mut self, count: usize) {
        self.bulk.received = self.bulk.received.saturating_add(count as u64);
        match &mut self.lull {
            Some(lull) => lull.is_waiting = false,
            None if self.bulk.received < self.bulk.wanted => {}
            None => {
                self.bulk.received = 0;
                // Where the kernel cannot, it is asked again after as many bytes.
                if socket::wake_at(&self.inner, GATHER_BYTES).is_ok() {
                    let timer = Box::pin(sleep(GATHER_TIME));
                    self.lull = Some(Lull { timer, is_waiting: false });
                }
            }
        }
    }

    /// True if the pile was waited for too long; then the socket wakes for each byte.
    fn is_over(&mut self, cx: &mut Context<'_>) -> bool {
        let Some(lull) = &mut self.lull else { return false };
        if !std::mem::replace(&mut lull.is_waiting, true) {
            lull.timer.set(sleep(GATHER_TIME));
        }
        if lull.timer.as_mut().poll(cx).is_pending() {
            return false;
        }
        self.lull = None;
        self.bulk.cease();
        if let Err(error) = socket::wake_at(&self.inner, 1) {
            tracing::warn!(%error, "a socket does not wake for each byte any more");
        }
        true
    }
}

impl<S: AsFd> AsFd for Gathering<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<S: AsyncRead + AsFd + Unpin> AsyncRead for Gathering<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let mut read = Pin::new(&mut self.inner).poll_read(cx, out);
        if read.is_pending() && self.is_over(cx) {
            read = Pin::new(&mut self.inner).poll_read(cx, out);
        }
        if read.is_ready() {
            self.took(out.filled().len() - before);
        }
        read
    }
}

impl<S: AsyncWrite + AsFd + Unpin> AsyncWrite for Gathering<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests;
