//! Bytes of another file, copied where they lie if the store can, else read and written.

use bytes::BytesMut;
use entrepot_storage::{CopyRange, ReadFile};

use super::Upload;
use super::layout::Layout;
use super::start::Base;
use crate::download::Download;
use crate::error::{Result, VfsError};
use crate::limits::BLOCK_BYTES;

impl Upload {
    /// Copies `len` bytes (`None`: all) of a file from `from` on to `at`; gives the number. Nothing
    /// counts as sent. When the future is dropped what was copied stays written.
    ///
    /// # Errors
    /// As [`Upload::write_at`], or the source cannot be read: the upload is refused from then on.
    pub async fn copy_from(
        &mut self,
        source: &Download,
        from: u64,
        len: Option<u64>,
        at: u64,
    ) -> Result<u64> {
        self.touch();
        let copied = self.copy_pieces(source, from, len, at).await;
        copied.map_err(|error| self.refuse(error))
    }

    async fn copy_pieces(
        &mut self,
        source: &Download,
        from: u64,
        len: Option<u64>,
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

    /// Copies the first piece of a range, at most all of it; 0 at the end of the source.
    ///
    /// # Errors
    /// As [`Upload::copy_from`].
    pub(crate) async fn copy_range(
        &mut self,
        source: &dyn ReadFile,
        range: CopyRange,
    ) -> Result<u64> {
        self.touch();
        let copied = self.copy_piece(source, range).await;
        copied.map_err(|error| self.refuse(error))
    }

    /// Copies the first piece of a range; 0 at the end of the source.
    pub(super) async fn copy_piece(
        &mut self,
        source: &dyn ReadFile,
        range: CopyRange,
    ) -> Result<u64> {
        self.may_write(range.at, usize::try_from(range.len).unwrap_or(usize::MAX))?;
        if let Layout::RandomAccess(_) = self.layout {
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
        self.write_next(range.at, block.freeze()).await?;
        Ok(count)
    }

    /// True for the first write of an upload that goes on behind a part of what it is laid over,
    /// where a store takes bytes only in order: that part must go first.
    pub(super) fn continues_base(&self, offset: u64) -> bool {
        let Layout::InOrder(layout) = &self.layout else { return false };
        let nothing_yet = self.ranges.end() == 0 && layout.order.is_settled();
        nothing_yet && offset > 0 && self.base.as_ref().is_some_and(|base| base.size >= offset)
    }

    /// Writes what lies before `end` and nobody wrote, in order: from the base, else zeros.
    pub(super) async fn advance_to(&mut self, end: u64) -> Result<()> {
        let base = self.base.take();
        let result = self.advance_over(base.as_ref(), end).await;
        self.base = base;
        result
    }

    async fn advance_over(&mut self, base: Option<&Base>, end: u64) -> Result<()> {
        loop {
            let at = self.ranges.contiguous();
            if at >= end {
                return Ok(());
            }
            match base {
                Some(base) if at < base.size => {
                    let range = CopyRange { from: at, at, len: end.min(base.size) - at };
                    if self.copy_piece(&*base.file, range).await? == 0 {
                        return Err(VfsError::Conflict);
                    }
                }
                _ => {
                    let len = usize::try_from(end - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
                    self.write_next(at, vec![0; len].into()).await?;
                }
            }
        }
    }
}
