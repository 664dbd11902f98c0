//! The data plane of a node: what each of its parts knows is in a file of its own; here they are
//! put together, started and stopped.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use entrepot_auth::Directory;
use entrepot_crypto::MasterKey;
use entrepot_db::Db;
use entrepot_journal::Recorder;
use entrepot_nouns::{
    Endpoint, Env, Key, Name, PerDirection, Secret, SessionId, SessionInfo, SiteId, Stored,
};
use entrepot_storage::{AnyStore, OwnFiles};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::as2::As2Claims;
use crate::book::{Book, MovingTransfer};
use crate::budgets::{BudgetUse, Budgets, NodeLimits};
use crate::by_version::ByVersion;
use crate::error::{Result, StartError};
use crate::hooks::Hooks;
use crate::limits;
use crate::meters::Meters;
use crate::names::Names;
use crate::node_quotas::NodeQuotas;
use crate::notes::Partial;
use crate::partials::Partials;
use crate::promised::PromisedNames;
use crate::recovery::{Recovery, RecoveryParts, RecoveryReport};
use crate::resumable::registry::Resumables;
use crate::sessions::Sessions;
use crate::stores::{StoreState, Stores, StoresParts, open_spool};
use crate::trash::index::TrashIndex;

/// What the data plane works with.
pub struct ServiceParts {
    /// The journal, the clock and the name of the node.
    pub recorder: Recorder,
    /// The accounts as they are now.
    pub directory: Directory,
    /// Endpoints and keys; asked when a store is opened, never for a file.
    pub db: Db,
    /// Clock and randomness.
    pub env: Env,
    /// Opens the secrets of endpoints.
    pub master: MasterKey,
    /// Stores for tests, the spool, and the start of the machine.
    pub options: ServiceOptions,
}

/// How the data plane works.
#[derive(Clone, Default)]
pub struct ServiceOptions {
    /// Stores to use for endpoints of these names instead of opening them: for tests.
    pub stores: HashMap<Name, AnyStore>,
    /// The directory where uploads lie while their clients write in an order that a store cannot
    /// take; what an earlier process left there is dropped. Unset: such writes are refused.
    pub spool: Option<PathBuf>,
    /// Which start of the machine this is. Unset: every start of the program counts as one, and
    /// partials are resumed from what was synced.
    pub boot: Option<String>,
    /// What the accounts of the node may use, all together.
    pub limits: NodeLimits,
    /// What no endpoint may reach.
    pub own_files: OwnFiles,
}

/// The data plane of a node. Cheap to clone.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<DataPlane>);

/// What all clones of a [`Service`] share.
pub(crate) struct DataPlane {
    pub(crate) recorder: Recorder,
    pub(crate) directory: Directory,
    pub(crate) env: Env,
    pub(crate) book: Arc<Book>,
    pub(crate) as2: As2Claims,
    pub(crate) names: Names,
    pub(crate) promised: PromisedNames,
    pub(crate) meters: Arc<Meters>,
    pub(crate) stores: Arc<Stores>,
    pub(crate) quotas: NodeQuotas,
    pub(crate) partials: Partials,
    pub(crate) resumables: Resumables,
    /// Checksums of files that were sent in archives.
    pub(crate) zip_crcs: ByVersion<u32>,
    pub(crate) sha256s: ByVersion<[u8; 32]>,
    pub(crate) trash: TrashIndex,
    pub(crate) sessions: Sessions,
    pub(crate) budgets: Budgets,
    pub(crate) recovery: Recovery,
    hooks: Hooks,
    pub(crate) boot: String,
    /// Cancelled when the node is asked to end.
    pub(crate) draining: CancellationToken,
    upkeep: Upkeep,
}

/// The background task of the data plane.
#[derive(Default)]
struct Upkeep {
    stop: CancellationToken,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Service {
    /// Looks at what the journal says of the last run, then serves. Nothing listens before this
    /// has returned.
    ///
    /// # Errors
    /// The journal or the database cannot be read, or a newer version wrote the journal.
    pub async fn start(
        parts: ServiceParts,
    ) -> std::result::Result<(Service, RecoveryReport), StartError> {
        let service = Service(Arc::new(DataPlane::new(parts).await));
        let report = service.0.recovery.run().await?;
        service.0.note_recovered();
        for (id, upload) in service.0.recovery.take_finished() {
            service.0.resumables.finished(&id, upload);
        }
        let background = service.clone();
        let task = tokio::spawn(async move { background.tend().await });
        *service.0.upkeep.task.lock() = Some(task);
        Ok((service, report))
    }

    /// What rules look at before and after commands, and where to ask.
    pub fn hooks(&self) -> &Hooks {
        &self.0.hooks
    }

    /// The store of an endpoint, for what rules do there; opened once for each revision of it.
    ///
    /// # Errors
    /// Its secrets cannot be opened, or the store itself.
    pub async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore> {
        let store = self.0.stores.open(endpoint).await?;
        Ok(store.for_user(&self.0.budgets.rules).unwrap_or(store))
    }

    /// The secret of an endpoint that steps of rules talk to.
    ///
    /// # Errors
    /// It cannot be looked up now, or not be opened with the master key.
    pub async fn endpoint_secret(&self, endpoint: &Stored<Endpoint>) -> Result<Option<Secret>> {
        Ok(self.0.stores.secrets(endpoint).await?.secret)
    }

    /// The private half of a key, for what rules do with it; `None`: it has none here.
    ///
    /// # Errors
    /// It cannot be opened.
    pub async fn private_key(&self, site: SiteId, key: &Key) -> Result<Option<Secret>> {
        self.0.stores.private_key(site, key).await
    }

    /// Open sessions of peers.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        self.0.sessions.of_peers()
    }

