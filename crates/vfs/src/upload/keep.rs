//! What stays of a cut upload where the store keeps only a part of it and cannot read it back
//! (whole parts of an object): its digest must be known up to there.

use entrepot_storage::{StagedFile, StoreError};

use super::Upload;
use crate::book::Kept;
use crate::notes::Partial;
use crate::place::Place;

/// Opens what was kept. A digest that is needed and not known makes it as good as gone.
pub(super) async fn reopen(
    place: &Place,
    kept: &mut Kept,
) -> Result<Box<dyn StagedFile>, StoreError> {
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

impl Upload {
    /// Bytes that could be gone on with were it cut now.
    pub(super) fn keepable(&self) -> u64 {
        let contiguous = self.ranges.contiguous();
        let Some(kept) = self.staged.kept() else { return contiguous };
        let hashed = self.checkpoint.as_ref().map_or(0, |digest| digest.length());
        if kept == hashed { kept.min(contiguous) } else { 0 }
    }

    /// Hashes the next bytes, and remembers the digest where the store would keep up to.
    pub(super) fn hash_in_order(&mut self, mut data: &[u8]) {
        let hashed = self.digest.length();
        let known = self.checkpoint.as_ref().map_or(0, |digest| digest.length());
        if let Some(kept) = self.staged.kept()
            && kept > known
            && let Some(ahead) = kept.checked_sub(hashed)
            && let Some((before, behind)) =
                usize::try_from(ahead).ok().and_then(|ahead| data.split_at_checked(ahead))
        {
            self.digest.update(before);
            self.checkpoint = Some(Box::new(self.digest.clone()));
            data = behind;
        }
        self.digest.update(data);
    }

    /// Notes what the store would keep, whenever that has grown by an eighth: each note holds all
    /// parts, and together they must not outgrow the file's own size.
    pub(super) fn mark_kept(&mut self) {
        let kept = self.staged.kept().unwrap_or(0);
        if kept > self.marked.saturating_add(self.marked / 8) && self.keepable() == kept {
            self.marked = kept;
            self.vfs.0.service.0.book.mark(&self.note());
        }
    }

    /// What is left of it should it not be published, where the store cannot say so itself.
    pub(super) fn left(&self) -> Option<Partial> {
        let keeps = self.staged.kept().is_some() && self.base.is_none() && self.keepable() > 0;
        keeps.then(|| self.note()).filter(|note| note.ticket.is_some())
    }
}
