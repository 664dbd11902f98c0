//! `as2`: sends the file to a partner of AS2 (RFC 4130), and reads its receipt.
//!
//! The partner is not ours, so a message may leave more than once: where a node died, the lease was
//! lost, or the receipt did not come. Each attempt has the same Message-ID, which follows from job
//! and step, so the partner keeps the file once. What it says of a copy that it had before counts
//! as delivered. `file.delivered` is one event however often it is recorded, and an attempt that
//! finds it sends nothing.

mod apart;
mod carried;
mod draft;
mod feed;
mod receipt;
mod request;
mod trial;

use std::sync::Arc;

use async_trait::async_trait;
use entrepot_as2_proto::{Headers, MicalgStyle, SendRandom, SentMic};
use entrepot_auth::{As2Partner, as2};
use entrepot_crypto::cipher::ContentSecrets;
use entrepot_net::http::{HttpError, Response, streamed};
use entrepot_nouns::endpoint::{As2Compression, As2ReceiptKind, As2Send};
use entrepot_nouns::event::{As2Message, As2Receipt, As2Rejection, FileFact};
use entrepot_nouns::rule::As2Spec;
use entrepot_nouns::transfer::hex;
use entrepot_nouns::{
    Digests, EndpointTarget, Env, Fact, Protocol, Secret, Timestamp, TransferId, crash,
};
use serde_json::{Value as Json, json};
use zeroize::Zeroizing;

pub(crate) use draft::As2Draft;
pub use trial::As2Tester;

use super::source::Input;
use super::{Step, StepError, http};
use crate::ids::{self, StepKey};
use crate::limits::{AS2_BOUNDARY_BYTES, AS2_RECEIPT_BYTES};
use crate::meters::Meters;
use crate::pause::Pause;
use crate::rules;
use crate::run::Run;
use crate::web_client;
use carried::Carried;
use draft::PartnerKeys;
use feed::{Fed, Leaving};
use receipt::{Answered, Confirmed, NotConfirmed, SentMessage, Tries};

#[async_trait]
impl Step for As2Spec {
    async fn run(&self, run: &mut Run<'_>, key: &StepKey) -> Result<(), StepError> {
        let draft = As2Draft::of(self, run.values())
            .map_err(|error| StepError::permanent("EP1210", error.to_string()))?;
        let stored = run.endpoint(&self.endpoint).await?;
        if !matches!(stored.noun.target, EndpointTarget::As2(_)) {
            return Err(http::other_kind(&self.endpoint, stored.noun.target.as_str(), "as2"));
        }
        if run.again()
            && let Some(result) = recorded(run, key).await?
        {
            run.result = Some(result);
            return Ok(());
        }
        let access = &run.shared.file_access;
        let finding = access.as2_partner(run.job.site, &self.endpoint);
        let partner = run.hold.waiting(finding).await??;
        let changed = || StepError::transient("EP0811", "the endpoint was changed just now");
        let partner = partner.ok_or_else(changed)?;
        let secret = run.hold.waiting(access.secret(&stored)).await??;
        let started_at = run.shared.recorder.env().now();
        let keys = PartnerKeys::of(&partner, started_at)?;
        let message_id = format!("<{}@entrepot>", ids::sent_by_step(run.job.id, key));
        let transfer = ids::delivery(run.job.id, key);
        let sending = Sending { draft, partner, keys, secret, message_id, transfer, started_at };
        let delivered = if sending.is_confirmed_apart() {
            sending.send_apart(run).await?
        } else {
            sending.send(run).await?
        };
        sending.record(run, key, delivered).await
    }
}

