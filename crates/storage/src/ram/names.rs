//! Changes of names on a disk in memory; one at a time, each whole.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use rustix::io::Errno;

use super::disk::RamDisk;
use super::inode::{Change, Inode, Node};
use crate::fs::disk::{DirEntry, RenameHow};

impl RamDisk {
    /// Applies a change to a directory and notes it as not yet durable.
    fn change(&self, dir: &Inode, change: Change) -> Result<(), Errno> {
        let mut folder = dir.folder()?.lock();
        for (name, inode) in &change {
            match inode {
                Some(inode) => folder.live.insert(name.clone(), Arc::clone(inode)),
                None => folder.live.remove(name),
            };
        }
        if self.tracks() {
            folder.pending.push(change);
        }
        drop(folder);
        dir.times.lock().modified = self.now();
        Ok(())
    }

    /// Fails if `dir` was removed or `name` is taken there.
    fn check_free(dir: &Inode, name: &str) -> Result<(), Errno> {
        let folder = dir.folder()?.lock();
        match (folder.gone, folder.live.contains_key(name)) {
            (true, _) => Err(Errno::NOENT),
            (_, true) => Err(Errno::EXIST),
            _ => Ok(()),
        }
    }

    fn add(&self, dir: &Inode, name: &str, node: Node) -> Result<Arc<Inode>, Errno> {
        let _names = self.shared.names.lock();
        Self::check_free(dir, name)?;
        let inode = self.shared.inode(node);
        self.change(dir, vec![(name.to_owned(), Some(Arc::clone(&inode)))])?;
        Ok(inode)
    }

    pub(super) fn create_file(&self, dir: &Inode, name: &str) -> Result<Arc<Inode>, Errno> {
        self.add(dir, name, Node::File(Mutex::default()))
    }

    pub(super) fn make_dir_name(&self, dir: &Inode, name: &str, mode: u32) -> Result<(), Errno> {
        let made = self.add(dir, name, Node::Directory(Mutex::default()))?;
        made.mode.store(mode, Ordering::Relaxed);
        made.harden_mode();
        Ok(())
    }

    pub(super) fn make_link_name(
        &self,
        target: &str,
        dir: &Inode,
        name: &str,
    ) -> Result<(), Errno> {
        self.add(dir, name, Node::Link(target.to_owned())).map(|_| ())
    }

    pub(super) fn unlink_name(&self, dir: &Inode, name: &str) -> Result<(), Errno> {
        let _names = self.shared.names.lock();
        let inode = dir.lookup(name)?;
        if inode.is_directory() {
            return Err(Errno::ISDIR);
        }
        inode.links.fetch_sub(1, Ordering::Relaxed);
        self.change(dir, vec![(name.to_owned(), None)])
    }

    pub(super) fn remove_dir_name(&self, dir: &Inode, name: &str) -> Result<(), Errno> {
        let _names = self.shared.names.lock();
        let inode = dir.lookup(name)?;
        let mut folder = inode.folder()?.lock();
        if !folder.live.is_empty() {
            return Err(Errno::NOTEMPTY);
        }
        folder.gone = true;
        drop(folder);
        self.change(dir, vec![(name.to_owned(), None)])
    }

    pub(super) fn link_names(
        &self,
        from: DirEntry<'_, Arc<Inode>>,
        to: DirEntry<'_, Arc<Inode>>,
    ) -> Result<(), Errno> {
        let _names = self.shared.names.lock();
        let inode = from.dir.lookup(from.name)?;
        if inode.is_directory() {
            return Err(Errno::PERM);
        }
        Self::check_free(to.dir, to.name)?;
        inode.links.fetch_add(1, Ordering::Relaxed);
        self.change(to.dir, vec![(to.name.to_owned(), Some(inode))])
    }

    pub(super) fn rename_names(
        &self,
        from: DirEntry<'_, Arc<Inode>>,
        to: DirEntry<'_, Arc<Inode>>,
        how: RenameHow,
    ) -> Result<(), Errno> {
        let _names = self.shared.names.lock();
        if self.shared.plan.as_ref().is_some_and(|plan| plan.lock().lacks_flags)
            && how != RenameHow::Replace
        {
            return Err(Errno::INVAL);
        }
        let moved = from.dir.lookup(from.name)?;
        if contains(&moved, to.dir) {
            return Err(Errno::INVAL);
        }
        let taken = match Self::check_free(to.dir, to.name) {
            Ok(()) => None,
            Err(Errno::EXIST) => Some(to.dir.lookup(to.name)?),
            Err(errno) => return Err(errno),
        };
        let left = match (how, taken) {
            (RenameHow::NoReplace, Some(_)) => return Err(Errno::EXIST),
            (RenameHow::Exchange, None) => return Err(Errno::NOENT),
            (RenameHow::Exchange, taken) => taken,
            (RenameHow::Replace, Some(taken)) => {
                if Arc::ptr_eq(&taken, &moved) {
                    return Ok(());
                }
                may_replace(&moved, &taken)?;
                taken.links.fetch_sub(1, Ordering::Relaxed);
                None
            }
            _ => None,
        };
        let here = (from.name.to_owned(), left);
        let there = (to.name.to_owned(), Some(moved));
        if Arc::ptr_eq(from.dir, to.dir) {
            return self.change(from.dir, vec![here, there]);
        }
        self.change(to.dir, vec![there])?;
        self.change(from.dir, vec![here])
    }
}

fn may_replace(moved: &Inode, taken: &Inode) -> Result<(), Errno> {
    match (moved.is_directory(), taken.folder()) {
        (false, Ok(_)) => Err(Errno::ISDIR),
        (true, Err(_)) => Err(Errno::NOTDIR),
        (true, Ok(folder)) if !folder.lock().live.is_empty() => Err(Errno::NOTEMPTY),
        _ => Ok(()),
    }
}

/// True if `inode` is `sought` or a directory somewhere above it.
fn contains(inode: &Arc<Inode>, sought: &Arc<Inode>) -> bool {
    if Arc::ptr_eq(inode, sought) {
        return true;
    }
    let Ok(folder) = inode.folder() else { return false };
    let below: Vec<_> = folder.lock().live.values().filter(|i| i.is_directory()).cloned().collect();
    below.iter().any(|inode| contains(inode, sought))
}
