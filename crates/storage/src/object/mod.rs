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
//! resumed behind the last whole part with which no other was on its way: the ids of the upload and
//! of its parts are remembered here and, in a ticket, by the caller over restarts ([`kept`]).
//! Uploads that a dead process left without a word are removed by the bucket's lifecycle rule for
//! incomplete multipart uploads, which every operator should set.

mod bucket;
mod buffer;
mod connect;
mod describe;
mod errors;
mod folder;
mod kept;
mod listing;
mod read;
mod rename;
mod requests;
mod running;
mod sending;
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
use self::kept::{Held, Kept, PartSizes};
use self::running::Running;
use crate::ResolvedSecrets;
use crate::budget::Share;
use crate::error::{Result, StoreError};
use crate::reserved::{check_makeable, check_visible};
use crate::store::{
    AnyStore, Caps, Existing, Listing, Meta, ReadFile, Renamed, Space, Staged, StagedFile, Store,
    StoreUser,
};

/// Opens the store of a bucket; nothing is dialled yet.
///
/// # Errors
/// [`StoreError::Denied`] for a URL or credentials that may not or cannot be used.
pub fn open(target: &ObjectTarget, secrets: &ResolvedSecrets, env: &Env) -> Result<AnyStore> {
    let backend = connect::connect(target, secrets)?;
    let prefix = Path::parse(&target.prefix)
        .map_err(|error| StoreError::Denied(format!("the prefix cannot be used: {error}")))?;
    let bucket = Arc::new(Bucket {
        backend,
        prefix,
        env: env.clone(),
        sizes: PartSizes { first: (target.requests.part_size_mib() as usize) << 20 },
        parts_at_once: target.requests.parts_at_once() as usize,
        held: Mutex::new(HashMap::new()),
        moves: tokio::sync::RwLock::default(),
        running: Running::default(),
    });
    Ok(Arc::new(Objects { bucket, memory: None }))
}

/// A bucket, for somebody whose memory is counted.
struct Objects {
    bucket: Arc<Bucket>,
    memory: Option<Share>,
}

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
            durable_staging: false,
        }
    }

    fn for_user(&self, user: &StoreUser) -> Option<AnyStore> {
        let (bucket, memory) = (Arc::clone(&self.bucket), user.memory.clone());
        Some(Arc::new(Objects { bucket, memory }))
    }

    async fn stat(&self, path: &StorePath) -> Result<Meta> {
        check_visible(path)?;
        match self.bucket.file(path).await {
            Ok((meta, identity)) => Ok(file_meta(&meta, identity)),
            Err(StoreError::IsDirectory) => Ok(directory_meta()),
            Err(error) => Err(error),
        }
    }

    async fn list(&self, path: &StorePath) -> Result<Box<dyn Listing>> {
        check_visible(path)?;
        listing::open(&self.bucket, path).await
    }

    async fn open(&self, path: &StorePath) -> Result<Box<dyn ReadFile>> {
        check_visible(path)?;
        let (object, identity) = self.bucket.file(path).await?;
        Ok(read::open(&self.bucket, object, identity, self.memory.clone()))
    }

    async fn stage(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        if self.bucket.is_directory(target).await? {
            return Err(StoreError::IsDirectory);
        }
        Ok(staged::stage(&self.bucket, id, self.bucket.key(target)?, self.memory.clone()))
    }

    async fn resume(&self, id: TransferId, target: &StorePath) -> Result<Box<dyn StagedFile>> {
        check_makeable(target)?;
        staged::resume(&self.bucket, id, self.bucket.key(target)?, self.memory.clone())
    }

    fn adopt(&self, id: TransferId, target: &StorePath, ticket: &str) -> Result<()> {
        let kept = Kept::of_ticket(ticket, self.bucket.key(target)?, self.bucket.env.now())?;
        self.bucket.held.lock().entry(id).or_insert(Held::Kept(kept));
        Ok(())
    }

    async fn staged(&self) -> Result<Vec<Staged>> {
        let held = self.bucket.held.lock();
        let kept = held.iter().filter_map(|(id, held)| match held {
            Held::Kept(kept) => Some((*id, kept)),
            Held::Working { .. } => None,
        });
        let staged = kept.map(|(id, kept)| Staged {
            id,
            size: kept.upload.rested(),
            modified: kept.at,
            identity: kept.upload.labelled.then(|| transfer_identity(id)),
        });
        Ok(staged.collect())
    }

    async fn discard_staged(&self, id: TransferId) -> Result<()> {
        let kept = match self.bucket.held.lock().entry(id) {
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
        if let Err(error) = self.bucket.abort(&kept.key, &kept.upload.id).await {
            self.bucket.held.lock().entry(id).or_insert(Held::Kept(kept));
            return Err(error);
        }
        Ok(())
    }

    async fn remove(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        let key = self.bucket.key(path)?;
        let _beside = self.bucket.moves.read().await;
        self.bucket.running.check(&key)?;
        self.bucket.file(path).await?;
        self.bucket.hold_directory(path.parent()).await?;
        self.bucket.delete(&key).await
    }

    async fn make_directory(&self, path: &StorePath) -> Result<()> {
        check_makeable(path)?;
        let _beside = self.bucket.moves.read().await;
        self.bucket.running.check(&self.bucket.key(path)?)?;
        self.bucket.check_free(path).await?;
        let marker = self.bucket.marker(path)?;
        let options = PutMode::Create.into();
        let put =
            self.bucket.backend.objects.put_opts(&marker, PutPayload::default(), options).await;
        put.map(|_| ()).map_err(store_error)
    }

    async fn remove_directory(&self, path: &StorePath) -> Result<()> {
        check_visible(path)?;
        if path.is_root() {
            return Err(StoreError::Denied("this is the root of the endpoint".to_owned()));
        }
        let _beside = self.bucket.moves.read().await;
        self.bucket.running.check(&self.bucket.key(path)?)?;
        let (below, marker) = (self.bucket.some_below(path).await?, self.bucket.marker(path)?);
        if below.is_empty() {
            return Err(match self.bucket.head(&self.bucket.key(path)?).await? {
                Some(_) => StoreError::NotDirectory,
                None => StoreError::NotFound,
            });
        }
        if below.iter().any(|key| *key != marker) {
            return Err(StoreError::NotEmpty);
        }
        self.bucket.hold_directory(path.parent()).await?;
        self.bucket.delete(&marker).await
    }

    async fn rename(
        &self,
        from: &StorePath,
        to: &StorePath,
        existing: Existing,
    ) -> Result<Renamed> {
        check_visible(from)?;
        check_makeable(to)?;
        rename::rename(&self.bucket, from, to, existing).await
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
