//! One attempt of one job: its steps in order, from where the last attempt stood.
//!
//! The cursor in the table is the number of steps done. While `else` steps run it is
//! `done + ELSE_UNIT · (1 + else steps done)`, so that both are known after a crash and an
//! operator's retry goes on with the step that failed.

use std::time::Duration;

use entrepot_db::JobEnd;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::StepSpec;
use entrepot_nouns::{Endpoint, Event, EventId, Fact, Job, Name, Rule, VPath, crash};
use tokio_util::sync::CancellationToken;

use crate::files::AccountFiles;
use crate::hold::Hold;
use crate::limits::{ERROR_CHARACTERS, LEASES_OVER};
use crate::meters::Meters;
use crate::pause::Pause;
use crate::step::{self, StepError};
use crate::{Shared, backoff, ids, pattern, rules};

/// One `else` step, in the cursor. No rule has as many steps.
const ELSE_UNIT: u32 = 1 << 16;

/// One attempt under way.
pub(crate) struct Run<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) job: &'a Job,
    pub(crate) hold: &'a Hold<'a>,
    /// The file whose content was last compared with the event, by this attempt.
    pub(crate) verified: Option<step::Seen>,
    rule: Rule,
    /// Where the file is now: the event's path, or where the last move put it.
    path: Option<Result<VPath, StepError>>,
    files: Option<Box<dyn AccountFiles>>,
}

/// Works `job`, claimed when `Env::elapsed` was `claimed`, until it ends, waits for its next
/// attempt, or is lost.
pub(crate) async fn work(
    shared: &Shared,
    job: &Job,
    claimed: Duration,
    interrupt: CancellationToken,
) {
    let hold = Hold::new(shared, job, claimed, interrupt);
    let ended = tokio::select! {
        biased;
        ended = attempt(shared, job, &hold) => ended,
        () = hold.heartbeat() => Err(StepError::Lost),
    };
    match ended {
        Ok(()) | Err(StepError::Dropped) => {}
        Err(StepError::Stopped) => {
            Meters::add(&shared.meters.jobs_released, 1);
            hold.release().await;
        }
        Err(error) => {
            Meters::add(&shared.meters.jobs_released, 1);
            tracing::warn!(code = "EP0807", %error, "a job is left to its next holder");
        }
    }
}

async fn attempt(shared: &Shared, job: &Job, hold: &Hold<'_>) -> Result<(), StepError> {
    if job.epoch > 1 || job.repeated {
        caught_up(shared, hold).await?;
    }
    let found = hold.insist(|| shared.db.find::<Rule>(job.site, &job.rule)).await?;
    let Some(Stored { noun: rule, .. }) = found else {
        let error = format!("EP0811: rule '{}' was deleted", job.rule);
        return fail(shared, job, hold, error).await;
    };
    let mut run = Run { shared, job, hold, verified: None, rule, path: None, files: None };
    let ended = run.attempt().await;
    if let Some(files) = run.files.take() {
        files.close().await;
    }
    ended
}

/// Waits until the database knows all that this node recorded before now: an earlier attempt's
/// `file.delivered` may be among it.
async fn caught_up(shared: &Shared, hold: &Hold<'_>) -> Result<(), StepError> {
    let durable = shared.recorder.journal().usage().durable;
    let mut projected = shared.projected.subscribe();
    while *projected.borrow_and_update() < durable {
        shared.nudge.notify_one();
        // The sender lives as long as `shared`.
        let _ = hold.waiting(projected.changed()).await?;
    }
    Ok(())
}

/// Records the last failure of `job` and puts it into the dead-letter state.
pub(crate) async fn fail(
    shared: &Shared,
    job: &Job,
    hold: &Hold<'_>,
    error: String,
) -> Result<(), StepError> {
    // Whoever has the job now says how it ends.
    hold.fence().await?;
    let error: String = error.chars().take(ERROR_CHARACTERS).collect();
    let (rule, attempts) = (job.rule.clone(), job.attempts);
    tracing::error!(code = "EP0806", rule = rule.as_str(), attempts, error, "a job failed");
    // The same for every lease of this life of the job; an operator's retry begins another one.
    let life = u32::try_from(job.epoch.saturating_sub(i64::from(attempts))).unwrap_or(u32::MAX);
    let fact = Fact::JobFailed { rule, attempts, error: error.clone() };
    let event = tell(shared, job, ids::told(job.id, "failed", life), fact);
    seal(shared, &event).await?;
    end(shared, hold, JobEnd::Failed { error }).await?;
    Meters::add(&shared.meters.jobs_failed, 1);
    Ok(())
}

