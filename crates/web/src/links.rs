//! `/s/SECRET`: share links, for everybody who has one. No account signs in here: the secret, and
//! the password of the link if it has one, open a session of the link's own account.
//!
//! | method and address | what it does |
//! | --- | --- |
//! | GET, HEAD `/s/SECRET` | what the link opens: a page, or JSON or the only file for programs |
//! | GET, HEAD `/s/SECRET/PATH` | a file, also in parts, or the listing of a folder |
//! | GET `/s/SECRET/PATH?zip` | a folder as one archive |
//! | PUT `/s/SECRET/NAME` | adds a file |
//! | POST `/s/SECRET`, a form | adds files, or shows the password |

mod arrived;
mod asked;
pub(crate) mod counted;
mod download;
mod page;
mod password;
mod upload;
mod visit;

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, REFERRER_POLICY};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;

use crate::accept::Wanted;
use crate::context::RequestContext;
use crate::files::{FilesQuery, path};
use crate::hooks::to_its_end;
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use asked::Asked;
use visit::{ASKS_PASSWORD, LinkAddress, LinkVisit};

/// What every answer has: no other site is told the address, and no search engine lists it.
const UNLINKED: [(HeaderName, HeaderValue); 2] = [
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("x-robots-tag"), HeaderValue::from_static("noindex, nofollow")),
];

/// The addresses below `/s`.
pub(crate) fn served_routes() -> Vec<Served> {
    let methods = [Method::GET, Method::HEAD, Method::PUT, Method::POST];
    let served = |path| Served::new(path, &methods, Access::Link, any(link));
    ["/s/{secret}", "/s/{secret}/", "/s/{secret}/{*path}"].map(served).into()
}

/// Answers any request for a link. No answer leads a browser to tell the address to others, none is
/// kept by caches, and search engines are asked to leave it out.
async fn link(context: RequestContext, request: Request) -> Response {
    let wanted = Wanted::of(request.headers());
    let is_head = request.method() == Method::HEAD;
    let env = context.shared().env().clone();
    let answered = respond(context, request).await;
    let mut response = match answered {
        Ok(response) => response,
        Err(problem) if wanted == Wanted::Html => page::refused(&problem, &env),
        Err(problem) => UNLINKED
            .into_iter()
            .fold(problem, |problem, (name, value)| problem.with(name, value))
            .into_response(),
    };
    let fields = response.headers_mut();
    fields.extend(UNLINKED);
    fields.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("private, no-store"));
    if is_head {
        *response.body_mut() = Body::empty();
    }
    response
}

async fn respond(context: RequestContext, request: Request) -> Result<Response, Problem> {
    let address = LinkAddress::of(request.uri()).ok_or_else(Problem::nothing_here)?;
    let query = Query::<FilesQuery>::try_from_uri(request.uri());
    let Query(query) = query.map_err(|error| Problem::malformed(error.body_text()))?;
    let target = path::decode(&address.path)?;
    if request.method() == Method::POST && is_password_form(&request) {
        return password::take(context, &address, request).await;
    }
    let visit = match LinkVisit::open(&context, &address, request.headers()).await {
        Err(problem)
            if problem.code == ASKS_PASSWORD && Wanted::of(request.headers()) == Wanted::Html =>
        {
            return Ok(page::password(context.shared().env(), StatusCode::OK));
        }
        visit => visit?,
    };
    let asked = Asked { visit, target, query };
    let is_told = asked.visit.rules().look();
    match *request.method() {
        Method::GET | Method::HEAD => download::get(asked, request).await,
        Method::PUT if is_told => to_its_end(Box::pin(upload::put(asked, request))).await,
        Method::PUT => upload::put(asked, request).await,
        Method::POST if is_told => to_its_end(Box::pin(upload::form(asked, request))).await,
        Method::POST => upload::form(asked, request).await,
        _ => {
            let why = "links take GET, HEAD, PUT and POST";
            let allowed = HeaderValue::from_static("GET, HEAD, PUT, POST");
            Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "EP1012", why).with(ALLOW, allowed))
        }
    }
}

/// Files come as `multipart/form-data`.
fn is_password_form(request: &Request) -> bool {
    let kind = request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    kind.is_some_and(|kind| kind.starts_with("application/x-www-form-urlencoded"))
}
