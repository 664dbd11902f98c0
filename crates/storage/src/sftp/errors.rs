//! What the server and the connection say, in the words of the store.

use entrepot_net::NetError;
use entrepot_sftp_proto::Status;
use entrepot_sftp_proto::client::{NotBegun, OpError};

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

/// A connection that was not made: it may succeed later, or only after a change of configuration.
pub(super) fn not_connected(error: &NetError) -> StoreError {
    if error.is_temporary() {
        StoreError::Unavailable(error.to_string())
    } else {
        StoreError::Denied(error.to_string())
    }
}
