//! One attempt of one job: its steps in order, from where the last attempt stood.
//!
//! The rule is the document that the job was made of. Each step that the job goes past is recorded
//! by its address, before the next one begins that does more than decide: a later lease reads the
//! records and leaves those steps alone, and an operator's retry goes on with the step that failed.

mod again;
mod branch_places;
mod branches;
mod place;
mod reach;
mod rest;
mod tries;
mod walk;
mod watched;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use entrepot_db::{ELSE_UNIT, JobChange, JobEnd, JobEnding, PassedStep, RuleDocument};
use entrepot_nouns::event::{HeldFact, RetryingFact, StoppedFact};
use entrepot_nouns::rule::{OnError, Step, StepList, StepPlace, StepsAt};
use entrepot_nouns::{
    BehindFailed, Event, EventId, Fact, Job, JobStep, Rule, SiteId, StepAddress, StepState,
    Timestamp, VPath, crash,
};
use serde_json::{Map, Value as Json};
use tokio_util::sync::CancellationToken;

use crate::calendars::Calendars;
use crate::condition::Subject;
use crate::files::AccountFiles;
use crate::hold::Hold;
use crate::ids::{self, StepKey};
use crate::limits::{ERROR_CHARACTERS, LEASES_OVER};
use crate::meters::Meters;
use crate::noted::{FileValue, Noted};
use crate::pattern::{self, Values};
use crate::pause::Pause;
use crate::places::JobPlace;
use crate::progress::Progress;
use crate::rules;
use crate::shared::Shared;
use crate::step::{self, StepError};
use crate::versions::{DocumentKey, RunRule};
use crate::work::Owner;
use branch_places::{Rest, RunPlace};

/// One attempt under way.
pub(crate) struct Run<'a> {
    pub(crate) shared: &'a Shared,
    pub(crate) job: &'a Job,
    pub(crate) hold: &'a Hold<'a>,
    /// The file whose content was last compared with the event, by this attempt.
    pub(crate) verified: Option<step::Seen>,
    /// What the step under way leaves for later steps.
    pub(crate) result: Option<serde_json::Value>,
    /// What the steps behind the job left for later ones.
    pub(crate) noted: Noted,
    /// How long the other side asks the next attempt to wait, at the least.
    pub(crate) asked_to_wait: Option<Duration>,
    rule: Arc<RunRule>,
    /// Those of the site, if an expression asks for them.
    calendars: Arc<Calendars>,
    /// What expressions may look at but for what steps left, once one has.
    subject: OnceLock<Subject>,
    progress: Progress,
    /// The steps that ended last, until they are recorded: before the next one begins, or, where
    /// they and the next one touch nothing, with those behind them; or with the end of the job.
    behind: Option<Behind>,
    /// Files of turns that have ended, until that is recorded.
    used_up: Vec<FileValue>,
    /// Set while the steps of `else` run.
    giving_up: Option<GivingUp>,
    /// Earlier attempts have gone past every step of `do`.
    is_through: bool,
    /// A step of `do` is to come that opens the file which the steps work on.
    wants_file: bool,
    /// Where its steps run.
    place: RunPlace<'a>,
    /// A step before says that the job rests until then.
    rests_until: Option<Timestamp>,
    /// Of a branch that ended with [`StepError::Rests`]: what for.
    rests: Option<Rest>,
    /// The step under way, or the last one, and when it was begun.
    current: Option<(StepAddress, Timestamp)>,
    /// Where the file is now: the event's path, or where the last move put it.
    path: Option<Result<VPath, StepError>>,
    files: Option<Box<dyn AccountFiles>>,
    /// The file that its mount held has its name.
    pub(crate) released: bool,
}

/// Steps that ended and are not recorded yet.
struct Behind {
    /// What there is to remember of them.
    records: Vec<JobStep>,
    /// The step of the rule's own list that the last of them is, or stands in.
    top: u32,
    /// They did nothing that another attempt could not do again.
    is_repeatable: bool,
}

/// A job that failed, and whose `else` runs.
struct GivingUp {
    /// Why, with what failed in `else`.
    error: String,
    /// The steps that ended last, and the one that failed, until they are recorded.
    failed: Vec<JobStep>,
    /// Steps of `do` before it.
    done: u32,
}

