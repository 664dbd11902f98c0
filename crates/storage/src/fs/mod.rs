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
mod errors;
mod group;
mod kernel;
mod leftovers;
mod listing;
mod live;
mod names;
mod pace;
mod placed;
mod probe;
mod publish;
mod read;
mod staged;
mod staging;
mod tree;
mod work;

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_nouns::{Env, StorePath, Timestamp, TransferId};

use self::disk::{Disk, Times};
use self::errors::walk_error;
use self::kernel::KernelDisk;
use self::tree::{Links, Tree};
use crate::error::{Result, StoreError};
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
pub(crate) struct Fs<D: Disk> {
    tree: Arc<Tree<D>>,
    /// Whether symbolic links exist as names.
    links: Links,
}

/// Permission bits of a directory whose maker names none, before the umask.
const ALL_BITS: u32 = 0o777;

impl<D: Disk> Fs<D> {
    /// A store over `disk`; makes its staging area. Blocks.
    pub(crate) fn new(disk: D, env: Env) -> Result<Self> {
        Ok(Fs { tree: Arc::new(Tree::new(disk, env)?), links: Links::Hidden })
    }
}

#[async_trait]
impl<D: Disk> Store for Fs<D> {
    fn caps(&self) -> Caps {
        Caps {
            random_write: true,
            atomic_rename: true,
            directories: true,
            modes: true,
            resume: true,
            staged_apart: true,
            local: self.tree.disk.nature().local,
            durable_staging: true,
        }
    }

    fn threads(&self) -> Option<Threads> {
        (!self.tree.pace.sync_inline()).then(|| self.tree.threads.clone())
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.links);
        self.tree
            .at_names(move |tree| {
                let stat = tree.disk.stat_below(tree.disk.root(), path.as_str());
                let stat = stat.map_err(walk_error)?;
                stat.meta().filter(|_| links.show(&stat)).ok_or(StoreError::NotFound)
            })
            .await
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.links);
        self.tree.at_names(move |tree| listing::open(tree, &path, links)).await
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        check_visible(path)?;
        let path = path.clone();
        self.tree.at_names(move |tree| read::open(tree, &path)).await
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        let target = target.clone();
        self.tree.at_names(move |tree| staged::stage(tree, id, target)).await
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        let target = target.clone();
        self.tree.at_names(move |tree| staged::resume(tree, id, target)).await
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        self.tree.at_names(|tree| leftovers::all(tree)).await
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        self.tree.at_names(move |tree| leftovers::discard(tree, id)).await
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.links);
        self.tree.at_sync(move |tree| tree.remove(&path, links)).await
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        let path = path.clone();
        self.tree.at_sync(move |tree| tree.make_directory(&path, ALL_BITS)).await
    }

    async fn make_directory_with(&self, path: &StorePath, mode: ModeChange) -> Result<()> {
        check_makeable(path)?;
        // The kernel takes the umask from it.
        let wanted = ModeChange { origin: ModeOrigin::Request, ..mode };
        let mode = wanted.of(ALL_BITS, EntryKind::Directory);
        let path = path.clone();
        self.tree.at_sync(move |tree| tree.make_directory(&path, mode)).await
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let (path, links) = (path.clone(), self.links);
        self.tree.at_sync(move |tree| tree.remove_directory(&path, links)).await
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        check_visible(from)?;
        check_makeable(to)?;
        let (from, to, links) = (from.clone(), to.clone(), self.links);
        self.tree.at_sync(move |tree| tree.rename(&from, &to, existing, links)).await
    }

    async fn link(&self, from: &StorePath, to: &StorePath) -> Result<()> {
        check_visible(from)?;
        check_makeable(to)?;
        let (from, to) = (from.clone(), to.clone());
        self.tree.at_sync(move |tree| tree.link(&from, &to)).await
    }

    fn with_links(&self) -> Option<AnyStore> {
        Some(Arc::new(Fs { tree: Arc::clone(&self.tree), links: Links::Shown }))
    }

    async fn read_link(&self, path: &StorePath) -> Result<Option<String>> {
        check_visible(path)?;
        let path = path.clone();
        self.tree.at_names(move |tree| tree.read_link(&path)).await
    }

    async fn make_link(&self, target: &str, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        let (target, path) = (target.to_owned(), path.clone());
        self.tree.at_sync(move |tree| tree.make_link(&target, &path)).await
    }

    async fn set_times(
        &self,
        path: &StorePath,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        check_visible(path)?;
        let path = path.clone();
        self.tree.at_names(move |tree| tree.set_times(&path, Times { accessed, modified })).await
    }

    async fn set_mode(&self, path: &StorePath, change: ModeChange) -> Result<u32> {
        check_visible(path)?;
        let path = path.clone();
        self.tree.at_sync(move |tree| tree.set_mode(&path, change)).await
    }

    async fn space(&self) -> Result<Space> {
        self.tree.at_names(|tree| Ok(tree.disk.space()?)).await
    }

    fn is_sick(&self) -> bool {
        self.tree.check_well().is_err()
    }

    async fn probe(&self) -> Result<()> {
        self.tree.at_names(|tree| probe::run(tree)).await
    }
}
