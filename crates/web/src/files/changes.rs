//! DELETE, and POST with `?mkdir`, `?move` or `?copy`.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use entrepot_nouns::VPath;
use entrepot_vfs::{Existing, VfsError};
use serde_json::json;

use super::conflict::Conflict;
use super::file_request::FileRequest;
use super::path::address;
use super::{trash, validators};
use crate::answers::redirect;
use crate::problem::Problem;

/// Removes a file, or an empty directory; where there is a trash, any directory.
pub(super) async fn delete(asked: FileRequest) -> Result<Response, Problem> {
    let (vfs, path) = (asked.signed_in.vfs(), &asked.target.path);
    validators::check(vfs, path, &asked.fields).await?;
    let removed = if asked.target.is_directory {
        Err(VfsError::IsDirectory)
    } else {
        vfs.remove_undoable(path).await
    };
    let removed = match removed {
        Err(VfsError::IsDirectory) => trash::remove_directory(vfs, path).await?,
        removed => removed?,
    };
    Ok(trash::removed(&removed))
}

/// Makes a directory.
pub(super) async fn make_directory(asked: FileRequest) -> Result<Response, Problem> {
    let path = &asked.target.path;
    asked.signed_in.vfs().make_directory(path).await?;
    let there = format!("{}/", address(path).trim_end_matches('/'));
    Ok(redirect(StatusCode::CREATED, &there))
}

/// Gives a file or directory another name.
pub(super) async fn rename(asked: FileRequest) -> Result<Response, Problem> {
    let (vfs, from) = (asked.signed_in.vfs(), &asked.target.path);
    let to = path_of(asked.query.new_path.as_deref())?;
    validators::check(vfs, from, &asked.fields).await?;
    let existing = if asked.query.replace { Existing::Replace } else { Existing::Refuse };
    let renamed = vfs.rename(from, &to, existing).await?;
    let status = if renamed.replaced { StatusCode::NO_CONTENT } else { StatusCode::CREATED };
    Ok(redirect(status, &address(&to)))
}

/// Copies a file, or a directory with all below it.
pub(super) async fn copy(asked: FileRequest) -> Result<Response, Problem> {
    let (vfs, from) = (asked.signed_in.vfs(), &asked.target.path);
    let to = path_of(asked.query.copy.as_deref())?;
    validators::check(vfs, from, &asked.fields).await?;
    let conflict = if asked.query.replace { Conflict::Replace } else { asked.query.conflict };
    let _running = asked.context.connection.meter.running();
    let mut copy = vfs.copy(from, &to, conflict.into()).await?;
    loop {
        match copy.step().await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                let problem = Problem::from(error);
                let files = copy.progress().files;
                let detail = format!("{}; {files} files were copied before", problem.detail);
                return Err(Problem { detail, ..problem });
            }
        }
    }
    let done = copy.progress();
    let shown = Json(json!({
        "path": copy.target(),
        "files": done.files,
        "directories": done.directories,
        "links_left_out": done.links,
        "bytes": done.bytes,
    }));
    let mut response = redirect(StatusCode::CREATED, &address(copy.target()));
    let shown = shown.into_response();
    response.headers_mut().extend(shown.headers().clone());
    *response.body_mut() = shown.into_body();
    Ok(response)
}

fn path_of(text: Option<&str>) -> Result<VPath, Problem> {
    text.unwrap_or_default().parse().map_err(|error| {
        let why = format!("the new path is none such as /folder/name.txt: {error}");
        Problem::new(StatusCode::BAD_REQUEST, "EP1004", why)
    })
}
