//! Files as rows: what the list says of one, what may be changed, and what must be true afterwards.

use bytes::Bytes;
use entrepot_nouns::{Displaced, Timestamp};

use crate::error::{Result, StoreError};
use crate::limits::SQL_FILE_BYTES;
use crate::store::{EntryKind, Existing, Meta};

/// A file as the endpoint's list describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) size: u64,
    pub(super) modified: Timestamp,
}

impl Row {
    pub(super) fn meta(&self) -> Meta {
        Meta {
            kind: EntryKind::File,
            size: self.size,
            modified: self.modified,
            accessed: self.modified,
            identity: None,
            mode: None,
        }
    }
}

/// One change of files, done in one transaction or not at all.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Put { name: String, content: Bytes, modified: Timestamp, existing: Existing },
    Rename { from: String, to: String, existing: Existing },
    Remove { name: String },
}

/// The result of a [`Change`].
pub(super) struct Changed {
    /// The row that had the name of a file put or renamed.
    pub(super) displaced: Option<Displaced>,
    /// The file that was put, as the list describes it now.
    pub(super) row: Option<Row>,
}

/// Fails unless the row that a change has put is in the list with the size that was sent.
pub(super) fn check_put(row: Option<Row>, size: usize) -> Result<Row> {
    let size = u64::try_from(size).unwrap_or(u64::MAX);
    match row {
        Some(row) if row.size == size => Ok(row),
        Some(row) => Err(StoreError::Denied(format!(
            "after 'write' the endpoint's 'list' tells {} bytes instead of {size}",
            row.size
        ))),
        None => Err(StoreError::Denied(
            "after 'write' the endpoint's 'list' does not tell the file: another name may be the \
             same to the table"
                .to_owned(),
        )),
    }
}

/// Fails if the content does not have the size that the list gives.
pub(super) fn check_read(row: Row, content: Bytes) -> Result<(Row, Bytes)> {
    if row.size == content.len() as u64 {
        return Ok((row, content));
    }
    Err(StoreError::Io(format!(
        "the endpoint's 'list' tells {} bytes of '{}', 'read' gives {}: 'size' counts bytes",
        row.size,
        row.name,
        content.len()
    )))
}

/// Fails if the renamed row is not there after the old name was removed: a table that takes both
/// names for the same has removed it too.
pub(super) fn check_renamed(row: Option<Row>) -> Result<()> {
    match row {
        Some(_) => Ok(()),
        None => Err(StoreError::Denied(
            "'delete' of the old name removes the new one: to the table they are the same"
                .to_owned(),
        )),
    }
}

/// Fails for a file of more than [`SQL_FILE_BYTES`].
pub(super) fn check_size(end: u64) -> Result<()> {
    if end <= SQL_FILE_BYTES {
        return Ok(());
    }
    let most = SQL_FILE_BYTES >> 20;
    Err(StoreError::Denied(format!("a file in a database has at most {most} MiB")))
}
