//! What can go wrong before two machines speak with each other, and whose fault it is.

use std::net::{IpAddr, SocketAddr};

use thiserror::Error;

/// An error of this crate. [`NetError::code`] names its page in `docs/errors`.
#[derive(Debug, Error)]
pub enum NetError {
    /// Another process listens there.
    #[error("'{0}' is in use: stop the other program or choose another port")]
    PortBusy(SocketAddr),
    /// The operating system forbids it.
    #[error("may not listen on '{0}': choose a port from 1024 on or grant CAP_NET_BIND_SERVICE")]
    PortForbidden(SocketAddr),
    /// No interface has the address.
    #[error("no interface has the address of '{0}': use one of this machine's, or 0.0.0.0")]
    AddressMissing(SocketAddr),
    /// Any other failure to listen.
    #[error("cannot listen on '{address}': {error}")]
    Listen {
        /// The address and port of the listener, as configured.
        address: SocketAddr,
        /// What the system says.
        error: std::io::Error,
    },
    /// The name is not known.
    #[error("cannot resolve '{host}': check the name and the resolver ({reason})")]
    Resolve {
        /// The name that was to be resolved, without a port.
        host: String,
        /// What the resolver says.
        reason: String,
    },
    /// The name leads to a private address and the endpoint does not allow that.
    #[error(
        "'{host}' leads to the private address '{address}': set 'allow_private' on the endpoint \
         if that is meant"
    )]
    PrivateAddress {
        /// The name as configured, without a port; it may itself be an address.
        host: String,
        /// The first address that it resolves to.
        address: IpAddr,
    },
    /// Nobody answered in time.
    #[error("no answer from '{0}' in time: check address, port and firewall")]
    DialTimeout(String),
    /// The peer or the network refused.
    #[error("cannot connect to '{peer}': {reason}")]
    Dial {
        /// Name and port.
        peer: String,
        /// What the system says.
        reason: String,
    },
}

impl NetError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            NetError::PortBusy(_) => "EP0210",
            NetError::PortForbidden(_) => "EP0211",
            NetError::AddressMissing(_) => "EP0212",
            NetError::Listen { .. } => "EP0213",
            NetError::Resolve { .. } => "EP0220",
            NetError::PrivateAddress { .. } => "EP0221",
            NetError::DialTimeout(_) => "EP0222",
            NetError::Dial { .. } => "EP0223",
        }
    }

    /// True if trying again later may help without anyone changing anything.
    pub fn is_temporary(&self) -> bool {
        matches!(self, NetError::Resolve { .. } | NetError::DialTimeout(_) | NetError::Dial { .. })
    }
}
