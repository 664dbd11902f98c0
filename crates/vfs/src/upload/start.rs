//! What an upload starts from: nothing, what is left of an earlier one, or the file that has its
//! name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use entrepot_auth::TransferPlace;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::{Direction, Right, Timestamp, TransferId, VPath};
use entrepot_storage::budget::Permit;
use entrepot_storage::{EntryKind, Identity, ReadFile, StagedFile, StoreError};

use super::create::{Create, CreateIntent};
use super::layout::{Layout, ResumableDigest};
use super::ranges::Ranges;
use crate::book::{KeptPartial, Moving};
use crate::error::{Result, VfsError};
use crate::notes::Partial;
use crate::place::MountedPath;
use crate::quota::Reservation;
use crate::vfs::Vfs;

/// The file that an upload is laid over.
pub(super) struct Base {
    pub(super) file: Box<dyn ReadFile>,
    pub(super) size: u64,
    pub(super) identity: Option<Identity>,
    _open: Permit,
}

/// What an upload starts from.
pub(super) struct Start {
    id: TransferId,
    started_at: Timestamp,
    staged: Option<Box<dyn StagedFile>>,
    /// The record of the unfinished upload that is resumed.
    note: Option<Partial>,
    pub(super) ranges: Ranges,
    /// The digest of what is resumed, where it cannot be read back.
    digest: Option<Box<StreamDigest>>,
    pub(super) base: Option<Base>,
    pub(super) reservation: Reservation,
    /// The identity of the file that has the name.
    pub(super) replaces: Option<String>,
    sha256: Sha256,
}

impl Start {
    /// Checks what is there and rights, takes room, and opens the staged file.
    pub(super) async fn at(
        vfs: &Vfs,
        path: &VPath,
        place: &MountedPath,
        how: Create,
    ) -> Result<(Start, Box<dyn StagedFile>)> {
        let there = place.look().await?;
        if there.as_ref().is_some_and(|there| there.kind == EntryKind::Directory) {
            return Err(VfsError::IsDirectory);
        }
        if there.is_some() && how.intent == CreateIntent::Exclusive {
            return Err(VfsError::Exists);
        }
        place.need(if there.is_some() { Right::Overwrite } else { Right::Write })?;
        if there.is_some()
            && how.intent == CreateIntent::Continue
            && !place.store.caps().staged_apart
        {
            // It would be laid over a file that its own first byte destroys.
            return Err(StoreError::Unsupported("appending to a file written in place").into());
        }
        let mut start = Start::new(vfs, place).await?;
        start.replaces = there.as_ref().and_then(|meta| Some(meta.identity.clone()?.0));
        let kept = vfs.data_plane().book.take(&vfs.partial_key(path));
        match (how.intent, kept) {
            (CreateIntent::Resume, Some(kept)) if kept.note.replaces == start.replaces => {
                start.resume(vfs, place, kept).await?;
            }
            // What is published wins: its size is the one a client was told.
            (CreateIntent::Continue, Some(kept)) if there.is_none() => {
                start.resume(vfs, place, kept).await?;
            }
            (_, Some(kept)) => vfs.data_plane().partials.discard(kept).await,
            (_, None) => {}
        }
        if start.staged.is_none() && how.intent == CreateIntent::Resume {
            return Err(VfsError::Conflict);
        }
        if start.staged.is_none() && how.intent == CreateIntent::Continue && there.is_some() {
            start.base = Some(base(vfs, place).await?);
        }
        // What is held lies beside what has the name.
        if (there.is_none() || vfs.holds(place)) && start.staged.is_none() {
            start.reservation.add_file()?;
        }
        if let Err(error) = start.reservation.grow_to(how.expected_size.unwrap_or(0)) {
            start.give_back(vfs);
            return Err(error);
        }
        let staged = match start.staged.take() {
            Some(staged) => staged,
            None => {
                let target = vfs.upload_place(place, start.id)?;
                target.stage(start.id, &target.path).await?
            }
        };
        Ok((start, staged))
    }

    async fn new(vfs: &Vfs, place: &MountedPath) -> Result<Start> {
        let plane = vfs.data_plane();
        Ok(Start {
            id: plane.env.new_id(),
            started_at: plane.env.now(),
            staged: None,
            note: None,
            ranges: Ranges::default(),
            digest: None,
            base: None,
            reservation: vfs.reservation(place).await?,
            replaces: None,
            sha256: place.sha256(),
        })
    }

    /// All bytes of an upload by id, or none if they are still to be sent to the store.
    pub(super) fn of_record(kept: &mut KeptPartial, sha256: Sha256) -> Start {
        let note = &kept.note;
        let there = if note.is_spooled() { 0 } else { note.contiguous };
        Start {
            id: note.transfer,
            started_at: note.started_at,
            staged: None,
            note: None,
            ranges: Ranges::prefix(there),
            digest: kept.digest.take().filter(|digest| digest.length() <= there),
            base: None,
            reservation: kept.reservation.take().unwrap_or_default(),
            replaces: None,
            sha256,
        }
    }

