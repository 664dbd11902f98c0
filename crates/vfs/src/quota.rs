//! Room below mounts with a quota. What lies there is counted once in the background, kept by
//! what this node publishes and removes, and counted anew from time to time (other nodes and
//! other programs write too). Uploads reserve their room before they take it: many at once cannot
//! pass the limit, and what they do not use comes back when they end, however they end.
//!
//! A quota belongs to a directory of an endpoint: members of a group with a folder each have a
//! quota each, two mounts of one directory share what is counted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Quota, StorePath};
use entrepot_storage::{AnyStore, EntryKind, StoreError};
use parking_lot::Mutex;
use tokio::sync::watch;
use uuid::Uuid;

use crate::error::VfsError;
use crate::limits;
use crate::recount::{Changes, Delta, is_below};

/// A directory of an endpoint whose files count towards a quota.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CountedDirectory {
    pub(crate) endpoint: Uuid,
    pub(crate) path: StorePath,
}

/// All directories that are counted.
#[derive(Default)]
pub(crate) struct Ledgers(Mutex<HashMap<CountedDirectory, Arc<Ledger>>>);

impl Ledgers {
    /// The ledger of `directory`; true if it is new and has to be counted by the caller.
    pub(crate) fn open(&self, directory: &CountedDirectory) -> (Arc<Ledger>, bool) {
        let mut ledgers = self.0.lock();
        if let Some(ledger) = ledgers.get(directory) {
            return (ledger.clone(), false);
        }
        let ledger = Arc::new(Ledger::default());
        ledgers.insert(directory.clone(), ledger.clone());
        (ledger, true)
    }

    /// Every ledger that holds `path` of the endpoint, with the directory that it counts.
    pub(crate) fn over(&self, endpoint: Uuid, path: &StorePath) -> Vec<(StorePath, Arc<Ledger>)> {
        let ledgers = self.0.lock();
        let holds = |directory: &CountedDirectory| {
            directory.endpoint == endpoint && is_below(path, &directory.path)
        };
        let over = ledgers.iter().filter(|(directory, _)| holds(directory));
        over.map(|(directory, ledger)| (directory.path.clone(), ledger.clone())).collect()
    }

    /// Those whose last count is older than [`limits::RECOUNT_EVERY`]; they count as counted now.
    pub(crate) fn due(&self, now: Duration) -> Vec<(CountedDirectory, Arc<Ledger>)> {
        let ledgers = self.0.lock();
        let due = |ledger: &Arc<Ledger>| {
            let mut tally = ledger.tally.lock();
            let is_due = now.saturating_sub(tally.counted_at) >= limits::RECOUNT_EVERY;
            if is_due {
                tally.counted_at = now;
            }
            is_due
        };
        let due = ledgers.iter().filter(|(_, ledger)| due(ledger));
        due.map(|(directory, ledger)| (directory.clone(), ledger.clone())).collect()
    }

    /// True if nothing is counted, as most of the time.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

/// How far a count is.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Count {
    Wanted,
    Known,
    Failed(VfsError),
}

/// What lies in one directory and below it.
pub(crate) struct Ledger {
    tally: Mutex<Tally>,
    /// Taken before `tally` where both are.
    changes: Mutex<Changes>,
    /// What the last mount that reserved room here allows.
    quota: Mutex<Quota>,
    count: watch::Sender<Count>,
    /// Held by the count that runs.
    counting: tokio::sync::Mutex<()>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger {
            tally: Mutex::default(),
            changes: Mutex::default(),
            quota: Mutex::default(),
            count: watch::Sender::new(Count::Wanted),
            counting: tokio::sync::Mutex::default(),
        }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    bytes: i64,
    files: i64,
    reserved_bytes: u64,
    reserved_files: u64,
    /// The filling that was told last, in percent.
    told: u32,
    /// When it was last counted, as [`entrepot_nouns::Env::elapsed`] says.
    counted_at: Duration,
}

impl Tally {
    fn all_bytes(&self) -> u64 {
        self.own_bytes().saturating_add(self.reserved_bytes)
    }

    fn all_files(&self) -> u64 {
        self.own_files().saturating_add(self.reserved_files)
    }

    fn own_bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(0)
    }

    fn own_files(&self) -> u64 {
        u64::try_from(self.files).unwrap_or(0)
    }

    /// How much of a quota is taken by what lies there, in percent of bytes or of files.
    fn percent_of(&self, quota: &Quota) -> u64 {
        let part = |used: u64, limit: Option<u64>| {
            limit.map_or(0, |limit| used.saturating_mul(100) / limit.max(1))
        };
        part(self.own_bytes(), quota.size_bytes).max(part(self.own_files(), quota.files))
    }
}

/// The filling that is told where so much is taken.
fn level(percent: u64) -> u32 {
    let told = limits::QUOTA_PERCENT.into_iter();
    told.filter(|level| u64::from(*level) <= percent).max().unwrap_or_default()
}

