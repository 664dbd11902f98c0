//! Listings of directories, in order of names, page by page.

use std::collections::BinaryHeap;

use axum::Json;
use axum::http::header::CACHE_CONTROL;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_vfs::{Attributes, Entry, EntryKind, Vfs};
use serde_json::{Value, json};

use super::file_request::{FileRequest, FilesQuery};
use super::page::{self, ListingPage};
use super::path::address;
use crate::accept::Wanted;
use crate::answers::redirect;
use crate::limits::{LISTED, LISTED_MOST, LISTING_READ};
use crate::problem::Problem;

/// Entries by their names.
struct ByName(Entry);

impl PartialEq for ByName {
    fn eq(&self, other: &ByName) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ByName {}

impl PartialOrd for ByName {
    fn partial_cmp(&self, other: &ByName) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByName {
    fn cmp(&self, other: &ByName) -> std::cmp::Ordering {
        self.0.name.cmp(&other.0.name)
    }
}

/// Answers with a page of the listing of a directory.
pub(super) async fn answer(asked: &FileRequest) -> Result<Response, Problem> {
    let wanted = Wanted::of(&asked.fields);
    if wanted == Wanted::Html && !asked.target.is_directory {
        // Relative links on the page need the slash.
        let there = format!("{}/", address(&asked.target.path).trim_end_matches('/'));
        return Ok(redirect(StatusCode::PERMANENT_REDIRECT, &there));
    }
    let vfs = asked.signed_in.vfs();
    let listed = read(vfs, asked).await?;
    let mut response = match wanted {
        Wanted::Json => Json(shown(asked, &listed)).into_response(),
        Wanted::Html => {
            let page = page::directory(&asked.target.path, asked.signed_in.viewer(), &listed);
            page.answer(StatusCode::OK, asked.context.shared().env())
        }
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if asked.method == Method::HEAD {
        *response.body_mut() = axum::body::Body::empty();
    }
    Ok(response)
}

/// The entries behind the cursor with the least names: a directory of any size is read through, and
/// never more than a page of it is kept.
pub(crate) async fn read(vfs: &Vfs, asked: &FileRequest) -> Result<ListingPage, Problem> {
    let FilesQuery { cursor, limit, .. } = &asked.query;
    let most = limit.unwrap_or(LISTED).clamp(1, LISTED_MOST);
    let behind = cursor.as_deref().map(name_of).transpose()?;
    let mut listing = vfs.list(&asked.target.path).await?;
    let mut least = BinaryHeap::new();
    let mut is_cut = false;
    loop {
        let entries = listing.next_page(LISTING_READ).await?;
        if entries.is_empty() {
            break;
        }
        let new = |entry: &Entry| behind.as_ref().is_none_or(|behind| entry.name > *behind);
        for entry in entries.into_iter().filter(new) {
            least.push(ByName(entry));
            if least.len() > most {
                least.pop();
                is_cut = true;
            }
        }
    }
    let entries: Vec<Entry> = least.into_sorted_vec().into_iter().map(|entry| entry.0).collect();
    let next = entries.last().filter(|_| is_cut).map(|last| cursor_of(&last.name));
    let has_trash = vfs.has_trash(&asked.target.path);
    let has_versions = vfs.has_versions(&asked.target.path);
    Ok(ListingPage { entries, next, has_trash, has_versions })
}

/// A cursor as clients see it.
pub(super) fn cursor_of(name: &str) -> String {
    URL_SAFE_NO_PAD.encode(name)
}

/// What a cursor stands for.
pub(super) fn name_of(cursor: &str) -> Result<String, Problem> {
    let name = URL_SAFE_NO_PAD.decode(cursor).ok().and_then(|name| String::from_utf8(name).ok());
    name.ok_or_else(|| Problem::malformed("the cursor is none of ours; begin without one"))
}

fn shown(asked: &FileRequest, listed: &ListingPage) -> Value {
    let shown = |listed: &Entry| entry(&listed.name, &listed.attributes);
    json!({
        "path": asked.target.path,
        "entries": listed.entries.iter().map(shown).collect::<Vec<_>>(),
        "next": listed.next,
    })
}

/// An entry of a directory as programs see it.
pub(super) fn entry(name: &str, attributes: &Attributes) -> Value {
    let kind = match attributes.kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Link => "link",
    };
    let mut shown = json!({
        "name": name,
        "type": kind,
        "size": attributes.size,
        "modified": attributes.modified,
    });
    if attributes.partial
        && let Value::Object(fields) = &mut shown
    {
        fields.insert("partial".to_owned(), Value::Bool(true));
    }
    shown
}
