//! One part of an upload by parts: they come in any order, several at once, and again.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use entrepot_crypto::StreamDigest;
use tokio::sync::OwnedMutexGuard;

use super::checksum::Checksum;
use super::handle::ResumableUpload;
use super::record::UploadRecord;
use super::registry::{PartGuard, SharedStaged};
use super::status::ResumableStatus;
use super::writer::{Begin, Writer, acknowledge};
use crate::error::{Result, VfsError};
use crate::limits;
use crate::unbroken::{later, unbroken};
use crate::upload::may_begin;
use crate::upload::ranges::Ranges;

/// The digest of an upload, held by who continues it.
type DigestGuard = OwnedMutexGuard<Option<StreamDigest>>;

/// One request that writes a part. Dropping it leaves the part missing.
pub struct PartUpload {
    upload: ResumableUpload,
    writer: Writer,
    end: u64,
    /// The part is there: what comes is only compared.
    is_there: bool,
    guard: PartGuard,
}

impl ResumableUpload {
    /// Writes part `number`, the first being 0. `checksum` is what its bytes must be. A part that
    /// is there already stays as it is; what comes is compared with it.
    ///
    /// # Errors
    /// [`VfsError::BadPart`]: the upload has no such part. [`VfsError::UploadInUse`]: another
    /// request writes it. Else a right is missing, or there is no such upload.
    pub async fn part(&self, number: u64, checksum: Option<Checksum>) -> Result<PartUpload> {
        may_begin(&self.vfs)?;
        let (note, record) = self.note()?;
        let (start, end) = range_of(&record, number)?;
        let place = self.place(&note).await?;
        let entry = self.entry(&note, &place);
        let guard = entry.write_part(number)?;
        // As it stands now that nobody else writes this part.
        let (note, record) = self.note()?;
        let present = Ranges::of(record.present);
        let is_there = present.holds(start, end);
        if !is_there && present.count_with(start, end) > limits::PART_RANGES {
            let why = "too many parts with gaps between them; send those at the beginning first";
            return Err(VfsError::BadPart { why: why.to_owned() });
        }
        let begin = Begin { entry, place, note, start, end: Some(end), checksum };
        let writer = Writer::begin(&self.vfs, &self.id, begin).await?;
        Ok(PartUpload { upload: self.clone(), writer, end, is_there, guard })
    }
}

/// The bytes of a part, from and to.
fn range_of(record: &UploadRecord, number: u64) -> Result<(u64, u64)> {
    let bad = |why: String| VfsError::BadPart { why };
    let (Some(part_bytes), Some(size)) = (record.part_bytes, record.size) else {
        return Err(bad("this upload takes its bytes in order".to_owned()));
    };
    let start = number.checked_mul(part_bytes).filter(|start| *start < size);
    let start = start.ok_or_else(|| {
        let count = size.div_ceil(part_bytes);
        bad(format!("there is no part {number} of {count}; the first is 0"))
    })?;
    Ok((start, start.saturating_add(part_bytes).min(size)))
}

impl PartUpload {
    /// How many bytes the part has.
    pub fn size(&self) -> u64 {
        self.end - self.writer.start
    }

    /// Completes when another request of the owner wants to write this part: this one should be
    /// dropped.
    pub fn displaced(&self) -> impl Future<Output = ()> + Send + 'static {
        self.guard.displaced.clone().cancelled_owned()
    }

    /// Takes the next bytes of the part.
    ///
    /// # Errors
    /// More came than the part has, the session was ended, the store failed, or the part is there
    /// with other bytes: nothing of this request counts.
    pub async fn write(&mut self, data: Bytes) -> Result<()> {
        if !self.is_there {
            return self.writer.write(data).await;
        }
        let mut at = self.writer.at;
        let mut rest: &[u8] = &data;
        while !rest.is_empty() {
            let want = rest.len().min(limits::BLOCK_BYTES);
            let stored = self.writer.staged.read_at(at, BytesMut::new(), want).await?;
            let same = !stored.is_empty() && rest.starts_with(&stored);
            if !same || at + stored.len() as u64 > self.end {
                let why = "the part is there already, with other bytes; end the upload, or keep it";
                return Err(VfsError::BadPart { why: why.to_owned() });
            }
            rest = rest.get(stored.len()..).unwrap_or_default();
            at += stored.len() as u64;
        }
        self.writer.compared(&data);
        Ok(())
    }

    /// Ends the request: the part is durable.
    ///
    /// # Errors
    /// [`VfsError::Incomplete`]: the part is not whole; [`VfsError::DigestMismatch`]: it is not
    /// what was announced; else the store or the journal failed. The part is missing still.
    pub async fn end(self) -> Result<ResumableStatus> {
        let upload = self.upload.clone();
        unbroken(self.end_here()).await?;
        upload.status().await
    }

    async fn end_here(mut self) -> Result<()> {
        let writer = &mut self.writer;
        if writer.failed {
            return Err(VfsError::BadHandle);
        }
        if writer.at < self.end {
            let (size, expected) = (writer.at - writer.start, self.end - writer.start);
            return Err(VfsError::Incomplete { size, expected });
        }
        writer.check()?;
        if self.is_there {
            return Ok(());
        }
        acknowledge(&writer.vfs, &writer.written()).await?;
        let contiguous = self.upload.note()?.0.contiguous;
        let mut digest = Arc::clone(&writer.entry.digest).lock_owned().await;
        if let (Some(known), Some(ours)) = (&*digest, &writer.digest)
            && known.length() == writer.start
        {
            *digest = Some(ours.clone());
        }
        let is_behind = digest.as_ref().is_some_and(|digest| digest.length() < contiguous);
        if is_behind {
            later(catch_up(digest, Arc::clone(&writer.staged), contiguous));
        }
        drop(self.guard);
        Ok(())
    }
}

/// Hashes acknowledged bytes up to `contiguous` that came before those in front of them, so that
/// the finish need not read them all.
async fn catch_up(digest: DigestGuard, staged: SharedStaged, contiguous: u64) {
    let mut guard = digest;
    // Closed before the digest is given back: the finish opens the file for itself.
    let staged = staged;
    let mut block = BytesMut::new();
    while let Some(digest) = guard.as_mut().filter(|digest| digest.length() < contiguous) {
        let at = digest.length();
        let want = usize::try_from(contiguous - at).unwrap_or(usize::MAX).min(limits::BLOCK_BYTES);
        block.clear();
        // What cannot be read now is tried again, and matters, at the finish.
        match staged.read_at(at, block, want).await {
            Ok(read) if !read.is_empty() => block = read,
            _ => return,
        }
        digest.update(&block);
        tokio::task::yield_now().await;
    }
}
