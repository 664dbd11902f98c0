//! What a session can be told when something does not work.

use entrepot_journal::JournalError;
use entrepot_storage::StoreError;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, VfsError>;

/// Why an operation was refused or failed. The variants are what a protocol must tell apart; the
/// text is for the peer: a sentence that says what to do and names nothing of the inside.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum VfsError {
    /// Nothing has that name.
    #[error("there is no such file or directory")]
    NotFound,
    /// The account lacks a right.
    #[error("this account may not {what} here; ask the administrator for the right")]
    Denied {
        /// What was to be done, such as `replace files`.
        what: String,
    },
    /// The name is taken.
    #[error("the name is taken; choose another one, or remove what has it")]
    Exists,
    /// The directory has entries.
    #[error("the directory is not empty; remove what is in it first")]
    NotEmpty,
    /// A file was needed.
    #[error("this is a directory; name a file")]
    IsDirectory,
    /// A directory was needed.
    #[error("this is not a directory; name a directory")]
    NotDirectory,
    /// Old and new name lie in different mounts.
    #[error("the new name lies in another mount; copy the file, then remove the old one")]
    OtherMount,
    /// The storage is full.
    #[error("the storage is full; nothing was kept, try again when there is room")]
    NoSpace,
    /// A limit of the mount would be exceeded.
    #[error("the limit of {limit} {what} would be exceeded; remove files or ask for more room")]
    Quota {
        /// `bytes`, `files`, `bytes a file` or `bytes that nobody wrote`.
        what: &'static str,
        /// Bytes or files that are allowed.
        limit: u64,
    },
    /// It may work later.
    #[error("{why}; try again later")]
    Busy {
        /// Why, in words for the peer.
        why: String,
    },
    /// The share of the account of what the node has is used up, or the node is full.
    #[error("too many {what} of this account are open at a time; close some, or try again later")]
    TooMany {
        /// `files`, `sessions` or `unfinished uploads`.
        what: &'static str,
    },
    /// The journal is full.
    #[error("the server has no room to record what is done now; try again later")]
    NoRecord,
    /// The file was changed by someone else meanwhile.
    #[error("the file was changed by someone else meanwhile; nothing was replaced, send it again")]
    Conflict,
    /// The client went away before it was certain that the upload was whole.
    #[error("the client hung up at the end of its upload; what came is kept, resume it")]
    Gone,
    /// The upload has ended, or an earlier write of it was refused.
    #[error("this upload was refused or has ended; begin a new one")]
    BadHandle,
    /// The storage cannot do it.
    #[error("the storage behind this path cannot do it; write each file once, in order")]
    Unsupported,
    /// More links than may be lead on from one another.
    #[error("too many links follow one another here, or lead round in a circle; remove one")]
    LinkLoop,
    /// A link leads out of its mount.
    #[error("a link may only lead to what lies in the same place of storage; name a target there")]
    LinkOutside,
    /// A link was needed.
    #[error("this is not a symbolic link; read it as what it is")]
    NotLink,
    /// Fewer or more bytes came than were announced.
    #[error("{size} bytes came and {expected} were announced; send the file again")]
    Incomplete {
        /// Bytes that came.
        size: u64,
        /// Bytes that were announced.
        expected: u64,
    },
    /// An append that does not begin where the upload stands.
    #[error("the upload stands at byte {offset}; go on from there")]
    OffsetMismatch {
        /// Bytes that are there.
        offset: u64,
    },
    /// Somebody else writes to the upload now.
    #[error("another request writes to this upload now; try again when it has ended")]
    UploadInUse,
    /// The upload lies on another node.
    #[error("this upload belongs to the node '{node}'; send its requests there")]
    OtherNode {
        /// The node that has the upload.
        node: String,
    },
    /// What came is not what was announced.
    #[error("{what} is not the one that was announced; send it again")]
    DigestMismatch {
        /// Which digest it is, such as `the BLAKE3 digest of the file`.
        what: &'static str,
    },
    /// The number or the bytes of a part do not fit the upload.
    #[error("{why}")]
    BadPart {
        /// Why, in words for the peer.
        why: String,
    },
    /// A file that an archive was to have is not as it was listed.
    #[error("'{path}' was changed or removed while the archive was sent; fetch the archive again")]
    Changed {
        /// Which file it is, as the session sees it.
        path: String,
    },
    /// A folder has too many entries for one request.
    #[error("one request may have {limit} entries of a folder; take the folders in it one by one")]
    TooManyEntries {
        /// Most files and directories of an archive, or directories of a copy.
        limit: u64,
    },
    /// The storage or the journal failed.
    #[error("the storage failed and nothing was changed; try again, and tell the administrator")]
    Io {
        /// What happened, for the log and the events; never for the peer.
        problem: String,
    },
    /// The session was ended.
    #[error("this session has ended: {reason}")]
    Ended {
        /// The reason that the session ended, in words for the peer.
        reason: String,
    },
}

