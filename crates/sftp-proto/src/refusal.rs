//! Why a packet is refused while the channel goes on.

use crate::status::Status;

/// Why a packet is refused while the channel goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// A name we do not take.
    #[error(transparent)]
    Name(#[from] NameFlaw),
    /// A packet type the draft does not know.
    #[error("this server does not know packet type {0}: use SFTP version 3")]
    UnknownPacket(u8),
    /// An extension we do not serve.
    #[error("this server does not know that extension: use those named in VERSION")]
    UnknownExtension,
    /// `lsetstat@openssh.com` with a size.
    #[error("a symbolic link has no size to set: leave it out")]
    SizeOfLink,
    /// `check-file` with a block of 1 to 255 bytes.
    #[error("the block is shorter than 256 bytes: ask for longer ones, or 0 for the whole file")]
    SmallBlock,
    /// `users-groups-by-id@openssh.com` with more than 1,024 ids of a kind.
    #[error("more than 1024 ids in one request: ask in several")]
    TooManyIds,
}

impl Refusal {
    /// The status to answer with.
    pub fn status(self) -> Status {
        match self {
            Refusal::UnknownPacket(_) | Refusal::UnknownExtension => Status::OpUnsupported,
            Refusal::Name(_) | Refusal::SizeOfLink => Status::BadMessage,
            Refusal::SmallBlock | Refusal::TooManyIds => Status::Failure,
        }
    }
}

/// Why bytes are no name we take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NameFlaw {
    /// Bytes that are not UTF-8: paths are text here.
    #[error("the name is not valid UTF-8: set the client's file name encoding to UTF-8")]
    NotUtf8,
    /// Holds a NUL byte.
    #[error("the name holds a NUL byte: choose another")]
    Nul,
    /// Longer than [`crate::limits::PATH_BYTES`].
    #[error("the path is longer than 4096 bytes: shorten it")]
    PathTooLong,
    /// A component longer than [`crate::limits::COMPONENT_BYTES`].
    #[error("a part of the name is longer than 255 bytes: shorten it")]
    ComponentTooLong,
}
