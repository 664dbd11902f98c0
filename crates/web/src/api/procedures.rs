//! Procedures of host applications: what an account may call, and its calls.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_host::model::Described;
use entrepot_host::{
    Applications, CallError, Caller, HostError, PoolError, PoolFigures, ProcedureCall,
    ProcedureError, Scope,
};
use entrepot_nouns::Name;
use serde_json::{Map, Value, json};

use super::answer::json_answer;
use super::call::Call;
use super::model_openapi;
use super::query::refused;
use crate::problem::Problem;

/// What the caller may call.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    json_answer(StatusCode::OK, &json!({"items": described(&call)?.1}))
}

/// A description of the interface of a model alone (OpenAPI 3.1), for programs that make clients:
/// what the caller may call.
pub(crate) async fn openapi(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let (model, procedures) = described(&call)?;
    json_answer(StatusCode::OK, &model_openapi::description(&model, &procedures))
}

fn described(call: &Call) -> Result<(Name, Vec<Described>), Problem> {
    let model: Name = call.word()?;
    let lineage = &call.signed_in.principal().lineage;
    let found = applications(call)?.described(call.actor.site, &model, lineage);
    Ok((model, found.map_err(problem)?))
}

/// Calls one that the account may call.
pub(crate) async fn run(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let model: Name = call.word()?;
    let procedure = call.path.get(1).cloned().unwrap_or_default();
    let (principal, site) = (call.signed_in.principal(), call.actor.site);
    let applications = applications(&call)?;
    let right = applications.check_right(site, &model, &procedure, &principal.lineage);
    right.map_err(problem)?;
    let (scope, input) = (scope_of(&call), input_of(&call)?);
    let caller = Caller(principal.id.0.as_u128());
    let order = ProcedureCall { scope, caller, model, procedure, input };
    let called = applications.call(order).await.map_err(problem)?;
    json_answer(StatusCode::OK, &called.result)
}

/// Whose request it is, for the audit log.
pub(super) fn scope_of(call: &Call) -> Scope {
    Scope {
        account: Some(call.signed_in.principal().account.name.clone()),
        session: Some(call.signed_in.session().id()),
        ..Scope::site(call.actor.site)
    }
}

/// The parameters of a procedure.
pub(super) fn input_of(call: &Call) -> Result<BTreeMap<String, String>, Problem> {
    texts(if call.body.is_empty() { Map::new() } else { call.json()? })
}

/// The sessions of a model on this node.
pub(crate) async fn pool(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let model: Name = call.word()?;
    let figures: PoolFigures =
        applications(&call)?.figures(call.actor.site, &model).map_err(problem)?;
    json_answer(StatusCode::OK, &figures)
}

pub(super) fn applications(call: &Call) -> Result<&Applications, Problem> {
    let why = "this node has no applications of hosts";
    call.api.applications.as_ref().ok_or_else(|| Problem::new(StatusCode::NOT_FOUND, "EP1314", why))
}

/// Parameters as texts; a procedure knows what each of them must be.
fn texts(input: Map<String, Value>) -> Result<BTreeMap<String, String>, Problem> {
    let text = |(name, value): (String, Value)| match value {
        Value::String(text) => Ok((name, text)),
        Value::Number(number) => Ok((name, number.to_string())),
        Value::Bool(flag) => Ok((name, flag.to_string())),
        _ => Err(refused(format!("'{name}' is no text and no number"))),
    };
    input.into_iter().map(text).collect()
}

pub(super) fn problem(error: ProcedureError) -> Problem {
    let problem = Problem::new(status(&error), error.code(), error.to_string());
    let outcome = error.outcome().map(str::to_owned);
    let ProcedureError::Call { stood, .. } = error else { return problem };
    let rows = stood.screen.map(|screen| screen.rows);
    let members = [
        ("error", outcome.map(Value::from)),
        ("entity", stood.entity.map(Value::from)),
        ("screen", rows.map(Value::from)),
    ];
    members.into_iter().fold(problem, |problem, (name, value)| match value {
        Some(value) => problem.and(name, value),
        None => problem,
    })
}

fn status(error: &ProcedureError) -> StatusCode {
    match error {
        ProcedureError::NoModel(_) | ProcedureError::Pool(PoolError::NotHeld) => {
            StatusCode::NOT_FOUND
        }
        ProcedureError::NotAllowed { .. }
        | ProcedureError::NoTerminal(_)
        | ProcedureError::NoSession(_) => StatusCode::FORBIDDEN,
        ProcedureError::Busy(_)
        | ProcedureError::Suspended(_)
        | ProcedureError::HoldsEnough { .. } => StatusCode::CONFLICT,
        ProcedureError::Pool(_) | ProcedureError::Journal(_) => StatusCode::SERVICE_UNAVAILABLE,
        ProcedureError::Call { error, .. } => match error {
            CallError::Caller(_) => StatusCode::UNPROCESSABLE_ENTITY,
            CallError::Outcome { http, .. } => {
                // The model chooses among failures.
                let status = StatusCode::from_u16(*http).ok();
                let status = status.filter(|it| it.is_client_error() || it.is_server_error());
                status.filter(|it| *it != StatusCode::UNAUTHORIZED).unwrap_or(REFUSED)
            }
            CallError::Host(HostError::Late { .. }) => StatusCode::GATEWAY_TIMEOUT,
            CallError::Host(_) | CallError::Lost { .. } | CallError::Kind { .. } => {
                StatusCode::BAD_GATEWAY
            }
        },
    }
}

/// The application refused; 401 too would be taken as our own, and ask people for a password.
const REFUSED: StatusCode = StatusCode::UNPROCESSABLE_ENTITY;
