//! `POST /hooks/RULE`: web hooks that start rules. No account signs in here: the gate asks whether
//! the sender knows a key of the rule, and the event is durable before the 202.

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Request};
use axum::http::header::{RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use entrepot_auth::{HookMessage, HookReceipt, HookRefusal};
use entrepot_nouns::Name;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::json;
use tokio::time::timeout;

use crate::context::RequestContext;
use crate::limits::HOOK_BODY_TIME;
use crate::problem::Problem;
use crate::route_table::{Access, Served};

/// Of a sender that has proved nothing. It names no account that could sign in.
const CHALLENGE: HeaderValue = HeaderValue::from_static("Signature realm=\"entrepot\"");

/// The addresses below `/hooks`.
pub(crate) fn served_routes() -> Vec<Served> {
    vec![Served::new("/hooks/{name}", &[Method::POST], Access::Signature, post(receive))]
}

/// Takes one message.
async fn receive(
    context: RequestContext,
    Path(name): Path<String>,
    request: Request,
) -> Result<Response, Problem> {
    let name: Name = name.parse().map_err(|_| no_hook())?;
    let gate = context.shared().gate();
    let hook = gate.rule_hook(context.site, &name).await?.ok_or_else(no_hook)?;
    let (parts, body) = request.into_parts();
    let held = context.shared().web_hooks.try_acquire();
    let _held = held.map_err(|_| {
        let why = "too many web hooks are taken at this moment; send it again later";
        Problem::new(StatusCode::SERVICE_UNAVAILABLE, "EP1003", why)
    })?;
    let body = whole(body, hook.limit_bytes()).await?;
    let address = context.peer().ip();
    let certificate = context.certificate_for(context.site);
    let certificate = certificate.as_ref();
    let message = HookMessage { fields: &parts.headers, body: &body, address, certificate };
    let taken = match hook.receive(message).await? {
        HookReceipt::Event(event) => json!({ "event": event }),
        HookReceipt::Hint => json!({ "watch": name }),
    };
    Ok((StatusCode::ACCEPTED, Json(taken)).into_response())
}

async fn whole(body: Body, most: usize) -> Result<Bytes, Problem> {
    match timeout(HOOK_BODY_TIME, Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = format!("the rule takes bodies of {most} bytes at most");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "EP0847", why))
        }
        Ok(Err(error)) => Err(Problem::malformed(format!("the body broke off ({error})"))),
        Err(_) => {
            let why = "the body did not come in time; nothing was started";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "EP1007", why))
        }
    }
}

fn no_hook() -> Problem {
    let why = "no rule takes web hooks at this address";
    Problem::new(StatusCode::NOT_FOUND, "EP0846", why)
}

impl From<HookRefusal> for Problem {
    fn from(refusal: HookRefusal) -> Problem {
        let why = refusal.to_string();
        match refusal {
            HookRefusal::Unproven => Problem::new(StatusCode::UNAUTHORIZED, "EP0845", why)
                .with(WWW_AUTHENTICATE, CHALLENGE),
            HookRefusal::TooMany { wait } => {
                let seconds = wait.as_secs().saturating_add(1);
                Problem::new(StatusCode::TOO_MANY_REQUESTS, "EP0849", why)
                    .with(RETRY_AFTER, HeaderValue::from(seconds))
            }
            HookRefusal::Body(_) => Problem::new(StatusCode::BAD_REQUEST, "EP0848", why),
            HookRefusal::Later(error) => error.into(),
        }
    }
}
