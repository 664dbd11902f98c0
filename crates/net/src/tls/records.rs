//! What TLS reads from. On a control connection it gets one record at a time (RFC 8446 §5.1), so
//! that nothing behind a close_notify is swallowed: what follows is clear text (CCC, REIN). Bulk of
//! others is read many records at a time: TLS itself asks for a quarter of one.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::{BULK_ONE_WAY_BYTES, TLS_CONTROL_BYTES, TLS_READ_BYTES};
use crate::pool::PooledBuffer;

/// Type, version, length.
const HEADER_BYTES: usize = 5;

/// A stream under TLS.
#[derive(Debug)]
pub(super) struct Records<S> {
    io: S,
    passing: Passing,
}

#[derive(Debug)]
enum Passing {
    AsTheyCome(Ahead),
    OneByOne(Slicer),
}

/// What was read of bulk and has not passed yet.
#[derive(Debug, Default)]
struct Ahead {
    memory: PooledBuffer,
    from: usize,
    to: usize,
    /// Bytes that have passed.
    passed: u64,
}

#[derive(Debug)]
struct Slicer {
    unread: BytesMut,
    /// Bytes left of the record that is passing.
    left: usize,
}

impl<S> Records<S> {
    pub(super) fn as_they_come(io: S) -> Self {
        Records { io, passing: Passing::AsTheyCome(Ahead::default()) }
    }

    pub(super) fn one_by_one(io: S) -> Self {
        let slicer = Slicer { unread: BytesMut::new(), left: 0 };
        Records { io, passing: Passing::OneByOne(slicer) }
    }

    pub(super) fn io(&self) -> &S {
        &self.io
    }

    /// The stream, and what was read from it but not passed on.
    pub(super) fn into_parts(self) -> (S, Bytes) {
        let unread = match self.passing {
            Passing::AsTheyCome(ahead) => Bytes::copy_from_slice(ahead.unread()),
            Passing::OneByOne(slicer) => slicer.unread.freeze(),
        };
        (self.io, unread)
    }
}

impl Ahead {
    fn unread(&self) -> &[u8] {
        self.memory.bytes().get(self.from..self.to).unwrap_or_default()
    }

    fn poll_read(
        &mut self,
        mut io: impl AsyncRead + Unpin,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.from == self.to && self.passed < BULK_ONE_WAY_BYTES {
            // Small messages, and clients that nobody knows yet, get no large memory.
            let before = out.filled().len();
            let read = Pin::new(&mut io).poll_read(cx, out);
            self.passed += (out.filled().len() - before) as u64;
            return read;
        }
        if self.from == self.to {
            let room = self.memory.space();
            let most = room.len().min(TLS_READ_BYTES);
            let mut read = ReadBuf::new(room.get_mut(..most).unwrap_or_default());
            let came = Pin::new(&mut io).poll_read(cx, &mut read);
            (self.from, self.to) = (0, read.filled().len());
            if self.to == 0 {
                // Nothing, an error or the end.
                self.memory.give_back();
                return came;
            }
        }
        let passing = self.unread();
        let passing = passing.get(..out.remaining()).unwrap_or(passing);
        out.put_slice(passing);
        self.from += passing.len();
        if self.from == self.to {
            self.memory.give_back();
        }
        Poll::Ready(Ok(()))
    }
}

impl Slicer {
    /// How much may pass now; 0: more must be read first.
    fn ready(&mut self) -> usize {
        if self.left == 0
            && let Some([_, _, _, high, low]) = self.unread.first_chunk::<HEADER_BYTES>()
        {
            self.left = HEADER_BYTES + usize::from(u16::from_be_bytes([*high, *low]));
        }
        self.left.min(self.unread.len())
    }

    fn pass(&mut self, out: &mut ReadBuf<'_>, most: usize) {
        let count = most.min(out.remaining());
        out.put_slice(self.unread.get(..count).unwrap_or_default());
        self.unread.advance(count);
        self.left = self.left.saturating_sub(count);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Records<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        out: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Records { io, passing } = self.get_mut();
        let slicer = match passing {
            Passing::AsTheyCome(ahead) => return ahead.poll_read(io, cx, out),
            Passing::OneByOne(slicer) => slicer,
        };
        loop {
            let most = slicer.ready();
            if most > 0 {
                slicer.pass(out, most);
                return Poll::Ready(Ok(()));
            }
            let mut more = [0; TLS_CONTROL_BYTES];
            let mut more = ReadBuf::new(&mut more);
            ready!(Pin::new(&mut *io).poll_read(cx, &mut more))?;
            if more.filled().is_empty() {
                // The end, maybe within a header: TLS sees what there is.
                let rest = slicer.unread.len();
                slicer.pass(out, rest);
                return Poll::Ready(Ok(()));
            }
            slicer.unread.extend_from_slice(more.filled());
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Records<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, data)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

/// For fuzzing: whatever comes, in pieces of any size, passes whole and in order, and never more
/// than one record at a time.
pub(super) fn fuzz(data: &[u8]) {
    let [size, data @ ..] = data else { return };
    let (mut slicer, mut passed) = (Slicer { unread: BytesMut::new(), left: 0 }, Vec::new());
    for piece in data.chunks(usize::from(*size) + 1) {
        slicer.unread.extend_from_slice(piece);
        loop {
            let ready = slicer.ready();
            if ready == 0 {
                break;
            }
            assert!(ready <= slicer.left, "more than a record passes");
            let mut out = vec![0; ready];
            slicer.pass(&mut ReadBuf::new(&mut out), ready);
            passed.extend_from_slice(&out);
        }
    }
    assert!(slicer.unread.len() < HEADER_BYTES, "what could pass did not");
    passed.extend_from_slice(&slicer.unread);
    assert!(passed == data, "bytes were lost or bent");
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::Env;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    #[tokio::test]
    async fn bulk_is_read_ahead_passes_whole_and_leaves_no_memory_held() {
        let mut content = vec![0; 3_000_000];
        Env::simulated(2).fill_random(&mut content);
        let (mut sender, receiver) = tokio::io::duplex(400_000);
        let sent = content.clone();
        let sending = tokio::spawn(async move {
            sender.write_all(&sent).await.unwrap();
            sender
        });
        let (mut records, mut read) = (Records::as_they_come(receiver), Vec::new());
        let mut piece = [0; 4_096];
        let mut was_ahead = false;
        while read.len() < content.len() {
            let count = records.read(&mut piece).await.unwrap();
            read.extend_from_slice(&piece[..count]);
            let Passing::AsTheyCome(ahead) = &records.passing else { panic!("it slices") };
            was_ahead |= ahead.unread().len() > piece.len();
            assert_eq!(ahead.unread().is_empty(), ahead.memory.bytes().is_empty());
        }
        assert!(read == content && was_ahead);
        drop(sending.await.unwrap());
        assert_eq!(records.read(&mut piece).await.unwrap(), 0);
    }

    #[test]
    fn whatever_comes_passes_record_by_record() {
        let env = Env::simulated(1);
        for length in 0..300 {
            let mut bytes = vec![0; length];
            env.fill_random(&mut bytes);
            // Short records, so that many of them end within the bytes.
            bytes.iter_mut().skip(4).step_by(2).for_each(|byte| *byte %= 2);
            super::fuzz(&bytes);
        }
        super::fuzz(b"\x02\x15\x03\x03\0\x02\x01\0PWD\r\n");
    }
}
