//! Object stores: S3 and what speaks it, Azure Blob Storage, Google Cloud Storage.
//!
//! A file is an object; what is staged is invisible until the one request that publishes it (a
//! single put, or the completion of a multipart upload), so there is no half-written object. A
//! directory is a prefix of names; an empty one is held by a hidden marker object. Each object
//! carries the id of the transfer that made it as metadata ([`TRANSFER`]): its identity, by which
//! recovery and a put whose answer was lost tell one's own object from another's.
//!
//! What it cannot do it says in its caps: writes must be in order, times are the store's own,
//! rename is copy and delete, of a directory for each object in it ([`folder`]). A kept upload is
//! resumed behind its last whole part: the ids of the upload and of its parts are remembered here
//! and, in a ticket, by the caller over restarts ([`kept`]). Uploads that a dead process left
//! without a word are removed by the bucket's lifecycle rule for incomplete multipart uploads,
//! which every operator should set.

mod connect;
mod folder;
mod kept;
mod listing;
mod read;
mod running;
mod staged;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_model::endpoint::{ObjectProvider, ObjectTarget};
use entrepot_model::{Env, StorePath, Timestamp, TransferId};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{
    Attribute, Attributes, CopyMode, CopyOptions, GetOptions, MultipartId, ObjectMeta,
    ObjectStoreExt, PutMode, PutPayload,
};
use parking_lot::Mutex;

use self::connect::Backend;
use self::kept::{Held, Kept};
use self::running::Running;
use crate::ResolvedSecrets;
use crate::error::{Result, StoreError};
use crate::reserved::{check_makeable, check_visible};
use crate::store::{
    AnyStore, Caps, EntryKind, Existing, Identity, Listing, Meta, ReadFile, Renamed, Space, Staged,
    StagedFile, Store,
};

/// Name of the object that holds an otherwise empty directory.
const MARKER: &str = crate::limits::DIRECTORY_MARKER;

/// Metadata key with the id of the transfer that made the object.
const TRANSFER: &str = "entrepot-transfer";

/// Opens the store of a bucket; nothing is dialled yet.
///
/// # Errors
/// [`StoreError::Denied`] for a URL or credentials that may not or cannot be used.
pub fn open(target: &ObjectTarget, secrets: &ResolvedSecrets, env: &Env) -> Result<AnyStore> {
    let backend = connect::connect(target, secrets)?;
    let prefix = Path::parse(&target.prefix)
        .map_err(|error| StoreError::Denied(format!("the prefix cannot be used: {error}")))?;
    Ok(Arc::new(Objects(Arc::new(Core {
        backend,
        prefix,
        env: env.clone(),
        held: Mutex::new(HashMap::new()),
        moves: tokio::sync::RwLock::default(),
        running: Running::default(),
    }))))
}

struct Objects(Arc<Core>);

struct Core {
    backend: Backend,
    prefix: Path,
    env: Env,
    /// Uploads at work, and those that were dropped and can be resumed.
    held: Mutex<HashMap<TransferId, Held>>,
    /// Objects get their names side by side; not while the old names of a directory go.
    moves: tokio::sync::RwLock<()>,
    /// Renames of directories; looked at with `moves` held, which they wait for once they are in.
    running: Running,
}

/// The meaning of an error of the client library.
fn store_error(error: object_store::Error) -> StoreError {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => StoreError::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => StoreError::Exists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            StoreError::Denied("the object store refused the key for this request".to_owned())
        }
        Error::InvalidPath { .. } => StoreError::Denied("the name cannot be a key".to_owned()),
        Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            StoreError::Unsupported("the object store lacks this request")
        }
        // Only after the client's own tries: the network, or the far side in trouble.
        other => StoreError::Unavailable(other.to_string().chars().take(300).collect()),
    }
}

fn timestamp(meta: &ObjectMeta) -> Timestamp {
    Timestamp(meta.last_modified.timestamp_micros())
}

fn transfer_identity(id: TransferId) -> Identity {
    Identity(format!("transfer:{id}"))
}

fn identity_of(meta: &ObjectMeta, attributes: &Attributes) -> Option<Identity> {
    let transfer = attributes.get(&Attribute::Metadata(TRANSFER.into()));
    match (transfer, &meta.e_tag) {
        (Some(transfer), _) => Some(Identity(format!("transfer:{}", transfer.as_ref()))),
        (None, Some(tag)) => Some(Identity(format!("etag:{tag}"))),
        _ => None,
    }
}

fn file_meta(meta: &ObjectMeta, identity: Option<Identity>) -> Meta {
    let modified = timestamp(meta);
    Meta {
        kind: EntryKind::File,
        size: meta.size,
        modified,
        accessed: modified,
        identity,
        mode: None,
    }
}

