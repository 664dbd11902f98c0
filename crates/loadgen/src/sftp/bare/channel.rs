//! One channel of the bare server: the protocol machine, the open handles, and the READs that wait
//! until the client takes more.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use entrepot_nouns::VPath;
use entrepot_sftp_proto::attrs::{self, OwnerNames};
use entrepot_sftp_proto::reply::{self, DataBuffer, Names};
use entrepot_sftp_proto::{Attrs, Handle, Handles, Incoming, OpenFlags, Request, Server, Status};
use entrepot_ssh::ChannelId;
use entrepot_ssh::server::Replies;
use parking_lot::Mutex;

use crate::bare::files::{File, Files, Kind};
use crate::limits::{BARE_ANSWER_BYTES, BARE_FILE_BYTES, BARE_READS_WAITING};

/// Announced, so that clients read and write as much at a time as they do with our server.
const LIMITS: &str = "limits@openssh.com";
const OWNER: OwnerNames<'_> = OwnerNames { account: "bare", group: "bare" };

/// The client broke the protocol, or asks and takes no answers: the channel ends.
pub(super) struct Broken;

/// A channel that speaks SFTP.
pub(super) struct Channel {
    id: ChannelId,
    server: Server,
    state: State,
}

struct State {
    files: Arc<Files>,
    handles: Handles<Open>,
    buffer: DataBuffer,
    waiting: VecDeque<Waiting>,
}

enum Open {
    File(Arc<Mutex<File>>),
    /// What has not been told yet, the last first.
    Listing(Vec<(String, Kind)>),
}

/// A request that is answered when the client takes more.
enum Waiting {
    Read(Read),
    /// CLOSE behind READs.
    Close {
        id: u32,
        handle: Handle,
    },
}

struct Read {
    id: u32,
    handle: Handle,
    offset: u64,
    len: u32,
}

/// A refusal: what is answered instead.
struct Refused {
    status: Status,
    sentence: &'static str,
}

impl Refused {
    const MISSING: Refused =
        Refused { status: Status::NoSuchFile, sentence: "nothing has this name" };
    const EXISTS: Refused = Refused { status: Status::Failure, sentence: "the name is taken" };
    const NAME: Refused = Refused { status: Status::BadMessage, sentence: "that is no name" };
    const HANDLE: Refused =
        Refused { status: Status::Failure, sentence: "nothing of that kind has this handle" };
    const FULL: Refused =
        Refused { status: Status::Failure, sentence: "too many handles are open" };
    const ORDER: Refused = Refused {
        status: Status::OpUnsupported,
        sentence: "a file is written here from its beginning to its end only",
    };
    const LARGE: Refused = Refused { status: Status::Failure, sentence: "the file is too large" };
    const NOT_SERVED: Refused =
        Refused { status: Status::OpUnsupported, sentence: "that is not served here" };

    fn answer(&self, id: u32) -> Bytes {
        reply::status(id, self.status, self.sentence)
    }
}

impl Channel {
    pub(super) fn new(id: ChannelId, files: Arc<Files>) -> Channel {
        let (handles, buffer) = (Handles::default(), DataBuffer::default());
        let state = State { files, handles, buffer, waiting: VecDeque::new() };
        Channel { id, server: Server::new(), state }
    }

    pub(super) fn id(&self) -> ChannelId {
        self.id
    }

    /// Takes bytes of the client and answers.
    pub(super) fn receive(&mut self, mut data: &[u8], out: &mut Replies<'_>) -> Result<(), Broken> {
        loop {
            match self.server.next(&mut data) {
                Ok(Some(Incoming::Init { .. })) => out.send(reply::version(|name| name == LIMITS)),
                Ok(Some(Incoming::Refused { id, refusal })) => {
                    out.send(reply::refused(id, refusal))
                }
                Ok(Some(Incoming::Request { id, request })) => {
                    if let Some(answer) = self.state.take(id, request)? {
                        out.send(answer);
                    }
                }
                Ok(None) => break,
                Err(fatal) => {
                    if let Some(answer) = fatal.last_reply() {
                        out.send(answer);
                    }
                    return Err(Broken);
                }
            }
        }
        self.go_on(out);
        Ok(())
    }

    /// Answers what waits, as far as the client takes it.
    pub(super) fn go_on(&mut self, out: &mut Replies<'_>) {
        let mut made = 0;
        while made < BARE_ANSWER_BYTES && !out.has_pending() {
            let Some(answer) = self.state.next_waiting() else { break };
            made += answer.len();
            out.send(answer);
        }
        if !self.state.waiting.is_empty() {
            out.notify_when_drained();
        } else if self.state.handles.is_empty() {
            self.state.buffer.shrink();
            self.server.shrink();
        }
    }
}

impl State {
    /// The answer to a request, unless it comes later.
    fn take(&mut self, id: u32, request: Request<'_>) -> Result<Option<Bytes>, Broken> {
        let waiting = match request {
            Request::Read { handle, offset, len } => {
                Waiting::Read(Read { id, handle, offset, len })
            }
            Request::Close { handle } if !self.waiting.is_empty() => Waiting::Close { id, handle },
            other => {
                let answer = self.carry_out(id, other);
                return Ok(Some(answer.unwrap_or_else(|refused| refused.answer(id))));
            }
        };
        if self.waiting.len() >= BARE_READS_WAITING {
            return Err(Broken);
        }
        self.waiting.push_back(waiting);
        Ok(None)
    }

