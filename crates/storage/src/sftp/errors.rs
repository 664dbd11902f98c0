//! What the server and the connection say, in the words of the store.

use entrepot_net::NetError;
use entrepot_sftp_proto::Status;
use entrepot_sftp_proto::client::{NotBegun, OpError};
use entrepot_ssh::SshError;

use crate::error::StoreError;

/// Why an operation brought nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failed {
    /// The server's answer.
    Op(OpError),
    /// It was never asked.
    NotBegun(NotBegun),
    /// The connection is gone; what happened to the request is not known.
    Lost(String),
}

impl Failed {
    pub(super) fn is(&self, status: Status) -> bool {
        matches!(self, Failed::Op(error) if error.is(status))
    }
}

impl From<Failed> for StoreError {
    /// The meaning where no call knows better.
    fn from(failed: Failed) -> Self {
        match failed {
            Failed::Op(OpError::Refused { code, message }) => {
                let said = if message.is_empty() { format!("status {code}") } else { message };
                match Status::from_code(code) {
                    Some(Status::NoSuchFile) => StoreError::NotFound,
                    Some(Status::PermissionDenied) => StoreError::Denied(said),
                    Some(Status::OpUnsupported) => {
                        StoreError::Unsupported("the server does not know the request")
                    }
                    _ => StoreError::Io(format!("the server says '{said}'")),
                }
            }
            Failed::Op(error) => StoreError::Io(error.to_string()),
            Failed::NotBegun(NotBegun::Full) => {
                StoreError::Unavailable("too many requests wait for the server".to_owned())
            }
            Failed::NotBegun(NotBegun::NotOffered(_)) => {
                StoreError::Unsupported("the server does not offer the request")
            }
            Failed::Lost(why) => StoreError::Unavailable(why),
        }
    }
}

/// A server that was not reached: it may be later, or only after a change of configuration.
pub(super) fn not_reached(error: &NetError) -> StoreError {
    let kind = if error.is_temporary() { StoreError::Unavailable } else { StoreError::Denied };
    kind(error.to_string())
}

/// A server that was reached and gave us no channel: the same two kinds.
pub(super) fn no_channel(error: &SshError) -> StoreError {
    let kind = if error.is_temporary() { StoreError::Unavailable } else { StoreError::Denied };
    kind(error.to_string())
}
