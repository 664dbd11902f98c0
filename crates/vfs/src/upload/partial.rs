//! How far an upload is, as the journal knows it, and what stays of it when it is cut.

use std::sync::atomic::Ordering;
use std::time::Duration;

use entrepot_nouns::event::{Fact, FileFact};
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{Digests, Direction};

use super::layout::Layout;
use super::{CutBytes, Phase, Upload};
use crate::book::{KeptPartial, PartialKey};
use crate::error::Result;
use crate::limits;
use crate::meters::UploadEnd;
use crate::notes::Partial;
use crate::unbroken::later;

/// Whether the staged bytes of an upload that was not published can be resumed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Staged {
    Kept,
    Dropped,
}

impl Upload {
    /// Makes what was written durable, without publishing it: after a power cut it can be resumed
    /// from here.
    ///
    /// # Errors
    /// The store failed: the upload is refused from then on.
    pub async fn sync(&mut self) -> Result<()> {
        if let Some(refused) = self.refusal() {
            return Err(refused.clone());
        }
        let contiguous = self.ranges.contiguous();
        if let Err(error) = self.staged.sync().await {
            return Err(self.refuse(error.into()));
        }
        if let Layout::RandomAccess(_) = self.layout {
            self.marks.synced = contiguous;
            self.note_progress(self.marks.noted.max(contiguous));
        }
        Ok(())
    }

    /// Ends it without publishing; what came is kept for its owner to resume.
    pub async fn interrupt(mut self, reason: &str) {
        if self.is_resumable() && self.staged.sync().await.is_ok() {
            self.marks.synced = self.ranges.contiguous();
        }
        self.cut(reason);
    }

    /// Ends it without publishing; nothing is kept.
    pub async fn abort(mut self) {
        self.drop_staged("dropped by the client").await;
    }

    /// Drops the staged bytes and records why.
    pub(super) async fn drop_staged(&mut self, reason: &str) {
        if let Phase::Over = std::mem::replace(&mut self.phase, Phase::Over) {
            return;
        }
        if let Err(error) = self.staged.discard().await {
            tracing::warn!(%error, transfer = %self.moving.id, "staged bytes cannot be dropped");
        }
        self.end(UploadEnd::Failed);
        self.record_interrupted(reason, Staged::Dropped);
    }

    fn is_resumable(&self) -> bool {
        if self.record.is_some() {
            return true;
        }
        self.cut_bytes == CutBytes::Kept
            && self.refusal().is_none()
            && self.base.is_none()
            && !matches!(self.layout, Layout::Spooled(_))
            && self.keepable() > 0
            && self.place.store.caps().resume
    }

    /// Keeps what came, or drops it where nothing can be resumed. Needs no waiting.
    pub(super) fn cut(&mut self, reason: &str) {
        if let Phase::Over = self.phase {
            return;
        }
        let staged = if self.is_resumable() { Staged::Kept } else { Staged::Dropped };
        self.phase = Phase::Over;
        self.end(match staged {
            Staged::Kept => UploadEnd::Partial,
            Staged::Dropped => UploadEnd::Failed,
        });
        self.record_interrupted(reason, staged);
        if let Some(record) = self.record.take() {
            self.keep_record(*record);
            return;
        }
        self.reservation.shrink_to(self.ranges.contiguous());
        match staged {
            Staged::Kept => self.keep(),
            Staged::Dropped => self.drop_later(),
        }
    }

    fn keep(&mut self) {
        let mut reservation = std::mem::take(&mut self.reservation);
        let note = self.note();
        let end = if note.ticket.is_some() { note.contiguous } else { self.ranges.end() };
        reservation.shrink_to(end);
        let digest = self.layout.take_checkpoint();
        let kept = KeptPartial { note, reservation: Some(reservation), digest };
        self.vfs.data_plane().partials.keep(kept);
    }

    fn drop_later(&mut self) {
        let reservation = std::mem::take(&mut self.reservation);
        let (store, id) = (self.place.store.clone(), self.moving.id);
        // Its room comes back when it is done.
        later(async move {
            if let Err(error) = store.discard_staged(id).await {
                tracing::warn!(%error, transfer = %id, "staged bytes cannot be dropped");
            }
            drop(reservation);
        });
    }

    fn record_interrupted(&self, reason: &str, staged: Staged) {
        let file = self.fact(Digests::default());
        let (kept, reason) = (staged == Staged::Kept, reason.to_owned());
        let event = self.vfs.0.event(Fact::FileInterrupted { file, kept, reason });
        self.vfs.data_plane().book.tell(&event);
    }

