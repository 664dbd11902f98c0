//! Sends receipts of AS2 to the addresses that partners want them at (RFC 4130 §7.2, where they
//! are called asynchronous). They stand in a queue of the database, which all nodes work off; one
//! that leaves twice has the same bytes, and tells its receiver nothing new.
//!
//! A partner chooses the address within what was agreed with it: the host of its `url`, or one of
//! `receipt_hosts`. That is looked at when the message comes and when its receipt leaves; no
//! redirection is followed, and private addresses are dialled only where the endpoint allows it.
//!
//! When a receipt cannot be sent, the others for its partner wait as well, so that a partner that
//! is away costs one attempt at a time and holds up nobody else's.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use entrepot_auth::As2Partner;
use entrepot_db::{As2QueuedReceipt, Db, DbError};
use entrepot_journal::{Recorder, Scope};
use entrepot_net::dial::DialPolicy;
use entrepot_net::http::{
    Client, HeaderCase, HeaderName, HeaderValue, Method, Request, header, is_same_origin,
};
use entrepot_nouns::event::As2ReceiptSending;
use entrepot_nouns::noun::Stored;
use entrepot_nouns::{Endpoint, Fact, Name, Secret, SiteId, crash};
use futures_util::stream::{self, StreamExt as _};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backoff::{self, Away};
use crate::ids;
use crate::limits::{
    AS2_RECEIPT_AGE, AS2_RECEIPT_LEASE, AS2_RECEIPT_LOOK, AS2_RECEIPT_RETRY, AS2_RECEIPT_SENDERS,
    AS2_RECEIPT_TIME, AS2_RECEIPTS_A_LOOK, AS2_RECEIPTS_AT_ONCE,
};
use crate::membership::Membership;
use crate::{as2_fields as fields, web_client};

/// What is needed to send receipts.
pub(crate) struct ReceiptParts {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) membership: Arc<Membership>,
    /// Sends requests to servers that this machine's authorities vouch for.
    pub(crate) web: Client,
    pub(crate) partners: Box<dyn Partners>,
    /// There may be a receipt to send.
    pub(crate) wake: Arc<Notify>,
}

/// What the engine knows of the partners that receipts go to.
#[async_trait]
pub(crate) trait Partners: Send + Sync {
    /// The partner of an endpoint; `None`: it is none.
    async fn partner(
        &self,
        site: SiteId,
        endpoint: &Name,
    ) -> Result<Option<Arc<As2Partner>>, String>;

    /// The password for its server.
    async fn secret(&self, endpoint: &Stored<Endpoint>) -> Result<Option<Secret>, String>;
}

