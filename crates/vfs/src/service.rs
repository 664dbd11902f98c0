//! The data plane of a node: stores, live sessions, transfers as they stand, recovery.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use entrepot_auth::Directory;
use entrepot_crypto::{MasterKey, SealingContext};
use entrepot_db::{Db, Dialect};
use entrepot_journal::Recorder;
use entrepot_nouns::{
    Direction, Endpoint, EndpointTarget, Env, Key, Kind, Name, Noun as _, PerDirection, Quota,
    Sealed, SessionId, SessionInfo, SiteId, StorePath, Stored, Timestamp,
};
use entrepot_storage::{AnyStore, EntryKind, ResolvedSecrets, StoreError};
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::book::{Book, Kept, TemporaryKey};
use crate::error::{Result, StartError, VfsError};
use crate::hooks::Hooks;
use crate::limits;
use crate::meters::Meters;
use crate::names::Names;
use crate::notes::{self, Change};
use crate::quota::{CountedDirectory, Ledger, Ledgers, Reservation, is_below};
use crate::recovery::{self, Outcome, RecoveryReport};
use crate::sessions::Sessions;
use crate::unbroken::later;

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
}

/// The data plane of a node. Cheap to clone.
#[derive(Clone)]
pub struct Service(pub(crate) Arc<DataPlane>);

