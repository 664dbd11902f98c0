//! Files being written.

use std::os::fd::AsFd as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_model::{StorePath, TransferId};
use rustix::io::Errno;

use super::disk::{Disk, OpenHow, Stat, StatKind};
use super::pace::Try;
use super::{Core, Links, read, walk_error};
use crate::error::{Result, StoreError};
use crate::limits::COPY_BYTES;
use crate::store::{CopyRange, Identity, Publish, Published, ReadFile, StagedFile};

/// A staged file at work. Lives until the last call on it has ended, also one in the pool whose
/// caller is gone.
pub(super) struct Work<D: Disk> {
    core: Arc<Core<D>>,
    pub(super) id: TransferId,
    /// The name in staging.
    pub(super) name: String,
    pub(super) target: StorePath,
    pub(super) staging: Arc<D::Dir>,
    pub(super) file: D::File,
    identity: Identity,
    size: AtomicU64,
    /// Changes of the bytes that have ended.
    changes: AtomicU64,
    /// `changes` when the last good sync began.
    synced: AtomicU64,
    sync_failed: AtomicBool,
    /// Published or discarded.
    pub(super) ended: AtomicBool,
}

struct FsStaged<D: Disk>(Arc<Work<D>>);

/// A new staged file. Blocks.
pub(super) fn stage<D: Disk>(
    core: &Arc<Core<D>>,
    id: TransferId,
    target: StorePath,
) -> Result<Box<dyn StagedFile>> {
    core.check_well()?;
    let (dir, name, staging) = core.parent_and_staging(&target)?;
    if let Some(Stat { kind: StatKind::Directory, .. }) =
        core.look_for_target((&dir, name), Links::Hidden)?
    {
        return Err(StoreError::IsDirectory);
    }
    drop(dir);
    let name = id.to_string();
    let file = core.disk.open_file(&staging, &name, OpenHow::CreateNew)?;
    begin(core, (id, name, target), staging, file)
}

/// A kept staged file. Blocks.
pub(super) fn resume<D: Disk>(
    core: &Arc<Core<D>>,
    id: TransferId,
    target: StorePath,
) -> Result<Box<dyn StagedFile>> {
    core.check_well()?;
    let (_, _, staging) = core.parent_and_staging(&target)?;
    let name = id.to_string();
    let file = core.disk.open_file(&staging, &name, OpenHow::ReadWrite).map_err(walk_error)?;
    begin(core, (id, name, target), staging, file)
}

fn begin<D: Disk>(
    core: &Arc<Core<D>>,
    (id, name, target): (TransferId, String, StorePath),
    staging: Arc<D::Dir>,
    file: D::File,
) -> Result<Box<dyn StagedFile>> {
    let stat = core.disk.stat_file(&file)?;
    if stat.kind != StatKind::File {
        return Err(StoreError::NotFound);
    }
    let work = Arc::new(Work {
        core: Arc::clone(core),
        id,
        name,
        target,
        staging,
        file,
        identity: stat.identity(),
        size: AtomicU64::new(stat.size),
        // What an earlier process wrote may be unsynced: publishing needs a sync in any case.
        changes: AtomicU64::new(1),
        synced: AtomicU64::new(0),
        sync_failed: AtomicBool::new(false),
        ended: AtomicBool::new(false),
    });
    let mut live = core.live.lock();
    if live.get(&id).is_some_and(|other| other.strong_count() > 0) {
        drop(live);
        return Err(StoreError::Unavailable(
            "the last write of this transfer has not ended".to_owned(),
        ));
    }
    live.insert(id, Arc::downgrade(&work));
    drop(live);
    Ok(Box::new(FsStaged(work)))
}

impl<D: Disk> Drop for Work<D> {
    fn drop(&mut self) {
        let mut live = self.core.live.lock();
        if live.get(&self.id).is_some_and(|it| std::ptr::eq(Weak::as_ptr(it), self)) {
            live.remove(&self.id);
        }
    }
}

