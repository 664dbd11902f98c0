//! Renaming a directory of an object store: every object below its prefix gets a copy below the
//! new one, made by the server, and only when all are there the old ones go. Not one step: while
//! it runs, and after a crash in it, files lie under both names, but each under one at least.

use std::collections::HashMap;

use entrepot_model::StorePath;
use entrepot_model::endpoint::ObjectProvider;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{CopyMode, CopyOptions, ObjectMeta, ObjectStoreExt as _, PutPayload};

use super::{Core, store_error};
use crate::error::{Result, StoreError};
use crate::limits::{
    LIST_PAGE, OBJECT_COPY_BYTES, OBJECT_RENAME_AT_ONCE, OBJECT_RENAME_OBJECTS, OBJECT_RENAME_PAGE,
};

/// One rename.
struct Moving<'a> {
    core: &'a Core,
    /// Prefixes with a slash at the end.
    from: String,
    to: String,
    /// What was copied, as it was then.
    copied: HashMap<Path, ObjectMeta>,
}

/// Fails for what the server cannot copy by one request.
pub(super) fn check_copy(core: &Core, object: &ObjectMeta) -> Result<()> {
    match core.backend.provider == ObjectProvider::S3 && object.size > OBJECT_COPY_BYTES {
        true => Err(StoreError::Unsupported("renaming an object of more than 5 GiB")),
        false => Ok(()),
    }
}

/// Gives the directory `from` the free name `to`.
pub(super) async fn rename(core: &Core, from: &StorePath, to: &StorePath) -> Result<()> {
    if to.as_str().strip_prefix(from.as_str()).is_some_and(|rest| rest.starts_with('/')) {
        let why = "a directory cannot be moved into itself";
        return Err(StoreError::Denied(why.to_owned()));
    }
    let (source, target) = (core.folder(from)?, core.folder(to)?);
    let mut moving = Moving { core, from: source, to: target, copied: HashMap::new() };
    let objects = moving.all().await?;
    if let Err(error) = moving.copy(&objects).await {
        moving.undo(&objects).await;
        return Err(error);
    }
    moving.hold_parent(from).await?;
    moving.finish().await
}

/// Requests that go out side by side, so many at a time.
async fn side_by_side<T>(requests: Vec<impl Future<Output = Result<T>>>) -> Result<Vec<T>> {
    stream::iter(requests).buffer_unordered(OBJECT_RENAME_AT_ONCE).try_collect().await
}

impl Moving<'_> {
    /// One page of what lies below the old name, and where the next one begins.
    async fn page(
        &self,
        after: Option<String>,
        most: usize,
    ) -> Result<(Vec<ObjectMeta>, Option<String>)> {
        let options =
            PaginatedListOptions { max_keys: Some(most), page_token: after, ..Default::default() };
        let page = self.core.backend.pages.list_paginated(Some(&self.from), options).await;
        let page = page.map_err(store_error)?;
        // A key with a slash at its end, by which other tools mark a directory, has no name here.
        let mut objects = page.result.objects;
        objects.retain(|object| object.location.as_ref().starts_with(&self.from));
        Ok((objects, page.page_token))
    }

    /// All that lies below the old name. Nothing is begun that is too much.
    async fn all(&self) -> Result<Vec<ObjectMeta>> {
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let (objects, next) = self.page(after, LIST_PAGE).await?;
            objects.iter().try_for_each(|object| check_copy(self.core, object))?;
            all.extend(objects);
            if all.len() > OBJECT_RENAME_OBJECTS {
                tracing::info!(prefix = self.from, "too many objects to be renamed");
                return Err(StoreError::Unsupported(
                    "renaming a directory of more than 10,000 objects",
                ));
            }
            after = next;
            if after.is_none() {
                return Ok(all);
            }
        }
    }

    fn new_key(&self, old: &Path) -> Result<Path> {
        let name = old.as_ref().strip_prefix(&self.from).unwrap_or_default();
        Path::parse(format!("{}{name}", self.to))
            .map_err(|_| StoreError::Denied("the name cannot be a key".to_owned()))
    }

    /// Copies what is not copied as it is now. What is gone meanwhile needs none.
    async fn copy(&mut self, objects: &[ObjectMeta]) -> Result<()> {
        for objects in objects.chunks(OBJECT_RENAME_PAGE) {
            let fresh = objects.iter().filter(|object| !self.has_copied(object));
            let copies: Vec<_> = fresh.map(|object| self.copy_one(object)).collect();
            let copied = side_by_side(copies).await?;
            self.copied.extend(copied.into_iter().map(|object| (object.location.clone(), object)));
        }
        Ok(())
    }

    fn has_copied(&self, now: &ObjectMeta) -> bool {
        let as_it_is = |old: &ObjectMeta| {
            (old.size, &old.e_tag, old.last_modified) == (now.size, &now.e_tag, now.last_modified)
        };
        self.copied.get(&now.location).is_some_and(as_it_is)
    }

    async fn copy_one(&self, object: &ObjectMeta) -> Result<ObjectMeta> {
        let key = self.new_key(&object.location)?;
        let options = CopyOptions { mode: CopyMode::Overwrite, ..CopyOptions::default() };
        let objects = &self.core.backend.objects;
        match objects.copy_opts(&object.location, &key, options).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(object.clone()),
            Err(error) => Err(store_error(error)),
        }
    }

    /// The copies go again, where the old name still has it.
    async fn undo(&self, objects: &[ObjectMeta]) {
        for objects in objects.chunks(OBJECT_RENAME_PAGE) {
            let undone = objects.iter().map(|object| self.undo_one(object)).collect();
            if let Err(error) = side_by_side(undone).await {
                tracing::warn!(%error, prefix = self.to, "copies of a rename that failed are left");
            }
        }
    }

    async fn undo_one(&self, object: &ObjectMeta) -> Result<()> {
        match self.core.head(&object.location).await? {
            Some(_) => self.core.delete(&self.new_key(&object.location)?).await,
            None => Ok(()),
        }
    }

    /// The directory that it lay in stays one, also if nothing else is in it.
    async fn hold_parent(&self, from: &StorePath) -> Result<()> {
        let Some(parent) = from.parent().filter(|parent| !parent.is_root()) else { return Ok(()) };
        let folder = self.core.folder(&parent)?;
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(2),
            ..Default::default()
        };
        let page = self.core.backend.pages.list_paginated(Some(&folder), options).await;
        let found = page.map_err(store_error)?.result;
        if found.objects.len() + found.common_prefixes.len() < 2 {
            let marker = self.core.marker(&parent)?;
            let put = self.core.backend.objects.put(&marker, PutPayload::default()).await;
            put.map_err(store_error)?;
        }
        Ok(())
    }

    /// Removes the old names, page by page. What came or changed since it was copied goes along;
    /// in this process nothing is published between the last look at a page and its end.
    async fn finish(&mut self) -> Result<()> {
        let mut after = None;
        loop {
            let core = self.core;
            let _alone = core.moves.write().await;
            let (objects, next) = self.page(after, OBJECT_RENAME_PAGE).await?;
            self.copy(&objects).await?;
            let deletes = objects.iter().map(|object| core.delete(&object.location)).collect();
            side_by_side(deletes).await?;
            after = next;
            if after.is_none() {
                return Ok(());
            }
        }
    }
}
