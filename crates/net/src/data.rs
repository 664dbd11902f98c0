//! Data connections of FTP: ports that are bound once and kept, active connections, and what moves
//! the bytes.
//!
//! What it guarantees:
//! 1. Another host neither takes a data connection nor occupies its place: a connection that is not
//!    expected at a port is reset and reported ([`DataPorts`]).
//! 2. A transfer costs no bind and no task: PASV looks its lease up; a client that has connected
//!    when its file is asked for is accepted by its session, a later one by the accept task of the
//!    port, which looks the lease of the peer up ([`PassiveSeat`]).
//! 3. Where we dial is decided before dialling ([`DataPeer::may_dial`]).
//! 4. Both directions count to the session's meter and wait for its throttles ([`DataStream`]).
//! 5. The end of an upload is told apart from a cut (clear text has no sign for it: look at the
//!    control connection, [`crate::control::Control::peer_state`]).

use crate::gather::Gathering;
use crate::metered::Metered;

mod acceptor;
mod active;
mod buffer;
mod client;
mod error;
mod lazy;
mod linger;
mod passive;
mod peer;
mod port;
mod range;
mod secure;
mod send_file;
mod slot;
mod stream;

pub use active::{ActiveFrom, connect};
pub use buffer::UploadBuffer;
pub use client::{ClientPort, Pattern, dial, discard};
pub use error::DataError;
pub use linger::Lingerer;
pub use passive::{DataPorts, DataPortsOptions, PassiveSeat, SeatOptions};
pub use peer::DataPeer;
pub use port::Refused;
pub use range::PortRange;
pub use secure::DataTls;
pub use send_file::FileRange;
pub use stream::DataStream;

/// A data connection as its session sees it, before TLS.
type DataSocket = Metered<Gathering<lazy::LazySocket>>;

#[cfg(test)]
mod tests;
