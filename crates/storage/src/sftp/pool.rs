//! Connections to one server: one that all short requests share, others for files.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::remote::{Place, Remote};
use crate::error::{Result, StoreError};
use crate::limits::{SFTP_ANSWER, SFTP_CONNECTIONS, SFTP_IDLE_CONNECTIONS};

pub(super) struct Pool {
    place: Place,
    common: tokio::sync::Mutex<Option<Arc<Remote>>>,
    idle: Mutex<Vec<Arc<Remote>>>,
    /// Connections that files may have at a time.
    room: Arc<Semaphore>,
}

/// A connection of one file; goes back to the pool when dropped.
pub(super) struct Lease {
    pub(super) remote: Arc<Remote>,
    pool: Arc<Pool>,
    _room: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(place: Place) -> Arc<Self> {
        Arc::new(Pool {
            place,
            common: tokio::sync::Mutex::new(None),
            idle: Mutex::new(Vec::new()),
            room: Arc::new(Semaphore::new(SFTP_CONNECTIONS)),
        })
    }

    /// The connection for short requests; made at the first use and again after it was lost.
    pub(super) async fn common(&self) -> Result<Arc<Remote>> {
        let mut common = self.common.lock().await;
        if let Some(remote) = common.as_ref().filter(|remote| !remote.is_lost()) {
            return Ok(Arc::clone(remote));
        }
        let remote = Arc::new(Remote::connect(&self.place).await?);
        *common = Some(Arc::clone(&remote));
        Ok(remote)
    }

    /// A connection for one file.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease> {
        let room = tokio::time::timeout(SFTP_ANSWER, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(room)) = room else {
            let why = format!("{SFTP_CONNECTIONS} files of it are open already");
            return Err(StoreError::Unavailable(why));
        };
        let remote = match self.take_idle() {
            Some(remote) => remote,
            None => Arc::new(Remote::connect(&self.place).await?),
        };
        Ok(Lease { remote, pool: Arc::clone(self), _room: room })
    }

    fn take_idle(&self) -> Option<Arc<Remote>> {
        let mut idle = self.idle.lock();
        idle.retain(|remote| !remote.is_lost());
        idle.pop()
    }
}

impl Lease {
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let mut idle = self.pool.idle.lock();
        if idle.len() < SFTP_IDLE_CONNECTIONS && !self.remote.is_lost() {
            idle.push(Arc::clone(&self.remote));
        }
    }
}