    /// It moves no more.
    pub(super) fn end(&mut self, end: UploadEnd) {
        let plane = self.vfs.data_plane();
        let mut uploads = self.vfs.0.uploads.lock();
        if uploads.get(&self.path).is_some_and(|other| other.id == self.moving.id) {
            uploads.remove(&self.path);
        }
        drop(uploads);
        plane.book.end(self.moving.id);
        plane.meters.active_changed(Direction::In, -1);
        plane.meters.upload_ended(end);
        // What came by id was counted when it came.
        let moved = if self.record.is_some() { 0 } else { self.size };
        plane.meters.moved(Direction::In, self.vfs.0.protocol(), moved);
        self.vfs.0.session.moved_in.fetch_add(moved, Ordering::Relaxed);
    }

    /// The file as events describe it, when it replaces nothing.
    pub(super) fn fact(&self, digests: Digests) -> FileFact {
        FileFact {
            transfer: self.moving.id,
            path: self.path.to_string(),
            size: self.size,
            digests,
            protocol: self.record.as_ref().map_or(self.vfs.0.protocol(), |note| note.protocol),
            started_at: self.moving.started_at,
            identity: None,
            displaced: None,
            temporary: self.vfs.is_temporary(&self.path),
            as2: self.as2.clone(),
        }
    }

    /// Bytes from which it could be resumed were it cut now.
    fn keepable(&self) -> u64 {
        let contiguous = self.ranges.contiguous();
        let Some(kept) = self.staged.kept() else { return contiguous };
        // The store does not give these bytes back: their digest must be known up to there.
        let hashed = self.layout.checkpoint().map_or(0, |digest| digest.length());
        if kept == hashed { kept.min(contiguous) } else { 0 }
    }

    /// After a write: notes in the journal from time to time how far the upload is.
    pub(super) fn mark_progress(&mut self) {
        if self.record.is_some() || self.cut_bytes == CutBytes::Dropped {
            return;
        }
        if let Layout::RandomAccess(_) = self.layout {
            let contiguous = self.ranges.contiguous();
            if contiguous >= self.marks.noted.saturating_add(limits::MARK_BYTES) {
                self.note_progress(contiguous);
            }
            return;
        }
        // Each note holds the ids of all parts that the store has. It is written when those have
        // grown by an eighth, so that all notes together do not outgrow the file itself.
        let kept = self.staged.kept().unwrap_or(0);
        let noted = self.marks.noted;
        if kept > noted.saturating_add(noted / 8) && self.keepable() == kept {
            self.note_progress(kept);
        }
    }

    fn note_progress(&mut self, bytes: u64) {
        self.marks.noted = bytes;
        self.vfs.data_plane().book.mark(&self.note());
    }

    /// The file was cut: a mark beyond that would be trusted although something else is written
    /// there.
    pub(super) fn marks_cut(&mut self, size: u64) {
        self.marks.synced = self.marks.synced.min(size);
        if self.marks.noted > size {
            self.note_progress(size);
        }
    }

    /// What stays to be resumed should it not be published, where the store cannot say so itself.
    pub(super) fn left(&self) -> Option<Partial> {
        if let Some(record) = &self.record {
            return Some((**record).clone());
        }
        let keeps = self.staged.kept().is_some() && self.base.is_none() && self.keepable() > 0;
        keeps.then(|| self.note()).filter(|note| note.ticket.is_some())
    }

    fn note(&self) -> Partial {
        let plane = self.vfs.data_plane();
        let now = plane.env.now();
        let days = self.vfs.0.session.live.principal().policy.partial_days;
        let PartialKey { site, account, path } = self.vfs.partial_key(&self.path);
        let contiguous = self.keepable();
        let (synced, ticket) = match self.staged.kept() {
            None => (self.marks.synced.min(contiguous), None),
            Some(_) => (contiguous, self.staged.ticket()),
        };
        let digest = ticket.as_ref().and(self.layout.checkpoint()).and_then(|it| it.note());
        Partial {
            transfer: self.moving.id,
            site,
            account,
            path,
            endpoint: self.place.mount.endpoint.noun.name.clone(),
            mount: self.place.mount.mount.name.clone(),
            target: self.place.path.clone(),
            protocol: self.vfs.0.protocol(),
            contiguous,
            synced,
            boot: plane.boot.clone(),
            started_at: self.moving.started_at,
            at: now,
            until: now.plus(Duration::from_secs(u64::from(days) * 86_400)),
            ticket,
            digest: digest.map(|note| hex(&note)),
            replaces: self.replaces.clone(),
            by_id: None,
        }
    }
}
