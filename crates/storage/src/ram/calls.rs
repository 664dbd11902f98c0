//! The system calls on a disk in memory.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::BytesMut;
use rustix::io::Errno;

use super::disk::{RamDisk, UMASK};
use super::inode::{Inode, InodeTimes, Node};
use super::plan::Call;
use crate::fs::disk::{
    Access, DirEntry, Disk, Mounts, Names, Nature, OpenHow, RenameHow, Stat, StatKind, Times,
};
use crate::store::Space;

/// Walks names in order; sees those made meanwhile if they come after.
struct RamNames {
    dir: Arc<Inode>,
    last: Option<String>,
}

impl Names for RamNames {
    fn next(&mut self) -> Option<Result<String, Errno>> {
        use std::ops::Bound;
        let folder = match self.dir.folder() {
            Ok(folder) => folder.lock(),
            Err(errno) => return Some(Err(errno)),
        };
        let after = self.last.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let (name, _) = folder.live.range::<str, _>((after, Bound::Unbounded)).next()?;
        let name = name.clone();
        drop(folder);
        self.last = Some(name.clone());
        Some(Ok(name))
    }
}

fn range_of(at: u64, len: usize) -> Result<(usize, usize), Errno> {
    let start = usize::try_from(at).map_err(|_| Errno::FBIG)?;
    Ok((start, start.checked_add(len).ok_or(Errno::FBIG)?))
}

impl Disk for RamDisk {
    type Dir = Arc<Inode>;
    type File = Arc<Inode>;

    fn nature(&self) -> Nature {
        Nature { in_memory: true, local: true, subvolumes: false }
    }

    fn root(&self) -> &Arc<Inode> {
        &self.root
    }

    fn open_dir(&self, dir: &Arc<Inode>, path: &str, _: Mounts) -> Result<Arc<Inode>, Errno> {
        self.enter(Call::Open)?;
        let found = self.walk(dir, path)?;
        found.folder().map(|_| ())?;
        Ok(found)
    }

    fn open_file(&self, dir: &Arc<Inode>, path: &str, how: OpenHow) -> Result<Arc<Inode>, Errno> {
        self.enter(Call::Open)?;
        if how == OpenHow::CreateNew {
            return self.create_file(dir, path);
        }
        let found = self.walk(dir, path)?;
        match &found.node {
            Node::Directory(_) if how == OpenHow::ReadWrite => Err(Errno::ISDIR),
            Node::Link(_) => Err(Errno::LOOP),
            Node::File(_) | Node::Directory(_) => Ok(found),
        }
    }

    fn stat(&self, dir: &Arc<Inode>, name: &str) -> Result<Stat, Errno> {
        self.enter(Call::Stat)?;
        self.stat_inode(&*self.walk(dir, name)?)
    }

    fn stat_file(&self, file: &Arc<Inode>) -> Result<Stat, Errno> {
        self.enter(Call::Stat)?;
        self.stat_inode(file)
    }

    fn names(&self, dir: &Arc<Inode>) -> Result<Box<dyn Names>, Errno> {
        self.enter(Call::Open)?;
        Ok(Box::new(RamNames { dir: Arc::clone(dir), last: None }))
    }

    fn rename(
        &self,
        from: DirEntry<'_, Arc<Inode>>,
        to: DirEntry<'_, Arc<Inode>>,
        how: RenameHow,
    ) -> Result<(), Errno> {
        if !self.enter(Call::Rename)? {
            return Ok(());
        }
        self.rename_names(from, to, how)?;
        self.answer()
    }

    fn link(
        &self,
        from: DirEntry<'_, Arc<Inode>>,
        to: DirEntry<'_, Arc<Inode>>,
    ) -> Result<(), Errno> {
        self.enter(Call::Rename)?;
        self.link_names(from, to)?;
        self.answer()
    }

    fn read_link(&self, dir: &Arc<Inode>, name: &str) -> Result<Vec<u8>, Errno> {
        self.enter(Call::Stat)?;
        match &dir.lookup(name)?.node {
            Node::Link(target) => Ok(target.clone().into_bytes()),
            Node::File(_) | Node::Directory(_) => Err(Errno::INVAL),
        }
    }

    fn make_link(&self, target: &str, dir: &Arc<Inode>, name: &str) -> Result<(), Errno> {
        self.enter(Call::Rename)?;
        self.make_link_name(target, dir, name)
    }

    fn unlink(&self, dir: &Arc<Inode>, name: &str) -> Result<(), Errno> {
        self.enter(Call::Unlink)?;
        self.unlink_name(dir, name)
    }

    fn make_dir(&self, dir: &Arc<Inode>, name: &str, access: Access) -> Result<(), Errno> {
        self.enter(Call::MakeDir)?;
        let mode = match access {
            Access::Shared(mode) => mode & !UMASK,
            Access::Private => 0o700,
        };
        self.make_dir_name(dir, name, mode)
    }

    fn remove_dir(&self, dir: &Arc<Inode>, name: &str) -> Result<(), Errno> {
        self.enter(Call::Unlink)?;
        self.remove_dir_name(dir, name)
    }

