//! Why a request of SFTP is answered with an error, and with which.

use bytes::Bytes;
use entrepot_nouns::path::PathError;
use entrepot_sftp_proto::Status;
use entrepot_sftp_proto::reply;
use entrepot_vfs::{CommandRefusal, VfsError};
use thiserror::Error;

use crate::status;

/// Why a request is answered with an error.
#[derive(Debug, Error)]
pub(crate) enum Problem {
    #[error(transparent)]
    Vfs(#[from] VfsError),
    #[error(transparent)]
    Name(#[from] PathError),
    #[error("the handle is not open; open the file again")]
    Handle,
    #[error("1024 files and listings are open; close some first")]
    TooManyHandles,
    #[error("this server does not serve that request")]
    NotServed,
    #[error("a symbolic link has neither times nor mode of its own; set those of its target")]
    LinkAttributes,
    #[error("there is no such user; ask for your own")]
    User,
    #[error("the list has ended")]
    EndOfList,
    #[error("none of these is computed; ask for sha256, sha384, sha512, sha1, md5 or crc32")]
    Algorithms,
    #[error("these are too many hashes for one answer; ask for longer blocks")]
    TooManyBlocks,
    #[error("source and target are the same file; copy to another name")]
    SameFile,
    /// A rule refused it.
    #[error(transparent)]
    Ruled(#[from] CommandRefusal),
}

impl Problem {
    pub(crate) fn answer(&self, id: u32) -> Bytes {
        match self {
            Problem::EndOfList => reply::eof(id),
            other => reply::status(id, other.status(), &other.to_string()),
        }
    }

    pub(crate) fn status(&self) -> Status {
        match self {
            Problem::Vfs(error) => status::status(error),
            Problem::Name(_) => Status::BadMessage,
            Problem::NotServed | Problem::LinkAttributes => Status::OpUnsupported,
            Problem::EndOfList => Status::Eof,
            Problem::Ruled(refused) => status::status_of_rule(refused),
            Problem::Handle
            | Problem::TooManyHandles
            | Problem::User
            | Problem::Algorithms
            | Problem::TooManyBlocks
            | Problem::SameFile => Status::Failure,
        }
    }

    /// The sentence for OpenSSH's standard error.
    pub(crate) fn sentence(&self) -> Option<String> {
        match self {
            Problem::Vfs(error) if !status::is_told(error) => None,
            Problem::Vfs(_) | Problem::TooManyHandles | Problem::Ruled(_) => Some(self.to_string()),
            _ => None,
        }
    }
}
