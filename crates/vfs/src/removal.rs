//! Files and directories are removed: for good, or into the trash of their mount.

use entrepot_nouns::event::Fact;
use entrepot_nouns::mount::TRASH_NAME;
use entrepot_nouns::{EndpointTarget, Right, TrashOptions, VPath};
use entrepot_storage::{EntryKind, Meta, StoreError};

use crate::error::{Result, VfsError};
use crate::place::{Last, Located, MountedPath};
use crate::recount::Delta;
use crate::trash::folder::move_into;
use crate::trash::shown::TrashedEntry;
use crate::vfs::Vfs;

/// What became of something that was removed.
#[derive(Clone, Debug, PartialEq)]
pub enum Removed {
    /// It is gone for good.
    Gone,
    /// It lies in the trash of its mount, from where it can be put back.
    Kept(TrashedEntry),
}

impl Vfs {
    /// Removes a file or link, or drops one's own unfinished upload of that name.
    ///
    /// # Errors
    /// There is no such file, it is a directory, or the right is missing.
    pub async fn remove(&self, path: &VPath) -> Result<()> {
        self.remove_undoable(path).await.map(drop)
    }

    /// As [`Vfs::remove`], and says whether it can be undone.
    ///
    /// # Errors
    /// As [`Vfs::remove`].
    pub async fn remove_undoable(&self, path: &VPath) -> Result<Removed> {
        let (place, path) = self.changeable(path, Last::Itself).await?;
        let meta = match place.store.stat(&place.path).await {
            Ok(meta) => meta,
            Err(StoreError::NotFound | StoreError::NotDirectory) => {
                let kept = self.data_plane().book.take(&self.partial_key(&path));
                self.data_plane().partials.discard(kept.ok_or(VfsError::NotFound)?).await;
                return Ok(Removed::Gone);
            }
            Err(error) => return Err(error.into()),
        };
        if meta.kind == EntryKind::Directory {
            return Err(VfsError::IsDirectory);
        }
        place.need(Right::Delete)?;
        let terms = self.trash_of(&place).filter(|_| meta.kind == EntryKind::File);
        if let Some(terms) = terms {
            let located = Located { place: &place, path: &path };
            return self.move_to_trash(located, &meta, terms).await.map(Removed::Kept);
        }
        let held = self.data_plane().names.hold(place.endpoint(), &place.path).await;
        let counted = self.data_plane().quotas.begin(place.endpoint(), &place.path);
        let change = self.change(&place, Fact::FileRemoved { path: path.to_string() }, None);
        let (store, at) = (place.store.clone(), place.path.clone());
        self.carry_out(change, held, async move { store.remove(&at).await }).await?;
        self.forget_temporary(&place);
        counted.end(Delta::of(&meta).less());
        Ok(Removed::Gone)
    }

    /// Removes an empty directory, for good: nothing is lost with it.
    ///
    /// # Errors
    /// It is not empty, no directory, a mount, or the right is missing.
    pub async fn remove_directory(&self, path: &VPath) -> Result<()> {
        let (place, path) = self.changeable(path, Last::Itself).await?;
        place.need(Right::Directories)?;
        match place.store.stat(&place.path).await?.kind {
            EntryKind::Directory => {}
            EntryKind::File | EntryKind::Link => return Err(VfsError::NotDirectory),
        }
        let fact = Fact::DirectoryRemoved { path: path.to_string() };
        let change = self.change(&place, fact, None);
        self.carry_out(change, (), async move { place.store.remove_directory(&place.path).await })
            .await
    }

    /// Moves a directory with all that is in it into the trash, in one step.
    ///
    /// # Errors
    /// [`VfsError::Unsupported`]: its mount keeps no trash, or another mount lies in it. Else as
    /// [`Vfs::remove_directory`].
    pub async fn remove_tree(&self, path: &VPath) -> Result<TrashedEntry> {
        let (place, path) = self.changeable(path, Last::Itself).await?;
        let terms = self.trash_of(&place).ok_or(VfsError::Unsupported)?;
        let principal = self.0.session.live.principal();
        // What lies below another mount may have other rights.
        if principal.mounts.iter().any(|mount| mount.path.below(&path).is_some()) {
            return Err(VfsError::Unsupported);
        }
        place.need(Right::Directories)?;
        place.need(Right::Delete)?;
        let meta = place.store.stat(&place.path).await?;
        if meta.kind != EntryKind::Directory {
            return Err(VfsError::NotDirectory);
        }
        self.move_to_trash(Located { place: &place, path: &path }, &meta, terms).await
    }

    /// Whether what is removed there is kept.
    fn trash_of(&self, place: &MountedPath) -> Option<TrashOptions> {
        place.mount.mount.trash.filter(|_| self.may_keep(place))
    }

    /// Whether anything can be kept that is removed or replaced there. Rules remove and replace for
    /// good: who wrote them has decided.
    pub(crate) fn may_keep(&self, place: &MountedPath) -> bool {
        let has_names = !matches!(place.mount.endpoint.noun.target, EndpointTarget::Sql(_));
        has_names && self.0.scope.job.is_none()
    }

    /// Renames it into the trash of its mount, under the id of the event that says so.
    async fn move_to_trash(
        &self,
        removed: Located<'_>,
        meta: &Meta,
        terms: TrashOptions,
    ) -> Result<TrashedEntry> {
        let Located { place, path } = removed;
        let prefix = &place.mount.prefix;
        let fact = Fact::FileTrashed {
            path: path.to_string(),
            directory: meta.kind == EntryKind::Directory,
            size: meta.size,
            endpoint: place.mount.endpoint.noun.name.clone(),
            prefix: prefix.as_str().to_owned(),
            stored: place.path.as_str().to_owned(),
            until: self.data_plane().env.now().plus(terms.time()),
            most_bytes: terms.bytes,
        };
        let mut change = self.change(place, fact, meta.identity.clone());
        let event = change.event.clone();
        let folder = prefix.join(TRASH_NAME)?;
        let target = folder.join(&event.id.to_string())?;
        change.source = Some(std::mem::replace(&mut change.target, target.clone()));
        let held = self.data_plane().names.hold(place.endpoint(), &place.path).await;
        let (store, source, to) = (place.store.clone(), place.path.clone(), target.clone());
        let work = async move { move_into(&store, &source, &folder, &to).await };
        let quotas = &self.data_plane().quotas;
        let left = quotas.begin(place.endpoint(), &place.path);
        let taken = quotas.begin(place.endpoint(), &target);
        self.carry_out(change, held, work).await?;
        self.forget_temporary(place);
        left.end(Delta::of(meta).less());
        taken.end(Delta::of(meta));
        let entry = TrashedEntry::of(&event, path.clone()).ok_or(VfsError::NotFound)?;
        self.data_plane().trash.add(event);
        Ok(entry)
    }
}
