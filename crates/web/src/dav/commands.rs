//! What a request of WebDAV is in the words of rules.

use axum::http::Method;
use entrepot_dav_proto::{Depth, headers};
use entrepot_nouns::VPath;
use entrepot_vfs::IncomingCommand;

use super::dav_request::{DavRequest, target_of};
use crate::files::commands::read_or_list;
use crate::hooks::{reading, renaming, writing};
use crate::problem::Problem;

/// The command of a request. `None`: it is not asked about, for it changes no content and no name
/// (OPTIONS, HEAD, PROPFIND of one resource, PROPPATCH, UNLOCK), or elsewhere (LOCK).
///
/// # Errors
/// It cannot be said what the request is about.
pub(super) async fn command_of(
    asked: &DavRequest,
    method: &Method,
) -> Result<Option<IncomingCommand>, Problem> {
    let (path, name) = (asked.path(), method.as_str());
    Ok(Some(match name {
        "GET" => reading(read_or_list(asked.vfs(), &asked.target).await?, name, path),
        "PUT" => writing("write", name, path),
        "DELETE" => writing("remove", name, path),
        "MKCOL" => writing("mkdir", name, path),
        "COPY" | "MOVE" => renaming(name, path, destination(asked).as_ref()),
        "PROPFIND" => {
            // One that is deeper, or that cannot be read, is refused anyhow.
            if Depth::parse(asked.field("depth"), Depth::Infinity) != Ok(Depth::One) {
                return Ok(None);
            }
            reading("list", name, path)
        }
        _ => return Ok(None),
    }))
}

/// Where a copy or a file goes.
fn destination(asked: &DavRequest) -> Option<VPath> {
    let to = headers::destination(asked.field("destination")?, asked.host.as_deref()).ok()?;
    Some(target_of(to).ok()?.path)
}
