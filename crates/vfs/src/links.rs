//! Symbolic links, where a mount offers them.
//!
//! The store follows none, whatever program made it: the way through links is found here, name by
//! name and within the mount, and what the rest is given is a path without links. If a name is
//! swapped meanwhile, the store refuses it. So two names of a file are one file to everything else:
//! the book of uploads, quotas, events.
//!
//! A link that this program makes says the way to its target relative to its own directory, so that
//! other programs of the host which follow it stay in the mount too.

use std::borrow::Cow;

use entrepot_auth::EffectiveMount;
use entrepot_nouns::event::Fact;
use entrepot_nouns::limits::PATH_BYTES;
use entrepot_nouns::path::PathError;
use entrepot_nouns::{MountOption, Right, VPath};
use entrepot_storage::{EntryKind, StoreError};

use crate::error::{Result, VfsError};
use crate::limits;
use crate::place::{self, Last, Located, Lookup, MountedPath};
use crate::recount::Delta;
use crate::vfs::{Attributes, Vfs};

impl Vfs {
    /// The path without links that a path means; there need be nothing.
    ///
    /// # Errors
    /// A link leads out of its mount, or too many follow one another.
    pub async fn resolve(&self, path: &VPath) -> Result<VPath> {
        Ok(self.place(path, Last::Followed).await?.1.into_owned())
    }

    /// As [`Vfs::resolve`], but a link in the last place is meant itself.
    ///
    /// # Errors
    /// As [`Vfs::resolve`].
    pub async fn resolve_itself(&self, path: &VPath) -> Result<VPath> {
        Ok(self.place(path, Last::Itself).await?.1.into_owned())
    }

    /// As [`Vfs::stat`], but tells a link itself.
    ///
    /// # Errors
    /// As [`Vfs::stat`].
    pub async fn lstat(&self, path: &VPath) -> Result<Attributes> {
        self.look(path, Last::Itself).await
    }

    /// What a link says: the way from its directory to its target.
    ///
    /// # Errors
    /// There is no link of that name, it leads out of its mount, or the right is missing.
    pub async fn read_link(&self, path: &VPath) -> Result<String> {
        let (place, path) = self.place_with_links(path).await?;
        if !place.mount.rights.has(Right::Read) {
            place.need(Right::List)?;
        }
        let said = place.store.read_link(&place.path).await?.ok_or(VfsError::NotLink)?;
        self.target(Located { place: &place, path: &path }, &said)?;
        Ok(said)
    }

    /// Makes a link at `path` to `target`: relative to the link's directory, or absolute as the
    /// session sees it. There need be nothing.
    ///
    /// # Errors
    /// The mount does not offer links, the name is taken, the target lies outside of the mount, or
    /// the right is missing.
    pub async fn make_link(&self, target: &str, path: &VPath) -> Result<()> {
        let (place, path) = self.place_with_links(path).await?;
        if place.is_root {
            return Err(VfsError::Exists);
        }
        place.need(Right::Write)?;
        let leads_to = match target.as_bytes() {
            [] => return Err(VfsError::NotFound),
            [b'/', ..] => self.checked(&place.mount, VPath::root().resolve(target.as_bytes())?)?,
            _ => self.target(Located { place: &place, path: &path }, target)?,
        };
        let said = way(&path, &leads_to)?;
        let held = self.data_plane().names.hold(place.endpoint(), &place.path).await;
        match place.store.stat(&place.path).await {
            Ok(_) => return Err(VfsError::Exists),
            Err(StoreError::NotFound) => {}
            Err(error) => return Err(error.into()),
        }
        let mut room = self.reservation(&place).await?;
        room.add_file()?;
        let fact = Fact::LinkCreated { path: path.to_string(), target: leads_to.to_string() };
        let change = self.change(&place, fact, None);
        let (store, at) = (place.store.clone(), place.path.clone());
        let counted = self.data_plane().quotas.begin(place.endpoint(), &place.path);
        self.carry_out(change, held, async move { store.make_link(&said, &at).await }).await?;
        drop(room);
        counted.end(Delta::of_file(0));
        Ok(())
    }

