//! A node in small: real journal, real SQLite, simulated clock, files on stores that fail on
//! command.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use entrepot_auth::{As2Partner, Directory, Gate};
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_db::{Claim, Db, DbError, EventFilter, Incarnation, JobClaim, LaneWant, NodeIdentity};
use entrepot_host::{Applications, Deployment};
use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::dry_run::LookedFor;
use entrepot_nouns::endpoint::MemoryTarget;
use entrepot_nouns::event::{FileFact, HeldFact};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::{DeliverSpec, Existing, Retry, Step, StepSpec, When};
use entrepot_nouns::{
    Endpoint, Env, Event, Fact, Job, JobHolder, JobId, JobState, Key, Name, Noun, Pool, Priority,
    Protocol, Rule, Secret, SiteId, StorePath, Timestamp, TransferId, VPath,
};
use entrepot_spawn::{Allowed, Helper, Spawner, SpawnerOptions};
use entrepot_storage::{
    AnyStore, EntryKind, Existing as Takes, Publish, ReadFile, StagedFile, StoreError, memory,
};
use entrepot_testbed::{Testbed, memory_endpoint};
use entrepot_vfs::{HeldName, Hooks, Service};
use parking_lot::Mutex;

use crate::files::{AccountFiles, FileAccess, Sink, Source};
use crate::limits::BLOCK_BYTES;
use crate::membership::Membership;
use crate::session_files::EndpointFiles;
use crate::step::StepError;
use crate::{CoreParts, Engine, EngineOptions, EngineParts, Meters, Pause, Running, WorkFolder};

pub(crate) const SITE: SiteId = SiteId::MAIN;

pub(crate) use entrepot_testbed::name;

/// Stores by endpoint; files of every account in `home`.
#[derive(Clone)]
pub(crate) struct SimFileAccess {
    pub(crate) home: AnyStore,
    pub(crate) targets: Arc<Mutex<HashMap<String, AnyStore>>>,
    /// Of endpoints that steps talk to.
    pub(crate) secrets: Arc<Mutex<HashMap<String, Secret>>>,
    /// Has the partners of AS2.
    pub(crate) directory: Directory,
}

struct SimAccountFiles(AnyStore);
struct SimSource(Box<dyn ReadFile>);
/// Tells files apart that are being written.
static SINKS: AtomicU64 = AtomicU64::new(1);

struct SimSink {
    staged: Box<dyn StagedFile>,
    path: VPath,
    existing: Existing,
    size: u64,
}

fn at(path: &VPath) -> StorePath {
    path.below(&VPath::root()).unwrap()
}

fn meaning(path: &VPath, error: &StoreError) -> StepError {
    match error {
        StoreError::NotFound => StepError::missing(path),
        StoreError::Exists => StepError::taken(path),
        error => StepError::transient("EP0805", error.to_string()),
    }
}

#[async_trait]
impl FileAccess for SimFileAccess {
    async fn open_account(
        &self,
        _job: &Job,
        account: &Name,
    ) -> Result<Box<dyn AccountFiles>, StepError> {
        if account.as_str() == "nobody" {
            return Err(StepError::permanent("EP0811", "no such account"));
        }
        Ok(Box::new(SimAccountFiles(self.home.clone())))
    }

    async fn secret(&self, endpoint: &Stored<Endpoint>) -> Result<Option<Secret>, StepError> {
        Ok(self.secrets.lock().get(endpoint.noun.name.as_str()).cloned())
    }

    async fn as2_partner(
        &self,
        site: SiteId,
        endpoint: &Name,
    ) -> Result<Option<Arc<As2Partner>>, StepError> {
        self.directory.refresh().await.unwrap();
        Ok(self.directory.as2_partner(site, endpoint).await.unwrap())
    }

    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore, StepError> {
        let targets = self.targets.lock();
        let found = targets.get(endpoint.noun.name.as_str()).cloned();
        found.ok_or_else(|| StepError::transient("EP0805", "cannot be reached"))
    }

    /// What is sealed in this world is the secret itself.
    async fn private_key(&self, _site: SiteId, key: &Key) -> Result<Secret, StepError> {
        let sealed = key.private_sealed.as_ref();
        let none = || StepError::permanent("EP0872", "no private half");
        sealed.map(|sealed| Secret::new(sealed.0.as_bytes())).ok_or_else(none)
    }

