//! Why a file was not changed.

use std::io;

/// Why a file was not changed, by whose fault it is.
#[derive(Debug, thiserror::Error)]
pub enum TransformError {
    /// The file is damaged, or not of the kind that was announced.
    #[error("{0}")]
    BadInput(String),
    /// It is no text of its character set, or has a character that the other one lacks.
    #[error("{0}")]
    BadText(String),
    /// The file asks for more than its bounds allow.
    #[error("{0}")]
    OverBound(String),
    /// A key cannot be used for this.
    #[error("{0}")]
    BadKey(String),
    /// One sentence for a wrong key, a changed message and one that is none: whoever sends
    /// messages and sees the answer learns nothing by which to guess their content.
    #[error("no key opens the message, or it was changed on its way")]
    NotDecrypted,
    /// Nobody who may have signed the file did.
    #[error("{0}")]
    NotSigned(String),
    /// The source could not be read.
    #[error("it cannot be read: {0}")]
    Read(io::Error),
    /// What came of it could not be written.
    #[error("what comes of it cannot be written: {0}")]
    Write(io::Error),
}

impl TransformError {
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        TransformError::BadInput(text.into())
    }

    /// True if the same input would fail again.
    pub fn is_lasting(&self) -> bool {
        !matches!(self, TransformError::Read(_) | TransformError::Write(_))
    }
}
