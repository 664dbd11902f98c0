//! What an `each` with `find` goes through: files at an endpoint, listed page by page.

use std::collections::BTreeMap;

use entrepot_nouns::VPath;
use entrepot_nouns::rule::FindSpec;
use entrepot_storage::{AnyStore, Meta};
use serde_json::{Value as Json, json};

use super::StepError;
use crate::folders::{self, Listed, ListedFile};
use crate::limits::EACH_BYTES;
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
    let mut finding = Finding { find, first: BTreeMap::new(), more: false };
    let take = |listed| match listed {
        Listed::File(file) => finding.take(file),
        Listed::EndOfFolder => {}
    };
    let listed = folders::list(store, &folder, find.files(), take).await;
    listed.map_err(|error| {
        StepError::at_endpoint(find.endpoint.as_str(), &folder.to_string(), &error)
    })?;
    Ok(finding.files(&folder))
}

struct Finding<'f> {
    find: &'f FindSpec,
    /// By their paths below the folder; as many as are wanted.
    first: BTreeMap<String, Meta>,
    more: bool,
}

impl Finding<'_> {
    fn take(&mut self, ListedFile { name, below, meta }: ListedFile) {
        if !self.find.files().takes(&name, &below) {
            return;
        }
        self.first.insert(below, meta);
        if self.first.len() > self.find.limit as usize {
            self.first.pop_last();
            self.more = true;
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