fn tell(shared: &Shared, job: &Job, id: EventId, fact: Fact) -> Event {
    let mut scope = rules::caused_by(&job.event);
    scope.job = Some(job.id);
    Event { id, ..shared.recorder.event(&scope, fact) }
}

async fn seal(shared: &Shared, event: &Event) -> Result<(), StepError> {
    match shared.recorder.seal(event).await {
        Ok(_) => Ok(()),
        Err(error) => Err(StepError::transient(error.code(), error.to_string())),
    }
}

async fn end(shared: &Shared, hold: &Hold<'_>, end: JobEnd) -> Result<(), StepError> {
    let now = shared.recorder.env().now();
    hold.write(|| shared.db.end_job(hold.key(), end.clone(), now)).await
}

impl Run<'_> {
    /// True if an earlier lease may have left something behind.
    pub(crate) fn again(&self) -> bool {
        self.job.epoch > 1 || self.job.repeated
    }

    /// A point at which tests may end the attempt.
    pub(crate) fn reached(&self, pause: Pause) -> Result<(), StepError> {
        match &self.shared.options.pauses {
            Some(pauses) if pauses(pause) => Err(StepError::Dropped),
            _ => Ok(()),
        }
    }

    /// Records an event of this job, durably.
    pub(crate) async fn seal(&self, event: &Event) -> Result<(), StepError> {
        seal(self.shared, event).await
    }

    /// Where the file is in the account's view.
    pub(crate) fn path(&self) -> Result<VPath, StepError> {
        if let Some(path) = &self.path {
            return path.clone();
        }
        let kind = self.job.event.fact.kind();
        let none = || StepError::permanent("EP0812", format!("event '{kind}' is about no file"));
        let path = pattern::event_path(&self.job.event).ok_or_else(none)?;
        path.parse().map_err(|_| none())
    }

    /// The account's view of files.
    pub(crate) async fn files(&mut self) -> Result<&dyn AccountFiles, StepError> {
        let files = match self.files.take() {
            Some(files) => files,
            None => {
                let account = self.rule.run_as.as_ref().or(self.job.event.account.as_ref());
                let account = account.ok_or_else(|| {
                    let text = "the event has no account, say in the rule whom it runs as";
                    StepError::permanent("EP0811", text)
                })?;
                let enter = self.shared.file_access.open_account(self.job, account);
                self.hold.waiting(enter).await??
            }
        };
        let files: &dyn AccountFiles = &**self.files.insert(files);
        Ok(files)
    }

    /// An endpoint by name.
    pub(crate) async fn endpoint(&self, name: &Name) -> Result<Stored<Endpoint>, StepError> {
        let (db, site) = (&self.shared.db, self.job.site);
        let found = self.hold.insist(|| db.find::<Endpoint>(site, name)).await?;
        found.ok_or_else(|| {
            let text = format!("there is no endpoint '{name}', create it or change the rule");
            StepError::permanent("EP0811", text)
        })
    }

    async fn attempt(&mut self) -> Result<(), StepError> {
        self.reached(Pause::Claimed)?;
        let done = self.job.step % ELSE_UNIT;
        // The first attempt after an operator's retry leaves the `else` steps behind.
        if self.job.step >= ELSE_UNIT && self.job.attempts > 1 {
            let error = self.job.error.clone();
            return self.give_up(error.unwrap_or_else(|| "the last attempt failed".into())).await;
        }
        let most = self.rule.retry.attempts;
        if self.job.attempts > most.saturating_add(LEASES_OVER) {
            let text = format!("EP0813: {} leases ended without an answer", self.job.attempts);
            return self.give_up(text).await;
        }
        match self.steps(done).await {
            Ok(()) => self.finish().await,
            Err(StepError::Transient { code, text }) if self.job.attempts < most => {
                self.retry(format!("{code}: {text}")).await
            }
            Err(error @ (StepError::Transient { .. } | StepError::Permanent { .. })) => {
                self.give_up(error.to_string()).await
            }
            Err(error) => Err(error),
        }
    }

    async fn steps(&mut self, done: u32) -> Result<(), StepError> {
        let steps = self.rule.steps.clone();
        for (number, spec) in (0u32..).zip(&steps) {
            if number >= done {
                self.hold.ended()?;
                step::of(spec).run(self, number).await?;
                let last = (number as usize).saturating_add(1) >= steps.len();
                if !last {
                    self.advance(number.saturating_add(1)).await?;
                }
            }
            self.follow(spec);
        }
        Ok(())
    }

    /// A move that is done says where the file is from now on.
    fn follow(&mut self, spec: &StepSpec) {
        if let StepSpec::Move(rename) = spec {
            let to = pattern::virtual_path(&rename.to, &self.job.event);
            self.path = Some(to.map_err(StepError::from));
        }
    }

    async fn advance(&self, step: u32) -> Result<(), StepError> {
        let db = &self.shared.db;
        self.hold.write(|| db.advance_job(self.hold.key(), step)).await?;
        crash::point("job.advanced");
        self.reached(Pause::Advanced)
    }

    async fn finish(&self) -> Result<(), StepError> {
        let fact = Fact::JobDone { rule: self.job.rule.clone() };
        let event = tell(self.shared, self.job, ids::told(self.job.id, "done", 0), fact);
        self.seal(&event).await?;
        self.reached(Pause::EndRecorded)?;
        end(self.shared, self.hold, JobEnd::Done).await?;
        Meters::add(&self.shared.meters.jobs_done, 1);
        Ok(())
    }

    async fn retry(&self, error: String) -> Result<(), StepError> {
        // Whoever has the job now says how it goes on.
        self.hold.fence().await?;
        let error: String = error.chars().take(ERROR_CHARACTERS).collect();
        let env = self.shared.recorder.env();
        let (rule, attempts) = (self.job.rule.clone(), self.job.attempts);
        let due_at = env.now().plus(backoff::after_attempt(&self.rule.retry, attempts, env));
        tracing::warn!(code = "EP0805", rule = rule.as_str(), attempts, error, "a job will retry");
        let fact = Fact::JobRetrying { rule, attempts, error: error.clone(), due_at };
        let lease = u32::try_from(self.job.epoch).unwrap_or(u32::MAX);
        let event = tell(self.shared, self.job, ids::told(self.job.id, "retrying", lease), fact);
        self.seal(&event).await?;
        self.reached(Pause::EndRecorded)?;
        end(self.shared, self.hold, JobEnd::Retry { due_at, error }).await?;
        Meters::add(&self.shared.meters.jobs_retried, 1);
        Ok(())
    }

    /// The `else` steps, each tried once, then the dead-letter state.
    async fn give_up(&mut self, mut error: String) -> Result<(), StepError> {
        let done = self.job.step % ELSE_UNIT;
        let begun = (self.job.step / ELSE_UNIT).saturating_sub(1);
        let steps = self.rule.steps.len().try_into().unwrap_or(ELSE_UNIT);
        let otherwise = self.rule.otherwise.clone();
        for (number, spec) in (0u32..).zip(&otherwise) {
            if number < begun {
                self.follow(spec);
                continue;
            }
            self.advance(done.saturating_add(ELSE_UNIT.saturating_mul(number + 1))).await?;
            let place = u32::saturating_add(steps, number);
            match step::of(spec).run(self, place).await {
                Ok(()) => self.follow(spec),
                Err(other @ (StepError::Transient { .. } | StepError::Permanent { .. })) => {
                    error = format!("{error}; an else step failed too: {other}");
                }
                Err(ended) => return Err(ended),
            }
        }
        fail(self.shared, self.job, self.hold, error).await
    }
}
