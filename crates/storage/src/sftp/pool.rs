//! Connections to one server: one that all short requests share, others for files.

use std::sync::Arc;

use parking_lot::Mutex;

use super::remote::{Place, Remote};
use crate::budget::Holder;
use crate::error::{Result, StoreError};
use crate::limits::{SFTP_ANSWER, SFTP_CONNECTIONS, SFTP_IDLE_CONNECTIONS};
use crate::places::{self, PlaceUse, Places};

/// The connections to a server, for one of those who share them.
pub(super) struct Pool {
    server: Arc<Server>,
    holder: Holder,
}

struct Server {
    place: Place,
    common: tokio::sync::Mutex<Option<Arc<Remote>>>,
    idle: Mutex<Vec<Arc<Remote>>>,
    /// Connections that files may have at a time.
    places: Arc<Places>,
}

/// A connection of one file; goes back to the pool when dropped.
pub(super) struct Lease {
    pub(super) remote: Arc<Remote>,
    pool: Arc<Pool>,
    _place: places::Place,
}

impl Pool {
    pub(super) fn new(place: Place) -> Arc<Self> {
        let server = Arc::new(Server {
            place,
            common: tokio::sync::Mutex::new(None),
            idle: Mutex::new(Vec::new()),
            places: Places::new(SFTP_CONNECTIONS, 0),
        });
        Arc::new(Pool { server, holder: Holder::Node })
    }

    /// The same connections, for somebody else.
    pub(super) fn for_holder(&self, holder: Holder) -> Arc<Self> {
        Arc::new(Pool { server: Arc::clone(&self.server), holder })
    }

    /// The connection for short requests; made at the first use and again after it was lost.
    pub(super) async fn common(&self) -> Result<Arc<Remote>> {
        let mut common = self.server.common.lock().await;
        if let Some(remote) = common.as_ref().filter(|remote| !remote.is_lost()) {
            return Ok(Arc::clone(remote));
        }
        let remote = Arc::new(Remote::connect(&self.server.place).await?);
        *common = Some(Arc::clone(&remote));
        Ok(remote)
    }

    /// A connection for one file.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease> {
        let places = &self.server.places;
        let taken = places.take(self.holder, PlaceUse::File);
        let Ok(place) = tokio::time::timeout(SFTP_ANSWER, taken).await else {
            let (all, own) = places.counts(self.holder);
            let why = format!("of {all} files that may be open there, {own} are this account's");
            return Err(StoreError::NoPlace(why));
        };
        let remote = match self.take_idle() {
            Some(remote) => remote,
            None => Arc::new(Remote::connect(&self.server.place).await?),
        };
        Ok(Lease { remote, pool: Arc::clone(self), _place: place })
    }

    fn take_idle(&self) -> Option<Arc<Remote>> {
        let mut idle = self.server.idle.lock();
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
        let mut idle = self.pool.server.idle.lock();
        if idle.len() < SFTP_IDLE_CONNECTIONS && !self.remote.is_lost() {
            idle.push(Arc::clone(&self.remote));
        }
    }
}