    async fn open_endpoint(
        &self,
        endpoint: &Stored<Endpoint>,
        env: &Env,
    ) -> Result<Box<dyn AccountFiles>, StepError> {
        let (name, store) = (endpoint.noun.name.clone(), self.store(endpoint).await?);
        Ok(Box::new(EndpointFiles { endpoint: name, store, directory: None, env: env.clone() }))
    }

    async fn hold_name(
        &self,
        _endpoint: &Stored<Endpoint>,
        _path: &StorePath,
        _size: u64,
    ) -> Result<Option<HeldName>, StepError> {
        Ok(None)
    }
}

#[async_trait]
impl AccountFiles for SimAccountFiles {
    async fn open(&self, path: &VPath) -> Result<Box<dyn Source>, StepError> {
        let file = self.0.open(&at(path)).await.map_err(|error| meaning(path, &error))?;
        Ok(Box::new(SimSource(file)))
    }
    async fn look(&self, path: &VPath) -> Result<LookedFor, StepError> {
        match self.0.stat(&at(path)).await {
            Ok(meta) => Ok(crate::foresight::of_meta(&meta)),
            Err(StoreError::NotFound) => Ok(LookedFor::Nothing),
            Err(error) => Err(meaning(path, &error)),
        }
    }
    async fn names(
        &self,
        directory: &VPath,
        wanted: &(dyn for<'n> Fn(&'n str) -> bool + Sync),
    ) -> Result<Vec<String>, StepError> {
        let wrong = |error: StoreError| meaning(directory, &error);
        let mut listing = self.0.list(&at(directory)).await.map_err(wrong)?;
        let mut names = Vec::new();
        loop {
            let page = listing.next_page(2).await.map_err(wrong)?;
            if page.is_empty() {
                return Ok(names);
            }
            let files = page.into_iter().filter(|entry| entry.meta.kind == EntryKind::File);
            names.extend(files.map(|entry| entry.name).filter(|name| wanted(name)));
        }
    }
    async fn local(&self, _path: &VPath) -> Result<Option<PathBuf>, StepError> {
        Ok(None)
    }
    async fn rename(&self, from: &VPath, to: &VPath, existing: Existing) -> Result<(), StepError> {
        let existing = existing.into();
        let renamed = self.0.rename(&at(from), &at(to), existing).await;
        renamed.map(drop).map_err(|error| meaning(from, &error))
    }
    async fn release(&self, held: &HeldFact, existing: Existing) -> Result<(), StepError> {
        let path: VPath = held.file.path.parse().unwrap();
        let kept = entrepot_vfs::held_at(&held.prefix.parse().unwrap(), held.file.transfer);
        let renamed = self.0.rename(&kept.unwrap(), &at(&path), existing.into()).await;
        renamed.map(drop).map_err(|error| meaning(&path, &error))
    }
    async fn remove(&self, path: &VPath) -> Result<(), StepError> {
        self.0.remove(&at(path)).await.map_err(|error| meaning(path, &error))
    }
    async fn make_directory(&self, path: &VPath) -> Result<(), StepError> {
        self.0.make_directory(&at(path)).await.map_err(|error| meaning(path, &error))
    }
    async fn create(
        &self,
        path: &VPath,
        existing: Existing,
        size: u64,
    ) -> Result<Box<dyn Sink>, StepError> {
        let target = at(path);
        if target.parent().is_some_and(|parent| !parent.is_root()) {
            let parent = target.parent().unwrap();
            self.0.stat(&parent).await.map_err(|error| meaning(path, &error))?;
        }
        let number = SINKS.fetch_add(1, Ordering::Relaxed);
        let id = TransferId(uuid::Uuid::from_u128(u128::from(number)));
        let staged = self.0.stage(id, &target).await.map_err(|error| meaning(path, &error))?;
        Ok(Box::new(SimSink { staged, path: path.clone(), existing, size }))
    }
    async fn close(self: Box<Self>) {}
}

