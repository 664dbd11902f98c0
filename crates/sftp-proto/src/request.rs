//! What a client asks (draft-ietf-secsh-filexfer-02 §6, OpenSSH `PROTOCOL` §4).

use std::fmt;

use crate::attrs::Attrs;
use crate::handles::Handle;
use crate::limits::{COMPONENT_BYTES, IDS_PER_LOOKUP, PATH_BYTES};
use crate::refusal::{NameFlaw, Refusal};
use crate::wire::{Fields, Malformed};

/// How a file is opened (draft-ietf-secsh-filexfer-02 §6.3). Bits of later versions are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags(u32);

impl OpenFlags {
    /// READ is allowed.
    pub const READ: OpenFlags = OpenFlags(0x01);
    /// WRITE is allowed.
    pub const WRITE: OpenFlags = OpenFlags(0x02);
    /// Every WRITE goes to the end, whatever its offset says.
    pub const APPEND: OpenFlags = OpenFlags(0x04);
    /// Make the file if it is missing.
    pub const CREATE: OpenFlags = OpenFlags(0x08);
    /// Begin with an empty file.
    pub const TRUNCATE: OpenFlags = OpenFlags(0x10);
    /// Fail if the file exists.
    pub const EXCLUSIVE: OpenFlags = OpenFlags(0x20);

    /// The flags with these bits.
    pub fn from_bits(bits: u32) -> OpenFlags {
        OpenFlags(bits)
    }

    /// The bits as OPEN carries them.
    pub fn bits(self) -> u32 {
        self.0
    }

    /// True if all of `other` is set here.
    pub fn has(self, other: OpenFlags) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for OpenFlags {
    type Output = OpenFlags;
    fn bitor(self, other: OpenFlags) -> OpenFlags {
        OpenFlags(self.0 | other.0)
    }
}

impl fmt::Debug for OpenFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = [
            (OpenFlags::READ, "READ"),
            (OpenFlags::WRITE, "WRITE"),
            (OpenFlags::APPEND, "APPEND"),
            (OpenFlags::CREATE, "CREAT"),
            (OpenFlags::TRUNCATE, "TRUNC"),
            (OpenFlags::EXCLUSIVE, "EXCL"),
        ];
        let set: Vec<&str> =
            words.iter().filter(|(flag, _)| self.has(*flag)).map(|(_, word)| *word).collect();
        f.write_str(if set.is_empty() { "-" } else { "" })?;
        f.write_str(&set.join("|"))
    }
}

/// What `check-file` names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckTarget<'a> {
    /// A path (`check-file-name`).
    Path(&'a str),
    /// An open file (`check-file-handle`).
    Handle(Handle),
}

/// How the answer to `check-file` is made up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CheckDialect {
    /// With the algorithm (draft-ietf-secsh-filexfer-extensions-00 §3; WinSCP).
    Draft,
    /// With the word `check-file` before the algorithm (paramiko, which also asks for
    /// `check-file` with a handle).
    Paramiko,
    /// As [`CheckDialect::Paramiko`], and each hash is a string of its own (Apache SSHD).
    ApacheSshd,
}

/// Which path of a SYMLINK comes first. The draft (§6.10) says the link, OpenSSH's server took it
/// the other way round, and most clients followed; [`crate::software`] tells which did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SymlinkOrder {
    /// Target, then link.
    TargetFirst,
    /// Link, then target.
    LinkFirst,
}

/// A list of numeric ids as it lies on the wire.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Ids<'a>(&'a [u8]);

impl Ids<'_> {
    /// The ids in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        let (chunks, _) = self.0.as_chunks::<4>();
        chunks.iter().map(|bytes| u32::from_be_bytes(*bytes))
    }
}

