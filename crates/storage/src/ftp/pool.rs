//! Sessions with one server, kept for the next who needs one.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use entrepot_ftp_proto::client::Op;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::errors::Failed;
use super::remote::{Place, Remote};
use crate::error::{Result, StoreError};
use crate::limits::{FTP_ANSWER, FTP_RESTED};

pub(super) struct Pool {
    place: Place,
    most: usize,
    idle: Mutex<Vec<Remote>>,
    room: Arc<Semaphore>,
}

/// A session of one operation or one file; goes back to the pool when dropped, if it can be used.
pub(super) struct Lease {
    /// Taken by the drop.
    remote: Option<Remote>,
    pool: Arc<Pool>,
    _room: OwnedSemaphorePermit,
}

impl Pool {
    pub(super) fn new(place: Place, most: usize) -> Arc<Self> {
        let room = Arc::new(Semaphore::new(most));
        Arc::new(Pool { place, most, idle: Mutex::new(Vec::new()), room })
    }

    /// A session that lives: one that rested is looked at first, and asked if it rested long.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease> {
        let room = tokio::time::timeout(FTP_ANSWER, Arc::clone(&self.room).acquire_owned()).await;
        let Ok(Ok(room)) = room else {
            let why = format!("{} sessions with it are at work already", self.most);
            return Err(StoreError::Unavailable(why));
        };
        let remote = match self.idle_one().await {
            Some(remote) => remote,
            None => Remote::connect(&self.place).await.map_err(not_connected)?,
        };
        Ok(Lease { remote: Some(remote), pool: Arc::clone(self), _room: room })
    }

    async fn idle_one(&self) -> Option<Remote> {
        loop {
            let mut remote = self.idle.lock().pop()?;
            if !remote.is_usable() {
                continue;
            }
            if remote.rested() < FTP_RESTED || remote.ask(Op::Noop).await.is_ok() {
                return Some(remote);
            }
        }
    }
}

/// A refused login is nobody's fault but the endpoint's: the server's words alone do not say what
/// to do.
fn not_connected(failed: Failed) -> StoreError {
    match failed.code() {
        430 | 530..540 => match StoreError::from(failed) {
            StoreError::Denied(said) | StoreError::Unavailable(said) => StoreError::Denied(
                format!("the login failed, {said}: check user and password of the endpoint"),
            ),
            other => other,
        },
        _ => failed.into(),
    }
}

impl Deref for Lease {
    type Target = Remote;

    fn deref(&self) -> &Remote {
        // Invariant: only the drop takes it.
        // Invariant: only the drop takes it.
        self.remote.as_ref().expect("only the drop takes it")
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Remote {
        // Invariant: only the drop takes it.
        // Invariant: only the drop takes it.
        self.remote.as_mut().expect("only the drop takes it")
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let Some(remote) = self.remote.take().filter(Remote::is_usable) else { return };
        self.pool.idle.lock().push(remote);
    }
}
