//! An SFTP server.
//!
//! Writing: a file is staged as `.<name>.<transfer id>.part` beside its target, created
//! exclusively, synced where the server offers `fsync@openssh.com`, closed, its size compared,
//! and renamed into place: over an old file with `posix-rename@openssh.com`, else with RENAME,
//! which does not replace. A server that lacks the first cannot replace in one step, and then
//! nothing is replaced, unless the endpoint allows several steps ([`replace`]). An endpoint may
//! also ask for files under their own names from the start, for servers that rename nothing
//! ([`PublishBy`]). What directories' entries survive on the far side is the server's promise.
//!
//! Names that are neither file nor directory there do not exist here; a link in the middle of a
//! path is the server's business, as is what lies behind it. Times have whole seconds from 1970
//! to 2106; others are moved to the nearest.
//!
//! Connections: short requests share one, each open file has one of its own out of a pool
//! ([`pool`]). In each the client machine stands between two tasks that never wait for each other
//! ([`remote`]).

mod errors;
mod lookup;
mod pool;
mod read;
mod remote;
mod replace;
mod staged;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_net::dial::DialPolicy;
use entrepot_nouns::endpoint::{PublishBy, SftpTarget};
use entrepot_nouns::{Displaced, Env, StorePath, Timestamp, TransferId};
use entrepot_sftp_proto::client::NamedEntry;
use entrepot_sftp_proto::{Attrs, OpenFlags, Status, Times};
use entrepot_ssh::algorithms::Preset;
use entrepot_ssh::client::{ClientOptions, Credential, HostKeyPins};

use self::errors::Failed;
use self::lookup::{NO_MODES, find, handle_of, meta_of, seconds_of, space_of, stat};
use self::pool::Pool;
use self::read::SftpRead;
use self::remote::{Pages, Place, Remote};
use self::replace::FileRename;
use self::staged::{Naming, SftpStaged, Written};
use crate::ResolvedSecrets;
use crate::error::{Result, StoreError};
use crate::limits::{LIST_PAGE, SFTP_WALK_DIRECTORIES};
use crate::parts::names::{self, check_makeable, check_visible, part_of};
use crate::parts::registry::Registry;
use crate::store::{
    AnyStore, Caps, Entry, EntryKind, Existing, Listing, Meta, ModeChange, ReadFile, Renamed,
    Space, Staged, StagedFile, Store, StoreUser,
};

/// The store of a server. Nothing is dialled yet.
///
/// # Errors
/// [`StoreError::Denied`] if there is neither password nor key.
pub fn open(target: &SftpTarget, secrets: &ResolvedSecrets, env: &Env) -> Result<AnyStore> {
    let credential = match (secrets.private_key.clone(), secrets.secret.clone()) {
        (Some(key), Some(password)) => Credential::KeyAndPassword { key, password },
        (Some(key), None) => Credential::Key(key),
        (None, Some(password)) => Credential::Password(password),
        (None, None) => {
            return Err(StoreError::Denied("the endpoint has neither key nor password".to_owned()));
        }
    };
    let place = Place {
        host: target.host.clone(),
        port: target.port,
        policy: DialPolicy { allow_private: target.allow_private },
        root: target.root.clone(),
        login: ClientOptions {
            user: target.user.clone(),
            credential,
            pins: HostKeyPins::Pinned(target.host_keys.clone()),
            preset: Preset::Compatible,
            cipher: None,
            software: None,
            env: env.clone(),
        },
    };
    let (pool, publish) = (Pool::new(place), target.publish);
    let user = StoreUser::node();
    Ok(Arc::new(SftpStore { pool, registry: Arc::default(), publish, user }))
}

struct SftpStore {
    pool: Arc<Pool>,
    registry: Arc<Registry>,
    publish: PublishBy,
    user: StoreUser,
}

