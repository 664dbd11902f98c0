//! Bytes on their way into the staged file of an upload that is continued by id: the way that
//! appends and parts share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use entrepot_crypto::StreamDigest;
use entrepot_nouns::{Direction, TransferId, crash};
use entrepot_storage::budget::Permit;

use super::checksum::{Check, Checksum};
use super::record::UploadId;
use super::registry::{Entry, SharedStaged};
use crate::book::Moving;
use crate::error::{Result, VfsError};
use crate::limits;
use crate::notes::Partial;
use crate::place::MountedPath;
use crate::quota::Reservation;
use crate::upload::ranges::Ranges;
use crate::vfs::Vfs;

/// What a writer begins with.
pub(super) struct Begin {
    pub(super) entry: Arc<Entry>,
    pub(super) place: MountedPath,
    pub(super) note: Partial,
    /// Offset of its first byte.
    pub(super) start: u64,
    /// Offset that it may not pass.
    pub(super) end: Option<u64>,
    /// What the bytes of this request must be.
    pub(super) checksum: Option<Checksum>,
}

/// One request that writes.
pub(super) struct Writer {
    pub(super) vfs: Vfs,
    pub(super) id: UploadId,
    pub(super) staged: SharedStaged,
    pub(super) entry: Arc<Entry>,
    moving: Arc<Moving>,
    pub(super) start: u64,
    /// Offset of the next byte.
    pub(super) at: u64,
    end: Option<u64>,
    /// Room is promised up to here.
    reserved: u64,
    /// The digest of all from the start of the file on, if it was known where the writer began.
    pub(super) digest: Option<StreamDigest>,
    check: Option<Check>,
    /// A write failed: nothing more of this request counts.
    pub(super) failed: bool,
    _open: Permit,
}

/// Bytes that are about to be acknowledged.
pub(super) struct Written {
    pub(super) id: UploadId,
    pub(super) staged: SharedStaged,
    pub(super) start: u64,
    pub(super) end: u64,
}

impl Writer {
    /// Opens the staged file for one request, and counts it among the transfers that move.
    pub(super) async fn begin(vfs: &Vfs, id: &UploadId, begin: Begin) -> Result<Writer> {
        let Begin { entry, place, note, start, end, checksum } = begin;
        let (slot, open) = (vfs.0.transfer_slot()?, vfs.0.shares.open_file()?);
        ensure_room(vfs, id, &place).await?;
        let plane = vfs.data_plane();
        let store = if note.is_spooled() { plane.stores.spool() } else { Some(&place.store) };
        let staged = match entry.open(store.ok_or(VfsError::Unsupported)?, &note).await {
            Err(VfsError::NotFound) => {
                // The bytes are gone behind the back of this node.
                plane.resumables.remove(id);
                if let Some(kept) = plane.book.take_by_id(id) {
                    plane.partials.discard(kept).await;
                }
                return Err(VfsError::NotFound);
            }
            Err(VfsError::Busy { .. }) => return Err(VfsError::UploadInUse),
            staged => staged?,
        };
        let digest = entry.digest.lock().await.clone();
        let moving = Arc::new(Moving {
            id: plane.env.new_id::<TransferId>(),
            direction: Direction::In,
            session: vfs.0.scope.session,
            started_at: plane.env.now(),
            path: note.path.clone(),
            size: None,
            bytes: AtomicU64::new(0),
            _place: slot,
        });
        plane.book.begin(Arc::clone(&moving));
        plane.meters.active_changed(Direction::In, 1);
        Ok(Writer {
            vfs: vfs.clone(),
            id: id.clone(),
            staged,
            entry,
            moving,
            start,
            at: start,
            end,
            reserved: 0,
            digest: digest.filter(|digest| digest.length() == start),
            check: checksum.map(Check::new),
            failed: false,
            _open: open,
        })
    }

    /// Takes the next bytes.
    pub(super) async fn write(&mut self, data: Bytes) -> Result<()> {
        if self.failed {
            return Err(VfsError::BadHandle);
        }
        let written = self.write_checked(&data).await;
        self.failed |= written.is_err();
        written
    }

