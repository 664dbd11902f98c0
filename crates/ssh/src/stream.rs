//! The stream an SSH connection runs on: buffers reads and checks the clear text before the key
//! exchange is done. Below it is the metered stream of the session.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use entrepot_net::limits::UNAUTHENTICATED_BYTES;
use entrepot_net::meter::{SessionMeter, Stage};
use entrepot_net::metered::Metered;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};

use crate::clear_text::{ClearText, ClientOffer};
use crate::limits::{POOLED_BUFFERS, READ_BUFFER_BYTES};

/// A metered stream that reads in pieces of up to 64 KiB, as russh itself reads without a buffer;
/// the buffer is taken from a pool when bytes arrive and given back when they are used up,
/// so that an idle session holds none.
#[derive(Debug)]
pub(crate) struct Guarded<S> {
    inner: Metered<S>,
    buffer: Option<ReadBuffer>,
    clear: Option<ClearText>,
    /// Bytes at the beginning of what is to be written that were sent already.
    sent_ahead: usize,
}

impl<S> Guarded<S> {
    /// A server's side: the clear text of the peer is checked until its NEWKEYS.
    pub(crate) fn server(inner: S, meter: Arc<SessionMeter>) -> Self {
        Guarded { clear: Some(ClearText::default()), ..Guarded::client(inner, meter) }
    }

    /// A client's side.
    pub(crate) fn client(inner: S, meter: Arc<SessionMeter>) -> Self {
        Guarded { inner: Metered::new(inner, meter), buffer: None, clear: None, sent_ahead: 0 }
    }

    fn meter(&self) -> &SessionMeter {
        self.inner.meter()
    }

    /// What the client offers, once its KEXINIT has come. A stream of a client hears none.
    pub(crate) fn offer(&self) -> ClientOffer {
        self.clear.as_ref().map(ClearText::offer).unwrap_or_default()
    }
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    /// Takes more from the peer into the buffer. `false`: end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let mut buffer = self.buffer.take().unwrap_or_else(ReadBuffer::take);
        if buffer.unread().is_empty() {
            buffer.clear();
        }
        let read = buffer.poll_read(&mut self.inner, cx);
        if let Poll::Ready(Ok(count @ 1..)) = read {
            let checked = self.check(buffer.newest(count));
            self.buffer = Some(buffer);
            return Poll::Ready(checked.map(|()| true));
        }
        self.buffer = Some(buffer).filter(|buffer| !buffer.unread().is_empty());
        read.map_ok(|_| false)
    }

    fn check(&mut self, newest: &[u8]) -> io::Result<()> {
        let meter = self.inner.meter();
        let too_many = meter.stage() < Stage::LoggedIn && meter.bytes_in() > UNAUTHENTICATED_BYTES;
        if too_many && !self.is_client() {
            return Err(broken("too many bytes before login"));
        }
        let Some(clear) = &mut self.clear else { return Ok(()) };
        if clear.is_done() {
            return Ok(());
        }
        clear.receive(newest, meter).map_err(broken)
    }

    /// A client trusts the server it dialled as far as its own limits.
    fn is_client(&self) -> bool {
        self.clear.is_none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guarded<S> {
    /// Sends our identification line ahead of whoever will write it, and waits for the client's
    /// KEXINIT, at most `patience` behind its identification line (some wait for ours first). All
    /// of it stays to be read. Answers whether the KEXINIT came: [`Guarded::offer`].
    pub(crate) async fn preview(&mut self, line: &[u8], patience: Duration) -> io::Result<bool> {
        self.write_all(line).await?;
        self.sent_ahead = line.len();
        while self.meter().stage() < Stage::Identified && self.more().await? {}
        let kexinit = async {
            while self.meter().stage() < Stage::Exchanging && self.more().await? {}
            Ok::<(), io::Error>(())
        };
        match tokio::time::timeout(patience, kexinit).await {
            Ok(came) => came?,
            Err(_) => return Ok(false),
        }
        Ok(true)
    }

    /// `false`: nothing more comes, or nothing more fits.
    async fn more(&mut self) -> io::Result<bool> {
        if self.buffer.as_ref().is_some_and(ReadBuffer::is_full) {
            return Ok(false);
        }
        std::future::poll_fn(|cx| self.poll_fill(cx)).await
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Guarded<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.meter().unless_cut()?;
        let empty = this.buffer.as_ref().is_none_or(|buffer| buffer.unread().is_empty());
        if empty && !ready!(this.poll_fill(cx))? {
            return Poll::Ready(Ok(()));
        }
        if let Some(buffer) = &mut this.buffer {
            buffer.read_into(out);
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Guarded<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.sent_ahead > 0 {
            let ahead = this.sent_ahead.min(data.len());
            this.sent_ahead -= ahead;
            return Poll::Ready(Ok(ahead));
        }
        Pin::new(&mut this.inner).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

fn broken(reason: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason)
}

thread_local! {
    static POOL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A pooled buffer: `read..filled` is unread.
#[derive(Debug)]
struct ReadBuffer {
    bytes: Box<[u8]>,
    read: usize,
    filled: usize,
}

impl ReadBuffer {
    fn take() -> Self {
        let bytes = POOL
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| vec![0; READ_BUFFER_BYTES].into_boxed_slice());
        ReadBuffer { bytes, read: 0, filled: 0 }
    }

    fn clear(&mut self) {
        (self.read, self.filled) = (0, 0);
    }

    fn poll_read(
        &mut self,
        inner: &mut (impl AsyncRead + Unpin),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let mut out = ReadBuf::new(self.bytes.get_mut(self.filled..).unwrap_or_default());
        ready!(Pin::new(inner).poll_read(cx, &mut out))?;
        let count = out.filled().len();
        self.filled += count;
        Poll::Ready(Ok(count))
    }

    /// The last `count` bytes that came.
    fn newest(&self, count: usize) -> &[u8] {
        self.bytes.get(self.filled.saturating_sub(count)..self.filled).unwrap_or_default()
    }

    fn is_full(&self) -> bool {
        self.filled == self.bytes.len()
    }

    fn unread(&self) -> &[u8] {
        self.bytes.get(self.read..self.filled).unwrap_or_default()
    }

    fn read_into(&mut self, out: &mut ReadBuf<'_>) {
        let unread = self.unread();
        let count = unread.len().min(out.remaining());
        out.put_slice(unread.get(..count).unwrap_or_default());
        self.read += count;
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that ends has no pool any more; then the buffer is freed.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOLED_BUFFERS {
                pool.push(bytes);
            }
        });
    }
}

#[cfg(test)]
mod tests;
