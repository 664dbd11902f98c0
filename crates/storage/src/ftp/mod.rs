//! An FTP server, in clear text or under TLS.
//!
//! Writing: a file is staged as `.<name>.<transfer id>.part` beside its target, in order, by STOR,
//! and by APPE where it is gone on with. It counts as there when the server has said 226 and tells
//! the size that was sent; then RNFR and RNTO give it its name. What was sent is read back as any
//! file is, after such a 226. Most servers replace a file by RNTO in one step; on one that refuses
//! nothing is replaced, unless the endpoint allows two steps ([`PublishBy`]). What a disk there
//! survives is the server's promise: FTP has no word for it.
//!
//! Reading: RETR from where it is wanted, with REST. A download counts when every byte came that
//! the server had told of, under TLS its close_notify, and 226; then size and time are looked at
//! again. Cut in the middle, it is begun again where it was cut.
//!
//! Listing: MLSD; on servers without it CWD and LIST, in the forms of `ls -l` and IIS, whose times
//! are the server's own. A listing of which no line is understood fails, for it would look like an
//! empty directory. A name is looked at by MLST, else by SIZE, MDTM and CWD; a link is then what it
//! leads to.
//!
//! Nobody can say "only if the name is free" to such a server, so [`Existing::Refuse`] is decided
//! before the rename. Names with control characters cannot be sent. Times of access do not exist.
//!
//! Each operation, and each file while it moves, has a session of its own out of a pool ([`pool`]).

mod errors;
mod listing;
mod lookup;
mod pool;
mod read;
mod remote;
mod replace;
mod staged;

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_ftp_proto::Time;
use entrepot_ftp_proto::client::{Account, Mode, Op, Tls};
use entrepot_net::dial::DialPolicy;
use entrepot_net::tls::{ServerTrust, TlsClient};
use entrepot_nouns::endpoint::{FtpMode, FtpTarget, FtpTls, PublishBy};
use entrepot_nouns::{Displaced, Env, StorePath, Timestamp, TransferId};

use self::listing::FtpListing;
use self::lookup::{find, name_state, stat};
use self::pool::Pool;
use self::read::FtpRead;
use self::remote::{Place, Remote};
use self::replace::FileRename;
use self::staged::{FtpStaged, Naming};
use crate::ResolvedSecrets;
use crate::error::{Result, StoreError};
use crate::limits::{FTP_CONNECTIONS, FTP_WALK_DIRECTORIES};
use crate::parts::names::{self, check_visible, part_of};
use crate::parts::registry::Registry;
use crate::store::{
    AnyStore, Caps, EntryKind, Existing, Listing, Meta, ReadFile, Renamed, Space, Staged,
    StagedFile, Store, StoreUser,
};

/// The store of a server. Nothing is dialled yet.
///
/// # Errors
/// [`StoreError::Denied`] if there is no password, or the certificates cannot be used.
pub fn open(target: &FtpTarget, secrets: &ResolvedSecrets, env: &Env) -> Result<AnyStore> {
    let Some(password) = &secrets.secret else {
        return Err(StoreError::Denied("the endpoint has no password".to_owned()));
    };
    let password = std::str::from_utf8(password.expose())
        .map_err(|_| StoreError::Denied("the password is not UTF-8".to_owned()))?;
    let (tls, client) = match target.tls {
        FtpTls::Off => (Tls::Off, None),
        FtpTls::Explicit => (Tls::Explicit, Some(tls_client(target)?)),
        FtpTls::Implicit => (Tls::Implicit, Some(tls_client(target)?)),
    };
    let mode = match target.mode {
        FtpMode::Passive => Mode::Passive,
        FtpMode::Active => Mode::Active,
    };
    let place = Place {
        host: target.host.clone(),
        port: target.port(),
        policy: DialPolicy { allow_private: target.allow_private },
        account: Account { tls, mode, ..Account::new(&target.user, password) },
        tls: client,
        root: target.root.clone(),
        env: env.clone(),
    };
    let most = usize::from(target.connections.unwrap_or(FTP_CONNECTIONS));
    let (pool, publish) = (Pool::new(place, most), target.publish);
    Ok(Arc::new(FtpStore { pool, registry: Arc::default(), publish }))
}

fn tls_client(target: &FtpTarget) -> Result<TlsClient> {
    let trust = match (&target.certificates, &target.authorities) {
        (pins, _) if !pins.is_empty() => ServerTrust::Pinned(pins.clone()),
        (_, Some(pem)) => ServerTrust::Authorities(pem.clone().into_bytes()),
        _ => ServerTrust::System,
    };
    TlsClient::new(&target.host, &trust).map_err(|error| StoreError::Denied(error.to_string()))
}

