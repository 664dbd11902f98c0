//! How a transfer ends.

use entrepot_ftp_proto::End;
use entrepot_net::data::PassiveSeat;
use entrepot_vfs::{Upload, Uploaded};

/// A transfer that has ended, or has nothing left to wait for on its data connection.
pub(crate) struct TransferResult {
    /// Where the session listens for data connections; the transfer had it meanwhile.
    pub(crate) seat: Option<PassiveSeat>,
    pub(crate) outcome: Outcome,
}

/// How a transfer ends.
pub(crate) enum Outcome {
    /// It is over.
    Ended(End),
    /// An upload is published.
    Published(Box<Uploaded>),
    /// All bytes of an upload came; nothing is published yet.
    Received {
        upload: Box<Upload>,
        /// The data connection itself marks its end, as TLS does by close_notify.
        certain: bool,
    },
}
