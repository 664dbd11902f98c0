//! A stream of a session whose bytes are counted as they are on the wire, throttled, and cut with
//! the session.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

use crate::meter::{Lane, SessionMeter, StreamWakers, cut};
use crate::throttle::poll_pause;

/// A stream that counts to a session's meter, waits for the throttles of its account, and fails at
/// once when the session is cut, also in the middle of a read or write. It has no buffer.
#[derive(Debug)]
pub struct Metered<S> {
    inner: S,
    meter: Arc<SessionMeter>,
    wakers: Arc<StreamWakers>,
    read_pause: Option<Pin<Box<Sleep>>>,
    write_pause: Option<Pin<Box<Sleep>>>,
}

impl<S> Metered<S> {
    /// Counts to `meter`.
    pub fn new(inner: S, meter: Arc<SessionMeter>) -> Self {
        let wakers = meter.stream();
        Metered { inner, meter, wakers, read_pause: None, write_pause: None }
    }

    /// What it runs over.
    pub fn get_ref(&self) -> &S {
        &self.inner
    }

    pub(crate) fn get_mut(&mut self) -> &mut S {
        &mut self.inner
    }

    pub(crate) fn into_inner(self) -> S {
        self.inner
    }

    /// The meter that it counts to.
    pub fn meter(&self) -> &Arc<SessionMeter> {
        &self.meter
    }

    /// Whoever waits to write is woken when the session is cut.
    pub(crate) fn wait_to_write(&self, cx: &Context<'_>) {
        self.wakers.writer.register(cx.waker());
    }

    /// Waits until something may be read.
    fn poll_may_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let lane = self.meter.throttles().map(|throttles| &throttles.upload);
        let may = poll_may_pass(&mut self.read_pause, lane, &self.meter, cx);
        if may.is_pending() {
            self.wakers.reader.register(cx.waker());
        }
        self.unless_cut(may)
    }

    /// Waits until something may be written; answers how much.
    pub(crate) fn poll_may_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let lane = self.meter.throttles().map(|throttles| &throttles.download);
        let may = poll_may_pass(&mut self.write_pause, lane, &self.meter, cx);
        if may.is_pending() {
            self.wakers.writer.register(cx.waker());
        }
        self.unless_cut(may)
    }

    /// Looks again after it was registered for the cut, so that none is missed.
    pub(crate) fn unless_cut<T>(&self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_pending() && self.meter.is_cut() { Poll::Ready(Err(cut())) } else { poll }
    }
}

fn poll_may_pass(
    pause: &mut Option<Pin<Box<Sleep>>>,
    lane: Option<&Lane>,
    meter: &SessionMeter,
    cx: &mut Context<'_>,
) -> Poll<io::Result<usize>> {
    if meter.is_cut() {
        return Poll::Ready(Err(cut()));
    }
    ready!(poll_pause(pause, lane, cx));
    Poll::Ready(Ok(lane.map_or(usize::MAX, Lane::turn)))
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let most = ready!(this.poll_may_read(cx))?;
        let before = out.filled().len();
        let read = if most < out.remaining() {
            let mut piece = ReadBuf::new(out.initialize_unfilled_to(most));
            let read = Pin::new(&mut this.inner).poll_read(cx, &mut piece);
            let count = piece.filled().len();
            out.advance(count);
            read
        } else {
            // Without filling its room with zeros first.
            Pin::new(&mut this.inner).poll_read(cx, out)
        };
        let count = out.filled().len() - before;
        if read.is_pending() {
            this.wakers.reader.register(cx.waker());
        }
        this.meter.received(count);
        this.unless_cut(read)
    }
}

impl<S> Metered<S> {
    fn poll_written(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Pending => {
                self.wakers.writer.register(cx.waker());
                self.unless_cut(Poll::Pending)
            }
            Poll::Ready(Ok(count)) => {
                self.meter.sent(count);
                Poll::Ready(Ok(count))
            }
            failed => failed,
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let most = ready!(this.poll_may_write(cx))?;
        let piece = data.get(..most).unwrap_or(data);
        let written = Pin::new(&mut this.inner).poll_write(cx, piece);
        this.poll_written(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let most = ready!(this.poll_may_write(cx))?;
        let all: usize = slices.iter().map(|slice| slice.len()).sum();
        let written = if all <= most {
            Pin::new(&mut this.inner).poll_write_vectored(cx, slices)
        } else {
            let first = slices.iter().find(|slice| !slice.is_empty());
            let first: &[u8] = first.map_or(&[], |slice| slice);
            Pin::new(&mut this.inner).poll_write(cx, first.get(..most).unwrap_or(first))
        };
        this.poll_written(cx, written)
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
