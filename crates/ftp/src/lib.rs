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

use entrepot_net::control::{ControlGuest, ControlProtocol, ControlSessions};
use entrepot_net::data::{DataPorts, DataPortsOptions, Lingerer};
use entrepot_net::server::{Listening, Server};
use entrepot_vfs::ListenerContext;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use shared::ListenerShared;
use stats::View;

pub use config::FtpConfig;

/// Serves FTP until `stop`; then accepts no more, ends idle sessions at once, lets running
/// transfers end within the drain limit, and returns when every session is over.
pub async fn serve(
    listening: Listening<FtpConfig>,
    context: ListenerContext,
    stop: CancellationToken,
) {
    let Listening { acceptor, mut config, shared } = listening;
    let first = config.borrow_and_update().clone();
    let (ports, mut refusals) = DataPorts::new(DataPortsOptions {
        env: context.env.clone(),
        range: first.ports(),
        proxies: first.control().admission.proxies.clone(),
    });
    let (control, options) = watch::channel(first.control().clone());
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
        fine_timers: Arc::default(),
        stop: stop.clone(),
    }));
    let server = Server {
        listening: Listening { acceptor, config: options, shared },
        protocol: ControlProtocol(sessions),
    };
    let over = CancellationToken::new();
    let serving = async {
        server.run(stop).await;
        over.cancel();
    };
    let following = async {
        while let Some(Ok(())) = over.run_until_cancelled(config.changed()).await {
            let now = config.borrow_and_update().clone();
            ports.set_range(now.ports());
            ports.set_proxies(now.control().admission.proxies.clone());
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
    fn admits(&self, peer: SocketAddr) -> bool {
        self.0.gate.may_admit(self.0.site, &self.0.listener, peer.ip())
    }

    fn serve(&self, guest: ControlGuest) -> impl Future<Output = ()> + Send + 'static {
        session::serve(Arc::clone(&self.0), guest)
    }
}

#[cfg(test)]
mod tests;
