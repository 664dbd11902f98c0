//! Files, directories and links of a disk in memory, with what of them is durable.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use entrepot_nouns::Timestamp;
use parking_lot::Mutex;
use rustix::io::Errno;

/// Pages in which unsynced bytes are kept or lost.
pub(super) const PAGE: usize = 4096;

/// A file, directory or symbolic link.
pub(crate) struct Inode {
    pub(super) number: u64,
    pub(super) born: i64,
    pub(super) links: AtomicU64,
    pub(super) times: Mutex<InodeTimes>,
    pub(super) mode: AtomicU32,
    /// The permission bits that survive a power cut: those at the last sync of the inode, or of the
    /// directory that it lies in, as on journalling file systems.
    pub(super) durable_mode: AtomicU32,
    pub(super) node: Node,
    pub(super) used: Arc<AtomicU64>,
}

pub(super) enum Node {
    File(Mutex<Content>),
    Directory(Mutex<Folder>),
    /// Durable with its name, as on journalling file systems.
    Link(String),
}

#[derive(Default)]
pub(super) struct Content {
    pub(super) live: Vec<u8>,
    pub(super) durable: Vec<u8>,
    pub(super) dirty: BTreeSet<usize>,
}

pub(super) type Entries = BTreeMap<String, Arc<Inode>>;

/// Name changes of one call in one directory: they become durable together.
pub(super) type Change = Vec<(String, Option<Arc<Inode>>)>;

#[derive(Default)]
pub(super) struct Folder {
    pub(super) live: Entries,
    pub(super) durable: Entries,
    pub(super) pending: Vec<Change>,
    pub(super) gone: bool,
}

/// Last access and last change of an inode.
#[derive(Clone, Copy)]
pub(super) struct InodeTimes {
    pub(super) accessed: Timestamp,
    pub(super) modified: Timestamp,
}

impl Drop for Inode {
    fn drop(&mut self) {
        if let Node::File(content) = &mut self.node {
            self.used.fetch_sub(content.get_mut().live.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Inode {
    pub(super) fn folder(&self) -> Result<&Mutex<Folder>, Errno> {
        match &self.node {
            Node::Directory(folder) => Ok(folder),
            Node::File(_) => Err(Errno::NOTDIR),
            Node::Link(_) => Err(Errno::LOOP),
        }
    }

    pub(super) fn content(&self) -> Result<&Mutex<Content>, Errno> {
        match &self.node {
            Node::File(content) => Ok(content),
            Node::Directory(_) => Err(Errno::ISDIR),
            Node::Link(_) => Err(Errno::LOOP),
        }
    }

    pub(super) fn harden_mode(&self) {
        self.durable_mode.store(self.mode.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    /// Makes everything here and below durable.
    pub(super) fn harden_all(&self) {
        self.harden_mode();
        match &self.node {
            Node::File(content) => content.lock().harden(),
            Node::Directory(folder) => {
                let mut folder = folder.lock();
                folder.harden();
                folder.live.values().for_each(|inode| inode.harden_all());
            }
            Node::Link(_) => {}
        }
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self.node, Node::Directory(_))
    }

    pub(super) fn lookup(&self, name: &str) -> Result<Arc<Inode>, Errno> {
        self.folder()?.lock().live.get(name).cloned().ok_or(Errno::NOENT)
    }
}

impl Content {
    pub(super) fn mark(&mut self, from: usize, to: usize) {
        self.dirty.extend(from / PAGE..to.div_ceil(PAGE));
    }

    /// Makes bytes and size durable.
    pub(super) fn harden(&mut self) {
        let len = self.live.len();
        self.durable.resize(len, 0);
        for page in std::mem::take(&mut self.dirty) {
            copy_page(&self.live, &mut self.durable, page);
        }
    }
}

pub(super) fn copy_page(from: &[u8], to: &mut [u8], page: usize) {
    let start = page * PAGE;
    let end = (start + PAGE).min(from.len()).min(to.len());
    if let (Some(from), Some(to)) = (from.get(start..end), to.get_mut(start..end)) {
        to.copy_from_slice(from);
    }
}

impl Folder {
    /// Makes the names durable.
    pub(super) fn harden(&mut self) {
        let count = self.pending.len();
        self.durable = self.after(count);
        self.pending.clear();
    }

    /// The names after the first `count` of the changes that are not durable.
    pub(super) fn after(&self, count: usize) -> Entries {
        let mut names = self.durable.clone();
        for (name, inode) in self.pending.iter().take(count).flatten() {
            match inode {
                Some(inode) => names.insert(name.clone(), Arc::clone(inode)),
                None => names.remove(name),
            };
        }
        names
    }
}
