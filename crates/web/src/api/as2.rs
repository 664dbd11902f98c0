//! Messages of AS2, both ways, and their evidence.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{As2Query, As2Request, Request, Response as Answer};
use entrepot_nouns::as2::As2MessageName;

use super::answer::{Fields, Page, change_answer, json_answer, unexpected};
use super::call::Call;
use super::query::word;
use crate::problem::Problem;

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let query = &mut call.query;
    let filter = As2Query {
        partner: query.one("partner")?,
        message: query.one::<String>("message")?.map(As2MessageName::from),
        direction: word(query, "direction")?,
        state: word(query, "state")?,
        since: query.one("since")?,
        until: query.one("until")?,
        after: query.cursor()?,
        limit: Some(query.limit()?),
    };
    query.finish()?;
    match call.ask(Request::As2 { ask: As2Request::Messages(filter) }).await? {
        Answer::As2Messages { messages, next } => Page::of(&messages, next)?.answer(&fields),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::As2 { ask: As2Request::Message(call.word()?) }).await? {
        Answer::As2Message { message } => json_answer(StatusCode::OK, &message),
        _ => Err(unexpected()),
    }
}

/// All that proves a message, in one document.
pub(crate) async fn evidence(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let answer = call.ask(Request::As2 { ask: As2Request::Message(call.word()?) }).await?;
    let Answer::As2Message { message } = answer else { return Err(unexpected()) };
    let evidence = call.api.node.as2_evidence(call.actor.site, message.entry).await?;
    json_answer(StatusCode::OK, &evidence)
}

/// Sends a message again that left here.
pub(crate) async fn resend(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::As2 { ask: As2Request::Resend(call.word()?) }).await? {
        Answer::As2Sending { sending } => json_answer(StatusCode::OK, &sending),
        _ => Err(unexpected()),
    }
}

/// Sends a file of an endpoint to a partner.
pub(crate) async fn send(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let (partner, order) = (call.word()?, Box::new(call.json()?));
    match call.ask(Request::As2 { ask: As2Request::Send { partner, order } }).await? {
        Answer::As2Sending { sending } => json_answer(StatusCode::OK, &sending),
        _ => Err(unexpected()),
    }
}

/// Ends the job that sends a message.
pub(crate) async fn cancel(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::As2 { ask: As2Request::Cancel(call.word()?) }).await?)
}

/// Tests the connection to a partner, by a message of a few bytes.
pub(crate) async fn test(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::As2 { ask: As2Request::Test(call.word()?) }).await? {
        Answer::As2Test { test } => json_answer(StatusCode::OK, &test),
        _ => Err(unexpected()),
    }
}
