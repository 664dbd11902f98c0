//! A server over files in memory: the machine and its replies with the least adapter behind.

use std::collections::BTreeMap;

use bytes::Bytes;
use entrepot_sftp_proto::attrs::{OwnerNames, long_name};
use entrepot_sftp_proto::reply::{self, DataBuffer, Hashes, Names, Statvfs, data_len, data_space};
use entrepot_sftp_proto::request::{CheckTarget, Request};
use entrepot_sftp_proto::{
    Attrs, Fatal, Handle, Handles, Incoming, OpenFlags, Owner, Server, Status, Times,
};

/// A fixed time in 2026.
pub(crate) const NOW: u32 = 1_774_448_940;

/// How the model misbehaves, to test the client.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quirks {
    /// READ answers at most so many bytes (0: all).
    pub(crate) short_reads: usize,
    /// The n-th WRITE from now is refused (0: none).
    pub(crate) refuse_write: usize,
    /// Announce no extensions.
    pub(crate) plain: bool,
    /// Answer requests of one call in reverse order.
    pub(crate) reversed: bool,
    /// Entries of one NAME answer (0: as many as fit).
    pub(crate) entries: usize,
}

enum Open {
    File { path: String, append: bool },
    Listing(Vec<(String, Attrs)>),
}

/// The server.
pub(crate) struct Model {
    server: Server,
    handles: Handles<Open>,
    buffer: DataBuffer,
    pub(crate) files: BTreeMap<String, Vec<u8>>,
    pub(crate) times: BTreeMap<String, Times>,
    pub(crate) directories: Vec<String>,
    pub(crate) quirks: Quirks,
    writes: usize,
    /// Largest number of frames answered in one call.
    pub(crate) answered: usize,
}

