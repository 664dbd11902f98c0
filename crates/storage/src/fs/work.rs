//! A staged file at work: its bytes, and which of them are durable.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use entrepot_nouns::{StorePath, TransferId};
use parking_lot::Mutex;
use rustix::io::Errno;

use super::disk::{Disk, StatKind};
use super::live::LiveClaim;
use super::pace::Try;
use super::placed::Publication;
use super::tree::Tree;
use crate::error::{Result, StoreError};
use crate::store::Identity;

/// A staged file at work. Lives until the last call on it has ended, also one in the pool whose
/// caller is gone.
pub(super) struct Work<D: Disk> {
    pub(super) tree: Arc<Tree<D>>,
    _claim: LiveClaim,
    /// The name in staging.
    pub(super) name: String,
    pub(super) target: StorePath,
    pub(super) staging: Arc<D::Dir>,
    pub(super) file: D::File,
    pub(super) identity: Identity,
    /// Something had the target's name when the file was staged for it: it is looked at before the
    /// name is taken for a free one.
    pub(super) name_was_taken: AtomicBool,
    pub(super) size: AtomicU64,
    /// Changes of the bytes that have ended.
    pub(super) changes: AtomicU64,
    /// `changes` when the last good sync began.
    synced: AtomicU64,
    sync_failed: AtomicBool,
    /// Published or discarded.
    pub(super) ended: AtomicBool,
    /// Set from the publish on until nobody wants it undone any more.
    pub(super) published: Mutex<Option<Publication>>,
}

/// The name of a transfer's file in staging.
pub(super) fn staged_name(id: TransferId) -> String {
    id.to_string()
}

impl<D: Disk> Work<D> {
    /// Goes to work on an opened staged file, the only one of its transfer.
    pub(super) fn begin(
        tree: &Arc<Tree<D>>,
        id: TransferId,
        target: StorePath,
        staging: Arc<D::Dir>,
        file: D::File,
    ) -> Result<Arc<Self>> {
        let stat = tree.disk.stat_file(&file)?;
        if stat.kind != StatKind::File {
            return Err(StoreError::NotFound);
        }
        let Some(claim) = tree.live.claim(id) else {
            return Err(StoreError::Unavailable(
                "the last write of this transfer has not ended".to_owned(),
            ));
        };
        Ok(Arc::new(Work {
            tree: Arc::clone(tree),
            _claim: claim,
            name: staged_name(id),
            target,
            staging,
            file,
            identity: stat.identity(),
            name_was_taken: AtomicBool::new(false),
            size: AtomicU64::new(stat.size),
            // What an earlier process wrote may be unsynced: publishing needs a sync in any case.
            changes: AtomicU64::new(1),
            synced: AtomicU64::new(0),
            sync_failed: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            published: Mutex::new(None),
        }))
    }

    pub(super) fn check_open(&self) -> Result<()> {
        if self.ended.load(Ordering::Acquire) {
            return Err(StoreError::Unsupported("a change of a file that was published"));
        }
        Ok(())
    }

    /// Fails unless all bytes are durable.
    pub(super) fn check_synced(&self) -> Result<()> {
        self.check_open()?;
        self.check_sync_works()?;
        if self.changes.load(Ordering::Acquire) != self.synced.load(Ordering::Acquire) {
            return Err(StoreError::Unsupported("publishing bytes that were not synced"));
        }
        Ok(())
    }

    fn check_sync_works(&self) -> Result<()> {
        if self.sync_failed.load(Ordering::Acquire) {
            return Err(StoreError::Io("an earlier sync of this file failed".to_owned()));
        }
        Ok(())
    }

    /// Whether the file that had the name before is still to be dropped. If not, the publish stands
    /// from now on.
    pub(super) fn keeps_displaced(&self) -> bool {
        let mut published = self.published.lock();
        let keeps = published.as_ref().is_some_and(|published| published.placed.keeps_displaced());
        if !keeps {
            *published = None;
        }
        keeps
    }

    pub(super) fn wrote(&self, end: u64) {
        self.size.fetch_max(end, Ordering::AcqRel);
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn sync(&self) -> Result<()> {
        self.check_sync_works()?;
        let changes = self.changes.load(Ordering::Acquire);
        let before = self.tree.env.elapsed();
        if let Err(errno) = self.tree.disk.sync_file(&self.file) {
            self.sync_failed.store(true, Ordering::Release);
            return Err(errno.into());
        }
        self.tree.pace.synced(self.tree.env.elapsed().saturating_sub(before));
        self.synced.fetch_max(changes, Ordering::AcqRel);
        Ok(())
    }

    pub(super) fn try_write(&self, offset: u64, data: &[u8]) -> Result<bool, Errno> {
        let tree = &*self.tree;
        if tree.pace.inline_write(data.len()) == Try::NoWait {
            match tree.disk.try_write(&self.file, offset, data) {
                Err(Errno::OPNOTSUPP) => tree.pace.refused_no_wait(),
                other => return other,
            }
        }
        match tree.pace.inline_write(data.len()) {
            Try::Plain if tree.pace.in_memory() => {
                tree.disk.write(&self.file, offset, data).map(|()| true)
            }
            Try::Plain => {
                let before = tree.env.elapsed();
                let result = tree.disk.write(&self.file, offset, data);
                tree.pace.wrote(tree.env.elapsed().saturating_sub(before));
                result.map(|()| true)
            }
            Try::NoWait | Try::No => Ok(false),
        }
    }
}
