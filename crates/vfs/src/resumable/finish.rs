//! The finish of an upload that is continued by id: rights and quota are asked again, the digests
//! compared, and the file published as every upload is.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use entrepot_nouns::{StorePath, VPath, crash};
use entrepot_storage::{Existing, StagedFile, StoreError};

use super::handle::{ResumableUpload, sha256};
use super::record::{OnConflict, UploadRecord};
use super::registry::Entry;
use super::status::{FinishedUpload, ResumableStatus};
use crate::book::KeptPartial;
use crate::error::{Result, VfsError};
use crate::free_name::numbered_names;
use crate::limits;
use crate::notes::Partial;
use crate::place::MountedPath;
use crate::quota::Reservation;
use crate::unbroken::unbroken;
use crate::upload::{RecordedUpload, Upload};
use crate::uploaded::Uploaded;

/// The name that the file gets.
struct Target {
    path: VPath,
    place: MountedPath,
    existing: Existing,
}

impl ResumableUpload {
    /// Publishes the file: when this returns, bytes, name and record are on stable storage. Asked
    /// again after it has succeeded, it answers the same. Goes on when nobody waits any more.
    ///
    /// # Errors
    /// Nothing was published. What came stays, unless its digest is not the announced one
    /// ([`VfsError::DigestMismatch`]); the owner may free room, or be given the right, and finish
    /// again.
    pub async fn finish(&self) -> Result<Uploaded> {
        if let Some(finished) = self.finished() {
            return Ok(finished.uploaded);
        }
        let upload = self.clone();
        unbroken(async move { upload.finish_here().await }).await
    }

    async fn finish_here(&self) -> Result<Uploaded> {
        let (note, _) = self.note()?;
        let place = self.place(&note).await?;
        let entry = self.entry(&note, &place);
        let _guard = entry.write().await?;
        let (note, record) = self.note()?;
        check_whole(&note, &record)?;
        entry.begin_finish(ResumableStatus::of(&note, &record))?;
        let published = self.publish(&entry, &place, &note, &record).await;
        entry.end_finish();
        let (path, uploaded) = match published {
            Ok(published) => published,
            Err(error) => {
                self.after_failure(&note).await;
                return Err(error);
            }
        };
        crash::point("resumable.published");
        self.vfs.data_plane().book.end_publishing(note.transfer);
        if record.spooled {
            self.drop_spooled(&note).await;
        }
        let (site, account) = (note.site, note.account);
        let UploadRecord { ticket, metadata, .. } = record;
        let finished = FinishedUpload { site, account, path, ticket, metadata, uploaded };
        self.vfs.data_plane().resumables.finished(&self.id, finished);
        Ok(uploaded)
    }

