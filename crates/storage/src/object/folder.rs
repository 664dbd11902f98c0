//! Renaming a directory of an object store: every object below its prefix gets a copy below the
//! new one, made by the server, and only when all are there the old ones go. Not one step: while
//! it runs, and after a crash in it, files lie under both names, but each under one at least.
//! Nothing else is changed below the new name meanwhile ([`super::running`]).

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use entrepot_nouns::StorePath;
use entrepot_nouns::endpoint::ObjectProvider;
use futures_util::{StreamExt as _, stream};
use object_store::list::PaginatedListOptions;
use object_store::path::Path;
use object_store::{CopyMode, CopyOptions, ObjectMeta, ObjectStoreExt as _, PutPayload};

use super::bucket::Bucket;
use super::errors::store_error;
use crate::error::{Result, StoreError};
use crate::limits::{
    LIST_PAGE, OBJECT_COPY_BYTES, OBJECT_RENAME_AT_ONCE, OBJECT_RENAME_OBJECTS, OBJECT_RENAME_PAGE,
    OBJECT_RENAME_TRIES,
};

/// The rename of one directory, while it runs.
struct Moving<'a> {
    bucket: &'a Bucket,
    /// Prefixes with a slash at the end.
    from: String,
    to: String,
    /// What was copied, as it was then, and still has its old name.
    copied: HashMap<Path, ObjectMeta>,
    /// What may have been copied: the answer was another one, or none.
    unsure: HashSet<Path>,
}

/// Whether an object below the new name is a copy of ours.
#[derive(Clone, Copy)]
enum CopyState {
    /// The server said that it made the copy.
    Made,
    /// The server's answer was an error, or lost.
    Unknown,
}

/// Fails for what the server cannot copy by one request.
pub(super) fn check_copy(bucket: &Bucket, object: &ObjectMeta) -> Result<()> {
    if bucket.backend.provider == ObjectProvider::S3 && object.size > OBJECT_COPY_BYTES {
        return Err(StoreError::Unsupported("renaming an object of more than 5 GiB"));
    }
    Ok(())
}

/// Gives the directory `from` the free name `to`, which nobody else may change below.
pub(super) async fn rename(bucket: &Bucket, from: &StorePath, to: &StorePath) -> Result<()> {
    let (source, target) = (bucket.folder(from)?, bucket.folder(to)?);
    let (copied, unsure) = (HashMap::new(), HashSet::new());
    let mut moving = Moving { bucket, from: source, to: target, copied, unsure };
    let objects = moving.all().await?;
    if objects.is_empty() {
        return Err(StoreError::NotFound);
    }
    let mut begun = moving.copy(&objects).await;
    if begun.is_ok() {
        begun = moving.hold_parent(from).await;
    }
    if let Err(error) = begun {
        moving.undo().await;
        return Err(error);
    }
    let ended = moving.finish().await;
    if let Err(error) = &ended {
        let (from, to, objects) = (&moving.from, &moving.to, moving.copied.len());
        tracing::warn!(%error, from, to, objects, "a rename is not done: objects have both names");
    }
    ended
}

