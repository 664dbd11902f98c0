//! The files below a folder of an endpoint, listed page by page: for watches, and for steps that go
//! through files.

use entrepot_nouns::watch::FileChoice;
use entrepot_nouns::{StorePath, VPath};
use entrepot_storage::{AnyStore, Entry, EntryKind, Meta, StoreError};

use crate::limits::{WATCH_DEPTH, WATCH_PAGE};

/// A file of a listing.
pub(crate) struct ListedFile {
    pub(crate) name: String,
    /// Its path below the folder.
    pub(crate) below: String,
    pub(crate) meta: Meta,
}

/// What a listing comes to.
pub(crate) enum Listed {
    /// A file, whether it is chosen or not.
    File(ListedFile),
    /// All files of a folder have been told, those of folders inside it not.
    EndOfFolder,
}

/// A folder that is still to be listed.
struct Folder {
    at: StorePath,
    /// Below the first one; empty for that.
    below: String,
    depth: usize,
}

/// Lists `folder`, and those below it that are chosen, in no order.
///
/// # Errors
/// A listing failed or was cut: what is missing is no sign that it is not there.
pub(crate) async fn list(
    store: &AnyStore,
    folder: &VPath,
    choice: FileChoice<'_>,
    mut take: impl FnMut(Listed),
) -> Result<(), StoreError> {
    let at = folder.below(&VPath::root()).unwrap_or_default();
    let mut folders = vec![Folder { at, below: String::new(), depth: 0 }];
    while let Some(folder) = folders.pop() {
        let mut listing = match store.list(&folder.at).await {
            // A folder that was removed while the one above it was listed.
            Err(StoreError::NotFound) if folder.depth > 0 => continue,
            listing => listing?,
        };
        loop {
            let page = listing.next_page(WATCH_PAGE).await?;
            if page.is_empty() {
                break;
            }
            for Entry { name, meta } in page {
                let slash = if folder.below.is_empty() { "" } else { "/" };
                let below = format!("{}{slash}{name}", folder.below);
                // A name that no path of ours can have names nothing that could be reached.
                let Ok(at) = folder.at.join(&name) else { continue };
                match meta.kind {
                    EntryKind::Directory => {
                        if choice.enters(&name, &below) && folder.depth < WATCH_DEPTH {
                            folders.push(Folder { at, below, depth: folder.depth + 1 });
                        }
                    }
                    EntryKind::File => take(Listed::File(ListedFile { name, below, meta })),
                    EntryKind::Link => {}
                }
            }
        }
        take(Listed::EndOfFolder);
    }
    Ok(())
}
