//! What steps that talk to other servers would send, and where.

use async_trait::async_trait;
use entrepot_nouns::EndpointTarget;
use entrepot_nouns::endpoint::WebhookTarget;
use entrepot_nouns::rule::{
    As2Spec, HttpBody, HttpSpec, MailAttachment, MailSpec, ScanSpec, WebhookSpec,
};

use super::as2::As2Draft;
use super::{StepError, webhook};
use crate::foresight::{Foresee, Foreseen, Foresight};
use crate::pattern;

/// Why the rest is open.
const ANSWER: &str = "what the server answers shows only then";

#[async_trait]
impl Foresee for HttpSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        if self.body == HttpBody::File {
            foresight.input()?;
        }
        foresight.endpoint(&self.endpoint).await?;
        let path = pattern::expand(&self.path, foresight.values())?;
        let what = format!("sends {} {path} to '{}'", self.method.as_str(), self.endpoint);
        Ok(Foreseen::open(what, ANSWER))
    }
}

#[async_trait]
impl Foresee for WebhookSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let endpoint = foresight.endpoint(&self.endpoint).await?;
        if let EndpointTarget::Webhook(WebhookTarget { enabled: false, .. }) = &endpoint.noun.target
        {
            return Err(webhook::disabled(&self.endpoint));
        }
        Ok(Foreseen::open(format!("tells '{}' of the event", self.endpoint), ANSWER))
    }
}

#[async_trait]
impl Foresee for MailSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        if self.attach == MailAttachment::File {
            foresight.input()?;
        }
        foresight.endpoint(&self.endpoint).await?;
        let values = foresight.values();
        let to = self.to.iter().map(|to| pattern::expand(to, values));
        let to = to.collect::<Result<Vec<_>, _>>()?.join(", ");
        let subject = pattern::expand(&self.subject, values)?;
        Ok(Foreseen::open(format!("mails '{subject}' to {to}"), ANSWER))
    }
}

#[async_trait]
impl Foresee for ScanSpec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let file = foresight.input()?.file;
        foresight.endpoint(&self.endpoint).await?;
        let what = format!("has {file} scanned by '{}'", self.endpoint);
        Ok(Foreseen::open(what, "the verdict shows only then"))
    }
}

#[async_trait]
impl Foresee for As2Spec {
    async fn foresee(&self, foresight: &mut Foresight<'_>) -> Result<Foreseen, StepError> {
        let draft = As2Draft::of(self, foresight.values())
            .map_err(|error| StepError::permanent("EP1210", error.to_string()))?;
        foresight.input()?;
        foresight.endpoint(&self.endpoint).await?;
        let As2Draft { name, content_type, .. } = draft;
        let what = format!("sends '{name}' as {content_type} to '{}'", self.endpoint);
        Ok(Foreseen::open(what, ANSWER))
    }
}
