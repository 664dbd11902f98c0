//! GET and HEAD of a link: what it opens, a file of it, or a folder as one archive.

use std::collections::BTreeSet;

use axum::Json;
use axum::extract::Request;
use axum::http::header::RANGE;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use entrepot_auth::LinkUse;
use entrepot_nouns::{LinkAction, VPath};
use entrepot_vfs::{Attributes, Entry, EntryKind, IncomingCommand, VfsError};
use serde_json::{Value, json};

use super::asked::Asked;
use super::counted::CountedKey;
use super::page::{self, ShownFiles};
use super::visit::LinkVisit;
use crate::accept::Wanted;
use crate::files::page::ListingPage;
use crate::files::path::FilePath;
use crate::files::range::{self, Ranged};
use crate::files::validators::Validators;
use crate::files::{FileRequest, FilesQuery, download, listing, zip};
use crate::hooks::{CommandRules, reading};
use crate::problem::Problem;

/// What of a request decides on the answer.
struct Wish {
    method: Method,
    fields: HeaderMap,
    query: FilesQuery,
    /// Of an archive: the entries that are wanted; none: all.
    names: BTreeSet<String>,
}

pub(super) async fn get(asked: Asked, request: Request) -> Result<Response, Problem> {
    let Asked { visit, target, query } = asked;
    let (head, _) = request.into_parts();
    let names = zip::chosen_names(&head.uri)?;
    let wish = Wish { method: head.method, fields: head.headers, query, names };
    if target.path.is_root() {
        return root(visit, wish).await;
    }
    if !visit.terms.allows(LinkAction::Download) {
        return Err(shows_nothing());
    }
    let path = inside(&visit, &target.path)?;
    let found = visit.signed_in.vfs().published(&path).await?.ok_or(VfsError::NotFound)?;
    match found.kind {
        EntryKind::Directory if wish.query.zip.is_some() => archive(visit, path, wish).await,
        EntryKind::Directory => list(visit, target.path, path, wish).await,
        EntryKind::File | EntryKind::Link => file(visit, path, found, wish).await,
    }
}

/// The link itself.
async fn root(visit: LinkVisit, wish: Wish) -> Result<Response, Problem> {
    let terms = &visit.terms;
    let may_download = terms.allows(LinkAction::Download);
    if is_used_up(&visit) {
        return Err(used_up());
    }
    if wish.query.zip.is_some() && may_download {
        let path = terms.folder.clone();
        let names = of_link(&visit, wish.names).await?;
        return archive(visit, path, Wish { names, ..wish }).await;
    }
    if let [only] = &*terms.files
        && Wanted::of(&wish.fields) == Wanted::Json
    {
        let path = terms.folder.join(only).map_err(|_| VfsError::NotFound)?;
        let found = visit.signed_in.vfs().published(&path).await?.ok_or(VfsError::NotFound)?;
        return file(visit, path, found, wish).await;
    }
    let path = terms.folder.clone();
    list(visit, VPath::root(), path, wish).await
}

/// What an archive of the link has: the names that are wanted, as far as the link opens them.
async fn of_link(visit: &LinkVisit, names: BTreeSet<String>) -> Result<BTreeSet<String>, Problem> {
    let files = &visit.terms.files;
    if files.is_empty() {
        return Ok(names);
    }
    if !names.iter().all(|name| files.contains(name)) {
        return Err(VfsError::NotFound.into());
    }
    if !names.is_empty() {
        return Ok(names);
    }
    let there = chosen(visit).await?.entries;
    if there.is_empty() {
        return Err(VfsError::NotFound.into());
    }
    Ok(there.into_iter().map(|entry| entry.name).collect())
}

/// The path of the owner that a path of the link stands for.
fn inside(visit: &LinkVisit, path: &VPath) -> Result<VPath, Problem> {
    let terms = &visit.terms;
    let is_chosen = match (&*terms.files, path.parent(), path.file_name()) {
        ([], _, _) => true,
        (files, Some(above), Some(name)) => above.is_root() && files.iter().any(|it| it == name),
        _ => false,
    };
    if !is_chosen {
        return Err(VfsError::NotFound.into());
    }
    let below = |at: VPath, name: &str| at.join(name).map_err(|_| VfsError::NotFound);
    Ok(path.components().try_fold(terms.folder.clone(), below)?)
}

