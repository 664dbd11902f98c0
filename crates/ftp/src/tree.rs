//! What concerns a directory and all below it, to a bounded depth.

use entrepot_nouns::VPath;
use entrepot_vfs::{EntryKind, Result, Vfs, VfsError};

use crate::limits::{LISTING_PAGE, TREE_DEPTH, TREE_ENTRIES};

/// A name below a directory.
struct Found {
    path: VPath,
    depth: usize,
    kind: EntryKind,
    size: u64,
}

/// All that is below a directory, each directory before what is in it.
async fn below(vfs: &Vfs, root: &VPath) -> Result<Vec<Found>> {
    let mut found: Vec<Found> = Vec::new();
    let mut waiting = vec![(root.clone(), 0)];
    while let Some((directory, depth)) = waiting.pop() {
        let mut listing = vfs.list(&directory).await?;
        loop {
            let page = listing.next_page(LISTING_PAGE).await?;
            if page.is_empty() {
                break;
            }
            for entry in page {
                let path = directory.join(&entry.name)?;
                let kind = entry.attributes.kind;
                if kind == EntryKind::Directory {
                    waiting.push((path.clone(), depth + 1));
                }
                found.push(Found { path, depth, kind, size: entry.attributes.size });
            }
            if found.len() > TREE_ENTRIES || depth >= TREE_DEPTH {
                return Err(VfsError::Busy { why: "there is too much in this directory".into() });
            }
        }
    }
    Ok(found)
}

/// Bytes of all files below a directory.
pub(crate) async fn size(vfs: &Vfs, root: &VPath) -> Result<u64> {
    let files = below(vfs, root).await?.into_iter().filter(|it| it.kind == EntryKind::File);
    Ok(files.fold(0, |sum: u64, file| sum.saturating_add(file.size)))
}

/// Removes a directory and all that is in it; what is deepest goes first.
pub(crate) async fn remove(vfs: &Vfs, root: &VPath) -> Result<()> {
    let mut all = below(vfs, root).await?;
    all.sort_by_key(|found| std::cmp::Reverse((found.depth, found.kind != EntryKind::Directory)));
    for found in all {
        match found.kind {
            EntryKind::Directory => vfs.remove_directory(&found.path).await?,
            EntryKind::File | EntryKind::Link => vfs.remove(&found.path).await?,
        }
    }
    vfs.remove_directory(root).await
}
