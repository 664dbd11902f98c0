//! Files opened to read.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_model::StorePath;
use rustix::io::Errno;

use super::disk::{Disk, OpenHow};
use super::{Core, meta_of, walk_error};
use crate::error::{Result, StoreError};
use crate::store::{EntryKind, Meta, ReadFile, is_past_all};

struct FsRead<D: Disk> {
    core: Arc<Core<D>>,
    file: Arc<D::File>,
    meta: Meta,
}

/// Opens the file at `path`. Blocks.
pub(super) fn open<D: Disk>(core: &Arc<Core<D>>, path: &StorePath) -> Result<Box<dyn ReadFile>> {
    let opened = core.disk.open_file(core.disk.root(), path.as_str(), OpenHow::Read);
    let file = opened.map_err(walk_error)?;
    let stat = core.disk.stat_file(&file)?;
    let meta = meta_of(&stat).ok_or(StoreError::NotFound)?;
    if meta.kind == EntryKind::Directory {
        return Err(StoreError::IsDirectory);
    }
    Ok(Box::new(FsRead { core: Arc::clone(core), file: Arc::new(file), meta }))
}

/// Reads inline in memory, else in the pool.
pub(super) async fn read_at<D: Disk, H: Send + Sync + 'static>(
    core: &Arc<Core<D>>,
    handle: Arc<H>,
    file_of: impl Fn(&H) -> &D::File + Send + 'static,
    (offset, mut buf, len): (u64, BytesMut, usize),
) -> Result<BytesMut> {
    if is_past_all(offset) {
        return Ok(buf);
    }
    core.at_names(move |core| {
        core.disk.read(file_of(&handle), offset, &mut buf, len)?;
        Ok(buf)
    })
    .await
}

#[async_trait]
impl<D: Disk> ReadFile for FsRead<D> {
    fn meta(&self) -> &Meta {
        &self.meta
    }

    fn try_read_at(&self, offset: u64, buf: &mut [u8]) -> Result<Option<usize>> {
        if is_past_all(offset) {
            return Ok(Some(0));
        }
        match self.core.disk.try_read(&self.file, offset, buf) {
            Ok(count) => Ok(count),
            // The file system cannot tell whether it would wait: ask the pool.
            Err(Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        D::descriptor(&self.file)
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        let file = Arc::clone(&self.file);
        read_at(&self.core, file, |file| file, (offset, buf, len)).await
    }
}