#[async_trait]
impl Sink for SimSink {
    async fn write_at(&mut self, offset: u64, block: Bytes) -> Result<(), StepError> {
        let written = self.staged.write_at(offset, block).await;
        written.map_err(|error| meaning(&self.path, &error))
    }
    async fn finish(self: Box<Self>) -> Result<(), StepError> {
        let existing = self.existing.into();
        let how = Publish { existing, accessed: None, modified: None, mode: None, size: self.size };
        self.staged.sync().await.map_err(|error| meaning(&self.path, &error))?;
        let published = self.staged.publish(&how).await;
        published.map(drop).map_err(|error| meaning(&self.path, &error))
    }
    async fn abort(self: Box<Self>) {
        let _ = self.staged.discard().await;
    }
}

#[async_trait]
impl Source for SimSource {
    fn size(&self) -> u64 {
        self.0.meta().size
    }
    fn modified(&self) -> Timestamp {
        self.0.meta().modified
    }
    async fn read_at(&self, offset: u64, buf: BytesMut, len: usize) -> Result<BytesMut, StepError> {
        let read = self.0.read_at(offset, buf, len).await;
        read.map_err(|error| StepError::transient("EP0805", error.to_string()))
    }
}

/// The next start of the node with this journal, which is made known with the first.
pub(crate) async fn next_start(db: &Db, recorder: &Recorder) -> Incarnation {
    let (id, name) = (recorder.node_id(), recorder.node().clone());
    let identity = NodeIdentity { id, name, program: "1".to_owned() };
    let mut tx = db.begin().await.unwrap();
    tx.join_node(db, &identity).await.unwrap();
    tx.commit().await.unwrap();
    db.start_node(&identity, 0).await.unwrap().unwrap()
}

/// A node that has no journal here, as it claims jobs.
pub(crate) async fn stranger(db: &Db, env: &Env, label: &str) -> Claim {
    let identity = NodeIdentity { id: env.new_id(), name: name(label), program: "1".to_owned() };
    let mut tx = db.begin().await.unwrap();
    tx.join_node(db, &identity).await.unwrap();
    tx.commit().await.unwrap();
    let Incarnation { number, era, beats, .. } =
        db.start_node(&identity, 0).await.unwrap().unwrap();
    let holder = JobHolder { node: identity.id, incarnation: number, era };
    Claim { node: identity.name, holder, beats }
}

/// One job that may be claimed now, whatever its lane.
pub(crate) async fn take_one(
    db: &Db,
    claim: &Claim,
    now: Timestamp,
    lease: Duration,
) -> Result<Vec<Job>, DbError> {
    let mut wants = Vec::new();
    for pool in Pool::ALL {
        for lane in db.due_lanes(pool, None, now, 1).await? {
            wants.push(LaneWant { lane, max: 1, since: None, at_once: None });
        }
    }
    wants.truncate(1);
    let (claim, until) = (claim.clone(), now.plus(lease));
    db.claim_jobs(&JobClaim { claim, wants, at: now, until }).await
}

/// Programs of the system, started by a thread of the test.
fn spawner() -> Spawner {
    let allowed = Allowed::new(["/bin", "/usr/bin"].map(PathBuf::from)).unwrap();
    let options = SpawnerOptions { helper: Helper::Thread, ..SpawnerOptions::new(allowed) };
    Spawner::new(options, Env::real())
}

pub(crate) fn memory_store(env: &Env) -> AnyStore {
    memory::open(&MemoryTarget { size_bytes: Some(1 << 30) }, env).unwrap()
}

/// A folder of a node that no program can look into.
pub(crate) fn work_folder(env: &Env) -> WorkFolder {
    WorkFolder { store: memory_store(env), path: None, limit: 1 << 30 }
}

/// Whether an attempt was dropped whose lease now runs out.
#[derive(Clone, Copy, Default, PartialEq)]
enum Left {
    #[default]
    Nothing,
    JustNow,
    /// It held the only job that runs, by this lease.
    Alone(i64),
}

/// The node, and what lies around it.
pub(crate) struct World {
    pub(crate) bed: Arc<Testbed>,
    pub(crate) env: Env,
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) file_access: SimFileAccess,
    pub(crate) options: EngineOptions,
    pub(crate) spawner: Spawner,
    /// The files that steps make on this node.
    pub(crate) work: WorkFolder,
    /// The host applications whose procedures steps can call.
    pub(crate) deployed: Vec<Deployment>,
    /// The start that the engine begins as.
    next: Incarnation,
    engine: Option<Engine>,
    left: Arc<Mutex<Left>>,
    /// Who else has the file of the database open.
    other: Arc<Mutex<Option<rusqlite::Connection>>>,
    files: u64,
}

