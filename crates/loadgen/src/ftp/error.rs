//! What goes wrong in a measurement of FTP.

use std::time::Duration;

use entrepot_ftp_proto::client::{Fault, NotBegun, OpError};
use entrepot_net::NetError;

use crate::watch::WatchError;

/// Why an operation failed, or the measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server was not reached: no address, refused, or not in time.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A connection, or the TLS handshake on it, failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The server refused.
    #[error(transparent)]
    Refused(#[from] OpError),
    /// The server broke the protocol, or closed with 421.
    #[error(transparent)]
    Fault(#[from] Fault),
    /// An operation cannot begin.
    #[error(transparent)]
    NotBegun(#[from] NotBegun),
    /// The control connection ended in the middle.
    #[error("the server hung up")]
    HungUp,
    /// A download has another length than the file.
    #[error("{got} bytes came of {wanted}")]
    Length {
        /// Bytes of the file.
        wanted: u64,
        /// Bytes that came.
        got: u64,
    },
    /// Not over in time.
    #[error("not over within {0:?}")]
    Hung(Duration),
    /// The server's CPU time cannot be read.
    #[error(transparent)]
    Watch(#[from] WatchError),
}
