//! Staged files that a handle is at work on: each transfer has one at a time.

use std::collections::HashSet;
use std::sync::Arc;

use entrepot_nouns::TransferId;
use parking_lot::Mutex;

#[derive(Default)]
pub(super) struct LiveTransfers(Mutex<HashSet<TransferId>>);

/// The only handle of a transfer's staged file, until it is dropped.
pub(super) struct LiveClaim {
    live: Arc<LiveTransfers>,
    id: TransferId,
}

impl LiveTransfers {
    /// `None` while another handle of the transfer is at work.
    pub(super) fn claim(self: &Arc<Self>, id: TransferId) -> Option<LiveClaim> {
        let is_new = self.0.lock().insert(id);
        is_new.then(|| LiveClaim { live: Arc::clone(self), id })
    }
}

impl Drop for LiveClaim {
    fn drop(&mut self) {
        self.live.0.lock().remove(&self.id);
    }
}
