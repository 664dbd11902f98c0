//! The directory of an endpoint on its disk: paths resolved below its root, syncs of directories
//! shared, and the thread pool for calls that wait.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use entrepot_nouns::{Env, StorePath};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::disk::{DirEntry, Disk, Mounts, Stat, StatKind};
use super::errors::walk_error;
use super::group::{DirectoryId, SyncGroups};
use super::live::LiveTransfers;
use super::pace::Pace;
use super::staging::Stagings;
use crate::error::{Result, StoreError};
use crate::limits::POOL_TASKS;
use crate::thread::Threads;

/// Whether symbolic links exist as names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Links {
    Hidden,
    Shown,
}

impl Links {
    /// True for anything but a hidden link.
    pub(super) fn show(self, stat: &Stat) -> bool {
        self == Links::Shown || stat.kind != StatKind::Link
    }
}

/// A directory and everything below it on one disk. All handles of a store share it.
pub(super) struct Tree<D: Disk> {
    pub(super) disk: D,
    pub(super) env: Env,
    pub(super) threads: Threads,
    pub(super) pace: Pace,
    groups: SyncGroups,
    pub(super) stagings: Stagings<D>,
    pub(super) live: Arc<LiveTransfers>,
    /// The directory that the last file was staged for, with its path, if it lies on the file
    /// system of the root. Only the early look at a target uses it; what it misses because the
    /// directory was moved meanwhile, the publish finds, which walks the path anew.
    last_parent: Mutex<Option<(String, Arc<D::Dir>)>>,
    /// A change that failed could not be undone.
    pub(super) sick: AtomicBool,
    /// Held by the probe at work.
    pub(super) probing: Mutex<()>,
    pub(super) no_exchange: AtomicBool,
}

/// A directory below the root, or the root.
pub(super) enum Parent<'a, D: Disk> {
    Root(&'a D::Dir),
    Opened(D::Dir),
    Shared(Arc<D::Dir>),
}

impl<D: Disk> Deref for Parent<'_, D> {
    type Target = D::Dir;
    fn deref(&self) -> &D::Dir {
        match self {
            Parent::Root(dir) => dir,
            Parent::Opened(dir) => dir,
            Parent::Shared(dir) => dir,
        }
    }
}

impl<D: Disk> Tree<D> {
    /// A tree over `disk`; makes its staging area. Blocks.
    pub(super) fn new(disk: D, env: Env) -> Result<Self> {
        let stagings = Stagings::open(&disk)?;
        Ok(Tree {
            pace: Pace::new(disk.nature()),
            disk,
            env,
            threads: Threads::new(POOL_TASKS),
            groups: SyncGroups::default(),
            stagings,
            live: Arc::default(),
            last_parent: Mutex::new(None),
            sick: AtomicBool::new(false),
            probing: Mutex::new(()),
            no_exchange: AtomicBool::new(false),
        })
    }

    /// The parent of `path`, opened, and the last component. The root has none.
    pub(super) fn parent<'a, 'b>(
        &'a self,
        path: &'b StorePath,
    ) -> Result<(Parent<'a, D>, &'b str)> {
        let (above, name) = match path.as_str().rsplit_once('/') {
            Some(split) => split,
            None if path.is_root() => {
                return Err(StoreError::Denied("this is the root of the endpoint".to_owned()));
            }
            None => return Ok((Parent::Root(self.disk.root()), path.as_str())),
        };
        let dir = self.disk.open_dir(self.disk.root(), above, Mounts::Enter).map_err(walk_error)?;
        Ok((Parent::Opened(dir), name))
    }

    /// The parent of a target to stage for, the last component, and the staging directory of
    /// their file system.
    #[allow(clippy::type_complexity)]
    pub(super) fn parent_and_staging<'a, 'b>(
        &'a self,
        path: &'b StorePath,
    ) -> Result<(Parent<'a, D>, &'b str, Arc<D::Dir>)> {
        let Some((above, name)) = path.as_str().rsplit_once('/') else {
            let (root, name) = self.parent(path)?;
            return Ok((root, name, self.stagings.of_root()));
        };
        if let Some((_, dir)) = self.last_parent.lock().as_ref().filter(|last| last.0 == above) {
            return Ok((Parent::Shared(Arc::clone(dir)), name, self.stagings.of_root()));
        }
        let (dir, staging) = self.stagings.open_with(&self.disk, above)?;
        if !self.stagings.is_root(&staging) {
            return Ok((Parent::Opened(dir), name, staging));
        }
        let dir = Arc::new(dir);
        *self.last_parent.lock() = Some((above.to_owned(), Arc::clone(&dir)));
        Ok((Parent::Shared(dir), name, staging))
    }

    /// Forgets the last parent: directories change.
    pub(super) fn forget_parent(&self) {
        *self.last_parent.lock() = None;
    }

    /// What has a name; devices and hidden links count as absent.
    pub(super) fn stat(&self, entry: DirEntry<'_, D::Dir>, links: Links) -> Result<Stat> {
        let stat = self.disk.stat(entry.dir, entry.name).map_err(walk_error)?;
        let exists = stat.kind != StatKind::Other && links.show(&stat);
        if exists { Ok(stat) } else { Err(StoreError::NotFound) }
    }

    /// What has the name of a target, if anything has. The name of a device or hidden link is
    /// denied.
    pub(super) fn stat_target(
        &self,
        entry: DirEntry<'_, D::Dir>,
        links: Links,
    ) -> Result<Option<Stat>> {
        match self.disk.stat(entry.dir, entry.name) {
            Ok(stat) if stat.kind == StatKind::Other || !links.show(&stat) => {
                Err(StoreError::Denied(
                    "the name belongs to a link or device that only the operator may remove"
                        .to_owned(),
                ))
            }
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(walk_error(errno)),
        }
    }

    pub(super) fn check_well(&self) -> Result<()> {
        if self.sick.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable(
                "a disk error could not be undone: check the disk, it is tried again (EP0533)"
                    .to_owned(),
            ));
        }
        Ok(())
    }

    /// Makes the names of `dir` durable, together with all others who wait for the same. Blocks.
    pub(super) fn sync_dir(&self, dir: &D::Dir) -> Result<(), Errno> {
        let before = self.env.elapsed();
        if self.pace.sync_inline() {
            let result = self.disk.sync_dir(dir);
            self.pace.synced(self.env.elapsed().saturating_sub(before));
            return result;
        }
        let stat = self.disk.stat(dir, "")?;
        let directory = DirectoryId { device: stat.device, inode: stat.inode };
        self.groups.sync(directory, || {
            let before = self.env.elapsed();
            let result = self.disk.sync_dir(dir);
            self.pace.synced(self.env.elapsed().saturating_sub(before));
            result
        })
    }

    /// Does blocking work in the bounded pool; it is finished even if the caller goes away.
    pub(super) async fn in_pool<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let tree = Arc::clone(self);
        self.threads.call(move || work(&tree)).await
    }

    /// Does work on names: inline if the disk is memory, else in the pool.
    pub(super) async fn at_names<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.pace.in_memory() { work(self) } else { self.in_pool(work).await }
    }

    /// Does work that syncs: inline where that is fast, else in the pool.
    pub(super) async fn at_sync<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.pace.sync_inline() { work(self) } else { self.in_pool(work).await }
    }
}
