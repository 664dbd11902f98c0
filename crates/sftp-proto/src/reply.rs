//! Answers (draft-ietf-secsh-filexfer-02 §7), each a whole frame with its length.

use bytes::{BufMut, Bytes, BytesMut};

use crate::attrs::Attrs;
use crate::handles::Handle;
use crate::limits::{DATA_BYTES, FRAME_BYTES, HANDLES, NAME_REPLY_BYTES, VERSION};
use crate::refusal::Refusal;
use crate::request::CheckDialect;
use crate::status::Status;
use crate::table;
use crate::wire::{len_u32, put_string};

/// Bytes before the file's bytes in a DATA answer: length, type, id, length of the data.
pub const DATA_HEADER_BYTES: usize = 13;
/// Length, type and id.
const HEAD_BYTES: usize = 9;

/// A frame begun: the length is filled in by [`finish`].
fn begin(kind: u8, id: u32, capacity: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(HEAD_BYTES + capacity);
    frame.put_u32(0);
    frame.put_u8(kind);
    frame.put_u32(id);
    frame
}

fn finish(mut frame: BytesMut) -> Bytes {
    let length = len_u32(frame.len().saturating_sub(4));
    if let Some(head) = frame.first_chunk_mut::<4>() {
        *head = length.to_be_bytes();
    }
    frame.freeze()
}

/// VERSION 3 with the extensions of [`table::announced`] that `wanted` takes.
pub fn version(wanted: impl Fn(&str) -> bool) -> Bytes {
    let mut frame = BytesMut::with_capacity(512);
    frame.put_u32(0);
    frame.put_u8(table::VERSION);
    frame.put_u32(VERSION);
    for (name, data) in table::announced().filter(|(name, _)| wanted(name)) {
        put_string(&mut frame, name.as_bytes());
        put_string(&mut frame, data.as_bytes());
    }
    finish(frame)
}

/// STATUS with one sentence for a person (cut at 1 KiB) and an empty language tag.
pub fn status(id: u32, status: Status, message: &str) -> Bytes {
    let message = message.get(..message.floor_char_boundary(1024)).unwrap_or_default();
    let mut frame = begin(table::STATUS, id, 12 + message.len());
    frame.put_u32(status.code());
    put_string(&mut frame, message.as_bytes());
    put_string(&mut frame, b"");
    finish(frame)
}

/// STATUS for a packet that is refused.
pub fn refused(id: u32, refusal: Refusal) -> Bytes {
    status(id, refusal.status(), &refusal.to_string())
}

/// STATUS OK: what was asked is done.
pub fn ok(id: u32) -> Bytes {
    status(id, Status::Ok, "")
}

/// STATUS EOF: the file or the listing has ended.
pub fn eof(id: u32) -> Bytes {
    status(id, Status::Eof, "")
}

/// HANDLE, which answers OPEN and OPENDIR.
pub fn handle(id: u32, handle: Handle) -> Bytes {
    let mut frame = begin(table::HANDLE, id, 12);
    put_string(&mut frame, &handle.to_wire());
    finish(frame)
}

/// ATTRS, which answers the three kinds of STAT.
pub fn attrs(id: u32, attrs: &Attrs) -> Bytes {
    let mut frame = begin(table::ATTRS, id, attrs.encoded_len());
    attrs.put(&mut frame);
    finish(frame)
}

/// NAME with one name and empty attributes, as REALPATH, READLINK, `expand-path@openssh.com` and
/// `home-directory` want it.
pub fn one_name(id: u32, name: &str) -> Bytes {
    let mut names = Names::new(id, 16 + 2 * name.len());
    names.push_any(name, name, &Attrs::default());
    names.finish()
}

/// A NAME answer that is filled entry by entry.
#[derive(Debug)]
pub struct Names {
    frame: BytesMut,
    count: u32,
}

/// Bytes of a NAME answer before its first entry.
const NAMES_HEADER_BYTES: usize = HEAD_BYTES + 4;

