//! A version is put back, or deleted for good.

use entrepot_nouns::event::Fact;
use entrepot_nouns::{EventId, Right, VPath};
use entrepot_storage::{EntryKind, Existing, Meta, StoreError};

use super::shown::Kept;
use crate::error::{Result, VfsError};
use crate::place::{Last, Located, MountedPath};
use crate::recount::Delta;
use crate::trash::purge::{Doomed, purged};
use crate::unbroken::unbroken;
use crate::vfs::Vfs;

impl Vfs {
    /// Puts a version of a file back: it has the name again, and what has the name now becomes a
    /// version. Directories above it that are gone are made again. Answers whether there was a file
    /// to replace.
    ///
    /// # Errors
    /// There is no such version (any more), or a right is missing. [`VfsError::Exists`]: the mount
    /// keeps no versions any more, and the file that is there would be lost.
    pub async fn restore_version(&self, path: &VPath, id: EventId) -> Result<bool> {
        let (place, path) = self.changeable(path, Last::Followed).await?;
        place.need(Right::Read)?;
        let kept = self.kept_version(&place, id).await?;
        let (vfs, path) = (self.clone(), path.into_owned());
        unbroken(async move { vfs.put_version_back(place, path, kept).await }).await
    }

    async fn put_version_back(&self, place: MountedPath, path: VPath, kept: Kept) -> Result<bool> {
        let Kept { event, kept_at } = kept;
        let plane = self.data_plane();
        let _held = plane.names.hold_both(place.endpoint(), &kept_at, &place.path).await;
        let there = self.may_put_back(&place, &path).await?;
        if there.is_none() {
            self.make_parents(&path).await?;
        }
        let meta = place.store.stat(&kept_at).await?;
        let located = Located { place: &place, path: &path };
        let replaced = self.keep_version(located, there.as_ref()).await?;
        let fact = Fact::FileRestored {
            path: path.to_string(),
            directory: false,
            size: meta.size,
            trashed: event.id,
        };
        let mut change = self.change(&place, fact, meta.identity.clone());
        change.source = Some(kept_at.clone());
        let (store, source, target) = (place.store.clone(), kept_at.clone(), place.path.clone());
        let work = async move { store.rename(&source, &target, Existing::Replace).await.map(drop) };
        let left = plane.quotas.begin(place.endpoint(), &kept_at);
        let taken = plane.quotas.begin(place.endpoint(), &place.path);
        let restored = self.carry_out(change, (), work).await;
        if let Some(replaced) = replaced {
            match &restored {
                Ok(()) => replaced.replaced().await,
                Err(_) => replaced.settle().await,
            }
        }
        restored?;
        plane.trash.end(event.id);
        left.end(Delta::of(&meta).less());
        taken.end(Delta::of(&meta).over(there.as_ref()));
        Ok(there.is_some())
    }

    /// What has the name now, if it may be replaced and is not lost by it.
    async fn may_put_back(&self, place: &MountedPath, path: &VPath) -> Result<Option<Meta>> {
        match place.store.stat(&place.path).await {
            Ok(meta) if meta.kind == EntryKind::Directory => Err(VfsError::IsDirectory),
            Ok(meta) => {
                place.need(Right::Overwrite)?;
                let is_kept = self.versions_of(place, path).is_some();
                if is_kept { Ok(Some(meta)) } else { Err(VfsError::Exists) }
            }
            Err(StoreError::NotFound | StoreError::NotDirectory) => {
                place.need(Right::Write)?;
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a version of a file for good.
    ///
    /// # Errors
    /// There is no such version (any more), a right is missing, or the store failed.
    pub async fn remove_version(&self, path: &VPath, id: EventId) -> Result<()> {
        let (place, _) = self.changeable(path, Last::Followed).await?;
        place.need(Right::Delete)?;
        let Kept { event, kept_at } = self.kept_version(&place, id).await?;
        let plane = self.data_plane();
        let doomed = Doomed { store: &place.store, endpoint: place.endpoint(), root: kept_at };
        plane.delete_for_good(doomed).await?;
        let fact = purged(&event).ok_or(VfsError::NotFound)?;
        plane.book.record(&self.0.event(fact))?;
        plane.trash.end(id);
        Ok(())
    }
}
