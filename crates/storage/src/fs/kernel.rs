//! The real disk: one system call a method, always from a directory handle.

use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use bytes::BytesMut;
use entrepot_nouns::Timestamp;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags, Statx, StatxFlags,
    StatxTimestamp, Timespec, Timestamps, UTIME_OMIT,
};
use rustix::io::{Errno, ReadWriteFlags};

use super::disk::{
    Access, DirEntry, Disk, Mounts, Names, Nature, OpenHow, RenameHow, Stat, StatKind, Times,
};
use crate::store::{CopyRange, Space};

/// File system types whose files are in memory (`statfs(2)`): tmpfs, ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];
/// File system types on devices of this machine: ext, xfs, btrfs, f2fs, overlay, zfs, bcachefs.
const LOCAL: [u64; 7] =
    [0xef53, 0x5846_5342, 0x9123_683e, 0xf2f5_2010, 0x794c_7630, 0x2fc1_2fc1, 0xca45_1a4e];

/// File system types with subvolumes: btrfs, bcachefs.
const SUBVOLUMES: [u64; 2] = [0x9123_683e, 0xca45_1a4e];

/// A directory of this machine, held by a descriptor.
pub(crate) struct KernelDisk {
    root: OwnedFd,
    nature: Nature,
}

impl KernelDisk {
    /// Opens `path` (which may itself be reached through links: it is the operator's word), making
    /// the last component if its parent exists.
    pub(crate) fn open(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = match rustix::fs::open(path, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                rustix::fs::mkdir(path, Mode::from_raw_mode(0o770)).or_else(taken_is_fine)?;
                if let Some(parent) = path.parent() {
                    rustix::fs::fsync(rustix::fs::open(parent, flags, Mode::empty())?)?;
                }
                rustix::fs::open(path, flags, Mode::empty())?
            }
            other => other?,
        };
        // The field's type differs by platform; every magic number fits 32 bits.
        let magic = rustix::fs::fstatfs(&root)?.f_type as u64 & 0xffff_ffff;
        let in_memory = IN_MEMORY.contains(&magic);
        let nature = Nature {
            in_memory,
            local: in_memory || LOCAL.contains(&magic),
            subvolumes: SUBVOLUMES.contains(&magic),
        };
        Ok(KernelDisk { root, nature })
    }
}

fn taken_is_fine(errno: Errno) -> Result<(), Errno> {
    if errno == Errno::EXIST { Ok(()) } else { Err(errno) }
}

/// No `..` above the start, no link anywhere, no `/proc` trick.
fn confined() -> ResolveFlags {
    ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS
}

