//! What all sessions of one listener share.

use std::sync::Arc;

use entrepot_auth::Gate;
use entrepot_net::data::{DataPorts, Lingerer};
use entrepot_net::fine_timer::FineTimers;
use entrepot_nouns::{Env, Name, SiteId};
use entrepot_vfs::Service as Vfs;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::config::FtpConfig;
use crate::stats::View;

/// What all sessions of one listener share.
pub(crate) struct ListenerShared {
    /// The site of the listener: accounts of others log in only by a host name.
    pub(crate) site: SiteId,
    pub(crate) listener: Name,
    pub(crate) gate: Gate,
    pub(crate) vfs: Vfs,
    pub(crate) env: Env,
    pub(crate) config: watch::Receiver<FtpConfig>,
    pub(crate) view: View,
    pub(crate) ports: DataPorts,
    pub(crate) lingerer: Lingerer,
    /// For those who look whether their client is still there.
    pub(crate) fine_timers: Arc<FineTimers>,
    /// Cancelled when the listener drains: no transfer begins any more.
    pub(crate) stop: CancellationToken,
}
