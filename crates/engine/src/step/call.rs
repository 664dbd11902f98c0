//! `call`: starts another rule, once. The event that does so has an id of job and step, so that
//! another attempt, or another node, starts no second job; and the job of it says whose end wakes
//! the one that rests here.

use std::sync::Arc;

use async_trait::async_trait;
use entrepot_db::RestsFor;
use entrepot_nouns::explanation::RuleOutcome;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::CallSpec;
use entrepot_nouns::{Event, Fact, Job, JobState, Rule};
use serde_json::{Map, Value as Json, json};

use super::{Step, StepError};
use crate::calendars::{Calendars, RuleSite};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::ids::{self, StepKey};
use crate::run::Run;
use crate::{explain, rules};

/// The rule was not started.
fn not_started(spec: &CallSpec, why: &str) -> StepError {
    StepError::permanent("EP0830", format!("rule '{}' was not started: {why}", spec.rule))
}

/// The start of the rule with what the expressions gave; why it cannot be, if so.
fn called(
    spec: &CallSpec,
    rule: &Rule,
    given: &Map<String, Json>,
    cause: &Job,
) -> Result<Fact, StepError> {
    let Some(call) = rule.when.call() else {
        return Err(not_started(spec, "it does not start by 'when: {call: {}}'"));
    };
    let parameters = call.values(given).map_err(|problem| not_started(spec, &problem))?;
    // Who started the first rule of a chain is who caused all that follows.
    let by = match &cause.event.fact {
        Fact::RuleCalled { by, .. } => by.clone(),
        _ => format!("rule:{}", cause.rule),
    };
    Ok(Fact::RuleCalled { rule: rule.name.clone(), parameters, by })
}

/// The event that starts the rule; an error if the rule would make no job of it.
async fn event(spec: &CallSpec, run: &Run<'_>, key: &StepKey) -> Result<Event, StepError> {
    let (db, job) = (&run.shared.db, run.job);
    let mut given = Map::new();
    for (name, expression) in &spec.with {
        given.insert(name.clone(), run.value(expression, &run.noted)?);
    }
    let rule = run.hold.insist(|| db.find::<Rule>(job.site, &spec.rule)).await?;
    let rule = rule.ok_or_else(|| not_started(spec, "it was deleted"))?;
    let fact = called(spec, &rule.noun, &given, job)?;
    let mut scope = rules::caused_by(&job.event);
    scope.job = Some(job.id);
    let id = ids::told_by_step(job.id, "called", key);
    let event = Event { id, ..run.shared.recorder.event(&scope, fact) };
    let sites = run.hold.insist(|| db.sites()).await?;
    match sites.into_iter().find(|site| site.id == job.site.0) {
        Some(site) => {
            let calendars = run.hold.insist(|| Calendars::of_site(db, job.site)).await?;
            let (name, calendars) = (site.noun.name.to_string(), Arc::new(calendars));
            check_start(spec, RuleSite { name, calendars }, rule, event).await
        }
        None => Err(not_started(spec, "its site was deleted")),
    }
}

/// Asks the rule, which blocks, what it makes of the event.
async fn check_start(
    spec: &CallSpec,
    site: RuleSite,
    rule: Stored<Rule>,
    event: Event,
) -> Result<Event, StepError> {
    let asked = event.clone();
    let ask = move || explain::explain_one(&site, rule, &asked);
    let failed = |error: tokio::task::JoinError| {
        StepError::transient("EP0801", format!("the rule was not asked: {error}"))
    };
    let answer = tokio::task::spawn_blocking(ask).await.map_err(failed)?;
    match answer.outcome {
        RuleOutcome::Starts => Ok(event),
        _ => Err(not_started(spec, &answer.why)),
    }
}

/// The job that the step started, if it did.
async fn started(spec: &CallSpec, run: &Run<'_>, key: &StepKey) -> Result<Option<Job>, StepError> {
    let event = ids::told_by_step(run.job.id, "called", key);
    let (db, site) = (&run.shared.db, run.job.site);
    let jobs = run.hold.insist(|| db.jobs_of_event(site, event)).await?;
    Ok(jobs.into_iter().find(|job| job.rule == spec.rule))
}

#[async_trait]
impl Step for CallSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let mut found = started(self, run, key).await?;
        if found.is_none() {
            let event = event(self, run, key).await?;
            run.hold.fence().await?;
            run.seal(&event).await?;
            run.reached(crate::Pause::Recorded)?;
            run.caught_up().await?;
            found = started(self, run, key).await?;
        }
        let job = found.ok_or_else(|| {
            not_started(self, "it made no job, it was changed or deleted at this moment")
        })?;
        run.leave("job", json!(job.id));
        let failed = |how: String| {
            let text = format!("job {} of rule '{}' {how}", job.id, self.rule);
            Err(StepError::permanent("EP0831", text))
        };
        match job.state {
            _ if !self.wait => Ok(()),
            JobState::Done => {
                run.leave("ended", json!(job.changed_at));
                Ok(())
            }
            JobState::Failed => {
                failed(format!("failed: {}", job.error.as_deref().unwrap_or("nobody knows why")))
            }
            JobState::Cancelled => failed("was cancelled".to_owned()),
            JobState::Ready | JobState::Running => run.rest(RestsFor::EndOf(job.id), None).await,
        }
    }
}

#[async_trait]
impl Foresee for CallSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let noted = foresight.noted.clone();
        let mut given = Map::new();
        for (name, expression) in &self.with {
            given.insert(name.clone(), foresight.value(name, expression, &noted)?);
        }
        let found = foresight.parts.db.find::<Rule>(foresight.job.site, &self.rule).await;
        let found = found.map_err(|error| StepError::transient("EP0801", error.to_string()))?;
        let rule = found.ok_or_else(|| not_started(self, "it was deleted"))?;
        if !rule.noun.enabled {
            return Err(not_started(self, "it is disabled"));
        }
        let fact = called(self, &rule.noun, &given, &foresight.job)?;
        let values = match fact {
            Fact::RuleCalled { parameters, .. } if !parameters.is_empty() => {
                format!(" with {}", Json::Object(parameters))
            }
            _ => String::new(),
        };
        let what = format!("starts rule '{}'{values}", self.rule);
        if !self.wait {
            return Ok(Foreseen::open(what, "the rule decides then whether it starts"));
        }
        let what = format!("{what} and rests until its job has ended");
        Ok(Foreseen::open(what, format!("it ends as the job of rule '{}' does", self.rule)))
    }
}
