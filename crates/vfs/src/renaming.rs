//! Files, directories and links get other names.

use entrepot_nouns::event::{Fact, FileFact};
use entrepot_nouns::{Right, VPath};
use entrepot_storage::{EntryKind, Existing, Meta, StoreError};

use crate::error::{Result, VfsError};
use crate::place::{Last, Located, MountedPath};
use crate::recount::Delta;
use crate::unbroken::unbroken;
use crate::vfs::{Vfs, check_same_mount};

/// How a rename ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Renamed {
    /// A file of the new name was there and is gone.
    pub replaced: bool,
    /// A temporary name became a final one.
    pub arrival: bool,
}

/// A rename that is allowed, and what was found under both names.
struct Renaming {
    old: MountedPath,
    from: VPath,
    new: MountedPath,
    to: VPath,
    meta: Meta,
    there: Option<Meta>,
}

impl Vfs {
    /// Fails if [`Vfs::rename`] would, once there is something of the old name.
    ///
    /// # Errors
    /// As [`Vfs::rename`].
    pub async fn check_rename(&self, from: &VPath, to: &VPath, existing: Existing) -> Result<()> {
        let (old, _) = self.changeable(from, Last::Itself).await?;
        let (new, _) = self.changeable(to, Last::Itself).await?;
        check_same_mount(&old, &new)?;
        old.need(Right::Rename)?;
        match new.store.stat(&new.path).await {
            Ok(_) if existing == Existing::Refuse => Err(VfsError::Exists),
            Ok(_) => new.need(Right::Overwrite),
            Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives a file, directory or link another name within its mount.
    ///
    /// # Errors
    /// The new name is taken and may not be, lies in another mount, or a right is missing.
    pub async fn rename(&self, from: &VPath, to: &VPath, existing: Existing) -> Result<Renamed> {
        let (old, from) = self.changeable(from, Last::Itself).await?;
        let (new, to) = self.changeable(to, Last::Itself).await?;
        check_same_mount(&old, &new)?;
        old.need(Right::Rename)?;
        let names = &self.data_plane().names;
        let held = names.hold_both(old.endpoint(), &old.path, &new.path).await;
        let meta = match old.store.stat(&old.path).await {
            Ok(meta) => Some(meta),
            Err(StoreError::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        let there = match new.store.stat(&new.path).await {
            Ok(meta) => Some(meta),
            Err(StoreError::NotFound) => None,
            Err(error) => return Err(error.into()),
        };
        if old.path == new.path {
            return Ok(Renamed { replaced: false, arrival: false });
        }
        if there.is_some() && existing == Existing::Refuse {
            return Err(VfsError::Exists);
        }
        if there.is_some() {
            new.need(Right::Overwrite)?;
        }
        let Some(meta) = meta else {
            let waiting = self.held_temporary(&old).ok_or(VfsError::NotFound)?;
            return self.rename_temporary(waiting, &old, Located { place: &new, path: &to }).await;
        };
        if meta.kind == EntryKind::Link {
            let (old, new) =
                (Located { place: &old, path: &from }, Located { place: &new, path: &to });
            self.check_moved_link(old, new).await?;
        }
        let (from, to) = (from.into_owned(), to.into_owned());
        let (vfs, renaming) = (self.clone(), Renaming { old, from, new, to, meta, there });
        unbroken(async move {
            let _held = held;
            vfs.rename_held(renaming, existing).await
        })
        .await
    }

    /// Keeps what has the new name, where its mount keeps versions, and renames.
    async fn rename_held(&self, renaming: Renaming, existing: Existing) -> Result<Renamed> {
        let Renaming { old, from, new, to, meta, there } = renaming;
        let replaced = there.as_ref().filter(|_| meta.kind != EntryKind::Directory);
        let version = self.keep_version(Located { place: &new, path: &to }, replaced).await?;
        let renamed = Located { place: &old, path: &from };
        let (fact, arrival) = self.renamed(renamed, &meta, &to, there.as_ref());
        let mut change = self.change(&new, fact, meta.identity.clone());
        change.source = Some(old.path.clone());
        let (store, source, target) = (old.store.clone(), old.path.clone(), new.path.clone());
        let was_there = version.as_ref().map(|_| there.as_ref().map(Meta::displaced));
        let work = async move {
            let renamed = store.rename(&source, &target, existing).await?;
            // What was moved aside is replaced all the same.
            Ok(renamed.displaced.or(was_there.flatten()))
        };
        let quotas = &self.data_plane().quotas;
        let left = quotas.begin(old.endpoint(), &old.path);
        let taken = quotas.begin(new.endpoint(), &new.path);
        let displaced = self.carry_out_over(change, (), work).await;
        if let Some(version) = version {
            match &displaced {
                Ok(_) => version.replaced().await,
                Err(_) => version.settle().await,
            }
        }
        let displaced = displaced?;
        self.forget_temporary(&old);
        left.end(Delta::of(&meta).less());
        taken.end(Delta::of(&meta).over(there.as_ref()));
        Ok(Renamed { replaced: displaced.is_some(), arrival })
    }

    /// The fact of a rename of what `old` has under its name, and whether it is an arrival;
    /// `gone` is what had the new name before.
    fn renamed(
        &self,
        old: Located<'_>,
        meta: &Meta,
        to: &VPath,
        gone: Option<&Meta>,
    ) -> (Fact, bool) {
        let (from, displaced) = (old.path, gone.map(Meta::displaced));
        let is_file = meta.kind == EntryKind::File;
        let arrival = is_file && self.is_temporary(from) && !self.is_temporary(to);
        let known = self.data_plane().book.recall(&self.temporary_key(old.place));
        let file = known.filter(|_| arrival).map(|file| {
            let (path, displaced) = (to.to_string(), displaced.clone());
            Box::new(FileFact { path, temporary: false, displaced, ..file })
        });
        let fact = Fact::FileRenamed {
            from: from.to_string(),
            to: to.to_string(),
            displaced,
            arrival,
            size: meta.size,
            file,
        };
        (fact, arrival)
    }
}
