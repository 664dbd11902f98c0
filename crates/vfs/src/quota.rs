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

    /// Every ledger that holds `path` of the endpoint.
    pub(crate) fn over(&self, endpoint: Uuid, path: &StorePath) -> Vec<Arc<Ledger>> {
        let ledgers = self.0.lock();
        let holds = |directory: &CountedDirectory| {
            directory.endpoint == endpoint && is_below(path, &directory.path)
        };
        let over = ledgers.iter().filter(|(directory, _)| holds(directory));
        over.map(|(_, ledger)| ledger.clone()).collect()
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

/// True if `path` is `prefix` or lies below it.
pub(crate) fn is_below(path: &StorePath, prefix: &StorePath) -> bool {
    if prefix.is_root() {
        return true;
    }
    let rest = path.as_str().strip_prefix(prefix.as_str());
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
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
    count: watch::Sender<Count>,
}

impl Default for Ledger {
    fn default() -> Self {
        Ledger { tally: Mutex::default(), count: watch::Sender::new(Count::Wanted) }
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Tally {
    bytes: i64,
    files: i64,
    reserved_bytes: u64,
    reserved_files: u64,
    /// What changed while a count runs.
    changed_bytes: i64,
    changed_files: i64,
    /// When it was last counted, as [`entrepot_nouns::Env::elapsed`] says.
    counted_at: Duration,
}

impl Tally {
    fn all_bytes(&self) -> u64 {
        u64::try_from(self.bytes).unwrap_or(0).saturating_add(self.reserved_bytes)
    }

    fn all_files(&self) -> u64 {
        u64::try_from(self.files).unwrap_or(0).saturating_add(self.reserved_files)
    }
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
        {
            let mut tally = self.tally.lock();
            (tally.changed_bytes, tally.changed_files) = (0, 0);
        }
        match count(store, root).await {
            Ok((bytes, files)) => {
                let mut tally = self.tally.lock();
                tally.bytes = signed(bytes).saturating_add(tally.changed_bytes);
                tally.files = signed(files).saturating_add(tally.changed_files);
                drop(tally);
                self.count.send_replace(Count::Known);
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

    /// Notes what changed there.
    pub(crate) fn changed(&self, bytes: i64, files: i64) {
        let mut tally = self.tally.lock();
        tally.bytes = tally.bytes.saturating_add(bytes);
        tally.files = tally.files.saturating_add(files);
        tally.changed_bytes = tally.changed_bytes.saturating_add(bytes);
        tally.changed_files = tally.changed_files.saturating_add(files);
    }

    /// Bytes and files that lie there or are promised.
    pub(crate) fn used(&self) -> (u64, u64) {
        let tally = self.tally.lock();
        (tally.all_bytes(), tally.all_files())
    }
}

/// Sums up everything below `root`; a missing directory is empty, a link a file without bytes.
async fn count(store: &AnyStore, root: &StorePath) -> Result<(u64, u64), StoreError> {
    let store = store.with_links().unwrap_or_else(|| store.clone());
    let mut sum = (0u64, 0u64);
    let mut todo = vec![root.clone()];
    while let Some(directory) = todo.pop() {
        let mut listing = match store.list(&directory).await {
            Ok(listing) => listing,
            Err(StoreError::NotFound | StoreError::NotDirectory) => continue,
            Err(error) => return Err(error),
        };
        loop {
            let page = listing.next_page(limits::PAGE).await?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                match (entry.meta.kind, directory.join(&entry.name)) {
                    (EntryKind::File, _) => {
                        sum = (sum.0.saturating_add(entry.meta.size), sum.1.saturating_add(1));
                    }
                    (EntryKind::Link, _) => sum.1 = sum.1.saturating_add(1),
                    (EntryKind::Directory, Ok(below))
                        if below.components().count() <= limits::COUNT_DEPTH =>
                    {
                        todo.push(below);
                    }
                    _ => {}
                }
            }
        }
    }
    Ok(sum)
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