impl fmt::Debug for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A request, checked: strings are UTF-8 without NUL and within the limits of a path; nothing is
/// resolved. An empty path is the login directory. Bytes behind the last field were ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request<'a> {
    /// OPEN (§6.3): answer HANDLE.
    Open { path: &'a str, flags: OpenFlags, attrs: Attrs },
    /// CLOSE (§6.3): answer STATUS; the handle is dead whatever it says.
    Close { handle: Handle },
    /// READ (§6.4): answer DATA or EOF; the whole `len` unless the file ends.
    Read { handle: Handle, offset: u64, len: u32 },
    /// WRITE (§6.4): answer STATUS. `data` is lent from the input where it lay whole there.
    Write { handle: Handle, offset: u64, data: &'a [u8] },
    /// LSTAT (§6.8): answer ATTRS.
    Lstat { path: &'a str },
    /// FSTAT (§6.8): answer ATTRS.
    Fstat { handle: Handle },
    /// SETSTAT (§6.9): answer STATUS.
    Setstat { path: &'a str, attrs: Attrs },
    /// FSETSTAT (§6.9): answer STATUS.
    Fsetstat { handle: Handle, attrs: Attrs },
    /// OPENDIR (§6.7): answer HANDLE.
    Opendir { path: &'a str },
    /// READDIR (§6.7): answer NAME, or EOF at the end and ever after.
    Readdir { handle: Handle },
    /// REMOVE (§6.5): files only; answer STATUS.
    Remove { path: &'a str },
    /// MKDIR (§6.6): answer STATUS.
    Mkdir { path: &'a str, attrs: Attrs },
    /// RMDIR (§6.6): answer STATUS.
    Rmdir { path: &'a str },
    /// REALPATH (§6.11): answer NAME with one name, even for one that is missing.
    Realpath { path: &'a str },
    /// STAT (§6.8): answer ATTRS.
    Stat { path: &'a str },
    /// RENAME (§6.5): fails if `to` exists; answer STATUS.
    Rename { from: &'a str, to: &'a str },
    /// READLINK (§6.10): answer NAME.
    Readlink { path: &'a str },
    /// SYMLINK (§6.10): which of the two is the target tells [`SymlinkOrder`].
    Symlink { first: &'a str, second: &'a str },
    /// `posix-rename@openssh.com`: replaces `to` atomically; answer STATUS.
    PosixRename { from: &'a str, to: &'a str },
    /// `limits@openssh.com`: answer EXTENDED_REPLY.
    Limits,
    /// `statvfs@openssh.com`: answer EXTENDED_REPLY.
    Statvfs { path: &'a str },
    /// `fstatvfs@openssh.com`: answer EXTENDED_REPLY.
    Fstatvfs { handle: Handle },
    /// `fsync@openssh.com`: answer STATUS.
    Fsync { handle: Handle },
    /// `hardlink@openssh.com`: answer STATUS.
    Hardlink { from: &'a str, to: &'a str },
    /// `lsetstat@openssh.com`: as SETSTAT without a size; answer STATUS.
    Lsetstat { path: &'a str, attrs: Attrs },
    /// `copy-data`: `len` 0 means to the end; answer STATUS.
    CopyData { from: Handle, offset: u64, len: u64, to: Handle, to_offset: u64 },
    /// `expand-path@openssh.com`: as REALPATH with a leading `~`; answer NAME.
    ExpandPath { path: &'a str },
    /// `home-directory`: answer NAME. Empty: the user who asks.
    HomeDirectory { user: &'a str },
    /// `users-groups-by-id@openssh.com`: answer EXTENDED_REPLY.
    UsersGroupsById { uids: Ids<'a>, gids: Ids<'a> },
    /// `check-file-name`, `check-file-handle`, `check-file`: `len` 0 means to the end, `block` 0
    /// one hash of all; answer EXTENDED_REPLY. `algorithms` is a list with commas, best first.
    CheckFile {
        target: CheckTarget<'a>,
        algorithms: &'a str,
        offset: u64,
        len: u64,
        block: u32,
        dialect: CheckDialect,
    },
}

impl Request<'_> {
    /// Its name as rules, events and logs have it: that of the packet in small letters, or of the
    /// extension without what follows the `@`.
    pub fn name(&self) -> &'static str {
        match self {
            Request::Open { .. } => "open",
            Request::Close { .. } => "close",
            Request::Read { .. } => "read",
            Request::Write { .. } => "write",
            Request::Lstat { .. } => "lstat",
            Request::Fstat { .. } => "fstat",
            Request::Setstat { .. } => "setstat",
            Request::Fsetstat { .. } => "fsetstat",
            Request::Opendir { .. } => "opendir",
            Request::Readdir { .. } => "readdir",
            Request::Remove { .. } => "remove",
            Request::Mkdir { .. } => "mkdir",
            Request::Rmdir { .. } => "rmdir",
            Request::Realpath { .. } => "realpath",
            Request::Stat { .. } => "stat",
            Request::Rename { .. } => "rename",
            Request::Readlink { .. } => "readlink",
            Request::Symlink { .. } => "symlink",
            Request::PosixRename { .. } => "posix-rename",
            Request::Limits => "limits",
            Request::Statvfs { .. } => "statvfs",
            Request::Fstatvfs { .. } => "fstatvfs",
            Request::Fsync { .. } => "fsync",
            Request::Hardlink { .. } => "hardlink",
            Request::Lsetstat { .. } => "lsetstat",
            Request::CopyData { .. } => "copy-data",
            Request::ExpandPath { .. } => "expand-path",
            Request::HomeDirectory { .. } => "home-directory",
            Request::UsersGroupsById { .. } => "users-groups-by-id",
            Request::CheckFile { .. } => "check-file",
        }
    }
}

/// Why the fields of a packet made no request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Whose end is answered with BAD_MESSAGE and the end of the channel.
    Malformed,
    /// Answered; the channel goes on.
    Refused(Refusal),
}

impl From<Malformed> for Flaw {
    fn from(_: Malformed) -> Flaw {
        Flaw::Malformed
    }
}

pub(crate) type Parsed<'a> = Result<Request<'a>, Flaw>;

fn path<'a>(fields: &mut Fields<'a>) -> Result<&'a str, Flaw> {
    checked_path(fields.string()?).map_err(|why| Flaw::Refused(Refusal::Name(why)))
}

/// Two strings; both are read before either is judged, or a bad first name would look malformed.
fn two_paths<'a>(fields: &mut Fields<'a>) -> Result<(&'a str, &'a str), Flaw> {
    let (first, second) = (fields.string()?, fields.string()?);
    let check = |bytes| checked_path(bytes).map_err(|why| Flaw::Refused(Refusal::Name(why)));
    Ok((check(first)?, check(second)?))
}

fn checked_path(bytes: &[u8]) -> Result<&str, NameFlaw> {
    let text = std::str::from_utf8(bytes).map_err(|_| NameFlaw::NotUtf8)?;
    if text.contains('\0') {
        return Err(NameFlaw::Nul);
    }
    if text.len() > PATH_BYTES {
        return Err(NameFlaw::PathTooLong);
    }
    if text.split('/').any(|part| part.len() > COMPONENT_BYTES) {
        return Err(NameFlaw::ComponentTooLong);
    }
    Ok(text)
}

fn handle(fields: &mut Fields<'_>) -> Result<Handle, Flaw> {
    Ok(Handle::from_wire(fields.string()?))
}

fn path_and_attrs<'a>(fields: &mut Fields<'a>) -> Result<(&'a str, Attrs), Flaw> {
    let (bytes, attrs) = (fields.string()?, Attrs::parse(fields)?);
    let path = checked_path(bytes).map_err(|why| Flaw::Refused(Refusal::Name(why)))?;
    Ok((path, attrs))
}

pub(crate) fn open<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    let (name, flags) = (fields.string()?, OpenFlags(fields.u32()?));
    let attrs = Attrs::parse(fields)?;
    let path = checked_path(name).map_err(|why| Flaw::Refused(Refusal::Name(why)))?;
    Ok(Request::Open { path, flags, attrs })
}

pub(crate) fn close<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Close { handle: handle(fields)? })
}

pub(crate) fn read<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Read { handle: handle(fields)?, offset: fields.u64()?, len: fields.u32()? })
}

pub(crate) fn write<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Write { handle: handle(fields)?, offset: fields.u64()?, data: fields.string()? })
}