    async fn publish(
        &self,
        entry: &Arc<Entry>,
        place: &MountedPath,
        note: &Partial,
        record: &UploadRecord,
    ) -> Result<(VPath, Uploaded)> {
        let mut tries = 0;
        loop {
            let target = self.target(place, note, record.on_conflict).await?;
            let mut upload = self.open(entry, &target).await?;
            upload.set_times(None, record.modified);
            if record.spooled
                && let Err(error) = self.send_spooled(&mut upload, note).await
            {
                upload.interrupt(&error.to_string()).await;
                return Err(error);
            }
            tries += 1;
            match upload.finish().await {
                Ok(uploaded) => return Ok((target.path, uploaded)),
                // Somebody else took the name that was free.
                Err(VfsError::Exists)
                    if record.on_conflict == OnConflict::KeepBoth
                        && tries < limits::KEEP_BOTH_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes the upload out of the book and asks for its room again. It is back there if this
    /// fails, or if its publish does.
    async fn open(&self, entry: &Arc<Entry>, target: &Target) -> Result<Upload> {
        let plane = self.vfs.data_plane();
        let fresh = self.vfs.reservation(&target.place).await?;
        let known = entry.digest.lock().await.take();
        let mut kept = plane.book.take_to_publish(&self.id).ok_or(VfsError::NotFound)?;
        if let Some(known) = known {
            kept.digest = Some(Box::new(known));
        }
        if let Err(error) = ask_for_room(&mut kept, fresh, target).await {
            plane.partials.keep_noted(kept);
            return Err(error);
        }
        let recorded = RecordedUpload {
            path: target.path.clone(),
            sha256: sha256(&kept.note, &target.place),
            place: target.place.clone(),
            existing: target.existing,
            kept,
        };
        Upload::of_record(&self.vfs, recorded).await.map_err(|failed| {
            plane.partials.keep_noted(failed.kept);
            match failed.error {
                VfsError::Busy { .. } => VfsError::UploadInUse,
                error => error,
            }
        })
    }

    /// The name of the file, as the conflict policy says.
    async fn target(
        &self,
        place: &MountedPath,
        note: &Partial,
        on_conflict: OnConflict,
    ) -> Result<Target> {
        let existing = match on_conflict {
            OnConflict::Replace => Existing::Replace,
            OnConflict::Refuse | OnConflict::KeepBoth => Existing::Refuse,
        };
        let (path, place) = (note.path.clone(), place.clone());
        if on_conflict != OnConflict::KeepBoth || is_free(&place, &place.path).await? {
            return Ok(Target { path, place, existing });
        }
        let name = path.file_name().unwrap_or_default();
        let above = (path.parent(), place.path.parent());
        let (Some(directory), Some(stored)) = above else { return Err(VfsError::IsDirectory) };
        for other in numbered_names(name) {
            let at = stored.join(&other)?;
            if is_free(&place, &at).await? {
                let path = directory.join(&other)?;
                let place = MountedPath { path: at, ..place };
                return Ok(Target { path, place, existing });
            }
        }
        Err(VfsError::Exists)
    }

    /// Sends what lies in the spool to the store.
    async fn send_spooled(&self, upload: &mut Upload, note: &Partial) -> Result<()> {
        let plane = self.vfs.data_plane();
        let spool = plane.stores.spool().ok_or(VfsError::Unsupported)?;
        let staged = spool.resume(note.transfer, &note.staged_target()?).await?;
        while upload.size() < note.contiguous {
            let block = read_block(&*staged, upload.size(), note.contiguous).await?;
            upload.write_at(upload.size(), block).await?;
        }
        Ok(())
    }

    async fn drop_spooled(&self, note: &Partial) {
        let Some(spool) = self.vfs.data_plane().stores.spool() else { return };
        if let Err(error) = spool.discard_staged(note.transfer).await {
            tracing::warn!(%error, "a spooled file cannot be dropped");
        }
    }

    /// Where nothing was kept, nothing of the upload stays.
    async fn after_failure(&self, note: &Partial) {
        let plane = self.vfs.data_plane();
        if plane.book.look_by_id(&self.id).is_some() {
            return;
        }
        plane.book.end_publishing(note.transfer);
        plane.resumables.remove(&self.id);
        if note.is_spooled() {
            self.drop_spooled(note).await;
        }
    }
}

/// Fails unless all of the file is there. Without a size it is as large as what came.
fn check_whole(note: &Partial, record: &UploadRecord) -> Result<()> {
    match record.size {
        Some(expected) if expected != note.contiguous => {
            Err(VfsError::Incomplete { size: note.contiguous, expected })
        }
        _ => Ok(()),
    }
}

async fn read_block(staged: &dyn StagedFile, at: u64, end: u64) -> Result<Bytes> {
    let want = usize::try_from(end - at).unwrap_or(usize::MAX).min(limits::SPOOL_BLOCK_BYTES);
    let block = staged.read_at(at, BytesMut::with_capacity(want), want).await?;
    if block.is_empty() {
        return Err(VfsError::Io { problem: "spooled bytes are missing".to_owned() });
    }
    Ok(block.freeze())
}

/// Gives the promised room back and asks for it as the quota is now. If there is none any more the
/// bytes stay counted.
async fn ask_for_room(
    kept: &mut KeptPartial,
    mut fresh: Reservation,
    target: &Target,
) -> Result<()> {
    let is_new = is_free(&target.place, &target.place.path).await?;
    drop(kept.reservation.take());
    let asked = if is_new { fresh.add_file() } else { Ok(()) };
    let asked = asked.and_then(|()| fresh.grow_to(kept.note.contiguous));
    if asked.is_err() {
        fresh.force(kept.note.contiguous);
    }
    kept.reservation = Some(fresh);
    asked
}

async fn is_free(place: &MountedPath, path: &StorePath) -> Result<bool> {
    match place.store.stat(path).await {
        Ok(_) => Ok(false),
        Err(StoreError::NotFound) => Ok(true),
        Err(error) => Err(error.into()),
    }
}
