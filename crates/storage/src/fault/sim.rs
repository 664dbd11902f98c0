//! A simulated disk: live and durable images, power cuts, failing and lying system calls.

use std::io;
use std::sync::Arc;

use bytes::BytesMut;
use entrepot_nouns::{Env, StorePath};
use rustix::io::Errno;

use crate::error::Result;
use crate::fs::Fs;
use crate::fs::disk::{Access, DirEntry, Disk, Mounts, OpenHow, RenameHow};
use crate::ram::{Call, Cut, Inode, RamDisk};
use crate::store::AnyStore;

/// An error of a simulated system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SimError {
    /// The device fails (`EIO`).
    Io,
    /// The disk is full (`ENOSPC`).
    NoSpace,
    /// The file system does not do it (`EPERM`).
    NotPermitted,
    /// The name is taken (`EEXIST`).
    Exists,
    /// Nothing has the name (`ENOENT`).
    NotFound,
}

impl SimError {
    fn errno(self) -> Errno {
        match self {
            SimError::Io => Errno::IO,
            SimError::NoSpace => Errno::NOSPC,
            SimError::NotPermitted => Errno::PERM,
            SimError::Exists => Errno::EXIST,
            SimError::NotFound => Errno::NOENT,
        }
    }
}

/// A disk in memory that knows what would survive a power cut: `fdatasync` makes the bytes and
/// size of a file durable, not its name; `fsync` of a directory makes its names durable. Clones
/// share it. Several stores and a journal may lie on one disk, each in a folder of its own.
#[derive(Clone)]
pub struct SimDisk {
    ram: RamDisk,
    env: Env,
}

/// Most bytes a simulated disk holds unless told otherwise.
const BYTES: u64 = 1 << 30;

impl SimDisk {
    /// An empty disk of 1 GiB.
    pub fn new(env: &Env) -> Self {
        Self::of_size(BYTES, env)
    }

    /// An empty disk of `bytes`; `ENOSPC` beyond.
    pub fn of_size(bytes: u64, env: &Env) -> Self {
        SimDisk { ram: RamDisk::tracked(bytes, env), env: env.clone() }
    }

    /// Cuts the power and starts again on what is durable: a new disk. The same seed leaves the
    /// same. Every call on this one fails from now on.
    pub fn cut(&self, seed: u64, cut: Cut) -> SimDisk {
        SimDisk { ram: self.ram.cut(seed, cut), env: self.env.clone() }
    }

    /// System calls so far.
    pub fn calls(&self) -> u64 {
        self.plan(|plan| plan.calls)
    }

    /// System calls of one kind so far.
    pub fn calls_of(&self, kind: Call) -> u64 {
        self.plan(|plan| plan.count_of(kind))
    }

    /// Starts a log of the calls; [`SimDisk::log`] takes it.
    pub fn start_log(&self) {
        self.plan(|plan| plan.log = Some(Vec::new()));
    }

    /// The calls since [`SimDisk::start_log`].
    pub fn log(&self) -> Vec<Call> {
        self.plan(|plan| plan.log.take().unwrap_or_default())
    }

    /// The power goes at the `nth` call from now (1 is the next): it and all later ones fail and
    /// have no effect.
    pub fn power_off_at(&self, nth: u64) {
        self.plan(|plan| plan.off_at = Some(plan.calls.saturating_add(nth)));
    }

    /// The `nth` call from now on (1 is the next), of one kind or of any, fails once.
    pub fn fail(&self, kind: Option<Call>, nth: u64, error: SimError) {
        self.plan(|plan| {
            let so_far = match kind {
                None => plan.calls,
                Some(kind) => plan.count_of(kind),
            };
            plan.fail.push((kind, so_far.saturating_add(nth), error.errno()));
        });
    }

    /// The `nth` rename or link from now on (1 is the next) is done, and answers with `error`: as
    /// where a server is asked again because its answer was lost.
    pub fn lose_answer(&self, nth: u64, error: SimError) {
        self.plan(|plan| {
            let at = plan.count_of(Call::Rename).saturating_add(nth);
            plan.lost.push((Call::Rename, at, error.errno()));
        });
    }

    /// Just before the `nth` call of a kind from now on (1 is the next) somebody else does this.
    pub fn before(&self, kind: Call, nth: u64, others: impl FnOnce() + Send + 'static) {
        self.plan(|plan| {
            let at = plan.count_of(kind).saturating_add(nth);
            plan.before.push((kind, at, Box::new(others)));
        });
    }

    /// Calls of this kind succeed without effect from now on: a disk that lies, and the proof
    /// that a test would notice if the call were forgotten. For writes, syncs and renames.
    pub fn lie(&self, kind: Call) {
        self.plan(|plan| plan.lies.push(kind));
    }

    /// The file system knows no flags of `renameat2` from now on, as NFS.
    pub fn forget_rename_flags(&self) {
        self.plan(|plan| plan.lacks_flags = true);
    }

    /// A folder below the root for plain files, made (durably) if needed: room for a journal.
    ///
    /// # Errors
    /// What the disk says.
    pub fn folder(&self, name: &str) -> io::Result<SimFolder> {
        let root = self.ram.root();
        match self.ram.make_dir(root, name, Access::Private) {
            Ok(()) => self.ram.sync_dir(root).map_err(as_io)?,
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(as_io(errno)),
        }
        let dir = self.ram.open_dir(root, name, Mounts::Enter).map_err(as_io)?;
        Ok(SimFolder { ram: self.ram.clone(), dir })
    }

