//! Messages of AS2, both ways.

use entrepot_db::{As2Filter, EventFilter};
use entrepot_nouns::as2::{As2Entry, As2MessageName, As2Shown, As2State};
use entrepot_nouns::{Endpoint, Fact, Name, SiteId};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::as2_request::As2Request;
use crate::cursor::Position;
use crate::error::{AdminError, Result};
use crate::fact_queries::As2Query;
use crate::limits;
use crate::parts::{AdminParts, ServingParts};
use crate::query::{is_full, rows};
use crate::request::Response;

impl Admin {
    /// Answers what is asked about messages of AS2.
    pub(crate) async fn as2(&self, actor: &Actor, ask: As2Request) -> Result<Response> {
        let (parts, site) = (self.parts(), actor.site);
        match ask {
            As2Request::Messages(query) => list(parts, site, query).await,
            As2Request::Message(name) => show(parts, site, name).await,
            As2Request::Test(partner) => test(parts, self.serving()?, site, partner).await,
            As2Request::Send { partner, order } => {
                self.send_as2(actor, &partner, &order, None).await
            }
            As2Request::Resend(name) => self.resend_as2(actor, name).await,
            As2Request::Cancel(name) => self.cancel_as2(actor, name).await,
        }
    }
}

/// Messages, newest first.
async fn list(parts: &AdminParts, site: SiteId, query: As2Query) -> Result<Response> {
    let filter = As2Filter {
        partner: query.partner,
        message: query.message,
        direction: query.direction,
        state: query.state,
        since: query.since,
        until: query.until,
        after: query.after.as_ref().map(Position::row).transpose()?,
        limit: rows(query.limit),
    };
    let messages = parts.db.as2_log(site, &filter).await?;
    let last = messages.last().filter(|_| is_full(messages.len(), filter.limit));
    let next = last.map(|last| Position::Row { at: last.at, id: last.id }.cursor());
    Ok(Response::As2Messages { next: next.transpose()?, messages })
}

/// One message, with its event and the receipts that came for it.
async fn show(parts: &AdminParts, site: SiteId, name: As2MessageName) -> Result<Response> {
    let entry = entry(parts, site, name).await?;
    let fact = match entry.event {
        Some(id) => parts.db.event(id).await?.map(|row| row.event),
        None => None,
    };
    let fact = fact.filter(|event| event.site == site).map(Box::new);
    let mut receipts = Vec::new();
    if let Some(job) = entry.job {
        let filter = EventFilter {
            job: Some(job),
            kinds: vec!["as2-receipt.received".to_owned()],
            limit: limits::AS2_RECEIPTS,
            ..EventFilter::default()
        };
        let of_it = |fact: &Fact| match fact {
            Fact::As2ReceiptReceived { received } => {
                is_same(Some(&received.message_id), entry.message_id.as_deref())
            }
            _ => false,
        };
        let came = parts.db.events(site, &filter).await?.into_iter().map(|row| row.event);
        receipts.extend(came.filter(|event| of_it(&event.fact)));
    }
    Ok(Response::As2Message { message: Box::new(As2Shown { entry, fact, receipts }) })
}

/// Tests the connection to a partner.
async fn test(
    parts: &AdminParts,
    serving: &ServingParts,
    site: SiteId,
    partner: Name,
) -> Result<Response> {
    let found = parts.db.find::<Endpoint>(site, &partner).await?;
    let missing = || AdminError::NotFound {
        what: "endpoint",
        name: partner.to_string(),
        hint: String::new(),
    };
    let test = serving.node.test_as2(found.ok_or_else(missing)?).await;
    Ok(Response::As2Test { test })
}

/// Of several with one Message-ID the newest counts of which something was kept.
pub(crate) async fn entry(
    parts: &AdminParts,
    site: SiteId,
    name: As2MessageName,
) -> Result<As2Entry> {
    let limit = limits::AS2_RECEIPTS;
    let filter = As2Filter { message: Some(name.clone()), limit, ..As2Filter::default() };
    let mut found = parts.db.as2_log(site, &filter).await?;
    let at = found.iter().position(|entry| entry.state != As2State::Refused);
    if found.is_empty() {
        let name = name.to_string();
        return Err(AdminError::NotFound { what: "message of AS2", name, hint: String::new() });
    }
    Ok(found.swap_remove(at.unwrap_or_default()))
}

/// Whether two texts are one Message-ID, with or without angle brackets.
fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    let bare = |text: &str| text.trim_matches(['<', '>']).to_owned();
    one.map(bare) == other.map(bare)
}
