//! The engine: projects the journal into the database, matches rules, works jobs.
//!
//! | step of "One upload" in ARCHITECTURE.md | code |
//! | --- | --- |
//! | 8 journal → database, exactly once | `projector.rs` |
//! | which rules the clock starts | `schedule.rs`, `schedule/` |
//! | which files that rules expect have not come | `expecting.rs`, `expecting/` |
//! | receipts of AS2 that partners want sent to them | `as2_receipts.rs` |
//! | which files of watched folders start rules | `watching.rs`, `watching/` |
//! | files below a folder of an endpoint | `folders.rs` |
//! | 8 which rules an event starts | `rules.rs`, `condition.rs` |
//! | 9 claim, lease, fence | `worker.rs`, `hold.rs` |
//! | which job gets a place next | `places.rs`, `queue.rs` |
//! | what jobs write, many in a transaction | `job_writer.rs` |
//! | why a rule started, or did not | `explain.rs`, `condition/trace.rs` |
//! | what a rule would do | `dry_run.rs`, `foresight.rs`, `foresee` of the steps |
//! | heartbeat, jobs of dead nodes | `heartbeat.rs`, `membership.rs` |
//! | 9 the steps of one job | `run.rs`, `progress.rs`, `versions.rs`, `step/` |
//! | rules before and after commands, which clients wait for | `hooks.rs` |
//! | what is old is exported and deleted | `retention.rs` |
//! | files that steps make for later ones | `work.rs` |
//! | programs | `exec.rs`, `step/exec.rs` |
//! | other servers | `http_request.rs`, `scanners.rs`, `step/{http,webhook,mail,scan,as2}.rs` |
//! | 10 retries, dead letters | `run.rs`, `backoff.rs` |

mod ahead;
mod as2_fields;
mod as2_receipts;
mod backoff;
mod calendars;
mod check;
mod client_key;
mod condition;
mod dry_run;
mod exec;
mod expecting;
mod explain;
mod files;
#[cfg(test)]
mod fixture;
mod folders;
mod foresight;
mod heartbeat;
mod hold;
mod hooks;
mod http_request;
mod ids;
mod job_writer;
pub mod limits;
mod lint;
mod loops;
mod membership;
mod meters;
mod needs;
mod noted;
mod oauth;
mod own_changes;
mod pattern;
mod pause;
mod places;
mod progress;
mod projector;
mod queue;
mod retention;
mod rules;
mod run;
mod scanners;
mod schedule;
mod session_files;
mod shared;
mod step;
#[cfg(test)]
mod tests;
mod thresholds;
mod times;
mod versions;
mod waited;
mod watching;
mod web_client;
mod work;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use entrepot_auth::{As2Partner, Gate};
use entrepot_db::{Db, Incarnation};
use entrepot_host::Applications;
use entrepot_journal::Recorder;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Endpoint, Name, Pool, Secret, SiteId};
use entrepot_spawn::Spawner;
use entrepot_storage::AnyStore;
use entrepot_vfs::{Hooks, Service};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use as2_receipts::{Partners, ReceiptParts};
use expecting::ExpecterParts;
use files::FileAccess;
use heartbeat::Heart;
use job_writer::JobWriter;
use membership::Membership;
use places::Places;
use schedule::SchedulerParts;
use session_files::SessionFileAccess;
use shared::Shared;
use thresholds::ThresholdParts;
use versions::Versions;
use watching::{Stores, WatcherParts};
use work::WorkArea;

pub use check::{check_rule, test_rule};
pub use dry_run::DryRunner;
pub use explain::explain;
pub use lint::lint;
pub use meters::Meters;
pub use pause::{Pause, Pauses};
pub use places::PoolSizes;
pub use retention::{RetentionParts, RetentionWorker};
pub use rules::replayed_job;
pub use shared::EngineOptions;
pub use step::As2Tester;
pub use times::Times;
pub use work::WorkFolder;

/// What the engine works with.
pub struct EngineParts {
    /// Events, transfers, rules, jobs.
    pub db: Db,
    /// The journal that is projected, the clock and the name of the node.
    pub recorder: Recorder,
    /// Files and endpoints.
    pub vfs: Service,
    /// Admits rules as accounts.
    pub gate: Gate,
    /// Starts the programs of `exec` steps, those that the node allows.
    pub spawner: Spawner,
    /// Host applications, whose procedures steps call.
    pub applications: Applications,
    /// Which start of the node this is, as [`Db::start_node`] counted it; uncounted while the
    /// database is away: see [`Engine::counted`].
    pub incarnation: Incarnation,
    /// Where steps make files for later steps.
    pub work: WorkFolder,
    /// Sizes of pools, length of leases, interval of polls.
    pub options: EngineOptions,
}

