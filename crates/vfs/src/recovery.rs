//! At start: what was about to change when the node stopped, and what can be resumed.
//!
//! For each change without an end: the target has its file → the event is
//! recorded; nothing changed → the staged file is kept to resume; neither → "outcome unknown". No
//! scan of data: only the end of the journal is read, and the names in question are looked at.

use std::collections::HashMap;

use bytes::BytesMut;
use entrepot_crypto::{Sha256, StreamDigest};
use entrepot_journal::{Journal, JournalError, RecordKind};
use entrepot_nouns::event::{Event, Fact, FileFact};
use entrepot_nouns::{EventId, TransferId};
use entrepot_storage::{AnyStore, EntryKind, StoreError};

use crate::error::StartError;
use crate::limits;
use crate::notes::{Change, Note, Partial, octal};

/// What recovery found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// Uploads that were published though nobody was told: now recorded.
    pub recovered: u64,
    /// Uploads that were whole and not yet published: kept to resume.
    pub unpublished: u64,
    /// Uploads of which neither name is there.
    pub unknown: u64,
    /// Removes, renames and directories that had happened: now recorded.
    pub changes: u64,
    /// Removes, renames and directories that had not happened.
    pub undone: u64,
    /// Changes at endpoints that cannot be reached now; looked at again later.
    pub waiting: u64,
    /// Uploads that can be resumed, in all.
    pub partials: u64,
}

/// What the journal's end says.
#[derive(Default)]
pub(crate) struct JournalTail {
    pub(crate) changes: HashMap<EventId, Change>,
    pub(crate) partials: HashMap<TransferId, Partial>,
    /// Uploads under temporary names: place and file.
    pub(crate) temporaries: Vec<(Change, FileFact)>,
}

/// Reads back as much of the journal as holds a whole checkpoint.
pub(crate) fn read(journal: &Journal) -> Result<JournalTail, StartError> {
    let last = journal.usage().appended;
    let mut window = limits::RECOVERY_WINDOW;
    loop {
        let after = last.saturating_sub(window);
        match read_after(journal, after) {
            Ok((found, true)) => return Ok(found),
            Ok((found, false)) if after == 0 => return Ok(found),
            Ok((_, false)) => window = window.saturating_mul(4),
            Err(StartError::Journal(JournalError::Gone { first, .. })) => {
                let (found, _) = read_after(journal, first.saturating_sub(1))?;
                return Ok(found);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Folds the records behind `after`. True: a whole checkpoint was among them.
fn read_after(journal: &Journal, after: u64) -> Result<(JournalTail, bool), StartError> {
    let (mut found, mut complete) = (JournalTail::default(), false);
    let mut reader = journal.reader(after);
    loop {
        let batch = reader.read_now(limits::PAGE)?;
        if batch.is_empty() {
            return Ok((found, complete));
        }
        for record in batch {
            let form = || StartError::Form { sequence: record.sequence };
            match record.kind {
                RecordKind::Intent => {
                    let note = serde_json::from_slice(&record.payload).map_err(|_| form())?;
                    complete |= matches!(note, Note::Checkpoint { from } if from > after);
                    found.note(note);
                }
                RecordKind::Event if is_of_files(&record.payload) => {
                    let event = serde_json::from_slice(&record.payload).map_err(|_| form())?;
                    found.event(&event);
                }
                RecordKind::Event => {}
                RecordKind::Closed => {
                    found.closed(&String::from_utf8_lossy(&record.payload));
                }
            }
        }
    }
}

/// Cheap look before an event is parsed: most are not about files.
fn is_of_files(payload: &[u8]) -> bool {
    let text = std::str::from_utf8(payload).unwrap_or_default();
    let kinds =
        [r#""kind":"file."#, r#""kind":"directory."#, r#""kind":"link."#, r#""kind":"mode."#];
    kinds.iter().any(|kind| text.contains(kind))
}

impl JournalTail {
    fn note(&mut self, note: Note) {
        match note {
            Note::Change(change) => {
                self.changes.insert(change.id(), *change);
            }
            Note::Partial(partial) => {
                self.partials.insert(partial.transfer, *partial);
            }
            Note::Checkpoint { .. } => {}
        }
    }

    fn event(&mut self, event: &Event) {
        let change = self.changes.remove(&event.id);
        if let Some(ended) = crate::book::ended_transfer(&event.fact) {
            self.partials.remove(&ended);
        }
        if let (Some(change), Fact::FileUploaded { file } | Fact::FileRecovered { file }) =
            (change, &event.fact)
            && file.temporary
        {
            self.temporaries.push((change, file.clone()));
        }
    }

    fn closed(&mut self, id: &str) {
        if let Ok(event) = id.parse::<EventId>() {
            self.changes.remove(&event);
        }
        if let Ok(transfer) = id.parse::<TransferId>() {
            self.partials.remove(&transfer);
        }
    }
}

/// How a change turned out.
pub(crate) enum Outcome {
    /// It had happened: this is the event to record.
    Happened(Box<Event>),
    /// It had not; of an upload the staged file is there, whole or as the change says.
    NotPublished,
    /// It had not.
    NotDone,
}

/// Looks at the names of a change.
pub(crate) async fn look(store: &AnyStore, change: &Change) -> Result<Outcome, StoreError> {
    // What was removed or renamed may have been a link.
    let with_links = store.with_links();
    let store = with_links.as_ref().unwrap_or(store);
    let has_happened = match &change.event.fact {
        Fact::FileUploaded { file } => return look_upload(store, change, file).await,
        Fact::FileRemoved { .. } | Fact::DirectoryRemoved { .. } => {
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

async fn exists(
    store: &AnyStore,
    path: &entrepot_nouns::StorePath,
) -> Result<Option<EntryKind>, StoreError> {
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
        event.fact = Fact::FileRecovered { file: file.clone() };
        return Ok(Outcome::Happened(Box::new(event)));
    }
    if change.left.is_some() {
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
    let mut event = change.event.clone();
    event.fact = Fact::FileUnknown { file: file.clone() };
    Ok(Outcome::Happened(Box::new(event)))
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
