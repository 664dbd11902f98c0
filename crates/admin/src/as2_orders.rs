//! What administrators do about messages of AS2: send a file, send it again, or no more.
//!
//! A job sends a message, under an id that follows from the job. So what one job sends again is the
//! same message, which its partner keeps once; another job sends a message of its own. A file that
//! no rule sends is sent by a job of a rule that is stored nowhere but with the job.

use entrepot_crypto::document_version;
use entrepot_db::RuleDocument;
use entrepot_journal::Scope;
use entrepot_nouns::as2::{As2Entry, As2MessageName, As2Order, As2Sending};
use entrepot_nouns::endpoint::EndpointUse;
use entrepot_nouns::explanation::EventName;
use entrepot_nouns::{
    Direction, Endpoint, EndpointTarget, Fact, Job, JobState, Kind, Name, Noun as _, Rule, Stored,
};
use serde_json::{Map, Value, json};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::as2;
use crate::error::{AdminError, Result};
use crate::jobs::JobAction;
use crate::once::KeptRequest;
use crate::query;
use crate::request::Response;
use crate::rule_orders::{Again, ReplayOrder, ReplayedEvents};
use crate::shown_job::RetryRule;

impl Admin {
    /// Sends a message again: the same one if its job failed or was cancelled; if its partner has
    /// confirmed it, the file as a new message.
    pub(crate) async fn resend_as2(&self, actor: &Actor, name: As2MessageName) -> Result<Response> {
        let (entry, job) = self.sent_as2(actor, name).await?;
        let sending = match job.state {
            JobState::Failed | JobState::Cancelled => {
                self.act(actor, job.id, JobAction::Retry(RetryRule::Pinned)).await?;
                As2Sending { job: job.id, message_id: entry.message_id }
            }
            JobState::Done if job.rule.as_str() == SENDING_RULE => {
                return self.send_again_by_hand(actor, &job).await;
            }
            JobState::Done => self.send_anew(actor, &job).await?,
            JobState::Ready | JobState::Running => {
                let problem = format!(
                    "job {} still sends it, and tries again by itself; see 'job show {}'",
                    job.id, job.id
                );
                return Err(AdminError::Refused { problem });
            }
        };
        Ok(Response::As2Sending { sending })
    }

    /// Ends the job that sends a message.
    pub(crate) async fn cancel_as2(&self, actor: &Actor, name: As2MessageName) -> Result<Response> {
        let (_, job) = self.sent_as2(actor, name).await?;
        self.act(actor, job.id, JobAction::Cancel).await
    }

    /// Sends a file of an endpoint, as a job that follows from no stored rule; with `once` at most
    /// once.
    pub(crate) async fn send_as2(
        &self,
        actor: &Actor,
        partner: &Name,
        order: &As2Order,
        once: Option<&KeptRequest>,
    ) -> Result<Response> {
        let parts = self.parts();
        let refused = |problem: String| AdminError::Refused { problem };
        let target = self.endpoint(actor, partner).await?.target;
        if !matches!(&target, EndpointTarget::As2(target) if target.url.is_some()) {
            let problem = format!("endpoint '{partner}' is no partner of AS2 with a 'url'");
            return Err(refused(problem));
        }
        if self.endpoint(actor, &order.endpoint).await?.target.usage() != EndpointUse::Files {
            return Err(refused(format!("endpoint '{}' has no files", order.endpoint)));
        }
        let wrong = |problem: String| AdminError::Query { problem };
        let rule = sending_rule(partner, order).map_err(|error| wrong(error.to_string()))?;
        let checked = rule.check().and_then(|()| (self.settler.rule_check)(&rule));
        checked.map_err(|error| wrong(error.to_string()))?;
        if parts.db.find::<Rule>(actor.site, &rule.name).await?.is_some() {
            let problem = format!("a rule is called '{SENDING_RULE}', which would start too");
            return Err(refused(problem));
        }
        self.send_by(actor, rule, &order.path, once).await
    }