impl World {
    pub(crate) async fn new(seed: u64) -> World {
        // What is tried here is order, not disks.
        let bed = Arc::new(Testbed::start_in_memory(Env::simulated(seed)).await);
        let (env, db, recorder) = (bed.env.clone(), bed.db.clone(), bed.recorder.clone());
        let next = next_start(&db, &recorder).await;
        let home = memory_store(&env);
        for directory in ["in", "done"] {
            home.make_directory(&directory.parse().unwrap()).await.unwrap();
        }
        let directory = Directory::new(db.clone(), env.clone(), bed.master.clone());
        let (targets, secrets) = (Arc::default(), Arc::default());
        let file_access = SimFileAccess { home, targets, secrets, directory };
        let options = EngineOptions { poll: Duration::from_millis(400), ..Default::default() };
        let spawner = spawner();
        let work = work_folder(&env);
        World {
            bed,
            env,
            db,
            recorder,
            file_access,
            options,
            spawner,
            work,
            deployed: Vec::new(),
            next,
            engine: None,
            left: Arc::default(),
            other: Arc::default(),
            files: 0,
        }
    }

    /// Another node, with a journal of its own over the same database, clock and stores.
    pub(crate) async fn beside(&self, label: &str) -> World {
        self.with_recorder(self.bed.recorder_beside(label)).await
    }

    /// A node with this recorder over the same database, clock and stores.
    pub(crate) async fn with_recorder(&self, recorder: Recorder) -> World {
        let next = next_start(&self.db, &recorder).await;
        World {
            bed: self.bed.clone(),
            env: self.env.clone(),
            db: self.db.clone(),
            recorder,
            file_access: self.file_access.clone(),
            options: self.options.clone(),
            spawner: self.spawner.clone(),
            work: work_folder(&self.env),
            deployed: self.deployed.clone(),
            next,
            engine: None,
            left: self.left.clone(),
            other: self.other.clone(),
            files: 0,
        }
    }

    /// From now on writes that `what` describes, such as `UPDATE ON jobs`, find the database's
    /// disk full, which SQLite says too of a table whose last number is used up: the database is
    /// `DbError::Unavailable` for them, and for nothing else.
    pub(crate) async fn database_refuses(&self, what: &str) {
        self.sql(format!(
            "CREATE TABLE IF NOT EXISTS brim (id INTEGER PRIMARY KEY AUTOINCREMENT);
             INSERT OR IGNORE INTO brim VALUES (9223372036854775807);
             CREATE TRIGGER away BEFORE {what} BEGIN INSERT INTO brim VALUES (NULL); END;"
        ))
        .await;
    }

    /// Ends [`World::database_refuses`].
    pub(crate) async fn database_is_back(&self) {
        self.sql("DROP TRIGGER away".to_owned()).await;
    }

    /// As a restore, or a failover that loses commits: the database is as it was before there were
    /// events. Nodes and rules are there.
    pub(crate) async fn database_falls_back(&self) {
        let tables = [
            "jobs",
            "job_steps",
            "job_waits",
            "job_approval_answers",
            "job_approvals",
            "transfers",
        ];
        let emptied: String = tables.map(|table| format!("DELETE FROM {table};")).concat();
        let events = "DELETE FROM events WHERE node_sequence IS NOT NULL;";
        let beats = "UPDATE nodes SET projected_up_to = 0, beats = 0";
        self.sql(format!("BEGIN; {emptied} {events} {beats}; COMMIT")).await;
    }

    /// As somebody else who has the file of the database open.
    pub(crate) async fn sql(&self, text: String) {
        self.with_other(move |other| other.execute_batch(&text).unwrap()).await;
    }

    /// The one number that a query gives.
    pub(crate) async fn number(&self, query: String) -> i64 {
        self.with_other(move |other| other.query_row(&query, [], |row| row.get(0)).unwrap()).await
    }

