//! The lease on one job: kept alive, confirmed before every effect, given up at once when lost.

use std::future::Future;
use std::time::Duration;

use entrepot_db::{DbError, HandOver, JobChange, JobHold, JobWrite, LaneKey, RestsFor};
use entrepot_nouns::{Job, Order};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::backoff::Away;
use crate::limits::REST_LONGEST;
use crate::meters::Meters;
use crate::shared::Shared;
use crate::step::StepError;

/// A leased job. Every write for it carries `epoch`; after the lease is lost nothing is begun.
pub(crate) struct Hold<'a> {
    shared: &'a Shared,
    key: JobHold,
    /// Until when the lease is ours by our own clock, which never jumps.
    until: Mutex<Duration>,
    lost: CancellationToken,
    interrupt: CancellationToken,
}

impl<'a> Hold<'a> {
    /// The lease of a job claimed when `Env::elapsed` was `claimed`.
    pub(crate) fn new(
        shared: &'a Shared,
        job: &Job,
        claimed: Duration,
        interrupt: CancellationToken,
    ) -> Self {
        Hold {
            shared,
            key: JobHold::from(job),
            until: Mutex::new(claimed.saturating_add(shared.options.lease)),
            lost: CancellationToken::new(),
            interrupt,
        }
    }

    /// Why nothing more may be begun, if so.
    pub(crate) fn ended(&self) -> Result<(), StepError> {
        if self.lost.is_cancelled() {
            return Err(StepError::Lost);
        }
        if self.interrupt.is_cancelled() {
            return Err(StepError::Stopped);
        }
        Ok(())
    }

    /// Waits for `what`, which may be abandoned half way: only for what leaves no trace, or a
    /// trace that the next attempt wipes out.
    pub(crate) async fn waiting<T>(&self, what: impl Future<Output = T>) -> Result<T, StepError> {
        tokio::select! {
            biased;
            () = self.lost.cancelled() => Err(StepError::Lost),
            () = self.interrupt.cancelled() => Err(StepError::Stopped),
            value = what => Ok(value),
        }
    }

    /// Confirms in the database, just before an effect, that the job is still ours.
    pub(crate) async fn fence(&self) -> Result<(), StepError> {
        if !self.insist(|| self.extend()).await? {
            return Err(self.lost());
        }
        self.ended()
    }

    /// Repeats a database call while the database is away, as long as the job may be ours.
    pub(crate) async fn insist<T, F, C>(&self, call: C) -> Result<T, StepError>
    where
        F: Future<Output = Result<T, DbError>>,
        C: Fn() -> F,
    {
        let mut away = Away::new();
        loop {
            self.ended()?;
            match call().await {
                Ok(value) => return Ok(value),
                Err(DbError::Unavailable(error)) => {
                    tracing::warn!(code = "EP0801", %error, "a job waits for the database");
                    let pause = away.next(self.shared.recorder.env());
                    self.waiting(tokio::time::sleep(pause)).await?;
                }
                Err(error) => return Err(StepError::transient("EP0801", error.to_string())),
            }
        }
    }

    /// Makes a write for the job, durably. Where the database answers false, another node has the
    /// job: the lease is lost.
    pub(crate) async fn write(&self, change: JobChange) -> Result<(), StepError> {
        if self.insist(|| self.once(change.clone())).await? {
            return Ok(());
        }
        Err(self.lost())
    }

    /// Lets the job rest while others of its order are to end before it; an error then, for the
    /// attempt ends here.
    pub(crate) async fn in_order(&self, order: &Order, lane: &LaneKey) -> Result<(), StepError> {
        let failed = order.failed;
        if self.insist(|| self.shared.db.admit_job(&self.key, failed)).await? {
            return Ok(());
        }
        let at = self.shared.recorder.env().now();
        let due_at = Some(at.plus(REST_LONGEST));
        let (lane, rests_for) = (lane.clone(), vec![RestsFor::Turn(failed)]);
        self.hand_over(HandOver { lane, at, due_at, passed: None, rests_for }).await
    }

    /// Gives the job back, to go on in another lane or later; always an error, for the attempt
    /// ends here.
    pub(crate) async fn hand_over(&self, over: HandOver) -> Result<(), StepError> {
        self.write(JobChange::HandOver(over)).await?;
        Meters::add(&self.shared.meters.jobs_handed_over, 1);
        Err(StepError::HandedOver)
    }

    async fn once(&self, change: JobChange) -> Result<bool, DbError> {
        self.shared.writer.write(JobWrite { hold: self.key.clone(), change }).await
    }

    fn lost(&self) -> StepError {
        self.lost.cancel();
        StepError::Lost
    }

    async fn extend(&self) -> Result<bool, DbError> {
        let env = self.shared.recorder.env();
        let (lease, asked) = (self.shared.options.lease, env.elapsed());
        let kept = self.once(JobChange::Extend(env.now().plus(lease))).await?;
        if kept {
            *self.until.lock() = asked.saturating_add(lease);
        }
        Ok(kept)
    }

    /// Keeps the lease alive at a third of its length; never returns. A database that stays away
    /// longer than the lease loses it: another node may be at work by then.
    pub(crate) async fn heartbeat(&self) {
        let beat = self.shared.options.lease / 3;
        let mut pause = beat;
        while !self.lost.is_cancelled() {
            tokio::time::sleep(pause).await;
            pause = match self.extend().await {
                Ok(true) => beat,
                Ok(false) => {
                    self.lost.cancel();
                    break;
                }
                Err(error) => {
                    tracing::warn!(code = "EP0801", %error, "a lease was not extended");
                    beat / 4
                }
            };
            if self.shared.recorder.env().elapsed() >= *self.until.lock() {
                self.lost.cancel();
            }
        }
        std::future::pending::<()>().await;
    }

    /// Gives the lease back so that the job can be claimed at once; best effort.
    pub(crate) async fn release(&self) {
        let now = self.shared.recorder.env().now();
        if let Err(error) = self.once(JobChange::Extend(now)).await {
            tracing::warn!(code = "EP0807", %error, "a lease was not given back, it runs out");
        }
    }
}
