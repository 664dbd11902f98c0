//! `webhook`: tells a receiver of the event, as Standard Webhooks 1.0 says.
//!
//! Every attempt has the same `webhook-id`, so a receiver that remembers ids acts once.

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_crypto::webhook::{SignedMessage, signatures};
use entrepot_db::DbError;
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{HeaderName, HeaderValue, Method, Request, header};
use entrepot_nouns::event::DisabledFact;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::WebhookSpec;
use entrepot_nouns::{Endpoint, EndpointTarget, Event, EventId, Fact, Kind, Name};
use serde_json::json;

use super::{Step, StepError, http};
use crate::ids::{self, StepKey};
use crate::limits::WEBHOOK_TIME;
use crate::own_changes;
use crate::pause::Pause;
use crate::rules;
use crate::run::Run;
use crate::web_client;

#[async_trait]
impl Step for WebhookSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let stored = run.endpoint(&self.endpoint).await?;
        let EndpointTarget::Webhook(target) = &stored.noun.target else {
            return Err(http::other_kind(&self.endpoint, stored.noun.target.as_str(), "webhook"));
        };
        if !target.enabled {
            return Err(disabled(&self.endpoint));
        }
        let keys = run.hold.waiting(run.shared.file_access.secret(&stored)).await??;
        let body = message(&run.job.event)?;
        let id = ids::sent_by_step(run.job.id, key).to_string();
        let at_seconds = run.shared.recorder.env().now().seconds();
        let message = SignedMessage { id: &id, at_seconds, body: &body };
        let signed = keys.and_then(|keys| signatures(&keys, message)).ok_or_else(|| {
            let text = format!("endpoint '{}' has no key that can sign", self.endpoint);
            StepError::permanent("EP0890", text)
        })?;
        let made = Request::new(Method::POST, &target.url);
        let mut request =
            made.map_err(|error| StepError::permanent(error.code(), error.to_string()))?;
        for (name, value) in [
            (HeaderName::from_static("webhook-id"), id),
            (HeaderName::from_static("webhook-timestamp"), at_seconds.to_string()),
            (HeaderName::from_static("webhook-signature"), signed),
        ] {
            let value = HeaderValue::try_from(value)
                .map_err(|error| StepError::permanent("EP0890", error.to_string()))?;
            request.headers.insert(name, value);
        }
        let media_type = HeaderValue::from_static("application/json");
        request =
            request.header(header::USER_AGENT, web_client::user_agent()).content(media_type, body);
        request.dial = DialPolicy { allow_private: target.allow_private };
        request.head_time = WEBHOOK_TIME;
        let (authorities, identity) = (target.authorities.as_deref(), run.identity(&stored).await?);
        let client = web_client::proving(&run.shared.web, authorities, identity);
        run.hold.fence().await?;
        let sent = run.hold.waiting(client.send(request)).await?;
        let response = sent.map_err(|error| http::not_sent(&self.endpoint, &error))?;
        run.reached(Pause::Published)?;
        if response.status.is_success() {
            run.result = Some(json!({ "status": response.status.as_u16() }));
            return Ok(());
        }
        run.asked_to_wait = http::retry_after(&response, run.shared.recorder.env().now());
        let is_gone = response.status.as_u16() == 410;
        let refusal = run.hold.waiting(http::refusal(&self.endpoint, response)).await?;
        if is_gone {
            disable(run, &stored, &refusal).await?;
        }
        Err(refusal)
    }
}

pub(super) fn disabled(endpoint: &Name) -> StepError {
    let text = format!("endpoint '{endpoint}' is disabled: its receiver wants no more web hooks");
    StepError::permanent("EP0899", text)
}

/// A receiver that is gone (410) wants nothing more: its endpoint is disabled, for all rules.
async fn disable(
    run: &Run<'_>,
    endpoint: &Stored<Endpoint>,
    refusal: &StepError,
) -> Result<(), StepError> {
    run.hold.fence().await?;
    let events = run.hold.insist(|| change(run, endpoint, refusal)).await?;
    run.reached(Pause::Changed)?;
    let ids: Vec<EventId> = events.iter().map(|event| event.id).collect();
    for event in &events {
        run.seal(event).await?;
    }
    run.hold.insist(|| run.shared.db.mark_sealed(&ids)).await
}

/// Disables the endpoint, if it is still the one that was asked; what is to be told of that. Over
/// all nodes one such change is made at a time.
async fn change(
    run: &Run<'_>,
    asked: &Stored<Endpoint>,
    refusal: &StepError,
) -> Result<Vec<Event>, DbError> {
    let (recorder, job) = (&run.shared.recorder, run.job);
    let mut tx = run.shared.db.begin().await?;
    let found = tx.find::<Endpoint>(job.site, &asked.noun.name).await?;
    let Some(mut found) = found.filter(|found| found.noun.target == asked.noun.target) else {
        return Ok(Vec::new());
    };
    if let EndpointTarget::Webhook(target) = &mut found.noun.target {
        target.enabled = false;
    }
    tx.put(job.site, found.id, &found.noun, recorder.env().now()).await?;
    let name = found.noun.name;
    let changed = own_changes::changed(recorder, Kind::Endpoint, &name, "target.webhook.enabled");
    let (rule, reason) = (job.rule.clone(), refusal.to_string());
    let disabled = DisabledFact { endpoint: name, rule, reason };
    let mut scope = rules::caused_by(&job.event);
    scope.job = Some(job.id);
    let changed = recorder.event(&scope, changed);
    let disabled = recorder.event(&scope, Fact::EndpointDisabled { disabled });
    for event in [&changed, &disabled] {
        tx.insert_event(event).await?;
    }
    tx.commit().await?;
    Ok(vec![changed, disabled])
}

/// What is told: kind and time as the specification names them, and the event as the API shows it.
fn message(event: &Event) -> Result<Bytes, StepError> {
    let message = json!({"type": event.fact.kind(), "timestamp": event.at, "data": event});
    let message = serde_json::to_vec(&message);
    let message = message.map_err(|error| StepError::permanent("EP0890", error.to_string()))?;
    Ok(message.into())
}
