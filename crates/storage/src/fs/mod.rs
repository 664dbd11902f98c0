//! A directory of this machine.
//!
//! Confinement: every path is resolved by `openat2` from a handle of the root, beneath it and
//! through no link; every change of a name is done on the handle of its parent with one plain
//! component. No path string ever reaches the kernel from the process's own root.
//!
//! Writing: a file is staged in the hidden directory [`crate::limits::STAGING_NAME`] of its own
//! file system, synced on the descriptor that wrote it, renamed into place, and its directory
//! synced; see [`publish`].
//!
//! Waiting: on file systems in memory all is done inline. On disks reads are tried with
//! `RWF_NOWAIT`, writes too where the file system knows it, else by a plain write to the page
//! cache of at most [`crate::limits::INLINE_WRITE_BYTES`], with a pause after one that was
//! throttled; everything else, and everything on network file systems, goes to tokio's blocking
//! pool, at most [`crate::limits::POOL_TASKS`] calls of one store at a time. What was
//! begun there is finished even if its caller is gone, so a publish is never left half done by a
//! cancelled task.

pub(crate) mod disk;
mod group;
mod kernel;
mod listing;
mod names;
mod pace;
mod publish;
mod read;
mod staged;
mod staging;

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use entrepot_model::{Env, StorePath, Timestamp, TransferId};
use parking_lot::Mutex;
use rustix::io::Errno;

use self::disk::{Disk, Mounts, Stat, StatKind, Times};
use self::group::SyncGroups;
use self::kernel::KernelDisk;
use self::pace::Pace;
use self::staged::Work;
use self::staging::Stagings;
use crate::error::{Result, StoreError};
use crate::limits::POOL_TASKS;
use crate::reserved::{check_makeable, check_visible};
use crate::store::{
    AnyStore, Caps, EntryKind, Existing, Listing, Meta, ModeChange, ModeOrigin, ReadFile, Renamed,
    Space, Staged, StagedFile, Store,
};
use crate::thread::Threads;

/// Opens the store of a directory, making it if its parent exists.
///
/// # Errors
/// What the file system says; [`StoreError::NotFound`] if the parent is missing.
pub async fn open(path: &Path, env: &Env) -> Result<AnyStore> {
    let (path, env) = (path.to_owned(), env.clone());
    let opened = tokio::task::spawn_blocking(move || -> Result<AnyStore> {
        let disk = KernelDisk::open(&path)?;
        Ok(Arc::new(Fs::new(disk, env)?))
    });
    opened.await.map_err(|error| StoreError::Io(error.to_string()))?
}

/// The store over any disk.
pub(crate) struct Fs<D: Disk>(Arc<Core<D>>, Links);

/// Whether symbolic links exist as names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Links {
    Hidden,
    Shown,
}

impl Links {
    /// True unless it is a link that is hidden.
    fn show(self, stat: &Stat) -> bool {
        self == Links::Shown || stat.kind != StatKind::Link
    }
}

/// Permission bits of a directory whose maker names none, before the umask.
const ALL_BITS: u32 = 0o777;

/// What all handles of a store share.
pub(crate) struct Core<D: Disk> {
    disk: D,
    env: Env,
    threads: Threads,
    pace: Pace,
    groups: SyncGroups,
    stagings: Stagings<D>,
    live: Mutex<HashMap<TransferId, Weak<Work<D>>>>,
    /// The directory that the last file was staged for, with its path, if it lies on the file
    /// system of the root. Only the early look at a target uses it; what it misses because the
    /// directory was moved meanwhile, the publish finds, which walks the path anew.
    last_parent: Mutex<Option<(String, Arc<D::Dir>)>>,
    sick: AtomicBool,
    no_exchange: AtomicBool,
}

/// A directory below the root, or the root.
pub(crate) enum Parent<'a, D: Disk> {
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

/// The meaning of an error of a walk down the components.
fn walk_error(errno: Errno) -> StoreError {
    match errno {
        Errno::XDEV => StoreError::Escape,
        Errno::NOTDIR | Errno::LOOP => StoreError::NotFound,
        other => other.into(),
    }
}

fn meta_of(stat: &Stat) -> Option<Meta> {
    let (kind, size) = match stat.kind {
        StatKind::File => (EntryKind::File, stat.size),
        StatKind::Directory => (EntryKind::Directory, 0),
        StatKind::Link => (EntryKind::Link, stat.size),
        StatKind::Other => return None,
    };
    Some(Meta {
        kind,
        size,
        modified: stat.modified,
        accessed: stat.accessed,
        identity: Some(stat.identity()),
        mode: Some(stat.mode),
    })
}

