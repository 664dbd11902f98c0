//! Listings of an object store, a page of its own at a time.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use entrepot_nouns::StorePath;
use object_store::list::PaginatedListOptions;

use super::bucket::{Bucket, MARKER};
use super::describe::{directory_meta, file_meta};
use super::errors::store_error;
use crate::error::{Result, StoreError};
use crate::limits::LIST_PAGE;
use crate::reserved::is_reserved;
use crate::store::{Entry, Listing};

struct ObjectListing {
    bucket: Arc<Bucket>,
    folder: String,
    ready: VecDeque<Entry>,
    /// Where the next page begins; `None` inside: at the start. `None`: there is none.
    next: Option<Option<String>>,
    /// Something was there, be it hidden.
    exists: bool,
}

/// Begins to list `path`.
pub(super) async fn open(bucket: &Arc<Bucket>, path: &StorePath) -> Result<Box<dyn Listing>> {
    let mut listing = ObjectListing {
        bucket: Arc::clone(bucket),
        folder: bucket.folder(path)?,
        ready: VecDeque::new(),
        next: Some(None),
        exists: path.is_root(),
    };
    listing.fetch().await?;
    if !listing.exists {
        return Err(match bucket.head(&bucket.key(path)?).await? {
            Some(_) => StoreError::NotDirectory,
            None => StoreError::NotFound,
        });
    }
    Ok(Box::new(listing))
}

impl ObjectListing {
    /// Gets one page of the store.
    async fn fetch(&mut self) -> Result<()> {
        let Some(page_token) = self.next.take() else { return Ok(()) };
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(LIST_PAGE),
            page_token,
            ..Default::default()
        };
        let prefix = (!self.folder.is_empty()).then_some(self.folder.as_str());
        let page = self.bucket.backend.pages.list_paginated(prefix, options).await;
        let page = page.map_err(store_error)?;
        self.next = page.page_token.map(Some);
        let directories = page.result.common_prefixes.iter().map(|at| (at, directory_meta()));
        let files = page.result.objects.iter().map(|object| {
            // The identity would cost a request for each: `stat` tells it.
            (&object.location, file_meta(object, None))
        });
        for (key, meta) in directories.chain(files) {
            self.exists = true;
            let Some(name) = key.as_ref().strip_prefix(&self.folder) else { continue };
            // A key with a trailing slash is how other tools mark a directory.
            if !name.is_empty() && name != MARKER && !is_reserved(name) {
                self.ready.push_back(Entry { name: name.to_owned(), meta });
            }
        }
        Ok(())
    }
}

#[async_trait]
impl Listing for ObjectListing {
    async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>> {
        while self.ready.is_empty() && self.next.is_some() {
            self.fetch().await?;
        }
        let count = max.clamp(1, LIST_PAGE).min(self.ready.len());
        Ok(self.ready.drain(..count).collect())
    }
}