struct FtpStore {
    pool: Arc<Pool>,
    registry: Arc<Registry>,
    publish: PublishBy,
}

/// Fails for a name that would be made and cannot be: FTP has no way to say it, or it is ours.
fn check_makeable(path: &StorePath) -> Result<()> {
    if path.as_str().chars().any(char::is_control) {
        let why = "an FTP server takes no control characters in names";
        return Err(StoreError::Denied(why.to_owned()));
    }
    names::check_makeable(path)
}

impl FtpStore {
    /// Fails unless the directory of a target is there.
    async fn check_parent(&self, remote: &mut Remote, target: &StorePath) -> Result<()> {
        let Some(parent) = target.parent().filter(|parent| !parent.is_root()) else {
            return Ok(());
        };
        match find(remote, &parent).await? {
            Some(meta) if meta.kind == EntryKind::File => Err(StoreError::NotDirectory),
            Some(_) => Ok(()),
            None => Err(StoreError::NotFound),
        }
    }

    fn staged_file(&self, id: TransferId, target: &StorePath) -> Result<FtpStaged> {
        let part = match self.publish {
            PublishBy::Direct => target.clone(),
            _ => part_of(target, id)?,
        };
        let claim = self.registry.claim(id, &part)?;
        let naming =
            Naming { part, target: target.clone(), publish: self.publish, replaces: false };
        Ok(FtpStaged::new(Arc::clone(&self.pool), claim, naming))
    }

    /// Looks for parts that earlier processes left, once.
    async fn walk(&self) -> Result<()> {
        if self.registry.was_walked() {
            return Ok(());
        }
        let mut open = VecDeque::from([StorePath::root()]);
        let mut seen = 0;
        while let Some(directory) = open.pop_front() {
            seen += 1;
            if seen > FTP_WALK_DIRECTORIES {
                tracing::warn!(
                    directories = FTP_WALK_DIRECTORIES,
                    "the server has more directories than are searched for staged files"
                );
                break;
            }
            let mut listing = match FtpListing::begin(self.pool.lease().await?, &directory).await {
                Ok(listing) => listing,
                // Gone meanwhile, or not ours to look into.
                Err(StoreError::NotFound | StoreError::Denied(_)) => continue,
                Err(error) => return Err(error),
            };
            while let Some(entry) = listing.next_entry().await? {
                let Ok(path) = directory.join(&entry.name) else { continue };
                match (entry.meta.kind, names::transfer_of(&entry.name)) {
                    (EntryKind::File, Some(id)) => self.registry.found(id, path),
                    (EntryKind::Directory, None) if open.len() < FTP_WALK_DIRECTORIES => {
                        open.push_back(path);
                    }
                    _ => {}
                }
            }
        }
        self.registry.set_walked();
        Ok(())
    }
}

#[async_trait]
impl Store for FtpStore {
    fn caps(&self) -> Caps {
        Caps {
            random_write: false,
            // A server that cannot replace in one step is refused, see `place_file`.
            atomic_rename: true,
            directories: true,
            modes: false,
            // A file written under its own name has no part to go on with.
            resume: self.publish != PublishBy::Direct,
            staged_apart: self.publish != PublishBy::Direct,
            local: false,
            durable_staging: false,
        }
    }

    fn for_user(&self, user: &StoreUser) -> Option<AnyStore> {
        Some(Arc::new(FtpStore {
            pool: self.pool.for_holder(user.holder),
            registry: Arc::clone(&self.registry),
            publish: self.publish,
        }))
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        check_visible(path)?;
        stat(&mut *self.pool.lease().await?, path).await
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        check_visible(path)?;
        let mut lease = self.pool.lease_for_file().await?;
        if stat(&mut lease, path).await?.kind == EntryKind::File {
            return Err(StoreError::NotDirectory);
        }
        Ok(Box::new(FtpListing::begin(lease, path).await?))
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        check_visible(path)?;
        let meta = stat(&mut *self.pool.lease().await?, path).await?;
        if meta.kind == EntryKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        Ok(Box::new(FtpRead::new(Arc::clone(&self.pool), path.clone(), meta)))
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        let mut lease = self.pool.lease().await?;
        let there = name_state(&mut lease, target).await?;
        if there.is_directory() {
            return Err(StoreError::IsDirectory);
        }
        if !there.is_taken() {
            self.check_parent(&mut lease, target).await?;
        }
        self.registry.settle().await;
        let mut staged = self.staged_file(id, target)?;
        if there.is_taken() {
            staged.set_replaces();
        }
        Ok(Box::new(staged))
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        self.registry.settle().await;
        // Claimed before it is looked at: nobody else writes it then.
        let mut staged = self.staged_file(id, target)?;
        let mut lease = self.pool.lease().await?;
        let there = find(&mut lease, staged.part()).await?;
        drop(lease);
        match there {
            Some(meta) if meta.kind == EntryKind::File => staged.goes_on(meta.size),
            _ => {
                staged.forget();
                return Err(StoreError::NotFound);
            }
        }
        // A server that takes uploads and shows none of them: nobody could tell what the part is.
        match staged.check_readable().await {
            Ok(()) => Ok(Box::new(staged)),
            Err(error) if error.is_temporary() => Err(error),
            Err(error) => {
                tracing::info!(%error, "an FTP server does not give back a part: it is sent again");
                staged.discard().await?;
                Err(StoreError::NotFound)
            }
        }
    }