    fn plan<T: Default>(&self, read: impl FnOnce(&mut crate::ram::Plan) -> T) -> T {
        self.ram.with_plan(read).unwrap_or_default()
    }
}

fn as_io(errno: Errno) -> io::Error {
    io::Error::from_raw_os_error(errno.raw_os_error())
}

/// The directory store on a simulated disk: the very code that serves a directory of the machine,
/// with the calls of the kernel answered by the disk.
pub struct SimStore;

impl SimStore {
    /// A store on the whole of `disk`.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open(disk: &SimDisk, env: &Env) -> Result<AnyStore> {
        Ok(Arc::new(Fs::new(disk.ram.clone(), env.clone())?))
    }

    /// A store whose root is a folder of `disk`, made (durably) if needed.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open_in(disk: &SimDisk, folder: &str, env: &Env) -> Result<AnyStore> {
        let made = disk.folder(folder).map_err(|e| crate::StoreError::Io(e.to_string()))?;
        Ok(Arc::new(Fs::new(disk.ram.with_root(made.dir), env.clone())?))
    }
}

/// Plain files in a folder of a simulated disk. Names are paths below the folder, such as
/// `a` or `archive/a`; an empty name is the folder itself.
#[derive(Clone)]
pub struct SimFolder {
    ram: RamDisk,
    dir: Arc<Inode>,
}

/// An open file of a [`SimFolder`].
pub struct SimFile {
    ram: RamDisk,
    inode: Arc<Inode>,
}

impl SimFolder {
    /// Opens the directory that holds `path`, and gives the last component.
    fn parent<'a>(&self, path: &'a str) -> io::Result<(Arc<Inode>, &'a str)> {
        path.parse::<StorePath>().map_err(|error| io::Error::other(error.to_string()))?;
        match path.rsplit_once('/') {
            None => Ok((Arc::clone(&self.dir), path)),
            Some((above, name)) => Ok((self.open_dir(above)?, name)),
        }
    }

    fn open_dir(&self, path: &str) -> io::Result<Arc<Inode>> {
        self.ram.open_dir(&self.dir, path, Mounts::Enter).map_err(as_io)
    }

    fn file(&self, path: &str, how: OpenHow) -> io::Result<SimFile> {
        let (dir, name) = self.parent(path)?;
        let inode = self.ram.open_file(&dir, name, how).map_err(as_io)?;
        Ok(SimFile { ram: self.ram.clone(), inode })
    }

    /// Names in a directory.
    ///
    /// # Errors
    /// What the disk says.
    pub fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = self.ram.names(&self.open_dir(path)?).map_err(as_io)?;
        let mut found = Vec::new();
        while let Some(name) = names.next() {
            found.push(name.map_err(as_io)?);
        }
        Ok(found)
    }

    /// A new file, open to read and write; fails if the name is taken.
    ///
    /// # Errors
    /// What the disk says.
    pub fn create(&self, path: &str) -> io::Result<SimFile> {
        self.file(path, OpenHow::CreateNew)
    }

    /// An existing file, open to read and write.
    ///
    /// # Errors
    /// What the disk says.
    pub fn open(&self, path: &str) -> io::Result<SimFile> {
        self.file(path, OpenHow::ReadWrite)
    }

    /// Renames, replacing.
    ///
    /// # Errors
    /// What the disk says.
    pub fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.parent(from)?, self.parent(to)?);
        let (from, to) = (DirEntry::new(&from.0, from.1), DirEntry::new(&to.0, to.1));
        self.ram.rename(from, to, RenameHow::Replace).map_err(as_io)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// What the disk says.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        self.ram.unlink(&dir, name).map_err(as_io)
    }

    /// Makes a directory.
    ///
    /// # Errors
    /// What the disk says.
    pub fn make_directory(&self, path: &str) -> io::Result<()> {
        let (dir, name) = self.parent(path)?;
        self.ram.make_dir(&dir, name, Access::Private).map_err(as_io)
    }

    /// Makes the names of a directory durable.
    ///
    /// # Errors
    /// What the disk says.
    pub fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.ram.sync_dir(&self.open_dir(path)?).map_err(as_io)
    }
}

impl SimFile {
    /// Bytes it has.
    ///
    /// # Errors
    /// What the disk says.
    pub fn size(&self) -> io::Result<u64> {
        Ok(self.ram.stat_file(&self.inode).map_err(as_io)?.size)
    }

    /// Reads up to `into.len()` bytes; fewer only at the end.
    ///
    /// # Errors
    /// What the disk says.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> io::Result<usize> {
        let mut buf = BytesMut::new();
        self.ram.read(&self.inode, offset, &mut buf, into.len()).map_err(as_io)?;
        into.iter_mut().zip(&buf).for_each(|(to, from)| *to = *from);
        Ok(buf.len())
    }

    /// Writes all of `bytes`.
    ///
    /// # Errors
    /// What the disk says.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.ram.write(&self.inode, offset, bytes).map_err(as_io)
    }

    /// Writes all of `bytes` at the end.
    ///
    /// # Errors
    /// What the disk says.
    pub fn append(&self, bytes: &[u8]) -> io::Result<()> {
        self.write_at(self.size()?, bytes)
    }

    /// Cuts or extends with zeros.
    ///
    /// # Errors
    /// What the disk says.
    pub fn set_len(&self, size: u64) -> io::Result<()> {
        self.ram.set_len(&self.inode, size).map_err(as_io)
    }

    /// Makes bytes and size durable (`fdatasync`).
    ///
    /// # Errors
    /// What the disk says.
    pub fn sync(&self) -> io::Result<()> {
        self.ram.sync_file(&self.inode).map_err(as_io)
    }
}
