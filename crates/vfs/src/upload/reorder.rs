//! Writes that do not come in the order that their store wants: a few wait in memory, more go to
//! the spool, and the finish puts all in order.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use entrepot_nouns::StorePath;
use entrepot_storage::StoreError;

use super::Upload;
use super::layout::{Layout, Spooled};
use super::order::{Early, Order};
use super::spool::{Spool, SpoolFile};
use crate::error::{Result, VfsError};
use crate::limits::{BLOCK_BYTES, HOLE_BYTES, MEMORY_WAIT};

impl Upload {
    /// Takes a write where the store takes bytes only in order.
    pub(super) async fn write_in_order(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let memory = self.vfs.0.shares.memory.clone();
        let Some(order) = self.order() else { return Err(VfsError::Unsupported) };
        if let Err(data) = order.take(offset, data, &memory) {
            // It overwrites what was sent, lies too far ahead, or may not wait in memory.
            if let Err(error) = self.begin_spool().await {
                return Err(self.refuse(error));
            }
            return self.spool_write(offset, data).await;
        }
        while let Some((offset, data)) = self.order().and_then(Order::next) {
            self.store_next(offset, data).await?;
        }
        Ok(())
    }

    /// Stores what is next. Where there is no memory to make a part of an object in, the local disk
    /// takes it, and all that follows; the finish then waits for memory.
    async fn store_next(&mut self, offset: u64, data: Bytes) -> Result<()> {
        match self.staged.write_at(offset, data.clone()).await {
            Ok(()) => self.wrote(offset, &data),
            Err(StoreError::NoMemory)
                if self.record.is_none() && self.vfs.data_plane().stores.spool().is_some() =>
            {
                if let Err(error) = self.begin_spool().await {
                    return Err(self.refuse(error));
                }
                self.spool_write(offset, data).await
            }
            Err(StoreError::NoMemory) => {
                let written = self.write_when_free(offset, data.clone()).await;
                written.map_err(|error| self.refuse(error))?;
                self.wrote(offset, &data)
            }
            Err(error) => Err(self.refuse(error.into())),
        }
    }

    /// Writes to the store, and waits for memory if need be.
    async fn write_when_free(&self, offset: u64, data: Bytes) -> Result<()> {
        let memory = &self.vfs.0.shares.memory;
        let written = async {
            loop {
                // Asked for before the try, so that nothing is given back unnoticed between.
                let freed = memory.freed();
                match self.staged.write_at(offset, data.clone()).await {
                    Err(StoreError::NoMemory) => freed.await,
                    written => return written,
                }
            }
        };
        match tokio::time::timeout(MEMORY_WAIT, written).await {
            Ok(written) => Ok(written?),
            Err(_) => Err(StoreError::NoMemory.into()),
        }
    }

    fn order(&mut self) -> Option<&mut Order> {
        match &mut self.layout {
            Layout::InOrder(layout) => Some(&mut layout.order),
            Layout::RandomAccess(_) | Layout::Spooled(_) => None,
        }
    }

