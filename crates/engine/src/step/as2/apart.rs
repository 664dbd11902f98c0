//! Messages whose receipt comes by itself, to an address of ours (RFC 4130 §7.2): the step rests
//! when its message has left, and looks among the events for the receipt when one has come. What
//! it needs to judge it is recorded where it rests, so that any node may go on.
//!
//! A receipt that says that the partner has the file counts whenever it came; one that refuses it
//! counts only if it came since this life of the job began to send, for an operator's retry sends
//! the message once more.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use entrepot_as2_proto::{Field, Headers, SentMic, bare_message_id};
use entrepot_db::{As2SentMessage, CameKind, EventFilter, EventRest, EventWait, RestsFor, WaitKey};
use entrepot_nouns::as2::{As2Entry, As2State};
use entrepot_nouns::event::As2ReceivedReceipt;
use entrepot_nouns::{Digests, Direction, EventId, Fact, JobId};
use serde::{Deserialize, Serialize};
use serde_json::json;
use uuid::Uuid;

use super::carried::Carried;
use super::feed::Fed;
use super::receipt::{self, Answered};
use super::{Delivered, Left, Sending};
use crate::rules;
use crate::run::Run;
use crate::step::StepError;

/// What the step leaves of a message that has left, until its receipt is there.
const AWAITED: &str = "awaited";

/// What is known of a message that has left.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Awaited {
    /// Bytes of the file.
    pub(super) size: u64,
    pub(super) digests: Digests,
    /// The digests that the receipt may have.
    mics: Vec<String>,
    /// What is kept of the request.
    #[serde(default)]
    carried: Carried,
}

impl Awaited {
    fn new(size: u64, fed: &Fed, carried: Carried) -> Awaited {
        Awaited { size, digests: fed.digests, mics: fed.sent.texts(), carried }
    }

    /// Of a message for which the step rests.
    fn at_rest(run: &Run<'_>) -> Option<Awaited> {
        serde_json::from_value(run.left_at_rest()?.get(AWAITED)?.clone()).ok()
    }

    /// Of one that an attempt has sent which then gave up.
    fn before(run: &Run<'_>) -> Option<Awaited> {
        serde_json::from_value(run.left_by_failed()?.get(AWAITED)?.clone()).ok()
    }

    fn mic(&self) -> Option<SentMic> {
        SentMic::from_texts(&self.mics)
    }
}

impl Sending {
    /// Sends the message unless it has left, and rests until its receipt is there.
    pub(super) async fn send_apart(&self, run: &mut Run<'_>) -> Result<Delivered, StepError> {
        let key = WaitKey { job: run.job.id, step: run.address()?.clone(), life: run.job.life() };
        let wait = self.begin_wait(run, &key).await?;
        let at_rest = Awaited::at_rest(run);
        if let Some(known) = at_rest.clone().or_else(|| Awaited::before(run))
            && let Some(delivered) = self.look(run, &wait, &known).await?
        {
            return end(run, &key, delivered).await;
        }
        let awaited = match at_rest {
            Some(awaited) => awaited,
            None => match self.exchange_apart(run).await? {
                Exchanged::Delivered(delivered) => return end(run, &key, *delivered).await,
                Exchanged::Left(awaited) => {
                    if let Some(delivered) = self.look(run, &wait, &awaited).await? {
                        return end(run, &key, delivered).await;
                    }
                    awaited
                }
            },
        };
        self.rest(run, key, &wait, &awaited).await
    }

    /// From here on a receipt that comes lets the job go on.
    async fn begin_wait(&self, run: &Run<'_>, key: &WaitKey) -> Result<EventWait, StepError> {
        let (db, site) = (&run.shared.db, run.job.site);
        let came = CameKind { site, kind: rules::receipt_for(&self.message_id) };
        run.hold.fence().await?;
        // Behind what is there by now.
        let behind = EventId(Uuid::nil());
        run.hold.insist(|| db.wait_for_event(key, &came, behind)).await
    }

    /// The message among those of the site, while it is on its way.
    fn entry(&self, job: JobId) -> As2Entry {
        let target = &self.partner.target;
        As2Entry {
            id: self.transfer.0,
            at: self.started_at,
            direction: Direction::Out,
            state: As2State::Awaiting,
            partner: Some(self.partner.endpoint.clone()),
            from: target.station.clone(),
            to: target.partner.clone(),
            message_id: Some(self.message_id.clone()),
            about: Some(self.draft.name.clone()),
            event: None,
            job: Some(job),
        }
    }

