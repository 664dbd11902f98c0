//! Which handler answers which path: one table of all. What a request must show before is in
//! `request.rs`.

use axum::Router;
use axum::extract::Path;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;

use crate::api::WebApi;
use crate::problem::Problem;
use crate::route_table::{Access, Served};
use crate::{api, as2, browser, challenges, dav, files, links, pages, uploads, web_hooks};

/// Every address that a listener may serve.
pub(crate) fn table(api: &WebApi) -> Vec<Served> {
    let mut table = api::served_routes(api);
    table.extend(files::served_routes());
    table.extend(uploads::served_routes());
    table.extend(dav::served_routes());
    table.extend(links::served_routes());
    table.extend(web_hooks::served_routes());
    table.extend(as2::served_routes());
    table.extend(browser::served_routes(api));
    table.extend(challenges::served_routes(api));
    let error_page = get(error_page);
    let path = "/docs/errors/{code}";
    table.push(Served::new(path, &[Method::GET], Access::Everybody, error_page));
    table
}

/// What answers requests.
pub(crate) fn make(api: &WebApi) -> Router {
    let route = |router: Router, served: Served| router.route(&served.path, served.handler);
    table(api)
        .into_iter()
        .fold(Router::new(), route)
        .fallback(|| async { Problem::nothing_here() })
        .method_not_allowed_fallback(|| async {
            let why = "this address does not take this method";
            Problem::new(StatusCode::METHOD_NOT_ALLOWED, "EP1012", why)
        })
}

/// The page of a code, to which problems lead.
async fn error_page(Path(code): Path<String>) -> Result<impl IntoResponse, Problem> {
    let page = pages::page(&code).ok_or_else(Problem::nothing_here)?;
    let markdown = HeaderValue::from_static("text/markdown; charset=utf-8");
    Ok(([(CONTENT_TYPE, markdown)], page))
}
