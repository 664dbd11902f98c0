//! What is asked under an id, and what the answer may be.

use bytes::Bytes;

use super::op::{Op, OpError, RemoteHandle};
use crate::attrs::Attrs;
use crate::limits::HANDLE_BYTES;
use crate::status::Status;
use crate::table;
use crate::wire::{Fields, Malformed};

/// What an operation brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Done,
    /// A file is open.
    Handle(RemoteHandle),
    /// Attributes, as far as the server sent them.
    Attrs(Attrs),
    /// The first name of a NAME answer.
    Name(Vec<u8>),
    /// Room of a file system.
    Space(RemoteSpace),
    /// Algorithm and hash of `check-file`.
    Hash {
        /// Name of the algorithm.
        algorithm: Vec<u8>,
        /// The raw hash.
        hash: Vec<u8>,
    },
    /// So many bytes were read or written.
    Transferred {
        /// How many, without those that the server refused.
        bytes: u64,
    },
}

/// The answer to `statvfs@openssh.com`, what we use of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteSpace {
    /// Bytes, used and free.
    pub total_bytes: u64,
    /// Bytes this account may still use.
    pub free_bytes: u64,
    /// Files that there are and that can be made.
    pub total_files: u64,
    /// Files this account may still make.
    pub free_files: u64,
}

/// The kind of answer a single request waits for, apart from STATUS with an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Status,
    Handle,
    Attrs,
    Name,
    Space,
    Hash,
}

/// What waits under an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pending {
    /// The machine's own `limits@openssh.com`.
    Limits,
    /// An operation of one request.
    One {
        op: Op,
        want: Want,
    },
    Opendir {
        op: Op,
    },
    Readdir {
        op: Op,
    },
    Closedir {
        op: Op,
    },
    Read {
        op: Op,
        offset: u64,
        len: u32,
    },
    Write {
        op: Op,
        len: u32,
    },
}

impl Pending {
    /// Data bytes this request counts in flight.
    pub(super) fn bytes(self) -> u64 {
        match self {
            Pending::Read { len, .. } | Pending::Write { len, .. } => u64::from(len),
            _ => 0,
        }
    }
}

/// Why an answer could not be taken.
pub(super) enum Amiss {
    Malformed,
    WrongKind,
}

impl From<Malformed> for Amiss {
    fn from(_: Malformed) -> Amiss {
        Amiss::Malformed
    }
}

/// `Ok(Ok)`: STATUS OK.
pub(super) fn status(fields: &mut Fields<'_>) -> Result<Result<(), OpError>, Malformed> {
    let code = fields.u32()?;
    // Some servers leave message and language out.
    let message = fields.string().unwrap_or_default();
    if code == Status::Ok.code() {
        return Ok(Ok(()));
    }
    let message = String::from_utf8_lossy(message).into_owned();
    Ok(Err(OpError::Refused { code, message }))
}

pub(super) fn handle(fields: &mut Fields<'_>) -> Result<RemoteHandle, Malformed> {
    let bytes = fields.string()?;
    if bytes.len() > HANDLE_BYTES {
        return Err(Malformed);
    }
    Ok(RemoteHandle(Bytes::copy_from_slice(bytes)))
}

/// The answer to a single request.
pub(super) fn one(
    kind: u8,
    want: Want,
    fields: &mut Fields<'_>,
) -> Result<Result<Answer, OpError>, Amiss> {
    if kind == table::STATUS {
        return match (status(fields)?, want) {
            (Ok(()), Want::Status) => Ok(Ok(Answer::Done)),
            (Ok(()), _) => Err(Amiss::WrongKind),
            (Err(refused), _) => Ok(Err(refused)),
        };
    }
    let answer = match (kind, want) {
        (table::HANDLE, Want::Handle) => Answer::Handle(handle(fields)?),
        (table::ATTRS, Want::Attrs) => Answer::Attrs(Attrs::parse(fields)?),
        (table::NAME, Want::Name) => match fields.u32()? {
            0 => return Err(Amiss::Malformed),
            _ => Answer::Name(fields.string()?.to_vec()),
        },
        (table::EXTENDED_REPLY, Want::Space) => Answer::Space(space(fields)?),
        (table::EXTENDED_REPLY, Want::Hash) => {
            let algorithm = fields.string()?.to_vec();
            Answer::Hash { algorithm, hash: fields.rest().to_vec() }
        }
        _ => return Err(Amiss::WrongKind),
    };
    Ok(Ok(answer))
}

fn space(fields: &mut Fields<'_>) -> Result<RemoteSpace, Malformed> {
    let (_block, fragment, blocks) = (fields.u64()?, fields.u64()?, fields.u64()?);
    let (_free, available) = (fields.u64()?, fields.u64()?);
    let (total_files, _free_files, free_files) = (fields.u64()?, fields.u64()?, fields.u64()?);
    Ok(RemoteSpace {
        total_bytes: blocks.saturating_mul(fragment),
        free_bytes: available.saturating_mul(fragment),
        total_files,
        free_files,
    })
}

/// What `limits@openssh.com` says of lengths: READ and WRITE; 0 is no statement.
pub(super) fn limits(fields: &mut Fields<'_>) -> Result<(u64, u64, u64), Malformed> {
    Ok((fields.u64()?, fields.u64()?, fields.u64()?))
}