fn absolute(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    let from_root = path.starts_with('/');
    for part in if from_root { "" } else { "home" }.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

type Outcome = Result<Bytes, (Status, &'static str)>;
const MISSING: (Status, &str) = (Status::NoSuchFile, "no such file: check the name");
const BAD_HANDLE: (Status, &str) = (Status::Failure, "the handle is not open");

impl Model {
    pub(crate) fn new() -> Self {
        Model {
            server: Server::new(),
            handles: Handles::default(),
            buffer: DataBuffer::default(),
            files: BTreeMap::new(),
            times: BTreeMap::new(),
            directories: vec!["/".into(), "/home".into()],
            quirks: Quirks::default(),
            writes: 0,
            answered: 0,
        }
    }

    /// Answers all of `input`, in order; what ended the channel, if anything did.
    pub(crate) fn receive(&mut self, mut input: &[u8]) -> (Vec<Bytes>, Option<Fatal>) {
        let mut server = std::mem::take(&mut self.server);
        let mut answers = Vec::new();
        let end = loop {
            match server.next(&mut input) {
                Ok(Some(incoming)) => answers.push(self.answer(incoming)),
                Ok(None) => break None,
                Err(fatal) => {
                    answers.extend(fatal.last_reply());
                    break Some(fatal);
                }
            }
        };
        self.server = server;
        self.answered = self.answered.max(answers.len());
        if self.quirks.reversed {
            answers.reverse();
        }
        (answers, end)
    }

    fn answer(&mut self, incoming: Incoming<'_>) -> Bytes {
        let (id, request) = match incoming {
            Incoming::Init { .. } => return reply::version(|_| !self.quirks.plain),
            Incoming::Refused { id, refusal } => return reply::refused(id, refusal),
            Incoming::Request { id, request } => (id, request),
        };
        self.serve(id, request).unwrap_or_else(|(status, why)| reply::status(id, status, why))
    }

    fn serve(&mut self, id: u32, request: Request<'_>) -> Outcome {
        match request {
            Request::Open { path, flags, .. } => self.open(id, absolute(path), flags),
            Request::Close { handle } => {
                self.handles.remove(handle).ok_or(BAD_HANDLE)?;
                Ok(reply::ok(id))
            }
            Request::Read { handle, offset, len } => self.read(id, handle, offset, len),
            Request::Write { handle, offset, data } => self.write(id, handle, offset, data),
            Request::Lstat { path } | Request::Stat { path } => {
                Ok(reply::attrs(id, &self.attrs(&absolute(path)).ok_or(MISSING)?))
            }
            Request::Fstat { handle } => {
                let path = self.file(handle)?;
                Ok(reply::attrs(id, &self.attrs(&path).ok_or(MISSING)?))
            }
            Request::Setstat { path, attrs } | Request::Lsetstat { path, attrs } => {
                self.set(id, absolute(path), attrs)
            }
            Request::Fsetstat { handle, attrs } => {
                let path = self.file(handle)?;
                self.set(id, path, attrs)
            }
            Request::Opendir { path } => self.opendir(id, absolute(path)),
            Request::Readdir { handle } => self.readdir(id, handle),
            Request::Remove { path } => {
                self.files.remove(&absolute(path)).ok_or(MISSING)?;
                Ok(reply::ok(id))
            }
            Request::Mkdir { path, .. } => {
                let path = absolute(path);
                if self.attrs(&path).is_some() {
                    return Err((Status::Failure, "the name exists: choose another"));
                }
                self.directories.push(path);
                Ok(reply::ok(id))
            }
            Request::Rmdir { path } => {
                let path = absolute(path);
                let place = self.directories.iter().position(|known| *known == path);
                self.directories.remove(place.ok_or(MISSING)?);
                Ok(reply::ok(id))
            }
            Request::Realpath { path } | Request::ExpandPath { path } => {
                let path = path.strip_prefix("~/").or(path.strip_prefix('~')).unwrap_or(path);
                Ok(reply::one_name(id, &absolute(path)))
            }
            Request::HomeDirectory { user: "" | "acme" } => Ok(reply::one_name(id, "/home")),
            Request::HomeDirectory { .. } => Err((Status::Failure, "only your own home is told")),
            Request::Rename { from, to } => self.rename(id, from, to, false),
            Request::PosixRename { from, to } => self.rename(id, from, to, true),
            other => self.serve_rare(id, other),
        }
    }

    fn serve_rare(&mut self, id: u32, request: Request<'_>) -> Outcome {
        match request {
            Request::Limits => Ok(reply::limits(id)),
            Request::Statvfs { .. } | Request::Fstatvfs { .. } => Ok(Statvfs {
                block_bytes: 4096,
                blocks: 100,
                free_blocks: 50,
                files: 1000,
                free_files: 999,
                read_only: false,
            }
            .reply(id)),
            Request::Fsync { handle } => self.file(handle).map(|_| reply::ok(id)),
            Request::CopyData { from, offset, len, to, to_offset } => {
                let (from, to) = (self.file(from)?, self.file(to)?);
                if from == to {
                    return Err((Status::Failure, "source and target are the same file"));
                }
                let all = self.files.get(&from).cloned().unwrap_or_default();
                let start = usize::try_from(offset).unwrap().min(all.len());
                let end = match len {
                    0 => all.len(),
                    len => all.len().min(start + usize::try_from(len).unwrap()),
                };
                self.put(&to, to_offset, &all[start..end]);
                Ok(reply::ok(id))
            }
            Request::UsersGroupsById { uids, gids } => {
                let users = uids.iter().map(|uid| if uid == 1000 { "acme" } else { "" });
                let groups = gids.iter().map(|gid| if gid == 1000 { "acme" } else { "" });
                Ok(reply::users_groups(id, users, groups))
            }
            Request::CheckFile { target, algorithms, dialect, .. } => {
                let path = match target {
                    CheckTarget::Path(path) => absolute(path),
                    CheckTarget::Handle(handle) => self.file(handle)?,
                };
                let data = self.files.get(&path).ok_or(MISSING)?;
                if !algorithms.split(',').any(|name| name == "sum8") {
                    return Err((Status::Failure, "none of these algorithms is known"));
                }
                let sum = data.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
                Ok(reply::check_file(
                    id,
                    dialect,
                    &Hashes { algorithm: "sum8", hash_bytes: 1, bytes: &[sum] },
                ))
            }
            _ => Err((Status::OpUnsupported, "links are off here")),
        }
    }

    fn open(&mut self, id: u32, path: String, flags: OpenFlags) -> Outcome {
        let exists = self.files.contains_key(&path);
        if self.directories.contains(&path) {
            return Err((Status::Failure, "this is a directory"));
        }
        if exists && flags.has(OpenFlags::CREATE | OpenFlags::EXCLUSIVE) {
            return Err((Status::Failure, "the file exists"));
        }
        if !exists && !flags.has(OpenFlags::CREATE) {
            return Err(MISSING);
        }
        let file = self.files.entry(path.clone()).or_default();
        if flags.has(OpenFlags::TRUNCATE) {
            file.clear();
        }
        let open = Open::File { path, append: flags.has(OpenFlags::APPEND) };
        let full = (Status::Failure, "too many files are open: close some first");
        let handle = self.handles.insert(open).map_err(|_| full)?;
        Ok(reply::handle(id, handle))
    }

    fn file(&self, handle: Handle) -> Result<String, (Status, &'static str)> {
        match self.handles.get(handle) {
            Some(Open::File { path, .. }) => Ok(path.clone()),
            _ => Err(BAD_HANDLE),
        }
    }

    fn read(&mut self, id: u32, handle: Handle, offset: u64, len: u32) -> Outcome {
        let path = self.file(handle)?;
        let mut len = data_len(len);
        if self.quirks.short_reads > 0 {
            len = len.min(self.quirks.short_reads);
        }
        let mut frame = self.buffer.begin(len);
        let file = self.files.get(&path).ok_or(MISSING)?;
        let rest = usize::try_from(offset).ok().and_then(|at| file.get(at..)).unwrap_or(&[]);
        if rest.is_empty() && len > 0 {
            self.buffer.put_back(frame);
            return Ok(reply::eof(id));
        }
        let count = rest.len().min(len);
        data_space(&mut frame)[..count].copy_from_slice(&rest[..count]);
        Ok(self.buffer.seal(id, frame, count))
    }

    fn put(&mut self, path: &str, offset: u64, data: &[u8]) {
        let file = self.files.entry(path.to_owned()).or_default();
        let start = usize::try_from(offset).unwrap();
        if file.len() < start + data.len() {
            file.resize(start + data.len(), 0);
        }
        file[start..start + data.len()].copy_from_slice(data);
    }

    fn write(&mut self, id: u32, handle: Handle, offset: u64, data: &[u8]) -> Outcome {
        let (path, append) = match self.handles.get(handle) {
            Some(Open::File { path, append }) => (path.clone(), *append),
            _ => return Err(BAD_HANDLE),
        };
        self.writes += 1;
        if self.writes == self.quirks.refuse_write {
            return Err((Status::Failure, "the disk is full: try again later"));
        }
        let end = self.files.get(&path).map_or(0, Vec::len) as u64;
        self.put(&path, if append { end } else { offset }, data);
        Ok(reply::ok(id))
    }

    fn attrs(&self, path: &str) -> Option<Attrs> {
        let times = self.times.get(path).copied();
        let directory = self.directories.iter().any(|known| known == path);
        let size = match self.files.get(path) {
            Some(file) => file.len() as u64,
            None if directory => 0,
            None => return None,
        };
        Some(Attrs {
            size: Some(size),
            owner: Some(Owner { uid: 1000, gid: 1000 }),
            permissions: Some(if directory { 0o040_755 } else { 0o100_644 }),
            times: Some(times.unwrap_or(Times { accessed: NOW, modified: NOW })),
        })
    }

    fn set(&mut self, id: u32, path: String, attrs: Attrs) -> Outcome {
        self.attrs(&path).ok_or(MISSING)?;
        if let Some(size) = attrs.size {
            self.files.entry(path.clone()).or_default().resize(usize::try_from(size).unwrap(), 0);
        }
        if let Some(times) = attrs.times {
            self.times.insert(path, times);
        }
        Ok(reply::ok(id))
    }

    fn opendir(&mut self, id: u32, path: String) -> Outcome {
        if !self.directories.contains(&path) {
            return Err(MISSING);
        }
        let prefix = if path == "/" { path } else { format!("{path}/") };
        let names = self.files.keys().chain(&self.directories);
        let mut entries: Vec<(String, Attrs)> = names
            .filter_map(|name| {
                let below = name.strip_prefix(&prefix)?;
                let direct = !below.is_empty() && !below.contains('/');
                direct.then(|| Some((below.to_owned(), self.attrs(name)?)))?
            })
            .collect();
        entries.reverse();
        let handle = self.handles.insert(Open::Listing(entries)).map_err(|_| BAD_HANDLE)?;
        Ok(reply::handle(id, handle))
    }

    fn readdir(&mut self, id: u32, handle: Handle) -> Outcome {
        let most = match self.quirks.entries {
            0 => usize::MAX,
            most => most,
        };
        let Some(Open::Listing(entries)) = self.handles.get_mut(handle) else {
            return Err(BAD_HANDLE);
        };
        let owner = OwnerNames { account: "acme", group: "acme" };
        let mut names = Names::new(id, 1024);
        while let Some((name, attrs)) = entries.last() {
            let full = names.count() as usize >= most;
            if full || !names.push(name, &long_name(name, attrs, owner, NOW), attrs) {
                break;
            }
            entries.pop();
        }
        Ok(if names.count() == 0 { reply::eof(id) } else { names.finish() })
    }

    fn rename(&mut self, id: u32, from: &str, to: &str, replace: bool) -> Outcome {
        let (from, to) = (absolute(from), absolute(to));
        if !replace && self.files.contains_key(&to) {
            return Err((Status::Failure, "the new name exists: remove it first"));
        }
        let file = self.files.remove(&from).ok_or(MISSING)?;
        self.files.insert(to, file);
        Ok(reply::ok(id))
    }
}
