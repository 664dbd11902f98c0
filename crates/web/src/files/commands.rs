//! What a request below `/files` is in the words of rules.

use axum::http::Method;
use entrepot_vfs::{EntryKind, IncomingCommand, Vfs};

use super::file_request::{FileRequest, FilesQuery};
use super::path::FilePath;
use super::trash::{id_of, refused};
use crate::hooks::{reading, renaming, writing};
use crate::problem::Problem;

/// How GET gives a directory.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Directory {
    Listed,
    Archived,
}

/// The command of a request; `None`: rules are not asked about it (HEAD), or elsewhere (archives).
///
/// # Errors
/// It cannot be said what the request is about.
pub(super) async fn command_of(
    asked: &FileRequest,
    directory: Directory,
) -> Result<Option<IncomingCommand>, Problem> {
    let FilesQuery { mkdir, new_path, copy, restore, version, .. } = &asked.query;
    let FilesQuery { search, trash, versions, .. } = &asked.query;
    let (vfs, path) = (asked.signed_in.vfs(), &asked.target.path);
    let method = asked.method.as_str();
    let is_list = search.is_some() || trash.is_some() || versions.is_some();
    Ok(Some(match asked.method {
        Method::GET if is_list => reading("list", method, path),
        Method::GET if directory == Directory::Archived => return Ok(None),
        Method::GET if version.is_some() => reading("read", method, path),
        Method::GET => reading(read_or_list(vfs, &asked.target).await?, method, path),
        Method::PUT => writing("write", method, path),
        Method::DELETE if version.is_some() => writing("remove", method, path),
        Method::DELETE => match trash {
            Some(id) if !id.is_empty() => of_trashed(asked, "remove", id).await?,
            _ => writing("remove", method, path),
        },
        Method::POST => match (restore, version, mkdir, new_path) {
            (Some(id), ..) => of_trashed(asked, "write", id).await?,
            (None, Some(_), ..) => writing("write", method, path),
            (None, None, Some(_), _) => writing("mkdir", method, path),
            (None, None, None, Some(to)) => renaming("MOVE", path, to.parse().ok().as_ref()),
            (None, None, None, None) => {
                let to = copy.as_deref().unwrap_or_default();
                renaming("COPY", path, to.parse().ok().as_ref())
            }
        },
        _ => return Ok(None),
    }))
}

/// What GET of a path is: that of a directory lists it.
///
/// # Errors
/// It cannot be said.
pub(crate) async fn read_or_list(vfs: &Vfs, target: &FilePath) -> Result<&'static str, Problem> {
    if target.is_directory {
        return Ok("list");
    }
    let there = vfs.published(&target.path).await?;
    let is_directory = there.is_some_and(|there| there.kind == EntryKind::Directory);
    Ok(if is_directory { "list" } else { "read" })
}

/// A command about something in the trash: about the path that it had.
async fn of_trashed(
    asked: &FileRequest,
    verb: &'static str,
    id: &str,
) -> Result<IncomingCommand, Problem> {
    let path = asked.signed_in.vfs().trashed_path(id_of(id)?).await.map_err(refused)?;
    Ok(writing(verb, asked.method.as_str(), &path))
}