    /// Makes the job of a rule that is stored with it alone.
    async fn send_by(
        &self,
        actor: &Actor,
        rule: Rule,
        path: &str,
        once: Option<&KeptRequest>,
    ) -> Result<Response> {
        let (parts, site) = (self.parts(), actor.site);
        let (id, now, name) = (parts.env.new_id(), parts.env.now(), rule.name.clone());
        let rule = Stored { id, site, revision: 1, changed_at: now, noun: rule };
        let scope = Scope { account: actor.account(), ..Scope::site(site) };
        let parameters = Map::from_iter([("path".to_owned(), json!(path))]);
        let fact = Fact::RuleCalled { rule: name, parameters, by: actor.name.clone() };
        let event = parts.recorder.event(&scope, fact);
        let document = RuleDocument::of(&rule, document_version)?;
        let mut job = (self.critics()?.replayed)(&event, &rule, parts.env.new_id(), now);
        job.rule_version = Some(document.version.clone());
        let sending = As2Sending { job: job.id, message_id: None };
        let answer = Response::As2Sending { sending };
        let mut tx = parts.db.begin().await?;
        if let Some(once) = once
            && let Some(answer) = once.answer(&parts.db).await?
        {
            return Ok(answer);
        }
        // Events before documents, as the projection locks them.
        tx.insert_event(&event).await?;
        tx.insert_jobs(&[job], &[document], now).await?;
        if let Some(once) = once {
            once.keep_in(&mut tx, &answer).await?;
        }
        tx.commit().await?;
        self.seal_now(&[event]).await;
        Ok(answer)
    }

    /// Another job of the rule that is stored with this one.
    async fn send_again_by_hand(&self, actor: &Actor, job: &Job) -> Result<Response> {
        let gone = || AdminError::Refused { problem: "its rule is not known any more".to_owned() };
        let version = job.rule_version.as_ref().ok_or_else(gone)?;
        let document = self.parts().db.rule_document(actor.site, version).await?;
        let rule = RuleDocument::read(&document.ok_or_else(gone)?)?;
        let parameters = job.event.fact.parameters();
        let path = parameters.and_then(|it| it.get("path")?.as_str()).ok_or_else(gone)?;
        self.send_by(actor, rule, path, None).await
    }

    async fn endpoint(&self, actor: &Actor, name: &Name) -> Result<Endpoint> {
        match self.parts().db.find::<Endpoint>(actor.site, name).await? {
            Some(stored) => Ok(stored.noun),
            None => Err(self.missing_noun(actor, Kind::Endpoint, name).await),
        }
    }

    /// Another job of the same rule for the same event.
    async fn send_anew(&self, actor: &Actor, job: &Job) -> Result<As2Sending> {
        let order = ReplayOrder {
            rule: job.rule.clone(),
            of: ReplayedEvents::Event(EventName::Id(job.event_id)),
            again: Again::Yes,
            replay: Some(self.parts().env.new_id()),
            after: None,
            planned: None,
            rule_version: None,
        };
        let Response::RuleReplay { replay } = self.replay_rule(actor, order).await? else {
            let problem = "its rule was not asked".to_owned();
            return Err(AdminError::Internal { what: "sending a message again", problem });
        };
        let made = replay.jobs.into_iter().next();
        let why = match made {
            Some(row) => match row.job {
                Some(job) => return Ok(As2Sending { job, message_id: None }),
                None => row.left_out.unwrap_or_default(),
            },
            None => format!("rule '{}' does not start on its event any more", job.rule),
        };
        Err(AdminError::Refused { problem: why })
    }

    /// A message that was sent from here, and its job.
    async fn sent_as2(&self, actor: &Actor, name: As2MessageName) -> Result<(As2Entry, Job)> {
        let parts = self.parts();
        let entry = as2::entry(parts, actor.site, name).await?;
        let refused = |problem: &str| AdminError::Refused { problem: problem.to_owned() };
        if entry.direction == Direction::In {
            let problem = "it was received here; 'rule replay' has a rule look at its file again";
            return Err(refused(problem));
        }
        let id = entry.job.ok_or_else(|| refused("no job sent it: it is of a test"))?;
        let job = query::job(parts, actor.site, id).await?;
        Ok((entry, job))
    }
}

/// What the rule is called in lists of jobs.
const SENDING_RULE: &str = "as2-send";

/// Fetches the file and sends it.
fn sending_rule(partner: &Name, order: &As2Order) -> serde_json::Result<Rule> {
    let As2Order { endpoint, path: _, name, content_type, subject } = order;
    let given = [("name", name), ("content_type", content_type), ("subject", subject)];
    let given = given.into_iter().filter_map(|(field, value)| Some((field, value.as_ref()?)));
    let mut send: Map<String, Value> =
        given.map(|(field, value)| (field.to_owned(), json!(value))).collect();
    send.insert("endpoint".to_owned(), json!(partner));
    serde_json::from_value(json!({
        "name": SENDING_RULE,
        "when": {"call": {"parameters": {"path": {}}}},
        "do": [
            {"name": "fetch", "fetch": {"endpoint": endpoint, "path": "{params.path}"}},
            {"name": "send", "as2": send},
        ],
    }))
}
