//! `/api/v1`: what an account may ask of itself and, for administrators, the administration. Every
//! route stands in the table of `routes.rs`, from which the router and the description of the
//! interface are made. All goes through `Admin::handle`, so that a request here may and means what
//! it may and means on the command line.

mod answer;
mod as2;
mod call;
mod certificates;
mod configuration;
mod events;
mod explanations;
mod feed;
mod host_sessions;
mod jobs;
mod links;
mod live;
mod live_stream;
mod model_openapi;
mod nodes;
mod nouns;
mod openapi;
mod paging;
mod procedures;
pub(crate) mod query;
pub mod remote;
mod remote_answer;
pub(crate) mod routes;
mod rules;
mod schemas;
pub(crate) mod served;
mod sessions;
mod stream;
mod this_node;
mod tokens;
mod transfers;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, get, on};
use entrepot_admin::Actor;
use entrepot_nouns::{AccountType, Name};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::context::RequestContext;
use crate::login::{Administrator, SignedIn};
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use call::Call;
pub use live::LiveSource;
use query::Query;
use routes::{Callers, Route};
use served::Api;
pub use served::{ApiNode, WebApi};

/// Where the description of the interface is served.
pub(crate) const DESCRIPTION: &str = "/api/v1/openapi.json";

/// The addresses below `/api/v1`.
pub(crate) fn served_routes(WebApi(api): &WebApi) -> Vec<Served> {
    let mut served = vec![
        Served::new("/api/v1/session", &[Method::GET], Access::Account, get(session)),
        Served::new(DESCRIPTION, &[Method::GET], Access::Administrator, get(description)),
    ];
    for route in routes::all() {
        let Route { method, path, callers, run, .. } = route;
        // The invariant: the table has methods that axum knows; a test calls each.
        let filter = MethodFilter::try_from(method.clone()).unwrap_or(MethodFilter::GET);
        let handler = move |State(api): State<Api>, params, request| {
            let run = run.clone();
            async move {
                match call(api, callers, params, request).await {
                    Ok(call) => run(call).await.unwrap_or_else(IntoResponse::into_response),
                    Err(problem) => problem.into_response(),
                }
            }
        };
        let handler = on(filter, handler).with_state(api.clone());
        let access = match callers {
            Callers::Administrators => Access::Administrator,
            Callers::Accounts => Access::Account,
        };
        served.push(Served::new(&path, &[method], access, handler));
    }
    served
}

/// Who the request is from, as the server sees it.
async fn session(context: RequestContext, signed_in: SignedIn) -> Json<Value> {
    let (session, principal) = (signed_in.session(), signed_in.principal());
    Json(json!({
        "id": session.id(),
        "account": principal.account.name,
        "type": principal.account.account_type,
        "home": principal.account.home,
        "address": context.peer().ip(),
    }))
}

/// A request as the handlers see it.
async fn call(
    api: Api,
    callers: Callers,
    params: RawPathParams,
    request: Request,
) -> Result<Call, Problem> {
    let (mut parts, body) = request.into_parts();
    let context = RequestContext::from_request_parts(&mut parts, &()).await?;
    let who = caller(callers, &mut parts).await?;
    let mut query = Query::parse(parts.uri.query().unwrap_or_default())?;
    let site: Option<Name> = query.one("site")?;
    let actor = api.admin.at_site(who.actor, site.as_ref()).await?;
    let body = whole(&context, body).await?;
    Ok(Call {
        api,
        actor,
        signed_in: who.signed_in,
        method: parts.method,
        target: parts.uri.path_and_query().map(ToString::to_string).unwrap_or_default(),
        path: params.iter().map(|(_, word)| word.to_owned()).collect(),
        query,
        headers: parts.headers,
        body,
    })
}

/// The whole body of a request, within the limits of the listener.
async fn whole(context: &RequestContext, body: Body) -> Result<Bytes, Problem> {
    let config = &context.connection.config;
    let most = config.api_body_bytes();
    match timeout(config.api_body_time(), Limited::new(body, most).collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let why = format!("the body is more than {most} bytes long");
            Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "EP0110", why))
        }
        Ok(Err(error)) => Err(Problem::malformed(format!("the body broke off ({error})"))),
        Err(_) => {
            let why = "the body did not come in time; nothing was changed";
            Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "EP1007", why))
        }
    }
}

/// Who calls: an administrator, or at some routes any account, which acts for itself there.
async fn caller(callers: Callers, parts: &mut Parts) -> Result<Administrator, Problem> {
    let signed_in = SignedIn::from_request_parts(parts, &()).await?;
    let principal = signed_in.principal();
    let is_administrator = principal.account.account_type == AccountType::Admin;
    if is_administrator || callers == Callers::Administrators {
        return Administrator::from_request_parts(parts, &()).await;
    }
    Ok(Administrator { actor: Actor::of_account(&principal), signed_in })
}

/// The description of the interface, for everybody who may sign in here.
async fn description(_: Administrator) -> Response {
    let mut response = Response::new(Body::from(openapi::text()));
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(CONTENT_TYPE, json);
    response
}