/// How far the database is behind the journal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Lag {
    /// Durable records that are not projected.
    pub records: u64,
    /// Age of the oldest event that is being projected, in seconds; 0 if there is none.
    pub seconds: f64,
}

/// A pool of this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolUse {
    /// The pool that is told of.
    pub pool: Pool,
    /// How many places it has.
    pub size: usize,
    /// Those that jobs have.
    pub taken: usize,
}

/// [`EngineParts`] with files of any kind.
struct CoreParts {
    db: Db,
    recorder: Recorder,
    file_access: Box<dyn FileAccess>,
    spawner: Spawner,
    applications: Applications,
    membership: Arc<Membership>,
    work: WorkFolder,
    options: EngineOptions,
}

/// Whether an operator asked the node to take no new work, as the last heartbeat says.
#[derive(Clone)]
pub struct Drained {
    standing: watch::Receiver<membership::Standing>,
    /// What was said when it was last waited for.
    seen: bool,
}

impl Drained {
    /// True while the node takes no new work.
    pub fn is_drained(&self) -> bool {
        self.standing.borrow().incarnation.drained
    }

    /// Waits until that has changed. Waits for ever once the engine has ended.
    pub async fn changed(&mut self) {
        let seen = self.seen;
        let changed = self.standing.wait_for(|standing| standing.incarnation.drained != seen);
        let ended = changed.await.is_err();
        if ended {
            std::future::pending::<()>().await;
        }
        self.seen = !seen;
    }
}

/// The running engine of a node: one task that projects, one that hands out jobs, one that starts
/// rules by the clock, one that says that the node lives.
pub struct Engine {
    shared: Arc<Shared>,
    workers: worker::Stops,
    projection: CancellationToken,
    /// Ends the writer of jobs.
    writing: CancellationToken,
    /// Ends the heartbeat.
    silence: CancellationToken,
    superseded: CancellationToken,
    /// Rules that clients wait for.
    answers: CancellationToken,
    ready: watch::Receiver<bool>,
    /// `None` once it was stopped.
    running: Mutex<Option<Running>>,
}

/// The tasks of an engine.
struct Running {
    working: JoinHandle<()>,
    writer: JoinHandle<()>,
    projecting: JoinHandle<()>,
    beating: JoinHandle<()>,
    scheduling: JoinHandle<()>,
    answering: Option<JoinHandle<()>>,
}

impl Engine {
    /// Starts to project and to work. Must be called inside a tokio runtime.
    pub fn start(parts: EngineParts) -> Engine {
        let EngineParts {
            db,
            recorder,
            vfs,
            gate,
            spawner,
            applications,
            incarnation,
            work,
            options,
        } = parts;
        let hooks = vfs.hooks().clone();
        let file_access = Box::new(SessionFileAccess::new(vfs, gate));
        let membership = Membership::new(incarnation);
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
        let mut engine = Engine::start_in(parts);
        engine.answer(hooks);
        engine
    }

    /// Answers what sessions ask about commands.
    fn answer(&mut self, hooks: Hooks) {
        let Some(questions) = hooks.attach() else { return };
        let ready = watch::Sender::new(false);
        self.ready = ready.subscribe();
        let desk = hooks::Desk { hooks, questions, ready, stop: self.answers.clone() };
        if let Some(running) = self.running.get_mut() {
            running.answering = Some(tokio::spawn(hooks::run(self.shared.clone(), desk)));
        }
    }

    /// Waits until it is known which commands rules look at; before, all are refused.
    pub async fn ready(&self) {
        // The sender ends with the engine; then all commands stay refused.
        let _ = self.ready.clone().wait_for(|ready| *ready).await;
    }

