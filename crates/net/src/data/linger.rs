//! The end of downloads: a connection is closed when the peer has closed its side. Closing it over
//! bytes that were not read resets it, and the peer loses the tail of its file.

use std::sync::Arc;

use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::limits::{LINGER_BYTES, LINGER_TIME, LINGERING};

/// Closes connections in the background. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lingerer {
    tasks: TaskTracker,
    places: Arc<Semaphore>,
}

impl Default for Lingerer {
    fn default() -> Self {
        Lingerer { tasks: TaskTracker::new(), places: Arc::new(Semaphore::new(LINGERING)) }
    }
}

impl Lingerer {
    /// Takes a connection whose sending side is shut down.
    pub(super) fn take(&self, mut stream: TcpStream) {
        let mut unread = [0; 1024];
        if stream.try_read(&mut unread).is_ok_and(|count| count == 0) {
            return;
        }
        // Above the limit the kernel ends it its own way.
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return };
        self.tasks.spawn(async move {
            let drain = async {
                let mut left = LINGER_BYTES;
                while let Ok(count @ 1..) = stream.read(&mut unread).await
                    && count < left
                {
                    left -= count;
                }
            };
            let _ = timeout(LINGER_TIME, drain).await;
            drop(place);
        });
    }

    /// How many linger now.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// True if none does.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until none does; for the end of a server.
    pub async fn ended(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}
