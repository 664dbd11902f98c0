//! One upload that is continued by id, as a session of its owner sees it.

use std::sync::Arc;

use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::Right;
use tokio::time::timeout;

use super::record::{UploadId, UploadRecord};
use super::registry::Entry;
use super::status::{FinishedUpload, ResumableStatus, UploadStage};
use crate::error::{Result, VfsError};
use crate::limits;
use crate::notes::Partial;
use crate::place::{Last, MountedPath};
use crate::vfs::Vfs;

/// An upload that its owner continues by id. Cheap to clone; holds nothing open.
#[derive(Clone)]
pub struct ResumableUpload {
    pub(super) vfs: Vfs,
    pub(super) id: UploadId,
}

impl Vfs {
    /// An upload that this account began earlier, on this node.
    pub fn resumable(&self, id: &UploadId) -> ResumableUpload {
        ResumableUpload { vfs: self.clone(), id: id.clone() }
    }

    /// All uploads by id that this account has begun on this node and not ended.
    pub fn resumables(&self) -> Vec<ResumableStatus> {
        let principal = self.0.session.live.principal();
        let notes = self.data_plane().book.all_by_id(principal.site, &principal.account.name);
        let now = self.data_plane().env.now();
        let notes = notes.iter().filter(|note| note.until > now);
        notes.filter_map(|note| Some(ResumableStatus::of(note, note.by_id.as_ref()?))).collect()
    }
}

impl ResumableUpload {
    /// The name of the upload in requests.
    pub fn id(&self) -> &UploadId {
        &self.id
    }

    /// How far the upload is, once what broke off last is durable.
    ///
    /// # Errors
    /// There is no such upload of this account, or it lies on another node.
    pub async fn status(&self) -> Result<ResumableStatus> {
        self.vfs.0.check()?;
        if let Some(finished) = self.finished() {
            return Ok(ResumableStatus::of_finished(&self.id, &finished));
        }
        if let Some(entry) = self.vfs.data_plane().resumables.known(&self.id) {
            if let Some(status) = entry.finishing().filter(|_| self.is_of_account(&entry)) {
                return Ok(ResumableStatus { stage: UploadStage::Finishing, ..status });
            }
            entry.settled().await;
        }
        let (note, record) = self.note()?;
        Ok(ResumableStatus::of(&note, &record))
    }

    /// Says how large the whole file is, of an upload that was begun without.
    ///
    /// # Errors
    /// It is known already and another one, less than has come, or there is no room for it.
    pub async fn set_size(&self, size: u64) -> Result<()> {
        let (note, record) = self.note()?;
        match record.size {
            Some(known) if known == size => return Ok(()),
            Some(known) => return Err(VfsError::Incomplete { size, expected: known }),
            None if size < note.contiguous => {
                return Err(VfsError::Incomplete { size: note.contiguous, expected: size });
            }
            None => {}
        }
        if size > limits::FILE_BYTES {
            return Err(VfsError::Quota { what: "bytes a file", limit: limits::FILE_BYTES });
        }
        self.place(&note).await?;
        let book = &self.vfs.data_plane().book;
        let grown = book.with_room(&self.id, |_, room| match room {
            Some(room) => room.grow_to(size),
            None => Ok(()),
        });
        grown.ok_or(VfsError::NotFound)??;
        let noted = book.change_by_id(&self.id, |note| {
            if let Some(record) = &mut note.by_id {
                record.size = Some(size);
            }
        });
        noted.ok_or(VfsError::NotFound)??;
        Ok(())
    }

    /// Ends the upload without publishing; nothing is kept.
    ///
    /// # Errors
    /// There is no such upload of this account, or it is being published.
    pub async fn terminate(&self) -> Result<()> {
        self.note()?;
        let plane = self.vfs.data_plane();
        // Without it in the book whoever writes can acknowledge nothing.
        let kept = plane.book.take_by_id(&self.id).ok_or(VfsError::UploadInUse)?;
        plane.resumables.remove(&self.id);
        plane.partials.discard(kept).await;
        Ok(())
    }

