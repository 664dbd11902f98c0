//! SHA-256 of published files, as far as it is known or somebody asks for it.

use entrepot_nouns::VPath;
use entrepot_storage::Identity;

use crate::by_version::VersionKey;
use crate::error::{Result, VfsError};
use crate::hash::{HashAlgorithm, HashRange};
use crate::place::{Last, MountedPath};
use crate::vfs::{Attributes, Vfs, attributes};

impl Vfs {
    /// The SHA-256 of a published file, if it was computed when the file came, or since, and this
    /// node remembers it. `attributes` are the version that is meant.
    ///
    /// # Errors
    /// The file may not be seen.
    pub async fn known_sha256(
        &self,
        path: &VPath,
        attributes: &Attributes,
    ) -> Result<Option<[u8; 32]>> {
        let known = &self.data_plane().sha256s;
        if known.is_empty() {
            return Ok(None);
        }
        let place = self.place(path, Last::Followed).await?.0.ok_or(VfsError::IsDirectory)?;
        Ok(known.look(key(&place, attributes)))
    }

    /// The SHA-256 of a published file; it is read if it is not known.
    ///
    /// # Errors
    /// There is no such file, it may not be read or changes meanwhile, or the account has had as
    /// many bytes hashed as it may.
    pub async fn sha256(&self, path: &VPath, attributes: &Attributes) -> Result<[u8; 32]> {
        if let Some(known) = self.known_sha256(path, attributes).await? {
            return Ok(known);
        }
        let hash = self.hash(path, &HashRange::whole(HashAlgorithm::Sha256)).await?;
        if self.stat(path).await?.version() != attributes.version() {
            return Err(VfsError::Conflict);
        }
        let hash = hash.first_chunk::<32>().copied().unwrap_or_default();
        let place = self.place(path, Last::Followed).await?.0.ok_or(VfsError::IsDirectory)?;
        self.data_plane().sha256s.note(key(&place, attributes), hash);
        Ok(hash)
    }

    /// Remembers the digest of what was just published, unless somebody has replaced it since.
    pub(crate) async fn remember_sha256(
        &self,
        place: &MountedPath,
        published: Option<&Identity>,
        sha256: [u8; 32],
    ) {
        let Ok(meta) = place.store.stat(&place.path).await else { return };
        if published.is_some() && meta.identity.as_ref() == published {
            let attributes = attributes(&meta, &place.mount);
            self.data_plane().sha256s.note(key(place, &attributes), sha256);
        }
    }
}

fn key(place: &MountedPath, attributes: &Attributes) -> VersionKey {
    VersionKey::of(place.endpoint(), place.path.as_str(), attributes.version())
}