/// What an attempt left that recorded the delivery and did not live to say so.
async fn recorded(run: &Run<'_>, key: &StepKey) -> Result<Option<Json>, StepError> {
    let id = ids::told_by_step(run.job.id, "delivered", key);
    let found = run.hold.insist(|| run.shared.db.event(id)).await?;
    let Some(Fact::FileDelivered { file, .. }) = found.map(|row| row.event.fact) else {
        return Ok(None);
    };
    let left = |message: &As2Message| {
        Left {
            message_id: &message.message_id,
            disposition: Some("processed"),
            mic: message.mic.as_deref(),
            verified: message.mic.is_some(),
        }
        .told()
    };
    Ok(file.as2.as_deref().map(left))
}

/// What later steps see.
struct Left<'a> {
    message_id: &'a str,
    disposition: Option<&'a str>,
    mic: Option<&'a str>,
    /// Whether the receipt has that MIC.
    verified: bool,
}

impl Left<'_> {
    fn told(&self) -> Json {
        let Left { message_id, disposition, mic, verified } = self;
        json!({"message_id": message_id, "disposition": disposition, "mic": mic,
            "verified": verified})
    }
}

/// One attempt to send the message, under the id that all attempts have.
struct Sending {
    draft: As2Draft,
    partner: Arc<As2Partner>,
    keys: PartnerKeys,
    /// The password for the partner's server.
    secret: Option<Secret>,
    message_id: String,
    /// What the delivery is known by.
    transfer: TransferId,
    started_at: Timestamp,
}

/// What the partner has.
struct Delivered {
    size: u64,
    digests: Digests,
    mic: String,
    verified: bool,
    carried: Carried,
    receipt: Option<As2Receipt>,
}

/// Where the receipt of a message is to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskedReceipt<'a> {
    /// It is the answer.
    AtOnce,
    /// It is sent by itself, to this address of ours.
    SentTo(&'a str),
}

impl Sending {
    fn terms(&self) -> As2Send {
        self.partner.target.send
    }

    /// Whether the receipt comes by itself.
    fn is_confirmed_apart(&self) -> bool {
        self.partner.target.receipt_url.is_some() && self.terms().receipt != As2ReceiptKind::None
    }

