//! DELETE, and what it shares with COPY and MOVE: a tree goes from its leaves up.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use entrepot_dav_proto::{Change, MultiStatus};
use entrepot_nouns::VPath;
use entrepot_vfs::{EntryKind, Removed, Vfs, VfsError};

use super::dav_request::{DavRequest, href, xml};
use super::locking;
use crate::files::trash::{remove_directory, tell_undo};
use crate::files::validators;
use crate::limits::{LISTING_READ, TREE_DEPTH};
use crate::problem::Problem;

/// What could not be done to a member of a tree, and why.
pub(super) struct Failed {
    pub(super) path: VPath,
    pub(super) kind: EntryKind,
    pub(super) problem: Problem,
}

pub(super) async fn delete(asked: DavRequest) -> Result<Response, Problem> {
    let path = asked.path();
    validators::check(asked.vfs(), path, &asked.fields).await?;
    locking::check(&asked, path, Change::Tree).await?;
    let there = asked.vfs().published(path).await?.ok_or(VfsError::NotFound)?;
    let kept = match there.kind {
        EntryKind::Directory => remove_directory(asked.vfs(), path).await,
        EntryKind::File | EntryKind::Link => asked.vfs().remove_undoable(path).await,
    };
    let answer = match kept {
        Ok(removed) => {
            let mut response = StatusCode::NO_CONTENT.into_response();
            if let Removed::Kept(entry) = &removed {
                tell_undo(&mut response, entry);
            }
            Ok(response)
        }
        // Member by member: what cannot be removed is named.
        Err(_) => {
            let failed = remove(asked.vfs(), path, there.kind).await;
            outcome(failed, path, StatusCode::NO_CONTENT)
        }
    };
    locking::forget(&asked, path).await;
    answer
}

/// The answer to a request that was carried out, but for these members.
pub(super) fn outcome(
    failed: Vec<Failed>,
    path: &VPath,
    otherwise: StatusCode,
) -> Result<Response, Problem> {
    let mut failed = failed;
    match failed.as_slice() {
        [] => Ok(otherwise.into_response()),
        [only] if only.path == *path => {
            // One element: it is there.
            Err(failed.remove(0).problem)
        }
        several => {
            let mut body = MultiStatus::default();
            for it in several {
                body.outcome(&href(&it.path, it.kind), it.problem.status.as_u16(), None);
            }
            Ok(xml(StatusCode::MULTI_STATUS, body.finish()))
        }
    }
}

/// Removes a file, or a directory with all that is in it; what cannot be removed stays, with the
/// directories above it (RFC 4918 §9.6.1).
pub(super) async fn remove(vfs: &Vfs, path: &VPath, kind: EntryKind) -> Vec<Failed> {
    let mut failed = Vec::new();
    remove_into(vfs, Member { path: path.clone(), kind, depth: 0 }, &mut failed).await;
    failed
}

/// Something in a tree.
pub(super) struct Member {
    pub(super) path: VPath,
    pub(super) kind: EntryKind,
    pub(super) depth: usize,
}

impl Member {
    pub(super) fn failed(&self, problem: Problem) -> Failed {
        Failed { path: self.path.clone(), kind: self.kind, problem }
    }
}

async fn remove_into(vfs: &Vfs, member: Member, failed: &mut Vec<Failed>) {
    let is_tree = member.kind == EntryKind::Directory;
    // An empty one, or where there is a trash, in one step.
    if is_tree && remove_directory(vfs, &member.path).await.is_ok() {
        return;
    }
    let before = failed.len();
    if member.kind == EntryKind::Directory {
        match members(vfs, &member).await {
            Ok(inside) => {
                for child in inside {
                    Box::pin(remove_into(vfs, child, failed)).await;
                }
            }
            Err(problem) => failed.push(member.failed(problem)),
        }
    }
    if failed.len() > before {
        return;
    }
    let removed = match member.kind {
        EntryKind::Directory => vfs.remove_directory(&member.path).await,
        EntryKind::File | EntryKind::Link => vfs.remove(&member.path).await,
    };
    match removed {
        // Somebody else was faster.
        Ok(()) | Err(VfsError::NotFound) => {}
        Err(error) => failed.push(member.failed(error.into())),
    }
}

/// What lies directly in a directory.
pub(super) async fn members(vfs: &Vfs, directory: &Member) -> Result<Vec<Member>, Problem> {
    if directory.depth >= TREE_DEPTH {
        let why = format!("the tree is deeper than {TREE_DEPTH} directories");
        return Err(Problem::new(StatusCode::FORBIDDEN, "EP1013", why));
    }
    let mut listing = vfs.list(&directory.path).await?;
    let mut members = Vec::new();
    loop {
        let page = listing.next_page(LISTING_READ).await?;
        if page.is_empty() {
            return Ok(members);
        }
        for entry in page {
            let path = directory.path.join(&entry.name);
            let path = path.map_err(|error| Problem::malformed(error.to_string()))?;
            let kind = entry.attributes.kind;
            members.push(Member { path, kind, depth: directory.depth + 1 });
        }
    }
}
