//! Operations of a client, the handles they use, and how they fail.

use bytes::Bytes;

use crate::limits::REQUESTS_WAITING;

/// An operation that was begun, by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Op(pub(super) u64);

/// A handle of the server: opaque bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteHandle(pub(crate) Bytes);

/// Why an operation failed; the connection goes on.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The server refused.
    #[error("the server answered status {code}: {message}")]
    Refused {
        /// Status on the wire; see [`crate::Status::from_code`].
        code: u32,
        /// What it said (UTF-8 made of it).
        message: String,
    },
    /// The file became shorter while it was read.
    #[error("the file changed while it was read")]
    Changed,
    /// [`super::Client::cancel`] was called.
    #[error("the operation was cancelled")]
    Cancelled,
}

impl OpError {
    /// True if the server answered this status.
    pub fn is(&self, status: crate::Status) -> bool {
        matches!(self, OpError::Refused { code, .. } if *code == status.code())
    }
}

/// Why an operation was not begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// Too many wait already: take events first.
    #[error("{REQUESTS_WAITING} requests are waiting already")]
    Full,
    /// The server did not announce the extension this needs.
    #[error("the server does not offer '{0}'")]
    NotOffered(&'static str),
}

/// The server broke the protocol: close the channel. All operations are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// A length of 0 or above [`crate::limits::FRAME_BYTES`].
    #[error("the server sent a frame of {0} bytes, allowed are 1 to 262144")]
    Length(u32),
    /// Not version 3.
    #[error("the server speaks SFTP version {0}, needed is 3")]
    Version(u32),
    /// Something came before VERSION, or VERSION came again.
    #[error("the server sent packet type {0} out of sequence")]
    Sequence(u8),
    /// A field runs past its frame or an attribute is unknown.
    #[error("the server sent a malformed packet of type {0}")]
    Malformed(u8),
    /// An answer to nothing we asked.
    #[error("the server answered request {0}, which was not asked")]
    Unasked(u32),
    /// The answer's type does not belong to the request.
    #[error("the server answered a request with packet type {0}")]
    WrongAnswer(u8),
    /// More bytes than asked, or none without an end of file.
    #[error("the server sent {got} bytes where {asked} were asked")]
    DataLength {
        /// Bytes asked for.
        asked: u32,
        /// Bytes that the server sent.
        got: usize,
    },
    /// Asked again after a fault.
    #[error("the connection has already failed")]
    Ended,
}
