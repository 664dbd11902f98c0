//! Which staged files this process knows, and which of them are being written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use entrepot_nouns::endpoint::PublishBy;
use entrepot_nouns::{StorePath, TransferId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::names::part_of;
use crate::error::{Result, StoreError};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Idle,
    Open,
    /// Dropped, and its last bytes are still on their way.
    Closing,
}

#[derive(Default)]
pub(crate) struct Registry {
    parts: Mutex<HashMap<TransferId, (StorePath, Use)>>,
    settled: Notify,
    walked: AtomicBool,
}

impl Registry {
    /// Takes a part for writing.
    pub(crate) fn claim(self: &Arc<Self>, id: TransferId, part: &StorePath) -> Result<Claim> {
        let mut parts = self.parts.lock();
        if parts.get(&id).is_some_and(|(_, now)| *now != Use::Idle) {
            return Err(StoreError::Unavailable(format!("transfer '{id}' is at work")));
        }
        parts.insert(id, (part.clone(), Use::Open));
        Ok(Claim { registry: Arc::clone(self), id, gone: AtomicBool::new(false) })
    }

    /// Remembers a part that was found.
    pub(crate) fn found(&self, id: TransferId, part: StorePath) {
        self.parts.lock().entry(id).or_insert((part, Use::Idle));
    }

    /// Remembers where another process may have put a part for `target`. What is written under its
    /// own name from the start is no one's to take away.
    pub(crate) fn may_have(&self, id: TransferId, target: &StorePath, publish: PublishBy) {
        if publish != PublishBy::Direct
            && let Ok(part) = part_of(target, id)
        {
            self.found(id, part);
        }
    }

    /// Where a part is, if this process knows.
    pub(crate) fn part(&self, id: TransferId) -> Option<StorePath> {
        self.parts.lock().get(&id).map(|(part, _)| part.clone())
    }

    pub(crate) fn all(&self) -> Vec<(TransferId, StorePath)> {
        self.parts.lock().iter().map(|(id, (part, _))| (*id, part.clone())).collect()
    }

    /// Forgets a part that is gone, unless it has a writer.
    pub(crate) fn forget(&self, id: TransferId) {
        let mut parts = self.parts.lock();
        if parts.get(&id).is_some_and(|(_, now)| *now == Use::Idle) {
            parts.remove(&id);
        }
    }

    pub(crate) fn was_walked(&self) -> bool {
        self.walked.load(Ordering::SeqCst)
    }

    pub(crate) fn set_walked(&self) {
        self.walked.store(true, Ordering::SeqCst);
    }

    /// Waits until no dropped file has bytes on their way.
    pub(crate) async fn settle(&self) {
        loop {
            let settled = self.settled.notified();
            let closing = self.parts.lock().values().any(|(_, now)| *now == Use::Closing);
            if !closing {
                return;
            }
            settled.await;
        }
    }
}

/// The right to write one part; let go when dropped.
pub(crate) struct Claim {
    registry: Arc<Registry>,
    id: TransferId,
    gone: AtomicBool,
}

impl Claim {
    /// The part is published or discarded: there is nothing left to know.
    pub(crate) fn set_gone(&self) {
        self.gone.store(true, Ordering::SeqCst);
    }

    /// It has no writer any more, but bytes are on their way.
    pub(crate) fn set_closing(&self) {
        if let Some((_, now)) = self.registry.parts.lock().get_mut(&self.id) {
            *now = Use::Closing;
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut parts = self.registry.parts.lock();
        if self.gone.load(Ordering::SeqCst) {
            parts.remove(&self.id);
        } else if let Some((_, now)) = parts.get_mut(&self.id) {
            *now = Use::Idle;
        }
        drop(parts);
        self.registry.settled.notify_waiters();
    }
}
