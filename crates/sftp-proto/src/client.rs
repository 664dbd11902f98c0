//! The client machine: up to 64 requests in flight, pipelined reads and writes.
//!
//! Operations are begun by methods that return an [`Op`]; what comes of them is told by
//! [`Client::next`]. Bytes to send are fetched by [`Client::poll_output`] after every call.

mod answer;
mod core;
mod event;
mod extensions;
mod listing;
mod op;
mod output;
mod transfer;

use std::ops::Range;

use bytes::Bytes;

use crate::attrs::Attrs;
use crate::frames::{BadLength, Frames};
use crate::request::OpenFlags;
use crate::table;

pub use self::core::Depth;
pub use answer::{Answer, RemoteSpace};
pub use event::Event;
pub use extensions::Extensions;
pub use listing::NamedEntry;
pub use op::{Fault, NotBegun, Op, OpError, RemoteHandle};
pub use transfer::Extent;

use self::core::{Brought, Core};
use answer::Want;
use output::Packet;

/// The machine of one channel.
pub struct Client {
    frames: Frames,
    core: Core,
}

impl Client {
    /// A machine whose first output is INIT. Operations may be begun at once; they are sent when
    /// the server is ready.
    pub fn new(depth: Depth) -> Self {
        Client { frames: Frames::default(), core: Core::new(depth) }
    }