/// Requests that go out side by side, so many at a time: what those gave that went well. When one
/// fails no other is begun, and those that were are waited for.
async fn side_by_side<T>(requests: Vec<impl Future<Output = Result<T>>>) -> (Vec<T>, Result<()>) {
    let failed = AtomicBool::new(false);
    let begun = requests.into_iter().take_while(|_| !failed.load(Ordering::Relaxed));
    let mut answers = stream::iter(begun).buffer_unordered(OBJECT_RENAME_AT_ONCE);
    let (mut done, mut all) = (Vec::new(), Ok(()));
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(one) => done.push(one),
            Err(error) => {
                failed.store(true, Ordering::Relaxed);
                all = all.and(Err(error));
            }
        }
    }
    (done, all)
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
        let page = self.bucket.backend.pages.list_paginated(Some(&self.from), options).await;
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
            objects.iter().try_for_each(|object| check_copy(self.bucket, object))?;
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
            let fresh: Vec<_> = objects.iter().filter(|it| !self.has_copied(it)).collect();
            self.unsure.extend(fresh.iter().map(|object| object.location.clone()));
            let copies = fresh.iter().map(|object| self.copy_one(object)).collect();
            let (copied, all) = side_by_side(copies).await;
            for object in copied.into_iter().flatten() {
                self.unsure.remove(&object.location);
                self.copied.insert(object.location.clone(), object);
            }
            all?;
        }
        Ok(())
    }

    fn has_copied(&self, now: &ObjectMeta) -> bool {
        let as_it_is = |old: &ObjectMeta| {
            (old.size, &old.e_tag, old.last_modified) == (now.size, &now.e_tag, now.last_modified)
        };
        self.copied.get(&now.location).is_some_and(as_it_is)
    }

    /// The object if it was there to be copied.
    async fn copy_one(&self, object: &ObjectMeta) -> Result<Option<ObjectMeta>> {
        let key = self.new_key(&object.location)?;
        let options = CopyOptions { mode: CopyMode::Overwrite, ..CopyOptions::default() };
        let objects = &self.bucket.backend.objects;
        match objects.copy_opts(&object.location, &key, options).await {
            Ok(()) => Ok(Some(object.clone())),
            Err(object_store::Error::NotFound { .. }) => Ok(None),
            Err(error) => Err(store_error(error)),
        }
    }

    /// The copies go again, where the old name still has it, and nothing else.
    async fn undo(&self) {
        let copies = self.copied.keys().map(|key| (key, CopyState::Made));
        let copies = copies.chain(self.unsure.iter().map(|key| (key, CopyState::Unknown)));
        let undone = copies.map(|(key, state)| async move { Ok(self.undo_one(key, state).await) });
        let (undone, _) = side_by_side(undone.collect()).await;
        let failed: Vec<_> = undone.into_iter().filter_map(Result::err).collect();
        if let Some(error) = failed.first() {
            let (from, to, objects) = (&self.from, &self.to, failed.len());
            tracing::warn!(%error, from, to, objects, "copies of a rename that failed are left");
        }
    }

    /// A copy whose answer was lost is known by its identity, which it has from the old one.
    async fn undo_one(&self, old: &Path, state: CopyState) -> Result<()> {
        let Some((_, identity)) = self.bucket.head(old).await? else { return Ok(()) };
        let new = self.new_key(old)?;
        let is_copy = match state {
            CopyState::Made => true,
            CopyState::Unknown => match self.bucket.head(&new).await? {
                Some((_, found)) => found.is_some() && found == identity,
                None => false,
            },
        };
        if is_copy { self.bucket.delete(&new).await } else { Ok(()) }
    }

    /// The directory that it lay in stays one, also if nothing else is in it.
    async fn hold_parent(&self, from: &StorePath) -> Result<()> {
        let Some(parent) = from.parent().filter(|parent| !parent.is_root()) else { return Ok(()) };
        let folder = self.bucket.folder(&parent)?;
        let options = PaginatedListOptions {
            delimiter: Some("/".into()),
            max_keys: Some(2),
            ..Default::default()
        };
        let page = self.bucket.backend.pages.list_paginated(Some(&folder), options).await;
        let found = page.map_err(store_error)?.result;
        if found.objects.len() + found.common_prefixes.len() < 2 {
            let marker = self.bucket.marker(&parent)?;
            let put = self.bucket.backend.objects.put(&marker, PutPayload::default()).await;
            put.map_err(store_error)?;
        }
        Ok(())
    }

    /// Removes the old names, page by page.
    async fn finish(&mut self) -> Result<()> {
        let (mut after, mut tries) = (None, 1);
        loop {
            match self.finish_page(after.clone()).await {
                Ok(None) => return Ok(()),
                Ok(next) => (after, tries) = (next, 1),
                Err(_) if tries < OBJECT_RENAME_TRIES => tries += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Removes a page of the old names, and says where the next one begins. What came or changed
    /// since it was copied goes along; in this process nothing is published between the look at
    /// the page and its end.
    async fn finish_page(&mut self, after: Option<String>) -> Result<Option<String>> {
        let bucket = self.bucket;
        let _alone = bucket.moves.write().await;
        let (objects, next) = self.page(after, OBJECT_RENAME_PAGE).await?;
        self.copy(&objects).await?;
        let deletes = objects.iter().map(|object| async move {
            bucket.delete(&object.location).await.map(|()| &object.location)
        });
        let (gone, all) = side_by_side(deletes.collect()).await;
        for key in gone {
            self.copied.remove(key);
        }
        all.map(|()| next)
    }
}
