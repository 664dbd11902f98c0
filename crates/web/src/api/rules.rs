//! What rules would do and do again, what is wrong with them, and what became of files.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{
    DryRunOrder, ReplayOrder, Request, Response as Answer, RulePause, RuleSource,
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::answer::{change_answer, json_answer, unexpected};
use super::call::Call;
use super::query::refused;
use crate::problem::Problem;

pub(crate) async fn dry_run(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let order: DryRunOrder = call.json()?;
    match call.ask(Request::DryRunRule { order: Box::new(order) }).await? {
        Answer::RuleDryRun { dry_run } => json_answer(StatusCode::OK, &dry_run),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn trace(mut call: Call) -> Result<Response, Problem> {
    let of: Option<String> = call.query.one("of")?;
    call.query.finish()?;
    let of = of.ok_or_else(|| refused("say in 'of' what is traced".to_owned()))?;
    match call.ask(Request::Trace { subject: of.into() }).await? {
        Answer::Trace { trace } => json_answer(StatusCode::OK, &trace),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn test(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let source: RuleSource = call.json()?;
    match call.ask(Request::TestRules { source }).await? {
        Answer::RuleTests { reports } => json_answer(StatusCode::OK, &json!({ "items": reports })),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn lint(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let source: RuleSource = call.json()?;
    match call.ask(Request::LintRules { source }).await? {
        Answer::RuleFindings { findings } => {
            json_answer(StatusCode::OK, &json!({ "items": findings }))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn diff(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let source: RuleSource = call.json()?;
    match call.ask(Request::DiffRules { source }).await? {
        Answer::RuleDiffs { diffs } => json_answer(StatusCode::OK, &json!({ "items": diffs })),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn replay(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let order: ReplayOrder = call.json()?;
    match call.ask(Request::ReplayRule { order: Box::new(order) }).await? {
        Answer::RuleReplay { replay } => json_answer(StatusCode::OK, &replay),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn pause(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::PauseRule { name: call.word()?, to: RulePause::Paused }).await?)
}

pub(crate) async fn resume(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(
        call.ask(Request::PauseRule { name: call.word()?, to: RulePause::Resumed }).await?,
    )
}

/// Which file is to be found anew.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ForgottenFile {
    /// Below the watched folder, as the list of found files has it.
    path: String,
}

pub(crate) async fn seen_files(mut call: Call) -> Result<Response, Problem> {
    let (after, limit) = (call.query.one("after")?, call.query.one("limit")?);
    call.query.finish()?;
    match call.ask(Request::SeenFiles { rule: call.word()?, after, limit }).await? {
        Answer::SeenFiles { files } => json_answer(StatusCode::OK, &json!({ "items": files })),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn forget_file(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let ForgottenFile { path } = call.json()?;
    change_answer(call.ask(Request::Forget { rule: call.word()?, path }).await?)
}
