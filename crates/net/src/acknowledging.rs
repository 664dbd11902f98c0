//! A socket that acknowledges at once what it has read, where there is nothing to answer yet.
//!
//! A kernel delays an acknowledgement by 40 ms and more in the hope of sending it with an answer. A
//! client with Nagle's algorithm (RFC 9293 §3.7.4) that sends one message in two segments, as
//! GnuTLS does at the end of each handshake, holds back the second until the first is acknowledged,
//! and both sides wait for nothing. So whenever the reader is about to wait and has written nothing
//! since it read, what it read is acknowledged (TCP_QUICKACK, tcp(7)). Where it has answered, the
//! answer carried the acknowledgement and this costs nothing. Who reads with a waker that wakes
//! nobody only looks, and does not wait.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::socket;

/// See the module.
#[derive(Debug)]
pub(crate) struct Acknowledging<S = TcpStream> {
    inner: S,
    /// Bytes were read, and nothing was written since.
    is_owed: bool,
}

impl<S: AsFd> Acknowledging<S> {
    pub(crate) fn new(inner: S) -> Self {
        Acknowledging { inner, is_owed: false }
    }

    pub(crate) fn get_ref(&self) -> &S {
        &self.inner
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    pub(crate) fn into_inner(self) -> S {
        self.inner
    }

    /// The caller has read so many bytes from the socket itself.
    pub(crate) fn note_read(&mut self, count: usize) {
        self.is_owed |= count > 0;
    }

    /// The reader is about to wait, if its waker wakes anybody.
    fn acknowledge(&mut self, cx: &Context<'_>) {
        if !wakes_nobody(cx.waker())
            && std::mem::take(&mut self.is_owed)
            && let Err(error) = socket::acknowledge(&self.inner)
        {
            tracing::debug!(%error, "an acknowledgement is left to the kernel");
        }
    }
}

/// True for a waker without data, such as [`Waker::noop`]. That one cannot be known by comparison:
/// each crate has one of its own.
fn wakes_nobody(waker: &Waker) -> bool {
    waker.data().is_null()
}

impl<S: AsFd> AsFd for Acknowledging<S> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

impl<S: AsyncRead + AsFd + Unpin> AsyncRead for Acknowledging<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = out.filled().len();
        let read = Pin::new(&mut self.inner).poll_read(cx, out);
        if read.is_pending() {
            self.acknowledge(cx);
        } else {
            self.note_read(out.filled().len() - before);
        }
        read
    }
}

impl<S: AsyncWrite + AsFd + Unpin> AsyncWrite for Acknowledging<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.is_owed = false;
        Pin::new(&mut self.inner).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.is_owed = false;
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// A client, and our end of its connection.
    async fn pair() -> (TcpStream, Acknowledging) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let peer = TcpStream::connect(listener.local_addr().unwrap());
        let (peer, ours) = tokio::join!(peer, listener.accept());
        (peer.unwrap(), Acknowledging::new(ours.unwrap().0))
    }

    fn delays(ours: &Acknowledging) -> bool {
        !rustix::net::sockopt::tcp_quickack(ours.get_ref()).unwrap()
    }

    /// Questions and answers, until the kernel waits for answers before it acknowledges.
    async fn converse(peer: &mut TcpStream, ours: &mut Acknowledging) {
        for _ in 0..100 {
            peer.write_all(b"question").await.unwrap();
            ours.read_exact(&mut [0; 8]).await.unwrap();
            ours.write_all(b"answer").await.unwrap();
            peer.read_exact(&mut [0; 6]).await.unwrap();
            if delays(ours) {
                return;
            }
        }
        panic!("this kernel never delays an acknowledgement");
    }

    /// Reads until nothing is there, and would wait for more.
    async fn read_all(ours: &mut Acknowledging) -> usize {
        std::future::poll_fn(|cx| Poll::Ready(read_by(ours, cx))).await
    }

    fn read_by(ours: &mut Acknowledging, cx: &mut Context<'_>) -> usize {
        let (mut bytes, mut count) = ([0; 64], 0);
        loop {
            let mut out = ReadBuf::new(&mut bytes);
            match Pin::new(&mut *ours).poll_read(cx, &mut out) {
                Poll::Pending => return count,
                Poll::Ready(read) => read.unwrap(),
            }
            count += out.filled().len();
        }
    }

    #[tokio::test]
    async fn what_is_not_answered_is_acknowledged_before_the_reader_waits() {
        let (mut peer, mut ours) = pair().await;
        converse(&mut peer, &mut ours).await;
        peer.write_all(b"half of a").await.unwrap();
        ours.get_ref().readable().await.unwrap();
        assert_eq!(read_all(&mut ours).await, 9);
        assert!(!delays(&ours), "the peer waits for the acknowledgement of the first half");
    }

    #[tokio::test]
    async fn what_is_answered_is_acknowledged_by_the_answer() {
        let (mut peer, mut ours) = pair().await;
        converse(&mut peer, &mut ours).await;
        peer.write_all(b"question").await.unwrap();
        ours.read_exact(&mut [0; 8]).await.unwrap();
        ours.write_all(b"answer").await.unwrap();
        assert_eq!(read_all(&mut ours).await, 0);
        assert!(delays(&ours), "a system call and a segment too many");
    }

    #[tokio::test]
    async fn a_look_that_nobody_waits_behind_acknowledges_nothing() {
        let (mut peer, mut ours) = pair().await;
        converse(&mut peer, &mut ours).await;
        peer.write_all(b"question").await.unwrap();
        ours.get_ref().readable().await.unwrap();
        // Another crate's, as that of the transport of SSH is.
        let mut look = Context::from_waker(futures_util::task::noop_waker_ref());
        assert_eq!(read_by(&mut ours, &mut look), 8);
        assert!(delays(&ours), "the answer will carry it");
        // There is none, and now the reader waits.
        assert_eq!(read_all(&mut ours).await, 0);
        assert!(!delays(&ours), "the peer may wait for it");
    }
}