    /// Works with a connection of somebody else. It is kept: a new one reads the whole schema,
    /// which takes longer than what tests ask, and they ask often.
    async fn with_other<T: Send + 'static>(
        &self,
        act: impl FnOnce(&rusqlite::Connection) -> T + Send + 'static,
    ) -> T {
        let (path, other) = (self.bed.database(), self.other.clone());
        let work = tokio::task::spawn_blocking(move || {
            let mut other = other.lock();
            let other = other.get_or_insert_with(|| {
                let new = rusqlite::Connection::open(path).unwrap();
                new.busy_timeout(Duration::from_secs(30)).unwrap();
                new
            });
            act(other)
        });
        work.await.unwrap()
    }

    /// Counters of the running engine.
    pub(crate) fn count(&self, counter: fn(&Meters) -> &AtomicU64) -> u64 {
        counter(self.engine().meters()).load(Ordering::Relaxed)
    }

    pub(crate) async fn put<N: Noun>(&self, noun: &N) {
        self.bed.put(noun).await;
    }

    /// An endpoint named `label` whose files are in `store`.
    pub(crate) async fn target(&self, label: &str, store: AnyStore) {
        self.put(&memory_endpoint(label)).await;
        self.file_access.targets.lock().insert(label.to_owned(), store);
    }

    /// Starts an engine that finds files in sessions of `vfs`.
    pub(crate) fn start_with(&mut self, vfs: Service, gate: Gate) {
        let (db, recorder) = (self.db.clone(), self.recorder.clone());
        let options = self.watched_options();
        let (spawner, incarnation) = (self.spawner.clone(), self.next.clone());
        let work = self.work.clone();
        let applications = Applications::new(recorder.clone());
        let parts = EngineParts {
            db,
            recorder,
            vfs,
            gate,
            spawner,
            applications,
            incarnation,
            work,
            options,
        };
        self.engine = Some(Engine::start(parts));
    }

    pub(crate) fn start(&mut self) {
        let file_access = Box::new(self.file_access.clone());
        let (db, recorder) = (self.db.clone(), self.recorder.clone());
        let (spawner, options) = (self.spawner.clone(), self.watched_options());
        let membership = Membership::new(self.next.clone());
        let work = self.work.clone();
        let applications = Applications::new(recorder.clone());
        let refused = applications.settle(self.deployed.clone());
        assert!(refused.is_empty(), "{refused:?}");
        let parts = CoreParts {
            db,
            recorder,
            file_access,
            spawner,
            applications,
            membership,
            work,
            options,
        };
        self.engine = Some(Engine::start_in(parts));
    }

    /// The options, and what is dropped is told to [`World::turn`].
    fn watched_options(&self) -> EngineOptions {
        let mut options = self.options.clone();
        if let Some(pauses) = options.pauses.take() {
            let left = self.left.clone();
            options.pauses = Some(Arc::new(move |at| {
                let drops = pauses(at);
                if drops {
                    *left.lock() = Left::JustNow;
                }
                drops
            }));
        }
        options
    }

    /// The running engine answers what is asked about commands.
    pub(crate) fn answer(&mut self, hooks: Hooks) {
        self.engine.as_mut().unwrap().answer(hooks);
    }

    pub(crate) fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    /// As `kill -9`, before the next start: every task ends at the await it is at.
    pub(crate) async fn kill(&mut self) {
        self.die().await;
        self.next = next_start(&self.db, &self.recorder).await;
    }

    /// As [`World::kill`], and the node does not come back.
    pub(crate) async fn die(&mut self) {
        let engine = self.engine.take().unwrap();
        let running = engine.running.lock().take().unwrap();
        let Running { working, writer, projecting, beating, scheduling, .. } = running;
        for task in [working, writer, projecting, beating, scheduling] {
            task.abort();
            let _ = task.await;
        }
    }

    pub(crate) async fn stop(&mut self, limit: Duration) {
        self.engine.take().unwrap().stop(limit).await;
        self.next = next_start(&self.db, &self.recorder).await;
    }

    /// Publishes a file in the account's view and records its upload; returns the event.
    pub(crate) async fn upload(&mut self, path: &str, content: &[u8]) -> Event {
        let event = self.publish(path, content).await;
        self.recorder.seal(&event).await.unwrap();
        event
    }

    /// Publishes a file; the event is only made.
    pub(crate) async fn publish(&mut self, path: &str, content: &[u8]) -> Event {
        let path: VPath = path.parse().unwrap();
        let file = fact(&self.env, &path, content);
        let home = &self.file_access.home;
        let staged = home.stage(file.transfer, &at(&path)).await.unwrap();
        staged.write_at(0, Bytes::copy_from_slice(content)).await.unwrap();
        staged.sync().await.unwrap();
        staged.publish(&published(content.len() as u64)).await.unwrap();
        self.files += 1;
        let scope = Scope { account: Some(name("acme")), ..Scope::site(SITE) };
        self.recorder.event(&scope, Fact::FileUploaded { file })
    }

    /// Moves the clock until the job has ended, or fails.
    pub(crate) async fn ended(&self, job: JobId) -> Job {
        for _ in 0..20_000 {
            if let Some(found) = self.db.job(SITE, job).await.unwrap()
                && matches!(found.state, JobState::Done | JobState::Failed | JobState::Cancelled)
            {
                return found;
            }
            self.turn().await;
        }
        panic!("the job did not end: {:?}", self.db.job(SITE, job).await.unwrap());
    }

    /// A little time passes, for us and for everybody.
    pub(crate) async fn turn(&self) {
        // Behind whatever the engine is writing, so that time does not outrun a busy machine. What
        // a broken disk says is the engine's to hear.
        let journal = self.recorder.journal();
        let _ = journal.sync(journal.usage().appended).await;
        self.db.take_code(SITE, &name("nobody"), 0).await.unwrap();
        let is_left = *self.left.lock() != Left::Nothing && self.is_left_alone().await;
        let step = Duration::from_millis(if is_left { 1_000 } else { 100 });
        self.env.advance(step);
        tokio::time::advance(step).await;
        tokio::task::yield_now().await;
    }

    /// True while the only job that runs is nobody's, until its lease ends: no work can be outrun
    /// by larger steps of time, and most time of tests that drop attempts passes then.
    async fn is_left_alone(&self) -> bool {
        let query = "SELECT CASE count(*) WHEN 1 THEN max(epoch) ELSE -1 END FROM jobs
                     WHERE state = 'running'";
        let lease = self.number(query.to_owned()).await;
        let mut left = self.left.lock();
        let is_alone = (*left == Left::JustNow && lease >= 0) || *left == Left::Alone(lease);
        *left = if is_alone { Left::Alone(lease) } else { Left::Nothing };
        is_alone
    }

    /// Waits until `is` says so.
    pub(crate) async fn until(&self, mut is: impl AsyncFnMut(&World) -> bool) {
        for _ in 0..20_000 {
            if is(self).await {
                return;
            }
            self.turn().await;
        }
        panic!("it never came to that");
    }

    /// Waits until the database has all that is durable now.
    pub(crate) async fn projected(&self) {
        self.until(async |world| world.engine().lag().records == 0).await;
    }

    /// The store of the endpoint `partner`.
    pub(crate) fn partner(&self) -> AnyStore {
        self.file_access.targets.lock()["partner"].clone()
    }

    /// As an administrator does.
    pub(crate) async fn retry(&self, job: JobId, at: Timestamp) -> bool {
        let mut tx = self.db.begin().await.unwrap();
        let done = tx.retry_job(SITE, job, at).await.unwrap();
        tx.commit().await.unwrap();
        done
    }

    pub(crate) async fn cancel(&self, job: JobId) -> bool {
        let mut tx = self.db.begin().await.unwrap();
        let done = tx.cancel_job(SITE, job, self.env.now()).await.unwrap();
        tx.commit().await.unwrap();
        done
    }

    pub(crate) async fn events(&self, kind: &str) -> Vec<Event> {
        let kinds = vec![kind.to_owned()];
        let filter = EventFilter { kinds, ..EventFilter::default() };
        let rows = self.db.events(SITE, &filter).await.unwrap();
        rows.into_iter().map(|row| row.event).collect()
    }

    pub(crate) async fn all_events(&self) -> Vec<Event> {
        let rows = self.db.events(SITE, &EventFilter::default()).await.unwrap();
        rows.into_iter().map(|row| row.event).collect()
    }

    pub(crate) async fn job_of(&self, event: &Event, rule: &str) -> JobId {
        let rule = self.db.find::<Rule>(SITE, &name(rule)).await.unwrap().unwrap();
        crate::ids::job(event.id, rule.id)
    }
}

