//! What TLS reads from. On a control connection it gets one record at a time (RFC 8446 §5.1), so
//! that nothing behind a close_notify is swallowed: what follows is clear text (CCC, REIN).

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::limits::TLS_CONTROL_BYTES;

/// Type, version, length.
const HEADER_BYTES: usize = 5;

/// A stream under TLS.
#[derive(Debug)]
pub(super) struct Records<S> {
    io: S,
    /// `None`: bytes pass as they come.
    slicer: Option<Slicer>,
}

#[derive(Debug)]
struct Slicer {
    unread: BytesMut,
    /// Bytes left of the record that is passing.
    left: usize,
}

impl<S> Records<S> {
    pub(super) fn as_they_come(io: S) -> Self {
        Records { io, slicer: None }
    }

    pub(super) fn one_by_one(io: S) -> Self {
        Records { io, slicer: Some(Slicer { unread: BytesMut::new(), left: 0 }) }
    }

    pub(super) fn io(&self) -> &S {
        &self.io
    }

    /// The stream, and what was read from it but not passed on.
    pub(super) fn into_parts(self) -> (S, Bytes) {
        let unread = self.slicer.map(|slicer| slicer.unread.freeze());
        (self.io, unread.unwrap_or_default())
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
        let Records { io, slicer } = self.get_mut();
        let Some(slicer) = slicer else { return Pin::new(io).poll_read(cx, out) };
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