impl SftpStore {
    /// Opens a part on a connection of its own.
    async fn open_part(
        &self,
        id: TransferId,
        target: &StorePath,
        flags: OpenFlags,
        there: Option<Meta>,
    ) -> Result<SftpStaged> {
        let part = match self.publish {
            PublishBy::Direct => target.clone(),
            _ => part_of(target, id)?,
        };
        self.registry.settle().await;
        let claim = self.registry.claim(id, &part)?;
        let lease = self.pool.lease().await?;
        let path = lease.remote.path(&part);
        let opened = lease.remote.ask(|client| client.open(&path, flags, &Attrs::default())).await;
        let handle = match opened {
            Ok(answer) => handle_of(answer)?,
            Err(failed) => {
                claim.set_gone();
                return Err(failed.into());
            }
        };
        let size = lease.remote.fstat(&handle).await?.size.unwrap_or(0);
        let naming = Naming {
            part,
            target: target.clone(),
            publish: self.publish,
            replaces: there.is_some(),
        };
        let memory = self.user.memory.clone();
        Ok(SftpStaged::new(Written { lease, claim, handle, size, memory }, naming))
    }

    /// Looks for parts that earlier processes left, once.
    async fn walk(&self, remote: &Remote) -> Result<()> {
        if self.registry.was_walked() {
            return Ok(());
        }
        let mut open = VecDeque::from([StorePath::root()]);
        let mut seen = 0;
        while let Some(directory) = open.pop_front() {
            seen += 1;
            if seen > SFTP_WALK_DIRECTORIES {
                tracing::warn!(
                    directories = SFTP_WALK_DIRECTORIES,
                    "the server has more directories than are searched for staged files"
                );
                break;
            }
            self.walk_directory(remote, &directory, &mut open).await?;
        }
        self.registry.set_walked();
        Ok(())
    }

    async fn walk_directory(
        &self,
        remote: &Remote,
        directory: &StorePath,
        open: &mut VecDeque<StorePath>,
    ) -> Result<()> {
        let mut pages = remote.list(&remote.path(directory))?;
        loop {
            let page = match remote.page(&mut pages).await {
                Ok(Some(page)) => page,
                Ok(None) => return Ok(()),
                // Gone meanwhile, or not ours to look into.
                Err(Failed::Op(_)) => return Ok(()),
                Err(failed) => return Err(failed.into()),
            };
            for (name, meta) in page.iter().filter_map(plain_entry) {
                let Ok(path) = directory.join(name) else { continue };
                match (meta.kind, names::transfer_of(name)) {
                    (EntryKind::File, Some(id)) => self.registry.found(id, path),
                    (EntryKind::Directory, None) if open.len() < SFTP_WALK_DIRECTORIES => {
                        open.push_back(path);
                    }
                    _ => {}
                }
            }
        }
    }

    /// Why a directory was not made or a file not found: a parent may be a file.
    async fn not_found_or_not_directory(&self, remote: &Remote, path: &StorePath) -> StoreError {
        let mut above = path.parent();
        while let Some(parent) = above.filter(|parent| !parent.is_root()) {
            match find(remote, &parent).await {
                Ok(Some(meta)) if meta.kind == EntryKind::File => return StoreError::NotDirectory,
                Ok(None) => above = parent.parent(),
                _ => break,
            }
        }
        StoreError::NotFound
    }
}

/// An entry as the store sees it: UTF-8, one component, file or directory.
fn plain_entry(entry: &NamedEntry) -> Option<(&str, Meta)> {
    let name = std::str::from_utf8(&entry.name).ok()?;
    if matches!(name, "" | "." | "..") || name.contains(['/', '\0']) {
        return None;
    }
    Some((name, meta_of(&entry.attrs)?))
}

#[async_trait]
impl Store for SftpStore {
    fn caps(&self) -> Caps {
        Caps {
            random_write: true,
            atomic_rename: true,
            directories: true,
            modes: true,
            resume: true,
            staged_apart: self.publish != PublishBy::Direct,
            local: false,
            durable_staging: false,
        }
    }