    /// Where the receipt is to go, as it was agreed.
    fn asked_receipt(&self) -> AskedReceipt<'_> {
        match &self.partner.target.receipt_url {
            Some(url) => AskedReceipt::SentTo(url),
            None => AskedReceipt::AtOnce,
        }
    }

    /// Sends the message, and judges the receipt that is the answer.
    async fn send(&self, run: &mut Run<'_>) -> Result<Delivered, StepError> {
        let answered = self.exchange(run).await?;
        self.confirm(run, answered).await
    }

    /// Sends the message: what came back, and what had left by then.
    async fn exchange(&self, run: &mut Run<'_>) -> Result<Answered, StepError> {
        let input = Input::open(run).await?;
        run.reached(Pause::SourceOpen)?;
        let size = input.source.size();
        let random = random(run.shared.recorder.env());
        let at = self.started_at.seconds();
        let plan = self.keys.plan(&self.draft, self.terms(), size, at);
        let measuring = feed::measured(&input, &plan, &random);
        let compressed = run.hold.waiting(measuring).await??;
        let outgoing = plan.start(&random, compressed);
        let outgoing = outgoing.map_err(|error| feed::not_made(&input, error))?;
        let (writer, body) = streamed(outgoing.content_length());
        let mut request = self.request(&outgoing, self.asked_receipt())?;
        let carried = Carried::by(&request);
        request.streamed = Some(body);
        let patience = self.terms().timeout.0.duration();
        let leaving = Leaving::new(writer, patience);
        let authorities = self.partner.target.authorities.as_deref();
        let client = web_client::client(&run.shared.web, authorities);
        run.hold.fence().await?;
        let not_sent = |error: &HttpError| http::not_sent(&self.partner.endpoint, error);
        let exchange = async {
            let mut sending = std::pin::pin!(client.send(request));
            let mut feeding = std::pin::pin!(feed::feed(&input, outgoing, leaving));
            tokio::select! {
                biased;
                fed = &mut feeding => {
                    let fed = fed.map_err(|error| error.told(&not_sent))?;
                    let answered = tokio::time::timeout(patience, sending).await;
                    let answered = answered.unwrap_or(Err(HttpError::Timeout(patience)));
                    let response = answered.map_err(|error| not_sent(&error))?;
                    Ok((response, Some(fed)))
                }
                // It may refuse before it has read all.
                answered = &mut sending => {
                    let response = answered.map_err(|error| not_sent(&error))?;
                    Ok((response, None))
                }
            }
        };
        let answer: Result<(Response, Option<Fed>), StepError> = run.hold.waiting(exchange).await?;
        let (response, fed) = answer?;
        crash::point("as2.answered");
        run.reached(Pause::Published)?;
        if fed.is_some()
            && let Some(verified) = input.verified()
        {
            run.verified = Some(verified);
        }
        let carried = carried.over(&response);
        let Read { fields, body } = self.read(run, response).await?;
        let head = Some(fields.evidence());
        Ok(Answered { fields, body, size, fed, carried, head })
    }

    /// Reads an answer, unless it refuses the request.
    async fn read(&self, run: &mut Run<'_>, response: Response) -> Result<Read, StepError> {
        let endpoint = &self.partner.endpoint;
        if !response.status.is_success() {
            run.asked_to_wait = http::retry_after(&response, run.shared.recorder.env().now());
            return Err(run.hold.waiting(http::refusal(endpoint, response)).await?);
        }
        let fields = carried::fields(&response.headers);
        let body = run.hold.waiting(response.body.read_all(AS2_RECEIPT_BYTES)).await?;
        let body = body.map_err(|error| match error {
            HttpError::TooLong(_) => {
                receipt::unconfirmed(endpoint, &self.message_id, &error.to_string())
            }
            error => http::not_sent(endpoint, &error),
        })?;
        Ok(Read { fields, body: body.to_vec() })
    }

    /// What a receipt means.
    async fn confirm(&self, run: &mut Run<'_>, answered: Answered) -> Result<Delivered, StepError> {
        let sent = answered.fed.as_ref().map(|fed| &fed.sent);
        let message = SentMessage {
            endpoint: &self.partner.endpoint,
            message_id: &self.message_id,
            send: self.terms(),
            trusted: &self.keys.certificates,
            sent,
            tries: if run.again() { Tries::Repeated } else { Tries::First },
            head: answered.head.clone(),
        };
        let mic = sent.map(|sent| self.mic(sent));
        let judged = message.judge(&answered.fields, &answered.body);
        let (disposition, verified) = match &judged {
            Ok(Confirmed { disposition, verified, .. }) => (disposition, *verified),
            Err(NotConfirmed { disposition, .. }) => (disposition, false),
        };
        let (message_id, mic) = (self.message_id.as_str(), mic.as_deref());
        let left = Left { message_id, disposition: disposition.as_deref(), mic, verified };
        run.result = Some(left.told());
        let mic = mic.unwrap_or_default().to_owned();
        let Answered { size, fed, carried, .. } = answered;
        let digests = fed.map(|fed| fed.digests).unwrap_or_default();
        let delivered = Delivered { size, digests, mic, verified, carried, receipt: None };
        match judged {
            Ok(Confirmed { receipt, .. }) => Ok(Delivered { receipt, ..delivered }),
            Err(failed) => {
                self.record_rejection(run, delivered, &failed).await?;
                Err(failed.error)
            }
        }
    }

    /// `as2.rejected`, of a receipt by which the message fails for good, once for each such one.
    async fn record_rejection(
        &self,
        run: &Run<'_>,
        sent: Delivered,
        failed: &NotConfirmed,
    ) -> Result<(), StepError> {
        let NotConfirmed { error: StepError::Permanent { .. }, disposition, receipt } = failed
        else {
            return Ok(());
        };
        let (Some(disposition), Some(receipt)) = (disposition, receipt) else { return Ok(()) };
        let sent = Delivered { receipt: Some(As2Receipt::clone(receipt)), ..sent };
        let mic = Some(sent.mic.clone()).filter(|mic| !mic.is_empty());
        let rejection = As2Rejection {
            transfer: self.transfer,
            path: self.draft.name.clone(),
            size: sent.size,
            disposition: disposition.clone(),
            rule: run.job.rule.clone(),
            message: Box::new(As2Message { mic, ..self.message(sent) }),
        };
        let mut scope = rules::caused_by(&run.job.event);
        scope.job = Some(run.job.id);
        let mut event = run.shared.recorder.event(&scope, Fact::As2Rejected { rejection });
        event.id = ids::rejected(run.job.id, &self.message_id, receipt);
        run.seal(&event).await
    }

    fn mic(&self, sent: &SentMic) -> String {
        sent.mic.text(MicalgStyle::default())
    }

    /// What is recorded of the message.
    fn message(&self, sent: Delivered) -> As2Message {
        let target = &self.partner.target;
        let send = self.terms();
        let signed_by = self.keys.signs_with(send);
        As2Message {
            partner: self.partner.endpoint.clone(),
            from: target.station.clone(),
            to: target.partner.clone(),
            message_id: self.message_id.clone(),
            subject: self.draft.subject.clone(),
            content_type: self.draft.content_type.clone(),
            mic: sent.verified.then_some(sent.mic),
            signed_by: signed_by.map(|certificate| hex(&certificate.fingerprint())),
            signature: None,
            cipher: as2::cipher(send.cipher).map(|cipher| cipher.name().to_owned()),
            compressed: send.compression != As2Compression::None,
            head: sent.carried.head,
            tls: sent.carried.tls,
            receipt: sent.receipt.map(Box::new),
        }
    }

    /// `file.delivered`, once, with the receipt; durable when this returns.
    async fn record(
        &self,
        run: &Run<'_>,
        key: &StepKey,
        delivered: Delivered,
    ) -> Result<(), StepError> {
        let url = self.partner.target.url.as_ref();
        let is_tls = url.is_some_and(|url| url.starts_with("https:"));
        let (size, digests) = (delivered.size, delivered.digests);
        let message = self.message(delivered);
        let file = FileFact {
            transfer: self.transfer,
            path: self.draft.name.clone(),
            size,
            digests,
            protocol: if is_tls { Protocol::Https } else { Protocol::Http },
            started_at: self.started_at,
            identity: None,
            displaced: None,
            temporary: false,
            as2: Some(Box::new(message)),
        };
        let endpoint = self.partner.endpoint.clone();
        let fact = Fact::FileDelivered { file, endpoint, rule: run.job.rule.clone() };
        let mut scope = rules::caused_by(&run.job.event);
        scope.job = Some(run.job.id);
        let mut event = run.shared.recorder.event(&scope, fact);
        event.id = ids::told_by_step(run.job.id, "delivered", key);
        run.seal(&event).await?;
        Meters::add(&run.shared.meters.deliveries, 1);
        Meters::add(&run.shared.meters.delivery_bytes, size);
        crash::point("as2.recorded");
        run.reached(Pause::Recorded)
    }
}

/// The answer to a message.
struct Read {
    fields: Headers,
    body: Vec<u8>,
}

/// Drawn anew for each attempt: a key is used for one message.
fn random(env: &Env) -> SendRandom {
    let mut boundary = [0; AS2_BOUNDARY_BYTES];
    env.fill_random(&mut boundary);
    let mut key = Zeroizing::new([0; 32]);
    env.fill_random(key.as_mut_slice());
    let mut iv = [0; 16];
    env.fill_random(&mut iv);
    let secrets = ContentSecrets { key, iv };
    SendRandom { boundary: format!("entrepot-{}", hex(&boundary)), secrets }
}
