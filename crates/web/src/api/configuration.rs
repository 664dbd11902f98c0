//! The configuration as documents, and logins that wrong passwords have limited.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{Document, Request, Response as Answer, UnlockTarget};
use entrepot_nouns::Kind;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::answer::{change_answer, json_answer, unexpected};
use super::call::Call;
use crate::problem::Problem;

/// Documents that are to be the configuration.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WantedDocuments {
    documents: Vec<Document>,
    #[serde(default)]
    prune: bool,
}

pub(crate) async fn plan(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let WantedDocuments { documents, prune } = call.json()?;
    change_answer(call.ask(Request::Plan { documents, prune }).await?)
}

pub(crate) async fn apply(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let WantedDocuments { documents, prune } = call.json()?;
    change_answer(call.ask(Request::Apply { documents, prune }).await?)
}

pub(crate) async fn export(mut call: Call) -> Result<Response, Problem> {
    let kinds: Vec<Kind> = call.query.all("kind")?;
    call.query.finish()?;
    match call.ask(Request::Export { kinds }).await? {
        Answer::Documents { documents } => {
            json_answer(StatusCode::OK, &json!({ "documents": documents }))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn login_limits(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::LoginLimits).await? {
        Answer::LoginLimits { limits } => json_answer(StatusCode::OK, &json!({ "items": limits })),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn unlock(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let target: UnlockTarget = call.json()?;
    match call.ask(Request::Unlock { target }).await? {
        Answer::Unlocked { failures } => {
            json_answer(StatusCode::OK, &json!({ "failures": failures }))
        }
        _ => Err(unexpected()),
    }
}
