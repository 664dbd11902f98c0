//! Sessions with one server, kept for the next who needs one.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use entrepot_ftp_proto::client::Op;
use parking_lot::Mutex;

use super::errors::Failed;
use super::remote::{Place, Remote};
use crate::budget::Holder;
use crate::error::{Result, StoreError};
use crate::limits::{FTP_ANSWER, FTP_REQUEST_PLACES, FTP_RESTED};
use crate::places::{self, PlaceUse, Places};

/// The sessions with a server, for one of those who share them.
pub(super) struct Pool {
    server: Arc<Server>,
    holder: Holder,
}

struct Server {
    place: Place,
    idle: Mutex<Vec<Remote>>,
    places: Arc<Places>,
}

/// A session of one operation or one file; goes back to the pool when dropped, if it can be used.
pub(super) struct Lease {
    /// Taken by the drop.
    remote: Option<Remote>,
    pool: Arc<Pool>,
    _place: places::Place,
}

impl Pool {
    pub(super) fn new(place: Place, most: usize) -> Arc<Self> {
        let places = Places::new(most, FTP_REQUEST_PLACES);
        let server = Arc::new(Server { place, idle: Mutex::new(Vec::new()), places });
        Arc::new(Pool { server, holder: Holder::Node })
    }

    /// The same sessions, for somebody else.
    pub(super) fn for_holder(&self, holder: Holder) -> Arc<Self> {
        Arc::new(Pool { server: Arc::clone(&self.server), holder })
    }

    /// A session for requests that end by themselves. It lives: one that rested is looked at first,
    /// and asked if it rested long.
    pub(super) async fn lease(self: &Arc<Self>) -> Result<Lease> {
        self.lease_for(PlaceUse::Request).await
    }

    /// The same for a file or a listing, which may keep it for long.
    pub(super) async fn lease_for_file(self: &Arc<Self>) -> Result<Lease> {
        self.lease_for(PlaceUse::File).await
    }

    async fn lease_for(self: &Arc<Self>, wanted: PlaceUse) -> Result<Lease> {
        let places = &self.server.places;
        let taken = places.take(self.holder, wanted);
        let Ok(place) = tokio::time::timeout(FTP_ANSWER, taken).await else {
            let (all, own) = places.counts(self.holder);
            let why = format!("of {all} sessions with it, {own} move files of this account");
            return Err(StoreError::NoPlace(why));
        };
        let remote = match self.idle_one().await {
            Some(remote) => remote,
            None => Remote::connect(&self.server.place).await.map_err(not_connected)?,
        };
        Ok(Lease { remote: Some(remote), pool: Arc::clone(self), _place: place })
    }

    async fn idle_one(&self) -> Option<Remote> {
        loop {
            let mut remote = self.server.idle.lock().pop()?;
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
        self.pool.server.idle.lock().push(remote);
    }
}
