//! A request for something that a link opens.

use super::visit::LinkVisit;
use crate::files::FilesQuery;
use crate::files::path::FilePath;

/// A request for something that a link opens.
pub(super) struct Asked {
    pub(super) visit: LinkVisit,
    /// Below the folder of the link.
    pub(super) target: FilePath,
    pub(super) query: FilesQuery,
}