    /// Starts with files of any kind: the seam for tests.
    fn start_in(parts: CoreParts) -> Engine {
        let CoreParts {
            db,
            recorder,
            file_access,
            spawner,
            applications,
            membership,
            work,
            options,
        } = parts;
        let jobs = Arc::<Notify>::default();
        let places = Places::new(recorder.env().clone(), options.pools, jobs.clone());
        let (writer, writes) = JobWriter::new();
        let shared = Arc::new(Shared {
            db,
            recorder,
            file_access,
            spawner,
            applications,
            work: WorkArea::new(work),
            options,
            meters: Arc::default(),
            web: entrepot_net::http::Client::new(entrepot_net::tls::ServerTrust::System),
            tokens: oauth::Tokens::default(),
            scanners: scanners::Scanners::default(),
            versions: Versions::default(),
            membership,
            projected: watch::Sender::new(0),
            jobs,
            places,
            writer,
            nudge: Arc::default(),
            as2_receipts: Arc::default(),
        });
        let (projection, silence) = (CancellationToken::new(), CancellationToken::new());
        let (workers, superseded) = (worker::Stops::default(), CancellationToken::new());
        let projecting = tokio::spawn(projector::run(shared.clone(), projection.clone()));
        let writing = CancellationToken::new();
        let writer = tokio::spawn(job_writer::run(shared.db.clone(), writes, writing.clone()));
        let working = tokio::spawn(worker::run(shared.clone(), workers.clone()));
        let scheduling = tokio::spawn(start_rules(shared.clone(), workers.drain.clone()));
        let heart = Heart {
            db: shared.db.clone(),
            recorder: shared.recorder.clone(),
            membership: shared.membership.clone(),
            projected: shared.projected.subscribe(),
            jobs: shared.jobs.clone(),
            nudge: shared.nudge.clone(),
            program: env!("CARGO_PKG_VERSION").to_owned(),
            superseded: superseded.clone(),
        };
        let beating = tokio::spawn(heartbeat::run(heart, silence.clone()));
        let ready = watch::Sender::new(true).subscribe();
        let running = Running { working, writer, projecting, beating, scheduling, answering: None };
        Engine {
            shared,
            workers,
            projection,
            writing,
            silence,
            superseded,
            answers: CancellationToken::new(),
            ready,
            running: Mutex::new(Some(running)),
        }
    }

    /// Claims no more jobs and takes no more questions, lets what runs of both end within `limit`,
    /// then interrupts jobs where they wait and gives their leases back at once, and kills programs
    /// of rules after commands; projects what is durable by then. An engine that was stopped still
    /// shows its counters.
    pub async fn stop(&self, limit: Duration) {
        let Some(running) = self.running.lock().take() else { return };
        let Running { working, mut writer, mut projecting, beating, scheduling, answering } =
            running;
        self.workers.drain.cancel();
        self.answers.cancel();
        tokio::join!(
            stop_working(working, &self.workers.interrupt, limit),
            stop_answering(answering, limit),
            stop_scheduling(scheduling),
        );
        self.writing.cancel();
        if tokio::time::timeout(limits::STOP_GRACE, &mut writer).await.is_err() {
            writer.abort();
        }
        self.projection.cancel();
        let grace = limit.max(limits::STOP_GRACE);
        if tokio::time::timeout(grace, &mut projecting).await.is_err() {
            projecting.abort();
        }
        // Last, so that the others see how far the journal is projected.
        self.silence.cancel();
        // A panic was logged where it happened.
        let _ = beating.await;
    }

    /// Whether an operator asked this node to take no new work.
    pub fn drained(&self) -> Drained {
        let standing = self.shared.membership.standing.subscribe();
        let seen = standing.borrow().incarnation.drained;
        Drained { standing, seen }
    }

    /// The number of this node among those of the installation.
    pub fn slot(&self) -> Option<u32> {
        self.shared.membership.standing.borrow().incarnation.slot
    }

    /// The database is there and has counted this start of the node: the journal is projected, jobs
    /// are worked and heartbeats are written from now on. Commands were answered by rules before.
    pub fn counted(&self, incarnation: Incarnation) {
        self.shared.membership.counted(incarnation);
    }

    /// Cancelled when another process is found to serve as this node, with a copy of its journal.
    pub fn superseded(&self) -> CancellationToken {
        self.superseded.clone()
    }

    /// Looks for jobs now, such as after an operator's retry.
    pub fn wake(&self) {
        self.shared.jobs.notify_one();
    }

    /// The last record of the journal that is in the database; changes as it goes on.
    pub fn projected(&self) -> watch::Receiver<u64> {
        self.shared.projected.subscribe()
    }

    /// Counters of this engine.
    pub fn meters(&self) -> &Arc<Meters> {
        &self.shared.meters
    }

    /// Bytes of the files that steps of rules made for later steps.
    pub fn work_bytes(&self) -> u64 {
        self.shared.work.used()
    }

    /// The host applications that are deployed here.
    pub fn applications(&self) -> &Applications {
        &self.shared.applications
    }

    /// How many places each pool has, and how many of them jobs have.
    pub fn pools(&self) -> Vec<PoolUse> {
        let places = &self.shared.places;
        let used = |pool| PoolUse { pool, size: places.size(pool), taken: places.taken(pool) };
        Pool::ALL.into_iter().map(used).collect()
    }

