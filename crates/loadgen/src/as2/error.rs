//! What goes wrong in a measurement of AS2.

use entrepot_as2_proto::SendError;

use crate::https::BenchError;
use crate::limits::AS2_MESSAGE_BYTES;
use crate::watch::WatchError;

/// Why there is no measurement.
#[derive(Debug, thiserror::Error)]
pub enum As2BenchError {
    /// Of the connection: the host is no name.
    #[error(transparent)]
    Bench(#[from] BenchError),
    /// The server's CPU time cannot be read.
    #[error(transparent)]
    Watch(#[from] WatchError),
    /// No message can be made of what was given.
    #[error("no message can be made: {0}")]
    Send(#[from] SendError),
    /// The message is held in memory, and would be too large for that.
    #[error("a message has at most {AS2_MESSAGE_BYTES} bytes here")]
    TooLarge,
    /// The saved message has no header that can be read.
    #[error("the saved message has no header that can be read: its lines, an empty line, the body")]
    NoHeader,
    /// The saved header is not one of AS2.
    #[error("the saved message is none of AS2: {0}")]
    NotAs2(#[from] entrepot_as2_proto::HeaderError),
    /// A field of the header cannot be sent.
    #[error("the field '{0}' cannot be sent")]
    Field(String),
    /// Nobody could check what comes.
    #[error("signed receipts are asked for, so the certificate that signs them is needed")]
    NoTrust,
}
