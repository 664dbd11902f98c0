//! `/dav/…`: the files of the account that a request is from, as WebDAV (RFC 4918, classes 1 and
//! 2). GET, HEAD and PUT are those of `/files`; what else WebDAV knows is carried out here over the
//! machines of `dav-proto`.

mod commands;
mod copying;
pub(crate) mod dav_locks;
mod dav_request;
mod locking;
mod properties;
mod trees;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, HOST, LOCATION};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::any;
use entrepot_dav_proto::Change;
use entrepot_vfs::VfsError;

use crate::context::RequestContext;
use crate::files::{FileRequest, FilesQuery, download, upload};
use crate::login::SignedIn;
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use dav_request::{DavRequest, read, target_of, without_parent};

const METHODS: &str = "OPTIONS, GET, HEAD, PUT, DELETE, PROPFIND, PROPPATCH, MKCOL, COPY, MOVE, \
                       LOCK, UNLOCK";

/// The addresses below `/dav`.
pub(crate) fn served_routes() -> Vec<Served> {
    let methods: Vec<Method> =
        METHODS.split(", ").filter_map(|method| method.parse().ok()).collect();
    let served = |path| Served::new(path, &methods, Access::Account, any(answer));
    ["/dav", "/dav/", "/dav/{*path}"].map(served).into()
}

async fn answer(
    context: RequestContext,
    signed_in: SignedIn,
    request: Request,
) -> Result<Response, Problem> {
    let target = target_of(request.uri().path())?;
    let host = host(request.uri(), request.headers());
    let (head, body) = request.into_parts();
    let who = signed_in.clone();
    let asked = DavRequest { context, signed_in, target, fields: head.headers, host };
    carry_out(asked, head.method, body).await.map_err(|problem| who.explained(problem))
}

async fn carry_out(asked: DavRequest, method: Method, body: Body) -> Result<Response, Problem> {
    let rules = asked.signed_in.rules(&asked.context);
    let command = if rules.look() { commands::command_of(&asked, &method).await? } else { None };
    match rules.begin(command).await? {
        Some(begun) => begun.carry_out(Box::pin(act(asked, method, body))).await,
        None => act(asked, method, body).await,
    }
}

async fn act(asked: DavRequest, method: Method, body: Body) -> Result<Response, Problem> {
    match method.as_str() {
        "OPTIONS" => Ok(options()),
        "GET" | "HEAD" => download::get(file_request(asked, method)).await,
        "PUT" => put(asked, body).await,
        "DELETE" => trees::delete(asked).await,
        "MKCOL" => make_collection(asked, body).await,
        "PROPFIND" => properties::find(asked, body).await,
        "PROPPATCH" => properties::patch(asked, body).await,
        "COPY" => copying::copy(asked).await,
        "MOVE" => copying::rename(asked).await,
        "LOCK" => locking::lock(asked, body).await,
        "UNLOCK" => locking::unlock(asked).await,
        _ => {
            let why = format!("WebDAV takes {METHODS}");
            Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "EP1012", why)
                .with(ALLOW, HeaderValue::from_static(METHODS)))
        }
    }
}

fn host(uri: &Uri, fields: &HeaderMap) -> Option<String> {
    let named = uri.authority().map(Authority::to_string);
    named.or_else(|| fields.get(HOST)?.to_str().ok().map(str::to_owned))
}

/// What the client of Windows looks for before it tries (MS-WDV).
fn options() -> Response {
    let mut response = StatusCode::OK.into_response();
    let fields = response.headers_mut();
    fields.insert(HeaderName::from_static("dav"), HeaderValue::from_static("1, 2"));
    fields.insert(HeaderName::from_static("ms-author-via"), HeaderValue::from_static("DAV"));
    fields.insert(ALLOW, HeaderValue::from_static(METHODS));
    response
}

fn file_request(asked: DavRequest, method: Method) -> FileRequest {
    let DavRequest { context, signed_in, target, fields, .. } = asked;
    FileRequest { context, signed_in, target, query: FilesQuery::default(), method, fields }
}

async fn put(asked: DavRequest, body: Body) -> Result<Response, Problem> {
    let there = asked.vfs().published(asked.path()).await?;
    let change = if there.is_some() { Change::Contents } else { Change::New };
    locking::check(&asked, asked.path(), change).await?;
    let answered = upload::put(file_request(asked, Method::PUT), body).await;
    let mut response = answered.map_err(without_parent)?;
    response.headers_mut().remove(LOCATION);
    Ok(response)
}

async fn make_collection(asked: DavRequest, body: Body) -> Result<Response, Problem> {
    if !read(&asked, body).await?.is_empty() {
        let why = "MKCOL takes no body: this server knows no other kind of collection";
        return Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "EP1013", why));
    }
    locking::check(&asked, asked.path(), Change::New).await?;
    match asked.vfs().make_directory(asked.path()).await {
        Ok(()) => Ok(StatusCode::CREATED.into_response()),
        // RFC 4918 §9.3.1: there is something already, so this method is not for it.
        Err(error @ VfsError::Exists) => {
            Err(Problem { status: StatusCode::METHOD_NOT_ALLOWED, ..Problem::from(error) })
        }
        Err(error) => Err(without_parent(error.into())),
    }
}
