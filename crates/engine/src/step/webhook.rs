//! `webhook`: tells a receiver of the event, as Standard Webhooks 1.0 says.
//!
//! Every attempt has the same `webhook-id`, so a receiver that remembers ids acts once.

use async_trait::async_trait;
use bytes::Bytes;
use entrepot_crypto::webhook::{SignedMessage, signatures};
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{HeaderName, HeaderValue, Method, Request, header};
use entrepot_nouns::rule::WebhookSpec;
use entrepot_nouns::{EndpointTarget, Event};
use serde_json::json;

use super::{Step, StepError, http};
use crate::ids::{self, StepKey};
use crate::limits::WEBHOOK_TIME;
use crate::run::Run;

#[async_trait]
impl Step for WebhookSpec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let stored = run.endpoint(&self.endpoint).await?;
        let EndpointTarget::Webhook(target) = &stored.noun.target else {
            return Err(http::other_kind(&self.endpoint, stored.noun.target.as_str(), "webhook"));
        };
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
        request = request.header(header::USER_AGENT, http::user_agent()).content(media_type, body);
        request.dial = DialPolicy { allow_private: target.allow_private };
        request.head_time = WEBHOOK_TIME;
        let client = http::client(&run.shared.web, target.authorities.as_deref());
        run.hold.fence().await?;
        let sent = run.hold.waiting(client.send(request)).await?;
        let response = sent.map_err(|error| http::not_sent(&self.endpoint, &error))?;
        if response.status.is_success() {
            run.result = Some(json!({ "status": response.status.as_u16() }));
            return Ok(());
        }
        run.asked_to_wait = http::retry_after(&response, run.shared.recorder.env().now());
        Err(run.hold.waiting(http::refusal(&self.endpoint, response)).await?)
    }
}

/// What is told: kind and time as the specification names them, and the event as the API shows it.
fn message(event: &Event) -> Result<Bytes, StepError> {
    let message = json!({"type": event.fact.kind(), "timestamp": event.at, "data": event});
    let message = serde_json::to_vec(&message);
    let message = message.map_err(|error| StepError::permanent("EP0890", error.to_string()))?;
    Ok(message.into())
}
