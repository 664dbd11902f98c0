//! Uploads that a mount holds: whole, durable, and hidden until they are released.
//!
//! Such a file lies in the hidden directory of its mount, beside what was removed, under the id of
//! its transfer. The event `file.held` says which name it waits for; what has that name stays as it
//! is. To release it is a rename, in the name of the account that uploaded it, and only then the
//! file counts as uploaded. What a crash cut is decided by recovery, as every change of a name.

use std::borrow::Cow;

use entrepot_nouns::event::{DecidedFact, Fact, FileFact, HeldFact};
use entrepot_nouns::mount::{HELD_PREFIX, TRASH_NAME};
use entrepot_nouns::{Right, Rights, StorePath, TransferId, VPath};
use entrepot_storage::{EntryKind, Existing, Meta};

use crate::error::{Result, VfsError};
use crate::place::{Last, Located, MountedPath};
use crate::recount::Delta;
use crate::renaming::{Moving, Renamed};
use crate::unbroken::unbroken;
use crate::vfs::{Attributes, Vfs};

/// Where the file of a transfer lies that the mount of this directory holds.
///
/// # Errors
/// The directory has too long a name for that.
pub fn held_at(prefix: &StorePath, transfer: TransferId) -> Result<StorePath> {
    Ok(prefix.join(TRASH_NAME)?.join(&format!("{HELD_PREFIX}{transfer}"))?)
}

impl MountedPath {
    /// The place of a file of this transfer while it is held.
    pub(crate) fn held(&self, transfer: TransferId) -> Result<MountedPath> {
        let path = held_at(&self.mount.prefix, transfer)?;
        Ok(MountedPath { path, is_root: false, ..self.clone() })
    }

    /// A file that waits for the name of this place.
    pub(crate) fn waiting(&self, file: FileFact) -> HeldFact {
        HeldFact {
            file,
            endpoint: self.mount.endpoint.noun.name.clone(),
            prefix: self.mount.prefix.as_str().to_owned(),
            stored: self.path.as_str().to_owned(),
        }
    }
}

impl Vfs {
    /// Whether uploads to this place are held. What rules write is not: who wrote them has decided.
    pub(crate) fn holds(&self, place: &MountedPath) -> bool {
        place.mount.mount.hold && self.may_keep(place)
    }

    /// Where the bytes of an upload to this place are published.
    pub(crate) fn upload_place(
        &self,
        place: &MountedPath,
        transfer: TransferId,
    ) -> Result<MountedPath> {
        if self.holds(place) { place.held(transfer) } else { Ok(place.clone()) }
    }

    /// One's own upload under a temporary name that is held: its client renames it, and asks before
    /// whether it is there.
    pub(crate) fn held_temporary(&self, place: &MountedPath) -> Option<FileFact> {
        let known = self.data_plane().book.recall(&self.temporary_key(place));
        known.filter(|file| file.temporary && self.holds(place))
    }

    /// What its client sees of it.
    pub(crate) fn held_attributes(
        &self,
        place: &MountedPath,
        rights: Rights,
    ) -> Result<Attributes> {
        let file = self.held_temporary(place).ok_or(VfsError::NotFound)?;
        Ok(Attributes {
            kind: EntryKind::File,
            size: file.size,
            modified: file.started_at,
            accessed: file.started_at,
            rights,
            mode: None,
            partial: true,
            identity: None,
        })
    }

    /// The client of a held upload gives it another name. Nothing moves: it waits for that name
    /// from now on, durably.
    pub(crate) async fn rename_temporary(
        &self,
        file: FileFact,
        old: &MountedPath,
        renamed: Located<'_>,
    ) -> Result<Renamed> {
        let Located { place, path } = renamed;
        let arrival = !self.is_temporary(path);
        let file = FileFact { path: path.to_string(), temporary: !arrival, ..file };
        let event = self.0.event(Fact::FileHeld { held: place.waiting(file.clone()) });
        let book = &self.data_plane().book;
        let sequence = book.record(&event)?;
        book.sync(sequence).await?;
        self.forget_temporary(old);
        if !arrival {
            book.remember(self.temporary_key(place), file);
        }
        Ok(Renamed { replaced: false, arrival })
    }