    /// Asks the request that appends now to give way, as far as it listens (see
    /// [`Append::displaced`](crate::Append::displaced)): a client that comes back after a break of
    /// its network does so before the server knows of the break.
    pub async fn displace_append(&self) {
        if let Some(entry) = self.vfs.data_plane().resumables.known(&self.id)
            && self.is_of_account(&entry)
        {
            // Who does not give way in time goes on; the newcomer is refused.
            let _ = timeout(limits::DISPLACE_TIME, entry.displace_append()).await;
        }
    }

    /// The same of the request that writes this part now.
    pub async fn displace_part(&self, number: u64) {
        if let Some(entry) = self.vfs.data_plane().resumables.known(&self.id)
            && self.is_of_account(&entry)
        {
            let _ = timeout(limits::DISPLACE_TIME, entry.displace_part(number)).await;
        }
    }

    /// What the journal has of it, if it is one of this account.
    pub(super) fn note(&self) -> Result<(Partial, UploadRecord)> {
        self.vfs.0.check()?;
        let plane = self.vfs.data_plane();
        let Some(note) = plane.book.look_by_id(&self.id) else { return Err(self.missing()) };
        let principal = self.vfs.0.session.live.principal();
        let is_own = note.site == principal.site && note.account == principal.account.name;
        match &note.by_id {
            Some(record) if is_own && note.until > plane.env.now() => {
                let record = (**record).clone();
                Ok((note, record))
            }
            _ => Err(VfsError::NotFound),
        }
    }

    /// Why there is no note of it.
    fn missing(&self) -> VfsError {
        if self.finished().is_some() {
            return VfsError::BadHandle;
        }
        let plane = self.vfs.data_plane();
        if self.id.node() != plane.recorder.node() {
            return VfsError::OtherNode { node: self.id.node().to_string() };
        }
        let known = plane.resumables.known(&self.id).filter(|entry| self.is_of_account(entry));
        match known.and_then(|entry| entry.finishing()) {
            Some(_) => VfsError::UploadInUse,
            None => VfsError::NotFound,
        }
    }

    /// What is remembered of its publish, if it is one of this account.
    pub(super) fn finished(&self) -> Option<FinishedUpload> {
        let principal = self.vfs.0.session.live.principal();
        let finished = self.vfs.data_plane().resumables.look_finished(&self.id)?;
        let is_own = finished.site == principal.site && finished.account == principal.account.name;
        is_own.then_some(finished)
    }

    fn is_of_account(&self, entry: &Entry) -> bool {
        let principal = self.vfs.0.session.live.principal();
        entry.is_of(principal.site, &principal.account.name)
    }

    /// The upload as this process works on it.
    pub(super) fn entry(&self, note: &Partial, place: &MountedPath) -> Arc<Entry> {
        // Nothing has come: the digest of nothing is known.
        let digest = (note.kept_bytes() == 0).then(|| StreamDigest::new(sha256(note, place)));
        self.vfs.data_plane().resumables.entry(&self.id, note, digest)
    }

    /// Where the upload goes, if the account may still write there.
    pub(super) async fn place(&self, note: &Partial) -> Result<MountedPath> {
        let found = match self.vfs.place(&note.path, Last::Followed).await {
            Ok((place, _)) => place,
            Err(VfsError::NotFound) => None,
            Err(error) => return Err(error),
        };
        let same = |place: &MountedPath| {
            let lies_at = self.vfs.upload_place(place, note.transfer);
            lies_at.is_ok_and(|lies_at| lies_at.path == note.target)
                && place.mount.mount.name == note.mount
                && place.mount.endpoint.noun.name == note.endpoint
        };
        let place = found.filter(same).ok_or_else(|| VfsError::denied("write here any more"))?;
        if !place.mount.rights.has(Right::Overwrite) {
            place.need(Right::Write)?;
        }
        Ok(place)
    }
}

/// Whether SHA-256 is computed of an upload.
pub(super) fn sha256(note: &Partial, place: &MountedPath) -> Sha256 {
    let expected = note.by_id.as_ref().and_then(|record| record.expected.sha256);
    if expected.is_some() { Sha256::Wanted } else { place.sha256() }
}
