//! The permission bits of an uploaded file, where the store keeps them.

use entrepot_storage::{EntryKind, Meta, ModeChange, ModeOrigin};

use super::Upload;
use crate::error::Result;

/// Read, write and execute for owner, group and others.
const ACCESS_BITS: u32 = 0o777;

impl Upload {
    /// Permission bits for the published file, where such are kept. Those that are requested come
    /// before those named at its creation, which count only if it replaces nothing: a file that
    /// is replaced leaves its own to the new one.
    pub fn set_mode(&mut self, bits: u32, origin: ModeOrigin) {
        if origin == ModeOrigin::Request || self.wanted.mode.is_none() {
            self.wanted.mode = self.place.mode_change(bits, origin);
        }
    }

    /// The bits that were named for it, as far as the mount lets them count.
    pub fn named_mode(&self) -> Option<u32> {
        self.wanted.mode.map(|mode| mode.bits & mode.mask)
    }

    /// The bits that were requested, if any.
    pub(super) fn requested_mode(&self) -> Option<ModeChange> {
        self.wanted.mode.filter(|mode| mode.origin == ModeOrigin::Request)
    }

    /// What the published file gets, if it takes the name of `there`.
    pub(super) fn published_mode(&self, there: Option<&Meta>) -> Option<ModeChange> {
        let replaced = there.filter(|meta| meta.kind == EntryKind::File).and_then(|meta| meta.mode);
        let kept = replaced.map(|mode| ModeChange {
            bits: mode & ACCESS_BITS,
            mask: ACCESS_BITS,
            origin: ModeOrigin::Request,
        });
        self.requested_mode().or(kept).or(self.wanted.mode)
    }

    /// Sets the requested bits on a file that stays as it is otherwise.
    pub(super) async fn set_mode_of_untouched(&self) -> Result<()> {
        if let Some(mode) = self.requested_mode() {
            self.vfs.set_mode(&self.path, mode.bits).await?;
        }
        Ok(())
    }
}
