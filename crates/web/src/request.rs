//! One request: what is checked before anything of it is carried out, and what every answer has.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::Body;
use axum::http::header::{
    CONNECTION, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, EXPECT, HeaderName, LOCATION,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, USER_AGENT, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderValue, Request, Response, StatusCode, Uri, Version};
use entrepot_auth::{Encryption, PageOrigin};
use entrepot_nouns::http::HttpService;
use hyper::body::Incoming;
use tower_service::Service as _;

use crate::accept::Wanted;
use crate::body::{AnswerBody, LeastRate, RequestBody, RequestGuard, Rest};
use crate::connection::Connection;
use crate::context::RequestContext;
use crate::heads::RawHead;
use crate::limits::{BODY_RATE_WINDOW, CLIENT_LETTERS};
use crate::problem::{Problem, Unanswered};
use crate::rate_fields::RateFields;
use crate::request_id::RequestId;
use crate::shared::ListenerShared;
use crate::{challenges, origin, site};

/// Fields of every answer that has none of its own of the name.
const USUAL: [(HeaderName, HeaderValue); 5] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (REFERRER_POLICY, HeaderValue::from_static("same-origin")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (
        HeaderName::from_static("cross-origin-resource-policy"),
        HeaderValue::from_static("same-origin"),
    ),
    (
        CONTENT_SECURITY_POLICY,
        HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'; sandbox"),
    ),
];

/// A year, as browsers ask for at least that.
const ONLY_HTTPS: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Answers one request of a connection.
pub(crate) async fn answer(
    shared: Arc<ListenerShared>,
    connection: Arc<Connection>,
    request: Request<Incoming>,
) -> Response<AnswerBody> {
    let running = connection.activity.request();
    let number = connection.activity.requests();
    if number >= connection.config.connection_requests() {
        connection.close_soon();
    }
    if let Some(client) = request.headers().get(USER_AGENT) {
        let client = client.as_bytes();
        connection.meter.identified(client.get(..CLIENT_LETTERS).unwrap_or(client));
    }
    let (rest, tasks) = (rest_of(&request), connection.tasks.clone());
    let mut request = request.map(|body| RequestBody::new(body, rest, tasks));
    if let Some(head) = connection.next_head() {
        request.extensions_mut().insert(RawHead(head));
    }
    let bytes_per_second = connection.config.least_body_rate();
    let least = LeastRate { bytes_per_second, window: BODY_RATE_WINDOW };
    let too_slow = request.body_mut().hold_to(least, shared.env());
    let id = RequestId { connection: connection.id, number };
    let counted = shared.begin_request(connection.config.requests());
    let is_refused = counted.is_none();
    let waited_for = connection.meter.waited_for();
    let guard = RequestGuard { running, _counted: counted, _waited_for: Some(waited_for) };
    let wanted = Wanted::of(request.headers());
    let (is_encrypted, version) = (connection.is_encrypted(), request.version());
    let ending = Arc::clone(&connection);
    let env = shared.env().clone();
    let rate = RateFields::of(&shared, &connection, request.uri().path());
    let answered = if is_refused {
        Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "EP1003",
            "too many requests are worked on at this moment; try again later",
        ))
    } else {
        respond(shared, connection, request).await
    };
    let was_too_slow = too_slow.is_some_and(|it| it.load(Ordering::Relaxed));
    let answered = if was_too_slow { Err(slow_body(bytes_per_second)) } else { answered };
    let mut response = answered.unwrap_or_else(|problem| problem.answer(id, wanted, &env));
    if let Some(Unanswered(problem)) = response.extensions_mut().remove() {
        response = problem.answer(id, wanted, &env);
    }
    for (name, value) in USUAL {
        response.headers_mut().entry(name).or_insert(value);
    }
    if let Some(rate) = rate.filter(|rate| rate.belongs_to(response.status())) {
        rate.write(response.headers_mut());
    }
    if is_encrypted {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, ONLY_HTTPS);
    }
    if ending.is_closing() && version != Version::HTTP_2 {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    let guard = guard.for_answer(response.extensions());
    response.map(|body| AnswerBody::new(body, guard))
}

