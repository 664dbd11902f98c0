//! Bytes that continue an upload where it stands.

use std::sync::Arc;

use bytes::Bytes;
use tokio_util::sync::CancellationToken;

use super::checksum::Checksum;
use super::handle::ResumableUpload;
use super::registry::WriterGuard;
use super::status::ResumableStatus;
use super::writer::{Begin, Writer, Written, acknowledge};
use crate::error::{Result, VfsError};
use crate::limits;
use crate::unbroken::{later, unbroken};
use crate::upload::may_begin;
use crate::uploaded::Uploaded;

/// One request that appends to an upload. Dropping it keeps what came, unless the request has a
/// checksum that cannot be known any more.
pub struct Append {
    upload: ResumableUpload,
    writer: Option<Writer>,
    acknowledged: u64,
    guard: Option<WriterGuard>,
}

impl ResumableUpload {
    /// Goes on at `offset`, which must be where the upload stands. `checksum` is what the bytes of
    /// this request must be: only then do they count.
    ///
    /// # Errors
    /// [`VfsError::OffsetMismatch`] says where the upload stands; [`VfsError::UploadInUse`]:
    /// another request writes. Else a right is missing, or there is no such upload.
    pub async fn append(&self, offset: u64, checksum: Option<Checksum>) -> Result<Append> {
        may_begin(&self.vfs)?;
        let (note, record) = self.note()?;
        if record.part_bytes.is_some() {
            return Err(VfsError::BadPart { why: "this upload takes numbered parts".to_owned() });
        }
        let place = self.place(&note).await?;
        let entry = self.entry(&note, &place);
        let guard = entry.write().await?;
        // As it stands now that nobody else writes.
        let (note, record) = self.note()?;
        if offset != note.contiguous {
            return Err(VfsError::OffsetMismatch { offset: note.contiguous });
        }
        let begin = Begin { entry, place, note, start: offset, end: record.size, checksum };
        let writer = Writer::begin(&self.vfs, &self.id, begin).await?;
        let (writer, guard) = (Some(writer), Some(guard));
        Ok(Append { upload: self.clone(), writer, acknowledged: offset, guard })
    }
}

impl Append {
    /// Offset of the next byte.
    pub fn offset(&self) -> u64 {
        self.writer.as_ref().map_or(self.acknowledged, |writer| writer.at)
    }

    /// Completes when another request of the owner wants to append: this one should be dropped.
    pub fn displaced(&self) -> impl Future<Output = ()> + Send + 'static {
        displaced(self.guard.as_ref().map(|guard| guard.displaced.clone()))
    }

    /// Takes the next bytes. Those of a long request become durable now and then.
    ///
    /// # Errors
    /// More came than was announced, there is no room, the session was ended, the store failed:
    /// nothing more of this request is taken.
    pub async fn write(&mut self, data: Bytes) -> Result<()> {
        let Some(writer) = &mut self.writer else { return Err(VfsError::BadHandle) };
        writer.write(data).await?;
        let due = writer.at >= self.acknowledged.saturating_add(limits::MARK_BYTES);
        if due && !writer.is_checked() {
            let noted = note(writer, writer.written()).await;
            writer.failed |= noted.is_err();
            noted?;
            self.acknowledged = writer.at;
        }
        Ok(())
    }

    /// Ends the request: what came is durable, and the answer says how far the upload is.
    ///
    /// # Errors
    /// [`VfsError::DigestMismatch`]: nothing of this request counts. Else the store or the journal
    /// failed, and what was not durable before does not count.
    pub async fn end(self) -> Result<ResumableStatus> {
        let upload = self.upload.clone();
        unbroken(self.end_here()).await?;
        upload.status().await
    }

    /// Ends the request and the upload.
    ///
    /// # Errors
    /// As [`Append::end`] and [`ResumableUpload::finish`].
    pub async fn finish(self) -> Result<Uploaded> {
        let upload = self.upload.clone();
        unbroken(self.end_here()).await?;
        upload.finish().await
    }

    async fn end_here(mut self) -> Result<()> {
        let Some(mut writer) = self.writer.take() else { return Err(VfsError::BadHandle) };
        if writer.failed {
            return Err(VfsError::BadHandle);
        }
        writer.check()?;
        if writer.at > self.acknowledged {
            let written = writer.written();
            note(&mut writer, written).await?;
        }
        // The staged file is closed before the next one may write.
        drop(writer);
        drop(self.guard.take());
        Ok(())
    }
}

/// Completes when the token is cancelled.
async fn displaced(token: Option<CancellationToken>) {
    match token {
        Some(token) => token.cancelled_owned().await,
        None => std::future::pending().await,
    }
}

/// Acknowledges what was written, and remembers its digest.
async fn note(writer: &mut Writer, written: Written) -> Result<()> {
    acknowledge(&writer.vfs, &written).await?;
    let digest = writer.digest.clone();
    *writer.entry.digest.lock().await = digest.filter(|digest| digest.length() == written.end);
    Ok(())
}

impl Drop for Append {
    fn drop(&mut self) {
        let Some(mut writer) = self.writer.take() else { return };
        let guard = self.guard.take();
        if writer.failed || writer.is_checked() || writer.at <= self.acknowledged {
            drop(writer);
            return;
        }
        // The client is gone: what came shall count all the same.
        let entry = Arc::clone(&writer.entry);
        entry.close();
        later(async move {
            let written = writer.written();
            if let Err(error) = note(&mut writer, written).await {
                tracing::debug!(%error, "the end of an append that broke off does not count");
            }
            drop(writer);
            entry.closed();
            drop(guard);
        });
    }
}