/// How much of a quota is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filling {
    /// One of [`limits::QUOTA_PERCENT`].
    pub(crate) percent: u32,
    pub(crate) bytes: u64,
    pub(crate) files: u64,
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl Ledger {
    /// Waits for the first count.
    pub(crate) async fn ready(&self) -> Result<(), VfsError> {
        let mut count = self.count.subscribe();
        let known = count.wait_for(|count| *count != Count::Wanted);
        let count = match tokio::time::timeout(limits::COUNT_WAIT, known).await {
            Ok(Ok(count)) => count.clone(),
            _ => return Err(VfsError::busy("the files below this quota are still being counted")),
        };
        match count {
            Count::Failed(error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Counts what lies there, then says so. A failed first count is tried again by the next use.
    pub(crate) async fn recount(&self, store: &AnyStore, root: &StorePath) {
        let _alone = self.counting.lock().await;
        self.changes.lock().start_count(root.clone());
        let counted = self.count_all(store).await;
        let mut changes = self.changes.lock();
        let missed = changes.end_count();
        match counted {
            Ok(mut found) => {
                found.add(missed);
                let mut tally = self.tally.lock();
                (tally.bytes, tally.files) = (found.bytes, found.files);
                drop(tally);
                drop(changes);
                if self.count.send_replace(Count::Known) != Count::Known {
                    // What was there before this node looked is nothing that happened now.
                    let _ = self.filling();
                }
            }
            Err(error) => {
                tracing::warn!(%error, place = %root, "files below a quota cannot be counted");
                let error = VfsError::from(error);
                self.count.send_if_modified(|count| {
                    let first = *count != Count::Known;
                    if first {
                        *count = Count::Failed(error);
                    }
                    first
                });
            }
        }
    }

    /// True once if the last count failed and should be tried again.
    pub(crate) fn wants_recount(&self) -> bool {
        self.count.send_if_modified(|count| {
            let failed = matches!(count, Count::Failed(_));
            if failed {
                *count = Count::Wanted;
            }
            failed
        })
    }

    /// Sums up everything below a directory; what is missing is empty, a link a file without bytes.
    async fn count_all(&self, store: &AnyStore) -> Result<Delta, StoreError> {
        let store = store.with_links().unwrap_or_else(|| store.clone());
        let mut sum = Delta::default();
        loop {
            let Some(directory) = self.changes.lock().next_directory() else { return Ok(sum) };
            loop {
                let (found, below) = count_one(&store, &directory).await?;
                if self.changes.lock().listed(below) {
                    sum.add(found);
                    break;
                }
            }
        }
    }

    /// A name there is about to change.
    pub(crate) fn begin(&self, path: &StorePath) -> u64 {
        self.changes.lock().begin(path)
    }

    /// It has changed so.
    pub(crate) fn end(&self, change: u64, delta: Delta) {
        let mut changes = self.changes.lock();
        let delta = changes.end(change, delta);
        let mut tally = self.tally.lock();
        tally.bytes = tally.bytes.saturating_add(delta.bytes);
        tally.files = tally.files.saturating_add(delta.files);
        // What goes up and down about a filling is told once.
        let percent = tally.percent_of(&self.quota());
        tally.told = tally.told.min(level(percent.saturating_add(limits::QUOTA_PERCENT_LESS)));
    }

    /// What is to be told of how much of the quota is taken: once, until so much less was.
    pub(crate) fn filling(&self) -> Option<Filling> {
        let quota = self.quota();
        let mut tally = self.tally.lock();
        let level = level(tally.percent_of(&quota));
        if level <= tally.told {
            return None;
        }
        tally.told = level;
        Some(Filling { percent: level, bytes: tally.own_bytes(), files: tally.own_files() })
    }

    /// What a mount allows here, for those who come without one.
    pub(crate) fn set_quota(&self, quota: Quota) {
        *self.quota.lock() = quota;
    }

    /// What the last mount that reserved room here allows.
    pub(crate) fn quota(&self) -> Quota {
        *self.quota.lock()
    }

    /// Bytes and files that lie there or are promised.
    pub(crate) fn used(&self) -> (u64, u64) {
        let tally = self.tally.lock();
        (tally.all_bytes(), tally.all_files())
    }
}

/// What lies directly in a directory, and the directories in it.
async fn count_one(
    store: &AnyStore,
    directory: &StorePath,
) -> Result<(Delta, Vec<StorePath>), StoreError> {
    let (mut sum, mut below) = (Delta::default(), Vec::new());
    let mut listing = match store.list(directory).await {
        Ok(listing) => listing,
        Err(StoreError::NotFound | StoreError::NotDirectory) => return Ok((sum, below)),
        Err(error) => return Err(error),
    };
    loop {
        let page = listing.next_page(limits::PAGE).await?;
        if page.is_empty() {
            return Ok((sum, below));
        }
        for entry in page {
            match (entry.meta.kind, directory.join(&entry.name)) {
                (EntryKind::File, _) => {
                    sum.add(Delta { bytes: signed(entry.meta.size), files: 1 });
                }
                (EntryKind::Link, _) => sum.add(Delta { bytes: 0, files: 1 }),
                (EntryKind::Directory, Ok(inner))
                    if inner.components().count() <= limits::COUNT_DEPTH =>
                {
                    below.push(inner);
                }
                _ => {}
            }
        }
    }
}

/// Room promised to one upload. Without a ledger it is endless.
#[derive(Default)]
pub(crate) struct Reservation {
    ledger: Option<Arc<Ledger>>,
    quota: Quota,
    bytes: u64,
    files: u64,
}

impl Reservation {
    /// Nothing yet, under `quota`.
    pub(crate) fn new(ledger: Option<Arc<Ledger>>, quota: Quota) -> Self {
        Reservation { ledger, quota, bytes: 0, files: 0 }
    }

    /// Promises one more file.
    pub(crate) fn add_file(&mut self) -> Result<(), VfsError> {
        let Some(ledger) = &self.ledger else { return Ok(()) };
        let mut tally = ledger.tally.lock();
        if let Some(limit) = self.quota.files
            && tally.all_files() >= limit
        {
            return Err(VfsError::Quota { what: "files", limit });
        }
        tally.reserved_files += 1;
        self.files += 1;
        Ok(())
    }

    /// Sees to it that `size` bytes are promised. Cheap while they are.
    pub(crate) fn grow_to(&mut self, size: u64) -> Result<(), VfsError> {
        if let Some(limit) = self.quota.file_size_bytes
            && size > limit
        {
            return Err(VfsError::Quota { what: "bytes a file", limit });
        }
        if size <= self.bytes {
            return Ok(());
        }
        let Some(ledger) = &self.ledger else {
            self.bytes = size;
            return Ok(());
        };
        let mut tally = ledger.tally.lock();
        let need = size - self.bytes;
        let mut step = need;
        if let Some(limit) = self.quota.size_bytes {
            let left = limit.saturating_sub(tally.all_bytes());
            if need > left {
                return Err(VfsError::Quota { what: "bytes", limit });
            }
            let ahead = limits::RESERVE_BYTES.min(left / limits::RESERVE_PART);
            step = need.max(ahead);
        }
        tally.reserved_bytes = tally.reserved_bytes.saturating_add(step);
        self.bytes += step;
        Ok(())
    }

    /// Promises room for bytes that already lie in staging, limit or not.
    pub(crate) fn force(&mut self, bytes: u64) {
        if let Some(ledger) = &self.ledger {
            let mut tally = ledger.tally.lock();
            tally.reserved_bytes = tally.reserved_bytes.saturating_add(bytes);
            tally.reserved_files += 1;
            (self.bytes, self.files) = (self.bytes.saturating_add(bytes), self.files + 1);
        }
    }

    /// From now on it counts under `quota`.
    pub(crate) fn set_quota(&mut self, quota: Quota) {
        self.quota = quota;
    }

    /// Gives back all but `size` bytes, for an upload that is kept.
    pub(crate) fn shrink_to(&mut self, size: u64) {
        let Some(ledger) = &self.ledger else { return };
        let more = self.bytes.saturating_sub(size);
        let mut tally = ledger.tally.lock();
        tally.reserved_bytes = tally.reserved_bytes.saturating_sub(more);
        self.bytes -= more;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if let Some(ledger) = &self.ledger {
            let mut tally = ledger.tally.lock();
            tally.reserved_bytes = tally.reserved_bytes.saturating_sub(self.bytes);
            tally.reserved_files = tally.reserved_files.saturating_sub(self.files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ledger() -> Arc<Ledger> {
        let ledger = Arc::new(Ledger::default());
        ledger.count.send_replace(Count::Known);
        ledger
    }

    fn quota(size_bytes: u64, files: u64) -> Quota {
        Quota { size_bytes: Some(size_bytes), files: Some(files), file_size_bytes: Some(700) }
    }

    #[test]
    fn many_at_once_stay_below_the_limit_and_give_back() {
        let ledger = ledger();
        let mut all: Vec<_> =
            (0..20).map(|_| Reservation::new(Some(ledger.clone()), quota(1000, 8))).collect();
        let files = all.iter_mut().map(Reservation::add_file).filter(Result::is_ok).count();
        assert_eq!(files, 8);
        let bytes = all.iter_mut().map(|one| one.grow_to(300)).filter(Result::is_ok).count();
        assert_eq!(bytes, 3, "a fourth does not fit into 1,000");
        assert!(ledger.used().0 <= 1000);
        assert!(matches!(
            all.last_mut().unwrap().grow_to(701),
            Err(VfsError::Quota { what: "bytes a file", limit: 700 })
        ));
        drop(all);
        assert_eq!(ledger.used(), (0, 0));
    }

    #[test]
    fn places_hold_what_lies_below_them() {
        let path = |text: &str| text.parse::<StorePath>().unwrap();
        assert!(is_below(&path("a/b"), &path("a")));
        assert!(is_below(&path("a"), &StorePath::root()));
        assert!(!is_below(&path("ab"), &path("a")));
    }
}
