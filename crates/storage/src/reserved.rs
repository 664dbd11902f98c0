//! Names that no path may say.

use entrepot_nouns::StorePath;

use crate::error::{Result, StoreError};
use crate::limits::{DIRECTORY_MARKER, STAGING_NAME};

/// True for a name that stores use themselves.
pub(crate) fn is_reserved(name: &str) -> bool {
    // Letter case ignored: the file system may ignore it too.
    name.eq_ignore_ascii_case(STAGING_NAME) || name.eq_ignore_ascii_case(DIRECTORY_MARKER)
}

/// Fails for a path that names the staging area or what is in it: nothing is there.
pub(crate) fn check_visible(path: &StorePath) -> Result<()> {
    if path.components().any(is_reserved) { Err(StoreError::NotFound) } else { Ok(()) }
}

/// The same for a name that would be made.
pub(crate) fn check_makeable(path: &StorePath) -> Result<()> {
    match path.components().find(|part| is_reserved(part)) {
        Some(name) => Err(StoreError::Denied(format!("the name '{name}' is reserved"))),
        None => Ok(()),
    }
}