pub(crate) fn lstat<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Lstat { path: path(fields)? })
}

pub(crate) fn fstat<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Fstat { handle: handle(fields)? })
}

pub(crate) fn setstat<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    path_and_attrs(fields).map(|(path, attrs)| Request::Setstat { path, attrs })
}

pub(crate) fn fsetstat<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Fsetstat { handle: handle(fields)?, attrs: Attrs::parse(fields)? })
}

pub(crate) fn opendir<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Opendir { path: path(fields)? })
}

pub(crate) fn readdir<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Readdir { handle: handle(fields)? })
}

pub(crate) fn remove<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Remove { path: path(fields)? })
}

pub(crate) fn mkdir<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    path_and_attrs(fields).map(|(path, attrs)| Request::Mkdir { path, attrs })
}

pub(crate) fn rmdir<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Rmdir { path: path(fields)? })
}

pub(crate) fn realpath<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Realpath { path: path(fields)? })
}

pub(crate) fn stat<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Stat { path: path(fields)? })
}

pub(crate) fn rename<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    two_paths(fields).map(|(from, to)| Request::Rename { from, to })
}

pub(crate) fn readlink<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Readlink { path: path(fields)? })
}

pub(crate) fn symlink<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    two_paths(fields).map(|(first, second)| Request::Symlink { first, second })
}

