//! The stream every connection runs on: buffers reads, counts and throttles both directions, looks
//! at the clear text before the key exchange is done, and fails at once when the connection is cut.

use std::cell::RefCell;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio::time::Sleep;

use crate::limits::{
    CLEAR_PACKET_BYTES, IDENTIFICATION_BYTES, POOLED_BUFFERS, READ_BUFFER_BYTES, STRANGER_BYTES,
    THROTTLE_SLICE,
};
use crate::meter::{Lane, SessionMeter, Stage};
use crate::ssh::kexinit::{KEXINIT, Offer};

/// SSH_MSG_NEWKEYS (RFC 4253 §12).
const NEWKEYS: u8 = 21;

/// A stream with a meter. It reads in pieces of up to 64 KiB, as russh itself reads without a
/// buffer; the buffer is taken from a pool when bytes arrive and given back when they are used up,
/// so that an idle session holds none.
#[derive(Debug)]
pub struct Guarded<S> {
    inner: S,
    meter: Arc<SessionMeter>,
    buffer: Option<ReadBuffer>,
    clear: Option<ClearText>,
    read_pause: Option<Pin<Box<Sleep>>>,
    write_pause: Option<Pin<Box<Sleep>>>,
    /// Bytes at the beginning of what is to be written that were sent already.
    sent_ahead: usize,
}

impl<S> Guarded<S> {
    /// A server's side: the clear text of the peer is checked until its NEWKEYS.
    pub fn server(inner: S, meter: Arc<SessionMeter>) -> Self {
        Guarded { clear: Some(ClearText::default()), ..Guarded::client(inner, meter) }
    }

