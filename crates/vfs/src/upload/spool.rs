//! The spool: where the bytes of an upload lie on the local disk when its client writes in an order
//! that the store cannot take. What the store was sent before stays there; all behind it is put in
//! order at the finish. An upload in order never needs one.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use entrepot_storage::StagedFile;
use entrepot_storage::budget::Permit;

use crate::error::{Result, VfsError};
use crate::limits::{BLOCK_BYTES, SPOOL_BYTES};
use crate::meters::Meters;
use crate::unbroken::later;

/// A file of the spool, and the descriptor that it counts for.
pub(super) struct SpoolFile {
    pub(super) file: Box<dyn StagedFile>,
    pub(super) open: Permit,
}

/// The bytes of an upload from `from` on.
pub(super) struct Spool {
    meters: Arc<Meters>,
    file: Option<Box<dyn StagedFile>>,
    open: Option<Permit>,
    /// Offset in the upload of its first byte: all before was sent to the store.
    pub(super) from: u64,
    /// Bytes counted towards the limit of all spools.
    counted: u64,
}

impl Spool {
    /// Goes on where the store has `from` bytes.
    pub(super) fn new(meters: Arc<Meters>, file: SpoolFile, from: u64) -> Spool {
        let SpoolFile { file, open } = file;
        Spool { meters, file: Some(file), open: Some(open), from, counted: 0 }
    }

    /// Takes back the bytes from `kept` to `sent` that the store would not keep, and that it has in
    /// memory still.
    pub(super) async fn take_back(
        &mut self,
        staged: &dyn StagedFile,
        kept: u64,
        sent: u64,
    ) -> Result<()> {
        self.from = kept;
        let mut at = kept;
        while at < sent {
            let want = usize::try_from(sent - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            let block = staged.read_at(at, BytesMut::with_capacity(want), want).await?;
            let count = block.len() as u64;
            if count == 0 {
                return Err(VfsError::Io { problem: "staged bytes are missing".to_owned() });
            }
            self.write(at, block.freeze()).await?;
            at += count;
        }
        Ok(staged.set_len(kept).await?)
    }

    fn file(&self) -> Result<&dyn StagedFile> {
        self.file.as_deref().ok_or(VfsError::Unsupported)
    }

    fn at(&self, offset: u64) -> Result<u64> {
        offset.checked_sub(self.from).ok_or(VfsError::Unsupported)
    }

    /// Counts up to `end` bytes of it.
    fn grow(&mut self, end: u64) -> Result<()> {
        let more = end.saturating_sub(self.counted);
        let all = &self.meters.spool_bytes;
        if more > 0 {
            let before = all.fetch_add(more, Ordering::Relaxed);
            self.counted += more;
            if before.saturating_add(more) > SPOOL_BYTES {
                return Err(VfsError::busy("too much is written out of order at a time"));
            }
        }
        Ok(())
    }

    pub(super) async fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let at = self.at(offset)?;
        self.grow(at.saturating_add(data.len() as u64))?;
        Ok(self.file()?.write_at(at, data).await?)
    }

    pub(super) async fn read(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        Ok(self.file()?.read_at(self.at(offset)?, buf, len).await?)
    }

    pub(super) async fn cut(&self, size: u64) -> Result<()> {
        Ok(self.file()?.set_len(self.at(size)?).await?)
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        let (meters, counted, file) = (Arc::clone(&self.meters), self.counted, self.file.take());
        let open = self.open.take();
        later(async move {
            if let Some(file) = file
                && let Err(error) = file.discard().await
            {
                tracing::warn!(%error, "a spooled file cannot be dropped");
            }
            meters.spool_bytes.fetch_sub(counted, Ordering::Relaxed);
            drop(open);
        });
    }
}
