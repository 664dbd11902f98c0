//! GET with `?search`: the entries below a directory whose names fit, page by page.

use axum::Json;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use entrepot_vfs::{Found, NameQuery, PageLimit};
use serde_json::{Value, json};

use super::file_request::FileRequest;
use super::listing;
use super::page::{self, FoundFiles};
use crate::accept::Wanted;
use crate::limits::{LISTED, LISTED_MOST};
use crate::problem::Problem;

/// Answers with a page of what is found.
pub(super) async fn answer(asked: &FileRequest) -> Result<Response, Problem> {
    let text = asked.query.search.as_deref().unwrap_or_default();
    let why = "a search is 1 to 255 bytes: a part of a name, or a pattern with * and ?";
    let wanted = NameQuery::of(text).ok_or_else(|| Problem::malformed(why))?;
    let cursor = asked.query.cursor.as_deref().map(listing::name_of).transpose()?;
    let limit = PageLimit { found: asked.query.limit.unwrap_or(LISTED).clamp(1, LISTED_MOST) };
    let folder = &asked.target.path;
    let page = asked.signed_in.vfs().search(folder, &wanted, cursor.as_deref(), limit).await?;
    let shown = |found: &Found| {
        let name = found.path.file_name().unwrap_or_default();
        let mut entry = listing::entry(name, &found.attributes);
        if let Value::Object(fields) = &mut entry {
            fields.insert("path".to_owned(), json!(found.path));
        }
        entry
    };
    let next = page.next.as_deref().map(listing::cursor_of);
    let mut response = match Wanted::of(&asked.fields) {
        Wanted::Json => Json(json!({
            "path": folder,
            "found": page.found.iter().map(shown).collect::<Vec<_>>(),
            "next": next,
            "looked_at": page.looked_at,
        }))
        .into_response(),
        Wanted::Html => {
            let found = FoundFiles { folder, text, found: &page.found, next: next.as_deref() };
            let page = page::search(asked.signed_in.viewer(), &found);
            page.answer(StatusCode::OK, asked.context.shared().env())
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if asked.method == Method::HEAD {
        *response.body_mut() = axum::body::Body::empty();
    }
    Ok(response)
}