    /// Gives a file the name that it waits for. The session is one of the account that uploaded it.
    ///
    /// # Errors
    /// [`VfsError::NotFound`]: it is not held any more, or its mount shows another directory now.
    /// [`VfsError::Exists`]: the name is taken and may not be. Else a right is missing, or the
    /// store failed; then it is held as before.
    pub async fn release(&self, held: &HeldFact, existing: Existing) -> Result<()> {
        let path: VPath = held.file.path.parse().map_err(|_| VfsError::NotFound)?;
        let (place, path) = self.held_place(held, &path).await?;
        self.make_parents(&path).await?;
        let kept = place.held(held.file.transfer)?;
        let names = &self.data_plane().names;
        let locks = names.hold_both(place.endpoint(), &kept.path, &place.path).await;
        let meta = kept.store.stat(&kept.path).await?;
        let there = place.look().await?;
        match &there {
            Some(there) if there.kind == EntryKind::Directory => return Err(VfsError::IsDirectory),
            Some(_) if existing == Existing::Refuse => return Err(VfsError::Exists),
            _ => {}
        }
        place.need(if there.is_some() { Right::Overwrite } else { Right::Write })?;
        let identity = meta.identity.clone().map(|identity| identity.0);
        let displaced = there.as_ref().map(Meta::displaced);
        let file = FileFact { identity, displaced, ..held.file.clone() };
        let (vfs, path) = (self.clone(), path.into_owned());
        let release = Release { place, path, kept, meta, there, file };
        unbroken(async move {
            let _locks = locks;
            vfs.release_here(release, existing).await
        })
        .await
    }

    async fn release_here(&self, release: Release, existing: Existing) -> Result<()> {
        let Release { place, path, kept, meta, there, file } = release;
        let located = Located { place: &place, path: &path };
        let version = self.keep_replaced(located, there.as_ref()).await?;
        let (from, to, there) = (&kept, &place, there.as_ref());
        let moving = Moving { from, to, meta: &meta, there, version };
        self.change_name(moving, Fact::FileUploaded { file }, existing).await.map(drop)
    }

    /// Deletes a file for good that is held. The session is one of the account that uploaded it.
    ///
    /// # Errors
    /// As [`Vfs::release`].
    pub async fn discard_held(&self, held: &HeldFact, by: &str) -> Result<()> {
        let path: VPath = held.file.path.parse().map_err(|_| VfsError::NotFound)?;
        let (place, _) = self.held_place(held, &path).await?;
        let kept = place.held(held.file.transfer)?;
        let lock = self.data_plane().names.hold(kept.endpoint(), &kept.path).await;
        let meta = kept.store.stat(&kept.path).await?;
        let counted = self.data_plane().quotas.begin(kept.endpoint(), &kept.path);
        let decided = DecidedFact { held: held.clone(), by: by.to_owned() };
        let fact = Fact::FileDiscarded { decided };
        let change = self.change(&kept, fact, None);
        let (store, at) = (kept.store.clone(), kept.path.clone());
        self.carry_out(change, lock, async move { store.remove(&at).await }).await?;
        counted.end(Delta::of(&meta).less());
        Ok(())
    }

    /// The place of the name that a file waits for, as it was when the file came.
    async fn held_place<'a>(
        &self,
        held: &HeldFact,
        path: &'a VPath,
    ) -> Result<(MountedPath, Cow<'a, VPath>)> {
        let (place, path) = self.changeable(path, Last::Itself).await?;
        let mount = &place.mount;
        let is_there = mount.endpoint.noun.name == held.endpoint
            && mount.prefix.as_str() == held.prefix
            && place.path.as_str() == held.stored;
        if is_there { Ok((place, path)) } else { Err(VfsError::NotFound) }
    }
}

/// A file that is about to get its name.
struct Release {
    place: MountedPath,
    path: VPath,
    /// Where it is held.
    kept: MountedPath,
    meta: Meta,
    /// What has the name.
    there: Option<Meta>,
    file: FileFact,
}