fn directory_meta() -> Meta {
    Meta {
        kind: EntryKind::Directory,
        size: 0,
        modified: Timestamp(0),
        accessed: Timestamp(0),
        identity: None,
        mode: None,
    }
}

impl Core {
    fn key(&self, path: &StorePath) -> Result<Path> {
        let joined = match (self.prefix.as_ref(), path.as_str()) {
            ("", path) => path.to_owned(),
            (prefix, "") => prefix.to_owned(),
            (prefix, path) => format!("{prefix}/{path}"),
        };
        Path::parse(joined).map_err(|_| {
            StoreError::Denied("an object store takes no control characters in names".to_owned())
        })
    }

    /// The prefix of everything in a directory: empty or ending with a slash.
    fn folder(&self, path: &StorePath) -> Result<String> {
        let key = self.key(path)?;
        Ok(if key.as_ref().is_empty() { String::new() } else { format!("{key}/") })
    }

    fn marker(&self, path: &StorePath) -> Result<Path> {
        self.key(&path.join(MARKER).map_err(|error| StoreError::Denied(error.to_string()))?)
    }

    /// The object at `key`; `None` if there is none.
    async fn head(&self, key: &Path) -> Result<Option<(ObjectMeta, Option<Identity>)>> {
        let options = GetOptions { head: true, ..GetOptions::default() };
        match self.backend.objects.get_opts(key, options).await {
            Ok(found) => {
                let identity = identity_of(&found.meta, &found.attributes);
                Ok(Some((found.meta, identity)))
            }
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }

    /// The keys of at most two objects below a directory.
    async fn some_below(&self, path: &StorePath) -> Result<Vec<Path>> {
        let folder = self.folder(path)?;
        let options = PaginatedListOptions { max_keys: Some(2), ..Default::default() };
        let prefix = (!folder.is_empty()).then_some(folder.as_str());
        let page = self.backend.pages.list_paginated(prefix, options).await.map_err(store_error)?;
        Ok(page.result.objects.into_iter().map(|object| object.location).collect())
    }

    async fn is_directory(&self, path: &StorePath) -> Result<bool> {
        Ok(path.is_root() || !self.some_below(path).await?.is_empty())
    }

    /// The file at `path`, or why there is none.
    async fn file(&self, path: &StorePath) -> Result<(ObjectMeta, Option<Identity>)> {
        if !path.is_root()
            && let Some(found) = self.head(&self.key(path)?).await?
        {
            return Ok(found);
        }
        match self.is_directory(path).await? {
            true => Err(StoreError::IsDirectory),
            false => Err(StoreError::NotFound),
        }
    }

    async fn delete(&self, key: &Path) -> Result<()> {
        match self.backend.objects.delete(key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }

    /// Drops the parts of an upload.
    async fn abort(&self, key: &Path, upload: &MultipartId) -> Result<()> {
        match self.backend.parts.abort_multipart(key, upload).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }

    /// Keeps `path` as a directory when the last object in it goes.
    async fn hold_directory(&self, path: Option<StorePath>) -> Result<()> {
        let Some(path) = path.filter(|path| !path.is_root()) else { return Ok(()) };
        if self.some_below(&path).await?.len() < 2 {
            let marker = self.marker(&path)?;
            let put = self.backend.objects.put(&marker, PutPayload::default()).await;
            put.map_err(store_error)?;
        }
        Ok(())
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        let object = match self.file(from).await {
            Err(StoreError::IsDirectory) => {
                self.rename_directory(from, to).await?;
                return Ok(Renamed { replaced: false });
            }
            other => other?.0,
        };
        let replaced = match self.file(to).await {
            Ok(_) if existing == Existing::Refuse => return Err(StoreError::Exists),
            Ok(_) => true,
            Err(StoreError::NotFound) => false,
            Err(error) => return Err(error),
        };
        if from == to {
            return Ok(Renamed { replaced: false });
        }
        folder::check_copy(self, &object)?;
        let (source, target) = (self.key(from)?, self.key(to)?);
        let _beside = self.moves.read().await;
        self.running.check(&source)?;
        self.running.check(&target)?;
        let options = CopyOptions { mode: CopyMode::Overwrite, ..CopyOptions::default() };
        let copied = self.backend.objects.copy_opts(&source, &target, options).await;
        copied.map_err(store_error)?;
        self.hold_directory(from.parent()).await?;
        self.delete(&source).await?;
        Ok(Renamed { replaced })
    }

    async fn rename_directory(&self, from: &StorePath, to: &StorePath) -> Result<()> {
        if from.is_root() {
            return Err(StoreError::Denied("this is the root of the endpoint".to_owned()));
        }
        if from == to {
            return Ok(());
        }
        // Once before anybody is kept from changing something there.
        self.check_free(to).await?;
        if to.as_str().strip_prefix(from.as_str()).is_some_and(|rest| rest.starts_with('/')) {
            let why = "a directory cannot be moved into itself";
            return Err(StoreError::Denied(why.to_owned()));
        }
        let _claim = self.running.begin(&self.folder(from)?, &self.folder(to)?)?;
        // Those who did not see it yet end first.
        drop(self.moves.write().await);
        self.check_free(to).await?;
        folder::rename(self, from, to).await
    }

    /// Fails if there is a file or a directory.
    async fn check_free(&self, path: &StorePath) -> Result<()> {
        match self.file(path).await {
            Ok(_) | Err(StoreError::IsDirectory) => Err(StoreError::Exists),
            Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

#[async_trait]
impl Store for Objects {
    fn caps(&self) -> Caps {
        Caps {
            random_write: false,
            atomic_rename: false,
            directories: false,
            set_times: false,
            modes: false,
            conditional: self.0.backend.provider != ObjectProvider::Azure,
            resume: true,
            staged_apart: true,
            local: false,
        }
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        check_visible(path)?;
        match self.0.file(path).await {
            Ok((meta, identity)) => Ok(file_meta(&meta, identity)),
            Err(StoreError::IsDirectory) => Ok(directory_meta()),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        check_visible(path)?;
        listing::open(&self.0, path).await
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        check_visible(path)?;
        let (object, identity) = self.0.file(path).await?;
        Ok(read::open(&self.0, object, identity))
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        if self.0.is_directory(target).await? {
            return Err(StoreError::IsDirectory);
        }
        Ok(staged::stage(&self.0, id, self.0.key(target)?))
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        staged::resume(&self.0, id, self.0.key(target)?)
    }

    fn adopt(&self, id: TransferId, target: &StorePath, ticket: &str) -> Result<()> {
        let kept = Kept::of_ticket(ticket, self.0.key(target)?, self.0.env.now())?;
        self.0.held.lock().entry(id).or_insert(Held::Kept(kept));
        Ok(())
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        let held = self.0.held.lock();
        let kept = held.iter().filter_map(|(id, held)| match held {
            Held::Kept(kept) => Some((*id, kept)),
            Held::Working { .. } => None,
        });
        let staged = kept.map(|(id, kept)| Staged {
            id,
            size: kept.upload.whole(),
            modified: kept.at,
            identity: kept.upload.labelled.then(|| transfer_identity(id)),
        });
        Ok(staged.collect())
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        let kept = match self.0.held.lock().entry(id) {
            Entry::Vacant(_) => return Ok(()),
            Entry::Occupied(mut held) => match held.get_mut() {
                // Its handle drops it when it goes.
                Held::Working { doomed } => {
                    *doomed = true;
                    return Ok(());
                }
                Held::Kept(_) => held.remove(),
            },
        };
        let Held::Kept(kept) = kept else { return Ok(()) };
        if let Err(error) = self.0.abort(&kept.key, &kept.upload.id).await {
            self.0.held.lock().entry(id).or_insert(Held::Kept(kept));
            return Err(error);
        }
        Ok(())
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let key = self.0.key(path)?;
        let _beside = self.0.moves.read().await;
        self.0.running.check(&key)?;
        self.0.file(path).await?;
        self.0.hold_directory(path.parent()).await?;
        self.0.delete(&key).await
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        let _beside = self.0.moves.read().await;
        self.0.running.check(&self.0.key(path)?)?;
        self.0.check_free(path).await?;
        let marker = self.0.marker(path)?;
        let options = PutMode::Create.into();
        let put = self.0.backend.objects.put_opts(&marker, PutPayload::default(), options).await;
        put.map(|_| ()).map_err(store_error)
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        if path.is_root() {
            return Err(StoreError::Denied("this is the root of the endpoint".to_owned()));
        }
        let _beside = self.0.moves.read().await;
        self.0.running.check(&self.0.key(path)?)?;
        let (below, marker) = (self.0.some_below(path).await?, self.0.marker(path)?);
        if below.is_empty() {
            return Err(match self.0.head(&self.0.key(path)?).await? {
                Some(_) => StoreError::NotDirectory,
                None => StoreError::NotFound,
            });
        }
        if below.iter().any(|key| *key != marker) {
            return Err(StoreError::NotEmpty);
        }
        self.0.hold_directory(path.parent()).await?;
        self.0.delete(&marker).await
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        check_visible(from)?;
        check_makeable(to)?;
        self.0.rename(from, to, existing).await
    }

    async fn set_times(
        &self,
        _: &StorePath,
        _: Option<Timestamp>,
        _: Option<Timestamp>,
    ) -> Result<()> {
        Err(StoreError::Unsupported("setting the times of an object"))
    }

    async fn space(&self) -> Result<Space> {
        Ok(Space {
            total_bytes: u64::MAX,
            free_bytes: u64::MAX,
            total_files: u64::MAX,
            free_files: u64::MAX,
        })
    }
}
