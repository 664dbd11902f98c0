//! Buffers of uploads: a transfer holds memory while it has bytes in hand.

use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncRead, ReadBuf};

use crate::pool::PooledBuffer;

/// A buffer of 256 KiB, where there is anything to put into it.
#[derive(Debug, Default)]
pub struct UploadBuffer {
    /// Given back while bytes are waited for.
    memory: PooledBuffer,
    filled: usize,
    /// The end came right behind the bytes.
    has_ended: bool,
}

impl UploadBuffer {
    /// What came last.
    pub fn bytes(&self) -> &[u8] {
        self.memory.bytes().get(..self.filled).unwrap_or_default()
    }

    /// The whole buffer, to be written to by others than [`UploadBuffer::fill`].
    pub(super) fn space(&mut self) -> &mut [u8] {
        self.memory.space()
    }

    /// True if it holds memory.
    #[cfg(test)]
    pub(super) fn is_held(&self) -> bool {
        !self.memory.bytes().is_empty()
    }

    /// Waits for bytes, then takes all that are there already, as far as they fit; what the buffer
    /// held before is gone. Answers how many; 0: the end. An error behind some bytes comes with
    /// the next call: the stream tells it again. An end behind some bytes is not asked for again.
    pub(super) async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> std::io::Result<usize> {
        self.filled = 0;
        if self.has_ended {
            return Ok(0);
        }
        std::future::poll_fn(|cx| {
            loop {
                let filled = self.filled;
                let mut out = ReadBuf::new(self.space().get_mut(filled..).unwrap_or_default());
                if out.remaining() == 0 {
                    return Poll::Ready(Ok(self.filled));
                }
                let read = Pin::new(&mut *stream).poll_read(cx, &mut out);
                let count = out.filled().len();
                self.filled += count;
                match read {
                    Poll::Ready(Ok(())) if count > 0 => {}
                    Poll::Ready(Err(error)) if self.filled == 0 => {
                        return Poll::Ready(Err(error));
                    }
                    Poll::Pending if self.filled == 0 => {
                        self.memory.give_back();
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(())) => {
                        self.has_ended = true;
                        return Poll::Ready(Ok(self.filled));
                    }
                    _ => return Poll::Ready(Ok(self.filled)),
                }
            }
        })
        .await
    }
}
