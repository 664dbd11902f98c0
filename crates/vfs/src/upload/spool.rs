//! The spool: where the bytes of an upload lie on the local disk when its client writes in an order
//! that the store cannot take. What the store was sent before stays there; all behind it is put in
//! order at the finish. An upload in order never comes here.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use entrepot_model::StorePath;
use entrepot_storage::StagedFile;

use super::copy::check_zeros;
use super::{Upload, new_digest};
use crate::error::{Result, VfsError};
use crate::limits::{BLOCK_BYTES, SPOOL_BYTES};
use crate::service::Service;
use crate::unbroken::later;

/// Bytes of an upload from `from` on.
pub(super) struct Spool {
    service: Service,
    file: Option<Box<dyn StagedFile>>,
    /// Where it begins: so much went to the store.
    pub(super) from: u64,
    /// Counted towards the limit.
    counted: u64,
}

impl Spool {
    fn file(&self) -> Result<&dyn StagedFile> {
        self.file.as_deref().ok_or(VfsError::Unsupported)
    }

    fn at(&self, offset: u64) -> Result<u64> {
        offset.checked_sub(self.from).ok_or(VfsError::Unsupported)
    }

    /// Counts up to `end` bytes of it.
    fn grow(&mut self, end: u64) -> Result<()> {
        let more = end.saturating_sub(self.counted);
        let all = &self.service.0.meters.spool_bytes;
        if more > 0 {
            let before = all.fetch_add(more, Ordering::Relaxed);
            self.counted += more;
            if before.saturating_add(more) > SPOOL_BYTES {
                return Err(VfsError::busy("too much is written out of order at a time"));
            }
        }
        Ok(())
    }

    async fn write(&mut self, offset: u64, data: Bytes) -> Result<()> {
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
        let (service, counted, file) = (self.service.clone(), self.counted, self.file.take());
        later(async move {
            if let Some(file) = file
                && let Err(error) = file.discard().await
            {
                tracing::warn!(%error, "a spooled file cannot be dropped");
            }
            service.0.meters.spool_bytes.fetch_sub(counted, Ordering::Relaxed);
        });
    }
}

impl Upload {
    /// What is written will be read back before the finish, or not in order: where the store can
    /// do neither, it goes to the local disk from now on.
    ///
    /// # Errors
    /// There is no room for it: the upload is refused from then on.
    pub async fn expect_any_order(&mut self) -> Result<()> {
        if self.order.is_none() || self.spool.is_some() {
            return Ok(());
        }
        match self.begin_spool().await {
            // Where nothing is spooled, what comes in order is taken all the same.
            Ok(()) | Err(VfsError::Unsupported) => Ok(()),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// From now on bytes go to the local disk. What the store has in memory comes back.
    pub(super) async fn begin_spool(&mut self) -> Result<()> {
        let service = self.vfs.0.service.clone();
        let (Some(store), Some(order)) = (service.0.spool.clone(), &mut self.order) else {
            return Err(VfsError::Unsupported);
        };
        let name: StorePath = self.moving.id.to_string().parse()?;
        let file = store.stage(self.moving.id, &name).await?;
        let (waiting, sent) = (order.drain(), self.ranges.contiguous());
        service.0.meters.spool_begun();
        let mut spool = Spool { service, file: Some(file), from: sent, counted: 0 };
        self.take_back(&mut spool, sent).await?;
        self.spool = Some(spool);
        self.spool_waiting(waiting).await
    }

    async fn take_back(&mut self, spool: &mut Spool, sent: u64) -> Result<()> {
        let Some(kept) = self.staged.kept().filter(|kept| *kept < sent) else { return Ok(()) };
        let hashed = self.checkpoint.as_ref().map_or(0, |digest| digest.length());
        if hashed != kept {
            return Ok(());
        }
        spool.from = kept;
        let mut at = kept;
        while at < sent {
            let want = usize::try_from(sent - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            let block = self.staged.read_at(at, BytesMut::with_capacity(want), want).await?;
            let count = block.len() as u64;
            if count == 0 {
                return Err(VfsError::Io { problem: "staged bytes are missing".to_owned() });
            }
            spool.write(at, block.freeze()).await?;
            at += count;
        }
        self.staged.set_len(kept).await?;
        self.digest = match &self.checkpoint {
            Some(digest) => (**digest).clone(),
            None => new_digest(&self.place),
        };
        Ok(())
    }

    async fn spool_waiting(&mut self, waiting: BTreeMap<u64, Bytes>) -> Result<()> {
        for (offset, data) in waiting {
            self.spool_write(offset, data).await?;
        }
        Ok(())
    }

    /// Writes to the spool; what is before it was sent and cannot change.
    pub(super) async fn spool_write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = offset + data.len() as u64;
        let Some(spool) = &mut self.spool else { return Err(VfsError::Unsupported) };
        match spool.write(offset, data).await {
            Ok(()) => self.note_written(offset, end),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Sends all that is spooled, in order, with what nobody wrote between.
    pub(super) async fn send_spooled(&mut self) -> Result<()> {
        let Some(from) = self.spool.as_ref().map(|spool| spool.from) else { return Ok(()) };
        let base = self.base.as_ref().map_or(0, |base| base.size);
        let holes = self.ranges.holes(self.size);
        check_zeros(holes.iter().map(|(start, end)| end.saturating_sub(base.max(*start))).sum())?;
        let mut at = from;
        while at < self.size {
            let want = usize::try_from(self.size - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            let block = self.read_at(at, BytesMut::with_capacity(want), want).await?.freeze();
            if block.is_empty() {
                return Err(VfsError::Io { problem: "spooled bytes are missing".to_owned() });
            }
            at += block.len() as u64;
            self.staged.write_at(at - block.len() as u64, block.clone()).await?;
            self.hash_in_order(&block);
        }
        self.ranges.fill(self.size);
        Ok(())
    }

    /// Reads what was written: from the spool, else from the store as far as it can.
    pub(super) async fn read_written(
        &mut self,
        at: u64,
        buf: BytesMut,
        want: usize,
    ) -> Result<BytesMut> {
        match &self.spool {
            Some(spool) if at >= spool.from => spool.read(at, buf, want).await,
            Some(spool) => {
                let most = usize::try_from(spool.from - at).unwrap_or(usize::MAX);
                Ok(self.staged.read_at(at, buf, want.min(most)).await?)
            }
            None => Ok(self.staged.read_at(at, buf, want).await?),
        }
    }

    /// Cuts what is on its way in order; only what was sent stays as it is.
    pub(super) async fn cut_written(&mut self, size: u64) -> Result<()> {
        if self.order.is_some() && self.spool.is_none() {
            self.begin_spool().await?;
        }
        match &self.spool {
            Some(spool) => spool.cut(size).await,
            None => Ok(self.staged.set_len(size).await?),
        }
    }

    /// A place that cannot be taken in order.
    pub(super) async fn write_elsewhere(&mut self, offset: u64, data: Bytes) -> Result<()> {
        if let Err(error) = self.begin_spool().await {
            return Err(self.refuse(error));
        }
        self.spool_write(offset, data).await
    }
}
