//! How a change turned out that the last run left without an end: its names tell.

use bytes::BytesMut;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_nouns::StorePath;
use entrepot_nouns::event::{Event, Fact, FileFact};
use entrepot_storage::{AnyStore, EntryKind, StoreError};

use crate::limits;
use crate::notes::{Change, octal};
use crate::versions::names::{self as versions, Replacement, VersionNames};

/// How a change turned out.
pub(super) enum Outcome {
    /// It had happened: this is the event to record.
    Happened(Box<Event>),
    /// It had not; of an upload the staged file is there, whole or as the change says.
    NotPublished,
    /// It had not.
    NotDone,
}

/// The outcome of a change at an endpoint that was deleted since: nobody can look there any more.
pub(super) fn without_endpoint(change: &Change) -> Outcome {
    match &change.event.fact {
        Fact::FileUploaded { file } if change.source.is_none() => unknown(change, file),
        Fact::FileHeld { held } => unknown(change, &held.file),
        _ => Outcome::NotDone,
    }
}

fn unknown(change: &Change, file: &FileFact) -> Outcome {
    let mut event = change.event.clone();
    event.fact = Fact::FileUnknown { file: file.clone() };
    Outcome::Happened(Box::new(event))
}

/// Looks at the names of a change.
pub(super) async fn look(store: &AnyStore, change: &Change) -> Result<Outcome, StoreError> {
    // What was removed or renamed may have been a link.
    let with_links = store.with_links();
    let store = with_links.as_ref().unwrap_or(store);
    let has_happened = match &change.event.fact {
        Fact::FileUploaded { file } if change.source.is_none() => {
            return look_upload(store, change, file).await;
        }
        Fact::FileHeld { held } => return look_upload(store, change, &held.file).await,
        Fact::FileRemoved { .. } | Fact::DirectoryRemoved { .. } | Fact::FileDiscarded { .. } => {
            exists(store, &change.target).await?.is_none()
        }
        Fact::DirectoryCreated { .. } => {
            exists(store, &change.target).await? == Some(EntryKind::Directory)
        }
        Fact::LinkCreated { .. } => exists(store, &change.target).await? == Some(EntryKind::Link),
        Fact::ModeChanged { to, .. } => match store.stat(&change.target).await {
            Ok(meta) => meta.mode.is_some_and(|mode| octal(mode) == *to),
            Err(StoreError::NotFound | StoreError::NotDirectory) => false,
            Err(error) => return Err(error),
        },
        Fact::FileLinked { .. } => has_target(store, change).await?,
        // A store that copies may have left the old name too: what lies in the trash is listed
        // there in any case, so that it can be put back and its time ends.
        Fact::FileTrashed { .. } => {
            let has_arrived = has_target(store, change).await?;
            if has_arrived {
                end_rename(store, change).await?;
            }
            has_arrived
        }
        Fact::FileVersioned { .. } => {
            let Some(file) = &change.source else { return Ok(Outcome::NotDone) };
            let names = VersionNames { file, version: &change.target };
            versions::look(store, names).await? == Replacement::Done
        }
        // What was held was released.
        Fact::FileRestored { .. } | Fact::FileUploaded { .. } => {
            let Some(source) = &change.source else { return Ok(Outcome::NotDone) };
            let has_arrived = has_target(store, change).await?;
            if has_arrived {
                end_rename(store, change).await?;
            }
            has_arrived && exists(store, source).await?.is_none()
        }
        Fact::FileRenamed { .. } => {
            let Some(source) = &change.source else { return Ok(Outcome::NotDone) };
            let gone = exists(store, source).await?.is_none();
            let arrived = has_target(store, change).await?;
            if !gone && arrived && !store.caps().atomic_rename {
                let (from, to) = (source.as_str(), change.target.as_str());
                tracing::warn!(from, to, "a rename was cut: look for files under both names");
            }
            gone && arrived
        }
        _ => false,
    };
    Ok(if has_happened {
        Outcome::Happened(Box::new(change.event.clone()))
    } else {
        Outcome::NotDone
    })
}

