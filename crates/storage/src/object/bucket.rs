//! One bucket, or a prefix in it: where its objects are, and single requests on them.

use std::collections::HashMap;

use entrepot_nouns::{Env, StorePath, TransferId};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{GetOptions, MultipartId, ObjectMeta, ObjectStoreExt as _, PutPayload};
use parking_lot::Mutex;

use super::connect::Backend;
use super::describe::identity_of;
use super::errors::store_error;
use super::kept::{Held, PartSizes};
use super::running::Running;
use crate::error::{Result, StoreError};
use crate::store::Identity;

/// Name of the object that holds an otherwise empty directory.
pub(super) const MARKER: &str = crate::limits::DIRECTORY_MARKER;

/// A bucket, and what is going on in it.
pub(super) struct Bucket {
    pub(super) backend: Backend,
    pub(super) prefix: Path,
    pub(super) env: Env,
    /// Sizes of the parts of new uploads.
    pub(super) sizes: PartSizes,
    /// Parts of one upload that are sent at the same time.
    pub(super) parts_at_once: usize,
    /// Uploads at work, and those that were dropped and can be resumed.
    pub(super) held: Mutex<HashMap<TransferId, Held>>,
    /// Objects get their names side by side; not while the old names of a directory go.
    pub(super) moves: tokio::sync::RwLock<()>,
    /// Renames of directories; looked at with `moves` held, which they wait for once they are in.
    pub(super) running: Running,
}

impl Bucket {
    pub(super) fn key(&self, path: &StorePath) -> Result<Path> {
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
    pub(super) fn folder(&self, path: &StorePath) -> Result<String> {
        let key = self.key(path)?;
        Ok(if key.as_ref().is_empty() { String::new() } else { format!("{key}/") })
    }

    pub(super) fn marker(&self, path: &StorePath) -> Result<Path> {
        self.key(&path.join(MARKER).map_err(|error| StoreError::Denied(error.to_string()))?)
    }

    /// The object at `key`; `None` if there is none.
    pub(super) async fn head(&self, key: &Path) -> Result<Option<(ObjectMeta, Option<Identity>)>> {
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
    pub(super) async fn some_below(&self, path: &StorePath) -> Result<Vec<Path>> {
        let folder = self.folder(path)?;
        let options = PaginatedListOptions { max_keys: Some(2), ..Default::default() };
        let prefix = (!folder.is_empty()).then_some(folder.as_str());
        let page = self.backend.pages.list_paginated(prefix, options).await.map_err(store_error)?;
        Ok(page.result.objects.into_iter().map(|object| object.location).collect())
    }

    pub(super) async fn is_directory(&self, path: &StorePath) -> Result<bool> {
        Ok(path.is_root() || !self.some_below(path).await?.is_empty())
    }

    /// The file at `path`, or why there is none.
    pub(super) async fn file(&self, path: &StorePath) -> Result<(ObjectMeta, Option<Identity>)> {
        if !path.is_root()
            && let Some(found) = self.head(&self.key(path)?).await?
        {
            return Ok(found);
        }
        let is_directory = self.is_directory(path).await?;
        Err(if is_directory { StoreError::IsDirectory } else { StoreError::NotFound })
    }

    pub(super) async fn delete(&self, key: &Path) -> Result<()> {
        match self.backend.objects.delete(key).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }

    /// Drops the parts of an upload.
    pub(super) async fn abort(&self, key: &Path, upload: &MultipartId) -> Result<()> {
        match self.backend.parts.abort_multipart(key, upload).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(store_error(error)),
        }
    }

    /// Keeps `path` as a directory when the last object in it goes.
    pub(super) async fn hold_directory(&self, path: Option<StorePath>) -> Result<()> {
        let Some(path) = path.filter(|path| !path.is_root()) else { return Ok(()) };
        if self.some_below(&path).await?.len() < 2 {
            let marker = self.marker(&path)?;
            let put = self.backend.objects.put(&marker, PutPayload::default()).await;
            put.map_err(store_error)?;
        }
        Ok(())
    }

    /// Fails if there is a file or a directory.
    pub(super) async fn check_free(&self, path: &StorePath) -> Result<()> {
        match self.file(path).await {
            Ok(_) | Err(StoreError::IsDirectory) => Err(StoreError::Exists),
            Err(StoreError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }
}
