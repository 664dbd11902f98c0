//! What was removed, as a session sees it.

use entrepot_auth::EffectiveMount;
use entrepot_db::TrashPlace;
use entrepot_nouns::event::Fact;
use entrepot_nouns::mount::TRASH_NAME;
use entrepot_nouns::{Event, EventId, Name, Right, StorePath, Timestamp, VPath};
use entrepot_storage::EntryKind;

use crate::error::{Result, VfsError};
use crate::place::{self, Lookup};
use crate::vfs::Vfs;

/// Something that was removed and can be put back.
#[derive(Clone, Debug, PartialEq)]
pub struct TrashedEntry {
    /// The id of the event `file.trashed`.
    pub id: EventId,
    /// The path that it had, as this session sees it.
    pub path: VPath,
    /// A file or a directory.
    pub kind: EntryKind,
    /// Bytes of a file; 0 of a directory.
    pub size: u64,
    /// When it was removed.
    pub removed_at: Timestamp,
    /// Which account removed it.
    pub removed_by: Option<Name>,
    /// From then on it is deleted for good.
    pub until: Timestamp,
}

/// A page of what was removed, the newest first.
#[derive(Clone, Debug, PartialEq)]
pub struct TrashPage {
    /// Fewer than asked for also where there are more.
    pub entries: Vec<TrashedEntry>,
    /// What the next page comes behind; `None`: this is the last one.
    pub next: Option<EventId>,
}

/// What was removed, and where it lies.
pub(crate) struct Trashed {
    pub(crate) entry: TrashedEntry,
    /// Where it lies at the endpoint.
    pub(crate) kept_at: StorePath,
    pub(crate) event: Event,
}

impl TrashedEntry {
    /// Of the event by which it was removed.
    pub(crate) fn of(event: &Event, path: VPath) -> Option<TrashedEntry> {
        let Fact::FileTrashed { directory, size, until, .. } = &event.fact else { return None };
        Some(TrashedEntry {
            id: event.id,
            path,
            kind: if *directory { EntryKind::Directory } else { EntryKind::File },
            size: *size,
            removed_at: event.at,
            removed_by: event.account.clone(),
            until: *until,
        })
    }
}

/// Where something lies that an event says was removed or replaced.
pub(crate) fn kept_at(event: &Event) -> Option<StorePath> {
    let prefix: StorePath = TrashPlace::of(event)?.prefix.parse().ok()?;
    prefix.join(TRASH_NAME).ok()?.join(&event.id.to_string()).ok()
}

impl Vfs {
    /// True if what is removed below a directory can be put back, by whom this session is.
    pub fn has_trash(&self, folder: &VPath) -> bool {
        let principal = self.0.session.live.principal();
        principal.mounts.iter().any(|mount| {
            let is_here = shows(mount, folder);
            is_here && mount.mount.trash.is_some() && mount.rights.has(Right::Delete)
        })
    }

    /// What was removed below a directory and can be put back, the newest first: a page behind
    /// `behind`.
    ///
    /// # Errors
    /// There is no such directory, or the database cannot be asked now.
    pub async fn trash(
        &self,
        folder: &VPath,
        behind: Option<EventId>,
        limit: u32,
    ) -> Result<TrashPage> {
        self.0.check()?;
        let principal = self.0.session.live.principal();
        if let Lookup::Nothing = place::find(&principal, folder)? {
            return Err(VfsError::NotFound);
        }
        let index = &self.data_plane().trash;
        let may_see =
            |mount: &&EffectiveMount| shows(mount, folder) && mount.rights.has(Right::Delete);
        let (mut found, mut cut) = (Vec::new(), None);
        for mount in principal.mounts.iter().filter(may_see) {
            let place = TrashPlace {
                site: principal.site,
                endpoint: &mount.endpoint.noun.name,
                prefix: mount.prefix.as_str(),
                version_of: None,
            };
            let page = index.newest(place, behind, limit).await?;
            // What another mount has behind the end of this page comes in the next one.
            cut = cut.max(page.end);
            found.extend(page.events.into_iter().map(|event| (mount, event)));
        }
        found.retain(|(_, event)| cut.is_none_or(|cut| event.id >= cut));
        found.sort_by_key(|(_, event)| std::cmp::Reverse(event.id));
        let most = usize::try_from(limit).unwrap_or(usize::MAX);
        if found.len() > most {
            found.truncate(most);
            cut = found.last().map(|(_, event)| event.id);
        }
        let mut entries: Vec<TrashedEntry> = Vec::new();
        for (mount, event) in &found {
            // Two mounts may show the same directory.
            let is_new = entries.last().is_none_or(|last| last.id != event.id);
            if let Some(entry) = self.shown(mount, event)
                && is_new
                && entry.path.below(folder).is_some()
            {
                entries.push(entry);
            }
        }
        Ok(TrashPage { entries, next: cut })
    }

    /// The path that something in the trash had, if this session may put it back.
    ///
    /// # Errors
    /// It is not there (any more), or the database cannot be asked now.
    pub async fn trashed_path(&self, id: EventId) -> Result<VPath> {
        Ok(self.trashed(id).await?.entry.path)
    }

    /// Something that was removed, if this session may put it back or delete it for good.
    pub(crate) async fn trashed(&self, id: EventId) -> Result<Trashed> {
        self.0.check()?;
        let principal = self.0.session.live.principal();
        let event = self.data_plane().trash.find(principal.site, id).await?;
        let event = event.ok_or(VfsError::NotFound)?;
        let may_see = |mount: &&EffectiveMount| mount.rights.has(Right::Delete);
        let mut mounts = principal.mounts.iter().filter(may_see);
        let entry = mounts.find_map(|mount| self.shown(mount, &event));
        let kept_at = kept_at(&event).ok_or(VfsError::NotFound)?;
        Ok(Trashed { entry: entry.ok_or(VfsError::NotFound)?, kept_at, event })
    }

    /// As a mount shows it; `None`: it was removed elsewhere, or another mount lies over it.
    fn shown(&self, mount: &EffectiveMount, event: &Event) -> Option<TrashedEntry> {
        let Fact::FileTrashed { endpoint, prefix, stored, .. } = &event.fact else { return None };
        if *endpoint != mount.endpoint.noun.name || *prefix != mount.prefix.as_str() {
            return None;
        }
        let below = stored.strip_prefix(prefix.as_str())?;
        let mut path = mount.path.clone();
        for name in below.split('/').filter(|name| !name.is_empty()) {
            path = path.join(name).ok()?;
        }
        let principal = self.0.session.live.principal();
        match place::find(&principal, &path).ok()? {
            Lookup::Mounted(found, at) if found.path == mount.path && at.as_str() == *stored => {
                TrashedEntry::of(event, path)
            }
            _ => None,
        }
    }
}

/// True if a directory shows something of the mount.
fn shows(mount: &EffectiveMount, folder: &VPath) -> bool {
    folder.below(&mount.path).is_some() || mount.path.below(folder).is_some()
}
