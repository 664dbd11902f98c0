//! FTP and FTPS: the adapter between `net::control`, `net::data`, `ftp-proto` and `vfs`.
//!
//! What it guarantees:
//! 1. 226 to an upload is said when the publish is durable. A data connection that is cut, or a
//!    control connection that is gone at its end, publishes nothing; what came is kept to resume.
//! 2. One transfer at a time; while it runs commands are still read (ABOR, STAT, QUIT).
//! 3. Clear downloads go from file to socket inside the kernel where the store has a file.
//! 4. Data connections are those of the client of the control connection (`net::data`).
//! 5. No program is ever run here, and no link is made. A rule may refuse any command, and run a
//!    program before a reply leaves; a rule that cannot be asked refuses.

mod config;
mod control;
mod files;
mod hooks;
mod host;
pub mod limits;
mod listing;
mod login;
mod paths;
mod requests;
mod session;
mod shared;
mod stats;
mod status;
mod transfer;
mod tree;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use entrepot_auth::Gate;
use entrepot_model::{Env, Name, SiteId};
use entrepot_net::control::{ControlGuest, ControlServer, ControlSessions};
use entrepot_net::data::{DataPorts, DataPortsOptions, Lingerer};
use entrepot_net::guard::Strangers;
use entrepot_net::listen::TcpAcceptor;
use entrepot_vfs::Service as Vfs;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use shared::ListenerShared;
use stats::View;

pub use config::FtpConfig;

/// What a listener needs.
#[derive(Clone)]
pub struct FtpContext {
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
    /// Who has not logged in, shared by all listeners.
    pub strangers: Strangers,
}

impl std::fmt::Debug for FtpContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FtpContext").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// Serves FTP until `stop`; then accepts no more, ends idle sessions at once, lets running
/// transfers end within `drain`, and returns when every session is over. Connections that come
/// after a change of `config` see the new one.
pub async fn serve(
    acceptor: TcpAcceptor,
    context: FtpContext,
    (mut config, drain): (watch::Receiver<FtpConfig>, Duration),
    stop: CancellationToken,
) {
    let first = config.borrow_and_update().clone();
    let (ports, mut refusals) = DataPorts::new(DataPortsOptions {
        env: context.env.clone(),
        range: first.ports(),
        proxies: first.control().proxies.clone(),
    });
    let (control, options) = watch::channel(first.control().clone());
    let (env, strangers) = (context.env.clone(), context.strangers.clone());
    let draining = context.vfs.draining();
    let sessions = Sessions(Arc::new(ListenerShared {
        site: context.site,
        listener: context.listener,
        gate: context.gate,
        vfs: context.vfs,
        view: View::new(context.env.clone()),
        env: context.env,
        config: config.clone(),
        ports: ports.clone(),
        lingerer: Lingerer::default(),
        stop: stop.clone(),
    }));
    let server = ControlServer { acceptor, options, strangers, env, sessions, drain, draining };
    let over = CancellationToken::new();
    let serving = async {
        server.run(stop).await;
        over.cancel();
    };
    let following = async {
        while let Some(Ok(())) = over.run_until_cancelled(config.changed()).await {
            let now = config.borrow_and_update().clone();
            ports.set_range(now.ports());
            ports.set_proxies(now.control().proxies.clone());
            control.send_replace(now.control().clone());
        }
    };
    let telling = async {
        while let Some(Some(refused)) = over.run_until_cancelled(refusals.recv()).await {
            tracing::info!(?refused, "a data connection was refused");
        }
    };
    tokio::join!(serving, following, telling, ports.run(over.clone()));
}

struct Sessions(Arc<ListenerShared>);

impl ControlSessions for Sessions {
    fn admit(&self, peer: SocketAddr) -> bool {
        self.0.gate.may_admit(self.0.site, &self.0.listener, peer.ip())
    }

    fn serve(&self, guest: ControlGuest) -> impl Future<Output = ()> + Send + 'static {
        session::serve(Arc::clone(&self.0), guest)
    }
}

#[cfg(test)]
mod tests;
