//! What goes wrong in a measurement of SFTP.

use std::time::Duration;

use entrepot_net::NetError;
use entrepot_sftp_proto::client::{Fault, NotBegun, OpError};
use entrepot_ssh::SshError;

use crate::watch::WatchError;

/// Why a measurement failed.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server was not reached.
    #[error(transparent)]
    Net(#[from] NetError),
    /// Logging in or talking failed.
    #[error(transparent)]
    Ssh(#[from] SshError),
    /// The server refused a request.
    #[error("'{what}' failed: {error}")]
    Refused {
        /// What was asked.
        what: String,
        /// What it answered.
        error: OpError,
    },
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Protocol(#[from] Fault),
    /// Too much was asked at once.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// The connection ended in the middle.
    #[error("the server hung up")]
    HungUp,
    /// No answer came.
    #[error("the server did not answer within {0:?}")]
    Silent(Duration),
    /// A download has another length than the upload.
    #[error("{got} bytes came back of {sent}")]
    Length {
        /// Bytes of the file that was uploaded before.
        sent: u64,
        /// Bytes that the download brought.
        got: u64,
    },
    /// The server's CPU time cannot be read.
    #[error(transparent)]
    Watch(#[from] WatchError),
}
