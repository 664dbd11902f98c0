//! Runs a sequence of blocking disk calls on one thread of the pool, in place of one hop per call.

use std::cell::Cell;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;

use crate::error::{Result, StoreError};

thread_local! {
    static MAY_WAIT: Cell<bool> = const { Cell::new(false) };
}

/// True if this thread may block on a disk: stores then make their calls on it directly.
pub fn may_wait() -> bool {
    MAY_WAIT.get()
}

/// The places of a store's calls in the blocking pool: see [`crate::Store::threads`].
#[derive(Clone, Debug)]
pub struct Threads(Arc<Semaphore>);

impl Threads {
    pub(crate) fn new(places: usize) -> Self {
        Threads(Arc::new(Semaphore::new(places)))
    }

    /// Does blocking work; it is finished even if the caller goes away.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if may_wait() {
            return work();
        }
        self.run_blocking(work).await?
    }

    /// Runs `work` to its end on a thread that may wait; it is finished even if the caller goes
    /// away. It must not wait for what others can only do in another place of the same store:
    /// take locks before.
    ///
    /// # Errors
    /// The process is ending, or `work` panicked.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let runtime = Handle::current();
        self.run_blocking(move || {
            let _mark = Mark::set();
            runtime.block_on(work)
        })
        .await
    }

    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T> {
        let closed = |_| StoreError::Unavailable("the store is closed".to_owned());
        let permit = Arc::clone(&self.0).acquire_owned().await.map_err(closed)?;
        let done = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            work()
        });
        done.await.map_err(|error| StoreError::Io(format!("the worker ended: {error}")))
    }
}

/// While it lives, this thread may wait.
struct Mark;

impl Mark {
    fn set() -> Self {
        MAY_WAIT.set(true);
        Mark
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        MAY_WAIT.set(false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn calls_within_a_run_stay_on_its_thread() {
        // One place: a call that wanted one of its own would wait for ever.
        let threads = Threads::new(1);
        let inner = threads.clone();
        let (outer, inner) = threads
            .run(async move {
                let here = std::thread::current().id();
                let there = inner.call(|| Ok(std::thread::current().id())).await.unwrap();
                (here, there)
            })
            .await
            .unwrap();
        assert_eq!(outer, inner);
        assert!(!may_wait(), "the mark stays on its thread");
        let alone = threads.call(|| Ok(may_wait())).await.unwrap();
        assert!(!alone, "the mark ends with its run");
    }
}