/// `openat2`, tried again when the kernel could not rule out a racing rename (`EAGAIN`).
fn open_below(
    dir: &OwnedFd,
    path: &str,
    flags: OFlags,
    resolve: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    let path = if path.is_empty() { "." } else { path };
    for _ in 0..crate::limits::NAME_RACE_TRIES {
        match rustix::fs::openat2(dir, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

fn micros(at: StatxTimestamp) -> i64 {
    at.tv_sec.saturating_mul(1_000_000).saturating_add(i64::from(at.tv_nsec) / 1000)
}

fn stat_of(found: &Statx) -> Stat {
    let kind = match FileType::from_raw_mode(u32::from(found.stx_mode)) {
        FileType::RegularFile => StatKind::File,
        FileType::Directory => StatKind::Directory,
        FileType::Symlink => StatKind::Link,
        _ => StatKind::Other,
    };
    let has_birth = found.stx_mask & StatxFlags::BTIME.bits() != 0;
    Stat {
        kind,
        size: found.stx_size,
        modified: Timestamp(micros(found.stx_mtime)),
        accessed: Timestamp(micros(found.stx_atime)),
        mode: u32::from(found.stx_mode) & 0o7777,
        links: u64::from(found.stx_nlink),
        inode: found.stx_ino,
        born: if has_birth { micros(found.stx_btime) } else { 0 },
        device: (u64::from(found.stx_dev_major) << 32) | u64::from(found.stx_dev_minor),
    }
}

fn wanted() -> StatxFlags {
    StatxFlags::BASIC_STATS | StatxFlags::BTIME
}

fn timespec(at: Option<Timestamp>) -> Timespec {
    match at {
        None => Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        Some(at) => Timespec {
            tv_sec: at.micros().div_euclid(1_000_000),
            tv_nsec: at.micros().rem_euclid(1_000_000) * 1000,
        },
    }
}

fn timestamps(times: Times) -> Timestamps {
    Timestamps {
        last_access: timespec(times.accessed),
        last_modification: timespec(times.modified),
    }
}

/// A cursor over `getdents64`.
struct KernelNames(Dir);

impl Names for KernelNames {
    fn next(&mut self) -> Option<Result<String, Errno>> {
        loop {
            let entry = match self.0.read()? {
                Ok(entry) => entry,
                Err(errno) => return Some(Err(errno)),
            };
            match entry.file_name().to_str() {
                Ok("." | "..") | Err(_) => {}
                Ok(name) => return Some(Ok(name.to_owned())),
            }
        }
    }
}

impl Disk for KernelDisk {
    type Dir = OwnedFd;
    type File = OwnedFd;

    fn nature(&self) -> Nature {
        self.nature
    }

    fn root(&self) -> &OwnedFd {
        &self.root
    }

    fn open_dir(&self, dir: &OwnedFd, path: &str, mounts: Mounts) -> Result<OwnedFd, Errno> {
        // Not O_PATH: such a handle cannot be synced (EBADF).
        let how = OFlags::RDONLY | OFlags::DIRECTORY;
        let extra = match mounts {
            Mounts::Enter => ResolveFlags::empty(),
            Mounts::Refuse => ResolveFlags::NO_XDEV,
        };
        open_below(dir, path, how, confined() | extra)
    }

    fn open_file(&self, dir: &OwnedFd, path: &str, how: OpenHow) -> Result<OwnedFd, Errno> {
        // NONBLOCK: opening a pipe must not wait for its other end.
        let common = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let flags = match how {
            OpenHow::Read => OFlags::RDONLY,
            OpenHow::ReadWrite => OFlags::RDWR,
            OpenHow::CreateNew => {
                // O_EXCL follows no link, and a plain name has nothing to walk.
                debug_assert!(!path.contains('/'), "a new file is made by a plain name");
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                return rustix::fs::openat(dir, path, common | flags, Mode::from_raw_mode(0o666));
            }
        };
        open_below(dir, path, common | flags, confined())
    }

    fn stat(&self, dir: &OwnedFd, name: &str) -> Result<Stat, Errno> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH;
        Ok(stat_of(&rustix::fs::statx(dir, name, flags, wanted())?))
    }

    /// One call less where nothing has the name, which uploads ask twice.
    fn stat_below(&self, dir: &OwnedFd, path: &str) -> Result<Stat, Errno> {
        if !path.contains('/') {
            return self.stat(dir, path);
        }
        let found = open_below(dir, path, OFlags::PATH | OFlags::NOFOLLOW, confined())?;
        self.stat_file(&found)
    }

    fn stat_file(&self, file: &OwnedFd) -> Result<Stat, Errno> {
        Ok(stat_of(&rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, wanted())?))
    }

    fn names(&self, dir: &OwnedFd) -> Result<Box<dyn Names>, Errno> {
        // A descriptor of its own, for the position is the descriptor's.
        let own = self.open_dir(dir, "", Mounts::Enter)?;
        Ok(Box::new(KernelNames(Dir::new(own)?)))
    }

    fn rename(
        &self,
        from: DirEntry<'_, OwnedFd>,
        to: DirEntry<'_, OwnedFd>,
        how: RenameHow,
    ) -> Result<(), Errno> {
        let flags = match how {
            RenameHow::Replace => RenameFlags::empty(),
            RenameHow::NoReplace => RenameFlags::NOREPLACE,
            RenameHow::Exchange => RenameFlags::EXCHANGE,
        };
        rustix::fs::renameat_with(from.dir, from.name, to.dir, to.name, flags)
    }

    fn link(&self, from: DirEntry<'_, OwnedFd>, to: DirEntry<'_, OwnedFd>) -> Result<(), Errno> {
        rustix::fs::linkat(from.dir, from.name, to.dir, to.name, AtFlags::empty())
    }

    fn read_link(&self, dir: &OwnedFd, name: &str) -> Result<Vec<u8>, Errno> {
        Ok(rustix::fs::readlinkat(dir, name, Vec::new())?.into_bytes())
    }

    fn make_link(&self, target: &str, dir: &OwnedFd, name: &str) -> Result<(), Errno> {
        rustix::fs::symlinkat(target, dir, name)
    }

    fn unlink(&self, dir: &OwnedFd, name: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(dir, name, AtFlags::empty())
    }

    fn make_dir(&self, dir: &OwnedFd, name: &str, access: Access) -> Result<(), Errno> {
        let mode = match access {
            Access::Shared(mode) => mode,
            Access::Private => 0o700,
        };
        rustix::fs::mkdirat(dir, name, Mode::from_raw_mode(mode))
    }

    fn remove_dir(&self, dir: &OwnedFd, name: &str) -> Result<(), Errno> {
        rustix::fs::unlinkat(dir, name, AtFlags::REMOVEDIR)
    }

    fn try_read(&self, file: &OwnedFd, at: u64, buf: &mut [u8]) -> Result<Option<usize>, Errno> {
        let flags =
            if self.nature.in_memory { ReadWriteFlags::empty() } else { ReadWriteFlags::NOWAIT };
        let mut done = 0;
        while let Some(rest) = buf.get_mut(done..).filter(|rest| !rest.is_empty()) {
            let mut slices = [IoSliceMut::new(rest)];
            match rustix::io::preadv2(file, &mut slices, at.saturating_add(done as u64), flags) {
                Ok(0) => break,
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN | Errno::OPNOTSUPP) => return Ok(None),
                Err(errno) => return Err(errno),
            }
        }
        Ok(Some(done))
    }

    fn read(&self, file: &OwnedFd, at: u64, buf: &mut BytesMut, len: usize) -> Result<(), Errno> {
        let start = buf.len();
        buf.resize(start.saturating_add(len), 0);
        let mut done = 0;
        let result = loop {
            let Some(rest) = buf.get_mut(start + done..).filter(|rest| !rest.is_empty()) else {
                break Ok(());
            };
            match rustix::io::pread(file, rest, at.saturating_add(done as u64)) {
                Ok(0) => break Ok(()),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => break Err(errno),
            }
        };
        buf.truncate(start + done);
        result
    }

    fn try_write(&self, file: &OwnedFd, at: u64, data: &[u8]) -> Result<bool, Errno> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            let slices = [std::io::IoSlice::new(rest)];
            let offset = at.saturating_add(done as u64);
            match rustix::io::pwritev2(file, &slices, offset, ReadWriteFlags::NOWAIT) {
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                // What was written counts as nothing: the caller writes the same bytes again.
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
        Ok(true)
    }

    fn write(&self, file: &OwnedFd, at: u64, data: &[u8]) -> Result<(), Errno> {
        let mut done = 0;
        while let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pwrite(file, rest, at.saturating_add(done as u64)) {
                Ok(0) => return Err(Errno::IO),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    fn descriptor(file: &Arc<OwnedFd>) -> Option<Arc<OwnedFd>> {
        Some(Arc::clone(file))
    }

    fn copy(
        &self,
        source: BorrowedFd<'_>,
        target: &OwnedFd,
        range: CopyRange,
    ) -> Result<usize, Errno> {
        let (mut from, mut at) = (range.from, range.at);
        let len = usize::try_from(range.len).unwrap_or(usize::MAX);
        loop {
            match rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut at), len) {
                Err(Errno::INTR) => {}
                other => return other,
            }
        }
    }

    fn set_len(&self, file: &OwnedFd, size: u64) -> Result<(), Errno> {
        rustix::fs::ftruncate(file, size)
    }

    fn sync_file(&self, file: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fdatasync(file)
    }

    fn sync_all(&self) -> Result<(), Errno> {
        rustix::fs::syncfs(&self.root)
    }

    fn sync_dir(&self, dir: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fsync(dir)
    }

    fn set_file_times(&self, file: &OwnedFd, times: Times) -> Result<(), Errno> {
        rustix::fs::futimens(file.as_fd(), &timestamps(times))
    }

    fn set_dir_times(&self, dir: &OwnedFd, times: Times) -> Result<(), Errno> {
        rustix::fs::futimens(dir.as_fd(), &timestamps(times))
    }

    fn set_file_mode(&self, file: &OwnedFd, mode: u32) -> Result<(), Errno> {
        rustix::fs::fchmod(file, Mode::from_raw_mode(mode))
    }

    fn set_dir_mode(&self, dir: &OwnedFd, mode: u32) -> Result<(), Errno> {
        rustix::fs::fchmod(dir, Mode::from_raw_mode(mode))
    }

    fn sync_file_whole(&self, file: &OwnedFd) -> Result<(), Errno> {
        rustix::fs::fsync(file)
    }

    fn space(&self) -> Result<Space, Errno> {
        let found = rustix::fs::fstatvfs(&self.root)?;
        let unit = found.f_frsize;
        // A file system without inode tables (btrfs) says 0 of 0.
        let unlimited = found.f_files == 0;
        Ok(Space {
            total_bytes: found.f_blocks.saturating_mul(unit),
            free_bytes: found.f_bavail.saturating_mul(unit),
            total_files: if unlimited { u64::MAX } else { found.f_files },
            free_files: if unlimited { u64::MAX } else { found.f_favail },
        })
    }
}
