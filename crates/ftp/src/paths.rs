//! Paths of the protocol machine as paths of the account's files.

use entrepot_ftp_proto::Refusal;
use entrepot_nouns::VPath;
use entrepot_vfs::VfsError;

use crate::status::refusal;

/// The machine's absolute path as one of ours; a refusal where it has a name that none can have.
pub(crate) fn path(text: &str) -> Result<VPath, Refusal> {
    let path = VPath::root().resolve(text.as_bytes());
    path.map_err(|error| refusal(&VfsError::from(error)))
}
