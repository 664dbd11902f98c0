//! What goes wrong in a measurement of HTTPS.

use std::time::Duration;

use entrepot_net::NetError;
use hyper::StatusCode;

use crate::watch::WatchError;

/// Why a request failed, or the measurement.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The server was not reached: no address, refused, or not in time.
    #[error(transparent)]
    Net(#[from] NetError),
    /// A connection, or the TLS handshake on it, failed.
    #[error("the connection failed: {0}")]
    Io(#[from] std::io::Error),
    /// The server does not speak HTTP/2 with us.
    #[error("the server chose another protocol than HTTP/2 by ALPN")]
    NoHttp2,
    /// The exchange broke off.
    #[error("{0}{cause}", cause = cause(.0))]
    Http(#[from] hyper::Error),
    /// A request cannot be made of what was given.
    #[error("no request can be made of that: {0}")]
    Request(#[from] hyper::http::Error),
    /// The server refused, or has another error than those of the connection.
    #[error("{method} was answered with {status}")]
    Refused {
        /// The method of the request, or what it was for.
        method: String,
        /// The status of its answer.
        status: StatusCode,
    },
    /// An answer lacks what the protocol prescribes.
    #[error("the answer has no usable {0}")]
    Field(&'static str),
    /// A download has another length than the file, or an upload another offset than it should.
    #[error("{got} bytes came of {wanted}")]
    Length {
        /// Bytes of the file.
        wanted: u64,
        /// Bytes that came.
        got: u64,
    },
    /// It took longer than it may.
    #[error("not over within {0:?}")]
    Hung(Duration),
    /// The server's CPU time cannot be read.
    #[error(transparent)]
    Watch(#[from] WatchError),
}

/// What hyper keeps behind its own sentence.
fn cause(error: &hyper::Error) -> String {
    let source = std::error::Error::source(error);
    source.map(|source| format!(": {source}")).unwrap_or_default()
}