/// How a job was claimed.
pub(crate) struct ClaimedJob {
    /// What `Env::elapsed` was then.
    pub(crate) at: Duration,
    /// The place that it got.
    pub(crate) place: JobPlace,
}

/// Works `job` until it ends, waits for its next attempt or for a place in another lane, or is
/// lost.
pub(crate) async fn work(
    shared: &Shared,
    job: &Job,
    claimed: ClaimedJob,
    interrupt: CancellationToken,
) {
    let hold = Hold::new(shared, job, claimed.at, interrupt);
    let ended = tokio::select! {
        biased;
        ended = attempt(shared, job, &hold, claimed.place) => ended,
        () = hold.heartbeat() => Err(StepError::Lost),
    };
    match ended {
        Ok(()) | Err(StepError::Dropped | StepError::HandedOver) => {}
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

async fn attempt(
    shared: &Shared,
    job: &Job,
    hold: &Hold<'_>,
    place: JobPlace,
) -> Result<(), StepError> {
    if job.epoch > 1 || job.repeated {
        caught_up(shared, hold).await?;
    }
    let rule = match rule_of(shared, job, hold).await {
        Err(error @ StepError::Permanent { .. }) => {
            let failure = Failure { error: error.to_string(), steps: Vec::new(), rule: None };
            return fail(shared, job, hold, failure).await;
        }
        rule => rule?,
    };
    // One that has begun has been admitted.
    if let (Some(order), Some(_), None) = (&rule.noun.order, &job.order, &job.at) {
        hold.in_order(order, place.lane()).await?;
    }
    let progress = if job.epoch > 1 {
        let records = hold.insist(|| shared.db.job_steps(job.id)).await?;
        Progress::of(job, &rule.noun, records)
    } else {
        // Nobody has had the job before.
        Progress::default()
    };
    let calendars = if rule.asks_calendars {
        hold.insist(|| Calendars::of_site(&shared.db, job.site)).await?
    } else {
        Calendars::default()
    };
    let is_through = progress.is_through(&rule.noun);
    let wants_file = progress.wants_file(&rule.noun.steps, &StepsAt::list(StepList::Do));
    let mut run = Run {
        shared,
        job,
        hold,
        verified: None,
        result: None,
        noted: Noted::default(),
        asked_to_wait: None,
        rule,
        calendars: Arc::new(calendars),
        subject: OnceLock::new(),
        progress,
        behind: None,
        used_up: Vec::new(),
        giving_up: None,
        is_through,
        wants_file,
        place: RunPlace::Alone(place),
        rests_until: None,
        rests: None,
        current: None,
        path: None,
        files: None,
        released: false,
    };
    let ended = run.attempt().await;
    if let Some(files) = run.files.take() {
        files.close().await;
    }
    ended
}

/// The rule as `job` runs it.
async fn rule_of(shared: &Shared, job: &Job, hold: &Hold<'_>) -> Result<Arc<RunRule>, StepError> {
    let refused = |text: String| StepError::permanent("EP0811", text);
    let Some(version) = &job.rule_version else {
        let found = hold.insist(|| shared.db.find::<Rule>(job.site, &job.rule)).await?;
        let gone = || refused(format!("rule '{}' was deleted", job.rule));
        return compiled(shared, job, hold, found.ok_or_else(gone)?.noun).await;
    };
    let key = DocumentKey { site: job.site, version: version.clone() };
    if let Some(rule) = shared.versions.get(&key) {
        return Ok(rule);
    }
    let document = hold.insist(|| shared.db.rule_document(job.site, version)).await?;
    let gone = || {
        refused(format!(
            "the document {version} of rule '{}' is not kept any more, make the file come again",
            job.rule
        ))
    };
    let rule = RuleDocument::read(&document.ok_or_else(gone)?);
    let rule = rule.map_err(|error| refused(error.to_string()))?;
    let rule = compiled(shared, job, hold, rule).await?;
    shared.versions.keep(key, rule.clone());
    Ok(rule)
}

/// Compiles the conditions of the steps, which blocks.
async fn compiled(
    shared: &Shared,
    job: &Job,
    hold: &Hold<'_>,
    rule: Rule,
) -> Result<Arc<RunRule>, StepError> {
    let sites = hold.insist(|| shared.db.sites()).await?;
    let site = sites.into_iter().find(|site| SiteId(site.id) == job.site);
    let site = site.map_or_else(String::new, |site| site.noun.name.to_string());
    let ended = |error: tokio::task::JoinError| {
        StepError::transient("EP0801", format!("the rule was not compiled: {error}"))
    };
    tokio::task::spawn_blocking(move || RunRule::new(rule, site)).await.map_err(ended)
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

/// Why a job fails, and at which step.
pub(crate) struct Failure {
    /// What an operator reads.
    pub(crate) error: String,
    /// What is remembered of the steps that ended last: this one, and those before it that are not
    /// recorded yet.
    pub(crate) steps: Vec<JobStep>,
    /// The rule as the job ran it, if that is known.
    pub(crate) rule: Option<Arc<RunRule>>,
}

/// What is told of the jobs of an order that stand still behind `job`, if they do.
fn stopped(job: &Job, rule: &Rule, error: &str) -> Option<Fact> {
    job.order.as_ref()?;
    let order = rule.order.as_ref().filter(|order| order.failed == BehindFailed::Stop)?;
    let value = pattern::expand(&order.by, &job.event).unwrap_or_default();
    let (rule, error) = (job.rule.clone(), error.to_owned());
    Some(Fact::OrderStopped { stopped: StoppedFact { rule, order: value, error } })
}

/// Records the last failure of `job` and puts it into the dead-letter state.
pub(crate) async fn fail(
    shared: &Shared,
    job: &Job,
    hold: &Hold<'_>,
    failure: Failure,
) -> Result<(), StepError> {
    // Whoever has the job now says how it ends.
    hold.fence().await?;
    let error: String = failure.error.chars().take(ERROR_CHARACTERS).collect();
    let (rule, attempts) = (job.rule.clone(), job.attempts);
    tracing::error!(code = "EP0806", rule = rule.as_str(), attempts, error, "a job failed");
    // The same for every lease of this life of the job; an operator's retry begins another one.
    let life = u32::try_from(job.life()).unwrap_or(u32::MAX);
    let fact = Fact::JobFailed { rule, attempts, error: error.clone() };
    let event = tell(shared, job, ids::told(job.id, "failed", life), fact);
    seal(shared, &event).await?;
    if let Some(fact) = failure.rule.as_ref().and_then(|rule| stopped(job, &rule.noun, &error)) {
        let event = tell(shared, job, ids::told(job.id, "stopped", life), fact);
        seal(shared, &event).await?;
    }
    let waited = failure.rule.as_ref().is_none_or(|rule| rule.waits_for_events);
    let last = LastSteps { steps: failure.steps, waited };
    end(shared, job, hold, JobEnd::Failed { error }, last).await?;
    Meters::add(&shared.meters.jobs_failed, 1);
    Ok(())
}

fn tell(shared: &Shared, job: &Job, id: EventId, fact: Fact) -> Event {
    let mut scope = rules::caused_by(&job.event);
    scope.job = Some(job.id);
    Event { id, ..shared.recorder.event(&scope, fact) }
}

/// Gives the number of the record.
async fn seal(shared: &Shared, event: &Event) -> Result<u64, StepError> {
    let sealed = shared.recorder.seal(event).await;
    sealed.map_err(|error| StepError::transient(error.code(), error.to_string()))
}

/// What an end of an attempt says besides how it ended.
struct LastSteps {
    /// What there is to remember of the steps that ended last.
    steps: Vec<JobStep>,
    /// Steps of the job may have waited for events.
    waited: bool,
}

async fn end(
    shared: &Shared,
    job: &Job,
    hold: &Hold<'_>,
    end: JobEnd,
    last: LastSteps,
) -> Result<(), StepError> {
    let LastSteps { steps, waited } = last;
    let at = shared.recorder.env().now();
    let (wakes, in_order) = (job.caller(), job.order.is_some());
    let ending = JobEnding { end, at, steps, wakes, in_order, waited };
    hold.write(JobChange::End(ending)).await?;
    if wakes.is_some() || in_order {
        shared.jobs.notify_one();
    }
    Ok(())
}

impl Run<'_> {
    /// True if an earlier lease may have left something behind.
    pub(crate) fn again(&self) -> bool {
        self.job.epoch > 1 || self.job.repeated
    }

    /// The file of the event, as long as its mount holds it.
    pub(crate) fn held(&self) -> Option<&HeldFact> {
        match &self.job.event.fact {
            Fact::FileHeld { held } if !self.released => Some(held),
            _ => None,
        }
    }

    /// What the step under way left when an earlier attempt of it failed.
    pub(crate) fn left_by_failed(&self) -> Option<&Json> {
        let (address, _) = self.current.as_ref()?;
        self.progress.left_by_failed.get(address)
    }

    /// What the step under way left when the job came to rest at it.
    pub(crate) fn left_at_rest(&self) -> Option<&Json> {
        let (address, _) = self.current.as_ref()?;
        self.progress.left_at_rest.get(address)
    }

    /// A point at which tests may end the attempt.
    pub(crate) fn reached(&self, pause: Pause) -> Result<(), StepError> {
        match &self.shared.options.pauses {
            Some(pauses) if pauses(pause) => Err(StepError::Dropped),
            _ => Ok(()),
        }
    }

    /// Waits until the database knows all that this node recorded before now.
    pub(crate) async fn caught_up(&self) -> Result<(), StepError> {
        caught_up(self.shared, self.hold).await
    }

    /// Records an event of this job, durably.
    pub(crate) async fn seal(&self, event: &Event) -> Result<(), StepError> {
        seal(self.shared, event).await.map(|_| ())
    }

    /// Records an event of this job, and waits until the database has what it says.
    pub(crate) async fn tell(&self, event: &Event) -> Result<(), StepError> {
        let record = seal(self.shared, event).await?;
        let mut projected = self.shared.projected.subscribe();
        // The sender lives as long as this.
        let _ = self.hold.waiting(projected.wait_for(|reached| *reached >= record)).await?;
        Ok(())
    }

    async fn attempt(&mut self) -> Result<(), StepError> {
        self.reached(Pause::Claimed)?;
        let rule = self.rule.clone();
        let otherwise = rule.noun.places(StepList::Else);
        let at = self.job.at.as_ref().map(StepAddress::in_rule);
        if otherwise.iter().any(|place| at.as_ref() == Some(&place.address)) {
            self.follow_passed(StepList::Do);
            let failed = self.progress.failed.as_ref().and_then(|step| step.error.clone());
            let error = failed.or_else(|| self.job.error.clone());
            let mut error = error.unwrap_or_else(|| "the last attempt failed".into());
            let list = StepsAt::list(StepList::Else);
            for (_, address) in self.progress.passed_steps(&rule.noun.otherwise, &list) {
                let record = self.progress.passed(&address).and_then(|it| it.record.as_ref());
                let failed = record.filter(|record| record.state == StepState::Failed);
                if let Some(other) = failed.and_then(|record| record.error.as_deref()) {
                    error = else_failed_too(&error, other);
                }
            }
            return self.give_up(error).await;
        }
        let most = self.rule.noun.retry.attempts;
        if self.attempts_of_rule() > most.saturating_add(LEASES_OVER) {
            let text = format!("EP0813: {} leases ended without an answer", self.job.attempts);
            return self.give_up(text).await;
        }
        let walked = match self.take_file().await {
            Ok(()) => self.walk_list(StepList::Do).await,
            Err(error) => Err(error),
        };
        let walked = match walked {
            Ok(_) => self.leave_sources().await,
            Err(error) => Err(error),
        };
        match walked {
            Ok(()) => self.finish().await,
            Err(StepError::Transient { code, text }) if self.tries().are_left() => {
                self.retry(format!("{code}: {text}")).await
            }
            Err(error) if self.is_over(&error) => self.over(&error).await,
            Err(error @ (StepError::Transient { .. } | StepError::Permanent { .. })) => {
                self.give_up(error.to_string()).await
            }
            Err(error) => Err(error),
        }
    }

    /// Runs a step; what is to be remembered of it, if the job goes on.
    async fn ended(
        &mut self,
        list: StepList,
        step: &Step,
        key: &StepKey,
    ) -> Result<Option<JobStep>, StepError> {
        let (state, why) = match list {
            StepList::Do => self.one(step, key).await?,
            StepList::Else => self.one_of_else(step, key).await?,
        };
        Ok(self.record(state, why))
    }

    /// Runs a step of `else`: what fails there is told with the failure that led to it.
    async fn one_of_else(
        &mut self,
        step: &Step,
        key: &StepKey,
    ) -> Result<(StepState, Option<String>), StepError> {
        match self.tried(step, key).await {
            Ok(state) => Ok((state, None)),
            Err(other @ (StepError::Transient { .. } | StepError::Permanent { .. })) => {
                if let Some(giving_up) = &mut self.giving_up {
                    giving_up.error = else_failed_too(&giving_up.error, &other.to_string());
                }
                Ok((StepState::Failed, Some(other.to_string())))
            }
            Err(ended) => Err(ended),
        }
    }

    /// Runs a step of `do`, if it is to run; how it ended if the job goes on.
    async fn one(
        &mut self,
        step: &Step,
        key: &StepKey,
    ) -> Result<(StepState, Option<String>), StepError> {
        let error = match self.tried(step, key).await {
            Ok(state) => return Ok((state, None)),
            Err(StepError::Transient { code, text }) if !self.tries().are_left() => {
                StepError::Permanent { code, text }
            }
            Err(error) => error,
        };
        match (error, step.on_error) {
            (error @ StepError::Permanent { .. }, OnError::Continue) => {
                Ok((StepState::Ignored, Some(error.to_string())))
            }
            (error, _) => Err(error),
        }
    }

    /// Runs a step if its `if` holds for the event.
    async fn tried(&mut self, step: &Step, key: &StepKey) -> Result<StepState, StepError> {
        if let Some(condition) = &step.condition
            && !self.holds(condition)?
        {
            return Ok(StepState::Skipped);
        }
        step::run(step, self, key).await
    }

    /// Records that a step begins; false if it was begun before, and nobody knows how it ended.
    pub(crate) async fn begin_once(&self) -> Result<bool, StepError> {
        let record = self.record(StepState::Begun, None);
        let Some(record) = record.filter(|it| !self.progress.begun.contains_key(&it.address))
        else {
            return Ok(false);
        };
        self.hold.write(JobChange::Begin(JobStep { ended_at: None, ..record })).await?;
        Ok(true)
    }

    fn begin(&mut self, address: &StepAddress) {
        self.result = None;
        self.current = Some((address.clone(), self.shared.recorder.env().now()));
    }

    /// What is to be remembered of the step under way.
    fn record(&self, state: StepState, error: Option<String>) -> Option<JobStep> {
        let (address, started_at) = self.current.clone()?;
        Some(JobStep {
            address,
            state,
            epoch: self.job.epoch,
            started_at,
            ended_at: Some(self.shared.recorder.env().now()),
            result: self.result.clone(),
            error: error.map(|error| error.chars().take(ERROR_CHARACTERS).collect()),
        })
    }

    /// Leaves `value` for later steps, as `steps.NAME.KEY`.
    pub(crate) fn leave(&mut self, key: &str, value: Json) {
        let result = self.result.get_or_insert_with(|| Json::Object(Map::new()));
        if let Some(fields) = result.as_object_mut() {
            fields.insert(key.to_owned(), value);
        }
    }

    /// The address of the step under way.
    pub(crate) fn address(&self) -> Result<&StepAddress, StepError> {
        let address = self.current.as_ref().map(|(address, _)| address);
        address.ok_or_else(|| StepError::permanent("EP0812", "no step is under way"))
    }

    /// What placeholders and expressions of the step under way are taken from.
    pub(crate) fn values(&self) -> Values<'_> {
        Values { event: &self.job.event, noted: Some(&self.noted) }
    }

    /// Whether an expression of the rule's steps holds now.
    pub(crate) fn holds(&self, expression: &str) -> Result<bool, StepError> {
        let holds = self.rule.holds(expression, &self.subject(&self.noted));
        holds.map_err(|error| StepError::permanent("EP0803", error.to_string()))
    }

    /// Whether an expression of the rule's steps holds for another event than that of the job, with
    /// `noted` as what steps left. One that fails does not.
    pub(crate) fn holds_for(&self, event: &Event, expression: &str, noted: &Noted) -> bool {
        let subject = self.rule.subject(event, &self.calendars).with_noted(event, noted);
        self.rule.holds(expression, &subject).unwrap_or(false)
    }

    /// When the step under way was begun, by whichever attempt came to it first.
    pub(crate) fn begun_at(&self) -> Option<Timestamp> {
        let (address, started) = self.current.as_ref()?;
        Some(self.progress.begun.get(address).copied().unwrap_or(*started))
    }

    /// What an expression of the rule's steps gives, where `noted` is what steps left.
    pub(crate) fn value(&self, expression: &str, noted: &Noted) -> Result<Json, StepError> {
        let value = self.rule.value(expression, &self.subject(noted));
        value.map_err(|error| StepError::permanent("EP0803", error.to_string()))
    }

    fn subject(&self, noted: &Noted) -> Subject {
        let event = &self.job.event;
        let bare = self.subject.get_or_init(|| self.rule.subject(event, &self.calendars));
        bare.clone().with_noted(event, noted)
    }

    /// What tells a step from the others of this job: its address, or its number where an earlier
    /// lease may have been held by a program that numbered those of the rule's own lists.
    fn key(&self, address: &StepAddress, list: StepList, number: Option<u32>) -> StepKey {
        match (&self.job.rule_version, number) {
            (None, Some(number)) => {
                let before = match list {
                    StepList::Do => 0,
                    StepList::Else => self.rule.noun.steps.len(),
                };
                let before = u32::try_from(before).unwrap_or(ELSE_UNIT);
                StepKey::numbered(before.saturating_add(number))
            }
            _ => StepKey::at(address),
        }
    }

    async fn pass(&self, passed: PassedStep) -> Result<(), StepError> {
        self.hold.write(JobChange::Pass(passed)).await?;
        crash::point("job.advanced");
        self.reached(Pause::Advanced)
    }

    /// Removes or moves what was fetched, where it came from. Before the job is done nothing of it
    /// may go: what the steps made of it is on no more than one disk.
    async fn leave_sources(&mut self) -> Result<(), StepError> {
        let rule = self.rule.clone();
        if !rule.takes_sources {
            return Ok(());
        }
        // An attempt after a crash must not fetch anew what this one is about to remove.
        if let (Some(behind), Some((next, _))) = (self.behind.take(), self.current.clone()) {
            let count = behind.top.saturating_add(1);
            let lane = self.place.lane();
            self.pass(PassedStep { steps: behind.records, next, count, lane }).await?;
        }
        let list = StepsAt::list(StepList::Do);
        for (step, address) in self.progress.passed_steps(&rule.noun.steps, &list) {
            let record = self.progress.passed(&address).and_then(|it| it.record.clone());
            let Some(record) = record.filter(|record| record.state == StepState::Done) else {
                continue;
            };
            if let Some(result) = &record.result {
                step::of(&step.spec).leave(self, result).await?;
            }
        }
        Ok(())
    }

    async fn finish(&mut self) -> Result<(), StepError> {
        // What is left waits for the disk: it keeps nobody from a place.
        self.place.give_back();
        let fact = Fact::JobDone { rule: self.job.rule.clone() };
        let event = tell(self.shared, self.job, ids::told(self.job.id, "done", 0), fact);
        self.seal(&event).await?;
        self.reached(Pause::EndRecorded)?;
        let mut steps = self.unrecorded(None);
        // Of a job of one step that was done its end says all there is to say.
        steps.retain(|step| self.rule.has_several || step.state != StepState::Done);
        let last = LastSteps { steps, waited: self.rule.waits_for_events };
        end(self.shared, self.job, self.hold, JobEnd::Done, last).await?;
        Meters::add(&self.shared.meters.jobs_done, 1);
        if self.rule.makes_files
            && let Err(error) = self.shared.work.remove(Owner::of(self.job)).await
        {
            tracing::warn!(code = "EP0816", %error, "work files stay until the next sweep");
        }
        Ok(())
    }

    /// The steps that are not recorded yet, and `last`.
    fn unrecorded(&mut self, last: Option<JobStep>) -> Vec<JobStep> {
        let mut records = self.behind.take().map_or_else(Vec::new, |behind| behind.records);
        // Of a step whose end is known what is said now holds.
        records.retain(|step| last.as_ref().is_none_or(|last| last.address != step.address));
        records.extend(last);
        records
    }

    async fn retry(&mut self, error: String) -> Result<(), StepError> {
        // Whoever has the job now says how it goes on.
        self.hold.fence().await?;
        let error: String = error.chars().take(ERROR_CHARACTERS).collect();
        let env = self.shared.recorder.env();
        let (rule, attempts) = (self.job.rule.clone(), self.job.attempts);
        let asked = self.asked_to_wait.unwrap_or_default();
        let due_at = env.now().plus(self.tries().pause(asked, env));
        tracing::warn!(code = "EP0805", rule = rule.as_str(), attempts, error, "a job will retry");
        let retrying = RetryingFact { rule, attempts, error: error.clone(), due_at };
        let fact = Fact::JobRetrying { retrying };
        let lease = u32::try_from(self.job.epoch).unwrap_or(u32::MAX);
        let event = tell(self.shared, self.job, ids::told(self.job.id, "retrying", lease), fact);
        self.seal(&event).await?;
        self.reached(Pause::EndRecorded)?;
        let failed = self.record(StepState::Failed, Some(error.clone()));
        let last = LastSteps { steps: self.unrecorded(failed), waited: false };
        end(self.shared, self.job, self.hold, JobEnd::Retry { due_at, error }, last).await?;
        Meters::add(&self.shared.meters.jobs_retried, 1);
        Ok(())
    }

    /// The `else` steps, each tried once, then the dead-letter state.
    async fn give_up(&mut self, error: String) -> Result<(), StepError> {
        let failed = self.record(StepState::Failed, Some(error.clone()));
        let failed = failed.or_else(|| self.progress.failed.clone());
        let is_it = |place: &StepPlace<'_>| {
            failed.as_ref().is_some_and(|step| step.address.in_rule() == place.address)
        };
        let done = self.rule.noun.places(StepList::Do).iter().position(is_it).unwrap_or_default();
        let done = u32::try_from(done).unwrap_or_default();
        let unrecorded = self.unrecorded(failed.clone());
        self.giving_up = Some(GivingUp { error: error.clone(), failed: unrecorded, done });
        self.walk_list(StepList::Else).await?;
        let given_up = self.giving_up.take();
        if let (Some(behind), Some((next, _))) = (self.behind.take(), self.current.clone()) {
            let count = given_up.as_ref().map_or(0, |given_up| given_up.count(behind.top));
            let lane = self.place.lane();
            self.pass(PassedStep { steps: behind.records, next, count, lane }).await?;
        }
        let (error, mut steps) = given_up.map_or((error, Vec::new()), GivingUp::left);
        if steps.is_empty() {
            // How the job ended is told of the step that failed, also where it is recorded.
            steps.extend(failed);
        }
        let failure = Failure { error, steps, rule: Some(self.rule.clone()) };
        fail(self.shared, self.job, self.hold, failure).await
    }
}

/// What a job failed with, and what failed in its `else`.
fn else_failed_too(error: &str, other: &str) -> String {
    format!("{error}; an else step failed too: {other}")
}

impl GivingUp {
    /// Why the job failed, and what is not recorded yet.
    fn left(self) -> (String, Vec<JobStep>) {
        (self.error, self.failed)
    }

    /// See [`PassedStep::count`], at the step `top` of `else`.
    fn count(&self, top: u32) -> u32 {
        self.done.saturating_add(ELSE_UNIT.saturating_mul(top.saturating_add(1)))
    }
}
