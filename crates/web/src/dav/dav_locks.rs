//! The locks of WebDAV, which all listeners of a node share.

use std::sync::Arc;

use entrepot_dav_proto::Locks;
use parking_lot::{Mutex, MutexGuard};

/// The locks of a node. Cheap to clone.
#[derive(Clone, Default)]
pub struct DavLocks(Arc<Mutex<Locks>>);

impl DavLocks {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Locks> {
        self.0.lock()
    }
}
