//! A disk in memory: what the memory endpoint keeps its files on, and, with its durable image
//! tracked, the simulated disk of the power-cut tests.

mod names;
mod power;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use bytes::BytesMut;
use entrepot_model::{Env, Timestamp};
use parking_lot::Mutex;
use rustix::io::Errno;

use crate::fs::disk::{
    Access, Disk, Mounts, Names, Nature, OpenHow, RenameHow, Stat, StatKind, Times,
};
use crate::store::Space;

pub(crate) use power::Plan;
pub use power::{Call, Cut};

/// Pages in which unsynced bytes are kept or lost.
const PAGE: usize = 4096;

/// What this disk takes from the permission bits of new files, in place of the process's umask.
const UMASK: u32 = 0o022;

/// A disk in memory. Clones share it.
#[derive(Clone)]
pub(crate) struct RamDisk {
    shared: Arc<Shared>,
    root: Arc<Inode>,
}

struct Shared {
    env: Env,
    limit: u64,
    used: Arc<AtomicU64>,
    next: AtomicU64,
    /// One change of names at a time.
    names: Mutex<()>,
    /// Present on a simulated disk: its durable image is tracked and calls can fail.
    plan: Option<Mutex<Plan>>,
}

/// A file, directory or symbolic link.
pub(crate) struct Inode {
    number: u64,
    born: i64,
    links: AtomicU64,
    times: Mutex<(Timestamp, Timestamp)>,
    mode: AtomicU32,
    /// The permission bits that survive a power cut: those at the last sync of the inode, or of the
    /// directory that it lies in, as on journalling file systems.
    durable_mode: AtomicU32,
    node: Node,
    used: Arc<AtomicU64>,
}

enum Node {
    File(Mutex<Content>),
    Directory(Mutex<Folder>),
    /// Durable with its name, as on journalling file systems.
    Link(String),
}

#[derive(Default)]
struct Content {
    live: Vec<u8>,
    durable: Vec<u8>,
    dirty: BTreeSet<usize>,
}

type Entries = BTreeMap<String, Arc<Inode>>;

/// Name changes of one call in one directory: they become durable together.
type Change = Vec<(String, Option<Arc<Inode>>)>;

#[derive(Default)]
struct Folder {
    live: Entries,
    durable: Entries,
    pending: Vec<Change>,
    gone: bool,
}

impl Drop for Inode {
    fn drop(&mut self) {
        if let Node::File(content) = &mut self.node {
            self.used.fetch_sub(content.get_mut().live.len() as u64, Ordering::Relaxed);
        }
    }
}

impl Inode {
    fn folder(&self) -> Result<&Mutex<Folder>, Errno> {
        match &self.node {
            Node::Directory(folder) => Ok(folder),
            Node::File(_) => Err(Errno::NOTDIR),
            Node::Link(_) => Err(Errno::LOOP),
        }
    }

    fn content(&self) -> Result<&Mutex<Content>, Errno> {
        match &self.node {
            Node::File(content) => Ok(content),
            Node::Directory(_) => Err(Errno::ISDIR),
            Node::Link(_) => Err(Errno::LOOP),
        }
    }

    fn harden_mode(&self) {
        self.durable_mode.store(self.mode.load(Ordering::Relaxed), Ordering::Relaxed);
    }

    fn is_directory(&self) -> bool {
        matches!(self.node, Node::Directory(_))
    }

    fn lookup(&self, name: &str) -> Result<Arc<Inode>, Errno> {
        self.folder()?.lock().live.get(name).cloned().ok_or(Errno::NOENT)
    }
}

impl Content {
    fn mark(&mut self, from: usize, to: usize) {
        self.dirty.extend(from / PAGE..to.div_ceil(PAGE));
    }
}

impl RamDisk {
    /// An empty disk of `limit` bytes.
    pub(crate) fn new(limit: u64, env: &Env) -> Self {
        Self::build(limit, env, None)
    }

    /// An empty disk whose durable image is tracked.
    pub(crate) fn tracked(limit: u64, env: &Env) -> Self {
        Self::build(limit, env, Some(Mutex::new(Plan::default())))
    }

    /// The same disk seen from a directory of it.
    pub(crate) fn with_root(&self, root: Arc<Inode>) -> Self {
        RamDisk { shared: Arc::clone(&self.shared), root }
    }

    fn build(limit: u64, env: &Env, plan: Option<Mutex<Plan>>) -> Self {
        let shared = Arc::new(Shared {
            env: env.clone(),
            limit,
            used: Arc::default(),
            next: AtomicU64::new(1),
            names: Mutex::new(()),
            plan,
        });
        let root = shared.inode(Node::Directory(Mutex::default()));
        RamDisk { shared, root }
    }

    /// Notes a call. An error if it is to fail; `false` if it is to succeed without effect.
    fn enter(&self, call: Call) -> Result<bool, Errno> {
        self.shared.plan.as_ref().map_or(Ok(true), |plan| plan.lock().enter(call))
    }

    fn tracks(&self) -> bool {
        self.shared.plan.is_some()
    }

    fn walk(&self, dir: &Arc<Inode>, path: &str) -> Result<Arc<Inode>, Errno> {
        path.split('/')
            .filter(|part| !part.is_empty())
            .try_fold(Arc::clone(dir), |at, part| at.lookup(part))
    }

    fn now(&self) -> Timestamp {
        self.shared.env.now()
    }

    fn resize(&self, inode: &Inode, content: &mut Content, size: usize) -> Result<(), Errno> {
        let before = content.live.len();
        if size > before {
            let more = (size - before) as u64;
            let used = inode.used.fetch_add(more, Ordering::Relaxed).saturating_add(more);
            if used > self.shared.limit || content.live.try_reserve(size - before).is_err() {
                inode.used.fetch_sub(more, Ordering::Relaxed);
                return Err(Errno::NOSPC);
            }
        } else {
            inode.used.fetch_sub((before - size) as u64, Ordering::Relaxed);
        }
        content.live.resize(size, 0);
        if self.tracks() {
            content.mark(before.min(size), before.max(size));
        }
        Ok(())
    }
}

impl Shared {
    fn inode(&self, node: Node) -> Arc<Inode> {
        let now = self.env.now();
        let mode = match &node {
            Node::File(_) => 0o666 & !UMASK,
            Node::Directory(_) => 0o777 & !UMASK,
            Node::Link(_) => 0o777,
        };
        Arc::new(Inode {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            born: now.micros(),
            links: AtomicU64::new(1),
            times: Mutex::new((now, now)),
            mode: AtomicU32::new(mode),
            durable_mode: AtomicU32::new(mode),
            node,
            used: Arc::clone(&self.used),
        })
    }
}

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
        from: (&Arc<Inode>, &str),
        to: (&Arc<Inode>, &str),
        how: RenameHow,
    ) -> Result<(), Errno> {
        if !self.enter(Call::Rename)? {
            return Ok(());
        }
        self.rename_names(from, to, how)
    }

    fn link(&self, from: (&Arc<Inode>, &str), to: (&Arc<Inode>, &str)) -> Result<(), Errno> {
        self.enter(Call::Rename)?;
        self.link_names(from, to)
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
        file.times.lock().1 = self.now();
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

    fn set_file_times(&self, file: &Arc<Inode>, times: Times) -> Result<(), Errno> {
        self.enter(Call::SetTimes)?;
        let mut kept = file.times.lock();
        kept.0 = times.accessed.unwrap_or(kept.0);
        kept.1 = times.modified.unwrap_or(kept.1);
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
        let (accessed, modified) = *inode.times.lock();
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
