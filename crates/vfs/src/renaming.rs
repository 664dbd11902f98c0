//! Files, directories and links get other names.

use entrepot_nouns::event::{Fact, FileFact};
use entrepot_nouns::{Displaced, Right, VPath};
use entrepot_storage::{EntryKind, Existing, Meta};

use crate::error::{Result, VfsError};
use crate::place::{Last, Located, MountedPath};
use crate::recount::Delta;
use crate::unbroken::unbroken;
use crate::versions::KeptVersion;
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

/// Something that gets another name.
pub(crate) struct Moving<'a> {
    pub(crate) from: &'a MountedPath,
    pub(crate) to: &'a MountedPath,
    pub(crate) meta: &'a Meta,
    /// What has the name.
    pub(crate) there: Option<&'a Meta>,
    /// The same, if it was moved aside to be kept.
    pub(crate) version: Option<KeptVersion>,
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
        match new.look().await? {
            Some(_) if existing == Existing::Refuse => Err(VfsError::Exists),
            Some(_) => new.need(Right::Overwrite),
            None => Ok(()),
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
        let meta = old.look().await?;
        let there = new.look().await?;
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
        let (from, to, there) = (&old, &new, there.as_ref());
        let moving = Moving { from, to, meta: &meta, there, version };
        let displaced = self.change_name(moving, fact, existing).await?;
        self.forget_temporary(&old);
        Ok(Renamed { replaced: displaced.is_some(), arrival })
    }

    /// Gives something another name, tells so, and counts it. Says from which file it took the
    /// name.
    pub(crate) async fn change_name(
        &self,
        moving: Moving<'_>,
        fact: Fact,
        existing: Existing,
    ) -> Result<Option<Displaced>> {
        let Moving { from, to, meta, there, version } = moving;
        let mut change = self.change(to, fact, meta.identity.clone());
        change.source = Some(from.path.clone());
        let (store, source, target) = (from.store.clone(), from.path.clone(), to.path.clone());
        let was_there = version.as_ref().and_then(|_| there.map(Meta::displaced));
        let work = async move {
            let renamed = store.rename(&source, &target, existing).await?;
            // What was moved aside is replaced all the same.
            Ok(renamed.displaced.or(was_there))
        };
        let quotas = &self.data_plane().quotas;
        let left = quotas.begin(from.endpoint(), &from.path);
        let taken = quotas.begin(to.endpoint(), &to.path);
        let displaced = self.carry_out_over(change, (), work).await;
        if let Some(version) = version {
            match &displaced {
                Ok(_) => version.replaced().await,
                Err(_) => version.settle().await,
            }
        }
        let displaced = displaced?;
        left.end(Delta::of(meta).less());
        taken.end(Delta::of(meta).over(there));
        Ok(displaced)
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
