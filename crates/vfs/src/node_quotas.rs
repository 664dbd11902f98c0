//! The ledgers of a node's directories with a quota: counted when they are first used, and counted
//! anew now and then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::Db;
use entrepot_nouns::{Endpoint, Quota, StorePath};
use entrepot_storage::AnyStore;
use uuid::Uuid;

use crate::book::Book;
use crate::error::Result;
use crate::quota::{CountedDirectory, Ledger, Ledgers, Reservation, is_below};
use crate::stores::Stores;
use crate::unbroken::later;

/// The ledgers, and what they are filled from.
pub(crate) struct NodeQuotas {
    ledgers: Ledgers,
    book: Arc<Book>,
    stores: Arc<Stores>,
    db: Db,
}

impl NodeQuotas {
    pub(crate) fn new(book: Arc<Book>, stores: Arc<Stores>, db: Db) -> NodeQuotas {
        NodeQuotas { ledgers: Ledgers::default(), book, stores, db }
    }

    /// The ledger of a directory with a quota, counted.
    pub(crate) async fn ledger(
        &self,
        directory: &CountedDirectory,
        store: &AnyStore,
    ) -> Result<Arc<Ledger>> {
        let (ledger, is_new) = self.ledgers.open(directory);
        if is_new {
            self.reserve_for_kept(directory, &ledger).await;
        }
        if is_new || ledger.wants_recount() {
            let (counting, store) = (ledger.clone(), store.clone());
            let root = directory.path.clone();
            later(async move { counting.recount(&store, &root).await });
        }
        ledger.ready().await?;
        Ok(ledger)
    }

    /// What was kept before its directory had a ledger takes room there too.
    async fn reserve_for_kept(&self, directory: &CountedDirectory, ledger: &Arc<Ledger>) {
        let mut endpoints = HashSet::new();
        self.book.each_kept(|kept| {
            if kept.reservation.is_none() {
                endpoints.insert((kept.note.site, kept.note.endpoint.clone()));
            }
        });
        for (site, name) in endpoints {
            let endpoint = self.db.find::<Endpoint>(site, &name).await;
            let found = endpoint.ok().flatten();
            if found.is_none_or(|found| found.id != directory.endpoint) {
                continue;
            }
            self.book.each_kept(|kept| {
                let note = &kept.note;
                let here = note.site == site && note.endpoint == name;
                if kept.reservation.is_none() && here && is_below(&note.target, &directory.path) {
                    let mut room = Reservation::new(Some(ledger.clone()), Quota::default());
                    room.force(note.contiguous);
                    kept.reservation = Some(room);
                }
            });
        }
    }

    /// Something was added to or taken from what quotas count.
    pub(crate) fn changed(&self, endpoint: Uuid, path: &StorePath, bytes: i64, files: i64) {
        if self.ledgers.is_empty() {
            return;
        }
        for ledger in self.ledgers.over(endpoint, path) {
            ledger.changed(bytes, files);
        }
    }

    /// Counts anew what was last counted long enough before `now`, for files that others changed.
    pub(crate) async fn recount_due(&self, now: Duration) {
        for (directory, ledger) in self.ledgers.due(now) {
            if let Some(store) = self.stores.opened(directory.endpoint) {
                ledger.recount(&store, &directory.path).await;
            }
        }
    }
}
