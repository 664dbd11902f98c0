//! The seam under the directory store: the system calls it makes, one method each. The kernel is
//! one implementation, the simulated disk another, so that power cuts and errors are tested on
//! the very code that serves.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;

use bytes::BytesMut;
use entrepot_nouns::{Displaced, Timestamp};
use rustix::io::Errno;

use crate::store::{CopyRange, EntryKind, Identity, Meta, Space};

/// What a name or an open file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) kind: StatKind,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
    pub(crate) accessed: Timestamp,
    /// Permission bits, with set-uid, set-gid and sticky.
    pub(crate) mode: u32,
    /// How many names the file has (its hard links).
    pub(crate) links: u64,
    /// Inode number, unique within a file system.
    pub(crate) inode: u64,
    /// Time of birth in microseconds; with the inode it survives a device that comes back under
    /// another number. 0 where the file system keeps none.
    pub(crate) born: i64,
    /// Device number, to group syncs.
    pub(crate) device: u64,
}

/// Kinds of names on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatKind {
    File,
    Directory,
    /// A symbolic link, which is never followed.
    Link,
    /// A device, pipe or socket, which the store treats as absent.
    Other,
}

impl Stat {
    /// The same in the terms of the store; `None` for a device, pipe or socket.
    pub(crate) fn meta(&self) -> Option<Meta> {
        let (kind, size) = match self.kind {
            StatKind::File => (EntryKind::File, self.size),
            StatKind::Directory => (EntryKind::Directory, 0),
            StatKind::Link => (EntryKind::Link, self.size),
            StatKind::Other => return None,
        };
        Some(Meta {
            kind,
            size,
            modified: self.modified,
            accessed: self.accessed,
            identity: Some(self.identity()),
            mode: Some(self.mode),
        })
    }

    /// Whether it is the same file. A kernel may not tell when a file was made: then the inode has
    /// to do.
    pub(crate) fn is_same(&self, other: &Stat) -> bool {
        let born = self.born == other.born || self.born == 0 || other.born == 0;
        born && (self.inode, self.device) == (other.inode, other.device)
    }

    /// The file as events name it once another one has its name.
    pub(crate) fn displaced(&self) -> Displaced {
        Displaced { identity: Some(self.identity().0) }
    }

    /// What tells this file from every other on its file system, also from one that had the same
    /// inode number before.
    pub(crate) fn identity(&self) -> Identity {
        Identity(format!("{}:{}", self.inode, self.born))
    }
}

/// A name in an open directory: one plain component.
pub(crate) struct DirEntry<'a, Dir> {
    pub(crate) dir: &'a Dir,
    pub(crate) name: &'a str,
}

impl<'a, Dir> DirEntry<'a, Dir> {
    pub(crate) fn new(dir: &'a Dir, name: &'a str) -> Self {
        DirEntry { dir, name }
    }
}

impl<Dir> Clone for DirEntry<'_, Dir> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Dir> Copy for DirEntry<'_, Dir> {}

/// How to open a file by one plain name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenHow {
    /// An existing one, to read.
    Read,
    /// An existing one, to read and write.
    ReadWrite,
    /// A new one, to read and write; `EEXIST` if the name is taken.
    CreateNew,
}

/// How a rename treats a taken name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RenameHow {
    /// The file that has the name is removed.
    Replace,
    /// The rename fails with `EEXIST`.
    NoReplace,
    /// The two files swap their names.
    Exchange,
}

/// What a disk can do inline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Nature {
    /// Kept in memory: no call waits for a device.
    pub(crate) in_memory: bool,
    /// On a device of this machine: buffered writes go to the page cache at once.
    pub(crate) local: bool,
    /// One mount may hold several file systems (subvolumes), told apart by device number only.
    pub(crate) subvolumes: bool,
}

/// Walks the names of a directory.
pub(crate) trait Names: Send {
    /// The next name but `.` and `..`; `None` at the end. Names that are not UTF-8 are left out:
    /// no path can say them.
    fn next(&mut self) -> Option<Result<String, Errno>>;
}