    fn try_read(&self, file: &Arc<Inode>, at: u64, buf: &mut [u8]) -> Result<Option<usize>, Errno> {
        self.enter(Call::Read)?;
        let content = file.content()?.lock();
        let (start, end) = range_of(at, buf.len())?;
        let end = end.min(content.live.len());
        let Some(found) = content.live.get(start..end) else { return Ok(Some(0)) };
        if let Some(part) = buf.get_mut(..found.len()) {
            part.copy_from_slice(found);
        }
        Ok(Some(found.len()))
    }

    fn read(
        &self,
        file: &Arc<Inode>,
        at: u64,
        buf: &mut BytesMut,
        len: usize,
    ) -> Result<(), Errno> {
        self.enter(Call::Read)?;
        let content = file.content()?.lock();
        let (start, end) = range_of(at, len)?;
        let end = end.min(content.live.len());
        if let Some(found) = content.live.get(start..end) {
            buf.extend_from_slice(found);
        }
        Ok(())
    }

    fn try_write(&self, file: &Arc<Inode>, at: u64, data: &[u8]) -> Result<bool, Errno> {
        self.write(file, at, data).map(|()| true)
    }

    fn write(&self, file: &Arc<Inode>, at: u64, data: &[u8]) -> Result<(), Errno> {
        if !self.enter(Call::Write)? {
            return Ok(());
        }
        let mut content = file.content()?.lock();
        let (start, end) = range_of(at, data.len())?;
        if end > content.live.len() {
            self.resize(file, &mut content, end)?;
        }
        if let Some(part) = content.live.get_mut(start..end) {
            part.copy_from_slice(data);
        }
        if self.tracks() {
            content.mark(start, end);
        }
        drop(content);
        file.times.lock().modified = self.now();
        Ok(())
    }

    fn set_len(&self, file: &Arc<Inode>, size: u64) -> Result<(), Errno> {
        self.enter(Call::Write)?;
        let mut content = file.content()?.lock();
        let (size, _) = range_of(size, 0)?;
        self.resize(file, &mut content, size)
    }

    fn sync_file(&self, file: &Arc<Inode>) -> Result<(), Errno> {
        if self.enter(Call::SyncFile)? && self.tracks() {
            file.content()?.lock().harden();
        }
        Ok(())
    }

    fn sync_dir(&self, dir: &Arc<Inode>) -> Result<(), Errno> {
        if self.enter(Call::SyncDir)? && self.tracks() {
            let mut folder = dir.folder()?.lock();
            folder.harden();
            folder.live.values().chain([dir]).for_each(|inode| inode.harden_mode());
        }
        Ok(())
    }

    fn sync_all(&self) -> Result<(), Errno> {
        if self.enter(Call::SyncDir)? && self.tracks() {
            self.root.harden_all();
        }
        Ok(())
    }

    fn set_file_times(&self, file: &Arc<Inode>, times: Times) -> Result<(), Errno> {
        self.enter(Call::SetTimes)?;
        let mut kept = file.times.lock();
        kept.accessed = times.accessed.unwrap_or(kept.accessed);
        kept.modified = times.modified.unwrap_or(kept.modified);
        Ok(())
    }

    fn set_dir_times(&self, dir: &Arc<Inode>, times: Times) -> Result<(), Errno> {
        self.set_file_times(dir, times)
    }

    fn set_file_mode(&self, file: &Arc<Inode>, mode: u32) -> Result<(), Errno> {
        self.enter(Call::SetMode)?;
        file.mode.store(mode, Ordering::Relaxed);
        Ok(())
    }

    fn set_dir_mode(&self, dir: &Arc<Inode>, mode: u32) -> Result<(), Errno> {
        self.set_file_mode(dir, mode)
    }

    fn sync_file_whole(&self, file: &Arc<Inode>) -> Result<(), Errno> {
        if self.enter(Call::SyncFile)? && self.tracks() {
            file.content()?.lock().harden();
            file.harden_mode();
        }
        Ok(())
    }

    fn space(&self) -> Result<Space, Errno> {
        let used = self.shared.used.load(Ordering::Relaxed);
        Ok(Space {
            total_bytes: self.shared.limit,
            free_bytes: self.shared.limit.saturating_sub(used),
            total_files: u64::MAX,
            free_files: u64::MAX,
        })
    }
}

impl RamDisk {
    fn stat_inode(&self, inode: &Inode) -> Result<Stat, Errno> {
        let InodeTimes { accessed, modified } = *inode.times.lock();
        let (kind, size) = match &inode.node {
            Node::File(content) => (StatKind::File, content.lock().live.len() as u64),
            Node::Directory(_) => (StatKind::Directory, 0),
            Node::Link(target) => (StatKind::Link, target.len() as u64),
        };
        Ok(Stat {
            kind,
            size,
            modified,
            accessed,
            mode: inode.mode.load(Ordering::Relaxed),
            links: inode.links.load(Ordering::Relaxed),
            inode: inode.number,
            born: inode.born,
            device: 1,
        })
    }
}
