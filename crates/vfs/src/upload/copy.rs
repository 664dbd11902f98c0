//! Bytes of another file, copied where they lie if the store can, else read and written.

use bytes::BytesMut;
use entrepot_storage::{CopyRange, ReadFile};

use super::Upload;
use crate::download::Download;
use crate::error::{Result, VfsError};
use crate::limits::BLOCK_BYTES;

impl Upload {
    /// Copies `len` bytes (`None`: all) of a file from `from` on to `at`; gives the number. Nothing
    /// counts as sent. When the future is dropped what was copied stays written.
    ///
    /// # Errors
    /// As [`Upload::write_at`], or the source cannot be read.
    pub async fn copy_from(
        &mut self,
        source: &Download,
        (from, len): (u64, Option<u64>),
        at: u64,
    ) -> Result<u64> {
        let size = source.attributes().size.saturating_sub(from);
        let len = len.map_or(size, |len| len.min(size));
        let mut done = 0;
        while done < len {
            source.check()?;
            let range =
                CopyRange { from: from + done, at: at.saturating_add(done), len: len - done };
            match self.copy_piece(source.file(), range).await? {
                0 => return Err(VfsError::Conflict),
                count => done += count,
            }
        }
        Ok(done)
    }

    /// Copies the first piece of a range; 0 at the end of the source.
    pub(super) async fn copy_piece(
        &mut self,
        source: &dyn ReadFile,
        range: CopyRange,
    ) -> Result<u64> {
        self.may_write(range.at, usize::try_from(range.len).unwrap_or(usize::MAX))?;
        if self.order.is_none() {
            match self.staged.copy_in(source, range).await {
                Ok(Some(count)) => {
                    self.wrote_unseen(range.at, range.at + count)?;
                    return Ok(count);
                }
                Ok(None) => {}
                Err(error) => return Err(self.refuse(error.into())),
            }
        }
        let want = usize::try_from(range.len).unwrap_or(usize::MAX).min(BLOCK_BYTES);
        let block = source.read_at(range.from, BytesMut::with_capacity(want), want).await?;
        let count = block.len() as u64;
        self.write_at(range.at, block.freeze()).await?;
        Ok(count)
    }
}
