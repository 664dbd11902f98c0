//! The ledgers of a node's directories with a quota: counted when they are first used, and counted
//! anew now and then.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::Db;
use entrepot_nouns::{Endpoint, Quota, StorePath};
use entrepot_storage::{AnyStore, Meta};
use uuid::Uuid;

use crate::book::Book;
use crate::error::Result;
use crate::quota::{CountedDirectory, Filling, Ledger, Ledgers, Reservation};
use crate::recount::{Delta, is_below};
use crate::stores::Stores;
use crate::unbroken::later;

/// A change of a name that quotas count, from before it is made until it is known what came of it.
/// Dropped, it came to nothing.
#[must_use]
pub(crate) struct CountedChange(Vec<Counted>);

struct Counted {
    ledger: Arc<Ledger>,
    /// The directory that it counts.
    folder: StorePath,
    change: u64,
}

/// A quota of which more is taken than was told before.
pub(crate) struct Filled {
    /// The directory that it counts.
    pub(crate) folder: StorePath,
    pub(crate) filling: Filling,
}

impl CountedChange {
    /// True if no quota counts it.
    pub(crate) fn is_uncounted(&self) -> bool {
        self.0.is_empty()
    }

    /// It was made.
    pub(crate) fn end(mut self, delta: Delta) {
        std::mem::take(&mut self.0).iter().for_each(|it| it.ledger.end(it.change, delta));
    }

    /// It was made; what is to be told of the quotas since.
    pub(crate) fn end_and_look(mut self, delta: Delta) -> Vec<Filled> {
        let counted = std::mem::take(&mut self.0).into_iter();
        let look = |it: Counted| {
            it.ledger.end(it.change, delta);
            let filling = it.ledger.filling()?;
            Some(Filled { folder: it.folder, filling })
        };
        counted.filter_map(look).collect()
    }

    /// Room in every quota that counts it, for a file of `size` bytes in place of another one.
    ///
    /// # Errors
    /// [`crate::VfsError::Quota`]: there is not so much in one of them.
    pub(crate) fn reserve(&self, size: u64, gone: Option<&Meta>) -> Result<Vec<Reservation>> {
        let mut room = Vec::new();
        for counted in &self.0 {
            let quota = counted.ledger.quota();
            let mut reservation = Reservation::new(Some(counted.ledger.clone()), quota);
            if gone.is_none() {
                reservation.add_file()?;
            }
            reservation.grow_to(size)?;
            room.push(reservation);
        }
        Ok(room)
    }
}

impl Drop for CountedChange {
    fn drop(&mut self) {
        self.0.iter().for_each(|it| it.ledger.end(it.change, Delta::default()));
    }
}

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

    /// The ledger of a directory with this quota, counted.
    pub(crate) async fn ledger(
        &self,
        directory: &CountedDirectory,
        quota: Quota,
        store: &AnyStore,
    ) -> Result<Arc<Ledger>> {
        let (ledger, is_new) = self.ledgers.open(directory);
        ledger.set_quota(quota);
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
                    room.force(note.kept_bytes());
                    kept.reservation = Some(room);
                }
            });
        }
    }

    /// A name is about to change that quotas may count.
    pub(crate) fn begin(&self, endpoint: Uuid, path: &StorePath) -> CountedChange {
        if self.ledgers.is_empty() {
            return CountedChange(Vec::new());
        }
        let over = self.ledgers.over(endpoint, path).into_iter();
        let begin = |(folder, ledger): (StorePath, Arc<Ledger>)| {
            let change = ledger.begin(path);
            Counted { ledger, folder, change }
        };
        CountedChange(over.map(begin).collect())
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
