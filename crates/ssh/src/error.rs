//! What can go wrong in a connection of SSH, and whose fault it is.

use thiserror::Error;

/// An error of this crate. [`SshError::code`] names its page in `docs/errors`.
#[derive(Debug, Error)]
pub enum SshError {
    /// The server's key is none of the pinned ones.
    #[error(
        "the server shows the host key '{shown}', which is not pinned: compare it with its owner, \
         then add it to 'host_keys' of the endpoint, or give it with --accept-host-key"
    )]
    HostKey {
        /// `SHA256:…` of the key shown.
        shown: String,
    },
    /// The server refused user, password or key.
    #[error("the server refused to log in '{user}': check user name, password and key")]
    LoginRefused {
        /// The name that we tried to log in with.
        user: String,
    },
    /// The SSH conversation failed.
    #[error("the SSH connection failed: {0}")]
    Failed(String),
    /// The peer has gone, or we have ended the connection.
    #[error("the connection is closed")]
    Closed,
    /// A key text cannot be read.
    #[error("cannot read the key: {0}; give an unencrypted key in OpenSSH form")]
    Key(String),
}

impl SshError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            SshError::HostKey { .. } => "EP0230",
            SshError::LoginRefused { .. } => "EP0231",
            SshError::Failed(_) => "EP0232",
            SshError::Closed => "EP0233",
            SshError::Key(_) => "EP0234",
        }
    }

    /// True if trying again later may help without anyone changing anything.
    pub fn is_temporary(&self) -> bool {
        matches!(self, SshError::Failed(_) | SshError::Closed)
    }
}
