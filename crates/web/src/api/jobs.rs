//! Jobs: runs of rules.

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_admin::{JobQuery, Request, Response as Answer};
use entrepot_nouns::StepAddress;
use entrepot_nouns::approval::ApprovalVerdict;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::answer::{Fields, Page, change_answer, json_answer, unexpected};
use super::call::Call;
use super::query::word;
use crate::problem::Problem;

pub(crate) async fn list(mut call: Call) -> Result<Response, Problem> {
    let fields = Fields::wanted(&mut call.query)?;
    let query = &mut call.query;
    let filter = JobQuery {
        state: word(query, "state")?,
        rule: query.one("rule")?,
        after: query.cursor()?,
        limit: Some(query.limit()?),
    };
    query.finish()?;
    match call.ask(Request::Jobs { filter }).await? {
        Answer::Jobs { jobs, next } => Page::of(&jobs, next)?.answer(&fields),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::Job { id: call.word()? }).await? {
        Answer::Job { job } => json_answer(StatusCode::OK, &job),
        _ => Err(unexpected()),
    }
}

/// With what a rule is started.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RuleRun {
    /// The values of its parameters; those that are left out have their defaults.
    parameters: Map<String, Value>,
}

pub(crate) async fn run_rule(call: Call) -> Result<Response, Problem> {
    let run: RuleRun = if call.body.is_empty() { RuleRun::default() } else { call.json()? };
    call.query.finish()?;
    let request = Request::RunRule { name: call.word()?, parameters: run.parameters };
    match call.ask(request).await? {
        Answer::StartedRule { started } => json_answer(StatusCode::ACCEPTED, &started),
        _ => Err(unexpected()),
    }
}

pub(crate) async fn retry(mut call: Call) -> Result<Response, Problem> {
    let rule = word(&mut call.query, "rule")?.unwrap_or_default();
    call.query.finish()?;
    change_answer(call.ask(Request::RetryJob { id: call.word()?, rule }).await?)
}

/// What somebody says to the question of a job.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    /// The step that asks; needed where the job asks several things that the caller may answer.
    #[serde(default)]
    step: Option<StepAddress>,
    /// Whether the job may go on.
    verdict: ApprovalVerdict,
    /// Why; needed where it may not.
    #[serde(default)]
    why: Option<String>,
}

pub(crate) async fn approvals(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    match call.ask(Request::Approvals).await? {
        Answer::Approvals { approvals } => {
            json_answer(StatusCode::OK, &json!({ "items": approvals }))
        }
        _ => Err(unexpected()),
    }
}

pub(crate) async fn answer(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let Answered { step, verdict, why } = call.json()?;
    let id = call.word()?;
    change_answer(call.ask(Request::AnswerApproval { id, step, verdict, why }).await?)
}

pub(crate) async fn cancel(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    change_answer(call.ask(Request::CancelJob { id: call.word()? }).await?)
}
