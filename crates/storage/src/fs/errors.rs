//! Errors of system calls that mean something else than usual to the directory store.

use rustix::io::Errno;

use crate::error::StoreError;

/// The meaning of an error of a walk down the components.
pub(super) fn walk_error(errno: Errno) -> StoreError {
    match errno {
        Errno::XDEV => StoreError::Escape,
        Errno::NOTDIR | Errno::LOOP => StoreError::NotFound,
        other => other.into(),
    }
}

/// What a refused `fchmod` means: some file systems have no permission bits.
pub(super) fn mode_error(errno: Errno) -> StoreError {
    match errno {
        Errno::OPNOTSUPP | Errno::NOSYS => StoreError::Unsupported("permission bits"),
        other => other.into(),
    }
}
