//! Jobs of a rule made again by hand, of events that have happened.
//!
//! Never twice by accident: without the id of a replay nothing is made, and the answer says what
//! would be. A job follows from event, rule and that id, so that an order which is repeated makes
//! each of its jobs once. An event of which the rule has a job already is left out unless that is
//! asked for, and in any case while such a job is under way.
//!
//! The events of a time are replayed part by part: an answer says where the next part begins. So an
//! order is quick however many events there are, and one that broke off is given again.

use entrepot_crypto::document_version;
use entrepot_db::{EventFilter, RuleDocument};
use entrepot_journal::Scope;
use entrepot_nouns::event::ReplayedFact;
use entrepot_nouns::explanation::{EventExplanation, ExplainedJob, RuleOutcome};
use entrepot_nouns::rule_report::{ReplayedEvent, RuleReplay};
use entrepot_nouns::{AdminRight, Event, Fact, Job, JobState, Kind, ReplayId, Rule, Stored};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::error::{AdminError, Result};
use crate::limits;
use crate::request::Response;
use crate::rule_orders::{Again, ReplayOrder, ReplayedEvents};
use crate::rule_reports::start_kinds;

impl Admin {
    pub(crate) async fn replay_rule(&self, actor: &Actor, order: ReplayOrder) -> Result<Response> {
        // The answer tells of rules and events.
        actor.must(AdminRight::See)?;
        actor.must(AdminRight::Audit)?;
        let db = &self.parts().db;
        let rule = match db.find::<Rule>(actor.site, &order.rule).await? {
            Some(rule) => rule,
            None => return Err(self.missing_noun(actor, Kind::Rule, &order.rule).await),
        };
        if !rule.noun.enabled {
            let problem = format!("rule '{}' is disabled: enable it first", order.rule);
            return Err(AdminError::Refused { problem });
        }
        let document = RuleDocument::of(&rule, document_version)?;
        if order.rule_version.as_ref().is_some_and(|before| *before != document.version) {
            let problem = format!(
                "rule '{}' was changed since this replay began: what it makes of the events before \
                 is another thing; begin anew, without its id",
                order.rule
            );
            return Err(AdminError::Refused { problem });
        }
        let env = &self.parts().env;
        let (found, since, until) = match &order.of {
            ReplayedEvents::Event(event) => {
                let events = vec![self.event_of(actor, event).await?];
                (FoundEvents { events, next: None }, None, None)
            }
            ReplayedEvents::Time { since, until } => {
                let until = until.unwrap_or_else(|| env.now());
                let filter = EventFilter {
                    kinds: start_kinds(&rule.noun),
                    since: Some(*since),
                    until: Some(until),
                    after_sequence: order.after,
                    ..EventFilter::default()
                };
                (self.events_of(actor, filter).await?, Some(*since), Some(until))
            }
        };
        let FoundEvents { events, next } = found;
        let replay = order.replay.or(order.planned).unwrap_or_else(|| env.new_id());
        let looked_at = u32::try_from(events.len()).unwrap_or(u32::MAX);
        let reached = events.last().map(|event| event.at);
        let again = Replaying { rule: &rule, replay, again: order.again };
        let (rows, jobs) = self.replayed(actor, &again, events).await?;
        let made = order.replay.is_some();
        let rule_version = document.version.clone();
        if made && !jobs.is_empty() {
            self.make_again(actor, &again, document, jobs).await?;
        }
        let report = RuleReplay {
            rule: order.rule,
            replay,
            made,
            since,
            until,
            rule_version,
            events: looked_at,
            reached,
            jobs: rows,
            next,
        };
        Ok(Response::RuleReplay { replay: Box::new(report) })
    }

    /// The next events that match, as they stand in the audit log.
    async fn events_of(&self, actor: &Actor, mut filter: EventFilter) -> Result<FoundEvents> {
        let mut events = Vec::new();
        loop {
            let page = self.parts().db.event_page(actor.site, &filter).await?;
            events.extend(page.rows.into_iter().map(|row| row.event));
            if page.next.is_none() || events.len() >= limits::REPLAYED_EVENTS {
                return Ok(FoundEvents { events, next: page.next });
            }
            filter.after_sequence = page.next;
        }
    }

