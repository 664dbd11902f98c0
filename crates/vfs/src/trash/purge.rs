//! What was removed or replaced is deleted for good: by its account, or because its time is over or
//! there is more of it than its mount keeps.
//!
//! First the files go, then it is recorded: what a crash cuts is gone on with later, by the row
//! that is still there.

use entrepot_db::TrashPlace;
use entrepot_journal::Scope;
use entrepot_nouns::event::{Fact, VersionFact};
use entrepot_nouns::{Event, EventId, StorePath, VPath};
use entrepot_storage::{AnyStore, EntryKind, StoreError};
use uuid::Uuid;

use super::shown::{Trashed, kept_at};
use crate::error::{Result, VfsError};
use crate::limits;
use crate::place::Last;
use crate::recount::Delta;
use crate::service::{DataPlane, Service};
use crate::vfs::Vfs;

/// What was deleted for good because its time was over or there was too much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PurgedBatch {
    /// How many things.
    pub purged: u64,
    /// The next batch comes behind this one; `None`: there is nothing more.
    pub next: Option<EventId>,
}

/// Something in the trash, at its store.
pub(crate) struct Doomed<'a> {
    pub(crate) store: &'a AnyStore,
    pub(crate) endpoint: Uuid,
    pub(crate) root: StorePath,
}

impl Vfs {
    /// Deletes for good what was removed.
    ///
    /// # Errors
    /// It is not in the trash (any more), or the store failed: then some of it may be gone.
    pub async fn purge(&self, id: EventId) -> Result<()> {
        let Trashed { entry, kept_at, event } = self.trashed(id).await?;
        let (place, _) = self.changeable(&entry.path, Last::Itself).await?;
        let doomed = Doomed { store: &place.store, endpoint: place.endpoint(), root: kept_at };
        self.data_plane().delete_for_good(doomed).await?;
        let fact = purged(&event).ok_or(VfsError::NotFound)?;
        self.data_plane().book.record(&self.0.event(fact))?;
        self.data_plane().trash.end(id);
        Ok(())
    }

    /// Deletes for good all that was removed below a directory; answers how much that was.
    ///
    /// # Errors
    /// As [`Vfs::trash`] and [`Vfs::purge`].
    pub async fn empty_trash(&self, folder: &VPath) -> Result<u64> {
        let (mut count, mut behind) = (0, None);
        loop {
            let page = self.trash(folder, behind, limits::TRASH_BATCH).await?;
            for entry in page.entries {
                match self.purge(entry.id).await {
                    Ok(()) => count += 1,
                    // Somebody else was faster.
                    Err(VfsError::NotFound) => {}
                    Err(error) => return Err(error),
                }
            }
            let Some(next) = page.next else { return Ok(count) };
            behind = Some(next);
        }
    }
}

impl Service {
    /// Deletes for good a batch of what was removed or replaced, of all sites, behind `after`: what
    /// is kept long enough, or more than a mount keeps. What cannot be deleted now is left for the
    /// next time.
    ///
    /// # Errors
    /// The database cannot be asked.
    pub async fn purge_trash(&self, after: Option<EventId>) -> Result<PurgedBatch> {
        if after.is_none() {
            self.count_sizes().await?;
        }
        let over = self.0.trash.over(self.0.env.now(), after).await?;
        let most = usize::try_from(limits::TRASH_BATCH).unwrap_or(usize::MAX);
        let next = over.last().filter(|_| over.len() >= most).map(|event| event.id);
        let mut purged = 0;
        for event in over {
            match self.purge_one(&event).await {
                Ok(()) => purged += 1,
                Err(error) => {
                    tracing::warn!(code = error.code(), %error, id = %event.id,
                        "what was removed cannot be deleted for good now");
                }
            }
        }
        Ok(PurgedBatch { purged, next })
    }

    async fn purge_one(&self, event: &Event) -> Result<()> {
        let Some(TrashPlace { endpoint, .. }) = TrashPlace::of(event) else { return Ok(()) };
        let found = self.0.trash.endpoint(event.site, endpoint).await?;
        // Without its endpoint nobody can reach it.
        if let (Some(endpoint), Some(root)) = (found, kept_at(event)) {
            let store = self.0.stores.open(&endpoint).await?;
            let doomed = Doomed { store: &store, endpoint: endpoint.id, root };
            self.0.delete_for_good(doomed).await?;
        }
        if let Some(fact) = purged(event) {
            self.0.recorder.record(&Scope::site(event.site), fact)?;
        }
        self.0.trash.end(event.id);
        Ok(())
    }
}

/// What is recorded when it is gone.
pub(crate) fn purged(event: &Event) -> Option<Fact> {
    match &event.fact {
        Fact::FileTrashed { path, .. }
        | Fact::FileVersioned { version: VersionFact { path, .. } } => {
            Some(Fact::FilePurged { path: path.clone(), trashed: event.id })
        }
        _ => None,
    }
}

impl DataPlane {
    /// Deletes a file, or a directory with all that is in it, from its leaves up.
    pub(crate) async fn delete_for_good(&self, doomed: Doomed<'_>) -> Result<()> {
        let Doomed { store, endpoint, root } = doomed;
        // Nobody puts it back meanwhile.
        let _held = self.names.hold(endpoint, &root).await;
        let with_links = store.with_links();
        let store = with_links.as_ref().unwrap_or(store);
        match store.stat(&root).await {
            Ok(meta) if meta.kind == EntryKind::Directory => {}
            Ok(meta) => {
                let counted = self.quotas.begin(endpoint, &root);
                gone(store.remove(&root).await)?;
                counted.end(Delta::of(&meta).less());
                return Ok(());
            }
            Err(StoreError::NotFound | StoreError::NotDirectory) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let mut open = vec![root];
        while let Some(directory) = open.last().cloned() {
            let page = match store.list(&directory).await {
                Ok(mut listing) => listing.next_page(limits::PAGE).await?,
                Err(StoreError::NotFound) => Vec::new(),
                Err(error) => return Err(error.into()),
            };
            if page.is_empty() {
                gone(store.remove_directory(&directory).await)?;
                open.pop();
                continue;
            }
            for entry in page {
                let path = directory.join(&entry.name)?;
                if entry.meta.kind == EntryKind::Directory {
                    open.push(path);
                    continue;
                }
                let counted = self.quotas.begin(endpoint, &path);
                gone(store.remove(&path).await)?;
                counted.end(Delta::of(&entry.meta).less());
            }
        }
        Ok(())
    }
}

/// What is not there any more is gone.
fn gone(removed: std::result::Result<(), StoreError>) -> Result<()> {
    match removed {
        Ok(()) | Err(StoreError::NotFound) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
