//! What the tasks of one engine share, and how it works.

use std::sync::Arc;
use std::time::Duration;

use entrepot_db::Db;
use entrepot_host::Applications;
use entrepot_journal::Recorder;
use entrepot_spawn::Spawner;
use tokio::sync::{Notify, watch};

use crate::files::FileAccess;
use crate::job_writer::JobWriter;
use crate::membership::Membership;
use crate::meters::Meters;
use crate::pause::Pauses;
use crate::places::{Places, PoolSizes};
use crate::versions::Versions;
use crate::work::WorkArea;
use crate::{limits, oauth, scanners};

/// How the engine works.
#[derive(Clone)]
pub struct EngineOptions {
    /// How many steps of jobs run at the same time, by what they work on.
    pub pools: PoolSizes,
    /// How long a claimed job stays ours without a sign of life. A node whose clock differs from
    /// the database's by more than a quarter of it claims nothing.
    pub lease: Duration,
    /// How often the table of jobs is looked at when nothing wakes us.
    pub poll: Duration,
    /// Where tests stop the engine; `None` in production.
    pub pauses: Option<Pauses>,
}

impl Default for EngineOptions {
    fn default() -> Self {
        EngineOptions {
            pools: PoolSizes::each(limits::PLACES),
            lease: limits::LEASE,
            poll: limits::POLL,
            pauses: None,
        }
    }
}

/// What the tasks of one engine share.
pub(crate) struct Shared {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) file_access: Box<dyn FileAccess>,
    pub(crate) spawner: Spawner,
    pub(crate) applications: Applications,
    pub(crate) work: Arc<WorkArea>,
    pub(crate) options: EngineOptions,
    pub(crate) meters: Arc<Meters>,
    /// Sends requests of steps to servers that this machine's authorities vouch for.
    pub(crate) web: entrepot_net::http::Client,
    /// What proves us to servers of HTTP that take tokens.
    pub(crate) tokens: oauth::Tokens,
    /// What scanners said of themselves.
    pub(crate) scanners: scanners::Scanners,
    /// The rules that jobs run.
    pub(crate) versions: Versions,
    /// What the database says of this node.
    pub(crate) membership: Arc<Membership>,
    /// The last projected sequence.
    pub(crate) projected: watch::Sender<u64>,
    /// There may be a job to claim.
    pub(crate) jobs: Arc<Notify>,
    /// Makes what jobs write.
    pub(crate) writer: JobWriter,
    /// Who works on what.
    pub(crate) places: Arc<Places>,
    /// The projector shall say how far it is.
    pub(crate) nudge: Arc<Notify>,
    /// There may be a receipt of AS2 to send.
    pub(crate) as2_receipts: Arc<Notify>,
}