impl Names {
    /// An answer without entries; `capacity` in bytes is a guess.
    pub fn new(id: u32, capacity: usize) -> Self {
        let mut frame = begin(table::NAME, id, 4 + capacity);
        frame.put_u32(0);
        Names { frame, count: 0 }
    }

    /// Adds an entry. `false`: it would make the answer longer than
    /// [`NAME_REPLY_BYTES`] and was not added; send what there is, begin the next answer with it.
    /// The first entry always goes in.
    pub fn push(&mut self, name: &str, long_name: &str, attrs: &Attrs) -> bool {
        let more = 8 + name.len() + long_name.len() + attrs.encoded_len();
        if self.count > 0 && self.frame.len() + more > NAME_REPLY_BYTES {
            return false;
        }
        self.push_any(name, long_name, attrs);
        true
    }

    fn push_any(&mut self, name: &str, long_name: &str, attrs: &Attrs) {
        put_string(&mut self.frame, name.as_bytes());
        put_string(&mut self.frame, long_name.as_bytes());
        attrs.put(&mut self.frame);
        self.count = self.count.saturating_add(1);
    }

    /// How many entries there are. None: answer EOF instead.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The frame, with the names that were added.
    pub fn finish(mut self) -> Bytes {
        let place = HEAD_BYTES..NAMES_HEADER_BYTES;
        if let Some(count) = self.frame.get_mut(place) {
            count.copy_from_slice(&self.count.to_be_bytes());
        }
        finish(self.frame)
    }
}

/// How many bytes to read for a READ of `len`.
pub fn data_len(len: u32) -> usize {
    usize::try_from(len.min(DATA_BYTES)).unwrap_or(0)
}

/// Makes DATA answers so that a file's bytes are read directly behind the header, and uses one
/// buffer again as long as whoever sent it has let go of it.
#[derive(Debug, Default)]
pub struct DataBuffer {
    kept: Option<Bytes>,
}

impl DataBuffer {
    /// A buffer of [`DATA_HEADER_BYTES`] + `len` bytes; read the file into what
    /// [`data_space`] gives, then [`DataBuffer::seal`] it.
    pub fn begin(&mut self, len: usize) -> BytesMut {
        let mut frame = match self.kept.take().map(Bytes::try_into_mut) {
            Some(Ok(frame)) => frame,
            _ => BytesMut::with_capacity(DATA_HEADER_BYTES + len),
        };
        frame.resize(DATA_HEADER_BYTES + len, 0);
        frame
    }

    /// The answer with the first `filled` bytes of the space; 0 only for a READ of length 0, for
    /// the end of a file is [`eof`].
    pub fn seal(&mut self, id: u32, frame: BytesMut, filled: usize) -> Bytes {
        let answer = seal_data(id, frame, filled);
        self.kept = Some(answer.clone());
        answer
    }

    /// Takes back a buffer that was begun and not needed.
    pub fn put_back(&mut self, frame: BytesMut) {
        self.kept = Some(frame.freeze());
    }

    /// Gives the buffer back to the system. Call when a file was closed or the session is idle.
    pub fn shrink(&mut self) {
        self.kept = None;
    }
}

/// The part of a DATA frame that takes the file's bytes.
pub fn data_space(frame: &mut BytesMut) -> &mut [u8] {
    frame.get_mut(DATA_HEADER_BYTES..).unwrap_or_default()
}

/// An empty DATA frame whose spare capacity takes `len` bytes of a file, for stores that append.
/// [`seal_data`] ends it.
pub fn data_frame(len: usize) -> BytesMut {
    let mut frame = BytesMut::with_capacity(DATA_HEADER_BYTES + len);
    frame.resize(DATA_HEADER_BYTES, 0);
    frame
}

