//! What an `each` with `find` goes through: files at an endpoint, listed page by page.

use std::collections::BTreeMap;

use entrepot_nouns::rule::FindSpec;
use entrepot_nouns::{StorePath, VPath};
use entrepot_storage::{AnyStore, Entry, EntryKind, Meta, StoreError};
use serde_json::{Value as Json, json};

use super::StepError;
use crate::limits::{EACH_BYTES, WATCH_DEPTH, WATCH_PAGE};
use crate::pattern::{self, Values};

/// The key of [`Files::more`] in the result of the step.
pub(super) const MORE: &str = "more";

/// The files that were found.
#[derive(Debug, PartialEq)]
pub(crate) struct Files {
    /// Each with `path`, `name`, `size` and `modified`, in the order of their paths.
    pub(crate) items: Vec<Json>,
    /// There are others behind them.
    pub(crate) more: bool,
}

/// The folder, its placeholders filled in.
pub(super) fn folder(find: &FindSpec, values: Values<'_>) -> Result<VPath, StepError> {
    Ok(pattern::virtual_path(&find.path, values)?)
}

/// The first files of the folder, by their paths.
///
/// # Errors
/// It could not be listed to its end: what is missing must not look as if it were not there.
pub(crate) async fn found(
    find: &FindSpec,
    store: &AnyStore,
    folder: VPath,
) -> Result<Files, StepError> {
    let failed = |error: &StoreError| {
        StepError::at_endpoint(find.endpoint.as_str(), &folder.to_string(), error)
    };
    let top = folder.below(&VPath::root()).unwrap_or_default();
    let mut finding = Finding { find, first: BTreeMap::new(), more: false, folders: Vec::new() };
    finding.folders.push(Folder { at: top, below: String::new(), depth: 0 });
    while let Some(folder) = finding.folders.pop() {
        let mut listing = match store.list(&folder.at).await {
            // It was removed while the one above it was listed.
            Err(StoreError::NotFound) if folder.depth > 0 => continue,
            listing => listing.map_err(|error| failed(&error))?,
        };
        loop {
            let page = listing.next_page(WATCH_PAGE).await.map_err(|error| failed(&error))?;
            if page.is_empty() {
                break;
            }
            page.into_iter().for_each(|entry| finding.take(&folder, entry));
        }
    }
    Ok(finding.files(&folder))
}

struct Folder {
    at: StorePath,
    /// Below the first one; empty for that.
    below: String,
    depth: usize,
}

struct Finding<'f> {
    find: &'f FindSpec,
    /// By their paths below the folder; as many as are wanted.
    first: BTreeMap<String, Meta>,
    more: bool,
    folders: Vec<Folder>,
}

impl Finding<'_> {
    fn take(&mut self, folder: &Folder, Entry { name, meta }: Entry) {
        let slash = if folder.below.is_empty() { "" } else { "/" };
        let below = format!("{}{slash}{name}", folder.below);
        // A name that no path of ours can have could not be fetched.
        let Ok(at) = folder.at.join(&name) else { return };
        match meta.kind {
            EntryKind::Directory => {
                let is_left = self.find.leaves(&name, &below) || folder.depth >= WATCH_DEPTH;
                if self.find.recursive && !is_left {
                    self.folders.push(Folder { at, below, depth: folder.depth + 1 });
                }
            }
            EntryKind::File if self.find.takes(&name, &below) => {
                self.first.insert(below, meta);
                if self.first.len() > self.find.limit as usize {
                    self.first.pop_last();
                    self.more = true;
                }
            }
            EntryKind::File | EntryKind::Link => {}
        }
    }

    fn files(self, folder: &VPath) -> Files {
        let mut files = Files { items: Vec::new(), more: self.more };
        let folder = folder.to_string();
        let mut bytes = 0;
        for (below, meta) in self.first {
            let path = format!("{}/{below}", folder.trim_end_matches('/'));
            let name = below.rsplit('/').next().unwrap_or(&below);
            let modified = meta.modified.to_string();
            let item = json!({"path": path, "name": name, "size": meta.size, "modified": modified});
            // With the comma or bracket around it.
            bytes += item.to_string().len() + 2;
            if bytes > EACH_BYTES {
                files.more = true;
                break;
            }
            files.items.push(item);
        }
        files
    }
}
