//! Files as one session may see them: names, rights, and the changes of names.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use entrepot_auth::EffectiveMount;
use entrepot_nouns::event::Fact;
use entrepot_nouns::mount::is_trash_name;
use entrepot_nouns::{
    Displaced, EndpointTarget, MountOption, Quota, Right, Rights, Timestamp, VPath,
};
use entrepot_storage::budget::Permit;
use entrepot_storage::{EntryKind, Identity, Meta, Space, StoreError};

use crate::book::{PartialKey, TemporaryKey};
use crate::error::{Result, VfsError};
use crate::limits;
use crate::notes::Change;
use crate::place::{self, Last, Lookup, MountedPath};
use crate::quota::Reservation;
use crate::recount::Delta;
use crate::service::DataPlane;
use crate::state::SessionState;
use crate::unbroken::unbroken;

/// What comes of a call of a store.
type StoreResult<T> = std::result::Result<T, StoreError>;

/// The files of one session. Cheap to clone.
#[derive(Clone)]
pub struct Vfs(pub(crate) Arc<SessionState>);

/// Room that is promised; given back when it is dropped.
pub struct Room(#[expect(dead_code, reason = "it is held")] Reservation);

/// What is known of a file, directory or link.
#[derive(Clone, Debug, PartialEq)]
pub struct Attributes {
    /// File or directory; a link only where one was asked for, and in listings.
    pub kind: EntryKind,
    /// Size of the file in bytes.
    pub size: u64,
    /// When the content last changed.
    pub modified: Timestamp,
    /// When it was last read.
    pub accessed: Timestamp,
    /// What this session may do with it.
    pub rights: Rights,
    /// Permission bits with set-uid, set-gid and sticky; `None` where none are kept.
    pub mode: Option<u32>,
    /// One's own unfinished upload; nobody else sees it.
    pub partial: bool,
    /// What tells it from every other file, where the store says so cheaply. Not to be shown as it
    /// is: it has the inode in it.
    pub identity: Option<Identity>,
}

impl Attributes {
    /// Tells the version of a file from others: by identity, size and time of the last change. Of
    /// a directory it is its name that counts.
    pub(crate) fn version(&self) -> u64 {
        if self.kind != EntryKind::File {
            return 0;
        }
        // The same in every process of this program, and nobody gains by a collision.
        let mut hasher = DefaultHasher::new();
        let identity = self.identity.as_ref().map(|identity| identity.0.as_str());
        (identity, self.size, self.modified.micros()).hash(&mut hasher);
        hasher.finish()
    }
}

/// One line of a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The name in its directory, without a path.
    pub name: String,
    /// What is known of it.
    pub attributes: Attributes,
}

/// A listing, page by page.
pub struct Listing {
    path: VPath,
    /// Directories that exist because of mounts; they hide what has their name.
    mounted: Vec<String>,
    first: VecDeque<Entry>,
    stored: Option<Stored>,
}

/// What is published in a directory, and the mount that it is seen through.
struct Stored {
    entries: Box<dyn entrepot_storage::Listing>,
    mount: Arc<EffectiveMount>,
    _open: Permit,
}

impl Listing {
    /// The directory, without the links that led there.
    pub fn path(&self) -> &VPath {
        &self.path
    }

    /// The next entries, at most `max`; empty at the end.
    ///
    /// # Errors
    /// The store failed.
    pub async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>> {
        if !self.first.is_empty() {
            let count = max.min(self.first.len());
            return Ok(self.first.drain(..count).collect());
        }
        while let Some(stored) = &mut self.stored {
            let page = stored.entries.next_page(max.min(limits::PAGE)).await?;
            if page.is_empty() {
                self.stored = None;
                break;
            }
            let is_hidden = |name: &String| self.mounted.contains(name) || is_trash_name(name);
            let shown = page.into_iter().filter(|entry| !is_hidden(&entry.name));
            let entries: Vec<Entry> = shown
                .map(|entry| Entry {
                    attributes: attributes(&entry.meta, &stored.mount),
                    name: entry.name,
                })
                .collect();
            if !entries.is_empty() {
                return Ok(entries);
            }
        }
        Ok(Vec::new())
    }
}

pub(crate) fn attributes(meta: &Meta, mount: &EffectiveMount) -> Attributes {
    Attributes {
        kind: meta.kind,
        size: meta.size,
        modified: meta.modified,
        accessed: meta.accessed,
        rights: mount.rights,
        mode: meta.mode.filter(|_| !mount.mount.mode_mask().is_empty()),
        partial: false,
        identity: meta.identity.clone(),
    }
}

