//! Files opened to read.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_nouns::StorePath;
use rustix::io::Errno;

use super::disk::{Disk, OpenHow};
use super::errors::walk_error;
use super::tree::Tree;
use crate::error::{Result, StoreError};
use crate::store::{EntryKind, KernelFile, Meta, ReadFile, is_past_all};

struct FsRead<D: Disk> {
    tree: Arc<Tree<D>>,
    file: Arc<D::File>,
    meta: Meta,
}

/// Opens the file at `path`. Blocks.
pub(super) fn open<D: Disk>(tree: &Arc<Tree<D>>, path: &StorePath) -> Result<Box<dyn ReadFile>> {
    let opened = tree.disk.open_file(tree.disk.root(), path.as_str(), OpenHow::Read);
    let file = opened.map_err(walk_error)?;
    let stat = tree.disk.stat_file(&file)?;
    let meta = stat.meta().ok_or(StoreError::NotFound)?;
    if meta.kind == EntryKind::Directory {
        return Err(StoreError::IsDirectory);
    }
    Ok(Box::new(FsRead { tree: Arc::clone(tree), file: Arc::new(file), meta }))
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
        match self.tree.disk.try_read(&self.file, offset, buf) {
            Ok(count) => Ok(count),
            // The file system cannot tell whether it would wait: ask the pool.
            Err(Errno::OPNOTSUPP) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    fn kernel_file(&self) -> Option<KernelFile> {
        let in_memory = self.tree.pace.in_memory();
        D::descriptor(&self.file).map(|descriptor| KernelFile { descriptor, in_memory })
    }

    async fn read_at(&self, offset: u64, mut buf: BytesMut, len: usize) -> Result<BytesMut> {
        if is_past_all(offset) {
            return Ok(buf);
        }
        let file = Arc::clone(&self.file);
        self.tree
            .at_names(move |tree| {
                tree.disk.read(&file, offset, &mut buf, len)?;
                Ok(buf)
            })
            .await
    }
}