/// Takes the old name away where a power cut between the writes of two directories left one file
/// under both.
async fn end_rename(store: &AnyStore, change: &Change) -> Result<(), StoreError> {
    let Some(source) = &change.source else { return Ok(()) };
    let old = match store.stat(source).await {
        Ok(meta) => meta,
        Err(StoreError::NotFound | StoreError::NotDirectory) => return Ok(()),
        Err(error) => return Err(error),
    };
    let new = store.stat(&change.target).await?;
    let is_one = old.identity.is_some() && old.identity == new.identity;
    if is_one && old.kind == EntryKind::File {
        store.remove(source).await?;
    }
    Ok(())
}

/// True if the target name exists and, as far as identities tell, is the file of the change.
async fn has_target(store: &AnyStore, change: &Change) -> Result<bool, StoreError> {
    match store.stat(&change.target).await {
        Ok(meta) => Ok(same_file(change, meta.identity.as_ref().map(|id| id.0.as_str()))),
        Err(StoreError::NotFound | StoreError::NotDirectory) => Ok(false),
        Err(error) => Err(error),
    }
}

/// True unless both are known and differ. Where copies get new identities (objects), the old
/// name being gone and the new one there has to do.
fn same_file(change: &Change, found: Option<&str>) -> bool {
    match (&change.identity, found) {
        (Some(wanted), Some(found)) => wanted == found,
        _ => true,
    }
}

async fn exists(store: &AnyStore, path: &StorePath) -> Result<Option<EntryKind>, StoreError> {
    match store.stat(path).await {
        Ok(meta) => Ok(Some(meta.kind)),
        Err(StoreError::NotFound | StoreError::NotDirectory) => Ok(None),
        Err(error) => Err(error),
    }
}

async fn look_upload(
    store: &AnyStore,
    change: &Change,
    file: &FileFact,
) -> Result<Outcome, StoreError> {
    if is_published(store, change, file).await? {
        // The staging name may have come back with the power, or hold the version before.
        store.discard_staged(file.transfer).await?;
        let mut event = change.event.clone();
        if let Fact::FileUploaded { file } = event.fact {
            event.fact = Fact::FileRecovered { file };
        }
        return Ok(Outcome::Happened(Box::new(event)));
    }
    // What is left of it lies where the store does not list it.
    if change.left.as_ref().is_some_and(|left| left.ticket.is_some() || left.is_spooled()) {
        return Ok(Outcome::NotPublished);
    }
    let staged = store.staged().await?;
    let ours = staged.iter().find(|staged| staged.id == file.transfer);
    if ours.is_some_and(|staged| {
        staged.size == file.size
            && same_file(change, staged.identity.as_ref().map(|id| id.0.as_str()))
    }) {
        return Ok(Outcome::NotPublished);
    }
    Ok(unknown(change, file))
}

/// Identity and size decide, and the digest where it is cheap. Where the identity of a published
/// file is another than that of the upload (objects), the digest decides.
async fn is_published(
    store: &AnyStore,
    change: &Change,
    file: &FileFact,
) -> Result<bool, StoreError> {
    let meta = match store.stat(&change.target).await {
        Ok(meta) => meta,
        Err(StoreError::NotFound | StoreError::NotDirectory) => return Ok(false),
        Err(error) => return Err(error),
    };
    if meta.kind != EntryKind::File || meta.size != file.size {
        return Ok(false);
    }
    let stable = store.caps().local;
    let found = meta.identity.as_ref().map(|id| id.0.as_str());
    if stable && !same_file(change, found) {
        return Ok(false);
    }
    if stable && meta.size > limits::RECOVERY_DIGEST_BYTES {
        return Ok(true);
    }
    let Some(wanted) = file.digests.blake3 else { return Ok(true) };
    Ok(digest(store, change).await? == Some(wanted))
}

async fn digest(store: &AnyStore, change: &Change) -> Result<Option<[u8; 32]>, StoreError> {
    let file = match store.open(&change.target).await {
        Ok(file) => file,
        Err(StoreError::NotFound) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut digest = StreamDigest::new(Sha256::Unwanted);
    let mut block = BytesMut::with_capacity(limits::BLOCK_BYTES);
    loop {
        block.clear();
        block = file.read_at(digest.length(), block, limits::BLOCK_BYTES).await?;
        if block.is_empty() {
            return Ok(digest.finish().blake3);
        }
        digest.update(&block);
    }
}
