//! SFTP and SCP over SSH: the adapter between `net::ssh`, `sftp-proto` and `vfs`.
//!
//! What it guarantees:
//! 1. Exactly one answer a request; those of one handle in order.
//! 2. CLOSE of an upload is answered when the publish is durable; after a refused WRITE it fails
//!    and publishes nothing; a connection that is cut leaves a partial and nothing visible.
//! 3. A client that takes no answers costs a bounded number of bytes, whatever it asks.
//! 4. Local stores are served inside the session task, without a queue; stores that wait for a
//!    network, commands, hashes and copies in a task of their own ([`channel`]).
//! 5. No program is ever run: SCP and the hash commands are our own ([`exec`]).

mod attributes;
mod channel;
mod exec;
#[doc(hidden)]
pub mod fuzzing;
pub mod limits;
mod machine;
mod out;
mod parked;
mod service;
mod status;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_auth::Gate;
use entrepot_model::{Env, Name, Secret, SiteId};
use entrepot_net::NetError;
use entrepot_net::guard::Strangers;
use entrepot_net::listen::TcpAcceptor;
use entrepot_net::meter::SessionMeter;
use entrepot_net::ssh::algorithms::Preset;
use entrepot_net::ssh::server::{Services, SshConfig, SshOptions, SshServer};
use entrepot_vfs::Service as Vfs;
use thiserror::Error;
use tokio_util::sync::CancellationToken;

use crate::service::SftpService;

/// What a listener needs.
pub struct SftpContext {
    /// The site it belongs to.
    pub site: SiteId,
    /// Its name.
    pub listener: Name,
    /// Lets accounts in.
    pub gate: Gate,
    /// Their files.
    pub vfs: Vfs,
    /// Clock and randomness.
    pub env: Env,
    /// Host keys, OpenSSH form, unsealed.
    pub host_keys: Vec<Secret>,
    /// Shown before login; empty: nothing.
    pub banner: String,
}

impl std::fmt::Debug for SftpContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SftpContext").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Why a listener cannot serve.
#[derive(Debug, Error)]
pub enum SftpError {
    /// A host key is missing or unreadable.
    #[error("a host key of the listener '{listener}' cannot be used: {error}")]
    HostKey {
        /// The listener.
        listener: Name,
        /// What is wrong.
        error: NetError,
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

/// Serves SFTP until `stop`; then accepts no more, ends idle sessions at once, lets running
/// transfers end within [`limits::DRAIN_TIME`], and returns when every session is over.
///
/// # Errors
/// A host key cannot be read; nothing was served then.
pub async fn serve(
    acceptor: TcpAcceptor,
    context: SftpContext,
    stop: CancellationToken,
) -> Result<(), SftpError> {
    let config = config(&context)?;
    serve_with(acceptor, context, (config, limits::DRAIN_TIME), stop).await;
    Ok(())
}

async fn serve_with(
    acceptor: TcpAcceptor,
    context: SftpContext,
    (config, drain): (SshConfig, Duration),
    stop: CancellationToken,
) {
    let env = context.env.clone();
    let server = SshServer {
        acceptor,
        config,
        strangers: Strangers::default(),
        env,
        services: Sessions(Arc::new(context)),
        drain,
    };
    server.run(stop).await;
}

fn config(context: &SftpContext) -> Result<SshConfig, SftpError> {
    let options = SshOptions {
        host_keys: context.host_keys.clone(),
        preset: Preset::Modern,
        banner: context.banner.clone(),
    };
    let listener = context.listener.clone();
    SshConfig::new(&options).map_err(|error| SftpError::HostKey { listener, error })
}

struct Sessions(Arc<SftpContext>);

impl Services for Sessions {
    type Service = SftpService;

    fn connect(&self, peer: SocketAddr, meter: &Arc<SessionMeter>) -> Option<SftpService> {
        Some(SftpService::new(Arc::clone(&self.0), peer, Arc::clone(meter)))
    }
}

// A file that tests share with the fuzz targets calls this crate by its name.
#[cfg(test)]
extern crate self as entrepot_sftp;

#[cfg(test)]
mod tests;
