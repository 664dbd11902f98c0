//! Partials, the interrupted uploads that their owners can resume: kept in the book, and dropped
//! from their stores when they are displaced, expired or no longer wanted.

use std::sync::Arc;

use entrepot_db::Db;
use entrepot_nouns::{Endpoint, Timestamp};
use entrepot_storage::{AnyStore, StoreError};

use crate::book::{Book, KeptPartial};
use crate::notes::Partial;
use crate::stores::Stores;
use crate::unbroken::later;

/// Keeps and drops partials. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Partials {
    book: Arc<Book>,
    stores: Arc<Stores>,
    db: Db,
}

impl Partials {
    pub(crate) fn new(book: Arc<Book>, stores: Arc<Stores>, db: Db) -> Partials {
        Partials { book, stores, db }
    }

    /// Keeps a cut upload for its owner, with a note in the journal. What it displaces is dropped
    /// in a task of its own.
    pub(crate) fn keep(&self, kept: KeptPartial) {
        self.discard_later(self.book.keep(kept));
    }

    /// As [`Partials::keep`], of what the journal has a note of.
    pub(crate) fn keep_noted(&self, kept: KeptPartial) {
        self.discard_later(self.book.adopt_kept(kept));
    }

    /// Drops staged files in a task of their own.
    pub(crate) fn discard_later(&self, kept: Vec<KeptPartial>) {
        if kept.is_empty() {
            return;
        }
        let partials = self.clone();
        later(async move {
            for kept in kept {
                partials.discard(kept).await;
            }
        });
    }

    /// Drops a partial for good; its room is given back when that is done.
    pub(crate) async fn discard(&self, kept: KeptPartial) {
        let note = &kept.note;
        if note.is_spooled() {
            self.discard_spooled(note).await;
            return;
        }
        let endpoint = self.db.find::<Endpoint>(note.site, &note.endpoint).await;
        if let Ok(Some(endpoint)) = endpoint
            && let Ok(store) = self.stores.open(&endpoint).await
            && let Err(error) = discard_in(&store, note).await
        {
            tracing::warn!(%error, transfer = %note.transfer, "a partial cannot be dropped");
        }
        self.book.forget(note.transfer);
    }

    async fn discard_spooled(&self, note: &Partial) {
        if let Some(spool) = self.stores.spool()
            && let Err(error) = spool.discard_staged(note.transfer).await
        {
            tracing::warn!(%error, transfer = %note.transfer, "a partial cannot be dropped");
        }
        self.book.forget(note.transfer);
    }

    /// Drops those whose time is over and that are not in use.
    pub(crate) async fn discard_expired(
        &self,
        now: Timestamp,
        is_in_use: impl Fn(&Partial) -> bool,
    ) {
        for kept in self.book.take_expired(now, is_in_use) {
            self.discard(kept).await;
        }
    }
}

async fn discard_in(store: &AnyStore, note: &Partial) -> Result<(), StoreError> {
    if let Some(ticket) = &note.ticket {
        store.adopt(note.transfer, &note.target, ticket)?;
    }
    store.discard_staged(note.transfer).await
}