    /// Of the events that start the rule, what becomes of each, and the jobs to make.
    async fn replayed(
        &self,
        actor: &Actor,
        again: &Replaying<'_>,
        events: Vec<Event>,
    ) -> Result<(Vec<ReplayedEvent>, Vec<Job>)> {
        let (explainer, rules) = (self.rule_explainer, vec![again.rule.clone()]);
        let site = self.explained_site(actor.site).await?;
        let explained = tokio::task::spawn_blocking(move || explainer(&site, rules, events)).await;
        let explained: Vec<EventExplanation> = explained.map_err(|error| AdminError::Internal {
            what: "replaying a rule",
            problem: error.to_string(),
        })?;
        let (mut rows, mut jobs) = (Vec::new(), Vec::new());
        let (make, now) = (self.critics()?.replayed, self.parts().env.now());
        let starts = |explained: &EventExplanation| {
            explained.rules.iter().any(|rule| rule.outcome == RuleOutcome::Starts)
        };
        for EventExplanation { event, path, .. } in explained.into_iter().filter(starts) {
            let mut earlier = self.parts().db.jobs_of_event(actor.site, event.id).await?;
            earlier.retain(|job| job.rule == again.rule.noun.name);
            let job = make(&event, again.rule, again.replay, now);
            let left_out = again.left_out(&job, &earlier);
            rows.push(ReplayedEvent {
                event: event.id,
                at: event.at,
                path,
                earlier: earlier.into_iter().map(shown).collect(),
                job: left_out.is_none().then_some(job.id),
                left_out,
            });
            if rows.last().is_some_and(|row| row.job.is_some()) {
                jobs.push(job);
            }
        }
        Ok((rows, jobs))
    }

    /// The jobs and the event that tells of them are one transaction.
    async fn make_again(
        &self,
        actor: &Actor,
        again: &Replaying<'_>,
        document: RuleDocument,
        mut jobs: Vec<Job>,
    ) -> Result<()> {
        let parts = self.parts();
        for job in &mut jobs {
            job.rule_version = Some(document.version.clone());
        }
        let replayed = ReplayedFact {
            rule: again.rule.noun.name.clone(),
            by: actor.name.clone(),
            replay: again.replay,
            jobs: jobs.len() as u64,
        };
        let fact = Fact::RuleReplayed { replayed };
        let scope = Scope { account: actor.account(), ..Scope::site(actor.site) };
        let event = parts.recorder.event(&scope, fact);
        let mut tx = parts.db.begin().await?;
        // Events before documents, as the projection locks them.
        tx.insert_event(&event).await?;
        tx.insert_jobs(&jobs, &[document], parts.env.now()).await?;
        tx.commit().await?;
        self.seal_now(&[event]).await;
        Ok(())
    }
}

/// Events of one part.
struct FoundEvents {
    events: Vec<Event>,
    /// The place behind which there are more.
    next: Option<i64>,
}

/// A rule that is replayed.
struct Replaying<'a> {
    rule: &'a Stored<Rule>,
    replay: ReplayId,
    again: Again,
}

impl Replaying<'_> {
    /// Why no job is made of an event of which there are these.
    fn left_out(&self, job: &Job, earlier: &[Job]) -> Option<String> {
        if earlier.iter().any(|it| it.id == job.id) {
            return Some("this replay has made its job already".to_owned());
        }
        let open = |it: &&Job| matches!(it.state, JobState::Ready | JobState::Running);
        if let Some(open) = earlier.iter().find(open) {
            return Some(format!("its job {} is under way", open.id));
        }
        let last = earlier.last().filter(|_| self.again == Again::No)?;
        Some(match last.state {
            JobState::Failed => {
                format!("its job {} failed: 'job retry' goes on with the step that failed", last.id)
            }
            state => format!("its job {} is {}", last.id, state.as_str()),
        })
    }
}

fn shown(job: Job) -> ExplainedJob {
    ExplainedJob { id: job.id, state: Some(job.state), error: job.error }
}