    /// Goes on with what was kept, as far as it can be trusted. What cannot be resumed is gone.
    async fn resume(
        &mut self,
        vfs: &Vfs,
        place: &MountedPath,
        mut kept: KeptPartial,
    ) -> Result<()> {
        let trusted = kept.note.trusted(&vfs.data_plane().boot);
        let place = &vfs.upload_place(place, kept.note.transfer)?;
        let resumed = if kept.note.target == place.path && trusted > 0 {
            reopen(place, &mut kept).await
        } else {
            Err(StoreError::NotFound)
        };
        let staged = match resumed {
            Ok(staged) if staged.size() >= trusted => staged,
            Err(StoreError::Unavailable(_)) => {
                vfs.data_plane().partials.keep_noted(kept);
                return Err(VfsError::busy("this upload is still being ended"));
            }
            _ if trusted == 0 => {
                vfs.data_plane().partials.discard(kept).await;
                return Ok(());
            }
            // Its size was told: writes that continue it must not land behind a hole.
            _ => {
                vfs.data_plane().partials.discard(kept).await;
                return Err(VfsError::Conflict);
            }
        };
        // What lies behind the first hole is sent again.
        if let Err(error) = staged.set_len(trusted).await {
            vfs.data_plane().partials.discard(kept).await;
            return Err(error.into());
        }
        self.id = kept.note.transfer;
        self.started_at = kept.note.started_at;
        self.ranges = Ranges::prefix(trusted);
        if let Some(reservation) = kept.reservation.take() {
            self.reservation = reservation;
        } else {
            self.reservation.force(trusted);
        }
        self.staged = Some(staged);
        self.digest = kept.digest;
        self.note = Some(kept.note);
        Ok(())
    }

    /// The transfer that the upload is.
    pub(super) fn transfer(&self) -> TransferId {
        self.id
    }

    /// Size of the file as the upload begins.
    pub(super) fn size(&self) -> u64 {
        self.base.as_ref().map_or(self.ranges.end(), |base| base.size)
    }

    /// How the store of this place takes the bytes that follow.
    pub(super) fn layout(&mut self, place: &MountedPath) -> Layout {
        let (sha256, digest) = (self.sha256, self.digest.take());
        if place.store.caps().random_write {
            let digest = digest.map_or_else(|| StreamDigest::new(sha256), |digest| *digest);
            return Layout::random_access(digest);
        }
        let digest = digest.map_or_else(|| ResumableDigest::new(sha256), ResumableDigest::resumed);
        Layout::in_order(digest, self.ranges.end())
    }

    /// Counts the upload among the transfers that move now.
    pub(super) fn moving(
        &self,
        vfs: &Vfs,
        path: &VPath,
        size: Option<u64>,
        slot: TransferPlace,
    ) -> Arc<Moving> {
        let moving = Arc::new(Moving {
            id: self.id,
            direction: Direction::In,
            session: vfs.0.scope.session,
            started_at: self.started_at,
            path: path.clone(),
            size,
            bytes: AtomicU64::new(self.size()),
            _place: slot,
        });
        vfs.data_plane().book.begin(moving.clone());
        vfs.data_plane().meters.active_changed(Direction::In, 1);
        vfs.0.session.transfers.fetch_add(1, Ordering::Relaxed);
        vfs.0.uploads.lock().insert(path.clone(), moving.clone());
        moving
    }

    /// It does not begin after all: what was resumed stays kept.
    fn give_back(self, vfs: &Vfs) {
        if let Some(note) = self.note {
            let kept =
                KeptPartial { note, reservation: Some(self.reservation), digest: self.digest };
            vfs.data_plane().partials.keep_noted(kept);
        }
    }
}

/// Fails if the node may not begin uploads: it ends, or could not record them.
pub(crate) fn may_begin(vfs: &Vfs) -> Result<()> {
    let plane = vfs.data_plane();
    if plane.book.is_draining() {
        return Err(VfsError::busy("the server is stopping"));
    }
    let usage = plane.recorder.journal().usage();
    if usage.full {
        return Err(VfsError::NoRecord);
    }
    if usage.suspect {
        return Err(VfsError::busy("the server cannot record uploads now"));
    }
    Ok(())
}

/// Opens what was kept. Where its bytes cannot be read back and their digest is not known, it is
/// as good as gone.
async fn reopen(
    place: &MountedPath,
    kept: &mut KeptPartial,
) -> std::result::Result<Box<dyn StagedFile>, StoreError> {
    if let Some(ticket) = &kept.note.ticket {
        let wanted = kept.note.contiguous;
        let remembered = kept.digest.take().filter(|digest| digest.length() == wanted);
        let digest = match remembered {
            Some(digest) => Some(digest),
            None if place.mount.mount.sha256 => None,
            None => kept.note.digest().map(Box::new),
        };
        kept.digest = Some(digest.ok_or(StoreError::NotFound)?);
        place.store.adopt(kept.note.transfer, &kept.note.target, ticket)?;
    }
    place.store.resume(kept.note.transfer, &place.path).await
}

async fn base(vfs: &Vfs, place: &MountedPath) -> Result<Base> {
    let open = vfs.0.shares.open_file()?;
    let file = place.store.open(&place.path).await?;
    let meta = file.meta();
    Ok(Base { size: meta.size, identity: meta.identity.clone(), file, _open: open })
}