impl VfsError {
    /// The code of its page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            VfsError::NotFound => "EP0401",
            VfsError::Denied { .. } => "EP0402",
            VfsError::Exists => "EP0403",
            VfsError::NotEmpty => "EP0404",
            VfsError::IsDirectory => "EP0405",
            VfsError::NotDirectory => "EP0406",
            VfsError::OtherMount => "EP0407",
            VfsError::NoSpace => "EP0408",
            VfsError::Quota { .. } => "EP0409",
            VfsError::Busy { .. } => "EP0410",
            VfsError::Conflict => "EP0411",
            VfsError::BadHandle => "EP0412",
            VfsError::Unsupported => "EP0413",
            VfsError::Io { .. } => "EP0414",
            VfsError::Ended { .. } => "EP0415",
            VfsError::Incomplete { .. } => "EP0416",
            VfsError::LinkLoop => "EP0418",
            VfsError::LinkOutside => "EP0419",
            VfsError::NotLink => "EP0420",
            VfsError::Gone => "EP0421",
            VfsError::NoRecord => "EP0422",
            VfsError::TooMany { .. } => "EP0530",
            VfsError::OffsetMismatch { .. } => "EP1080",
            VfsError::UploadInUse => "EP1081",
            VfsError::OtherNode { .. } => "EP1082",
            VfsError::DigestMismatch { .. } => "EP1083",
            VfsError::BadPart { .. } => "EP1084",
            VfsError::Changed { .. } => "EP1085",
            VfsError::TooManyEntries { .. } => "EP1086",
        }
    }

    /// True if the same call may succeed later without anybody changing anything.
    pub fn is_temporary(&self) -> bool {
        use VfsError::{Busy, NoRecord, NoSpace, TooMany, UploadInUse};
        matches!(self, Busy { .. } | NoRecord | NoSpace | TooMany { .. } | UploadInUse)
    }

    pub(crate) fn denied(what: &str) -> Self {
        VfsError::Denied { what: what.to_owned() }
    }

    pub(crate) fn busy(why: &str) -> Self {
        VfsError::Busy { why: why.to_owned() }
    }
}

impl From<StoreError> for VfsError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::NotFound => VfsError::NotFound,
            StoreError::Exists => VfsError::Exists,
            StoreError::NotEmpty => VfsError::NotEmpty,
            StoreError::IsDirectory => VfsError::IsDirectory,
            StoreError::NotDirectory => VfsError::NotDirectory,
            StoreError::NoSpace => VfsError::NoSpace,
            StoreError::Denied(_) => VfsError::denied("do this"),
            StoreError::Unsupported(what) => {
                tracing::info!(what, "a store cannot do what was asked for");
                VfsError::Unsupported
            }
            StoreError::Unavailable(problem) => {
                tracing::warn!(%problem, "a store is not available");
                VfsError::busy("the storage is not available now")
            }
            StoreError::NoPlace(problem) => {
                tracing::info!(%problem, "no place at a server is free");
                VfsError::busy("no connection to the storage behind this path is free")
            }
            StoreError::NoMemory => VfsError::busy("too much of this account waits in memory"),
            StoreError::Io(problem) => VfsError::Io { problem },
            StoreError::Escape => VfsError::denied("leave its folder"),
        }
    }
}

impl From<JournalError> for VfsError {
    fn from(error: JournalError) -> Self {
        tracing::warn!(code = error.code(), %error, "the journal refused a record");
        match error {
            JournalError::Full { .. } => VfsError::NoRecord,
            _ => VfsError::busy("the server cannot record what is done now"),
        }
    }
}

impl From<entrepot_nouns::path::PathError> for VfsError {
    fn from(_: entrepot_nouns::path::PathError) -> Self {
        VfsError::denied("use so long a path")
    }
}

/// Why a [`crate::Service`] did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The journal cannot be read or written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The database cannot be read.
    #[error(transparent)]
    Db(#[from] entrepot_db::DbError),
    /// A record of ours in the journal has a form this version does not know.
    #[error(
        "record {sequence} of the journal has an unknown form; start the newer version that \
             wrote it"
    )]
    Form {
        /// Sequence of the record in the journal.
        sequence: u64,
    },
}

impl StartError {
    /// The code of its page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            StartError::Journal(error) => error.code(),
            StartError::Db(error) => error.code(),
            StartError::Form { .. } => "EP0417",
        }
    }
}