/// The command that a request is, if rules look at it. To look at the head of something is not
/// asked about.
fn asked_as(
    rules: &CommandRules,
    wish: &Wish,
    command: impl FnOnce() -> IncomingCommand,
) -> Option<IncomingCommand> {
    (rules.look() && wish.method != Method::HEAD).then(command)
}

/// The page or the JSON of a folder; `shown` is its path below the link.
async fn list(
    visit: LinkVisit,
    shown: VPath,
    path: VPath,
    wish: Wish,
) -> Result<Response, Problem> {
    let rules = visit.rules();
    // The page of a link that only takes files lists nothing.
    let may_list = visit.terms.allows(LinkAction::Download);
    let command = asked_as(&rules, &wish, || reading("list", "GET", &path));
    match rules.begin(command.filter(|_| may_list)).await? {
        Some(begun) => begun.carry_out(Box::pin(listed(visit, shown, path, wish))).await,
        None => listed(visit, shown, path, wish).await,
    }
}

async fn listed(
    visit: LinkVisit,
    shown: VPath,
    path: VPath,
    wish: Wish,
) -> Result<Response, Problem> {
    let may_list = visit.terms.allows(LinkAction::Download);
    let wanted = Wanted::of(&wish.fields);
    let listed = match (may_list, visit.terms.files.is_empty()) {
        (false, _) => None,
        (true, true) => {
            Some(listing::read(visit.signed_in.vfs(), &request_of(&visit, path, wish)).await?)
        }
        (true, false) => Some(chosen(&visit).await?),
    };
    if wanted == Wanted::Html {
        let sha256 = match listed.as_ref().map(|listed| &*listed.entries) {
            Some([only]) if !visit.terms.files.is_empty() => known_digest(&visit, only).await?,
            _ => None,
        };
        let files = listed.as_ref().map(|listed| ShownFiles { listed, sha256 });
        return Ok(page::folder(&visit, &shown, files));
    }
    Ok(Json(as_json(&visit, listed.as_ref())).into_response())
}

/// The digest of the only file of a link, where this node remembers it.
async fn known_digest(visit: &LinkVisit, only: &Entry) -> Result<Option<[u8; 32]>, Problem> {
    let path = visit.terms.folder.join(&only.name).map_err(|_| VfsError::NotFound)?;
    Ok(visit.signed_in.vfs().known_sha256(&path, &only.attributes).await?)
}

/// The chosen files that are there.
async fn chosen(visit: &LinkVisit) -> Result<ListingPage, Problem> {
    let mut entries = Vec::new();
    for name in &visit.terms.files {
        let path = visit.terms.folder.join(name).map_err(|_| VfsError::NotFound)?;
        if let Some(attributes) = visit.signed_in.vfs().published(&path).await? {
            entries.push(Entry { name: name.clone(), attributes });
        }
    }
    Ok(ListingPage { entries, next: None, has_trash: false, has_versions: false })
}

fn as_json(visit: &LinkVisit, listed: Option<&ListingPage>) -> Value {
    let entry = |entry: &Entry| {
        let kind = if entry.attributes.kind == EntryKind::Directory { "directory" } else { "file" };
        json!({
            "name": entry.name,
            "type": kind,
            "size": entry.attributes.size,
            "modified": entry.attributes.modified,
        })
    };
    json!({
        "title": visit.terms.title,
        "owner": visit.terms.owner,
        "allows": visit.terms.allows,
        "expires_at": visit.link.account.expires_at,
        "entries": listed.map(|listed| listed.entries.iter().map(entry).collect::<Vec<_>>()),
        "next": listed.and_then(|listed| listed.next.as_ref()),
    })
}

fn request_of(visit: &LinkVisit, path: VPath, wish: Wish) -> FileRequest {
    FileRequest {
        context: visit.context.clone(),
        signed_in: visit.signed_in.clone(),
        target: FilePath { path, is_directory: false },
        query: wish.query,
        method: wish.method,
        fields: wish.fields,
    }
}

/// Sends a file, and counts that once however often it is resumed.
async fn file(
    visit: LinkVisit,
    path: VPath,
    found: Attributes,
    wish: Wish,
) -> Result<Response, Problem> {
    let rules = visit.rules();
    let command = asked_as(&rules, &wish, || reading("read", "GET", &path));
    match rules.begin(command).await? {
        Some(begun) => begun.carry_out(Box::pin(sent(visit, path, found, wish))).await,
        None => sent(visit, path, found, wish).await,
    }
}

