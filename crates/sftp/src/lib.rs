//! SFTP and SCP over SSH: the adapter between `ssh`, `sftp-proto` and `vfs`.
//!
//! What it guarantees:
//! 1. Exactly one answer a request; those of one handle in order.
//! 2. CLOSE of an upload is answered when the publish is durable; after a refused WRITE it fails
//!    and publishes nothing; a connection that is cut leaves a partial and nothing visible.
//! 3. A client that takes no answers costs a bounded number of bytes, whatever it asks.
//! 4. Local stores are served inside the session task, without a queue; stores that wait for a
//!    network, commands, hashes and copies in a task of their own ([`channel`]).
//! 5. No program is ever run: SCP and the hash commands are our own ([`exec`]). A rule may refuse
//!    any request, and run a program before its answer leaves; one that cannot be asked refuses. A
//!    channel that rules look at works in a task of its own, one request after the other.

mod attributes;
mod channel;
mod connection;
mod exec;
#[doc(hidden)]
pub mod fuzzing;
mod hooks;
pub mod limits;
mod machine;
mod out;
mod parked;
mod problem;
mod queue;
mod service;
mod status;

use std::net::SocketAddr;
use std::sync::Arc;

use entrepot_net::meter::SessionMeter;
use entrepot_net::server::{Listening, Server};
use entrepot_nouns::Name;
use entrepot_ssh::SshError;
use entrepot_ssh::server::{Services, Ssh, SshConfig, SshOptions};
use entrepot_vfs::ListenerContext;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::service::SftpService;

/// Why a listener cannot serve.
#[derive(Debug, Error)]
pub enum SftpError {
    /// A host key is missing or unreadable.
    #[error("a host key of the listener '{listener}' cannot be used: {error}")]
    HostKey {
        /// Which listener the key was configured for.
        listener: Name,
        /// What is wrong.
        error: SshError,
    },
}

impl SftpError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            SftpError::HostKey { .. } => "EP0901",
        }
    }
}

/// How a listener presents itself; changed while it serves.
///
/// # Errors
/// A key is missing or unreadable; `listener` is for the sentence.
pub fn config(listener: &Name, options: &SshOptions) -> Result<SshConfig, SftpError> {
    SshConfig::new(options)
        .map_err(|error| SftpError::HostKey { listener: listener.clone(), error })
}

/// Serves SFTP until `stop`; then accepts no more, ends idle sessions at once, lets running
/// transfers end within the drain limit, and returns when every session is over.
pub async fn serve(
    listening: Listening<SshConfig>,
    context: ListenerContext,
    stop: CancellationToken,
) {
    let protocol = Ssh(Sessions(Arc::new(context)));
    Server { listening, protocol }.run(stop).await;
}

struct Sessions(Arc<ListenerContext>);

impl Services for Sessions {
    type Service = SftpService;

    fn admits(&self, peer: SocketAddr) -> bool {
        let context = &self.0;
        context.gate.may_admit(context.site, &context.listener, peer.ip())
    }

    fn connect(&self, peer: SocketAddr, meter: &Arc<SessionMeter>) -> SftpService {
        SftpService::new(Arc::clone(&self.0), peer, Arc::clone(meter))
    }
}

// A file that tests share with the fuzz targets calls this crate by its name.
#[cfg(test)]
extern crate self as entrepot_sftp;

#[cfg(test)]
mod tests;
