//! The ops socket that the command line speaks to, and the ops listener: `/metrics`, `/live`,
//! `/ready`.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use entrepot_admin::{Actor, Admin, EventQuery, Problem, ProblemClass, Request, explained};
use entrepot_nouns::Name;
use entrepot_proof::Heads;
use futures_util::stream;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::as2::{self, EvidenceRequest};
use crate::ask::actor_of;
use crate::metrics::Metrics;
use crate::ops_token::OpsToken;
use crate::readiness::Readiness;
use crate::receipt::{self, ReceiptRequest};
use crate::reload::Reload;

/// How often a follower looks for new events.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// Events sent to a follower at a time.
const FOLLOW_BATCH: u32 = 500;
/// Largest body of a request, in bytes.
const REQUEST_BYTES: usize = 64 << 20;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Ops {
    pub(crate) admin: Arc<Admin>,
    pub(crate) metrics: Metrics,
    pub(crate) heads: Heads,
    pub(crate) readiness: Readiness,
    pub(crate) stop: CancellationToken,
    /// What requests on the socket must carry.
    pub(crate) token: OpsToken,
    pub(crate) reload: Arc<Reload>,
}

/// The user behind a connection of the ops socket, as the kernel names it.
#[derive(Clone, Copy)]
struct Caller {
    uid: u32,
}

impl Connected<IncomingStream<'_, UnixListener>> for Caller {
    fn connect_info(stream: IncomingStream<'_, UnixListener>) -> Self {
        // Without credentials the caller is nobody; the socket's mode is the real guard.
        let uid = stream.io().peer_cred().map_or(u32::MAX, |credentials| credentials.uid());
        Caller { uid }
    }
}

/// Serves the ops socket until `until`.
pub(crate) async fn serve_socket(
    listener: UnixListener,
    ops: Ops,
    until: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/v1/request", post(request))
        .route("/v1/events/follow", post(follow))
        .route(receipt::PATH, post(make_receipt))
        .route(as2::PATH, post(as2_evidence))
        .route("/v1/reload", post(reload))
        .layer(axum::extract::DefaultBodyLimit::max(REQUEST_BYTES))
        .layer(axum::middleware::from_fn_with_state(ops.token.clone(), with_token))
        .route("/live", get(live))
        .route("/ready", get(ready))
        .with_state(ops);
    let service = router.into_make_service_with_connect_info::<Caller>();
    axum::serve(listener, service)
        .with_graceful_shutdown(async move { until.cancelled().await })
        .await
}

/// Serves metrics and health until `until`.
pub(crate) async fn serve_listener(
    listener: tokio::net::TcpListener,
    ops: Ops,
    until: CancellationToken,
) -> std::io::Result<()> {
    let router = Router::new()
        .route("/metrics", get(metrics))
        .route("/live", get(live))
        .route("/ready", get(ready))
        .with_state(ops);
    axum::serve(listener, router)
        .with_graceful_shutdown(async move { until.cancelled().await })
        .await
}

fn refuse(problem: &Problem) -> Response {
    let status = match problem.class {
        ProblemClass::NotFound => StatusCode::NOT_FOUND,
        ProblemClass::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        ProblemClass::Conflict => StatusCode::CONFLICT,
        ProblemClass::Changed => StatusCode::PRECONDITION_FAILED,
        ProblemClass::Denied => StatusCode::FORBIDDEN,
        ProblemClass::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        ProblemClass::Failed => StatusCode::INTERNAL_SERVER_ERROR,
    };
    (status, Json(problem)).into_response()
}

fn unreadable(error: &serde_json::Error) -> Response {
    refuse(&Problem {
        code: "EP0205".to_owned(),
        message: format!("the request cannot be taken: {}", explained(&error.to_string())),
        class: ProblemClass::Invalid,
    })
}

/// What a request is about besides its body.
#[derive(Deserialize)]
struct About {
    site: Option<Name>,
}

impl Ops {
    /// What a request on the socket asks for, and who asks at which site; or the answer that
    /// refuses it.
    async fn asked<T: DeserializeOwned>(
        &self,
        caller: Caller,
        about: &About,
        body: &[u8],
    ) -> Result<(T, Actor), Response> {
        let asked = serde_json::from_slice(body).map_err(|error| unreadable(&error))?;
        let actor = self.admin.at_site(actor_of(caller.uid), about.site.as_ref()).await;
        Ok((asked, actor.map_err(|error| refuse(&Problem::from(error)))?))
    }
}