    /// A client's side.
    pub fn client(inner: S, meter: Arc<SessionMeter>) -> Self {
        Guarded {
            inner,
            meter,
            buffer: None,
            clear: None,
            read_pause: None,
            write_pause: None,
            sent_ahead: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> Guarded<S> {
    /// Takes more from the peer into the buffer. `false`: end of the stream.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let throttle = self.meter.throttles().map(|throttles| &throttles.upload);
        if poll_pause(&mut self.read_pause, throttle, cx).is_pending() {
            return self.pending_read(cx);
        }
        let mut buffer = self.buffer.take().unwrap_or_else(ReadBuffer::take);
        if buffer.unread().is_empty() {
            buffer.clear();
        }
        let most = throttle.map_or(usize::MAX, Lane::turn);
        match buffer.poll_read(&mut self.inner, most, cx) {
            Poll::Pending => {
                self.buffer = Some(buffer).filter(|buffer| !buffer.unread().is_empty());
                self.pending_read(cx)
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(0)) => {
                self.buffer = Some(buffer).filter(|buffer| !buffer.unread().is_empty());
                Poll::Ready(Ok(false))
            }
            Poll::Ready(Ok(count)) => {
                let received = self.meter.received(count);
                let checked = self.check(buffer.newest(count), received);
                self.buffer = Some(buffer);
                Poll::Ready(checked.map(|()| true))
            }
        }
    }

    fn check(&mut self, newest: &[u8], received: u64) -> io::Result<()> {
        let stage = self.meter.stage();
        if stage < Stage::LoggedIn && received > STRANGER_BYTES && !self.is_client() {
            return Err(broken("too many bytes before login"));
        }
        let Some(clear) = &mut self.clear else { return Ok(()) };
        if clear.is_done() {
            return Ok(());
        }
        clear.receive(newest, &self.meter).map_err(broken)
    }

    /// A client trusts the server it dialled as far as its own limits.
    fn is_client(&self) -> bool {
        self.clear.is_none()
    }

    /// Registers for the cut, then looks again, so that none is missed.
    fn pending_read<T>(&self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        self.meter.wake_reader_with(cx.waker());
        if self.meter.is_cut() { Poll::Ready(Err(cut())) } else { Poll::Pending }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Guarded<S> {
    /// Sends our identification line ahead of whoever will write it, and waits for the client's
    /// KEXINIT, at most `patience` behind its identification line (some wait for ours first). All
    /// of it stays to be read. Answers whether the KEXINIT came: [`SessionMeter::offer`].
    pub(crate) async fn preview(&mut self, line: &[u8], patience: Duration) -> io::Result<bool> {
        self.write_all(line).await?;
        self.sent_ahead = line.len();
        while self.meter.stage() < Stage::Identified && self.more().await? {}
        let kexinit = async {
            while self.meter.stage() < Stage::Exchanging && self.more().await? {}
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
        if this.meter.is_cut() {
            return Poll::Ready(Err(cut()));
        }
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
        if this.meter.is_cut() {
            return Poll::Ready(Err(cut()));
        }
        if this.sent_ahead > 0 {
            let ahead = this.sent_ahead.min(data.len());
            this.sent_ahead -= ahead;
            return Poll::Ready(Ok(ahead));
        }
        let throttle = this.meter.throttles().map(|throttles| &throttles.download);
        let written = match poll_pause(&mut this.write_pause, throttle, cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(()) => {
                let most = throttle.map_or(usize::MAX, Lane::turn);
                let piece = data.get(..most).unwrap_or(data);
                Pin::new(&mut this.inner).poll_write(cx, piece)
            }
        };
        match written {
            Poll::Pending => {
                this.meter.wake_writer_with(cx.waker());
                if this.meter.is_cut() { Poll::Ready(Err(cut())) } else { Poll::Pending }
            }
            Poll::Ready(Ok(count)) => {
                this.meter.sent(count);
                Poll::Ready(Ok(count))
            }
            failed => failed,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

/// Waits as long as the throttle says, in slices, so that a new rate is felt soon.
pub(crate) fn poll_pause(
    pause: &mut Option<Pin<Box<Sleep>>>,
    throttle: Option<&Lane>,
    cx: &mut Context<'_>,
) -> Poll<()> {
    loop {
        if let Some(sleep) = pause {
            ready!(sleep.as_mut().poll(cx));
            *pause = None;
        }
        match throttle.and_then(Lane::wait) {
            None => return Poll::Ready(()),
            Some(wait) => *pause = Some(Box::pin(tokio::time::sleep(wait.min(THROTTLE_SLICE)))),
        }
    }
}

pub(crate) fn cut() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the connection was ended")
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
        most: usize,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let end = self.filled.saturating_add(most).min(self.bytes.len());
        let mut out = ReadBuf::new(self.bytes.get_mut(self.filled..end).unwrap_or_default());
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

/// Follows the clear text of a peer up to its NEWKEYS: identification line, then packets of
/// `uint32 packet_length, byte padding_length, byte type, …` (RFC 4253 §6).
#[derive(Debug, Default)]
struct ClearText {
    state: Clear,
    /// The packet that is coming, as long as it may be a KEXINIT.
    kexinit: Vec<u8>,
}

#[derive(Debug)]
enum Clear {
    Line(Vec<u8>),
    Length { seen: u8, value: u32 },
    Body { length: u32, seen: u32, kind: u8 },
    Done,
}

impl Default for Clear {
    fn default() -> Self {
        Clear::Line(Vec::new())
    }
}

impl ClearText {
    fn is_done(&self) -> bool {
        matches!(self.state, Clear::Done)
    }

    fn receive(&mut self, bytes: &[u8], meter: &SessionMeter) -> Result<(), &'static str> {
        let mut rest = bytes;
        while let [first, tail @ ..] = rest {
            match &mut self.state {
                Clear::Done => return Ok(()),
                Clear::Line(line) => {
                    line.push(*first);
                    if *first == b'\n' {
                        meter.identified(line);
                        meter.advance(Stage::Identified);
                        self.state = Clear::Length { seen: 0, value: 0 };
                    } else if line.len() >= IDENTIFICATION_BYTES {
                        return Err("the identification line is too long");
                    }
                    rest = tail;
                }
                Clear::Length { seen, value } => {
                    *value = (*value << 8) | u32::from(*first);
                    *seen += 1;
                    let (whole, length) = (*seen == 4, *value);
                    if whole && (length == 0 || length > CLEAR_PACKET_BYTES) {
                        return Err("a packet before the key exchange is too long");
                    }
                    if whole {
                        self.state = Clear::Body { length, seen: 0, kind: 0 };
                    }
                    rest = tail;
                }
                Clear::Body { .. } => rest = self.body(rest, meter),
            }
        }
        Ok(())
    }

    /// Goes on in the body of a packet; answers what is behind it.
    fn body<'a>(&mut self, bytes: &'a [u8], meter: &SessionMeter) -> &'a [u8] {
        let Clear::Body { length, seen, kind } = &mut self.state else { return bytes };
        let missing = usize::try_from(*length - *seen).unwrap_or(usize::MAX);
        let (here, behind) = bytes.split_at_checked(missing).unwrap_or((bytes, &[]));
        if *seen <= 1
            && let Some(byte) = here.get(usize::from(*seen == 0))
        {
            *kind = *byte;
        }
        *seen += u32::try_from(here.len()).unwrap_or(u32::MAX);
        if *seen <= 1 || *kind == KEXINIT {
            self.kexinit.extend_from_slice(here);
        }
        if *seen >= *length {
            let packet = std::mem::take(&mut self.kexinit);
            if *kind == KEXINIT {
                meter.heard_offer(Offer::parse(&packet));
                meter.advance(Stage::Exchanging);
            }
            self.state = if *kind == NEWKEYS {
                meter.advance(Stage::Encrypted);
                Clear::Done
            } else {
                Clear::Length { seen: 0, value: 0 }
            };
        }
        behind
    }
}

#[cfg(test)]
mod tests;
