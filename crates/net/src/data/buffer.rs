//! Buffers of uploads, kept by each thread: a transfer holds one, an idle session none.

use std::cell::RefCell;
use std::pin::Pin;
use std::task::Poll;

use tokio::io::{AsyncRead, ReadBuf};

use crate::limits::{POOLED_UPLOAD_BUFFERS, UPLOAD_BUFFER_BYTES};

thread_local! {
    static POOL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of 256 KiB.
#[derive(Debug)]
pub struct UploadBuffer {
    bytes: Box<[u8]>,
    filled: usize,
}

impl UploadBuffer {
    /// One from the pool of this thread, or a new one; empty.
    pub fn take() -> Self {
        let bytes = POOL
            .with_borrow_mut(Vec::pop)
            .unwrap_or_else(|| vec![0; UPLOAD_BUFFER_BYTES].into_boxed_slice());
        UploadBuffer { bytes, filled: 0 }
    }

    /// What came last.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.filled).unwrap_or_default()
    }

    /// The whole buffer, to be written to by others than [`UploadBuffer::fill`].
    pub(super) fn space(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    /// Waits for bytes, then takes all that are there already, as far as they fit; what the buffer
    /// held before is gone. Answers how many; 0: the end. An error behind some bytes comes with
    /// the next call: the stream tells it again.
    pub(super) async fn fill(
        &mut self,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> std::io::Result<usize> {
        self.filled = 0;
        std::future::poll_fn(|cx| {
            loop {
                let mut out = ReadBuf::new(self.bytes.get_mut(self.filled..).unwrap_or_default());
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
                        return Poll::Pending;
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
        let bytes = std::mem::take(&mut self.bytes);
        // A thread that ends has no pool any more; then the buffer is freed.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOLED_UPLOAD_BUFFERS {
                pool.push(bytes);
            }
        });
    }
}
