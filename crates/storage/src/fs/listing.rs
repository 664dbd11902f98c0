//! Listings: a page at a time from a cursor over the directory.

use std::sync::Arc;

use async_trait::async_trait;
use entrepot_nouns::StorePath;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::disk::{DirEntry, Disk, Mounts, Names, Stat};
use super::errors::walk_error;
use super::tree::{Links, Tree};
use crate::error::{Result, StoreError};
use crate::limits::LIST_PAGE;
use crate::reserved::is_reserved;
use crate::store::{Entry, Listing};

struct FsListing<D: Disk> {
    tree: Arc<Tree<D>>,
    cursor: Arc<Mutex<Cursor<D>>>,
}

struct Cursor<D: Disk> {
    dir: D::Dir,
    names: Box<dyn Names>,
    links: Links,
}

/// Begins to list `path`. Blocks.
pub(super) fn open<D: Disk>(
    tree: &Arc<Tree<D>>,
    path: &StorePath,
    links: Links,
) -> Result<Box<dyn Listing>> {
    let root = tree.disk.root();
    let opened = tree.disk.open_dir(root, path.as_str(), Mounts::Enter);
    let dir = opened.map_err(|errno| match errno {
        Errno::NOTDIR => not_a_directory(tree, path, links),
        other => walk_error(other),
    })?;
    let names = tree.disk.names(&dir)?;
    let cursor = Arc::new(Mutex::new(Cursor { dir, names, links }));
    Ok(Box::new(FsListing { tree: Arc::clone(tree), cursor }))
}

/// Tells a file from a name below a file and from a link, which do not exist.
fn not_a_directory<D: Disk>(tree: &Tree<D>, path: &StorePath, links: Links) -> StoreError {
    match tree.parent(path).and_then(|(dir, name)| tree.stat(DirEntry::new(&*dir, name), links)) {
        Ok(_) => StoreError::NotDirectory,
        Err(error) => error,
    }
}

impl<D: Disk> Cursor<D> {
    fn page(&mut self, disk: &D, max: usize) -> Result<Vec<Entry>> {
        let mut page = Vec::new();
        while page.len() < max {
            let name = match self.names.next() {
                None => break,
                Some(Ok(name)) => name,
                Some(Err(errno)) => return Err(errno.into()),
            };
            if is_reserved(&name) {
                continue;
            }
            // Gone meanwhile, not ours to see, or no file and no directory: not there.
            let stat = disk.stat(&self.dir, &name).ok().filter(|stat| self.links.show(stat));
            if let Some(meta) = stat.as_ref().and_then(Stat::meta) {
                page.push(Entry { name, meta });
            }
        }
        Ok(page)
    }
}

#[async_trait]
impl<D: Disk> Listing for FsListing<D> {
    async fn next_page(&mut self, max: usize) -> Result<Vec<Entry>> {
        let cursor = Arc::clone(&self.cursor);
        let max = max.clamp(1, LIST_PAGE);
        self.tree.at_names(move |tree| cursor.lock().page(&tree.disk, max)).await
    }
}
