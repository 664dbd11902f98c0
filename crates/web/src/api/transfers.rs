//! Transfers, running and ended, and their receipts.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{HeldDecision, Request, Response as Answer, TransferQuery};
use entrepot_nouns::TransferId;
use schemars::JsonSchema;
use serde::Deserialize;

use super::answer::{Fields, Page, change_answer, json_answer, unexpected};
use super::call::Call;
use super::query::word;
use crate::problem::Problem;

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let query = &mut call.query;
    let filter = TransferQuery {
        account: query.one("account")?,
        state: word(query, "state")?,
        direction: word(query, "direction")?,
        path: query.one("path")?,
        since: query.one("since")?,
        after: query.cursor()?,
        limit: Some(query.limit()?),
    };
    query.finish()?;
    match call.ask(Request::Transfers { filter }).await? {
        Answer::Transfers { transfers, next } => Page::of(&transfers, next)?.answer(&fields),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::Transfer { id: call.word()? }).await? {
        Answer::Transfer { transfer } => json_answer(StatusCode::OK, &transfer),
        _ => Err(unexpected()),
    }
}

/// What somebody decides about a file that its mount holds.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Decided {
    /// What becomes of it.
    decision: HeldDecision,
}

pub(crate) async fn decide(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let Decided { decision } = call.json()?;
    change_answer(call.ask(Request::DecideHeld { id: call.word()?, decision }).await?)
}

/// Proof that the file arrived or left.
pub(crate) async fn receipt(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let transfer: TransferId = call.word()?;
    let receipt = call.api.node.receipt(call.actor.site, transfer).await?;
    json_answer(StatusCode::OK, &receipt)
}