    fn for_user(&self, user: &StoreUser) -> Option<AnyStore> {
        Some(Arc::new(SftpStore {
            pool: self.pool.for_holder(user.holder),
            registry: Arc::clone(&self.registry),
            publish: self.publish,
            user: user.clone(),
        }))
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        check_visible(path)?;
        stat(&*self.pool.common().await?, path).await
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        check_visible(path)?;
        let remote = self.pool.common().await?;
        if stat(&remote, path).await?.kind == EntryKind::File {
            return Err(StoreError::NotDirectory);
        }
        let pages = remote.list(&remote.path(path))?;
        Ok(Box::new(SftpListing { remote, pages, left: VecDeque::new(), ended: false }))
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        check_visible(path)?;
        let lease = self.pool.lease().await?;
        let remote = &lease.remote;
        // A link or a device must not be opened: the first could lead anywhere.
        if stat(remote, path).await?.kind == EntryKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        let name = remote.path(path);
        let opened = remote.ask(|client| client.open(&name, OpenFlags::READ, &Attrs::default()));
        let handle = handle_of(opened.await?)?;
        let meta = meta_of(&remote.fstat(&handle).await?);
        match meta {
            Some(meta) if meta.kind == EntryKind::File => {
                let memory = self.user.memory.clone();
                Ok(Box::new(SftpRead::new(lease, handle, meta, memory)))
            }
            _ => {
                remote.close_later(handle, Box::new(()));
                Err(StoreError::NotFound)
            }
        }
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        let remote = self.pool.common().await?;
        let there = find(&remote, target).await?;
        if there.as_ref().is_some_and(|meta| meta.kind == EntryKind::Directory) {
            return Err(StoreError::IsDirectory);
        }
        let flags = match self.publish {
            // Not to read: some such servers let nobody.
            PublishBy::Direct => OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::TRUNCATE,
            _ => OpenFlags::READ | OpenFlags::WRITE | OpenFlags::CREATE | OpenFlags::EXCLUSIVE,
        };
        match self.open_part(id, target, flags, there).await {
            Ok(staged) => Ok(Box::new(staged)),
            Err(StoreError::NotFound) => {
                Err(self.not_found_or_not_directory(&remote, target).await)
            }
            Err(error) => Err(error),
        }
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        let flags = OpenFlags::READ | OpenFlags::WRITE;
        Ok(Box::new(self.open_part(id, target, flags, None).await?))
    }