pub(crate) fn posix_rename<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    two_paths(fields).map(|(from, to)| Request::PosixRename { from, to })
}

pub(crate) fn limits<'a>(_: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Limits)
}

pub(crate) fn statvfs<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Statvfs { path: path(fields)? })
}

pub(crate) fn fstatvfs<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Fstatvfs { handle: handle(fields)? })
}

pub(crate) fn fsync<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::Fsync { handle: handle(fields)? })
}

pub(crate) fn hardlink<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    two_paths(fields).map(|(from, to)| Request::Hardlink { from, to })
}

pub(crate) fn lsetstat<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    let (path, attrs) = path_and_attrs(fields)?;
    if attrs.size.is_some() {
        return Err(Flaw::Refused(Refusal::SizeOfLink));
    }
    Ok(Request::Lsetstat { path, attrs })
}

pub(crate) fn copy_data<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::CopyData {
        from: handle(fields)?,
        offset: fields.u64()?,
        len: fields.u64()?,
        to: handle(fields)?,
        to_offset: fields.u64()?,
    })
}

pub(crate) fn expand_path<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::ExpandPath { path: path(fields)? })
}

pub(crate) fn home_directory<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    Ok(Request::HomeDirectory { user: path(fields)? })
}

pub(crate) fn users_groups_by_id<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    let (uids, gids) = (fields.string()?, fields.string()?);
    if uids.len() % 4 != 0 || gids.len() % 4 != 0 {
        return Err(Flaw::Malformed);
    }
    if uids.len().max(gids.len()) / 4 > IDS_PER_LOOKUP {
        return Err(Flaw::Refused(Refusal::TooManyIds));
    }
    Ok(Request::UsersGroupsById { uids: Ids(uids), gids: Ids(gids) })
}

pub(crate) fn check_file_name<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    let name = fields.string()?;
    check_file(fields, CheckDialect::Draft, || checked_path(name).map(CheckTarget::Path))
}

pub(crate) fn check_file_handle<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    let handle = handle(fields)?;
    check_file(fields, CheckDialect::Draft, || Ok(CheckTarget::Handle(handle)))
}

pub(crate) fn check_file_paramiko<'a>(fields: &mut Fields<'a>) -> Parsed<'a> {
    let handle = handle(fields)?;
    check_file(fields, CheckDialect::Paramiko, || Ok(CheckTarget::Handle(handle)))
}

fn check_file<'a>(
    fields: &mut Fields<'a>,
    dialect: CheckDialect,
    target: impl FnOnce() -> Result<CheckTarget<'a>, NameFlaw>,
) -> Parsed<'a> {
    let algorithms = fields.string()?;
    let (offset, len, block) = (fields.u64()?, fields.u64()?, fields.u32()?);
    let target = target().map_err(|why| Flaw::Refused(Refusal::Name(why)))?;
    let algorithms = std::str::from_utf8(algorithms).map_err(|_| Flaw::Malformed)?;
    if block != 0 && block < crate::limits::CHECK_FILE_BLOCK_BYTES {
        return Err(Flaw::Refused(Refusal::SmallBlock));
    }
    Ok(Request::CheckFile { target, algorithms, offset, len, block, dialect })
}