    /// The next event, taken from the front of `input`; call until `None`, when `input` is used
    /// up. May be called with empty input: an operation can end without an answer.
    ///
    /// # Errors
    /// The server broke the protocol; every later call then fails too.
    pub fn next<'a, 'd: 'a>(
        &'a mut self,
        input: &mut &'d [u8],
    ) -> Result<Option<Event<'a>>, Fault> {
        loop {
            if let Some(event) = self.core.events.pop_front() {
                return Ok(Some(event));
            }
            if self.core.has_ended() {
                return Err(Fault::Ended);
            }
            let place = match self.frames.step(input) {
                Ok(Some(place)) => place,
                Ok(None) => return Ok(None),
                Err(BadLength(length)) => return Err(self.core.fail(Fault::Length(length))),
            };
            let brought = self.core.take_in(self.frames.lend(place));
            match brought.map_err(|fault| self.core.fail(fault))? {
                Brought::Nothing => {}
                Brought::Data { op, offset } => {
                    let data = self::core::data_of(self.frames.lend(place));
                    return Ok(Some(Event::Data { op, offset, data }));
                }
            }
        }
    }

    /// The next bytes to send, in order; `None`: nothing for now.
    pub fn poll_output(&mut self) -> Option<Bytes> {
        self.core.output.poll()
    }

    /// True once VERSION and limits are known.
    pub fn is_ready(&self) -> bool {
        self.core.is_ready()
    }

    /// What the server announced; empty before [`Event::Ready`].
    pub fn extensions(&self) -> &Extensions {
        &self.core.extensions
    }

    /// Most bytes of one READ and one WRITE.
    pub fn data_bytes(&self) -> (u32, u32) {
        (self.core.read_bytes, self.core.write_bytes)
    }

    /// Requests in flight and waiting: 0 if the server owes nothing.
    pub fn unanswered(&self) -> usize {
        self.core.pending.len() + self.core.waiting.len()
    }

    /// Requests and data bytes in flight, for the fuzzer's invariant.
    pub(crate) fn core_in_flight(&self) -> (usize, u64) {
        (self.core.pending.len(), self.core.bytes_in_flight)
    }

    /// Gives the assembly buffer back unless a frame is in it.
    pub fn shrink(&mut self) {
        self.frames.shrink();
    }

    /// OPEN. Ends with [`Answer::Handle`].
    ///
    /// # Errors
    /// As all operations: [`NotBegun`].
    pub fn open(&mut self, path: &str, flags: OpenFlags, attrs: &Attrs) -> Result<Op, NotBegun> {
        let packet = Packet::new(table::OPEN).string(path.as_bytes()).number(flags.bits());
        self.core.begin(packet.attrs(attrs), Want::Handle)
    }

    /// CLOSE. The handle is dead whatever the answer.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn close(&mut self, handle: &RemoteHandle) -> Result<Op, NotBegun> {
        self.core.begin(Packet::new(table::CLOSE).handle(handle), Want::Status)
    }

    /// STAT. Ends with [`Answer::Attrs`].
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn stat(&mut self, path: &str) -> Result<Op, NotBegun> {
        self.core.begin(Packet::new(table::STAT).string(path.as_bytes()), Want::Attrs)
    }

    /// LSTAT. Ends with [`Answer::Attrs`].
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn lstat(&mut self, path: &str) -> Result<Op, NotBegun> {
        self.core.begin(Packet::new(table::LSTAT).string(path.as_bytes()), Want::Attrs)
    }

    /// FSTAT. Ends with [`Answer::Attrs`].
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn fstat(&mut self, handle: &RemoteHandle) -> Result<Op, NotBegun> {
        self.core.begin(Packet::new(table::FSTAT).handle(handle), Want::Attrs)
    }

    /// SETSTAT: changes attributes of a name.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn setstat(&mut self, path: &str, attrs: &Attrs) -> Result<Op, NotBegun> {
        let packet = Packet::new(table::SETSTAT).string(path.as_bytes());
        self.core.begin(packet.attrs(attrs), Want::Status)
    }

    /// FSETSTAT: changes attributes of an open file.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn fsetstat(&mut self, handle: &RemoteHandle, attrs: &Attrs) -> Result<Op, NotBegun> {
        let packet = Packet::new(table::FSETSTAT).handle(handle);
        self.core.begin(packet.attrs(attrs), Want::Status)
    }

    /// REMOVE of a file, never of a directory.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn remove(&mut self, path: &str) -> Result<Op, NotBegun> {
        self.core.begin(Packet::new(table::REMOVE).string(path.as_bytes()), Want::Status)
    }

    /// MKDIR with empty attributes: the server's own mode.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn mkdir(&mut self, path: &str) -> Result<Op, NotBegun> {
        let packet = Packet::new(table::MKDIR).string(path.as_bytes());
        self.core.begin(packet.attrs(&Attrs::default()), Want::Status)
    }

    /// RMDIR of an empty directory.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn rmdir(&mut self, path: &str) -> Result<Op, NotBegun> {
        self.core.begin(Packet::new(table::RMDIR).string(path.as_bytes()), Want::Status)
    }

    /// REALPATH. Ends with [`Answer::Name`].
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn realpath(&mut self, path: &str) -> Result<Op, NotBegun> {
        self.core.begin(Packet::new(table::REALPATH).string(path.as_bytes()), Want::Name)
    }

    /// RENAME, which by the draft fails if `to` exists.
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn rename(&mut self, from: &str, to: &str) -> Result<Op, NotBegun> {
        let packet = Packet::new(table::RENAME).string(from.as_bytes()).string(to.as_bytes());
        self.core.begin(packet, Want::Status)
    }

    /// `posix-rename@openssh.com`: replaces `to` atomically.
    ///
    /// # Errors
    /// [`NotBegun`], also if it is not offered.
    pub fn posix_rename(&mut self, from: &str, to: &str) -> Result<Op, NotBegun> {
        let packet = self.core.extended("posix-rename@openssh.com", "1")?;
        self.core.begin(packet.string(from.as_bytes()).string(to.as_bytes()), Want::Status)
    }

    /// `hardlink@openssh.com`: gives the file `from` a second name `to`, which must not exist.
    ///
    /// # Errors
    /// [`NotBegun`], also if it is not offered.
    pub fn hardlink(&mut self, from: &str, to: &str) -> Result<Op, NotBegun> {
        let packet = self.core.extended("hardlink@openssh.com", "1")?;
        self.core.begin(packet.string(from.as_bytes()).string(to.as_bytes()), Want::Status)
    }

    /// `fsync@openssh.com`: ends when the file is on disk.
    ///
    /// # Errors
    /// [`NotBegun`], also if it is not offered.
    pub fn fsync(&mut self, handle: &RemoteHandle) -> Result<Op, NotBegun> {
        let packet = self.core.extended("fsync@openssh.com", "1")?;
        self.core.begin(packet.handle(handle), Want::Status)
    }

    /// `statvfs@openssh.com`. Ends with [`Answer::Space`].
    ///
    /// # Errors
    /// [`NotBegun`], also if it is not offered.
    pub fn statvfs(&mut self, path: &str) -> Result<Op, NotBegun> {
        let packet = self.core.extended("statvfs@openssh.com", "2")?;
        self.core.begin(packet.string(path.as_bytes()), Want::Space)
    }

    /// `check-file-name` over the whole file in one hash. Ends with [`Answer::Hash`].
    ///
    /// # Errors
    /// [`NotBegun`], also if it is not offered.
    pub fn check_file(&mut self, path: &str, algorithms: &str) -> Result<Op, NotBegun> {
        let extensions = &self.core.extensions;
        if extensions.data("check-file").or(extensions.data("check-file-name")).is_none() {
            return Err(NotBegun::NotOffered("check-file"));
        }
        let packet = Packet::extended("check-file-name").string(path.as_bytes());
        let packet = packet.string(algorithms.as_bytes()).long(0).long(0).number(0);
        self.core.begin(packet, Want::Hash)
    }

    /// Lists a directory: [`Event::Names`] until it [`Event::Ended`].
    ///
    /// # Errors
    /// [`NotBegun`].
    pub fn list(&mut self, path: &str) -> Result<Op, NotBegun> {
        self.core.begin_list(path)
    }

    /// Goes on with a listing after its [`Event::Names`] were taken.
    pub fn list_more(&mut self, op: Op) {
        self.core.list_more(op);
    }

    /// Reads an open file: [`Event::Data`] until it [`Event::Ended`] with
    /// [`Answer::Transferred`]. What is answered short is asked again; a file ends where the
    /// server says EOF, nowhere else.
    pub fn get(&mut self, handle: &RemoteHandle, extent: Extent) -> Op {
        self.core.begin_get(handle, extent)
    }

    /// Writes to an open file from `offset` on: ask [`Client::want_data`], [`Client::supply`],
    /// and at last [`Client::put_end`]; ends with [`Answer::Transferred`], or as soon as a
    /// refused WRITE is known and no other is in flight.
    pub fn put(&mut self, handle: &RemoteHandle, offset: u64) -> Op {
        self.core.begin_put(handle, offset)
    }

    /// The part of the file that may be supplied now; `None`: wait for answers, or the put is
    /// over.
    pub fn want_data(&self, op: Op) -> Option<Range<u64>> {
        self.core.want_data(op)
    }

    /// Supplies data for the front of what [`Client::want_data`] gave, as much of it as there
    /// is. What goes beyond it is not taken: the length taken is returned.
    pub fn supply(&mut self, op: Op, data: Bytes) -> usize {
        self.core.supply(op, data)
    }

    /// True if a get, put or listing has ended or was never begun: nothing more is taken for it.
    pub fn is_over(&self, op: Op) -> bool {
        !self.core.running.contains_key(&op)
    }

    /// No more data comes.
    pub fn put_end(&mut self, op: Op) {
        self.core.put_end(op);
    }

    /// Ends a get, put or listing early: it ends with [`OpError::Cancelled`] when what is in
    /// flight was answered. Others go on.
    pub fn cancel(&mut self, op: Op) {
        self.core.cancel(op);
    }
}