    async fn write_checked(&mut self, data: &Bytes) -> Result<()> {
        self.vfs.0.check()?;
        if self.entry.is_over() {
            return Err(VfsError::NotFound);
        }
        let end = self.at.checked_add(data.len() as u64).ok_or(VfsError::NoSpace)?;
        if end > limits::FILE_BYTES {
            return Err(VfsError::Quota { what: "bytes a file", limit: limits::FILE_BYTES });
        }
        if let Some(expected) = self.end.filter(|most| end > *most) {
            return Err(VfsError::Incomplete { size: end, expected });
        }
        self.reserve(end)?;
        if !self.staged.try_write_at(self.at, data)? {
            self.staged.write_at(self.at, data.clone()).await?;
        }
        if let Some(digest) = &mut self.digest {
            digest.update(data);
        }
        if let Some(check) = &mut self.check {
            check.update(data);
        }
        self.at = end;
        self.moving.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        Ok(())
    }

    /// Notes bytes that are there already and are the same.
    pub(super) fn compared(&mut self, data: &[u8]) {
        if let Some(check) = &mut self.check {
            check.update(data);
        }
        self.at = self.at.saturating_add(data.len() as u64);
    }

    /// Promises room up to `end`, and some ahead where there is so much.
    fn reserve(&mut self, end: u64) -> Result<()> {
        if end <= self.reserved {
            return Ok(());
        }
        let ahead = end.saturating_add(limits::RESERVE_BYTES);
        let grown = self.vfs.data_plane().book.with_room(&self.id, |note, room| {
            let most = note.by_id.as_ref().and_then(|record| record.size);
            let Some(room) = room else { return Ok(ahead) };
            let wanted = most.unwrap_or(ahead).max(end);
            match room.grow_to(wanted) {
                Ok(()) => Ok(wanted),
                Err(_) => room.grow_to(end).map(|()| end),
            }
        });
        self.reserved = grown.ok_or(VfsError::NotFound)??;
        Ok(())
    }

    /// True if nothing of the request can count before its end is known.
    pub(super) fn is_checked(&self) -> bool {
        self.check.is_some()
    }

    /// Compares what came with what the client announced for this request.
    pub(super) fn check(&mut self) -> Result<()> {
        let agreed = self.check.take().is_none_or(Check::agrees);
        if agreed {
            return Ok(());
        }
        self.failed = true;
        Err(VfsError::DigestMismatch { what: "the checksum of this request" })
    }

    /// What was written and is not acknowledged.
    pub(super) fn written(&self) -> Written {
        let (id, staged) = (self.id.clone(), Arc::clone(&self.staged));
        Written { id, staged, start: self.start, end: self.at }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let plane = self.vfs.data_plane();
        let bytes = self.moving.bytes.load(Ordering::Relaxed);
        plane.book.end(self.moving.id);
        plane.meters.active_changed(Direction::In, -1);
        plane.meters.moved(Direction::In, self.vfs.0.protocol(), bytes);
        self.vfs.0.session.moved_in.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Sees to it that the upload has room in the quota of its mount as it is now.
async fn ensure_room(vfs: &Vfs, id: &UploadId, place: &MountedPath) -> Result<()> {
    let fresh = vfs.reservation(place).await?;
    let quota = place.mount.mount.quota.unwrap_or_default();
    let ensure = |note: &Partial, room: &mut Option<Reservation>| {
        let room = room.get_or_insert_with(|| {
            let mut room = fresh;
            room.force(note.kept_bytes());
            room
        });
        room.set_quota(quota);
    };
    vfs.data_plane().book.with_room(id, ensure).ok_or(VfsError::NotFound)
}

/// Makes bytes durable and notes durably that they are there: from then on they are acknowledged.
pub(super) async fn acknowledge(vfs: &Vfs, written: &Written) -> Result<()> {
    let plane = vfs.data_plane();
    written.staged.sync().await?;
    crash::point("resumable.synced");
    let days = vfs.0.session.live.principal().policy.partial_days;
    let now = plane.env.now();
    let noted = plane.book.change_by_id(&written.id, |note| {
        (note.at, note.boot) = (now, plane.boot.clone());
        note.until = now.plus(Duration::from_secs(u64::from(days) * 86_400));
        let Some(record) = &mut note.by_id else { return };
        if record.part_bytes.is_none() {
            note.contiguous = note.contiguous.max(written.end);
        } else {
            let mut present = Ranges::of(std::mem::take(&mut record.present));
            // Parts were counted when this one began.
            let _ = present.add(written.start, written.end);
            note.contiguous = present.contiguous();
            record.present = present.list();
        }
        note.synced = note.contiguous;
    });
    let sequence = noted.ok_or(VfsError::NotFound)??;
    plane.book.sync(sequence).await?;
    crash::point("resumable.noted");
    Ok(())
}
