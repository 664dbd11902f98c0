//! What was removed and can be put back: GET and DELETE with `?trash`, POST with `?restore`, and
//! what the answer to DELETE says of it.

use std::fmt::Write as _;

use axum::Json;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use entrepot_nouns::{EventId, VPath};
use entrepot_vfs::{EntryKind, OnConflict, Removed, TrashPage, TrashedEntry, Vfs, VfsError};
use serde_json::{Value, json};

use super::conflict::Conflict;
use super::file_request::FileRequest;
use super::page::{breadcrumb, size};
use super::path::address;
use super::validators::date;
use crate::accept::Wanted;
use crate::answers::redirect;
use crate::html::escape;
use crate::limits::{LISTED, LISTED_MOST};
use crate::page::{Page, Viewer};
use crate::problem::Problem;

/// Names the address to which an empty POST puts back what was removed.
pub(crate) const UNDO: HeaderName = HeaderName::from_static("undo-location");

/// Removes a directory: an empty one for good, any other one into the trash.
pub(crate) async fn remove_directory(vfs: &Vfs, path: &VPath) -> Result<Removed, VfsError> {
    match vfs.remove_directory(path).await {
        Ok(()) => Ok(Removed::Gone),
        Err(VfsError::NotEmpty) => match vfs.remove_tree(path).await {
            Ok(entry) => Ok(Removed::Kept(entry)),
            Err(VfsError::Unsupported) => Err(VfsError::NotEmpty),
            Err(error) => Err(error),
        },
        Err(error) => Err(error),
    }
}

/// The answer to DELETE: how to undo it, where that is possible.
pub(super) fn removed(removed: &Removed) -> Response {
    let Removed::Kept(entry) = removed else { return StatusCode::NO_CONTENT.into_response() };
    let mut response = Json(json!({ "trashed": shown(entry) })).into_response();
    tell_undo(&mut response, entry);
    response
}

/// Says in the head of an answer how to undo a removal.
pub(crate) fn tell_undo(response: &mut Response, entry: &TrashedEntry) {
    // Nothing of an id needs escaping.
    if let Ok(there) = HeaderValue::from_str(&undo_address(entry)) {
        response.headers_mut().insert(UNDO, there);
    }
}

fn undo_address(entry: &TrashedEntry) -> String {
    format!("/files/?restore={}", entry.id)
}

/// What was removed, as programs see it.
fn shown(entry: &TrashedEntry) -> Value {
    json!({
        "id": entry.id,
        "path": entry.path,
        "type": if entry.kind == EntryKind::Directory { "directory" } else { "file" },
        "size": entry.size,
        "removed_at": entry.removed_at,
        "removed_by": entry.removed_by,
        "until": entry.until,
        "undo": undo_address(entry),
    })
}

