//! What the server says of a name, in the terms of the store.

use entrepot_ftp_proto::Time;
use entrepot_ftp_proto::client::{Op, OpError, Outcome, RemoteEntry, RemoteKind};
use entrepot_nouns::{StorePath, Timestamp};

use super::errors::Failed;
use super::remote::Remote;
use crate::error::{Result, StoreError};
use crate::store::{EntryKind, Meta};

fn timestamp(time: Option<Time>) -> Timestamp {
    time.map_or(Timestamp(0), |time| {
        let micros = i64::from(time.nanos / 1000);
        Timestamp(time.seconds.saturating_mul(1_000_000).saturating_add(micros))
    })
}

pub(super) fn file_meta(size: u64, modified: Option<Time>) -> Meta {
    let modified = timestamp(modified);
    Meta { kind: EntryKind::File, size, modified, accessed: modified, identity: None, mode: None }
}

pub(super) fn directory_meta(modified: Option<Time>) -> Meta {
    Meta { kind: EntryKind::Directory, ..file_meta(0, modified) }
}

/// An entry in the terms of the store; `None` for what is neither file nor directory.
pub(super) fn meta_of(entry: &RemoteEntry) -> Option<Meta> {
    match entry.kind {
        RemoteKind::File => Some(file_meta(entry.size.unwrap_or(0), entry.modified)),
        RemoteKind::Directory => Some(directory_meta(entry.modified)),
        RemoteKind::Other => None,
    }
}

/// Who has a name on the server.
pub(super) enum NameState {
    Free,
    /// Neither file nor directory, such as a link that leads nowhere.
    Other,
    Known(Meta),
}

impl NameState {
    pub(super) fn is_taken(&self) -> bool {
        !matches!(self, NameState::Free)
    }

    pub(super) fn is_directory(&self) -> bool {
        matches!(self, NameState::Known(meta) if meta.kind == EntryKind::Directory)
    }
}

/// Asks the server for a name. A link is what it leads to.
pub(super) async fn name_state(remote: &mut Remote, path: &StorePath) -> Result<NameState> {
    let mut taken = false;
    if remote.features().mlst {
        match remote.ask(Op::Entry(remote.path(path))).await {
            Ok(Outcome::Entry(entry)) => match meta_of(&entry) {
                Some(meta) if meta.kind == EntryKind::Directory || entry.size.is_some() => {
                    return Ok(NameState::Known(meta));
                }
                _ => taken = true,
            },
            Ok(other) => return Err(remote.unexpected(&other).into()),
            Err(failed) if failed.is_absent() => return Ok(NameState::Free),
            Err(failed) if failed.is_unknown() => {}
            Err(Failed::Op(OpError::NotUnderstood(_))) => taken = true,
            Err(failed) => return Err(failed.into()),
        }
    }
    let known = match remote.ask(Op::Size(remote.path(path))).await {
        Ok(Outcome::Size(size)) => Some(file_meta(size, time_of(remote, path).await?)),
        Ok(other) => return Err(remote.unexpected(&other).into()),
        Err(failed) if failed.is_unknown() && !taken => {
            return Err(StoreError::Unsupported(
                "the server tells no sizes (neither MLST nor SIZE)",
            ));
        }
        Err(failed) if failed.is_unknown() || failed.is_about_name() => {
            find_directory(remote, path).await?
        }
        Err(failed) => return Err(failed.into()),
    };
    Ok(match known {
        Some(meta) => NameState::Known(meta),
        None if taken => NameState::Other,
        None => NameState::Free,
    })
}

/// As [`stat`], for a name that may be free.
pub(super) async fn find(remote: &mut Remote, path: &StorePath) -> Result<Option<Meta>> {
    Ok(match name_state(remote, path).await? {
        NameState::Known(meta) => Some(meta),
        NameState::Free | NameState::Other => None,
    })
}

async fn time_of(remote: &mut Remote, path: &StorePath) -> Result<Option<Time>> {
    match remote.ask(Op::Modified(remote.path(path))).await {
        Ok(Outcome::Modified(time)) => Ok(Some(time)),
        Err(failed @ (Failed::Lost(_) | Failed::Never(_))) => Err(failed.into()),
        _ => Ok(None),
    }
}

/// By CWD. Every other path is absolute, so the working directory does not matter.
async fn find_directory(remote: &mut Remote, path: &StorePath) -> Result<Option<Meta>> {
    match remote.ask(Op::ChangeDir(remote.path(path))).await {
        Ok(_) => Ok(Some(directory_meta(None))),
        Err(failed) if failed.is_about_name() => Ok(None),
        Err(failed) => Err(failed.into()),
    }
}

/// The file or directory of a name; `NotFound` for anything else.
pub(super) async fn stat(remote: &mut Remote, path: &StorePath) -> Result<Meta> {
    find(remote, path).await?.ok_or(StoreError::NotFound)
}
