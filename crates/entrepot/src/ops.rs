//! The ops socket that the command line speaks to, and the ops listener: `/metrics`, `/live`,
//! `/ready`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::connect_info::Connected;
use axum::extract::{ConnectInfo, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::serve::IncomingStream;
use axum::{Json, Router};
use entrepot_admin::{Admin, EventQuery, Problem, ProblemClass, Request, explained};
use entrepot_auth::Gate;
use entrepot_model::{Kind, Name, PerDirection, SessionId, SiteId};
use entrepot_vfs::VfsError;
use futures_util::stream;
use serde::Deserialize;
use serde_json::json;
use tokio::net::UnixListener;
use tokio_util::sync::CancellationToken;

use crate::addresses::{LimitRow, Unlock};
use crate::ask::actor_of;
use crate::facts::SessionRow;
use crate::metrics::Metrics;

/// How often a follower looks for new events.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);
/// Events sent to a follower at a time.
const FOLLOW_BATCH: u32 = 500;
/// Rates of sessions are measured over this time.
const RATE_TIME: Duration = Duration::from_millis(500);
/// Largest request.
const REQUEST_BYTES: usize = 64 << 20;

/// What the handlers need.
#[derive(Clone)]
pub(crate) struct Ops {
    pub(crate) admin: Arc<Admin>,
    pub(crate) gate: Gate,
    pub(crate) vfs: entrepot_vfs::Service,
    pub(crate) metrics: Metrics,
    pub(crate) ready: Arc<AtomicBool>,
    pub(crate) stop: CancellationToken,
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
        .route("/v1/sessions", post(sessions))
        .route("/v1/sessions/end", post(end_session))
        .route("/v1/sessions/limit", post(limit_session))
        .route("/v1/node/limit", post(limit_node))
        .route("/v1/addresses", post(addresses))
        .route("/v1/addresses/unlock", post(unlock))
        .route("/v1/stop", post(stop_server))
        .layer(axum::extract::DefaultBodyLimit::max(REQUEST_BYTES))
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
        .route("/live", get(|| async { "live\n" }))
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

async fn request(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
    body: Bytes,
) -> Response {
    let request: Request = match serde_json::from_slice(&body) {
        Ok(request) => request,
        Err(error) => return unreadable(&error),
    };
    let actor = match ops.admin.at_site(actor_of(caller.uid), about.site.as_ref()).await {
        Ok(actor) => actor,
        Err(error) => return refuse(&Problem::from(error)),
    };
    match ops.admin.handle(&actor, request).await {
        Ok(answer) => Json(answer).into_response(),
        Err(error) => refuse(&Problem::from(error)),
    }
}

/// Streams events as lines of JSON.
async fn follow(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
    body: Bytes,
) -> Response {
    let mut query: EventQuery = match serde_json::from_slice(&body) {
        Ok(query) => query,
        Err(error) => return unreadable(&error),
    };
    let actor = match ops.admin.at_site(actor_of(caller.uid), about.site.as_ref()).await {
        Ok(actor) => actor,
        Err(error) => return refuse(&Problem::from(error)),
    };
    query.limit = Some(FOLLOW_BATCH);
    query.after = query.after.or(Some(0));
    let ticks = tokio::time::interval(FOLLOW_EVERY);
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
                let Ok(entrepot_admin::Response::Events { events }) = answer else { continue };
                let Some(last) = events.last() else { continue };
                query.after = Some(last.sequence);
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

/// Rates are those of a moment, so it takes that moment to answer.
async fn sessions(State(ops): State<Ops>) -> Json<Vec<SessionRow>> {
    let before = ops.vfs.sessions().into_iter().map(|info| (info.id, info.wire));
    let before: HashMap<SessionId, (u64, u64)> = before.collect();
    let ((), names) = tokio::join!(tokio::time::sleep(RATE_TIME), site_names(&ops.admin));
    let rows = ops.vfs.sessions().into_iter().map(|info| {
        let (now, before) = (info.wire, before.get(&info.id).copied().unwrap_or(info.wire));
        let rate = |now: u64, before: u64| {
            now.saturating_sub(before).saturating_mul(1000) / RATE_TIME.as_millis() as u64
        };
        let (in_per_second, out_per_second) = (rate(now.0, before.0), rate(now.1, before.1));
        let site = names.get(&info.site).map_or_else(|| info.site.0.to_string(), Name::to_string);
        SessionRow { site, in_per_second, out_per_second, ..SessionRow::from(info) }
    });
    Json(rows.collect())
}

/// Names of sites, as far as the database tells them now.
async fn site_names(admin: &Admin) -> HashMap<SiteId, Name> {
    let actor = actor_of(rustix::process::getuid().as_raw());
    let answer = admin.handle(&actor, Request::List { kind: Kind::Site }).await;
    let Ok(entrepot_admin::Response::Nouns { nouns }) = answer else { return HashMap::new() };
    nouns.into_iter().map(|site| (SiteId(site.id), site.noun.name().clone())).collect()
}

impl From<entrepot_vfs::SessionInfo> for SessionRow {
    fn from(info: entrepot_vfs::SessionInfo) -> Self {
        SessionRow {
            id: info.id,
            site: info.site.0.to_string(),
            account: info.account,
            protocol: info.protocol,
            address: info.address,
            client: info.client,
            algorithms: info.algorithms,
            opened_at: info.opened_at,
            bytes_in: info.bytes_in,
            bytes_out: info.bytes_out,
            transfers: info.transfers,
            in_per_second: 0,
            out_per_second: 0,
        }
    }
}

#[derive(Deserialize)]
struct EndSession {
    id: SessionId,
}

async fn end_session(State(ops): State<Ops>, Json(which): Json<EndSession>) -> Response {
    if ops.vfs.end_session(which.id, "ended by an administrator") {
        return Json(json!({"ended": which.id})).into_response();
    }
    no_session(which.id)
}

#[derive(Deserialize)]
struct LimitSession {
    id: SessionId,
    upload: Option<u64>,
    download: Option<u64>,
    #[serde(default)]
    reset: bool,
}

async fn limit_session(State(ops): State<Ops>, Json(which): Json<LimitSession>) -> Response {
    let rates = PerDirection { upload: which.upload, download: which.download };
    if ops.vfs.limit_session(which.id, (!which.reset).then_some(rates)) {
        return Json(json!({"limited": which.id})).into_response();
    }
    no_session(which.id)
}

fn no_session(id: SessionId) -> Response {
    refuse(&Problem {
        code: "EP0207".to_owned(),
        message: format!("no session '{id}' is open on this node"),
        class: ProblemClass::NotFound,
    })
}

#[derive(Deserialize)]
struct LimitNode {
    upload: Option<u64>,
    download: Option<u64>,
    #[serde(default)]
    reset: bool,
}

async fn limit_node(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Json(wanted): Json<LimitNode>,
) -> Response {
    let rates = PerDirection { upload: wanted.upload, download: wanted.download };
    let by = actor_of(caller.uid).name;
    match ops.vfs.limit_node((!wanted.reset).then_some(rates), &by) {
        Ok(now) => Json(json!({"upload": now.upload, "download": now.download})).into_response(),
        Err(error) => unrecorded(&error),
    }
}

async fn addresses(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
) -> Response {
    match ops.admin.at_site(actor_of(caller.uid), about.site.as_ref()).await {
        Ok(actor) => {
            let limits = ops.gate.login_limits(actor.site).await;
            Json(limits.into_iter().map(LimitRow::from).collect::<Vec<_>>()).into_response()
        }
        Err(error) => refuse(&Problem::from(error)),
    }
}

async fn unlock(
    State(ops): State<Ops>,
    ConnectInfo(caller): ConnectInfo<Caller>,
    Query(about): Query<About>,
    Json(unlock): Json<Unlock>,
) -> Response {
    let actor = ops.admin.at_site(actor_of(caller.uid), about.site.as_ref()).await;
    let actor = match actor.and_then(|actor| actor.may_change("unlock it").map(|()| actor)) {
        Ok(actor) => actor,
        Err(error) => return refuse(&Problem::from(error)),
    };
    let (site, by) = (actor.site, &actor.name);
    let unlocked = match &unlock {
        Unlock::Address(address) => ops.gate.unlock_address(site, *address, by),
        Unlock::Account(name) => ops.gate.unlock_account(site, name, by),
    };
    match unlocked {
        Ok(Some(failures)) => Json(json!({"failures": failures})).into_response(),
        Ok(None) => refuse(&Problem {
            code: "EP0215".to_owned(),
            message: "no wrong password of it counts on this node".to_owned(),
            class: ProblemClass::NotFound,
        }),
        Err(error) => refuse(&Problem {
            code: error.code().to_owned(),
            message: error.to_string(),
            class: ProblemClass::Failed,
        }),
    }
}

async fn stop_server(State(ops): State<Ops>, ConnectInfo(caller): ConnectInfo<Caller>) -> Response {
    match ops.vfs.drain_node(&actor_of(caller.uid).name) {
        Ok(()) => Json(json!({"stopping": true})).into_response(),
        Err(error) => unrecorded(&error),
    }
}

fn unrecorded(error: &VfsError) -> Response {
    refuse(&Problem {
        code: error.code().to_owned(),
        message: error.to_string(),
        class: ProblemClass::Failed,
    })
}

async fn metrics(State(ops): State<Ops>) -> Response {
    let headers = [("content-type", "application/openmetrics-text; version=1.0.0; charset=utf-8")];
    (headers, ops.metrics.encode().await).into_response()
}

async fn ready(State(ops): State<Ops>) -> Response {
    if !ops.ready.load(Ordering::Acquire) || ops.stop.is_cancelled() {
        return (StatusCode::SERVICE_UNAVAILABLE, "not ready\n").into_response();
    }
    let usage = ops.metrics.journal_usage();
    if usage.full || usage.suspect {
        return (StatusCode::SERVICE_UNAVAILABLE, "the journal takes no records\n").into_response();
    }
    "ready\n".into_response()
}
