//! A request for a file or directory, and how its client wants to be answered.

use axum::http::{HeaderMap, Method};
use serde::Deserialize;

use super::conflict::Conflict;
use super::path::FilePath;
use crate::context::RequestContext;
use crate::login::SignedIn;

/// What a request asks for behind the question mark.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FilesQuery {
    /// Makes a directory of the path; the value is ignored.
    pub(super) mkdir: Option<String>,
    /// The new path of what the path names.
    #[serde(rename = "move")]
    pub(super) new_path: Option<String>,
    /// Where the path is copied to.
    pub(super) copy: Option<String>,
    /// With `move` and `copy`: what has the new path is replaced.
    #[serde(default)]
    pub(super) replace: bool,
    /// With `copy` and `restore`: what happens to a name that is taken.
    #[serde(default)]
    pub(super) conflict: Conflict,
    /// The directory as an archive; the value is ignored.
    pub(crate) zip: Option<String>,
    /// What was removed below the directory; with DELETE its value is the id of what is deleted for
    /// good, and without one all of it is.
    pub(super) trash: Option<String>,
    /// The id of what is put back.
    pub(super) restore: Option<String>,
    /// The versions of the file; the value is ignored.
    pub(super) versions: Option<String>,
    /// The id of the version that is meant instead of the file.
    pub(super) version: Option<String>,
    /// What names of entries below the directory must fit.
    pub(super) search: Option<String>,
    /// Where a listing goes on: `next` of the page before.
    pub(crate) cursor: Option<String>,
    /// Most entries of a page.
    pub(super) limit: Option<usize>,
}

/// A request for a file or directory.
pub(crate) struct FileRequest {
    pub(crate) context: RequestContext,
    pub(crate) signed_in: SignedIn,
    pub(crate) target: FilePath,
    pub(crate) query: FilesQuery,
    pub(crate) method: Method,
    pub(crate) fields: HeaderMap,
}