/// What all clones of a [`Service`] share.
pub(crate) struct DataPlane {
    pub(crate) recorder: Recorder,
    pub(crate) directory: Directory,
    pub(crate) env: Env,
    pub(crate) book: Book,
    pub(crate) names: Names,
    pub(crate) ledgers: Ledgers,
    pub(crate) meters: Meters,
    hooks: Hooks,
    pub(crate) boot: String,
    db: Db,
    master: MasterKey,
    options: ServiceOptions,
    pub(crate) spool: Option<AnyStore>,
    stores: Mutex<HashMap<Uuid, (i64, AnyStore)>>,
    prefixes: Mutex<HashSet<(Uuid, StorePath)>>,
    pub(crate) sessions: Sessions,
    waiting: Mutex<Vec<Change>>,
    stop: CancellationToken,
    /// The node was asked to end.
    pub(crate) draining: CancellationToken,
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
        let boot = parts.options.boot.clone();
        let fallback = parts.env.new_id::<entrepot_nouns::EventId>().to_string();
        let service = Service(Arc::new(DataPlane {
            book: Book::new(parts.recorder.journal().clone()),
            hooks: Hooks::new(parts.recorder.clone()),
            recorder: parts.recorder,
            directory: parts.directory,
            names: Names::default(),
            ledgers: Ledgers::default(),
            meters: Meters::default(),
            boot: boot.unwrap_or(fallback),
            db: parts.db,
            master: parts.master,
            spool: spool(&parts.options, &parts.env).await,
            env: parts.env,
            options: parts.options,
            stores: Mutex::default(),
            prefixes: Mutex::default(),
            sessions: Sessions::default(),
            waiting: Mutex::default(),
            stop: CancellationToken::new(),
            draining: CancellationToken::new(),
            task: Mutex::default(),
        }));
        let report = service.recover().await?;
        let background = service.clone();
        let task = tokio::spawn(async move { background.tend().await });
        *service.0.task.lock() = Some(task);
        Ok((service, report))
    }

    /// Whether tests gave the store of this endpoint.
    pub(crate) fn has_own_store(&self, endpoint: &Name) -> bool {
        self.0.options.stores.contains_key(endpoint)
    }

    /// What rules look at before and after commands, and where to ask.
    pub fn hooks(&self) -> &Hooks {
        &self.0.hooks
    }

    /// The store of an endpoint, opened once for each revision of it.
    ///
    /// # Errors
    /// Its secrets cannot be opened, or the store itself.
    pub async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore> {
        if let Some(store) = self.0.options.stores.get(&endpoint.noun.name) {
            return Ok(store.clone());
        }
        if let Some((revision, store)) = self.0.stores.lock().get(&endpoint.id)
            && *revision == endpoint.revision
        {
            return Ok(store.clone());
        }
        let secrets = self.secrets(endpoint).await?;
        let store = entrepot_storage::open(&endpoint.noun.target, &secrets, &self.0.env).await?;
        let mut stores = self.0.stores.lock();
        // Another session may have opened it meanwhile: all must share one.
        match stores.get(&endpoint.id) {
            Some((revision, known)) if *revision == endpoint.revision => Ok(known.clone()),
            _ => {
                stores.insert(endpoint.id, (endpoint.revision, store.clone()));
                Ok(store)
            }
        }
    }

    /// The secrets that a store needs to be opened: its own, and the private key that it names.
    async fn secrets(&self, endpoint: &Stored<Endpoint>) -> Result<ResolvedSecrets> {
        let site = self.0.directory.site_name(endpoint.site).await;
        let site = site.map_err(|_| VfsError::busy("secrets cannot be looked up now"))?;
        let site = site.ok_or_else(|| VfsError::busy("its site is being deleted"))?;
        let open = |context: SealingContext, sealed: Option<&Sealed>| {
            let opened = sealed.map(|sealed| self.0.master.open(&context, sealed)).transpose();
            opened.map_err(|error| VfsError::Io { problem: error.to_string() })
        };
        let mut target = endpoint.noun.target.clone();
        let secret = match target.secret() {
            Some(secret) => {
                let context = SealingContext::endpoint(&site, &endpoint.noun.name, &secret);
                open(context, secret.sealed.as_ref())?
            }
            None => None,
        };
        let references = endpoint.noun.references();
        let Some(reference) = references.iter().find(|it| it.kind == Kind::Key) else {
            return Ok(ResolvedSecrets { secret, private_key: None });
        };
        let key = &reference.name;
        let found = self.0.db.find::<Key>(endpoint.site, key).await;
        let found = found.map_err(|_| VfsError::busy("keys cannot be looked up now"))?;
        let sealed = found.and_then(|found| found.noun.private_sealed);
        let private_key = open(SealingContext::private_key(&site, key), sealed.as_ref())?;
        Ok(ResolvedSecrets { secret, private_key })
    }

    /// Makes the directory that a mount shows, once.
    pub(crate) async fn ensure_prefix(
        &self,
        endpoint: Uuid,
        store: &AnyStore,
        prefix: &StorePath,
    ) -> Result<()> {
        if prefix.is_root() || self.0.prefixes.lock().contains(&(endpoint, prefix.clone())) {
            return Ok(());
        }
        let mut path = StorePath::root();
        for component in prefix.components() {
            path = path.join(component)?;
            match store.stat(&path).await {
                Ok(meta) if meta.kind == EntryKind::Directory => continue,
                Ok(_) => return Err(VfsError::NotDirectory),
                Err(StoreError::NotFound) => {}
                Err(error) => return Err(error.into()),
            }
            match store.make_directory(&path).await {
                Ok(()) | Err(StoreError::Exists) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.0.prefixes.lock().insert((endpoint, prefix.clone()));
        Ok(())
    }

    /// The ledger of a directory with a quota, counted.
    pub(crate) async fn ledger(
        &self,
        directory: &CountedDirectory,
        store: &AnyStore,
    ) -> Result<Arc<Ledger>> {
        let (ledger, is_new) = self.0.ledgers.open(directory);
        if is_new {
            self.reserve_for_kept(directory, &ledger).await;
        }
        if is_new || ledger.wants_recount() {
            let (counting, store) = (ledger.clone(), store.clone());
            let root = directory.path.clone();
            later(async move { counting.recount(&store, &root).await });
        }
        ledger.ready().await?;
        Ok(ledger)
    }

    /// What was kept before its directory had a ledger takes room there too.
    async fn reserve_for_kept(&self, directory: &CountedDirectory, ledger: &Arc<Ledger>) {
        let mut endpoints = HashSet::new();
        self.0.book.each_kept(|kept| {
            if kept.reservation.is_none() {
                endpoints.insert((kept.note.site, kept.note.endpoint.clone()));
            }
        });
        for (site, name) in endpoints {
            let endpoint = self.0.db.find::<Endpoint>(site, &name).await;
            let found = endpoint.ok().flatten();
            if found.is_none_or(|found| found.id != directory.endpoint) {
                continue;
            }
            self.0.book.each_kept(|kept| {
                let note = &kept.note;
                let here = note.site == site && note.endpoint == name;
                if kept.reservation.is_none() && here && is_below(&note.target, &directory.path) {
                    let mut room = Reservation::new(Some(ledger.clone()), Quota::default());
                    room.force(note.contiguous);
                    kept.reservation = Some(room);
                }
            });
        }
    }

    /// Something was added to or taken from what quotas count.
    pub(crate) fn counted(&self, endpoint: Uuid, path: &StorePath, bytes: i64, files: i64) {
        if self.0.ledgers.is_empty() {
            return;
        }
        for ledger in self.0.ledgers.over(endpoint, path) {
            ledger.changed(bytes, files);
        }
    }

    /// Open sessions of peers.
    pub fn sessions(&self) -> Vec<SessionInfo> {
        let moving = self.0.book.moving_bytes();
        let mut sessions = self.0.sessions.of_peers();
        for info in &mut sessions {
            let (received, sent) = moving.get(&info.id).copied().unwrap_or_default();
            info.bytes_in += received;
            info.bytes_out += sent;
        }
        sessions
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

    /// From now on no upload begins; running ones go on.
    pub fn drain(&self) {
        self.0.book.drain();
    }

    /// Ends the background task and notes where things stand.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        let task = self.0.task.lock().take();
        if let Some(task) = task
            && let Err(error) = task.await
        {
            tracing::error!(%error, "the background task of files broke");
        }
        if let Err(error) = self.0.book.checkpoint() {
            tracing::warn!(code = error.code(), %error, "where things stand is not noted");
        }
    }

    async fn recover(&self) -> std::result::Result<RecoveryReport, StartError> {
        let found = recovery::read(self.0.recorder.journal())?;
        let mut report = RecoveryReport::default();
        // An upload that was being published is decided by its change alone.
        let of = |change: &Change| change.event.fact.file().map(|file| file.transfer);
        let publishing: HashSet<_> = found.changes.values().filter_map(of).collect();
        for note in found.partials.into_values() {
            if publishing.contains(&note.transfer) {
                continue;
            }
            if note.outlives_process() {
                drop(self.0.book.adopt_kept(Kept::of(note)));
            } else {
                self.discard_later(vec![Kept::of(note)]);
            }
        }
        for change in found.changes.into_values() {
            self.0.book.adopt_pending(change.clone());
            self.settle(change, &mut report).await?;
        }
        for (change, file) in found.temporaries {
            let Change { event, endpoint, target: path, .. } = change;
            self.0.book.remember(TemporaryKey { site: event.site, endpoint, path }, file);
        }
        self.sweep_staging().await?;
        self.0.book.each_kept(|_| report.partials += 1);
        self.0.book.checkpoint()?;
        Ok(report)
    }

    /// Decides one change of the last run.
    async fn settle(
        &self,
        change: Change,
        report: &mut RecoveryReport,
    ) -> std::result::Result<(), StartError> {
        let endpoint = self.0.db.find::<Endpoint>(change.event.site, &change.endpoint).await?;
        let outcome = match &endpoint {
            None => Err(StoreError::NotFound),
            Some(endpoint) => match self.store(endpoint).await {
                Ok(store) => recovery::look(&store, &change).await,
                Err(error) => Err(StoreError::Unavailable(error.to_string())),
            },
        };
        match outcome {
            Ok(Outcome::Happened(event)) => {
                match &event.fact {
                    entrepot_nouns::Fact::FileRecovered { .. } => report.recovered += 1,
                    entrepot_nouns::Fact::FileUnknown { .. } => report.unknown += 1,
                    _ => report.changes += 1,
                }
                self.0.book.record(&event)?;
                self.0.meters.intent_recovered();
            }
            Ok(Outcome::NotPublished) => {
                report.unpublished += 1;
                self.keep_unpublished(&change);
                self.0.book.dismiss(change.id());
            }
            Ok(Outcome::NotDone) => {
                report.undone += 1;
                self.0.book.dismiss(change.id());
            }
            Err(error) => {
                let endpoint = &change.endpoint;
                tracing::warn!(%error, %endpoint, "a change of the last run waits");
                report.waiting += 1;
                self.0.waiting.lock().push(change);
            }
        }
        Ok(())
    }

    /// A whole upload that was not published: its owner may resume it, all of it is durable.
    fn keep_unpublished(&self, change: &Change) {
        if let Some(left) = &change.left {
            let left = Kept::of((**left).clone());
            self.discard_later(if left.note.outlives_process() {
                self.0.book.keep(left)
            } else {
                vec![left]
            });
            return;
        }
        let Some(file) = change.event.fact.file() else { return };
        let (Some(account), Ok(path)) = (change.event.account.clone(), file.path.parse()) else {
            return;
        };
        let now = self.0.env.now();
        let note = notes::Partial {
            transfer: file.transfer,
            site: change.event.site,
            account,
            path,
            endpoint: change.endpoint.clone(),
            mount: change.mount.clone(),
            target: change.target.clone(),
            protocol: file.protocol,
            contiguous: file.size,
            synced: file.size,
            boot: self.0.boot.clone(),
            started_at: file.started_at,
            at: now,
            until: now.plus(limits::UNPUBLISHED_KEPT),
            ticket: None,
            digest: None,
            replaces: None,
        };
        let displaced = self.0.book.keep(Kept::of(note));
        self.discard_later(displaced);
    }

    /// Drops staged files in a task of their own.
    pub(crate) fn discard_later(&self, kept: Vec<Kept>) {
        if kept.is_empty() {
            return;
        }
        let service = self.clone();
        later(async move {
            for kept in kept {
                service.discard(kept).await;
            }
        });
    }

    /// Drops a partial for good; its room is given back when that is done.
    pub(crate) async fn discard(&self, kept: Kept) {
        let note = &kept.note;
        let endpoint = self.0.db.find::<Endpoint>(note.site, &note.endpoint).await;
        if let Ok(Some(endpoint)) = endpoint
            && let Ok(store) = self.store(&endpoint).await
            && let Err(error) = discard_in(&store, note).await
        {
            tracing::warn!(%error, transfer = %note.transfer, "a partial cannot be dropped");
        }
        self.0.book.forget(note.transfer);
    }

    /// Drops staged files that nobody can resume, where a store lists them by itself.
    async fn sweep_staging(&self) -> std::result::Result<(), StartError> {
        let alone = self.0.db.dialect() == Dialect::Sqlite;
        let age = if alone { Duration::ZERO } else { limits::FOREIGN_STAGING };
        let before = self.0.env.now().minus(age);
        for site in self.0.db.sites().await? {
            for endpoint in self.0.db.list::<Endpoint>(SiteId(site.id)).await? {
                let injected = self.0.options.stores.contains_key(&endpoint.noun.name);
                if injected || matches!(endpoint.noun.target, EndpointTarget::Directory(_)) {
                    self.sweep_endpoint(&endpoint, before).await;
                }
            }
        }
        Ok(())
    }

    async fn sweep_endpoint(&self, endpoint: &Stored<Endpoint>, before: Timestamp) {
        let Ok(store) = self.store(endpoint).await else { return };
        let Ok(staged) = store.staged().await else { return };
        let sizes = staged.iter().map(|file| (file.id, file.size)).collect();
        let name = &endpoint.noun.name;
        self.0.book.reconcile(endpoint.site, name, &self.0.boot, &sizes);
        for file in staged {
            let wanted = file.modified > before || self.0.book.needs_staging(file.id);
            if !wanted && let Err(error) = store.discard_staged(file.id).await {
                tracing::warn!(%error, transfer = %file.id, "a staged file cannot be dropped");
            }
        }
    }

    /// Sweeps, recounts, looks again at what waits, until the end.
    async fn tend(&self) {
        let mut ticks = tokio::time::interval(limits::TICK);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut swept = self.0.env.elapsed();
        loop {
            tokio::select! {
                () = self.0.stop.cancelled() => return,
                _ = ticks.tick() => {}
            }
            if let Err(error) = self.0.book.checkpoint_if_due() {
                tracing::debug!(code = error.code(), %error, "where things stand is not noted");
            }
            let now = self.0.env.elapsed();
            if now.saturating_sub(swept) < limits::SWEEP_EVERY {
                continue;
            }
            swept = now;
            self.sweep().await;
        }
    }

    /// Drops partials whose time is over, looks again at changes that wait for their endpoint,
    /// counts anew what quotas limit.
    pub(crate) async fn sweep(&self) {
        for kept in self.0.book.take_expired(self.0.env.now()) {
            self.discard(kept).await;
        }
        let waiting = std::mem::take(&mut *self.0.waiting.lock());
        for change in waiting {
            let mut report = RecoveryReport::default();
            if let Err(error) = self.settle(change.clone(), &mut report).await {
                tracing::warn!(code = error.code(), %error, "a change of the last run waits");
                self.0.waiting.lock().push(change);
            }
        }
        for (directory, ledger) in self.0.ledgers.due(self.0.env.elapsed()) {
            let store =
                self.0.stores.lock().get(&directory.endpoint).map(|(_, store)| store.clone());
            if let Some(store) = store {
                ledger.recount(&store, &directory.path).await;
            }
        }
    }

    /// A transfer begins.
    pub(crate) fn begun(&self, direction: Direction) {
        self.0.meters.active_changed(direction, 1);
    }
}

async fn discard_in(
    store: &AnyStore,
    note: &notes::Partial,
) -> std::result::Result<(), StoreError> {
    if let Some(ticket) = &note.ticket {
        store.adopt(note.transfer, &note.target, ticket)?;
    }
    store.discard_staged(note.transfer).await
}

/// The store of the spool, without what an earlier process left: it belongs to uploads that nobody
/// can go on with.
async fn spool(options: &ServiceOptions, env: &Env) -> Option<AnyStore> {
    let path = options.spool.as_ref()?;
    let empty = async {
        let spool = entrepot_storage::fs::open(path, env).await?;
        for left in spool.staged().await? {
            spool.discard_staged(left.id).await?;
        }
        Ok::<_, StoreError>(spool)
    };
    empty.await.inspect_err(|error| tracing::error!(%error, "nothing can be spooled")).ok()
}
