//! The tasks of one connection: its requests of HTTP/2, and what is read on of refused requests.
//! They end with the connection at the latest.

use std::sync::Arc;

use hyper::rt::Executor;
use parking_lot::Mutex;
use tokio::task::JoinSet;

/// Cheap to clone; when the last clone is dropped, what still runs is ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionTasks(Arc<Mutex<JoinSet<()>>>);

impl ConnectionTasks {
    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut tasks = self.0.lock();
        while let Some(ended) = tasks.try_join_next() {
            if let Err(error) = ended
                && error.is_panic()
            {
                tracing::error!(%error, "a request failed by a bug; others go on");
            }
        }
        tasks.spawn(task);
    }

    /// Ends what runs, and waits until it has ended.
    pub(crate) async fn end(&self) {
        let mut tasks = std::mem::take(&mut *self.0.lock());
        tasks.shutdown().await;
    }

    /// Waits until nothing runs.
    pub(crate) async fn finish(&self) {
        loop {
            let mut tasks = std::mem::take(&mut *self.0.lock());
            if tasks.is_empty() {
                return;
            }
            while tasks.join_next().await.is_some() {}
        }
    }
}

impl<T: Future<Output = ()> + Send + 'static> Executor<T> for ConnectionTasks {
    fn execute(&self, task: T) {
        self.spawn(task);
    }
}