    fn next_waiting(&mut self) -> Option<Bytes> {
        let (id, answer) = match self.waiting.pop_front()? {
            Waiting::Read(read) => (read.id, self.read(&read)),
            Waiting::Close { id, handle } => (id, self.close(id, handle)),
        };
        Some(answer.unwrap_or_else(|refused| refused.answer(id)))
    }

    fn carry_out(&mut self, id: u32, request: Request<'_>) -> Result<Bytes, Refused> {
        let done_or = |is_done, refused| if is_done { Ok(reply::ok(id)) } else { Err(refused) };
        match request {
            Request::Open { path, flags, .. } => self.open(id, absolute(path)?, flags),
            Request::Write { handle, offset, data } => {
                self.write(handle, offset, data).map(|()| reply::ok(id))
            }
            Request::Close { handle } => self.close(id, handle),
            Request::Stat { path } | Request::Lstat { path } => {
                let kind = self.files.kind(&absolute(path)?).ok_or(Refused::MISSING)?;
                Ok(reply::attrs(id, &attributes(kind)))
            }
            Request::Fstat { handle } => {
                let kind = Kind::File(self.file(handle)?.lock().size());
                Ok(reply::attrs(id, &attributes(kind)))
            }
            // Taken and forgotten: clients set times and modes behind an upload.
            Request::Setstat { .. } | Request::Fsetstat { .. } => Ok(reply::ok(id)),
            Request::Remove { path } => {
                done_or(self.files.remove(&absolute(path)?), Refused::MISSING)
            }
            Request::Mkdir { path, .. } => {
                done_or(self.files.make_folder(absolute(path)?), Refused::EXISTS)
            }
            Request::Rmdir { path } => {
                done_or(self.files.remove_folder(&absolute(path)?), Refused::MISSING)
            }
            Request::Realpath { path } => Ok(reply::one_name(id, &absolute(path)?)),
            Request::Opendir { path } => {
                let path = absolute(path)?;
                if self.files.kind(&path) != Some(Kind::Folder) {
                    return Err(Refused::MISSING);
                }
                let mut names = self.files.list(&path);
                names.reverse();
                self.opened(id, Open::Listing(names))
            }
            Request::Readdir { handle } => self.list(id, handle),
            Request::Limits => Ok(reply::limits(id)),
            _ => Err(Refused::NOT_SERVED),
        }
    }

    fn open(&mut self, id: u32, path: String, flags: OpenFlags) -> Result<Bytes, Refused> {
        let file = match self.files.find(&path) {
            Some(file) if !flags.has(OpenFlags::TRUNCATE) => file,
            None if !flags.has(OpenFlags::CREATE) => return Err(Refused::MISSING),
            _ => {
                let file = File::new(0);
                self.files.put(path, Arc::clone(&file));
                file
            }
        };
        self.opened(id, Open::File(file))
    }

    fn opened(&mut self, id: u32, open: Open) -> Result<Bytes, Refused> {
        let handle = self.handles.insert(open).map_err(|_| Refused::FULL)?;
        Ok(reply::handle(id, handle))
    }

    fn file(&self, handle: Handle) -> Result<&Mutex<File>, Refused> {
        match self.handles.get(handle) {
            Some(Open::File(file)) => Ok(file),
            _ => Err(Refused::HANDLE),
        }
    }

    fn read(&mut self, read: &Read) -> Result<Bytes, Refused> {
        let len = reply::data_len(read.len);
        let mut frame = self.buffer.begin(len);
        let filled = self
            .file(read.handle)
            .map(|file| file.lock().read_at(read.offset, reply::data_space(&mut frame)));
        match filled {
            Ok(filled) if filled > 0 || len == 0 => Ok(self.buffer.seal(read.id, frame, filled)),
            other => {
                self.buffer.put_back(frame);
                other.map(|_| reply::eof(read.id))
            }
        }
    }

    fn write(&mut self, handle: Handle, offset: u64, data: &[u8]) -> Result<(), Refused> {
        let mut file = self.file(handle)?.lock();
        if file.size() != offset {
            return Err(Refused::ORDER);
        }
        if offset + data.len() as u64 > BARE_FILE_BYTES {
            return Err(Refused::LARGE);
        }
        file.append(data);
        Ok(())
    }

    fn close(&mut self, id: u32, handle: Handle) -> Result<Bytes, Refused> {
        self.handles.remove(handle).map(|_| reply::ok(id)).ok_or(Refused::HANDLE)
    }

    fn list(&mut self, id: u32, handle: Handle) -> Result<Bytes, Refused> {
        let Some(Open::Listing(left)) = self.handles.get_mut(handle) else {
            return Err(Refused::HANDLE);
        };
        let mut names = Names::new(id, 0);
        while let Some((name, kind)) = left.last() {
            let attributes = attributes(*kind);
            let line = attrs::long_name(name, &attributes, OWNER, 0);
            if !names.push(name, &line, &attributes) {
                break;
            }
            left.pop();
        }
        if names.count() == 0 { Ok(reply::eof(id)) } else { Ok(names.finish()) }
    }
}

fn absolute(path: &str) -> Result<String, Refused> {
    let path = VPath::root().resolve(path.as_bytes()).map_err(|_| Refused::NAME)?;
    Ok(path.as_str().to_owned())
}

fn attributes(kind: Kind) -> Attrs {
    let (size, permissions) = match kind {
        Kind::File(size) => (size, attrs::TYPE_FILE | 0o644),
        Kind::Folder => (0, attrs::TYPE_DIRECTORY | 0o755),
    };
    Attrs { size: Some(size), permissions: Some(permissions), ..Attrs::default() }
}
