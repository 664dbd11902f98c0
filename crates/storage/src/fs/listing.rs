//! Listings: a page at a time from a cursor over the directory.

use std::sync::Arc;

use async_trait::async_trait;
use entrepot_model::StorePath;
use parking_lot::Mutex;
use rustix::io::Errno;

use super::disk::{Disk, Mounts, Names};
use super::{Core, Links, meta_of, walk_error};
use crate::error::{Result, StoreError};
use crate::limits::LIST_PAGE;
use crate::reserved::is_reserved;
use crate::store::{Entry, Listing};

struct FsListing<D: Disk> {
    core: Arc<Core<D>>,
    cursor: Arc<Mutex<Cursor<D>>>,
}

struct Cursor<D: Disk> {
    dir: D::Dir,
    names: Box<dyn Names>,
    links: Links,
}

/// Begins to list `path`. Blocks.
pub(super) fn open<D: Disk>(
    core: &Arc<Core<D>>,
    path: &StorePath,
    links: Links,
) -> Result<Box<dyn Listing>> {
    let root = core.disk.root();
    let opened = core.disk.open_dir(root, path.as_str(), Mounts::Enter);
    let dir = opened.map_err(|errno| match errno {
        Errno::NOTDIR => not_a_directory(core, path, links),
        other => walk_error(other),
    })?;
    let names = core.disk.names(&dir)?;
    let cursor = Arc::new(Mutex::new(Cursor { dir, names, links }));
    Ok(Box::new(FsListing { core: Arc::clone(core), cursor }))
}

/// Tells a file from a name below a file and from a link, which do not exist.
fn not_a_directory<D: Disk>(core: &Core<D>, path: &StorePath, links: Links) -> StoreError {
    match core.parent(path).and_then(|(dir, name)| core.look(&dir, name, links)) {
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
            if let Some(meta) = stat.as_ref().and_then(meta_of) {
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
        self.core.at_names(move |core| cursor.lock().page(&core.disk, max)).await
    }
}
