//! What the server says of a name or of an open file, in the terms of the store.

use entrepot_nouns::{StorePath, Timestamp};
use entrepot_sftp_proto::client::{Answer, RemoteHandle};
use entrepot_sftp_proto::{Attrs, Times, attrs};

use super::errors::Failed;
use super::remote::{Remote, unexpected};
use crate::error::{Result, StoreError};
use crate::store::{EntryKind, Meta, Space};

/// The server sends no permission bits.
pub(super) const NO_MODES: StoreError = StoreError::Unsupported("permission bits");

/// Attributes in the terms of the store; `None` for what is neither file nor directory.
pub(super) fn meta_of(attrs: &Attrs) -> Option<Meta> {
    let kind = match attrs.permissions.unwrap_or(0) & attrs::TYPE_MASK {
        attrs::TYPE_DIRECTORY => EntryKind::Directory,
        // A server that sends no type means a file.
        attrs::TYPE_FILE | 0 => EntryKind::File,
        _ => return None,
    };
    let times = attrs.times.unwrap_or(Times { accessed: 0, modified: 0 });
    Some(Meta {
        kind,
        size: if kind == EntryKind::File { attrs.size.unwrap_or(0) } else { 0 },
        modified: Timestamp::from_seconds(i64::from(times.modified)),
        accessed: Timestamp::from_seconds(i64::from(times.accessed)),
        identity: None,
        mode: attrs.mode(),
    })
}

/// The nearest second that SFTP version 3 can express.
pub(super) fn seconds_of(at: Timestamp) -> u32 {
    u32::try_from(at.seconds().max(0)).unwrap_or(u32::MAX)
}

/// The file or directory of a name; `NotFound` for anything else, such as a link.
pub(super) async fn stat(remote: &Remote, path: &StorePath) -> Result<Meta> {
    let attrs = remote.lstat(&remote.path(path)).await?;
    meta_of(&attrs).ok_or(StoreError::NotFound)
}

/// As [`stat`], for a name that may be free.
pub(super) async fn find(remote: &Remote, path: &StorePath) -> Result<Option<Meta>> {
    match stat(remote, path).await {
        Ok(meta) => Ok(Some(meta)),
        Err(StoreError::NotFound) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Room on the file system of a path, without limits where the server does not say.
pub(super) async fn space_of(remote: &Remote, path: &str) -> Result<Space> {
    match remote.ask(|client| client.statvfs(path)).await {
        Ok(Answer::Space(space)) => Ok(Space {
            total_bytes: space.total_bytes,
            free_bytes: space.free_bytes,
            total_files: space.total_files,
            free_files: space.free_files,
        }),
        Ok(other) => Err(unexpected(&other).into()),
        Err(failed @ Failed::Lost(_)) => Err(failed.into()),
        // Not offered, or refused: no limit is known.
        Err(_) => Ok(Space {
            total_bytes: u64::MAX,
            free_bytes: u64::MAX,
            total_files: u64::MAX,
            free_files: u64::MAX,
        }),
    }
}

/// The handle in the answer to OPEN.
pub(super) fn handle_of(answer: Answer) -> Result<RemoteHandle> {
    match answer {
        Answer::Handle(handle) => Ok(handle),
        other => Err(unexpected(&other).into()),
    }
}