    fn may_be_staged(&self, id: TransferId, target: &StorePath) {
        self.registry.may_have(id, target, self.publish);
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        let remote = self.pool.common().await?;
        self.registry.settle().await;
        self.walk(&remote).await?;
        let mut staged = Vec::new();
        for (id, part) in self.registry.all() {
            match find(&remote, &part).await? {
                Some(meta) => staged.push(Staged {
                    id,
                    size: meta.size,
                    modified: meta.modified,
                    identity: None,
                }),
                None => self.registry.forget(id),
            }
        }
        Ok(staged)
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        let remote = self.pool.common().await?;
        self.registry.settle().await;
        if self.registry.part(id).is_none() {
            self.walk(&remote).await?;
        }
        let Some(part) = self.registry.part(id) else { return Ok(()) };
        let claim = self.registry.claim(id, &part)?;
        let path = remote.path(&part);
        match remote.ask(|client| client.remove(&path)).await {
            Ok(_) => {}
            Err(failed) if failed.is(Status::NoSuchFile) => {}
            Err(failed) => return Err(failed.into()),
        }
        claim.set_gone();
        Ok(())
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let remote = self.pool.common().await?;
        if stat(&remote, path).await?.kind == EntryKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        let name = remote.path(path);
        remote.ask(|client| client.remove(&name)).await?;
        Ok(())
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        let remote = self.pool.common().await?;
        if path.is_root() {
            return Err(StoreError::Exists);
        }
        let name = remote.path(path);
        match remote.ask(|client| client.mkdir(&name)).await {
            Ok(_) => Ok(()),
            Err(failed) if failed.is(Status::Failure) => match find(&remote, path).await? {
                Some(_) => Err(StoreError::Exists),
                None => Err(failed.into()),
            },
            Err(failed) if failed.is(Status::NoSuchFile) => {
                Err(self.not_found_or_not_directory(&remote, path).await)
            }
            Err(failed) => Err(failed.into()),
        }
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        names::check_below_root(path)?;
        let remote = self.pool.common().await?;
        if stat(&remote, path).await?.kind == EntryKind::File {
            return Err(StoreError::NotDirectory);
        }
        let name = remote.path(path);
        match remote.ask(|client| client.rmdir(&name)).await {
            Ok(_) => Ok(()),
            Err(failed) if failed.is(Status::Failure) => {
                let mut pages = remote.list(&name)?;
                let mut empty = true;
                while let Some(page) = remote.page(&mut pages).await? {
                    empty &= page.iter().all(|entry| matches!(&*entry.name, b"." | b".."));
                }
                Err(if empty { failed.into() } else { StoreError::NotEmpty })
            }
            Err(failed) => Err(failed.into()),
        }
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        check_makeable(to)?;
        check_visible(from)?;
        names::check_below_root(from)?;
        names::check_below_root(to)?;
        let remote = self.pool.common().await?;
        if stat(&remote, from).await?.kind == EntryKind::File {
            let rename = FileRename { from, to, existing, publish: self.publish };
            let replaced = rename.run(&self.pool, &remote).await?;
            return Ok(Renamed { displaced: replaced.then(Displaced::default) });
        }
        if find(&remote, to).await?.is_some() {
            return Err(StoreError::Exists);
        }
        let (old, new) = (remote.path(from), remote.path(to));
        remote.ask(|client| client.rename(&old, &new)).await?;
        Ok(Renamed::default())
    }

    async fn set_times(
        &self,
        path: &StorePath,
        accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        check_visible(path)?;
        let remote = self.pool.common().await?;
        let now = stat(&remote, path).await?;
        let times = Times {
            accessed: seconds_of(accessed.unwrap_or(now.accessed)),
            modified: seconds_of(modified.unwrap_or(now.modified)),
        };
        let (name, attrs) = (remote.path(path), Attrs { times: Some(times), ..Attrs::default() });
        remote.ask(|client| client.setstat(&name, &attrs)).await?;
        Ok(())
    }

    async fn set_mode(&self, path: &StorePath, change: ModeChange) -> Result<u32> {
        check_visible(path)?;
        let remote = self.pool.common().await?;
        let now = stat(&remote, path).await?;
        let bits = now.mode.ok_or(NO_MODES)?;
        let (name, permissions) = (remote.path(path), Some(change.of(bits, now.kind)));
        let attrs = Attrs { permissions, ..Attrs::default() };
        remote.ask(|client| client.setstat(&name, &attrs)).await?;
        // Servers answer OK that set nothing.
        stat(&remote, path).await?.mode.ok_or(NO_MODES)
    }

    async fn space(&self) -> Result<Space> {
        let remote = self.pool.common().await?;
        space_of(&remote, &remote.path(&StorePath::root())).await
    }
}

/// A directory being listed.
struct SftpListing {
    remote: Arc<Remote>,
    pages: Pages,
    left: VecDeque<Entry>,
    ended: bool,
}

#[async_trait]
impl Listing for SftpListing {
    async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>> {
        while self.left.is_empty() && !self.ended {
            match self.remote.page(&mut self.pages).await? {
                None => self.ended = true,
                Some(page) => {
                    let shown = page.iter().filter_map(plain_entry);
                    let shown = shown.filter(|(name, _)| names::is_shown(name));
                    self.left
                        .extend(shown.map(|(name, meta)| Entry { name: name.to_owned(), meta }));
                }
            }
        }
        let count = max.min(LIST_PAGE).min(self.left.len());
        Ok(self.left.drain(..count).collect())
    }
}

impl Drop for SftpListing {
    fn drop(&mut self) {
        if !self.ended {
            self.remote.end_list(&self.pages);
        }
    }
}
