//! Errors of the client library in the terms of the store.

use crate::error::StoreError;

/// The meaning of an error of the client library.
pub(super) fn store_error(error: object_store::Error) -> StoreError {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => StoreError::NotFound,
        Error::AlreadyExists { .. } | Error::Precondition { .. } => StoreError::Exists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            StoreError::Denied("the object store refused the key for this request".to_owned())
        }
        Error::InvalidPath { .. } => StoreError::Denied("the name cannot be a key".to_owned()),
        Error::NotSupported { .. } | Error::NotImplemented { .. } => {
            StoreError::Unsupported("the object store lacks this request")
        }
        // Only after the client's own tries: the network, or the far side in trouble.
        other => StoreError::Unavailable(told(&other)),
    }
}

/// The last cause, then what was done. A request has a long address: it may be cut.
fn told(error: &object_store::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    format!("{cause} ({error})").chars().take(300).collect()
}
