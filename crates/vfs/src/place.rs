//! Where a virtual path lies: mount, endpoint, path there.

use std::sync::Arc;

use entrepot_auth::{EffectiveMount, Principal};
use entrepot_crypto::Sha256;
use entrepot_nouns::mount::is_trash_name;
use entrepot_nouns::{MountOption, Right, StorePath, TransferId, VPath};
use entrepot_storage::{AnyStore, Meta, StagedFile, StoreError};
use uuid::Uuid;

use crate::error::{Result, VfsError};
use crate::trash::folder;
use crate::{quota, stores};

/// Whether a link that is the last name of a path is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Last {
    /// It is: the path means what the link leads to.
    Followed,
    /// It is not: the path means the link.
    Itself,
}

/// A virtual path below a mount, with its store open.
#[derive(Clone)]
pub(crate) struct MountedPath {
    pub(crate) mount: Arc<EffectiveMount>,
    pub(crate) store: AnyStore,
    /// Path at the endpoint.
    pub(crate) path: StorePath,
    /// The path is the mount's own: a directory that cannot be changed through it.
    pub(crate) is_root: bool,
}

impl MountedPath {
    /// Id of the endpoint.
    pub(crate) fn endpoint(&self) -> Uuid {
        self.mount.endpoint.id
    }

    /// The directory of the endpoint that the mount shows.
    pub(crate) fn is_prefix(&self) -> bool {
        self.path == self.mount.prefix
    }

    /// Makes the directory that the mount shows again if somebody has removed it behind the node's
    /// back; false if it is there. For when something was not found.
    pub(crate) async fn remake_prefix(&self) -> Result<bool> {
        stores::remake_prefix(&self.store, &self.mount.prefix).await
    }

    /// What has this name; `None`: nothing.
    pub(crate) async fn look(&self) -> Result<Option<Meta>> {
        match self.store.stat(&self.path).await {
            Ok(meta) => Ok(Some(meta)),
            Err(StoreError::NotFound) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes what is missing of the directory that a file of this place is published in, as far as
    /// it is ours to make; false if it is there.
    pub(crate) async fn remake_directory(&self) -> Result<bool> {
        let remade = self.remake_prefix().await?;
        match self.path.parent().filter(|folder| folder.components().any(is_trash_name)) {
            Some(hidden) => {
                folder::make(&self.store, &hidden).await?;
                Ok(true)
            }
            None => Ok(remade),
        }
    }

    /// Begins a file that is to be published at `target`.
    pub(crate) async fn stage(
        &self,
        transfer: TransferId,
        target: &StorePath,
    ) -> Result<Box<dyn StagedFile>> {
        match self.store.stage(transfer, target).await {
            Err(StoreError::NotFound) if self.remake_directory().await? => {
                Ok(self.store.stage(transfer, target).await?)
            }
            staged => Ok(staged?),
        }
    }

    /// Whether others change names at the endpoint too.
    pub(crate) fn is_shared(&self) -> bool {
        self.mount.endpoint.noun.target.is_shared()
    }

    /// From now on the store tells links, where the mount offers them.
    pub(crate) fn tell_links(&mut self) {
        if self.mount.mount.offers(MountOption::Symlinks)
            && let Some(store) = self.store.with_links()
        {
            self.store = store;
        }
    }

    /// What the quota of this mount counts.
    pub(crate) fn counted(&self) -> quota::CountedDirectory {
        let (endpoint, path) = (self.endpoint(), self.mount.counted.clone());
        quota::CountedDirectory { endpoint, path }
    }

    /// Whether the mount asks for SHA-256 besides BLAKE3.
    pub(crate) fn sha256(&self) -> Sha256 {
        if self.mount.mount.sha256 { Sha256::Wanted } else { Sha256::Unwanted }
    }

    /// Fails unless the account has the right here.
    pub(crate) fn need(&self, right: Right) -> Result<()> {
        if self.mount.rights.has(right) { Ok(()) } else { Err(VfsError::denied(verb(right))) }
    }
}

/// A name in a mount: its path as the session sees it, and its place.
#[derive(Clone, Copy)]
pub(crate) struct Located<'a> {
    pub(crate) place: &'a MountedPath,
    pub(crate) path: &'a VPath,
}

/// The right in words that follow "may not".
fn verb(right: Right) -> &'static str {
    match right {
        Right::List => "list files",
        Right::Read => "read files",
        Right::Write => "create files",
        Right::Overwrite => "replace files",
        Right::Delete => "remove files",
        Right::Rename => "rename files",
        Right::Directories => "make or remove directories",
    }
}

/// What a virtual path is.
pub(crate) enum Lookup<'a> {
    /// Below (or at) a mount.
    Mounted(&'a EffectiveMount, StorePath),
    /// A directory that exists because mounts lie below it.
    Above,
    /// No mount lies at the path, above it or below it.
    Nothing,
}

/// Looks `path` up among the account's mounts; the deepest wins. What was removed and is kept has
/// no path.
pub(crate) fn find<'a>(principal: &'a Principal, path: &VPath) -> Result<Lookup<'a>> {
    for mount in &principal.mounts {
        if let Some(rest) = path.below(&mount.path) {
            if rest.components().any(is_trash_name) {
                return Ok(Lookup::Nothing);
            }
            return Ok(Lookup::Mounted(mount, mount.prefix.append(&rest)?));
        }
    }
    let above =
        path.is_root() || principal.mounts.iter().any(|mount| mount.path.below(path).is_some());
    Ok(if above { Lookup::Above } else { Lookup::Nothing })
}

/// Names of directories directly below `path` that exist because of mounts.
pub(crate) fn mounted_names(principal: &Principal, path: &VPath) -> Vec<String> {
    let mut names: Vec<String> = principal
        .mounts
        .iter()
        .filter_map(|mount| mount.path.below(path)?.components().next().map(str::to_owned))
        .collect();
    names.sort();
    names.dedup();
    names
}