    fn may_be_staged(&self, id: TransferId, target: &StorePath) {
        self.registry.may_have(id, target, self.publish);
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        self.registry.settle().await;
        self.walk().await?;
        let mut lease = self.pool.lease().await?;
        let mut staged = Vec::new();
        for (id, part) in self.registry.all() {
            match find(&mut lease, &part).await? {
                Some(Meta { size, modified, .. }) => {
                    staged.push(Staged { id, size, modified, identity: None });
                }
                None => self.registry.forget(id),
            }
        }
        Ok(staged)
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        self.registry.settle().await;
        if self.registry.part(id).is_none() {
            self.walk().await?;
        }
        let Some(part) = self.registry.part(id) else { return Ok(()) };
        let claim = self.registry.claim(id, &part)?;
        let mut lease = self.pool.lease().await?;
        let name = lease.path(&part);
        match lease.change(Op::Delete(name)).await {
            Ok(()) => {}
            Err(failed) if failed.is_absent() => {
                if find(&mut lease, &part).await?.is_some() {
                    return Err(failed.into());
                }
            }
            Err(failed) => return Err(failed.into()),
        }
        claim.set_gone();
        Ok(())
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let mut lease = self.pool.lease().await?;
        if stat(&mut lease, path).await?.kind == EntryKind::Directory {
            return Err(StoreError::IsDirectory);
        }
        let name = lease.path(path);
        Ok(lease.change(Op::Delete(name)).await?)
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        if path.is_root() {
            return Err(StoreError::Exists);
        }
        let mut lease = self.pool.lease().await?;
        let name = lease.path(path);
        match lease.change(Op::MakeDir(name)).await {
            Ok(()) => Ok(()),
            Err(failed) if failed.code() >= 500 => {
                if name_state(&mut lease, path).await?.is_taken() {
                    return Err(StoreError::Exists);
                }
                self.check_parent(&mut lease, path).await?;
                Err(failed.into())
            }
            Err(failed) => Err(failed.into()),
        }
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        names::check_below_root(path)?;
        let mut lease = self.pool.lease().await?;
        if stat(&mut lease, path).await?.kind == EntryKind::File {
            return Err(StoreError::NotDirectory);
        }
        let name = lease.path(path);
        match lease.change(Op::RemoveDir(name)).await {
            Ok(()) => Ok(()),
            Err(failed) if failed.code() >= 500 => {
                let mut listing = FtpListing::begin(lease, path).await?;
                match listing.next_entry().await? {
                    Some(_) => Err(StoreError::NotEmpty),
                    None => Err(failed.into()),
                }
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
        let mut lease = self.pool.lease().await?;
        if stat(&mut lease, from).await?.kind == EntryKind::File {
            let rename = FileRename { from, to, existing, publish: self.publish };
            let replaced = rename.run(&mut lease).await?;
            return Ok(Renamed { displaced: replaced.then(Displaced::default) });
        }
        if name_state(&mut lease, to).await?.is_taken() {
            return Err(StoreError::Exists);
        }
        let rename = Op::Rename { from: lease.path(from), to: lease.path(to) };
        lease.change(rename).await?;
        Ok(Renamed::default())
    }

    async fn set_times(
        &self,
        path: &StorePath,
        _accessed: Option<Timestamp>,
        modified: Option<Timestamp>,
    ) -> Result<()> {
        check_visible(path)?;
        let Some(modified) = modified else {
            return Err(StoreError::Unsupported("times of access on an FTP server"));
        };
        let mut lease = self.pool.lease().await?;
        stat(&mut lease, path).await?;
        if !lease.features().mfmt {
            return Err(StoreError::Unsupported("the server sets no times (MFMT)"));
        }
        let time = Time::from_seconds(modified.seconds());
        let name = lease.path(path);
        Ok(lease.change(Op::SetModified(name, time)).await?)
    }

    async fn space(&self) -> Result<Space> {
        let unknown = u64::MAX;
        Ok(Space {
            total_bytes: unknown,
            free_bytes: unknown,
            total_files: unknown,
            free_files: unknown,
        })
    }
}