    /// The place of a name that may be a link's, in a mount that offers them.
    async fn place_with_links<'a>(&self, path: &'a VPath) -> Result<(MountedPath, Cow<'a, VPath>)> {
        let principal = self.0.session.live.principal();
        let offered = match place::find(&principal, path)? {
            Lookup::Mounted(mount, _) => mount.mount.offers(MountOption::Symlinks),
            Lookup::Above | Lookup::Nothing => false,
        };
        if !offered {
            return Err(VfsError::Unsupported);
        }
        let (place, path) = self.place(path, Last::Itself).await?;
        Ok((place.ok_or(VfsError::Unsupported)?, path))
    }

    /// Fails if a link that stays in its mount would not do so under its new name.
    pub(crate) async fn check_moved_link(&self, old: Located<'_>, new: Located<'_>) -> Result<()> {
        let said = old.place.store.read_link(&old.place.path).await?;
        let Some(said) = said else { return Ok(()) };
        if self.target(old, &said).is_ok() {
            self.target(new, &said)?;
        }
        Ok(())
    }

    /// Where a link leads that says this.
    fn target(&self, link: Located<'_>, said: &str) -> Result<VPath> {
        let mount = &link.place.mount;
        let mut at = link.path.parent().unwrap_or_else(VPath::root);
        for part in said.split('/').filter(|part| !matches!(*part, "" | ".")) {
            at = step(mount, at, part)?;
        }
        if said.starts_with('/') { Err(VfsError::LinkOutside) } else { self.checked(mount, at) }
    }

    /// Fails if a path is not one of `mount`, but of another or of none.
    fn checked(&self, mount: &EffectiveMount, path: VPath) -> Result<VPath> {
        let principal = self.0.session.live.principal();
        match place::find(&principal, &path)? {
            Lookup::Mounted(found, _) if found.mount.name == mount.mount.name => Ok(path),
            _ => Err(VfsError::LinkOutside),
        }
    }

    /// Finds the way through links from `path`, at `place` as if there were none.
    pub(crate) async fn follow<'a>(
        &self,
        mut place: MountedPath,
        path: &'a VPath,
        last: Last,
    ) -> Result<(MountedPath, Cow<'a, VPath>)> {
        let Some(with_links) = place.store.with_links() else {
            return Ok((place, Cow::Borrowed(path)));
        };
        let found = match place.store.read_link(&place.path).await {
            // The store came here without a link.
            Ok(None) => None,
            Ok(Some(_)) if last == Last::Itself => None,
            Err(StoreError::NotFound) if is_only_missing(&place).await? => None,
            Ok(Some(_)) | Err(StoreError::NotFound) => Some(self.walk(&place, path, last).await?),
            Err(error) => return Err(error.into()),
        };
        if last == Last::Itself {
            place.store = with_links;
        }
        let Some(found) = found else { return Ok((place, Cow::Borrowed(path))) };
        place.path = at_endpoint(&place.mount, &found)?;
        place.is_root = found == place.mount.path;
        Ok((place, Cow::Owned(found)))
    }

    /// Goes down from the mount, name by name.
    async fn walk(&self, place: &MountedPath, path: &VPath, last: Last) -> Result<VPath> {
        let mount = &place.mount;
        let below = path.below(&mount.path).unwrap_or_default();
        let mut todo: Vec<String> = below.components().rev().map(str::to_owned).collect();
        let mut at = mount.path.clone();
        let (mut links, mut is_missing) = (0, false);
        for _ in 0..limits::LINK_STEPS {
            let Some(part) = todo.pop() else { return Ok(at) };
            let next = step(mount, at.clone(), &part)?;
            if matches!(part.as_str(), "." | "..") {
                match place.store.stat(&at_endpoint(mount, &at)?).await?.kind {
                    EntryKind::Directory => at = next,
                    EntryKind::File | EntryKind::Link => return Err(VfsError::NotFound),
                }
                continue;
            }
            let next = if links == 0 { next } else { self.checked(mount, next)? };
            if is_missing || (todo.is_empty() && last == Last::Itself) {
                at = next;
                continue;
            }
            match place.store.read_link(&at_endpoint(mount, &next)?).await {
                Ok(None) => at = next,
                Ok(Some(said)) => {
                    links += 1;
                    if links > limits::LINKS {
                        return Err(VfsError::LinkLoop);
                    }
                    if said.starts_with('/') {
                        return Err(VfsError::LinkOutside);
                    }
                    // A slash behind a name wants a directory, as a dot does.
                    let dotted = |part: &str| if part.is_empty() { "." } else { part }.to_owned();
                    todo.extend(said.rsplit('/').map(dotted));
                }
                Err(StoreError::NotFound) => (at, is_missing) = (next, true),
                Err(error) => return Err(error.into()),
            }
        }
        Err(VfsError::LinkLoop)
    }
}

/// True if no link is in the way of a name that is missing, as those of new files are.
async fn is_only_missing(place: &MountedPath) -> Result<bool> {
    let Some(above) = place.path.parent() else { return Ok(false) };
    match place.store.read_link(&above).await {
        Ok(said) => Ok(said.is_none()),
        Err(StoreError::NotFound) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// One name further, or up; never out of the mount.
fn step(mount: &EffectiveMount, at: VPath, part: &str) -> Result<VPath> {
    match part {
        ".." if at == mount.path => Err(VfsError::LinkOutside),
        ".." => Ok(at.parent().unwrap_or_else(VPath::root)),
        "." => Ok(at),
        part => Ok(at.join(part)?),
    }
}

/// Where a path of the mount lies at its endpoint.
fn at_endpoint(mount: &EffectiveMount, path: &VPath) -> Result<entrepot_nouns::StorePath> {
    let below = path.below(&mount.path).ok_or(VfsError::LinkOutside)?;
    Ok(mount.prefix.append(&below)?)
}

/// What a link at `from` says to lead to `to`.
fn way(from: &VPath, to: &VPath) -> Result<String> {
    let folder = from.parent().unwrap_or_else(VPath::root);
    let shared = folder.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = folder.components().skip(shared).map(|_| "..");
    let parts: Vec<&str> = up.chain(to.components().skip(shared)).collect();
    match parts.join("/") {
        said if said.is_empty() => Ok(".".to_owned()),
        said if said.len() > PATH_BYTES => Err(PathError::TooLong.into()),
        said => Ok(said),
    }
}
