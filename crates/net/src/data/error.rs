//! Why there is no data connection.

use std::io;
use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

use super::range::PortRange;
use crate::tls::HandshakeError;

/// Why there is no data connection. FTP answers 425 to all but [`DataError::Forbidden`] (its own
/// code by verb) and [`DataError::Tls`] (522).
#[derive(Debug, Error)]
pub enum DataError {
    /// Every port of the range is leased by this client or used by another program.
    #[error(
        "no data port of {range} is free on '{local}': widen 'data_ports', or lower the sessions \
         of one client"
    )]
    NoPort {
        /// The local address.
        local: IpAddr,
        /// The ports that the listener may use for data connections.
        range: PortRange,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on '{local}' for data connections: {error}")]
    Listen {
        /// The local address.
        local: IpAddr,
        /// What the system says.
        error: io::Error,
    },
    /// No PASV, EPSV, PORT or EPRT came before, or its time is over.
    #[error("no data connection is expected: send PASV, EPSV, PORT or EPRT first")]
    NotExpected,
    /// The client did not connect in time.
    #[error("no data connection came in time: look at firewalls between the client and the ports")]
    Timeout,
    /// The address is not one that we dial.
    #[error("'{0}' is not an address that data connections go to: {1}")]
    Forbidden(SocketAddr, &'static str),
    /// The client cannot be reached.
    #[error("cannot connect to '{peer}': {error}")]
    Connect {
        /// The address that the client named by PORT or EPRT.
        peer: SocketAddr,
        /// What the system says.
        error: io::Error,
    },
    /// Nobody who connected could get into TLS as this session.
    #[error(transparent)]
    Tls(#[from] HandshakeError),
}

impl DataError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            DataError::NoPort { .. } => "EP0250",
            DataError::Listen { .. } => "EP0251",
            DataError::NotExpected => "EP0252",
            DataError::Timeout => "EP0253",
            DataError::Forbidden(..) => "EP0254",
            DataError::Connect { .. } => "EP0255",
            DataError::Tls(error) => error.code(),
        }
    }
}
