//! The end of an upload whose bytes came by id: it becomes an [`Upload`] when it is published, and
//! what it is made from goes back to its owner if that fails.

use std::sync::Arc;

use entrepot_auth::TransferPlace;
use entrepot_crypto::Sha256;
use entrepot_nouns::{Digests, VPath};
use entrepot_storage::budget::Permit;
use entrepot_storage::{Existing, StagedFile};

use super::create::ExpectedSize;
use super::start::Start;
use super::{Opened, Upload};
use crate::book::KeptPartial;
use crate::error::{Result, VfsError};
use crate::notes::Partial;
use crate::place::MountedPath;
use crate::unbroken::later;
use crate::vfs::Vfs;

/// An upload by id whose bytes are all there.
pub(crate) struct RecordedUpload {
    /// What the book had of it, with its room.
    pub(crate) kept: KeptPartial,
    /// The name that it gets.
    pub(crate) path: VPath,
    pub(crate) place: MountedPath,
    pub(crate) existing: Existing,
    pub(crate) sha256: Sha256,
}

/// It was not opened.
pub(crate) struct NotOpened {
    pub(crate) kept: KeptPartial,
    pub(crate) error: VfsError,
}

impl Upload {
    /// Opens it to be published, with all of its bytes; what lies in the spool is still to be
    /// written.
    pub(crate) async fn of_record(
        vfs: &Vfs,
        recorded: RecordedUpload,
    ) -> std::result::Result<Upload, NotOpened> {
        let RecordedUpload { mut kept, path, place: wanted, existing, sha256 } = recorded;
        let held_for = vfs.holds(&wanted).then(|| wanted.clone());
        let opened = async {
            let place = vfs.upload_place(&wanted, kept.note.transfer)?;
            let (slot, open) = (vfs.0.transfer_slot()?, vfs.0.shares.open_file()?);
            let staged = staged(&place, &kept.note).await?;
            Ok((place, slot, open, staged))
        };
        let opened: Result<(MountedPath, TransferPlace, Permit, Box<dyn StagedFile>)> =
            opened.await;
        let (place, slot, open, staged) = match opened {
            Ok(opened) => opened,
            Err(error) => return Err(NotOpened { kept, error }),
        };
        let record = kept.note.clone();
        let start = Start::of_record(&mut kept, sha256);
        let moving = start.moving(vfs, &path, None, slot);
        let expected = ExpectedSize::of(Some(record.contiguous));
        let opened = Opened { path, place, held_for, existing, expected, staged, moving, open };
        let mut upload = Upload::opened(vfs, start, opened);
        upload.record = Some(Box::new(record));
        Ok(upload)
    }

    /// What the digests of the file must be.
    pub(super) fn check_digests(&self, found: &Digests) -> Result<()> {
        let record = self.record.as_ref().and_then(|note| note.by_id.as_ref());
        let Some(expected) = record.map(|record| record.expected) else { return Ok(()) };
        let differs =
            |wanted: Option<[u8; 32]>, found: Option<[u8; 32]>| wanted.is_some() && wanted != found;
        if differs(expected.blake3, found.blake3) {
            return Err(VfsError::DigestMismatch { what: "the BLAKE3 digest of the file" });
        }
        if differs(expected.sha256, found.sha256) {
            return Err(VfsError::DigestMismatch { what: "the SHA-256 digest of the file" });
        }
        Ok(())
    }

    /// Gives what the upload was made from back to the book. Needs no waiting.
    pub(super) fn keep_record(&mut self, record: Partial) {
        let mut reservation = std::mem::take(&mut self.reservation);
        reservation.shrink_to(record.kept_bytes());
        let spooled = record.is_spooled();
        let digest = if spooled { None } else { self.layout.take_running() };
        let kept = KeptPartial { note: record, reservation: Some(reservation), digest };
        self.vfs.data_plane().partials.keep_noted(kept);
        if !spooled {
            return;
        }
        // What the store was sent is of no use: the next finish sends all again.
        let (store, id) = (Arc::clone(&self.place.store), self.moving.id);
        later(async move {
            if let Err(error) = store.discard_staged(id).await {
                tracing::warn!(%error, transfer = %id, "staged bytes cannot be dropped");
            }
        });
    }
}

/// The staged file at the store: the one that has the bytes, or a new one for what is spooled.
async fn staged(place: &MountedPath, note: &Partial) -> Result<Box<dyn StagedFile>> {
    if note.is_spooled() {
        return place.stage(note.transfer, &place.path).await;
    }
    let staged = place.store.resume(note.transfer, &place.path).await?;
    if staged.size() < note.contiguous {
        return Err(VfsError::Io { problem: "acknowledged bytes are missing".to_owned() });
    }
    // What a request wrote that was never acknowledged.
    if staged.size() > note.contiguous {
        staged.set_len(note.contiguous).await?;
    }
    Ok(staged)
}
