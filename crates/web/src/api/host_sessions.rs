//! Sessions with host applications that a client holds over many requests.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use entrepot_host::limits::{ACTION_BYTES, SCREEN_WAIT};
use entrepot_host::{
    CallError, Caller, Holding, HostClient, HostError, Key, Place, PoolError, ProcedureError,
    ScreenWait, SessionKind, SessionWork, TypeTo,
};
use entrepot_nouns::{Period, SessionId};
use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::answer::{done, json_answer};
use super::call::{Call, typed};
use super::procedures::{applications, input_of, problem, scope_of};
use super::query::refused;
use crate::problem::Problem;

/// Which session is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct HostSessionOrder {
    /// One of the pool, which rests at home. False: one that nobody else has had, where the host
    /// begins; that is for accounts that may work at the screens.
    pool: bool,
    /// Of one that is not of the pool: values of the model's variables, such as a user of the
    /// client's own. Without any the session has those that sessions of the pool have.
    variables: BTreeMap<String, String>,
}

impl Default for HostSessionOrder {
    fn default() -> Self {
        HostSessionOrder { pool: true, variables: BTreeMap::new() }
    }
}

/// What is typed.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TypedText {
    /// What comes at the keys of a terminal, in one line.
    text: String,
    /// Where, as `row,column` from 1; unset: at the cursor.
    at: Option<String>,
    /// In place of that: the field of the entity that stands, whose text is replaced.
    field: Option<String>,
}

/// A key of the terminal.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PressedKey {
    /// ENTER, CLEAR, PF1 to PF24, PA1 to PA3, TAB, BACKTAB, HOME, RESET and the like.
    key: String,
}

/// What the screen is to show; without anything: a free keyboard.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct AwaitedScreen {
    /// A text that it shows.
    text: Option<String>,
    /// Where it begins, as `row,column` from 1; unset: anywhere.
    at: Option<String>,
    /// An entity of the model.
    entity: Option<String>,
    /// No longer than that, at most `5m`; unset: as long as for other answers of the host.
    timeout: Option<Period>,
}

/// Where to go.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HostDestination {
    /// An entity of the model, or `home`.
    to: String,
}

/// The sessions that the account holds.
pub(crate) async fn list(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let found = applications(&call)?.sessions(&client(&call)?).map_err(problem)?;
    json_answer(StatusCode::OK, &json!({ "items": found }))
}

/// Opens a session, which the account holds from then on.
pub(crate) async fn open(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let HostSessionOrder { pool, variables } = body(&call)?;
    if pool && !variables.is_empty() {
        let what = "'variables' are for a session of the client's own: give 'pool' as false";
        return Err(refused(what.to_owned()));
    }
    let kind = if pool { SessionKind::Pooled } else { SessionKind::Own(variables) };
    let opened = applications(&call)?.open_session(client(&call)?, kind).await;
    json_answer(StatusCode::CREATED, &opened.map_err(problem)?)
}

/// Shows what is known of one, not its screen.
pub(crate) async fn show(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let found = applications(&call)?.session(&client(&call)?, id(&call)?).map_err(problem)?;
    json_answer(StatusCode::OK, &found)
}

/// Gives one back.
pub(crate) async fn end(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    applications(&call)?.end_session(&client(&call)?, id(&call)?).await.map_err(problem)?;
    Ok(done())
}

/// Leaves one to be gone on with later.
pub(crate) async fn suspend(call: Call) -> Result<Response, Problem> {
    hold(call, Holding::Suspended).await
}

/// Goes on with one.
pub(crate) async fn resume(call: Call) -> Result<Response, Problem> {
    hold(call, Holding::Active).await
}

async fn hold(call: Call, how: Holding) -> Result<Response, Problem> {
    call.query.finish()?;
    let held = applications(&call)?.hold_session(&client(&call)?, id(&call)?, how).await;
    json_answer(StatusCode::OK, &held.map_err(problem)?)
}

/// What the screen shows.
pub(crate) async fn screen(call: Call) -> Result<Response, Problem> {
    work(call, SessionWork::Screen).await
}