async fn request(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
    body: Bytes,
) -> Response {
    let (request, actor): (Request, Actor) = match ops.asked(caller, &about, &body).await {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    match ops.admin.handle(&actor, request).await {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => refuse(&Problem::from(error)),
    }
}

async fn make_receipt(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
    body: Bytes,
) -> Response {
    let (request, actor): (ReceiptRequest, Actor) = match ops.asked(caller, &about, &body).await {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    match receipt::answer(&ops.heads, actor.site, &request).await {
        Ok(made) => Json(made).into_response(),
        Err(problem) => refuse(&problem),
    }
}

async fn as2_evidence(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
    body: Bytes,
) -> Response {
    let (request, actor): (EvidenceRequest, Actor) = match ops.asked(caller, &about, &body).await {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    match as2::answer(&ops.admin, &ops.heads, &actor, request).await {
        Ok(made) => Json(made).into_response(),
        Err(problem) => refuse(&problem),
    }
}

/// Streams events as lines of JSON.
async fn follow(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
    body: Bytes,
) -> Response {
    let (mut query, actor): (EventQuery, Actor) = match ops.asked(caller, &about, &body).await {
        Ok(asked) => asked,
        Err(refusal) => return refusal,
    };
    query.limit = Some(FOLLOW_BATCH);
    query.after = query.after.or(Some(0));
    let mut ticks = tokio::time::interval(FOLLOW_EVERY);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let lines = stream::unfold(
        (ops, actor, query, ticks),
        |(ops, actor, mut query, mut ticks)| async move {
            loop {
                tokio::select! {
                    () = ops.stop.cancelled() => return None,
                    _ = ticks.tick() => {}
                }
                let request = Request::Events { filter: query.clone() };
                let answer = ops.admin.handle(&actor, request).await;
                // A database that is away for a while only delays the follower.
                let Ok(entrepot_admin::Response::Events { events, next }) = answer else {
                    continue;
                };
                if next.is_some() {
                    ticks.reset_immediately();
                }
                let last = events.last().map(|event| event.sequence);
                query.after = next.or(last).or(query.after);
                if events.is_empty() {
                    continue;
                }
                let mut text = Vec::new();
                for event in &events {
                    if serde_json::to_writer(&mut text, event).is_ok() {
                        text.push(b'\n');
                    }
                }
                let next = (ops, actor, query, ticks);
                return Some((Ok::<_, std::convert::Infallible>(text), next));
            }
        },
    );
    Body::from_stream(lines).into_response()
}

/// Lets through what carries the token; see [`OpsToken`].
async fn with_token(
    State(token): State<OpsToken>,
    request: axum::extract::Request,
    next: axum::middleware::Next,
) -> Response {
    if token.is_in(request.headers()) {
        return next.run(request).await;
    }
    refuse(&Problem {
        code: "EP0432".to_owned(),
        message: "only those who may read 'ops.token' in the data folder may ask for that"
            .to_owned(),
        class: ProblemClass::Denied,
    })
}

async fn reload(State(ops): State<Ops>) -> Response {
    match ops.reload.now() {
        Ok(reloaded) => Json(reloaded).into_response(),
        Err(failure) => refuse(&Problem {
            code: failure.code,
            message: failure.message,
            class: ProblemClass::Invalid,
        }),
    }
}

async fn live(State(ops): State<Ops>) -> Response {
    match ops.readiness.why_not_live() {
        None => "live\n".into_response(),
        Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")).into_response(),
    }
}

async fn metrics(State(ops): State<Ops>) -> Response {
    let headers = [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (headers, ops.metrics.encode(ops.heads.sinks()).await).into_response()
}

/// 404 where HAProxy is to send no new sessions and to leave the open ones (`http-check
/// disable-on-404`); each reason is a line.
async fn ready(State(ops): State<Ops>) -> Response {
    let reasons = ops.readiness.reasons();
    if reasons.is_empty() {
        return "ready\n".into_response();
    }
    let said: String = reasons.iter().map(|reason| format!("{reason}\n")).collect();
    (StatusCode::NOT_FOUND, said).into_response()
}