    /// How far the database is behind.
    pub fn lag(&self) -> Lag {
        self.shared.nudge.notify_one();
        let durable = self.shared.recorder.journal().usage().durable;
        let seconds = self.shared.meters.oldest_seconds(self.shared.recorder.env().now());
        Lag { records: durable.saturating_sub(*self.shared.projected.borrow()), seconds }
    }
}

async fn stop_working(mut working: JoinHandle<()>, interrupt: &CancellationToken, limit: Duration) {
    if tokio::time::timeout(limit, &mut working).await.is_ok() {
        return;
    }
    interrupt.cancel();
    if tokio::time::timeout(limits::STOP_GRACE, &mut working).await.is_err() {
        tracing::warn!(code = "EP0807", "jobs did not end in time, their leases run out");
        working.abort();
    }
}

/// The endpoints as jobs find them.
struct StoresOf(Arc<Shared>);

#[async_trait]
impl Stores for StoresOf {
    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore, String> {
        self.0.file_access.store(endpoint).await.map_err(|error| error.to_string())
    }
}

/// What starts rules without an event of somebody else: the clock, files of watched folders, and
/// files that have not come; and what looks after the files that steps made.
async fn start_rules(shared: Arc<Shared>, stop: CancellationToken) {
    let clock = schedule::run(scheduler_parts(&shared), stop.clone());
    let parts = WatcherParts {
        db: shared.db.clone(),
        recorder: shared.recorder.clone(),
        membership: shared.membership.clone(),
        stores: Box::new(StoresOf(shared.clone())),
        meters: shared.meters.clone(),
        lease: shared.options.lease,
    };
    let files = watching::run(parts, stop.clone());
    let (db, env) = (shared.db.clone(), shared.recorder.env().clone());
    let sweeping = work::sweep(shared.work.clone(), db, env, stop.clone());
    let parts = ThresholdParts {
        db: shared.db.clone(),
        recorder: shared.recorder.clone(),
        membership: shared.membership.clone(),
    };
    let telling = thresholds::run(parts, stop.clone());
    let expecting = expecting::run(expecter_parts(&shared), stop.clone());
    let receipts = as2_receipts::run(receipt_parts(&shared), stop);
    tokio::join!(clock, files, sweeping, telling, expecting, receipts);
}

/// The partners of AS2 as steps find them.
struct PartnersOf(Arc<Shared>);

#[async_trait]
impl Partners for PartnersOf {
    async fn partner(
        &self,
        site: SiteId,
        endpoint: &Name,
    ) -> Result<Option<Arc<As2Partner>>, String> {
        let found = self.0.file_access.as2_partner(site, endpoint).await;
        found.map_err(|error| error.to_string())
    }

    async fn secret(&self, endpoint: &Stored<Endpoint>) -> Result<Option<Secret>, String> {
        self.0.file_access.secret(endpoint).await.map_err(|error| error.to_string())
    }
}

fn receipt_parts(shared: &Arc<Shared>) -> ReceiptParts {
    ReceiptParts {
        db: shared.db.clone(),
        recorder: shared.recorder.clone(),
        membership: shared.membership.clone(),
        web: shared.web.clone(),
        partners: Box::new(PartnersOf(shared.clone())),
        wake: shared.as2_receipts.clone(),
    }
}

fn scheduler_parts(shared: &Shared) -> SchedulerParts {
    SchedulerParts {
        db: shared.db.clone(),
        recorder: shared.recorder.clone(),
        membership: shared.membership.clone(),
        lease: shared.options.lease,
    }
}

fn expecter_parts(shared: &Shared) -> ExpecterParts {
    ExpecterParts {
        db: shared.db.clone(),
        recorder: shared.recorder.clone(),
        membership: shared.membership.clone(),
        lease: shared.options.lease,
    }
}

/// What it has decided is told by another node, or at the next start, if it does not end in time.
async fn stop_scheduling(mut scheduling: JoinHandle<()>) {
    if tokio::time::timeout(limits::STOP_GRACE, &mut scheduling).await.is_err() {
        scheduling.abort();
    }
}

async fn stop_answering(answering: Option<JoinHandle<()>>, limit: Duration) {
    let Some(mut answering) = answering else { return };
    if tokio::time::timeout(limit, &mut answering).await.is_err() {
        tracing::warn!(code = "EP0826", "programs after commands did not end in time: killed");
        answering.abort();
        // Whatever it answered with is dropped with it.
        let _ = answering.await;
    }
}