/// The system calls. `dir` is always an open directory below the root, `name` one plain component,
/// `path` components below `dir` without `.`, `..` or links (which the call refuses).
pub(crate) trait Disk: Send + Sync + 'static {
    /// An open directory; good for `fsync`.
    type Dir: Send + Sync + 'static;
    /// An open file.
    type File: Send + Sync + 'static;

    /// What can be done inline.
    fn nature(&self) -> Nature;
    /// The root of the endpoint.
    fn root(&self) -> &Self::Dir;
    /// Opens a directory; with `Mounts::Refuse`, `EXDEV` if it lies on another file system.
    fn open_dir(&self, dir: &Self::Dir, path: &str, mounts: Mounts) -> Result<Self::Dir, Errno>;
    /// Opens a regular file, never through a link and never waiting for a pipe.
    fn open_file(&self, dir: &Self::Dir, path: &str, how: OpenHow) -> Result<Self::File, Errno>;
    /// What a path is, itself and not what it points to; empty: `dir` itself.
    fn stat(&self, dir: &Self::Dir, name: &str) -> Result<Stat, Errno>;
    /// What a path below `dir` is, itself and not what it points to; empty: `dir` itself.
    fn stat_below(&self, dir: &Self::Dir, path: &str) -> Result<Stat, Errno> {
        match path.rsplit_once('/') {
            Some((above, name)) => self.stat(&self.open_dir(dir, above, Mounts::Enter)?, name),
            None => self.stat(dir, path),
        }
    }
    /// What an open file is.
    fn stat_file(&self, file: &Self::File) -> Result<Stat, Errno>;
    /// Begins to walk the names.
    fn names(&self, dir: &Self::Dir) -> Result<Box<dyn Names>, Errno>;
    /// `renameat2` of one plain name to another.
    fn rename(
        &self,
        from: DirEntry<'_, Self::Dir>,
        to: DirEntry<'_, Self::Dir>,
        how: RenameHow,
    ) -> Result<(), Errno>;
    /// A second name for a file; `EEXIST` if it is taken.
    fn link(&self, from: DirEntry<'_, Self::Dir>, to: DirEntry<'_, Self::Dir>)
    -> Result<(), Errno>;
    /// What a symbolic link says; `EINVAL` if it is none.
    fn read_link(&self, dir: &Self::Dir, name: &str) -> Result<Vec<u8>, Errno>;
    /// Makes a symbolic link; `EEXIST` if the name is taken.
    fn make_link(&self, target: &str, dir: &Self::Dir, name: &str) -> Result<(), Errno>;
    /// Removes a name of a file.
    fn unlink(&self, dir: &Self::Dir, name: &str) -> Result<(), Errno>;
    /// `mkdirat`; `EEXIST` if the name is taken.
    fn make_dir(&self, dir: &Self::Dir, name: &str, access: Access) -> Result<(), Errno>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Self::Dir, name: &str) -> Result<(), Errno>;
    /// Reads without waiting; `None`: would wait, or cannot tell.
    fn try_read(&self, file: &Self::File, at: u64, buf: &mut [u8]) -> Result<Option<usize>, Errno>;
    /// Reads at most `len` bytes to the end of `buf`; fewer only at the end of the file.
    fn read(&self, file: &Self::File, at: u64, buf: &mut BytesMut, len: usize)
    -> Result<(), Errno>;
    /// Writes without waiting: `false`: would wait. `EOPNOTSUPP`: this file system cannot tell.
    fn try_write(&self, file: &Self::File, at: u64, data: &[u8]) -> Result<bool, Errno>;
    /// Writes all of `data`, waiting if that is needed.
    fn write(&self, file: &Self::File, at: u64, data: &[u8]) -> Result<(), Errno>;
    /// The descriptor of a file, if the kernel knows it.
    fn descriptor(_file: &Arc<Self::File>) -> Option<Arc<OwnedFd>> {
        None
    }
    /// Copies a range inside the kernel and returns how many bytes were copied, which may be fewer.
    /// `EOPNOTSUPP` or `EXDEV`: it cannot be done so.
    fn copy(
        &self,
        _source: BorrowedFd<'_>,
        _target: &Self::File,
        _range: CopyRange,
    ) -> Result<usize, Errno> {
        Err(Errno::OPNOTSUPP)
    }
    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, file: &Self::File, size: u64) -> Result<(), Errno>;
    /// Makes bytes and size durable, on the descriptor that wrote.
    fn sync_file(&self, file: &Self::File) -> Result<(), Errno>;
    /// Makes the names of a directory durable.
    fn sync_dir(&self, dir: &Self::Dir) -> Result<(), Errno>;
    /// Makes all that was changed on the file system of the root durable.
    fn sync_all(&self) -> Result<(), Errno>;
    /// Sets times of an open file; `None` leaves one as it is.
    fn set_file_times(&self, file: &Self::File, times: Times) -> Result<(), Errno>;
    /// Sets times of an open directory.
    fn set_dir_times(&self, dir: &Self::Dir, times: Times) -> Result<(), Errno>;
    /// Sets permission bits of an open file.
    fn set_file_mode(&self, file: &Self::File, mode: u32) -> Result<(), Errno>;
    /// Sets permission bits of an open directory.
    fn set_dir_mode(&self, dir: &Self::Dir, mode: u32) -> Result<(), Errno>;
    /// Makes all that is known of an open file durable, its permission bits too.
    fn sync_file_whole(&self, file: &Self::File) -> Result<(), Errno>;
    /// Size and free space of the file system.
    fn space(&self) -> Result<Space, Errno>;
}

/// Whether a walk may enter another file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mounts {
    Enter,
    /// The walk fails with `EXDEV`.
    Refuse,
}

/// Who may use a new directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Those of these permission bits that the umask of the process leaves.
    Shared(u32),
    /// Only the user of the process (mode 0700).
    Private,
}

/// Times to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Times {
    /// `None` leaves it as it is.
    pub(crate) accessed: Option<Timestamp>,
    /// `None` leaves it as it is.
    pub(crate) modified: Option<Timestamp>,
}
