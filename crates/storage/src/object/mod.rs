//! Object stores: S3 and what speaks it, Azure Blob Storage, Google Cloud Storage.
//!
//! A file is an object; what is staged is invisible until the one request that publishes it (a
//! single put, or the completion of a multipart upload), so there is no half-written object. A
//! directory is a prefix of names; an empty one is held by a hidden marker object. Each object
//! carries the id of the transfer that made it as metadata ([`describe::TRANSFER`]): its identity,
//! by which recovery and a put whose answer was lost tell one's own object from another's.
//!
//! What it cannot do it says in its caps: writes must be in order, times are the store's own,
//! rename is copy and delete, of a directory for each object in it ([`folder`]). A kept upload is
//! resumed behind its last whole part: the ids of the upload and of its parts are remembered here
//! and, in a ticket, by the caller over restarts ([`kept`]). Uploads that a dead process left
//! without a word are removed by the bucket's lifecycle rule for incomplete multipart uploads,
//! which every operator should set.

mod bucket;
mod connect;
mod describe;
mod errors;
mod folder;
mod kept;
mod listing;
mod read;
mod rename;
mod running;
mod staged;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_nouns::endpoint::ObjectTarget;
use entrepot_nouns::{Env, StorePath, Timestamp, TransferId};
use object_store::path::Path;
use object_store::{PutMode, PutPayload};
use parking_lot::Mutex;

use self::bucket::Bucket;
use self::describe::{directory_meta, file_meta, transfer_identity};
use self::errors::store_error;
use self::kept::{Held, Kept};
use self::running::Running;
use crate::ResolvedSecrets;
use crate::error::{Result, StoreError};
use crate::reserved::{check_makeable, check_visible};
use crate::store::{
    AnyStore, Caps, Existing, Listing, Meta, ReadFile, Renamed, Space, Staged, StagedFile, Store,
};

/// Opens the store of a bucket; nothing is dialled yet.
///
/// # Errors
/// [`StoreError::Denied`] for a URL or credentials that may not or cannot be used.
pub fn open(target: &ObjectTarget, secrets: &ResolvedSecrets, env: &Env) -> Result<AnyStore> {
    let backend = connect::connect(target, secrets)?;
    let prefix = Path::parse(&target.prefix)
        .map_err(|error| StoreError::Denied(format!("the prefix cannot be used: {error}")))?;
    Ok(Arc::new(Objects(Arc::new(Bucket {
        backend,
        prefix,
        env: env.clone(),
        held: Mutex::new(HashMap::new()),
        moves: tokio::sync::RwLock::default(),
        running: Running::default(),
    }))))
}

struct Objects(Arc<Bucket>);

#[async_trait]
impl Store for Objects {
    fn caps(&self) -> Caps {
        Caps {
            random_write: false,
            atomic_rename: false,
            directories: false,
            modes: false,
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
        rename::rename(&self.0, from, to, existing).await
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