pub(crate) fn check_same_mount(old: &MountedPath, new: &MountedPath) -> Result<()> {
    let same = old.endpoint() == new.endpoint() && old.mount.mount.name == new.mount.mount.name;
    if same { Ok(()) } else { Err(VfsError::OtherMount) }
}

impl Vfs {
    /// What all sessions of the node share.
    pub(crate) fn data_plane(&self) -> &DataPlane {
        self.0.data_plane()
    }

    /// Where the session starts.
    pub fn home(&self) -> VPath {
        self.0.session.live.principal().account.home.clone()
    }

    /// True if operations on `path` never wait for a network.
    pub fn is_local(&self, path: &VPath) -> bool {
        let principal = self.0.session.live.principal();
        match place::find(&principal, path) {
            Ok(Lookup::Mounted(mount, _)) => mount.endpoint.noun.target.is_local(),
            _ => true,
        }
    }

    /// The place of a path, with its store open, and the path without the links that lead there.
    pub(crate) async fn place<'a>(
        &self,
        path: &'a VPath,
        last: Last,
    ) -> Result<(Option<MountedPath>, Cow<'a, VPath>)> {
        self.0.check()?;
        let principal = self.0.session.live.principal();
        let (mount, at) = match place::find(&principal, path)? {
            Lookup::Mounted(mount, at) => (Arc::new(mount.clone()), at),
            Lookup::Above => return Ok((None, Cow::Borrowed(path))),
            Lookup::Nothing => return Err(VfsError::NotFound),
        };
        let open = self.data_plane().stores.open_store(&mount.endpoint).await?;
        let store = open.store.for_user(&self.0.shares.store_user);
        let store = store.unwrap_or_else(|| open.store.clone());
        open.ensure_prefix(&store, &mount.prefix).await?;
        let has_links = mount.mount.offers(MountOption::Symlinks);
        let place = MountedPath { is_root: *path == mount.path, mount, store, path: at };
        if has_links {
            let (place, path) = Box::pin(self.follow(place, path, last)).await?;
            return Ok((Some(place), path));
        }
        Ok((Some(place), Cow::Borrowed(path)))
    }

    /// The place of something that can be changed: not a mount itself, nor above one.
    pub(crate) async fn changeable<'a>(
        &self,
        path: &'a VPath,
        last: Last,
    ) -> Result<(MountedPath, Cow<'a, VPath>)> {
        match self.place(path, last).await? {
            (Some(place), path) if !place.is_root => Ok((place, path)),
            _ => Err(VfsError::denied("change this directory")),
        }
    }

    /// Names the partial that this account has, or would have, of a file.
    pub(crate) fn partial_key(&self, path: &VPath) -> PartialKey {
        let principal = self.0.session.live.principal();
        let (account, path) = (principal.account.name.clone(), path.clone());
        PartialKey { site: principal.site, account, path }
    }

    /// What is known of a name: one's own open upload, else what is published, else one's own
    /// unfinished upload.
    ///
    /// # Errors
    /// Nothing has that name, or it may not be seen.
    pub async fn stat(&self, path: &VPath) -> Result<Attributes> {
        self.look(path, Last::Followed).await
    }

    pub(crate) async fn look(&self, path: &VPath, last: Last) -> Result<Attributes> {
        let (place, path) = self.place(path, last).await?;
        let Some(place) = place else { return Ok(self.synthetic()) };
        let rights = place.mount.rights;
        if rights == Rights::none() {
            return Err(VfsError::denied("see files"));
        }
        if let Some(moving) = self.0.uploads.lock().get(&*path) {
            return Ok(Attributes {
                kind: EntryKind::File,
                size: moving.bytes.load(Ordering::Relaxed),
                modified: self.data_plane().env.now(),
                accessed: self.data_plane().env.now(),
                rights,
                mode: None,
                partial: true,
                identity: None,
            });
        }
        match place.store.stat(&place.path).await {
            Ok(meta) => Ok(attributes(&meta, &place.mount)),
            Err(StoreError::NotFound) if place.is_prefix() && place.remake_prefix().await? => {
                Ok(attributes(&place.store.stat(&place.path).await?, &place.mount))
            }
            Err(StoreError::NotFound | StoreError::NotDirectory) => {
                let kept = self.partial(&path, rights);
                kept.or_else(|_| self.held_attributes(&place, rights))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What is published under a name, whatever this session is sending there; `None`: nothing.
    ///
    /// # Errors
    /// It may not be seen, or the store failed.
    pub async fn published(&self, path: &VPath) -> Result<Option<Attributes>> {
        let Some(place) = self.place(path, Last::Followed).await?.0 else {
            return Ok(Some(self.synthetic()));
        };
        if place.mount.rights == Rights::none() {
            return Err(VfsError::denied("see files"));
        }
        match place.store.stat(&place.path).await {
            Ok(meta) => Ok(Some(attributes(&meta, &place.mount))),
            Err(StoreError::NotFound | StoreError::NotDirectory) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn partial(&self, path: &VPath, rights: Rights) -> Result<Attributes> {
        let note =
            self.data_plane().book.look(&self.partial_key(path)).ok_or(VfsError::NotFound)?;
        Ok(Attributes {
            kind: EntryKind::File,
            size: note.trusted(&self.data_plane().boot),
            modified: note.at,
            accessed: note.at,
            rights,
            mode: None,
            partial: true,
            identity: None,
        })
    }

    /// One's own unfinished upload of a name that something else has, as long as that is what it is
    /// to replace.
    pub async fn unfinished(&self, path: &VPath) -> Option<Attributes> {
        let (place, path) = self.place(path, Last::Followed).await.ok()?;
        let note = self.data_plane().book.look(&self.partial_key(&path))?;
        let place = place.filter(|_| note.replaces.is_some())?;
        let there = place.store.stat(&place.path).await.ok()?.identity?;
        let is_same = note.replaces.as_deref() == Some(there.0.as_str());
        is_same.then(|| self.partial(&path, place.mount.rights).ok()).flatten()
    }

    /// A directory that exists because of mounts.
    fn synthetic(&self) -> Attributes {
        Attributes {
            kind: EntryKind::Directory,
            size: 0,
            modified: Timestamp::default(),
            accessed: Timestamp::default(),
            rights: Rights::read_only(),
            mode: None,
            partial: false,
            identity: None,
        }
    }

    /// Lists what is published in a directory, and the mounts below it.
    ///
    /// # Errors
    /// It is no directory, or may not be listed.
    pub async fn list(&self, path: &VPath) -> Result<Listing> {
        let (place, path) = self.place(path, Last::Followed).await?;
        let mounted = place::mounted_names(&self.0.session.live.principal(), &path);
        let first =
            mounted.iter().map(|name| Entry { name: name.clone(), attributes: self.synthetic() });
        let first: VecDeque<Entry> = first.collect();
        let Some(mut place) = place else {
            return Ok(Listing { path: path.into_owned(), mounted, first, stored: None });
        };
        place.need(Right::List)?;
        place.tell_links();
        let open = self.0.shares.open_file()?;
        let entries = match place.store.list(&place.path).await {
            Err(StoreError::NotFound) if place.is_prefix() && place.remake_prefix().await? => {
                place.store.list(&place.path).await?
            }
            entries => entries?,
        };
        let mut first = first;
        if place.mount.mount.offers(MountOption::ListPartials) {
            self.add_partials(&path, &place, &mut first).await?;
        }
        let stored = Some(Stored { entries, mount: place.mount, _open: open });
        Ok(Listing { path: path.into_owned(), mounted, first, stored })
    }

    /// One's own unfinished uploads of names that nothing published has.
    async fn add_partials(
        &self,
        path: &VPath,
        place: &MountedPath,
        first: &mut VecDeque<Entry>,
    ) -> Result<()> {
        let principal = self.0.session.live.principal();
        let book = &self.data_plane().book;
        for partial in book.partials_in(principal.site, &principal.account.name, path) {
            let Some(name) = partial.file_name() else { continue };
            let Ok(at) = place.path.join(name) else { continue };
            let is_published = match place.store.stat(&at).await {
                Ok(_) => true,
                Err(StoreError::NotFound) => false,
                Err(error) => return Err(error.into()),
            };
            if !is_published && let Ok(attributes) = self.partial(&partial, place.mount.rights) {
                first.push_back(Entry { name: name.to_owned(), attributes });
            }
        }
        Ok(())
    }

    /// Where a file lies on a disk of this machine, for programs that rules start; `None` where
    /// the mount is no local directory.
    ///
    /// # Errors
    /// There is no such file, or it may not be read.
    pub async fn local_path(&self, path: &VPath) -> Result<Option<PathBuf>> {
        let (place, _) = self.place(path, Last::Followed).await?;
        let place = place.ok_or(VfsError::IsDirectory)?;
        place.need(Right::Read)?;
        let endpoint = &place.mount.endpoint.noun;
        let injected = self.data_plane().stores.is_given(&endpoint.name);
        let EndpointTarget::Directory(target) = &endpoint.target else { return Ok(None) };
        place.store.stat(&place.path).await?;
        let local = std::path::Path::new(&target.path).join(place.path.as_str());
        Ok((!injected).then_some(local))
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// The name is taken, its parent is missing, or the right is.
    pub async fn make_directory(&self, path: &VPath) -> Result<()> {
        let (place, path) = self.directory_to_make(path).await?;
        let fact = Fact::DirectoryCreated { path: path.to_string() };
        let change = self.change(&place, fact, None);
        self.carry_out(change, (), async move { place.store.make_directory(&place.path).await })
            .await
    }

    /// The place of a directory that may be made there.
    pub(crate) async fn directory_to_make<'a>(
        &self,
        path: &'a VPath,
    ) -> Result<(MountedPath, Cow<'a, VPath>)> {
        let (place, path) = match self.place(path, Last::Itself).await? {
            (Some(place), path) if !place.is_root => (place, path),
            _ => return Err(VfsError::Exists),
        };
        place.need(Right::Directories)?;
        match place.store.stat(&place.path).await {
            Ok(_) => Err(VfsError::Exists),
            Err(StoreError::NotFound) => {
                place.remake_prefix().await?;
                Ok((place, path))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Fails unless the account has the right at a path.
    ///
    /// # Errors
    /// It has not, or there is no such place.
    pub async fn need(&self, path: &VPath, right: Right) -> Result<()> {
        let (place, _) = self.place(path, Last::Followed).await?;
        place.ok_or(VfsError::IsDirectory)?.need(right)
    }

    /// Gives a file a second name within its mount. Uploads replace a name, not the file, so what
    /// is sent to one of them leaves the other as it is.
    ///
    /// # Errors
    /// The mount does not offer it, the store cannot, the name is taken, or a right is missing.
    pub async fn link(&self, from: &VPath, to: &VPath) -> Result<()> {
        let (old, from) = self.changeable(from, Last::Followed).await?;
        let (new, to) = self.changeable(to, Last::Itself).await?;
        check_same_mount(&old, &new)?;
        if !old.mount.mount.offers(MountOption::HardLinks) {
            return Err(VfsError::Unsupported);
        }
        old.need(Right::Read)?;
        new.need(Right::Write)?;
        let names = &self.data_plane().names;
        let held = names.hold_both(old.endpoint(), &old.path, &new.path).await;
        let meta = old.store.stat(&old.path).await?;
        if meta.kind == EntryKind::Directory {
            return Err(VfsError::IsDirectory);
        }
        match new.store.stat(&new.path).await {
            Ok(_) => return Err(VfsError::Exists),
            Err(StoreError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        // Each name counts as a file of its own: so does the count of what lies there.
        let mut room = self.reservation(&new).await?;
        room.add_file()?;
        room.grow_to(meta.size)?;
        let size = meta.size;
        let fact = Fact::FileLinked { from: from.to_string(), to: to.to_string(), size };
        let change = self.change(&new, fact, meta.identity);
        let (store, source, target) = (old.store.clone(), old.path.clone(), new.path.clone());
        let work = async move { store.link(&source, &target).await };
        let counted = self.data_plane().quotas.begin(new.endpoint(), &new.path);
        self.carry_out(change, held, work).await?;
        drop(room);
        counted.end(Delta::of_file(size));
        Ok(())
    }

    /// Sets times of a file or directory.
    ///
    /// # Errors
    /// There is no such file, or it may not be changed.
    pub async fn set_times(
        &self,
        path: &VPath,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        let (place, _) = self.changeable(path, Last::Followed).await?;
        if !place.mount.rights.has(Right::Write) {
            place.need(Right::Overwrite)?;
        }
        match place.store.set_times(&place.path, accessed, modified).await {
            Ok(()) => Ok(()),
            // Clients set times after an upload and fail the copy if that is refused.
            Err(StoreError::Unsupported(_)) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Room at a path: that of its quota, if it has one, else of the store.
    ///
    /// # Errors
    /// There is no such place.
    pub async fn space(&self, path: &VPath) -> Result<Space> {
        let Some(place) = self.place(path, Last::Followed).await?.0 else {
            return Ok(Space { total_bytes: 0, free_bytes: 0, total_files: 0, free_files: 0 });
        };
        let mut space = place.store.space().await?;
        let Some(quota) = place.mount.mount.quota else { return Ok(space) };
        let quotas = &self.data_plane().quotas;
        let ledger = quotas.ledger(&place.counted(), quota, &place.store).await?;
        let (bytes, files) = ledger.used();
        if let Some(limit) = quota.size_bytes {
            space.total_bytes = space.total_bytes.min(limit);
            space.free_bytes = space.free_bytes.min(limit.saturating_sub(bytes));
        }
        if let Some(limit) = quota.files {
            space.total_files = space.total_files.min(limit);
            space.free_files = space.free_files.min(limit.saturating_sub(files));
        }
        Ok(space)
    }

    /// Promises room for `bytes` in the quota of a place, until the answer is dropped.
    ///
    /// # Errors
    /// There is not so much room.
    pub async fn reserve(&self, path: &VPath, bytes: u64) -> Result<Room> {
        let (Some(place), _) = self.place(path, Last::Followed).await? else {
            return Ok(Room(Reservation::default()));
        };
        place.need(Right::Write)?;
        if place.store.space().await?.free_bytes < bytes {
            return Err(VfsError::NoSpace);
        }
        let mut reservation = self.reservation(&place).await?;
        reservation.grow_to(bytes)?;
        Ok(Room(reservation))
    }

    /// The quota of a place, with its ledger counted.
    pub(crate) async fn reservation(&self, place: &MountedPath) -> Result<Reservation> {
        match place.mount.mount.quota {
            None => Ok(Reservation::new(None, Quota::default())),
            Some(quota) => {
                let quotas = &self.data_plane().quotas;
                let ledger = quotas.ledger(&place.counted(), quota, &place.store).await?;
                Ok(Reservation::new(Some(ledger), quota))
            }
        }
    }

    /// A change of a name that is about to happen.
    pub(crate) fn change(
        &self,
        place: &MountedPath,
        fact: Fact,
        identity: Option<Identity>,
    ) -> Change {
        Change {
            event: self.0.event(fact),
            endpoint: place.mount.endpoint.noun.name.clone(),
            mount: place.mount.mount.name.clone(),
            target: place.path.clone(),
            source: None,
            identity: identity.map(|identity| identity.0),
            shared: place.is_shared(),
            left: None,
        }
    }

    /// Journals the intent, does it, records it. The intent is durable first, and with it every
    /// earlier record: an upload's is never younger than a change of its file.
    /// Goes on when nobody waits any more; `held` is let go at the end.
    pub(crate) async fn carry_out(
        &self,
        change: Change,
        held: impl Send + 'static,
        work: impl Future<Output = StoreResult<()>> + Send + 'static,
    ) -> Result<()> {
        let work = async move { work.await.map(|()| None) };
        self.carry_out_over(change, held, work).await.map(drop)
    }

    /// As [`Vfs::carry_out`], of work that may take the name from another file, and says from
    /// which.
    pub(crate) async fn carry_out_over(
        &self,
        change: Change,
        held: impl Send + 'static,
        work: impl Future<Output = StoreResult<Option<Displaced>>> + Send + 'static,
    ) -> Result<Option<Displaced>> {
        let book = Arc::clone(&self.data_plane().book);
        unbroken(async move {
            let _held = held;
            let (mut event, is_shared) = (change.event.clone(), change.shared);
            book.announce(change).await?;
            match work.await {
                Ok(displaced) => {
                    event.fact.set_displaced(displaced.clone());
                    let sequence = book.record(&event)?;
                    if is_shared {
                        book.sync(sequence).await?;
                    }
                    Ok(displaced)
                }
                Err(error) => {
                    book.dismiss(event.id);
                    Err(error.into())
                }
            }
        })
        .await
    }

    /// True if clients that rename when done write under such a name.
    pub(crate) fn is_temporary(&self, path: &VPath) -> bool {
        let principal = self.0.session.live.principal();
        let name = path.file_name().unwrap_or_default();
        let endings = &principal.policy.temporary_names;
        endings.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending.as_str()))
    }

    pub(crate) fn temporary_key(&self, place: &MountedPath) -> TemporaryKey {
        TemporaryKey {
            site: self.0.scope.site,
            endpoint: place.mount.endpoint.noun.name.clone(),
            path: place.path.clone(),
        }
    }

    pub(crate) fn forget_temporary(&self, place: &MountedPath) {
        self.data_plane().book.unremember(&self.temporary_key(place));
    }
}