async fn sent(
    visit: LinkVisit,
    path: VPath,
    found: Attributes,
    wish: Wish,
) -> Result<Response, Problem> {
    if wish.method == Method::HEAD {
        return download::get(request_of(&visit, path, wish)).await;
    }
    let known = Validators::of(&path, &found);
    let part = part_of(&wish.fields, found.size).filter(|_| known.allow_range(&wish.fields));
    let counting = Counting::begin(&visit, path.to_string(), part).await?;
    let answered = download::get(request_of(&visit, path, wish)).await;
    counting.end(&visit, answered, found.size).await
}

async fn archive(visit: LinkVisit, path: VPath, wish: Wish) -> Result<Response, Problem> {
    let rules = visit.rules();
    let command = asked_as(&rules, &wish, || zip::command_of(&path, &wish.names));
    match rules.begin(command).await? {
        Some(begun) => begun.carry_out(Box::pin(packed(visit, path, wish))).await,
        None => packed(visit, path, wish).await,
    }
}

async fn packed(visit: LinkVisit, path: VPath, wish: Wish) -> Result<Response, Problem> {
    let archive = zip::archive_of(visit.signed_in.vfs(), &path, &wish.names).await?;
    let size = archive.size();
    if wish.method == Method::HEAD {
        return zip::send(request_of(&visit, path, wish), archive);
    }
    // Archives of other entries are other downloads.
    let counted = format!("zip:{path}:{}", archive.tag());
    let counting = Counting::begin(&visit, counted, part_of(&wish.fields, size)).await?;
    let answered = zip::send(request_of(&visit, path, wish), archive);
    counting.end(&visit, answered, size).await
}

/// The bytes that a request for a part of a file asks for.
fn part_of(fields: &HeaderMap, size: u64) -> Option<u64> {
    match range::read(fields.get(RANGE)?.to_str().ok()?, size) {
        Ranged::Part { first, last } => Some(last.saturating_sub(first).saturating_add(1)),
        Ranged::Whole | Ranged::Outside => None,
    }
}

/// A download that is being begun: it is a new one, or goes on with one that was counted.
struct Counting {
    key: CountedKey,
    is_new: bool,
}

impl Counting {
    async fn begin(
        visit: &LinkVisit,
        path: String,
        part: Option<u64>,
    ) -> Result<Counting, Problem> {
        let (link, address) = (visit.link.id, visit.context.peer().ip());
        let key = CountedKey { link, address, path };
        let shared = visit.context.shared();
        if part.is_some_and(|bytes| shared.counted_downloads.resume(&key, bytes)) {
            return Ok(Counting { key, is_new: false });
        }
        if !shared.gate().take_link_use(&visit.link, LinkUse::Download).await? {
            return Err(used_up());
        }
        Ok(Counting { key, is_new: true })
    }

    /// What sends nothing of the file gives the download back.
    async fn end(
        self,
        visit: &LinkVisit,
        answered: Result<Response, Problem>,
        size: u64,
    ) -> Result<Response, Problem> {
        let shared = visit.context.shared();
        let sends = |answer: &Response| {
            matches!(answer.status(), StatusCode::OK | StatusCode::PARTIAL_CONTENT)
        };
        match (self.is_new, answered.as_ref().is_ok_and(sends)) {
            (true, true) => shared.counted_downloads.note(self.key, size),
            (true, false) => {
                shared.gate().give_back_link_use(&visit.link, LinkUse::Download).await;
            }
            (false, _) => {}
        }
        answered
    }
}

/// True if nothing is left of what the link allows.
fn is_used_up(visit: &LinkVisit) -> bool {
    let (terms, uses) = (&visit.terms, &visit.uses);
    let spent = |most: Option<u32>, used: u64| most.is_some_and(|most| used >= u64::from(most));
    let no_downloads =
        !terms.allows(LinkAction::Download) || spent(terms.downloads, uses.downloads);
    let no_uploads = !terms.allows(LinkAction::Upload)
        || spent(terms.uploads, uses.uploads)
        || terms.upload_bytes.is_some_and(|most| uses.upload_bytes >= most);
    no_downloads && no_uploads
}

/// The link was used as often as it may be.
pub(super) fn used_up() -> Problem {
    let why = "this link was used as often as it may be; ask who sent it for a new one";
    Problem::new(StatusCode::GONE, "EP1164", why)
}

fn shows_nothing() -> Problem {
    let why = "this link takes files and shows none";
    Problem::new(StatusCode::FORBIDDEN, "EP1167", why)
}
