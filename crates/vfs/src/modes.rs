//! Permission bits, where the store keeps them: clients change those that the mask of the mount
//! has. Elsewhere, and of the directory that is a mount itself, nothing is changed.

use entrepot_nouns::event::Fact;
use entrepot_nouns::{Right, VPath};
use entrepot_storage::{ModeChange, ModeOrigin};

use crate::error::{Result, VfsError};
use crate::notes::octal;
use crate::place::{Last, MountedPath};
use crate::vfs::Vfs;

impl MountedPath {
    /// What bits named by a client come to; `None` where none are kept.
    pub(crate) fn mode_change(&self, bits: u32, origin: ModeOrigin) -> Option<ModeChange> {
        let mask = self.mount.mount.mode_mask();
        let are_kept = self.store.caps().modes && !mask.is_empty();
        are_kept.then(|| ModeChange { bits, mask: mask.bits(), origin })
    }
}

impl Vfs {
    /// Sets permission bits of a file or directory, as far as the mount lets clients; says what
    /// they are now. `None`: none are kept here, nothing was changed.
    ///
    /// # Errors
    /// There is no such file, it may not be changed, or it has several names.
    pub async fn set_mode(&self, path: &VPath, bits: u32) -> Result<Option<u32>> {
        let (Some(place), path) = self.place(path, Last::Followed).await? else { return Ok(None) };
        if !place.mount.rights.has(Right::Write) {
            place.need(Right::Overwrite)?;
        }
        let meta = place.store.stat(&place.path).await?;
        let change = place.mode_change(bits, ModeOrigin::Request).filter(|_| !place.is_root);
        let (Some(change), Some(before)) = (change, meta.mode) else { return Ok(None) };
        let wanted = change.of(before, meta.kind);
        if wanted == before {
            return Ok(Some(before));
        }
        let held = self.data_plane().names.hold(place.endpoint(), &place.path).await;
        let (path, from, to) = (path.to_string(), octal(before), octal(wanted));
        let intent =
            self.change(&place, Fact::ModeChanged { path, from, to }, meta.identity.clone());
        let work = async move { place.store.set_mode(&place.path, change).await.map(drop) };
        match self.carry_out(intent, held, work).await {
            Ok(()) => Ok(Some(wanted)),
            Err(VfsError::Unsupported) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// As [`Vfs::make_directory`], with the permission bits that its maker names, where such are
    /// kept: as far as the mount and the umask of the process let them.
    ///
    /// # Errors
    /// As [`Vfs::make_directory`].
    pub async fn make_directory_with_mode(&self, path: &VPath, bits: u32) -> Result<()> {
        let (place, path) = self.directory_to_make(path).await?;
        let mode = place.mode_change(bits, ModeOrigin::Creation);
        let change = self.change(&place, Fact::DirectoryCreated { path: path.to_string() }, None);
        let work = async move {
            match mode {
                Some(mode) => place.store.make_directory_with(&place.path, mode).await,
                None => place.store.make_directory(&place.path).await,
            }
        };
        self.carry_out(change, (), work).await
    }
}