    /// The transfers that move now, those of rules included.
    pub fn moving(&self) -> Vec<MovingTransfer> {
        self.0.book.moving()
    }

    /// Ends a session of this node; false if it is not open.
    pub fn end_session(&self, id: SessionId, reason: &str) -> bool {
        self.0.sessions.end(id, reason)
    }

    /// Sets the rates of one session of this node, `None`: as policies say; false if it is not
    /// open.
    pub fn limit_session(&self, id: SessionId, rates: Option<PerDirection>) -> bool {
        self.0.sessions.limit(id, rates)
    }

    /// Counters of transfers and bytes, for metrics and tests.
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// How the stores are that were used since the start.
    pub fn stores(&self) -> Vec<StoreState> {
        self.0.stores.states()
    }

    /// The endpoints that take no changes because a failed one could not be undone; each is tried
    /// again every few seconds.
    pub fn sick_stores(&self) -> Vec<StoreState> {
        self.stores().into_iter().filter(|store| store.is_sick).collect()
    }

    /// What is in use of the descriptors, sessions and memory that accounts share.
    pub fn budgets(&self) -> [BudgetUse; 3] {
        self.0.budgets.in_use()
    }

    /// From now on no upload begins; running ones go on.
    pub fn drain(&self) {
        self.0.book.drain();
    }

    /// Ends the background task and notes where things stand.
    pub async fn stop(&self) {
        self.0.upkeep.stop.cancel();
        let task = self.0.upkeep.task.lock().take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the background task of files broke");
        }
        if let Err(error) = self.0.book.checkpoint() {
            tracing::warn!(code = error.code(), %error, "where things stand is not noted");
        }
    }

    /// Writes checkpoints and sweeps, until the end.
    async fn tend(&self) {
        let mut ticks = tokio::time::interval(limits::TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut swept = self.0.env.elapsed();
        let mut probed = swept;
        loop {
            tokio::select! {
                () = self.0.upkeep.stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if let Err(error) = self.0.book.checkpoint_if_due() {
                tracing::debug!(code = error.code(), %error, "where things stand is not noted");
            }
            let now = self.0.env.elapsed();
            if now.saturating_sub(probed) >= limits::PROBE_EVERY {
                probed = now;
                self.probe_sick().await;
                self.0.note_recovered();
                self.0.as2.settle().await;
            }
            if now.saturating_sub(swept) < limits::SWEEP_EVERY {
                continue;
            }
            swept = now;
            self.sweep().await;
        }
    }

    /// Tries whether sick stores work again, and decides what they left undecided.
    pub(crate) async fn probe_sick(&self) {
        if self.0.stores.probe_sick().await {
            self.0.recovery.retry().await;
        }
    }

    /// Drops partials whose time is over, looks again at changes that wait for their endpoint,
    /// counts anew what quotas limit, forgets old messages.
    pub(crate) async fn sweep(&self) {
        let resumables = &self.0.resumables;
        let is_in_use = |note: &Partial| resumables.is_in_use(note);
        self.0.partials.discard_expired(self.0.env.now(), is_in_use).await;
        resumables.prune();
        self.0.recovery.retry().await;
        self.0.quotas.recount_due(self.0.env.elapsed()).await;
        self.0.as2.forget_old().await;
    }
}

impl DataPlane {
    /// Notes, once it is so, that all that the last run left open is decided.
    fn note_recovered(&self) {
        if self.recovery.is_done() {
            self.as2.recovered();
        }
    }

    async fn new(parts: ServiceParts) -> DataPlane {
        let ServiceParts { recorder, directory, db, env, master, options } = parts;
        let ServiceOptions { stores: given, spool, boot, limits, own_files } = options;
        let boot = boot.unwrap_or_else(|| env.new_id::<entrepot_nouns::EventId>().to_string());
        let spool = match spool {
            Some(path) => open_spool(&path, &env).await,
            None => None,
        };
        let book = Arc::new(Book::new(recorder.journal().clone()));
        let meters = Arc::new(Meters::default());
        let stores = Arc::new(Stores::new(StoresParts {
            db: db.clone(),
            directory: directory.clone(),
            master,
            env: env.clone(),
            given,
            spool,
            own_files,
        }));
        let partials = Partials::new(Arc::clone(&book), Arc::clone(&stores), db.clone());
        let quotas = NodeQuotas::new(Arc::clone(&book), Arc::clone(&stores), db.clone());
        let trash = TrashIndex::new(Arc::clone(&book), db.clone(), recorder.node_id());
        let as2 = As2Claims::new(db.clone(), recorder.clone(), Arc::clone(&book));
        let recovery = Recovery::new(RecoveryParts {
            recorder: recorder.clone(),
            db,
            book: Arc::clone(&book),
            meters: Arc::clone(&meters),
            stores: Arc::clone(&stores),
            partials: partials.clone(),
            boot: boot.clone(),
        });
        DataPlane {
            hooks: Hooks::new(recorder.clone()),
            sessions: Sessions::new(Arc::clone(&book), Arc::clone(&meters)),
            budgets: Budgets::new(limits),
            zip_crcs: ByVersion::default(),
            sha256s: ByVersion::default(),
            resumables: Resumables::new(Arc::clone(&book)),
            recorder,
            as2,
            directory,
            env,
            trash,
            book,
            names: Names::default(),
            promised: PromisedNames::default(),
            meters,
            stores,
            quotas,
            partials,
            recovery,
            boot,
            draining: CancellationToken::new(),
            upkeep: Upkeep::default(),
        }
    }
}