impl<D: Disk> Work<D> {
    fn check_open(&self) -> Result<()> {
        match self.ended.load(Ordering::Acquire) {
            true => Err(StoreError::Unsupported("a change of a file that was published")),
            false => Ok(()),
        }
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
        match self.sync_failed.load(Ordering::Acquire) {
            true => Err(StoreError::Io("an earlier sync of this file failed".to_owned())),
            false => Ok(()),
        }
    }

    fn wrote(&self, end: u64) {
        self.size.fetch_max(end, Ordering::AcqRel);
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn sync(&self) -> Result<()> {
        self.check_sync_works()?;
        let changes = self.changes.load(Ordering::Acquire);
        let before = self.core.env.elapsed();
        if let Err(errno) = self.core.disk.sync_file(&self.file) {
            self.sync_failed.store(true, Ordering::Release);
            return Err(errno.into());
        }
        self.core.pace.synced(self.core.env.elapsed().saturating_sub(before));
        self.synced.fetch_max(changes, Ordering::AcqRel);
        Ok(())
    }

    fn try_write(&self, offset: u64, data: &[u8]) -> Result<bool, Errno> {
        let core = &*self.core;
        if core.pace.inline_write(data.len()) == Try::NoWait {
            match core.disk.try_write(&self.file, offset, data) {
                Err(Errno::OPNOTSUPP) => core.pace.refused_no_wait(),
                other => return other,
            }
        }
        match core.pace.inline_write(data.len()) {
            Try::Plain if core.pace.in_memory() => {
                core.disk.write(&self.file, offset, data).map(|()| true)
            }
            Try::Plain => {
                let before = core.env.elapsed();
                let result = core.disk.write(&self.file, offset, data);
                core.pace.wrote(core.env.elapsed().saturating_sub(before));
                result.map(|()| true)
            }
            Try::NoWait | Try::No => Ok(false),
        }
    }
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
            .core
            .at_names(move |core| {
                core.disk.write(&work.file, offset, &data)?;
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
        // One of its own, for the source may be closed while the pool still copies.
        let source = source.descriptor().and_then(|source| source.try_clone_to_owned().ok());
        let (Some(source), false) = (source, len == 0) else { return Ok(None) };
        let work = Arc::clone(&self.0);
        self.0
            .core
            .in_pool(move |core| {
                let mut done = 0;
                while range.at + done < end {
                    let left = usize::try_from(end - range.at - done).unwrap_or(usize::MAX);
                    let (from, to) = (range.from + done, range.at + done);
                    match core.disk.copy((source.as_fd(), from), (&work.file, to), left) {
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

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        let work = Arc::clone(&self.0);
        read::read_at(&self.0.core, work, |work: &Work<D>| &work.file, (offset, buf, len)).await
    }

    async fn set_len(&self, size: u64) -> Result<()> {
        self.0.check_open()?;
        let work = Arc::clone(&self.0);
        let end = end_of(size, 0)?;
        self.0
            .core
            .at_names(move |core| {
                core.disk.set_len(&work.file, end)?;
                work.size.store(end, Ordering::Release);
                work.changes.fetch_add(1, Ordering::AcqRel);
                Ok(())
            })
            .await
    }

    async fn sync(&self) -> Result<()> {
        self.0.check_open()?;
        let work = Arc::clone(&self.0);
        self.0.core.at_sync(move |_| work.sync()).await
    }

    async fn publish(&self, how: &Publish) -> Result<Published> {
        let (work, how) = (Arc::clone(&self.0), how.clone());
        self.0.core.at_sync(move |core| core.publish(&work, &how)).await
    }

    async fn discard(&self) -> Result<()> {
        self.0.check_open()?;
        self.0.ended.store(true, Ordering::Release);
        let work = Arc::clone(&self.0);
        self.0
            .core
            .at_names(move |core| match core.disk.unlink(&work.staging, &work.name) {
                Ok(()) | Err(Errno::NOENT) => Ok(()),
                Err(errno) => Err(errno.into()),
            })
            .await
    }
}