/// Ends a DATA frame that holds `filled` bytes of a file behind its header.
pub fn seal_data(id: u32, mut frame: BytesMut, filled: usize) -> Bytes {
    frame.truncate(DATA_HEADER_BYTES + filled);
    let filled = frame.len().saturating_sub(DATA_HEADER_BYTES);
    if let Some(head) = frame.first_chunk_mut::<DATA_HEADER_BYTES>() {
        let mut head = head.as_mut_slice();
        head.put_u32(len_u32(filled + DATA_HEADER_BYTES - 4));
        head.put_u8(table::DATA);
        head.put_u32(id);
        head.put_u32(len_u32(filled));
    }
    frame.freeze()
}

/// The answer to `limits@openssh.com`.
pub fn limits(id: u32) -> Bytes {
    let mut frame = begin(table::EXTENDED_REPLY, id, 32);
    for limit in [FRAME_BYTES, data_len(DATA_BYTES), data_len(DATA_BYTES), HANDLES] {
        frame.put_u64(u64::try_from(limit).unwrap_or(u64::MAX));
    }
    finish(frame)
}

/// The answer to `statvfs@openssh.com` and `fstatvfs@openssh.com` (OpenSSH `PROTOCOL` §4.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statvfs {
    /// Bytes of a block; all counts of blocks are in this unit.
    pub block_bytes: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Free blocks; those this account may use.
    pub free_blocks: u64,
    /// Files in all.
    pub files: u64,
    /// Files that may still be made.
    pub free_files: u64,
    /// Nothing can be written here.
    pub read_only: bool,
}

/// Longest component, in the last field of the answer.
const NAME_MAX: u64 = 255;

impl Statvfs {
    /// The answer to `statvfs@openssh.com`.
    pub fn reply(&self, id: u32) -> Bytes {
        let mut frame = begin(table::EXTENDED_REPLY, id, 88);
        let flag = u64::from(self.read_only);
        for field in [
            self.block_bytes,
            self.block_bytes,
            self.blocks,
            self.free_blocks,
            self.free_blocks,
            self.files,
            self.free_files,
            self.free_files,
            0,
            flag,
            NAME_MAX,
        ] {
            frame.put_u64(field);
        }
        finish(frame)
    }
}

/// The answer to `users-groups-by-id@openssh.com`: a name for each id asked, empty if unknown.
pub fn users_groups<'a>(
    id: u32,
    users: impl Iterator<Item = &'a str>,
    groups: impl Iterator<Item = &'a str>,
) -> Bytes {
    let mut frame = begin(table::EXTENDED_REPLY, id, 64);
    put_names(&mut frame, users);
    put_names(&mut frame, groups);
    finish(frame)
}

/// A string that consists of strings.
fn put_names<'a>(frame: &mut BytesMut, names: impl Iterator<Item = &'a str>) {
    let start = frame.len();
    frame.put_u32(0);
    names.for_each(|name| put_string(frame, name.as_bytes()));
    let length = len_u32(frame.len().saturating_sub(start + 4));
    if let Some(head) = frame.get_mut(start..start + 4) {
        head.copy_from_slice(&length.to_be_bytes());
    }
}

/// What `check-file` found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hashes<'a> {
    /// The algorithm used.
    pub algorithm: &'a str,
    /// Bytes of one hash.
    pub hash_bytes: usize,
    /// The hashes of all blocks, one behind another.
    pub bytes: &'a [u8],
}

/// The answer to the `check-file` family.
pub fn check_file(id: u32, dialect: CheckDialect, hashes: &Hashes<'_>) -> Bytes {
    let mut frame = begin(table::EXTENDED_REPLY, id, 32 + hashes.bytes.len());
    if dialect != CheckDialect::Draft {
        put_string(&mut frame, b"check-file");
    }
    put_string(&mut frame, hashes.algorithm.as_bytes());
    if dialect == CheckDialect::ApacheSshd {
        let each = hashes.bytes.chunks(hashes.hash_bytes.max(1));
        each.for_each(|hash| put_string(&mut frame, hash));
    } else {
        frame.put_slice(hashes.bytes);
    }
    finish(frame)
}
