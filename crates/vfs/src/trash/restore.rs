//! What was removed is put back.

use entrepot_nouns::event::Fact;
use entrepot_nouns::{EventId, Right, VPath};
use entrepot_storage::{EntryKind, Existing, StoreError};

use super::shown::Trashed;
use crate::error::{Result, VfsError};
use crate::limits;
use crate::place::Last;
use crate::recount::Delta;
use crate::resumable::record::OnConflict;
use crate::vfs::Vfs;

impl Vfs {
    /// Puts back what was removed: under the name that it had, or with [`OnConflict::KeepBoth`]
    /// beside what has that name now. Nothing is ever replaced by it. Directories above it that
    /// are gone are made again. Answers the path that it has.
    ///
    /// # Errors
    /// It is not in the trash (any more), its name is taken, or a right is missing.
    pub async fn restore(&self, id: EventId, on_conflict: OnConflict) -> Result<VPath> {
        let Trashed { entry, kept_at, .. } = self.trashed(id).await?;
        let wanted = match on_conflict {
            OnConflict::KeepBoth => self.free_name(&entry.path).await?,
            OnConflict::Refuse | OnConflict::Replace => entry.path,
        };
        let (place, path) = self.changeable(&wanted, Last::Itself).await?;
        place.need(Right::Write)?;
        if entry.kind == EntryKind::Directory {
            place.need(Right::Directories)?;
        }
        match place.store.stat(&place.path).await {
            Ok(_) => return Err(VfsError::Exists),
            Err(StoreError::NotFound | StoreError::NotDirectory) => {}
            Err(error) => return Err(error.into()),
        }
        self.make_parents(&path).await?;
        let names = &self.data_plane().names;
        let held = names.hold_both(place.endpoint(), &kept_at, &place.path).await;
        let meta = place.store.stat(&kept_at).await?;
        let fact = Fact::FileRestored {
            path: path.to_string(),
            directory: meta.kind == EntryKind::Directory,
            size: meta.size,
            trashed: id,
        };
        let mut change = self.change(&place, fact, meta.identity.clone());
        change.source = Some(kept_at.clone());
        let (store, source, target) = (place.store.clone(), kept_at.clone(), place.path.clone());
        let work = async move { store.rename(&source, &target, Existing::Refuse).await.map(drop) };
        let quotas = &self.data_plane().quotas;
        let left = quotas.begin(place.endpoint(), &kept_at);
        let taken = quotas.begin(place.endpoint(), &place.path);
        self.carry_out(change, held, work).await?;
        self.data_plane().trash.end(id);
        left.end(Delta::of(&meta).less());
        taken.end(Delta::of(&meta));
        Ok(path.into_owned())
    }

    /// Makes the directories above a path that are not there.
    pub(crate) async fn make_parents(&self, path: &VPath) -> Result<()> {
        let mut missing = Vec::new();
        let mut above = path.parent();
        while let Some(directory) = above {
            match self.stat(&directory).await {
                Ok(there) if there.kind == EntryKind::Directory => break,
                Ok(_) => return Err(VfsError::NotDirectory),
                Err(VfsError::NotFound) if missing.len() < limits::RESTORED_PARENTS => {}
                Err(error) => return Err(error),
            }
            above = directory.parent();
            missing.push(directory);
        }
        for directory in missing.iter().rev() {
            match self.make_directory(directory).await {
                // Somebody else was faster.
                Ok(()) | Err(VfsError::Exists) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
