//! A file on its way into the database: in memory until the publish, which is one transaction.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};

use super::database::Files;
use super::row::{Change, check_size};
use crate::error::{Result, StoreError};
use crate::store::{CopyRange, Identity, Publish, Published, ReadFile, StagedFile};

pub(super) struct SqlStaged {
    files: Arc<Files>,
    inner: Box<dyn StagedFile>,
    name: String,
    synced: AtomicBool,
    ended: AtomicBool,
}

impl SqlStaged {
    pub(super) fn new(files: Arc<Files>, inner: Box<dyn StagedFile>, name: String) -> Self {
        let (synced, ended) = (AtomicBool::new(false), AtomicBool::new(false));
        SqlStaged { files, inner, name, synced, ended }
    }

    /// Before a change of what is staged.
    fn begin(&self, offset: u64, len: usize) -> Result<()> {
        if self.ended.load(Ordering::SeqCst) {
            return Err(StoreError::Io("the staged file is published or discarded".to_owned()));
        }
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        check_size(offset.saturating_add(len))?;
        self.synced.store(false, Ordering::SeqCst);
        Ok(())
    }
}

#[async_trait]
impl StagedFile for SqlStaged {
    fn identity(&self) -> Option<Identity> {
        None
    }

    fn size(&self) -> u64 {
        self.inner.size()
    }

    fn try_write_at(&self, offset: u64, data: &[u8]) -> Result<bool> {
        self.begin(offset, data.len())?;
        self.inner.try_write_at(offset, data)
    }

    async fn write_at(&self, offset: u64, data: Bytes) -> Result<()> {
        self.begin(offset, data.len())?;
        self.inner.write_at(offset, data).await
    }

    async fn copy_in(&self, source: &dyn ReadFile, range: CopyRange) -> Result<Option<u64>> {
        let len = usize::try_from(range.len).unwrap_or(usize::MAX);
        self.begin(range.at, len)?;
        self.inner.copy_in(source, range).await
    }

    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut> {
        self.inner.read_at(offset, buf, len).await
    }

    async fn set_len(&self, size: u64) -> Result<()> {
        self.begin(size, 0)?;
        self.inner.set_len(size).await
    }

    /// The bytes become durable with the transaction that publishes them.
    async fn sync(&self) -> Result<()> {
        self.begin(0, 0)?;
        self.inner.sync().await?;
        self.synced.store(true, Ordering::SeqCst);
        Ok(())
    }

    async fn publish(&self, how: &Publish) -> Result<Published> {
        if self.ended.load(Ordering::SeqCst) || !self.synced.load(Ordering::SeqCst) {
            return Err(StoreError::Io("the staged file is not synced".to_owned()));
        }
        if self.size() != how.size {
            let why = format!("{} bytes were written, {} announced", self.size(), how.size);
            return Err(StoreError::Io(why));
        }
        let len = usize::try_from(how.size).unwrap_or(usize::MAX);
        let content = self.inner.read_at(0, BytesMut::new(), len).await?.freeze();
        let change = Change::Put {
            name: self.name.clone(),
            content,
            modified: how.modified.unwrap_or_else(|| self.files.env.now()),
            existing: how.existing,
        };
        let changed = self.files.database.change(change).await?;
        self.ended.store(true, Ordering::SeqCst);
        // It is only memory that would be given back later.
        if let Err(error) = self.inner.discard().await {
            tracing::debug!(%error, "what was staged for a database stays a while");
        }
        let row = changed.row.ok_or(StoreError::NotFound)?;
        Ok(Published { displaced: changed.displaced, identity: None, meta: row.meta() })
    }

    async fn discard(&self) -> Result<()> {
        if self.ended.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        self.inner.discard().await
    }
}
