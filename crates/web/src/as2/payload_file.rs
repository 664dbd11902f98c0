//! The file that a message becomes: it is begun when its name is known, and nothing of it stays
//! unless the message turns out to be right.

use bytes::{Bytes, BytesMut};
use entrepot_as2_proto::{Headers, safe_file_name};
use entrepot_nouns::VPath;
use entrepot_nouns::event::As2Message;
use entrepot_vfs::{As2Arrival, CommandRefusal, Upload, Vfs, VfsError};

use crate::limits::BATCH_BYTES;

/// The payload on its way into a folder.
pub(super) struct PayloadFile<'a> {
    vfs: &'a Vfs,
    folder: &'a VPath,
    message_id: &'a str,
    upload: Option<Upload>,
    batch: BytesMut,
    written: u64,
}

impl<'a> PayloadFile<'a> {
    pub(super) fn new(vfs: &'a Vfs, folder: &'a VPath, message_id: &'a str) -> PayloadFile<'a> {
        PayloadFile { vfs, folder, message_id, upload: None, batch: BytesMut::new(), written: 0 }
    }

    /// Writes what was unwrapped, under the name that the payload's header proposes.
    pub(super) async fn write(
        &mut self,
        headers: Option<&Headers>,
        bytes: &[u8],
    ) -> Result<(), VfsError> {
        if !self.batch.is_empty() {
            // It is more than one piece: to grow once is cheaper than to double a few times.
            let most = BATCH_BYTES + bytes.len();
            self.batch.reserve(most.saturating_sub(self.batch.len()));
        }
        self.batch.extend_from_slice(bytes);
        if self.batch.len() >= BATCH_BYTES { self.flush(headers).await } else { Ok(()) }
    }

    async fn flush(&mut self, headers: Option<&Headers>) -> Result<(), VfsError> {
        if self.upload.is_none() {
            self.upload = Some(self.begin(headers).await?);
        }
        let bytes: Bytes = self.batch.split().freeze();
        let (Some(upload), false) = (&mut self.upload, bytes.is_empty()) else { return Ok(()) };
        let (at, count) = (self.written, bytes.len() as u64);
        if !upload.try_write_at(at, &bytes)? {
            upload.write_at(at, bytes).await?;
        }
        self.written += count;
        Ok(())
    }

    /// Under the name that is proposed, or under the first like it that is free.
    async fn begin(&self, headers: Option<&Headers>) -> Result<Upload, VfsError> {
        let proposed = headers.and_then(Headers::file_name);
        let by_id = || safe_file_name(self.message_id.trim_matches(['<', '>']));
        let name = proposed.or_else(by_id).unwrap_or_else(|| "message".to_owned());
        let path = self.folder.join(&name)?;
        let mut upload = self.vfs.create_under_free_name(&path, None).await?;
        upload.keep_nothing();
        Ok(upload)
    }

    /// Writes the rest of it; gives the path that it will have.
    pub(super) async fn end(&mut self, headers: &Headers) -> Result<VPath, VfsError> {
        self.flush(Some(headers)).await?;
        self.upload.as_ref().map(|upload| upload.path().clone()).ok_or_else(nothing)
    }

    /// Publishes it, once, if a message that is new has this permission; what that gives is kept
    /// until then.
    pub(super) async fn finish<T: Send + 'static>(
        self,
        message: As2Message,
        permission: impl Future<Output = Result<T, CommandRefusal>> + Send + 'static,
    ) -> Result<As2Arrival, VfsError> {
        let upload = self.upload.ok_or_else(nothing)?;
        upload.finish_as2(message, permission).await
    }

    /// Nothing of it stays.
    pub(super) async fn drop_all(self) {
        if let Some(upload) = self.upload {
            upload.abort().await;
        }
    }
}

fn nothing() -> VfsError {
    VfsError::Io { problem: "no file was begun".to_owned() }
}