    /// Prepares for reads before the finish, and for writes in any order: where the store can do
    /// neither, bytes go to the local disk from now on.
    ///
    /// # Errors
    /// There is no room for it: the upload is refused from then on.
    pub async fn expect_any_order(&mut self) -> Result<()> {
        if !matches!(self.layout, Layout::InOrder(_)) {
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
        let plane = self.vfs.data_plane();
        let (Some(store), Layout::InOrder(layout)) = (plane.stores.spool(), &mut self.layout)
        else {
            return Err(VfsError::Unsupported);
        };
        let name: StorePath = self.moving.id.to_string().parse()?;
        let open = self.vfs.0.shares.open_file()?;
        let file = SpoolFile { file: store.stage(self.moving.id, &name).await?, open };
        let (waiting, sent) = (layout.order.drain(), self.ranges.contiguous());
        let mut digest = layout.digest.clone();
        plane.meters.spool_begun();
        let mut spool = Spool::new(Arc::clone(&plane.meters), file, sent);
        if let Some(kept) = self.staged.kept().filter(|kept| *kept < sent)
            && kept == digest.checkpoint_bytes()
        {
            spool.take_back(&*self.staged, kept, sent).await?;
            digest.back_to_checkpoint(self.place.sha256());
        }
        self.layout = Layout::Spooled(Spooled { spool, digest });
        for (offset, Early { data, .. }) in waiting {
            self.spool_write(offset, data).await?;
        }
        Ok(())
    }

    /// Writes to the spool; what is before it was sent and cannot change.
    pub(super) async fn spool_write(&mut self, offset: u64, data: Bytes) -> Result<()> {
        let end = offset + data.len() as u64;
        let Layout::Spooled(layout) = &mut self.layout else { return Err(VfsError::Unsupported) };
        match layout.spool.write(offset, data).await {
            Ok(()) => self.note_written(offset, end),
            Err(error) => Err(self.refuse(error)),
        }
    }

    /// Reads what was written: from the spool, else from the store as far as it can.
    pub(super) async fn read_written(
        &mut self,
        at: u64,
        buf: BytesMut,
        want: usize,
    ) -> Result<BytesMut> {
        let mut want = want;
        if let Layout::Spooled(Spooled { spool, .. }) = &self.layout {
            if at >= spool.from {
                return spool.read(at, buf, want).await;
            }
            want = want.min(usize::try_from(spool.from - at).unwrap_or(usize::MAX));
        }
        Ok(self.staged.read_at(at, buf, want).await?)
    }

    /// Cuts what was written, as far as it was not sent in order.
    pub(super) async fn cut_written(&mut self, size: u64) -> Result<()> {
        if let Layout::InOrder(_) = self.layout {
            self.begin_spool().await?;
        }
        match &self.layout {
            Layout::Spooled(layout) => layout.spool.cut(size).await,
            Layout::RandomAccess(_) | Layout::InOrder(_) => Ok(self.staged.set_len(size).await?),
        }
    }

    /// Before the finish: sends what waits in memory, with the gaps before it filled.
    pub(super) async fn settle_order(&mut self) -> Result<()> {
        while let Some(start) = self.order().and_then(|order| order.first_waiting()) {
            let from_base = self.base.as_ref().map_or(0, |base| base.size);
            check_zeros(start.saturating_sub(self.ranges.contiguous().max(from_base)))?;
            self.advance_to(start).await?;
        }
        Ok(())
    }

    /// At the finish: sends all that is spooled, in order, with the gaps in it filled.
    pub(super) async fn send_spooled(&mut self) -> Result<()> {
        let Layout::Spooled(Spooled { spool, .. }) = &self.layout else { return Ok(()) };
        let mut at = spool.from;
        check_zeros(self.unwritten_zeros())?;
        while at < self.size {
            let want = usize::try_from(self.size - at).unwrap_or(usize::MAX).min(BLOCK_BYTES);
            let block = self.read_at(at, BytesMut::with_capacity(want), want).await?.freeze();
            if block.is_empty() {
                return Err(VfsError::Io { problem: "spooled bytes are missing".to_owned() });
            }
            self.write_when_free(at, block.clone()).await?;
            if let Layout::Spooled(layout) = &mut self.layout {
                layout.digest.wrote(at, &block, &*self.staged);
            }
            at += block.len() as u64;
        }
        self.ranges.fill(self.size);
        Ok(())
    }

    /// Bytes of the file as it stands that were not written and lie over nothing.
    pub(super) fn unwritten_zeros(&self) -> u64 {
        let base = self.base.as_ref().map_or(0, |base| base.size);
        let holes = self.ranges.holes(self.size);
        holes.iter().map(|(start, end)| end.saturating_sub(base.max(*start))).sum()
    }
}

/// Fails if so many zeros would have to be hashed that nobody wrote.
pub(super) fn check_zeros(count: u64) -> Result<()> {
    if count <= HOLE_BYTES {
        return Ok(());
    }
    Err(VfsError::Quota { what: "bytes that nobody wrote", limit: HOLE_BYTES })
}