/// Types at the cursor, at a place or into a field.
pub(crate) async fn type_text(call: Call) -> Result<Response, Problem> {
    let TypedText { text, at, field } = body(&call)?;
    if text.is_empty() || text.len() > ACTION_BYTES || text.contains(char::is_control) {
        let what = format!("'text' has 1 to {ACTION_BYTES} bytes, and no control characters");
        return Err(refused(what));
    }
    let to = match (at, field) {
        (Some(_), Some(_)) => return Err(refused("give 'at' or 'field', not both".to_owned())),
        (Some(at), None) => Some(TypeTo::Place(place(&at)?)),
        (None, field) => field.map(TypeTo::Field),
    };
    work(call, SessionWork::Type { text, to }).await
}

/// Presses a key.
pub(crate) async fn press(call: Call) -> Result<Response, Problem> {
    let PressedKey { key: name } = body(&call)?;
    let key = Key::named(&name).ok_or_else(|| {
        let keys = "ENTER, CLEAR, PF1 to PF24, PA1 to PA3, TAB, BACKTAB, HOME, RESET and the like";
        let name: String = name.chars().take(40).collect();
        refused(format!("'{name}' is no key: there are {keys}"))
    })?;
    work(call, SessionWork::Press(key)).await
}

/// Waits for what the screen shows.
pub(crate) async fn wait(call: Call) -> Result<Response, Problem> {
    let AwaitedScreen { text, at, entity, timeout } = body(&call)?;
    if at.is_some() && text.is_none() {
        return Err(refused("'at' is where 'text' stands: give both".to_owned()));
    }
    let at = at.map(|at| place(&at)).transpose()?;
    let timeout = timeout.map(|timeout| timeout.duration());
    if timeout.is_some_and(|timeout| timeout > SCREEN_WAIT) {
        return Err(refused(format!("'timeout' is at most {}s", SCREEN_WAIT.as_secs())));
    }
    work(call, SessionWork::Wait(ScreenWait { text, at, entity, timeout })).await
}

/// Goes to an entity.
pub(crate) async fn go(call: Call) -> Result<Response, Problem> {
    let HostDestination { to } = body(&call)?;
    work(call, SessionWork::Go(to)).await
}

/// Calls a procedure in one.
pub(crate) async fn run(call: Call) -> Result<Response, Problem> {
    call.query.finish()?;
    let procedure = call.path.get(2).cloned().unwrap_or_default();
    let (client, id, input) = (client(&call)?, id(&call)?, input_of(&call)?);
    let called = applications(&call)?.call_in_session(&client, id, &procedure, input).await;
    json_answer(StatusCode::OK, &called.map_err(problem)?.result)
}

async fn work(call: Call, work: SessionWork) -> Result<Response, Problem> {
    call.query.finish()?;
    let shown = applications(&call)?.work_at_screens(&client(&call)?, id(&call)?, work).await;
    json_answer(StatusCode::OK, &shown.map_err(problem_at_screens)?)
}

/// The client did what the screen does not take: that is no failure of the host.
fn problem_at_screens(error: ProcedureError) -> Problem {
    let is_refused = matches!(
        error,
        ProcedureError::Call {
            error: CallError::Host(HostError::Locked(_) | HostError::NoSuchCharacter(_)),
            ..
        }
    );
    let problem = problem(error);
    if is_refused { Problem { status: StatusCode::CONFLICT, ..problem } } else { problem }
}

fn client(call: &Call) -> Result<HostClient, Problem> {
    let principal = call.signed_in.principal();
    Ok(HostClient {
        scope: scope_of(call),
        caller: Caller(principal.id.0.as_u128()),
        lineage: principal.lineage.clone(),
        model: call.word()?,
    })
}

/// What is no id is one of no session.
fn id(call: &Call) -> Result<SessionId, Problem> {
    let text = call.path.get(1).map(String::as_str).unwrap_or_default();
    let not_held = ProcedureError::Pool(PoolError::NotHeld);
    text.parse().map_err(|_| problem(not_held))
}

fn place(text: &str) -> Result<Place, Problem> {
    Place::parse(text)
        .ok_or_else(|| refused("'at' is row and column from 1, as in '5,12'".to_owned()))
}

/// The body; without one all fields are unset.
fn body<T: DeserializeOwned>(call: &Call) -> Result<T, Problem> {
    if call.body.is_empty() { typed(json!({})) } else { call.json() }
}