    async fn exchange_apart(&self, run: &mut Run<'_>) -> Result<Exchanged, StepError> {
        let (db, job) = (&run.shared.db, run.job.id);
        let (partner, message_id) = (&self.partner.endpoint, bare_message_id(&self.message_id));
        let message = As2SentMessage { site: run.job.site, partner, message_id };
        run.hold.insist(|| db.as2_sent(&message, job, self.started_at)).await?;
        let entry = self.entry(job);
        run.hold.insist(|| db.as2_leaves(run.job.site, &entry)).await?;
        let answered = self.exchange(run).await?;
        if answered.is_receipt() {
            let delivered = self.confirm(run, answered).await?;
            return Ok(Exchanged::Delivered(Box::new(delivered)));
        }
        let Answered { size, fed: Some(fed), carried, .. } = answered else {
            return Err(receipt::unconfirmed(partner, &self.message_id, receipt::EARLY));
        };
        Ok(Exchanged::Left(Awaited::new(size, &fed, carried)))
    }

    /// What the receipts that have come say of the message.
    async fn look(
        &self,
        run: &mut Run<'_>,
        wait: &EventWait,
        awaited: &Awaited,
    ) -> Result<Option<Delivered>, StepError> {
        let mut filter = EventFilter {
            job: Some(run.job.id),
            kinds: vec![rules::RECEIPT_RECEIVED.to_owned()],
            ..EventFilter::default()
        };
        let mut refused = None;
        loop {
            let (db, site) = (&run.shared.db, run.job.site);
            let page = run.hold.insist(|| db.event_page(site, &filter)).await?;
            for row in page.rows {
                let Fact::As2ReceiptReceived { received } = row.event.fact else { continue };
                if bare_message_id(&received.message_id) != bare_message_id(&self.message_id) {
                    continue;
                }
                match self.confirm(run, answer(received, awaited)).await {
                    Ok(delivered) => return Ok(Some(delivered)),
                    Err(error @ StepError::Permanent { .. }) if row.sequence > wait.after => {
                        refused = Some(error);
                    }
                    // One that cannot be used, or of an earlier life of the job.
                    Err(StepError::Permanent { .. } | StepError::Transient { .. }) => {}
                    Err(other) => return Err(other),
                }
            }
            filter.after_sequence = page.next;
            if page.next.is_none() {
                return refused.map_or(Ok(None), Err);
            }
        }
    }

    /// Lets the job rest, no longer than the receipt may take.
    async fn rest(
        &self,
        run: &mut Run<'_>,
        key: WaitKey,
        wait: &EventWait,
        awaited: &Awaited,
    ) -> Result<Delivered, StepError> {
        let mic = awaited.mic().map(|mic| self.mic(&mic));
        let (message_id, mic) = (self.message_id.as_str(), mic.as_deref());
        let mut left = Left { message_id, disposition: None, mic, verified: false }.told();
        if let Some(fields) = left.as_object_mut() {
            fields.insert(AWAITED.to_owned(), json!(awaited));
        }
        run.result = Some(left);
        let now = run.shared.recorder.env().now();
        let within = self.terms().receipt_within.0;
        let until = run.begun_at().unwrap_or(now).plus(within.duration());
        if now >= until {
            let text = format!(
                "endpoint '{}': no receipt for message {message_id} came within {within}",
                self.partner.endpoint
            );
            return Err(StepError::transient("EP1243", text));
        }
        let rest = EventRest { wait: key, told: wait.told };
        run.rest(RestsFor::Event(rest), Some(until)).await?;
        // A rest is the end of the attempt.
        Err(StepError::Rests)
    }
}

/// The step waits no more.
async fn end(run: &Run<'_>, key: &WaitKey, delivered: Delivered) -> Result<Delivered, StepError> {
    let db = &run.shared.db;
    run.hold.insist(|| db.end_event_wait(key)).await?;
    Ok(delivered)
}

/// How an exchange ended.
enum Exchanged {
    /// The partner has answered with the receipt all the same.
    Delivered(Box<Delivered>),
    Left(Awaited),
}

/// A receipt as if it were the answer to its message.
fn answer(received: As2ReceivedReceipt, awaited: &Awaited) -> Answered {
    let As2ReceivedReceipt { receipt, .. } = received;
    let head = receipt.head;
    let field = |name: &str, value: String| Field { name: name.to_owned(), value };
    let fields =
        vec![field("Message-ID", receipt.message_id), field("Content-Type", receipt.content_type)];
    Answered {
        fields: Headers::new(fields),
        body: STANDARD.decode(&receipt.body).unwrap_or_default(),
        size: awaited.size,
        fed: awaited.mic().map(|sent| Fed { sent, digests: awaited.digests }),
        carried: awaited.carried.clone(),
        head,
    }
}
