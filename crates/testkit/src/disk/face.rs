//! The disk as the kernel asks it.

use std::ffi::OsStr;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::state::{Body, Made, Result, State};

/// How long the kernel may keep what it knows: nobody else changes this disk.
const TTL: Duration = Duration::from_secs(3600);

/// `S_IFMT` and `S_IFSOCK` of inode(7).
const FILE_TYPE: u32 = 0o170_000;
const SOCKET: u32 = 0o140_000;

/// What the kernel talks to.
pub(super) struct Face {
    state: Arc<Mutex<State>>,
}

impl Face {
    pub(super) fn new(state: Arc<Mutex<State>>) -> Face {
        Face { state }
    }

    fn state(&self) -> Result<MutexGuard<'_, State>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.has_power()?;
        Ok(state)
    }

    fn entry(&self, find: impl FnOnce(&mut State) -> Result<u64>) -> Result<FileAttr> {
        let mut state = self.state()?;
        let number = find(&mut state)?;
        attributes(&state, number)
    }

    fn done(&self, reply: ReplyEmpty, work: impl FnOnce(&mut State) -> Result<()>) {
        match self.state().and_then(|mut state| work(&mut state)) {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

fn attributes(state: &State, number: u64) -> Result<FileAttr> {
    let inode = state.inode(number)?;
    let kind = match inode.body {
        Body::File => FileType::RegularFile,
        Body::Folder => FileType::Directory,
        Body::Socket => FileType::Socket,
        Body::Link(_) => FileType::Symlink,
    };
    Ok(FileAttr {
        ino: INodeNo(number),
        size: inode.size(),
        blocks: inode.pages() * 8,
        atime: inode.changed,
        mtime: inode.changed,
        ctime: inode.changed,
        crtime: inode.changed,
        kind,
        perm: u16::try_from(inode.mode).unwrap_or(0o600),
        nlink: inode.links.max(1),
        uid: inode.owner.0,
        gid: inode.owner.1,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    })
}

fn answer(reply: ReplyEntry, found: Result<FileAttr>) {
    match found {
        Ok(attributes) => reply.entry(&TTL, &attributes, Generation(0)),
        Err(error) => reply.error(error),
    }
}

fn made(request: &Request, body: Body, mode: u32) -> Made {
    Made { body, mode, owner: (request.uid(), request.gid()) }
}

impl Filesystem for Face {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        answer(reply, self.entry(|state| state.lookup(parent.0, name)));
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.entry(|_| Ok(ino.0)) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let set = self.entry(|state| {
            if let Some(size) = size {
                state.resize(ino.0, size)?;
            }
            let inode = state.inode_mut(ino.0)?;
            inode.mode = mode.map_or(inode.mode, |mode| mode & 0o7777);
            inode.owner = (uid.unwrap_or(inode.owner.0), gid.unwrap_or(inode.owner.1));
            match mtime {
                Some(TimeOrNow::SpecificTime(time)) => inode.changed = time,
                Some(TimeOrNow::Now) => inode.changed = SystemTime::now(),
                None => {}
            }
            Ok(ino.0)
        });
        match set {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.state().and_then(|state| {
            let target = state.inode(ino.0)?.target().map(Path::to_owned);
            target.ok_or(Errno::EINVAL)
        });
        match target {
            Ok(target) => reply.data(target.as_os_str().as_encoded_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let made = made(request, Body::Folder, mode);
        answer(reply, self.entry(|state| state.make(parent.0, name, made)));
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        let body = if mode & FILE_TYPE == SOCKET { Body::Socket } else { Body::File };
        let made = made(request, body, mode);
        answer(reply, self.entry(|state| state.make(parent.0, name, made)));
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = made(request, Body::Link(target.to_owned()), 0o777);
        answer(reply, self.entry(|state| state.make(parent.0, name, made)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |state| state.remove(parent.0, name));
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.done(reply, |state| state.remove(parent.0, name));
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        newparent: INodeNo,
        newname: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let (from, to) = ((parent.0, name), (newparent.0, newname));
        self.done(reply, |state| {
            if flags.contains(RenameFlags::RENAME_EXCHANGE) {
                return state.exchange(from, to);
            }
            let taken = state.lookup(to.0, to.1).is_ok();
            if flags.contains(RenameFlags::RENAME_NOREPLACE) && taken {
                return Err(Errno::EEXIST);
            }
            state.rename(from, to)
        });
    }

    fn link(
        &self,
        _: &Request,
        ino: INodeNo,
        newparent: INodeNo,
        newname: &OsStr,
        reply: ReplyEntry,
    ) {
        let linked = |state: &mut State| state.link(ino.0, newparent.0, newname).map(|()| ino.0);
        answer(reply, self.entry(linked));
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let made = made(request, Body::File, mode);
        let created = self.entry(|state| {
            let number = state.make(parent.0, name, made)?;
            state.open(number)?;
            Ok(number)
        });
        match created {
            Ok(attributes) => reply.created(
                &TTL,
                &attributes,
                Generation(0),
                FileHandle(0),
                FopenFlags::FOPEN_KEEP_CACHE,
            ),
            Err(error) => reply.error(error),
        }
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.state().and_then(|mut state| state.open(ino.0)) {
            Ok(()) => reply.opened(FileHandle(0), FopenFlags::FOPEN_KEEP_CACHE),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.state().and_then(|state| Ok(state.inode(ino.0)?.read(offset, size))) {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.state().and_then(|mut state| state.write(ino.0, offset, data)) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.done(reply, |state| {
            state.close(ino.0);
            Ok(())
        });
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.done(reply, |state| state.sync_file(ino.0));
    }

    fn fsyncdir(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.done(reply, |state| state.sync_folder(ino.0));
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.state().and_then(|state| {
            let names = state.names(ino.0)?.iter().map(|(name, number)| {
                Ok((name.clone(), attributes(&state, *number)?.kind, *number))
            });
            names.collect::<Result<Vec<_>>>()
        });
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) => return reply.error(error),
        };
        let skipped = usize::try_from(offset).unwrap_or(usize::MAX);
        for (at, (name, kind, number)) in (1u64..).zip(&listed).skip(skipped) {
            if reply.add(INodeNo(*number), at, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        match self.state() {
            Ok(state) => {
                let (all, free) = state.room().unwrap_or((1 << 30, 1 << 29));
                reply.statfs(all, free, free, 1 << 20, 1 << 19, 4096, 255, 4096);
            }
            Err(error) => reply.error(error),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.done(reply, |state| match mode {
            0 => state.reserve(ino.0, offset + length),
            _ => Err(Errno::EOPNOTSUPP),
        });
    }
}
