//! `POST /as2`: messages of partners (RFC 4130). No account signs in here: AS2 names choose what
//! was agreed with the partner, and the message proves itself by its signature. Nothing of it is
//! visible before all of it was checked, and the receipt says no more than what is on stable
//! storage.

mod incoming;
mod incoming_receipt;
mod payload_file;
pub(crate) mod places;
mod proof;
mod receipts;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use axum::routing::post;
use entrepot_as2_proto::{
    As2Headers, Disposition, Field, HeaderError, Headers, head_evidence, is_receipt,
};
use entrepot_nouns::event::As2Refusal;

use crate::context::RequestContext;
use crate::heads::RawHead;
use crate::hooks::{look_at_messages, to_its_end};
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use crate::upload_body::UploadBody;
use incoming::{Incoming, shortened};
use incoming_receipt::IncomingReceipt;
use receipts::{Receipts, answer};

/// The address of AS2.
pub(crate) fn served_routes() -> Vec<Served> {
    vec![Served::new("/as2", &[Method::POST], Access::As2, post(receive))]
}

/// Takes one message.
async fn receive(context: RequestContext, request: Request) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let fields = fields(&parts.headers);
    let names = As2Headers::parse(&fields).map_err(not_as2)?;
    let head = match parts.extensions.get::<RawHead>() {
        Some(RawHead(head)) => head_evidence(head),
        None => fields.evidence(),
    };
    let (from, to) = (names.from.as_str(), names.to.as_str());
    let gate = context.shared().gate();
    let Some(partner) = gate.as2_partner(context.site, from, to).await? else {
        return unknown(&context, head, &names, body);
    };
    proof::of_login(&context, &partner, &parts.headers).await?;
    let mut body = UploadBody::of_anybody(body, context.connection.config.body_time());
    let beginning = body.beginning(|seen| is_receipt(&fields, seen).is_some()).await?;
    if is_receipt(&fields, &beginning) == Some(true) {
        let context = context.clone();
        return IncomingReceipt { context, partner, fields, head, names }.receive(body).await;
    }
    let incoming = Incoming { context: context.clone(), partner, fields, head, names };
    if look_at_messages(&context) {
        return to_its_end(Box::pin(incoming.receive(body))).await;
    }
    incoming.receive(body).await
}

/// No partner has these names: it is told so where it waits for a receipt, and nothing is sent to
/// an address that it names.
fn unknown(
    context: &RequestContext,
    head: String,
    names: &As2Headers,
    _unread: Body,
) -> Result<Response, Problem> {
    let shared = context.shared();
    let disposition = if names.from == names.to {
        Disposition::SenderEqualsReceiver
    } else {
        Disposition::UnknownTradingRelationship
    };
    let receipt = Receipts::unsigned(names, shared.env()).make(disposition, None);
    let given = receipt.as_ref().filter(|receipt| receipt.url.is_none());
    let refusal = As2Refusal {
        partner: None,
        from: names.from.as_str().to_owned(),
        to: names.to.as_str().to_owned(),
        message_id: names.message_id.as_deref().map(shortened),
        disposition: disposition.text().to_owned(),
        address: context.peer().ip().to_canonical().to_string(),
        head: Some(head),
        tls: context.connection.as2_tls(),
        receipt: given.cloned().map(Box::new),
    };
    let peer = context.connection.as_peer(shared, context.site);
    shared.gate().attempt(peer).as2_unknown(refusal);
    match receipt {
        Some(receipt) if receipt.url.is_none() => answer(names, &receipt),
        _ => {
            let why = "no partner has these two AS2 names here; compare AS2-From and AS2-To with \
                       what was agreed";
            Err(Problem::new(StatusCode::FORBIDDEN, "EP1204", why))
        }
    }
}

fn fields(map: &HeaderMap) -> Headers {
    let field = |(name, value): (&axum::http::HeaderName, &axum::http::HeaderValue)| Field {
        name: name.as_str().to_owned(),
        value: String::from_utf8_lossy(value.as_bytes()).trim().to_owned(),
    };
    Headers::new(map.iter().map(field).collect())
}

fn not_as2(error: HeaderError) -> Problem {
    let why = format!("this is no message of AS2: {error}");
    Problem::new(StatusCode::BAD_REQUEST, "EP1203", why)
}
