//! A file is kept before another one takes its name.

use entrepot_nouns::event::{Fact, VersionFact};
use entrepot_nouns::mount::TRASH_NAME;
use entrepot_nouns::{Event, StorePath, VPath, VersionOptions, crash};
use entrepot_storage::{EntryKind, Meta, StoreError};

use super::names::{Replacement, VersionNames, look};
use crate::error::Result;
use crate::node_quotas::CountedChange;
use crate::place::{Located, MountedPath};
use crate::quota::Reservation;
use crate::recount::Delta;
use crate::trash::folder::{link_into, move_into};
use crate::vfs::Vfs;

/// A file that is kept and still about to be replaced: who keeps it says how that ended.
#[must_use]
pub(crate) struct KeptVersion {
    vfs: Vfs,
    place: MountedPath,
    event: Event,
    kept_at: StorePath,
    size: u64,
    counted: CountedChange,
    _room: Reservation,
}

impl Vfs {
    /// How versions of a file are kept; `None`: they are not. What has a temporary name is not yet
    /// the file that its client means.
    pub(super) fn versions_of(&self, place: &MountedPath, path: &VPath) -> Option<VersionOptions> {
        let is_kept = self.may_keep(place) && !self.is_temporary(path);
        place.mount.mount.versions.filter(|_| is_kept)
    }

    /// Keeps the file that has a name and is about to lose it to another one, if its mount keeps
    /// versions. The caller holds the name.
    ///
    /// # Errors
    /// It cannot be kept; then it still has its name, and must not be replaced.
    pub(crate) async fn keep_version(
        &self,
        replaced: Located<'_>,
        there: Option<&Meta>,
    ) -> Result<Option<KeptVersion>> {
        let Located { place, path } = replaced;
        let Some(there) = there.filter(|there| there.kind == EntryKind::File) else {
            return Ok(None);
        };
        match self.versions_of(place, path) {
            Some(terms) => self.keep(replaced, there, terms).await,
            None => Ok(None),
        }
    }

    /// As [`Vfs::keep_version`], of a file that an upload replaces which was held: a rule lets it,
    /// and the client is who replaces.
    ///
    /// # Errors
    /// As [`Vfs::keep_version`].
    pub(crate) async fn keep_replaced(
        &self,
        replaced: Located<'_>,
        there: Option<&Meta>,
    ) -> Result<Option<KeptVersion>> {
        let terms = replaced.place.mount.mount.versions;
        match (there.filter(|there| there.kind == EntryKind::File), terms) {
            (Some(there), Some(terms)) => self.keep(replaced, there, terms).await,
            _ => Ok(None),
        }
    }

    async fn keep(
        &self,
        replaced: Located<'_>,
        there: &Meta,
        terms: VersionOptions,
    ) -> Result<Option<KeptVersion>> {
        let Located { place, path } = replaced;
        let (plane, prefix) = (self.data_plane(), &place.mount.prefix);
        let version = VersionFact {
            path: path.to_string(),
            size: there.size,
            modified: there.modified,
            endpoint: place.mount.endpoint.noun.name.clone(),
            prefix: prefix.as_str().to_owned(),
            stored: place.path.as_str().to_owned(),
            until: terms.time().map(|time| plane.env.now().plus(time)),
            keep: terms.keep,
            most_bytes: terms.bytes,
        };
        let fact = Fact::FileVersioned { version };
        let mut change = self.change(place, fact, there.identity.clone());
        let event = change.event.clone();
        let folder = prefix.join(TRASH_NAME)?;
        let kept_at = folder.join(&event.id.to_string())?;
        change.source = Some(std::mem::replace(&mut change.target, kept_at.clone()));
        // Its bytes are counted already, and stay so.
        let mut room = self.reservation(place).await?;
        room.add_file()?;
        let counted = plane.quotas.begin(place.endpoint(), &kept_at);
        plane.book.announce(change).await?;
        crash::point("version.intent");
        let kept = KeptVersion {
            vfs: self.clone(),
            place: place.clone(),
            event,
            kept_at,
            size: there.size,
            counted,
            _room: room,
        };
        let (store, file) = (&place.store, &place.path);
        let aside = match link_into(store, file, &folder, &kept.kept_at).await {
            Ok(()) => Ok(()),
            // Files have one name there, or this one has as many as it may.
            Err(_) => move_into(store, file, &folder, &kept.kept_at).await,
        };
        crash::point("version.kept");
        match aside {
            Ok(()) => Ok(Some(kept)),
            // Somebody else has removed it.
            Err(StoreError::NotFound) => {
                kept.settle().await;
                Ok(None)
            }
            Err(error) => {
                kept.settle().await;
                Err(error.into())
            }
        }
    }
}

impl KeptVersion {
    /// Another file has the name, and that is recorded.
    pub(crate) async fn replaced(self) {
        let plane = self.vfs.data_plane();
        let sequence = match plane.book.record(&self.event) {
            Ok(sequence) => sequence,
            Err(error) => {
                let path = &self.place.path;
                tracing::error!(code = error.code(), %error, %path, "a version is not recorded");
                plane.recovery.look_later(self.event.id);
                return;
            }
        };
        // Else the intent decides: it is durable.
        if self.place.is_shared()
            && let Err(error) = plane.book.sync(sequence).await
        {
            tracing::error!(code = error.code(), %error, "a version is not recorded for good");
        }
        self.counted.end(Delta::of_file(self.size));
        plane.trash.add(self.event);
    }

    /// Nobody knows whether another file has the name: what took it says that it has failed.
    pub(crate) async fn settle(self) {
        let names = VersionNames { file: &self.place.path, version: &self.kept_at };
        match look(&self.place.store, names).await {
            Ok(Replacement::Done) => self.replaced().await,
            Ok(Replacement::NotDone) => self.vfs.data_plane().book.dismiss(self.event.id),
            Err(error) => {
                let path = &self.place.path;
                tracing::warn!(%error, %path, "what became of a version is looked at later");
                self.vfs.data_plane().recovery.look_later(self.event.id);
            }
        }
    }
}