/// The rule `r`, which does these steps with each upload.
pub(crate) fn doing(list: serde_json::Value) -> Rule {
    Rule { steps: serde_json::from_value(list).unwrap(), ..rule("r", Vec::new()) }
}

/// How a file of this size is published in place of any other.
pub(crate) fn published(size: u64) -> Publish {
    Publish { existing: Takes::Replace, accessed: None, modified: None, mode: None, size }
}

pub(crate) fn fact(env: &Env, path: &VPath, content: &[u8]) -> FileFact {
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    digest.update(content);
    FileFact {
        transfer: env.new_id(),
        path: path.to_string(),
        size: content.len() as u64,
        digests: digest.finish(),
        protocol: Protocol::Sftp,
        started_at: env.now(),
        identity: None,
        displaced: None,
        temporary: false,
        as2: None,
    }
}

pub(crate) fn rule(label: &str, steps: Vec<StepSpec>) -> Rule {
    let steps = steps.into_iter().map(Step::from).collect();
    Rule {
        name: name(label),
        enabled: true,
        paused: false,
        when: When::Event("file.uploaded".to_owned()).into(),
        condition: None,
        run_as: None,
        steps,
        otherwise: Vec::new(),
        retry: Retry::default(),
        order: None,
        loop_limit: None,
        priority: Priority::Normal,
        tests: Vec::new(),
        note: String::new(),
    }
}

