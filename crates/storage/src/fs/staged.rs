//! Files being written.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_nouns::{StorePath, TransferId};
use rustix::io::Errno;

use super::disk::{DirEntry, Disk, OpenHow, Stat, StatKind};
use super::errors::walk_error;
use super::tree::{Links, Tree};
use super::work::{Work, staged_name};
use crate::error::{Result, StoreError};
use crate::limits::COPY_BYTES;
use crate::store::{
    CopyRange, Identity, Publish, Published, ReadFile, StagedFile, TakenBack, is_past_all,
};

struct FsStaged<D: Disk>(Arc<Work<D>>);

/// A new staged file. Blocks.
pub(super) fn stage<D: Disk>(
    tree: &Arc<Tree<D>>,
    id: TransferId,
    target: StorePath,
) -> Result<Box<dyn StagedFile>> {
    tree.check_well()?;
    let (dir, name, staging) = tree.parent_and_staging(&target)?;
    let there = tree.stat_target(DirEntry::new(&*dir, name), Links::Hidden)?;
    if let Some(Stat { kind: StatKind::Directory, .. }) = there {
        return Err(StoreError::IsDirectory);
    }
    drop(dir);
    let file = tree.disk.open_file(&staging, &staged_name(id), OpenHow::CreateNew)?;
    let work = Work::begin(tree, id, target, staging, file)?;
    work.name_was_taken.store(there.is_some(), Ordering::Relaxed);
    Ok(Box::new(FsStaged(work)))
}

/// A kept staged file. Blocks.
pub(super) fn resume<D: Disk>(
    tree: &Arc<Tree<D>>,
    id: TransferId,
    target: StorePath,
) -> Result<Box<dyn StagedFile>> {
    tree.check_well()?;
    let (_, _, staging) = tree.parent_and_staging(&target)?;
    let opened = tree.disk.open_file(&staging, &staged_name(id), OpenHow::ReadWrite);
    let file = opened.map_err(walk_error)?;
    Ok(Box::new(FsStaged(Work::begin(tree, id, target, staging, file)?)))
}

fn end_of(offset: u64, len: usize) -> Result<u64> {
    offset
        .checked_add(len as u64)
        .filter(|end| i64::try_from(*end).is_ok())
        .ok_or_else(|| StoreError::Denied("the file is larger than may be".to_owned()))
}

#[async_trait]
impl<D: Disk> StagedFile for FsStaged<D> {
    fn identity(&self) -> Option<Identity> {
        Some(self.0.identity.clone())
    }

    fn size(&self) -> u64 {
        self.0.size.load(Ordering::Acquire)
    }

    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool> {
        self.0.check_open()?;
        let end = end_of(offset, data.len())?;
        let done = self.0.try_write(offset, data)?;
        if done && !data.is_empty() {
            self.0.wrote(end);
        }
        Ok(done)
    }

    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        self.0.check_open()?;
        let end = end_of(offset, data.len())?;
        if data.is_empty() {
            return Ok(());
        }
        let work = Arc::clone(&self.0);
        self.0
            .tree
            .at_names(move |tree| {
                tree.disk.write(&work.file, offset, &data)?;
                work.wrote(end);
                Ok(())
            })
            .await
    }

    async fn copy_in(&self, source: &dyn ReadFile, range: CopyRange) -> Result<Option<u64>> {
        self.0.check_open()?;
        let len = range.len.min(COPY_BYTES);
        end_of(range.from, usize::try_from(len).unwrap_or(usize::MAX))?;
        let end = end_of(range.at, usize::try_from(len).unwrap_or(usize::MAX))?;
        // Shared, for the source may be closed while the pool still copies.
        let (Some(source), false) = (source.kernel_file(), len == 0) else { return Ok(None) };
        let work = Arc::clone(&self.0);
        self.0
            .tree
            .in_pool(move |tree| {
                let mut done = 0;
                while range.at + done < end {
                    let (from, at) = (range.from + done, range.at + done);
                    let left = CopyRange { from, at, len: end - at };
                    match tree.disk.copy(source.descriptor.as_fd(), &work.file, left) {
                        Ok(0) => break,
                        Ok(count) => done += count as u64,
                        Err(
                            Errno::XDEV
                            | Errno::INVAL
                            | Errno::OPNOTSUPP
                            | Errno::NOSYS
                            | Errno::BADF,
                        ) if done == 0 => return Ok(None),
                        Err(errno) => return Err(errno.into()),
                    }
                }
                if done > 0 {
                    work.wrote(range.at + done);
                }
                Ok(Some(done))
            })
            .await
    }

    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        if is_past_all(offset) {
            return Ok(buf);
        }
        let work = Arc::clone(&self.0);
        self.0
            .tree
            .at_names(move |tree| {
                tree.disk.read(&work.file, offset, &mut buf, len)?;
                Ok(buf)
            })
            .await
    }

    async fn set_len(&self, size: u64) -> Result<()> {
        self.0.check_open()?;
        let work = Arc::clone(&self.0);
        let end = end_of(size, 0)?;
        self.0
            .tree
            .at_names(move |tree| {
                tree.disk.set_len(&work.file, end)?;
                work.size.store(end, Ordering::Release);
                work.changes.fetch_add(1, Ordering::AcqRel);
                Ok(())
            })
            .await
    }

    async fn sync(&self) -> Result<()> {
        self.0.check_open()?;
        let work = Arc::clone(&self.0);
        self.0.tree.at_sync(move |_| work.sync()).await
    }

    async fn sync_name(&self) -> Result<()> {
        self.0.check_open()?;
        let work = Arc::clone(&self.0);
        self.0.tree.at_sync(move |tree| Ok(tree.sync_dir(&work.staging)?)).await
    }

    async fn publish(&self, how: &Publish) -> Result<Published> {
        let (work, how) = (Arc::clone(&self.0), how.clone());
        let publish = move |tree: &Arc<Tree<D>>| {
            let published = tree.publish(&work, &how)?;
            tree.settle(&work);
            Ok(published)
        };
        self.0.tree.at_sync(publish).await
    }

    async fn publish_undoably(&self, how: &Publish) -> Result<Published> {
        let (work, how) = (Arc::clone(&self.0), how.clone());
        self.0.tree.at_sync(move |tree| tree.publish(&work, &how)).await
    }

    async fn settle(&self) {
        if !self.0.keeps_displaced() {
            return;
        }
        let work = Arc::clone(&self.0);
        let settle = move |tree: &Arc<Tree<D>>| {
            tree.settle(&work);
            Ok(())
        };
        if let Err(error) = self.0.tree.at_sync(settle).await {
            tracing::warn!(%error, "what had a name before is left to be swept");
        }
    }

    async fn take_back(&self) -> Result<TakenBack> {
        let work = Arc::clone(&self.0);
        self.0.tree.at_sync(move |tree| tree.take_back(&work)).await
    }

    async fn discard(&self) -> Result<()> {
        self.0.check_open()?;
        self.0.ended.store(true, Ordering::Release);
        let work = Arc::clone(&self.0);
        self.0
            .tree
            .at_names(move |tree| match tree.disk.unlink(&work.staging, &work.name) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno.into()),
            })
            .await
    }
}