/// Sends receipts until `stop`. Those that are on their way then are sent again later, by this node
/// or another one.
pub(crate) async fn run(parts: ReceiptParts, stop: CancellationToken) {
    if !parts.membership.is_counted(&stop).await {
        return;
    }
    let parts = Arc::new(parts);
    let mut senders = JoinSet::new();
    let mut away = Away::new();
    while !stop.is_cancelled() {
        let pause = match look(&parts, &mut senders).await {
            Ok(()) => {
                away = Away::new();
                AS2_RECEIPT_LOOK
            }
            Err(error) => {
                tracing::warn!(code = "EP0801", %error, "receipts of AS2 are sent later");
                away.next(parts.recorder.env())
            }
        };
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            Some(_) = senders.join_next() => {}
            () = parts.wake.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Takes what is due, as long as there is somebody to send it.
async fn look(parts: &Arc<ReceiptParts>, senders: &mut JoinSet<()>) -> Result<(), DbError> {
    while senders.len() < AS2_RECEIPT_SENDERS {
        let now = parts.recorder.env().now();
        if parts.db.next_as2_receipt().await?.is_none_or(|due| due > now) {
            return Ok(());
        }
        let until = now.plus(AS2_RECEIPT_LEASE);
        let due = parts.db.claim_as2_receipts(now, until, AS2_RECEIPTS_A_LOOK).await?;
        let mut of_partners: HashMap<(SiteId, Name), Vec<As2QueuedReceipt>> = HashMap::new();
        for receipt in due {
            let partner = (receipt.site, receipt.partner.clone());
            of_partners.entry(partner).or_default().push(receipt);
        }
        for receipts in of_partners.into_values() {
            senders.spawn(send_all(parts.clone(), receipts));
        }
    }
    Ok(())
}

/// Sends the receipts of one partner: one of them first, to see whether it is there.
async fn send_all(parts: Arc<ReceiptParts>, receipts: Vec<As2QueuedReceipt>) {
    let mut receipts = receipts.into_iter();
    let Some(first) = receipts.next() else { return };
    if send(&parts, first).await {
        let rest = stream::iter(receipts).map(|receipt| send(&parts, receipt));
        rest.buffer_unordered(AS2_RECEIPTS_AT_ONCE).for_each(|_| async {}).await;
    }
}

/// How an attempt ended that did not succeed.
enum Unsent {
    /// It may succeed later.
    Later(String),
    /// It never will.
    Never(String),
}

/// Sends a receipt; false: its partner is not to be tried again now.
async fn send(parts: &ReceiptParts, receipt: As2QueuedReceipt) -> bool {
    let now = parts.recorder.env().now();
    let sending = |reason: Option<String>| As2ReceiptSending {
        partner: receipt.partner.clone(),
        message_id: receipt.message_id.clone(),
        receipt: receipt.receipt.message_id.clone(),
        url: receipt.receipt.url.clone().unwrap_or_default(),
        attempts: receipt.attempts,
        reason,
    };
    let (is_there, fact) = match post(parts, &receipt).await {
        Ok(()) => (true, Fact::As2ReceiptSent { sending: sending(None) }),
        Err(Unsent::Later(reason)) if now.since(receipt.since) < AS2_RECEIPT_AGE => {
            put_off(parts, &receipt, &reason).await;
            return false;
        }
        Err(Unsent::Later(reason) | Unsent::Never(reason)) => {
            let (partner, message) = (&receipt.partner, &receipt.message_id);
            tracing::warn!(code = "EP1240", %partner, %message, %reason, "a receipt is given up");
            (false, Fact::As2ReceiptUnsent { sending: sending(Some(reason)) })
        }
    };
    crash::point("as2.receipt-sent");
    let mut event = parts.recorder.event(&Scope::site(receipt.site), fact);
    event.id = ids::of_receipt(&receipt, event.fact.kind());
    let told = parts.recorder.seal(&event).await;
    if let Err(error) = told {
        tracing::warn!(code = error.code(), %error, "a receipt that was sent is sent again");
        return is_there;
    }
    if let Err(error) = parts.db.end_as2_receipt(&receipt.receipt.message_id).await {
        tracing::warn!(code = error.code(), %error, "a receipt that was sent is sent again");
    }
    is_there
}

/// The receipts of its partner wait, the longer the more often this one was tried.
async fn put_off(parts: &ReceiptParts, receipt: &As2QueuedReceipt, reason: &str) {
    let env = parts.recorder.env();
    let pause = backoff::after_attempt(&AS2_RECEIPT_RETRY, receipt.attempts, env);
    let (partner, message) = (&receipt.partner, &receipt.message_id);
    tracing::warn!(code = "EP1241", %partner, %message, %reason, ?pause, "a receipt is sent later");
    let until = env.now().plus(pause);
    let put_off = parts.db.put_off_as2_receipts(receipt.site, partner, until).await;
    if let Err(error) = put_off {
        tracing::warn!(code = error.code(), %error, "receipts are tried again too soon");
    }
}

/// Sends it to where its partner is by now.
async fn post(parts: &ReceiptParts, receipt: &As2QueuedReceipt) -> Result<(), Unsent> {
    let partner = parts.partners.partner(receipt.site, &receipt.partner).await;
    let partner = partner.map_err(Unsent::Later)?;
    let gone = || Unsent::Never(format!("endpoint '{}' is gone", receipt.partner));
    let partner = partner.ok_or_else(gone)?;
    let request = request(parts, &partner, receipt).await?;
    let authorities = partner.target.authorities.as_deref();
    let client = web_client::client(&parts.web, authorities);
    let exchange = tokio::time::timeout(AS2_RECEIPT_TIME, client.send(request)).await;
    let timed_out = |_| Unsent::Later(format!("no answer within {AS2_RECEIPT_TIME:?}"));
    let response =
        exchange.map_err(timed_out)?.map_err(|error| Unsent::Later(error.to_string()))?;
    if response.status.is_success() {
        return Ok(());
    }
    Err(Unsent::Later(format!("its server answered {}", web_client::said(response).await)))
}

async fn request(
    parts: &ReceiptParts,
    partner: &As2Partner,
    receipt: &As2QueuedReceipt,
) -> Result<Request, Unsent> {
    let never = |what: &str| Unsent::Never(what.to_owned());
    let As2QueuedReceipt { sender, receiver, receipt: document, .. } = receipt;
    let url = document.url.as_deref().unwrap_or_default();
    if !partner.may_have_receipts_at(url) {
        return Err(Unsent::Never(format!("'{url}' is not at a host that was agreed")));
    }
    let made = Request::new(Method::POST, url);
    let mut request = made.map_err(|error| Unsent::Never(error.to_string()))?;
    request.dial = DialPolicy { allow_private: partner.target.allow_private };
    request.case = HeaderCase::Title;
    request.head_time = Duration::MAX;
    let body = STANDARD.decode(&document.body);
    request.body = Bytes::from(body.map_err(|_| never("it is damaged"))?);
    let now = parts.recorder.env().now();
    let name = |name: &str| fields::name(name).ok_or_else(|| never("its names are damaged"));
    for (field, value) in [
        ("as2-version", fields::VERSION.to_owned()),
        ("as2-from", name(sender)?),
        ("as2-to", name(receiver)?),
        ("message-id", document.message_id.clone()),
        ("date", fields::date(now)),
        ("mime-version", "1.0".to_owned()),
        ("content-type", document.content_type.clone()),
    ] {
        let value = HeaderValue::try_from(value.as_str());
        let value = value.map_err(|_| never("a field of it is damaged"))?;
        request.headers.insert(HeaderName::from_static(field), value);
    }
    request.headers.insert(header::USER_AGENT, web_client::user_agent());
    let target = &partner.target;
    // The password is for the server of `url`.
    if let (Some(user), Some(server)) = (&target.user, &target.url)
        && is_same_origin(server, url)
    {
        let stored = parts.db.find::<Endpoint>(receipt.site, &receipt.partner).await;
        let stored = stored.map_err(|error| Unsent::Later(error.to_string()))?;
        let stored = stored.ok_or_else(|| never("its endpoint is gone"))?;
        let secret = parts.partners.secret(&stored).await;
        let secret = secret.map_err(Unsent::Later)?;
        let login = secret.and_then(|secret| web_client::basic(user, secret.expose()));
        request.headers.extend(login.map(|value| (header::AUTHORIZATION, value)));
    }
    Ok(request)
}