pub(crate) fn deliver(endpoint: &str, path: &str, existing: Existing) -> StepSpec {
    StepSpec::Deliver(DeliverSpec { endpoint: name(endpoint), path: path.to_owned(), existing })
}

/// Content of `blocks` blocks and a bit.
pub(crate) fn content(blocks: usize, seed: u8) -> Vec<u8> {
    (0..blocks * BLOCK_BYTES + 17).map(|at| (at / 251) as u8 ^ seed).collect()
}

/// All files of a store with their content.
pub(crate) async fn files(store: &AnyStore) -> HashMap<String, Vec<u8>> {
    let mut found = HashMap::new();
    let mut folders = vec![StorePath::root()];
    while let Some(folder) = folders.pop() {
        let mut listing = store.list(&folder).await.unwrap();
        loop {
            let page = listing.next_page(100).await.unwrap();
            if page.is_empty() {
                break;
            }
            for entry in page {
                let path = folder.join(&entry.name).unwrap();
                match entry.meta.kind {
                    EntryKind::Link => {}
                    EntryKind::Directory => folders.push(path),
                    EntryKind::File => {
                        let file = store.open(&path).await.unwrap();
                        let size = entry.meta.size as usize;
                        let bytes = file.read_at(0, BytesMut::new(), size + 1).await.unwrap();
                        found.insert(path.to_string(), bytes.to_vec());
                    }
                }
            }
        }
    }
    found
}

/// Where an attempt is cut short, as by a crash.
pub(crate) struct Cut {
    /// At the pause of this number, from 0 on, of whichever node.
    pub(crate) at: usize,
    seen: Arc<AtomicUsize>,
}

impl Cut {
    /// What ends the attempt there.
    pub(crate) fn pauses(&self) -> Option<crate::Pauses> {
        let (seen, at) = (self.seen.clone(), self.at);
        Some(Arc::new(move |_: Pause| seen.fetch_add(1, Ordering::SeqCst) == at))
    }

    /// How many pauses there were so far.
    pub(crate) fn seen(&self) -> usize {
        self.seen.load(Ordering::SeqCst)
    }
}

/// Tries a cut at each pause, until one lies behind the last; how many there were before it.
pub(crate) async fn cut_everywhere(mut tried: impl AsyncFnMut(&Cut)) -> usize {
    let mut at = 0;
    loop {
        let cut = Cut { at, seen: Arc::default() };
        tried(&cut).await;
        if cut.seen() <= at {
            return at;
        }
        at += 1;
    }
}

/// Drops the job the first time it reaches `point`; tells whether it did.
pub(crate) fn drop_once(point: Pause) -> (crate::Pauses, Arc<AtomicBool>) {
    let dropped = Arc::new(AtomicBool::new(false));
    let told = dropped.clone();
    let pauses: crate::Pauses =
        Arc::new(move |reached| reached == point && !told.swap(true, Ordering::SeqCst));
    (pauses, dropped)
}