/// Answers with a page of what was removed.
pub(super) async fn list(asked: &FileRequest) -> Result<Response, Problem> {
    let behind = asked.query.cursor.as_deref().map(id_of).transpose()?;
    let limit = asked.query.limit.unwrap_or(LISTED).clamp(1, LISTED_MOST);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    let folder = &asked.target.path;
    let page = asked.signed_in.vfs().trash(folder, behind, limit).await?;
    let mut response = match Wanted::of(&asked.fields) {
        Wanted::Json => Json(json!({
            "path": folder,
            "trashed": page.entries.iter().map(shown).collect::<Vec<_>>(),
            "next": page.next,
        }))
        .into_response(),
        Wanted::Html => {
            let page = for_people(folder, asked.signed_in.viewer(), &page);
            page.answer(StatusCode::OK, asked.context.shared().env())
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if asked.method == Method::HEAD {
        *response.body_mut() = axum::body::Body::empty();
    }
    Ok(response)
}

/// Puts back what was removed.
pub(super) async fn restore(asked: &FileRequest) -> Result<Response, Problem> {
    let id = id_of(asked.query.restore.as_deref().unwrap_or_default())?;
    let path = put_back(asked.signed_in.vfs(), id, asked.query.conflict).await?;
    Ok(redirect(StatusCode::CREATED, &address(&path)))
}

/// Puts back what was removed; answers its path.
pub(super) async fn put_back(vfs: &Vfs, id: EventId, conflict: Conflict) -> Result<VPath, Problem> {
    let on_conflict = match conflict {
        Conflict::Fail => OnConflict::Refuse,
        Conflict::KeepBoth => OnConflict::KeepBoth,
        Conflict::Replace => {
            let why = "what is put back replaces nothing: the conflict is fail or keep-both";
            return Err(Problem::malformed(why));
        }
    };
    vfs.restore(id, on_conflict).await.map_err(refused)
}

/// Deletes for good what was removed: one thing, or all below a directory.
pub(super) async fn purge(asked: &FileRequest) -> Result<Response, Problem> {
    let vfs = asked.signed_in.vfs();
    match asked.query.trash.as_deref().unwrap_or_default() {
        "" => vfs.empty_trash(&asked.target.path).await.map(drop)?,
        id => vfs.purge(id_of(id)?).await.map_err(refused)?,
    }
    Ok(StatusCode::NO_CONTENT.into_response())
}

/// The id of something that was removed.
pub(super) fn id_of(text: &str) -> Result<EventId, Problem> {
    text.parse().map_err(|error| Problem::malformed(format!("{error}")))
}

pub(super) fn refused(error: VfsError) -> Problem {
    match error {
        VfsError::NotFound => {
            let why = "this is not in the trash: it was put back or deleted for good, or this \
                       account may not see it";
            Problem::new(StatusCode::NOT_FOUND, "EP1091", why)
        }
        error => error.into(),
    }
}

/// The page for people, with a button beside each thing.
fn for_people(folder: &VPath, viewer: Viewer, listed: &TrashPage) -> Page {
    let hidden = viewer.hidden();
    let mut page = Page::of("Trash", viewer);
    let mut html = String::new();
    breadcrumb(&mut html, folder);
    if listed.entries.is_empty() {
        html.push_str("<p>Nothing that was removed here can be put back.</p>\n");
    } else {
        table(&mut html, listed, &hidden);
    }
    // To write into a string cannot fail.
    if let Some(next) = &listed.next {
        let _ = writeln!(html, "<p><a href=\"?trash&amp;cursor={next}\">Next page</a></p>");
    }
    let _ = writeln!(html, "<p><a href=\"{}\">Back to the files</a></p>", folder_address(folder));
    page.push(&html);
    page
}

/// The address of a directory, with the slash behind it.
pub(super) fn folder_address(folder: &VPath) -> String {
    format!("{}/", address(folder).trim_end_matches('/'))
}

fn table(html: &mut String, listed: &TrashPage, hidden: &str) {
    let form = "<form class=\"bare\" method=\"post\" action=\"?trash\" \
                enctype=\"multipart/form-data\">";
    let _ = write!(
        html,
        "{form}{hidden}\n<p><label><input type=\"checkbox\" name=\"keep-both\" value=\"true\"> \
         Where a name is taken, put back beside it under another name</label></p>\n\
         <div class=\"wide\"><table>\n<thead><tr><th scope=\"col\">Name</th>\
         <th scope=\"col\" class=\"s\">Size</th><th scope=\"col\">Removed</th>\
         <th scope=\"col\">Kept until</th><th scope=\"col\">Actions</th></tr></thead>\n<tbody>\n"
    );
    for entry in &listed.entries {
        row(html, entry);
    }
    let _ = writeln!(
        html,
        "</tbody>\n</table></div>\n</form>\n{form}{hidden}\n\
         <p><button class=\"bad\" name=\"purge\" \
         value=\"all\">Delete all of this for good</button></p>\n</form>"
    );
}

fn row(html: &mut String, entry: &TrashedEntry) {
    let is_directory = entry.kind == EntryKind::Directory;
    let slash = if is_directory { "/" } else { "" };
    let size = if is_directory { String::new() } else { size(entry.size) };
    let name = escape(entry.path.as_str());
    let by = entry.removed_by.as_ref().map(|by| format!(" by {}", escape(by.as_str())));
    let _ = writeln!(
        html,
        "<tr><td class=\"n\"><bdi>{name}</bdi>{slash}</td><td class=\"s\">{size}</td>\
         <td>{}{}</td><td>{}</td><td><button name=\"restore\" value=\"{id}\" \
         aria-label=\"Put back {name}\">Put back</button> <button class=\"quiet\" name=\"purge\" \
         value=\"{id}\" aria-label=\"Delete {name} for good\">Delete for good</button></td></tr>",
        date(entry.removed_at),
        by.unwrap_or_default(),
        date(entry.until),
        id = entry.id,
    );
}
