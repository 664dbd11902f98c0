//! Hands out jobs: claims as many as find a place, runs each in a task of its own, and joins them
//! all.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use entrepot_db::limits::CLOCK_AHEAD;
use entrepot_db::{HandOver, JobClaim, LaneKey};
use entrepot_nouns::{Job, JobId, Timestamp};
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tokio::task::{Id, JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

use crate::ahead::{JobAhead, JobsAhead};
use crate::backoff::{Away, spread};
use crate::hold::Hold;
use crate::limits::{AHEAD_LOOK, JOBS_ENDING};
use crate::queue::QueueLook;
use crate::run::{self, ClaimedJob, Failure};
use crate::shared::Shared;
use crate::step::StepError;
use crate::versions::DocumentKey;

/// The two ways to stop.
#[derive(Clone, Default)]
pub(crate) struct Stops {
    /// Claim no more.
    pub(crate) drain: CancellationToken,
    /// End running jobs where they wait.
    pub(crate) interrupt: CancellationToken,
}

/// Claims and runs jobs until told to stop and the last one ended.
pub(crate) async fn run(shared: Arc<Shared>, stops: Stops) {
    if !shared.membership.is_counted(&stops.drain).await {
        return;
    }
    let mut workers = Workers {
        shared,
        stops,
        tasks: JoinSet::new(),
        jobs: HashMap::new(),
        busy: HashMap::new(),
        asked: Timestamp::default(),
        look: QueueLook::default(),
        looked: Duration::ZERO,
        ahead: JobsAhead::default(),
    };
    let mut away = Away::new();
    workers.take_back(&mut away).await;
    while !workers.stops.drain.is_cancelled() {
        let pause = match workers.claim().await {
            Ok(Claimed::Jobs) => Duration::ZERO,
            Ok(Claimed::None) if !workers.ahead.is_empty() => AHEAD_LOOK,
            Ok(Claimed::None) => spread(workers.shared.options.poll, workers.shared.recorder.env()),
            Err(error) => {
                tracing::warn!(code = "EP0801", %error, "no job can be claimed");
                away.next(workers.shared.recorder.env())
            }
        };
        if pause.is_zero() {
            away = Away::new();
        } else {
            workers.wait(pause).await;
        }
    }
    let ahead = workers.ahead.take();
    workers.give_back(ahead).await;
    while let Some(ended) = workers.tasks.join_next_with_id().await {
        workers.ended(ended).await;
    }
}

/// What came of a look at the queue.
enum Claimed {
    /// Jobs that run now.
    Jobs,
    /// Nothing that could.
    None,
}

struct Workers {
    shared: Arc<Shared>,
    stops: Stops,
    tasks: JoinSet<()>,
    /// What each task works on.
    jobs: HashMap<Id, (Arc<Job>, Duration)>,
    /// One at a time of the same job: an old holder that lost its lease to this very node must
    /// have let go of the staged file before the new one begins.
    busy: HashMap<JobId, Arc<Mutex<()>>>,
    /// When jobs were last asked for.
    asked: Timestamp,
    look: QueueLook,
    /// What `Env::elapsed` was at the last look.
    looked: Duration,
    ahead: JobsAhead,
}

impl Workers {
    /// Jobs that earlier starts of this node held when they died are ready at once.
    async fn take_back(&mut self, away: &mut Away) {
        while !self.stops.drain.is_cancelled() {
            let (node, env) = (self.shared.recorder.node_id(), self.shared.recorder.env());
            let incarnation = self.shared.membership.standing.borrow().incarnation.number;
            // The clock may have been set back while the node was down.
            let brought = self.shared.db.bring_jobs_forward(env.now()).await;
            let released = match brought {
                Ok(_) => self.shared.db.release_jobs(node, incarnation, env.now()).await,
                Err(error) => Err(error),
            };
            match released {
                Ok(0) => return,
                Ok(jobs) => {
                    tracing::info!(jobs, "jobs of the last run go on");
                    return;
                }
                Err(error) => {
                    tracing::warn!(code = "EP0801", %error, "jobs of the last run wait");
                    let pause = away.next(self.shared.recorder.env());
                    self.wait(pause).await;
                }
            }
        }
    }

    /// Starts jobs that were claimed ahead and find a place now, and gives back those that wait too
    /// long.
    async fn go_on(&mut self) {
        for (JobAhead { job, claimed: at, .. }, place) in self.ahead.placed(&self.shared.places) {
            self.begin(job, ClaimedJob { at, place });
        }
        let overdue = self.ahead.overdue(self.shared.recorder.env().elapsed());
        self.give_back(overdue).await;
    }

    /// Gives claimed jobs back that have not begun, together: their writes share transactions.
    async fn give_back(&self, jobs: Vec<JobAhead>) {
        let given_back = jobs.into_iter().map(|JobAhead { lane, job, claimed }| async move {
            let hold = Hold::new(&self.shared, &job, claimed, self.stops.interrupt.clone());
            let at = self.shared.recorder.env().now();
            let rests_for = Vec::new();
            let over = HandOver { lane, at, due_at: None, passed: None, rests_for };
            match hold.hand_over(over).await {
                Ok(()) | Err(StepError::HandedOver | StepError::Stopped) => {}
                Err(error) => {
                    tracing::warn!(code = "EP0807", %error, "a lease was not given back");
                }
            }
        });
        join_all(given_back).await;
    }

    /// Claims jobs for the free places.
    async fn claim(&mut self) -> Result<Claimed, entrepot_db::DbError> {
        self.go_on().await;
        let Shared { recorder, membership, projected, options, places, db, .. } = &*self.shared;
        let (env, lease) = (recorder.env(), options.lease);
        let claimed = env.elapsed();
        if !self.ahead.is_empty() && claimed.saturating_sub(self.looked) < AHEAD_LOOK {
            return Ok(Claimed::None);
        }
        self.looked = claimed;
        places.resize(options.pools.changed(membership.standing.borrow().pools));
        let rebuilding = membership.is_rebuilding(*projected.borrow());
        if self.tasks.len() >= places.all().saturating_add(JOBS_ENDING) {
            // The disk does not keep up with the ends of jobs: each that is written wakes us.
            return Ok(Claimed::None);
        }
        if rebuilding || !membership.may_claim(claimed, lease) {
            return Ok(Claimed::None);
        }
        let now = env.now();
        if now.plus(CLOCK_AHEAD) < self.asked {
            let jobs = db.bring_jobs_forward(now).await?;
            tracing::warn!(jobs, "the clock was set back: jobs that wait are tried now");
        }
        self.asked = now;
        let mut taken = self.look.take(db, places, &self.ahead, now).await?;
        if taken.len() == 0 {
            return Ok(Claimed::None);
        }
        let claim = membership.claim(recorder);
        let wants = taken.wants(places);
        let claim = JobClaim { claim, wants: wants.clone(), at: now, until: now.plus(lease) };
        let jobs = self.shared.writer.claim(claim).await?;
        self.shared.meters.claims.add(env.elapsed().saturating_sub(claimed));
        self.look.claimed(&wants, &jobs);
        let found = if jobs.is_empty() { Claimed::None } else { Claimed::Jobs };
        for job in jobs {
            if let Some(place) = taken.place(&job) {
                self.begin(job, ClaimedJob { at: claimed, place });
            } else {
                self.ahead.add(JobAhead { lane: LaneKey::of(&job), job, claimed });
            }
        }
        Ok(found)
    }

    fn begin(&mut self, job: Job, mut claimed: ClaimedJob) {
        claimed.place.begin();
        let span = tracing::info_span!("job", id = %job.id, rule = %job.rule, epoch = job.epoch);
        let (job, at) = (Arc::new(job), claimed.at);
        let turn = self.busy.entry(job.id).or_default().clone();
        let (shared, interrupt) = (self.shared.clone(), self.stops.interrupt.clone());
        let working = job.clone();
        let work = async move {
            let _turn = turn.lock_owned().await;
            run::work(&shared, &working, claimed, interrupt).await;
        };
        let task = self.tasks.spawn(work.instrument(span));
        self.jobs.insert(task.id(), (job, at));
        self.shared.meters.jobs_running.store(self.tasks.len() as u64, Ordering::Relaxed);
    }

    /// Waits for something to do, or for `pause`.
    async fn wait(&mut self, pause: Duration) {
        let shared = self.shared.clone();
        tokio::select! {
            biased;
            () = self.stops.drain.cancelled() => {}
            Some(ended) = self.tasks.join_next_with_id() => self.ended(ended).await,
            () = shared.jobs.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }

    /// Takes note of a task that ended; one that panicked is a fault of ours, and its job fails
    /// at once instead of meeting it again and again.
    async fn ended(&mut self, ended: Result<(Id, ()), JoinError>) {
        let (id, panicked) = match ended {
            Ok((id, ())) => (id, false),
            Err(error) => (error.id(), error.is_panic()),
        };
        self.shared.meters.jobs_running.store(self.tasks.len() as u64, Ordering::Relaxed);
        let Some((job, claimed)) = self.jobs.remove(&id) else { return };
        // Nobody waits for this job's turn any more.
        if self.busy.get(&job.id).is_some_and(|turn| Arc::strong_count(turn) == 1) {
            self.busy.remove(&job.id);
        }
        if panicked {
            let hold = Hold::new(&self.shared, &job, claimed, self.stops.interrupt.clone());
            let error = "EP0813: a step broke, please report the log around it".to_owned();
            let version = job.rule_version.clone();
            let key = version.map(|version| DocumentKey { site: job.site, version });
            let rule = key.and_then(|key| self.shared.versions.get(&key));
            let failure = Failure { error, steps: Vec::new(), rule };
            if let Err(error) = run::fail(&self.shared, &job, &hold, failure).await {
                tracing::error!(code = "EP0813", %error, "a broken job was not put aside");
            }
        }
    }
}