impl<D: Disk> Core<D> {
    /// The parent of `path`, opened, and the last component. The root has none.
    fn parent<'a, 'b>(&'a self, path: &'b StorePath) -> Result<(Parent<'a, D>, &'b str)> {
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
    fn parent_and_staging<'a, 'b>(
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
    fn forget_parent(&self) {
        *self.last_parent.lock() = None;
    }

    /// What `name` in `dir` is; devices and hidden links are not there.
    fn look(&self, dir: &D::Dir, name: &str, links: Links) -> Result<Stat> {
        let stat = self.disk.stat(dir, name).map_err(walk_error)?;
        let exists = stat.kind != StatKind::Other && links.show(&stat);
        if exists { Ok(stat) } else { Err(StoreError::NotFound) }
    }

    /// What a name is; `None` if nothing has it. A device or hidden link denies the name.
    fn look_for_target(&self, (dir, name): (&D::Dir, &str), links: Links) -> Result<Option<Stat>> {
        match self.disk.stat(dir, name) {
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

    fn check_well(&self) -> Result<()> {
        if self.sick.load(Ordering::Acquire) {
            return Err(StoreError::Unavailable(
                "a disk error could not be undone: check the disk, then restart".to_owned(),
            ));
        }
        Ok(())
    }

    /// Makes the names of `dir` durable, together with all others who wait for the same. Blocks.
    fn sync_dir(&self, dir: &D::Dir) -> Result<(), Errno> {
        let before = self.env.elapsed();
        if self.pace.sync_inline() {
            let result = self.disk.sync_dir(dir);
            self.pace.synced(self.env.elapsed().saturating_sub(before));
            return result;
        }
        let stat = self.disk.stat(dir, "")?;
        self.groups.sync((stat.device, stat.inode), || {
            let before = self.env.elapsed();
            let result = self.disk.sync_dir(dir);
            self.pace.synced(self.env.elapsed().saturating_sub(before));
            result
        })
    }

    /// Does blocking work in the bounded pool; it is finished even if the caller goes away.
    async fn in_pool<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let core = Arc::clone(self);
        self.threads.call(move || work(&core)).await
    }

    /// Does work that looks at names: inline in memory, else in the pool.
    async fn at_names<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.pace.in_memory() { work(self) } else { self.in_pool(work).await }
    }

    /// Does work that syncs: inline where that is fast, else in the pool.
    async fn at_sync<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        if self.pace.sync_inline() { work(self) } else { self.in_pool(work).await }
    }
}

impl<D: Disk> Fs<D> {
    /// A store over `disk`; makes its staging area. Blocks.
    pub(crate) fn new(disk: D, env: Env) -> Result<Self> {
        let stagings = Stagings::open(&disk)?;
        let core = Arc::new(Core {
            pace: Pace::new(disk.nature()),
            disk,
            env,
            threads: Threads::new(POOL_TASKS),
            groups: SyncGroups::default(),
            stagings,
            live: Mutex::new(HashMap::new()),
            last_parent: Mutex::new(None),
            sick: AtomicBool::new(false),
            no_exchange: AtomicBool::new(false),
        });
        Ok(Fs(core, Links::Hidden))
    }
}

#[async_trait]
impl<D: Disk> Store for Fs<D> {
    fn caps(&self) -> Caps {
        Caps {
            random_write: true,
            atomic_rename: true,
            directories: true,
            set_times: true,
            modes: true,
            conditional: true,
            resume: true,
            staged_apart: true,
            local: self.0.disk.nature().local,
        }
    }

    fn threads(&self) -> Option<Threads> {
        (!self.0.pace.sync_inline()).then(|| self.0.threads.clone())
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.1);
        self.0
            .at_names(move |core| {
                let stat = match core.parent(&path) {
                    Ok((dir, name)) => core.look(&dir, name, links)?,
                    Err(_) if path.is_root() => core.look(core.disk.root(), "", links)?,
                    Err(error) => return Err(error),
                };
                meta_of(&stat).ok_or(StoreError::NotFound)
            })
            .await
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.1);
        self.0.at_names(move |core| listing::open(core, &path, links)).await
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        check_visible(path)?;
        let path = path.clone();
        self.0.at_names(move |core| read::open(core, &path)).await
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        let target = target.clone();
        self.0.at_names(move |core| staged::stage(core, id, target)).await
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        let target = target.clone();
        self.0.at_names(move |core| staged::resume(core, id, target)).await
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        self.0.at_names(|core| staging::all(core)).await
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        self.0.at_names(move |core| staging::discard(core, id)).await
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.1);
        self.0.at_sync(move |core| core.remove(&path, links)).await
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        let path = path.clone();
        self.0.at_sync(move |core| core.make_directory(&path, ALL_BITS)).await
    }

    async fn make_directory_with(&self, path: &StorePath, mode: ModeChange) -> Result<()> {
        check_makeable(path)?;
        // The kernel takes the umask from it.
        let wanted = ModeChange { origin: ModeOrigin::Request, ..mode };
        let mode = wanted.of(ALL_BITS, EntryKind::Directory);
        let path = path.clone();
        self.0.at_sync(move |core| core.make_directory(&path, mode)).await
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.1);
        self.0.at_sync(move |core| core.remove_directory(&path, links)).await
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        check_visible(from)?;
        check_makeable(to)?;
        let (from, to, links) = (from.clone(), to.clone(), self.1);
        self.0.at_sync(move |core| core.rename((&from, &to), existing, links)).await
    }

    async fn link(&self, from: &StorePath, to: &StorePath) -> Result<()> {
        check_visible(from)?;
        check_makeable(to)?;
        let (from, to) = (from.clone(), to.clone());
        self.0.at_sync(move |core| core.link(&from, &to)).await
    }

    fn with_links(&self) -> Option<AnyStore> {
        Some(Arc::new(Fs(Arc::clone(&self.0), Links::Shown)))
    }

    async fn read_link(&self, path: &StorePath) -> Result<Option<String>> {
        check_visible(path)?;
        let path = path.clone();
        self.0.at_names(move |core| core.read_link(&path)).await
    }

    async fn make_link(&self, target: &str, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        let (target, path) = (target.to_owned(), path.clone());
        self.0.at_sync(move |core| core.make_link(&target, &path)).await
    }

    async fn set_times(
        &self,
        path: &StorePath,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        check_visible(path)?;
        let path = path.clone();
        self.0.at_names(move |core| core.set_times(&path, Times { accessed, modified })).await
    }

    async fn set_mode(&self, path: &StorePath, change: ModeChange) -> Result<u32> {
        check_visible(path)?;
        let path = path.clone();
        self.0.at_sync(move |core| core.set_mode(&path, change)).await
    }

    async fn space(&self) -> Result<Space> {
        self.0.at_names(|core| Ok(core.disk.space()?)).await
    }
}