fn slow_body(least: u32) -> Problem {
    let why = format!("the body came more slowly than {least} bytes a second; nothing was stored");
    Problem::new(StatusCode::REQUEST_TIMEOUT, "EP1007", why)
}

/// Checks what holds for every request, then hands it to what serves its path.
async fn respond(
    shared: Arc<ListenerShared>,
    connection: Arc<Connection>,
    request: Request<RequestBody>,
) -> Result<Response<Body>, Problem> {
    if let Some(why) = connection.why_unwelcome() {
        connection.close_soon();
        return Err(Problem::new(StatusCode::FORBIDDEN, "EP1014", why));
    }
    let (uri, fields) = (request.uri(), request.headers());
    let host = site::authority(uri, fields)?;
    if let Some(port) = connection.config.redirect_to_https()
        && !challenges::is_asked(uri.path())
    {
        return redirect(uri, &host, port);
    }
    if !is_served(&connection, uri.path()) {
        return Err(Problem::nothing_here());
    }
    origin::check(request.method(), fields, &host)?;
    refuse_encoded(fields)?;
    let site = site::site_of(&shared, &connection, &host).await?;
    let ends = if connection.is_encrypted() { Encryption::Here } else { Encryption::Elsewhere };
    let origin = PageOrigin::new(host.host(), host.port_u16(), ends);
    let mut router = shared.router.clone();
    let mut request = request.map(Body::new);
    request.extensions_mut().insert(RequestContext { site, origin, connection, shared });
    match router.call(request).await {
        Ok(response) => Ok(response),
        Err(never) => match never {},
    }
}

/// What becomes of a body that no handler reads.
fn rest_of(request: &Request<Incoming>) -> Rest {
    if request.headers().contains_key(EXPECT) { Rest::Unsent } else { Rest::Read }
}

/// Whether the listener serves what the path belongs to.
fn is_served(connection: &Connection, path: &str) -> bool {
    let is_below = |root: &str| {
        path.strip_prefix(root).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let of_model = path.strip_prefix("/api/v1/models/").and_then(|rest| rest.split('/').nth(1));
    if of_model.is_some_and(|word| ["procedures", "sessions"].contains(&word)) {
        let config = &connection.config;
        config.serves(HttpService::Host)
    } else if is_below("/api") {
        connection.config.serves(HttpService::Api)
    } else if path == "/" || is_below("/files") || is_below("/uploads") {
        connection.config.serves(HttpService::Files)
    } else if is_below("/dav") {
        connection.config.serves(HttpService::Dav)
    } else if path == "/setup" {
        connection.config.serves(HttpService::Api)
    } else if ["/sign-in", "/sign-out", "/account", "/prove"].into_iter().any(is_below) {
        let config = &connection.config;
        config.serves(HttpService::Files) || config.serves(HttpService::Api)
    } else if is_below("/s") {
        connection.config.serves(HttpService::Links)
    } else if is_below("/hooks") {
        connection.config.serves(HttpService::Hooks)
    } else if is_below("/as2") {
        connection.config.serves(HttpService::As2)
    } else {
        true
    }
}

/// Bytes that are packed would have to be unpacked before they can be counted, hashed and limited.
fn refuse_encoded(fields: &HeaderMap) -> Result<(), Problem> {
    let encoded = fields.get_all(CONTENT_ENCODING).iter().any(|it| it != "identity");
    if !encoded {
        return Ok(());
    }
    let why = "the body is encoded (Content-Encoding); send the bytes as they are";
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "EP1008", why))
}

/// The same address under HTTPS.
fn redirect(uri: &Uri, host: &Authority, port: u16) -> Result<Response<Body>, Problem> {
    let path = uri.path_and_query().map_or("/", |path| path.as_str());
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let there = format!("https://{}{port}{path}", host.host());
    let there = HeaderValue::try_from(there);
    let there = there.map_err(|_| Problem::malformed("the address cannot be read"))?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::PERMANENT_REDIRECT;
    response.headers_mut().insert(LOCATION, there);
    Ok(response)
}
