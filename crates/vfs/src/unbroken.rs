//! Work that must come to its end although the task that began it may be dropped in the middle.

use std::future::poll_fn;
use std::task::Poll;

use crate::error::{Result, VfsError};

/// Runs `work` to its end, also if the returned future is dropped after its first poll. Work that
/// needs no waiting is done here, without a task of its own.
pub(crate) fn unbroken<T, F>(work: F) -> impl Future<Output = Result<T>> + Send
where
    T: Send + 'static,
    F: Future<Output = Result<T>> + Send + 'static,
{
    // Here already, so that the waiting future holds no more than the box.
    let mut work = Box::pin(work);
    async move {
        let first = poll_fn(|context| Poll::Ready(work.as_mut().poll(context))).await;
        if let Poll::Ready(done) = first {
            return done;
        }
        // Joined here; when nobody waits any more it ends by itself, as an upload or change does.
        let broke = |error: tokio::task::JoinError| VfsError::Io { problem: error.to_string() };
        tokio::spawn(work).await.map_err(broke)?
    }
}

/// Starts short work that nobody waits for and that ends by itself, such as dropping staged bytes.
/// At the end of the process there is nobody left to do it; the next start does.
pub(crate) fn later(work: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(work);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[tokio::test]
    async fn dropped_work_goes_on() {
        let (done, gate) = (Arc::new(AtomicBool::new(false)), Arc::new(tokio::sync::Notify::new()));
        let (theirs, wait) = (done.clone(), gate.clone());
        let mut work = Box::pin(unbroken(async move {
            wait.notified().await;
            theirs.store(true, Ordering::SeqCst);
            Ok(())
        }));
        let is_ready = poll_fn(|context| Poll::Ready(work.as_mut().poll(context).is_ready())).await;
        assert!(!is_ready);
        drop(work);
        gate.notify_one();
        while !done.load(Ordering::SeqCst) {
            tokio::task::yield_now().await;
        }
    }
}
