//! Buffers of uploads, kept by each thread: a transfer holds one while it has bytes in hand, one
//! that waits for its client holds none.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::{POOLED_UPLOAD_BUFFERS, UPLOAD_BUFFER_BYTES};

thread_local! {
    static POOL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of 256 KiB, where there is anything to put into it.
#[derive(Debug, Default)]
pub struct UploadBuffer {
    /// The memory; none while bytes are waited for.
    bytes: Box<[u8]>,
    filled: usize,
    /// The end came right behind the bytes.
    has_ended: bool,
}

impl UploadBuffer {
    /// What came last.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }

    /// The whole buffer, to be written to by others than [`UploadBuffer::fill`]: from the pool of
    /// this thread, or new.
    pub(super) fn space(&mut self) -> &mut [u8] {
        if self.bytes.is_empty() {
            let kept = POOL.with_borrow_mut(Vec::pop);
            self.bytes = kept.unwrap_or_else(|| vec![0; UPLOAD_BUFFER_BYTES].into_boxed_slice());
        }
        &mut self.bytes
    }

    fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        if bytes.is_empty() {
            return;
        }
        // A thread that ends has no pool any more; then the buffer is freed.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOLED_UPLOAD_BUFFERS {
                pool.push(bytes);
            }
        });
    }

    /// True if it holds memory.
    #[cfg(test)]
    pub(super) fn is_held(&self) -> bool {
        !self.bytes.is_empty()
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
                        self.give_back();
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

impl Drop for UploadBuffer {
    fn drop(&mut self) {
        self.give_back();
    }
}
