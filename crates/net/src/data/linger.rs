//! The end of downloads: a connection is closed when the peer has closed its side. Closing it over
//! bytes that were not read resets it, and the peer loses the tail of its file.
//!
//! A peer closes as soon as it has read the end, so a connection that the runtime does not watch
//! yet is left alone for a moment, and looked at when others follow it, or after
//! [`LINGER_LOOK_TIME`]. Only one that is still open then is waited for.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::io::AsyncReadExt as _;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;

use super::lazy::LazySocket;
use crate::limits::{LINGER_BYTES, LINGER_LOOK_TIME, LINGER_TIME, LINGERING, LINGERING_UNSEEN};

/// Closes connections in the background. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Lingerer(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// They wait for one connection each.
    tasks: TaskTracker,
    /// The task that looks at `unseen`, while there are any.
    looking: TaskTracker,
    places: Arc<Semaphore>,
    unseen: Mutex<Unseen>,
}

/// Connections that were left alone, oldest first.
#[derive(Debug, Default)]
struct Unseen {
    connections: VecDeque<Lingering>,
    /// A task comes to look at them.
    is_looked_after: bool,
}

/// A connection that is still to be closed.
#[derive(Debug)]
struct Lingering {
    stream: LazySocket,
    _place: OwnedSemaphorePermit,
}

impl Default for Lingerer {
    fn default() -> Self {
        Lingerer(Arc::new(Shared {
            tasks: TaskTracker::new(),
            looking: TaskTracker::new(),
            places: Arc::new(Semaphore::new(LINGERING)),
            unseen: Mutex::default(),
        }))
    }
}

impl Lingering {
    /// True if the peer has closed its side, or has reset the connection.
    fn is_over(&self) -> bool {
        matches!(self.stream.read_now(&mut [0; 1024]), Ok(Some(0)) | Err(_))
    }

    /// Waits for the peer to close, and throws away what it sends.
    async fn drain(mut self) {
        let drain = async {
            let (mut unread, mut left) = ([0; 1024], LINGER_BYTES);
            while let Ok(count @ 1..) = self.stream.read(&mut unread).await
                && count < left
            {
                left -= count;
            }
        };
        let _ = timeout(LINGER_TIME, drain).await;
    }
}

impl Lingerer {
    /// Takes a connection whose sending side is shut down.
    pub(super) fn take(&self, stream: LazySocket) {
        // Above the limit the kernel ends it its own way.
        let Ok(place) = Arc::clone(&self.0.places).try_acquire_owned() else { return };
        let lingering = Lingering { stream, _place: place };
        if lingering.stream.is_watched() {
            self.wait_for(lingering);
            return;
        }
        let mut unseen = self.0.unseen.lock();
        unseen.connections.push_back(lingering);
        let oldest = if unseen.connections.len() > LINGERING_UNSEEN {
            unseen.connections.pop_front()
        } else {
            None
        };
        let is_looked_after = std::mem::replace(&mut unseen.is_looked_after, true);
        drop(unseen);
        if let Some(oldest) = oldest {
            self.wait_for(oldest);
        }
        if !is_looked_after {
            self.0.looking.spawn(self.clone().look_after_all());
        }
    }

    /// Looks at all now and then, until there are none.
    async fn look_after_all(self) {
        loop {
            sleep(LINGER_LOOK_TIME).await;
            let connections = {
                let mut unseen = self.0.unseen.lock();
                unseen.is_looked_after = !unseen.connections.is_empty();
                std::mem::take(&mut unseen.connections)
            };
            if connections.is_empty() {
                return;
            }
            connections.into_iter().for_each(|lingering| self.wait_for(lingering));
        }
    }

    /// Closes it when its peer has closed.
    fn wait_for(&self, lingering: Lingering) {
        if !lingering.is_over() {
            self.0.tasks.spawn(lingering.drain());
        }
    }

    /// How many linger now.
    pub fn len(&self) -> usize {
        self.unseen() + self.0.tasks.len()
    }

    /// Of those, how many were left alone so far.
    pub(super) fn unseen(&self) -> usize {
        self.0.unseen.lock().connections.len()
    }

    /// True if none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Waits until none does; for the end of a server.
    pub async fn ended(&self) {
        self.0.looking.close();
        self.0.looking.wait().await;
        self.0.tasks.close();
        self.0.tasks.wait().await;
    }
}
