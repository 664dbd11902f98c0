//! Versions of a file, as a session sees them and reads them.

use std::borrow::Cow;

use entrepot_db::TrashPlace;
use entrepot_nouns::event::{Fact, VersionFact};
use entrepot_nouns::{Event, EventId, Name, Right, StorePath, Timestamp, VPath};

use crate::download::Download;
use crate::error::{Result, VfsError};
use crate::place::{self, Last, Lookup, MountedPath};
use crate::trash::shown::kept_at;
use crate::vfs::{Attributes, Vfs, attributes};

/// A file that was replaced and can be put back.
#[derive(Clone, Debug, PartialEq)]
pub struct FileVersion {
    /// The id of the event `file.versioned`.
    pub id: EventId,
    /// Bytes of the file.
    pub size: u64,
    /// When its content had last changed.
    pub modified: Timestamp,
    /// When it was replaced.
    pub replaced_at: Timestamp,
    /// Which account replaced it.
    pub replaced_by: Option<Name>,
    /// From then on it is deleted for good; `None`: its time does not end.
    pub until: Option<Timestamp>,
}

/// A page of the versions of a file, the newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct VersionPage {
    /// Fewer than asked for also where there are more.
    pub versions: Vec<FileVersion>,
    /// What the next page comes behind; `None`: this is the last one.
    pub next: Option<EventId>,
}

/// A version of a file, and where it lies.
pub(super) struct Kept {
    pub(super) event: Event,
    pub(super) kept_at: StorePath,
}

impl FileVersion {
    fn of(event: &Event) -> Option<FileVersion> {
        let Fact::FileVersioned { version } = &event.fact else { return None };
        let VersionFact { size, modified, until, .. } = version;
        Some(FileVersion {
            id: event.id,
            size: *size,
            modified: *modified,
            replaced_at: event.at,
            replaced_by: event.account.clone(),
            until: *until,
        })
    }
}

impl Vfs {
    /// True if what is replaced in a directory is kept, and may be read.
    pub fn has_versions(&self, folder: &VPath) -> bool {
        let principal = self.0.session.live.principal();
        match place::find(&principal, folder) {
            Ok(Lookup::Mounted(mount, _)) => {
                mount.mount.versions.is_some() && mount.rights.has(Right::Read)
            }
            _ => false,
        }
    }

    /// The versions of a file that can be put back, the newest first: a page behind `behind`. There
    /// may be some of a file that was removed or renamed since.
    ///
    /// # Errors
    /// The file may not be read, or the database cannot be asked now.
    pub async fn versions(
        &self,
        path: &VPath,
        behind: Option<EventId>,
        limit: u32,
    ) -> Result<VersionPage> {
        let (place, _) = self.readable(path).await?;
        let page = self.data_plane().trash.newest(self.of_file(&place), behind, limit).await?;
        let versions = page.events.iter().filter_map(FileVersion::of).collect();
        Ok(VersionPage { versions, next: page.end })
    }

    /// What is known of a version of a file.
    ///
    /// # Errors
    /// The file may not be read, or there is no such version of it (any more).
    pub async fn version_attributes(&self, path: &VPath, id: EventId) -> Result<Attributes> {
        let (place, _) = self.readable(path).await?;
        let kept = self.kept_version(&place, id).await?;
        Ok(attributes(&place.store.stat(&kept.kept_at).await?, &place.mount))
    }

    /// Opens a version of a file to read.
    ///
    /// # Errors
    /// As [`Vfs::version_attributes`], or the account has too much open.
    pub async fn open_version(&self, path: &VPath, id: EventId) -> Result<Download> {
        let (mut place, path) = self.readable(path).await?;
        let kept = self.kept_version(&place, id).await?;
        place.path = kept.kept_at;
        self.open_at(&place, path.into_owned()).await
    }

    /// The place of a file that may be read.
    async fn readable<'a>(&self, path: &'a VPath) -> Result<(MountedPath, Cow<'a, VPath>)> {
        let (place, path) = self.place(path, Last::Followed).await?;
        let place = place.ok_or(VfsError::IsDirectory)?;
        place.need(Right::Read)?;
        Ok((place, path))
    }

    fn of_file<'a>(&self, place: &'a MountedPath) -> TrashPlace<'a> {
        TrashPlace {
            site: self.0.scope.site,
            endpoint: &place.mount.endpoint.noun.name,
            prefix: place.mount.prefix.as_str(),
            version_of: Some(place.path.as_str()),
        }
    }

    /// A version of the file at a place.
    pub(super) async fn kept_version(&self, place: &MountedPath, id: EventId) -> Result<Kept> {
        let event = self.data_plane().trash.find(self.0.scope.site, id).await?;
        let is_of_file = |event: &Event| TrashPlace::of(event) == Some(self.of_file(place));
        let event = event.filter(is_of_file).ok_or(VfsError::NotFound)?;
        let kept_at = kept_at(&event).ok_or(VfsError::NotFound)?;
        Ok(Kept { event, kept_at })
    }
}
