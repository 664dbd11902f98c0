//! Large buffers, kept by each thread: who has bytes in hand holds one, who waits for some holds
//! none.

use std::cell::RefCell;

use crate::limits::{POOLED_BUFFER_BYTES, POOLED_BUFFERS};

thread_local! {
    static POOL: RefCell<Vec<Box<[u8]>>> = const { RefCell::new(Vec::new()) };
}

/// A buffer of 256 KiB, where there is anything to put into it.
#[derive(Debug, Default)]
pub(crate) struct PooledBuffer(Box<[u8]>);

impl PooledBuffer {
    /// All of it: from the pool of this thread, or new.
    pub(crate) fn space(&mut self) -> &mut [u8] {
        if self.0.is_empty() {
            let kept = POOL.with_borrow_mut(Vec::pop);
            self.0 = kept.unwrap_or_else(|| vec![0; POOLED_BUFFER_BYTES].into_boxed_slice());
        }
        &mut self.0
    }

    /// What it holds; nothing if it was given back.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Gives the memory back, and what is in it is gone.
    pub(crate) fn give_back(&mut self) {
        let bytes = std::mem::take(&mut self.0);
        if bytes.is_empty() {
            return;
        }
        // A thread that ends has no pool any more; then the buffer is freed.
        let _ = POOL.try_with(|pool| {
            let mut pool = pool.borrow_mut();
            if pool.len() < POOLED_BUFFERS {
                pool.push(bytes);
            }
        });
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.give_back();
    }
}
