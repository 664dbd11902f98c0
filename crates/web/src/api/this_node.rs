//! The node that answers: its rates, its log, its end, the heads of its journal, its metrics.

use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use entrepot_admin::{Cursor, LogLevel, LogSubject, RateOrder, Request, Response as Answer};

use super::answer::{Fields, Page, change_answer, json_answer, unexpected};
use super::call::Call;
use super::sessions::RateLimits;
use crate::problem::Problem;

pub(crate) async fn limit(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let RateLimits { upload, download } = call.json()?;
    let rates = RateOrder::Set { upload, download };
    rates_answer(call.ask(Request::LimitNode { rates }).await?)
}

pub(crate) async fn unlimit(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    rates_answer(call.ask(Request::LimitNode { rates: RateOrder::Reset }).await?)
}

fn rates_answer(answer: Answer) -> Result<Response, Problem> {
    match answer {
        Answer::Rates { upload, download } => {
            json_answer(StatusCode::OK, &RateLimits { upload, download })
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn stop(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::StopNode).await?)
}

pub(crate) async fn log_levels(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    levels_answer(call.ask(Request::LogLevels).await?)
}

/// The subjects that change; null: as the process file says again.
pub(crate) type LevelChanges = BTreeMap<LogSubject, Option<LogLevel>>;

pub(crate) async fn change_log_levels(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let levels: LevelChanges = call.json()?;
    levels_answer(call.ask(Request::SetLogLevels { levels }).await?)
}

pub(crate) async fn reset_log_levels(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    levels_answer(call.ask(Request::ResetLogLevels).await?)
}

fn levels_answer(answer: Answer) -> Result<Response, Problem> {
    match answer {
        Answer::LogLevels { levels } => json_answer(StatusCode::OK, &levels),
        _ => Err(unexpected()),
    }
}

/// The last signed head of this node's journal, with the key that verifies it.
pub(crate) async fn head(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    of_main(&call)?;
    json_answer(StatusCode::OK, &call.api.node.head().await?)
}

/// The signed heads of this node's journal, the shortest first.
pub(crate) async fn heads(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let (after, limit) = (call.query.cursor()?, call.query.limit()?);
    call.query.finish()?;
    let after = after.map_or(Ok(0), |cursor| cursor.as_str().parse()).map_err(|_| {
        let problem = "the cursor is not of a list of heads; begin the list anew, without one";
        Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "EP1110", problem)
    })?;
    match call.ask(Request::JournalHeads { after, limit: Some(limit) }).await? {
        Answer::JournalHeads { heads, next } => {
            let next = next.map(|records| Cursor::new(records.to_string()));
            Page::of(&heads, next)?.answer(&fields)
        }
        _ => Err(unexpected()),
    }
}

/// The metrics of this node as they are now.
pub(crate) async fn metrics(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    of_main(&call)?;
    let mut response = Response::new(Body::from(call.api.node.metrics().await));
    let media = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    Ok(response)
}

/// Nodes serve every site: what they say of themselves is for administrators of `main`.
fn of_main(call: &Call) -> Result<(), Problem> {
    if call.actor.site == entrepot_nouns::SiteId::MAIN {
        return Ok(());
    }
    let problem = "nodes serve every site: ask at the site 'main'".to_owned();
    Err(entrepot_admin::AdminError::Refused { problem }.into())
}
