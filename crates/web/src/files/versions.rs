//! Versions of a file that was replaced: GET with `?versions`, and with `?version=ID` POST and
//! DELETE; GET of one is a download.

use std::fmt::Write as _;

use axum::Json;
use axum::http::header::{CACHE_CONTROL, LOCATION};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use entrepot_nouns::{EventId, VPath};
use entrepot_vfs::{FileVersion, VersionPage, Vfs, VfsError};
use serde_json::{Value, json};

use super::file_request::{FileRequest, FilesQuery};
use super::page::{breadcrumb, size};
use super::path::address;
use super::trash::{folder_address, id_of};
use super::validators::{self, date};
use crate::accept::Wanted;
use crate::html::escape;
use crate::limits::{LISTED, LISTED_MOST};
use crate::page::{Page, Viewer};
use crate::problem::Problem;

/// The version that a request means, if it means one.
pub(super) fn asked_for(query: &FilesQuery) -> Result<Option<EventId>, Problem> {
    query.version.as_deref().map(id_of).transpose()
}

/// True if a request is about versions.
pub(super) fn is_asked_for(query: &FilesQuery) -> bool {
    query.versions.is_some() || query.version.is_some()
}

/// The answer to a request that would change all versions, or the content of one.
pub(super) fn not_all_of_them() -> Problem {
    Problem::malformed(
        "a version is put back by POST ?version=ID and deleted by DELETE ?version=ID",
    )
}

/// Answers with a page of the versions of a file.
pub(super) async fn list(asked: &FileRequest) -> Result<Response, Problem> {
    let behind = asked.query.cursor.as_deref().map(id_of).transpose()?;
    let limit = asked.query.limit.unwrap_or(LISTED).clamp(1, LISTED_MOST);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let path = &asked.target.path;
    let page = asked.signed_in.vfs().versions(path, behind, limit).await?;
    let mut response = match Wanted::of(&asked.fields) {
        Wanted::Json => Json(json!({
            "path": path,
            "versions": page.versions.iter().map(|it| shown(path, it)).collect::<Vec<_>>(),
            "next": page.next,
        }))
        .into_response(),
        Wanted::Html => {
            let page = for_people(path, asked.signed_in.viewer(), &page);
            page.answer(StatusCode::OK, asked.context.shared().env())
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if asked.method == Method::HEAD {
        *response.body_mut() = axum::body::Body::empty();
    }
    Ok(response)
}

/// A version as programs see it.
fn shown(path: &VPath, version: &FileVersion) -> Value {
    json!({
        "id": version.id,
        "size": version.size,
        "modified": version.modified,
        "replaced_at": version.replaced_at,
        "replaced_by": version.replaced_by,
        "until": version.until,
        "href": format!("{}?version={}", address(path), version.id),
    })
}

/// Puts a version back.
pub(super) async fn restore(asked: &FileRequest) -> Result<Response, Problem> {
    let id = id_of(asked.query.version.as_deref().unwrap_or_default())?;
    let (vfs, path) = (asked.signed_in.vfs(), &asked.target.path);
    validators::check(vfs, path, &asked.fields).await?;
    let is_new = !put_back(vfs, path, id).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::NO_CONTENT };
    let mut response = status.into_response();
    if let Ok(there) = HeaderValue::from_str(&address(path)) {
        response.headers_mut().insert(LOCATION, there);
    }
    Ok(response)
}

/// Puts a version back; true if it replaced a file, which is a version now.
pub(super) async fn put_back(vfs: &Vfs, path: &VPath, id: EventId) -> Result<bool, Problem> {
    vfs.restore_version(path, id).await.map_err(refused)
}

/// Deletes a version for good.
pub(super) async fn remove(asked: &FileRequest) -> Result<Response, Problem> {
    let id = id_of(asked.query.version.as_deref().unwrap_or_default())?;
    let vfs = asked.signed_in.vfs();
    vfs.remove_version(&asked.target.path, id).await.map_err(refused)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The problem of a request for a version.
pub(super) fn refused(error: VfsError) -> Problem {
    let why = match error {
        VfsError::NotFound => {
            "there is no such version of this file: it was put back or deleted for good, or this \
             account may not see it"
        }
        VfsError::Exists => {
            "the mount keeps no versions any more, and the file that is there would be lost: \
             rename it first"
        }
        error => return error.into(),
    };
    Problem { detail: why.to_owned(), ..error.into() }
}

/// The address of the page.
pub(super) fn page_address(path: &VPath) -> String {
    format!("{}?versions", address(path))
}

/// The page for people, with a button beside each version.
fn for_people(path: &VPath, viewer: Viewer, listed: &VersionPage) -> Page {
    let hidden = viewer.hidden();
    let mut page = Page::of("Versions", viewer);
    let mut html = String::new();
    let folder = path.parent().unwrap_or_else(VPath::root);
    breadcrumb(&mut html, &folder);
    // To write into a string cannot fail.
    let name = escape(path.file_name().unwrap_or_default());
    let _ = writeln!(html, "<p>What had the name <bdi>{name}</bdi> before.</p>");
    if listed.versions.is_empty() {
        html.push_str("<p>No version of this file is kept.</p>\n");
    } else {
        table(&mut html, listed, &hidden);
    }
    if let Some(next) = &listed.next {
        let _ = writeln!(html, "<p><a href=\"?versions&amp;cursor={next}\">Next page</a></p>");
    }
    let _ = writeln!(html, "<p><a href=\"{}\">Back to the files</a></p>", folder_address(&folder));
    page.push(&html);
    page
}

fn table(html: &mut String, listed: &VersionPage, hidden: &str) {
    let _ = write!(
        html,
        "<form class=\"bare\" method=\"post\" action=\"?versions\" \
         enctype=\"multipart/form-data\">{hidden}\n\
         <div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Changed</th>\
         <th scope=\"col\" class=\"s\">Size</th><th scope=\"col\">Replaced</th>\
         <th scope=\"col\">Kept until</th><th scope=\"col\">Actions</th></tr></thead>\n<tbody>\n"
    );
    for version in &listed.versions {
        row(html, version);
    }
    html.push_str("</tbody>\n</table></div>\n</form>\n");
}

fn row(html: &mut String, version: &FileVersion) {
    let by = version.replaced_by.as_ref().map(|by| format!(" by {}", escape(by.as_str())));
    let changed = date(version.modified);
    let _ = writeln!(
        html,
        "<tr><td class=\"n\"><a href=\"?version={id}\">{changed}</a></td>\
         <td class=\"s\">{}</td><td>{}{}</td><td>{}</td>\
         <td><button name=\"restore-version\" value=\"{id}\" \
         aria-label=\"Put back the version of {changed}\">Put back</button> \
         <button class=\"quiet\" name=\"delete-version\" value=\"{id}\" \
         aria-label=\"Delete the version of {changed} for good\">Delete for good</button>\
         </td></tr>",
        size(version.size),
        date(version.replaced_at),
        by.unwrap_or_default(),
        version.until.map_or_else(String::new, date),
        id = version.id,
    );
}
