//! The transfers of this node as they stand: what moves, what can be resumed, what is about to
//! change. Every step of it is in the journal (`notes.rs`), so a crash can be looked at later.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use entrepot_auth::TransferPlace;
use entrepot_crypto::StreamDigest;
use entrepot_journal::{Journal, JournalError, RecordKind};
use entrepot_nouns::event::{Fact, FileFact};
use entrepot_nouns::{
    Direction, Event, EventId, Name, SessionId, SiteId, StorePath, Timestamp, TransferId, VPath,
};
use entrepot_storage::thread;
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;

use crate::limits;
use crate::notes::{Change, NewNote, Partial};
use crate::quota::Reservation;
use crate::resumable::record::UploadId;

/// A transfer that moves at this moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MovingTransfer {
    /// The id that its events name it by.
    pub id: TransferId,
    /// Seen from this server.
    pub direction: Direction,
    /// The session it runs in, if any.
    pub session: Option<SessionId>,
    /// Its virtual path.
    pub path: String,
    /// Bytes of the whole file, where that is known.
    pub size: Option<u64>,
    /// Bytes that have come or left so far.
    pub bytes: u64,
    /// When it began.
    pub started_at: Timestamp,
}

/// A transfer that moves now.
pub(crate) struct Moving {
    pub(crate) id: TransferId,
    pub(crate) direction: Direction,
    pub(crate) session: Option<SessionId>,
    pub(crate) started_at: Timestamp,
    /// Its virtual path.
    pub(crate) path: VPath,
    /// Bytes of the whole file, where that is known.
    pub(crate) size: Option<u64>,
    /// Size of an upload, bytes sent of a download.
    pub(crate) bytes: AtomicU64,
    /// Counts it towards its account's limit.
    pub(crate) _place: TransferPlace,
}

/// An upload that can be resumed, and the room it takes.
pub(crate) struct KeptPartial {
    pub(crate) note: Partial,
    /// `None` until the quota of its place is counted.
    pub(crate) reservation: Option<Reservation>,
    /// The digest of what is kept, where it cannot be read back: of a process that remembers it.
    pub(crate) digest: Option<Box<StreamDigest>>,
}

impl KeptPartial {
    /// As it is known from a note alone.
    pub(crate) fn of(note: Partial) -> Self {
        KeptPartial { note, reservation: None, digest: None }
    }
}

/// Names a partial: an account has at most one for each file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartialKey {
    pub(crate) site: SiteId,
    pub(crate) account: Name,
    /// The file that the upload is to become.
    pub(crate) path: VPath,
}

impl PartialKey {
    fn of(note: &Partial) -> Self {
        let (account, path) = (note.account.clone(), note.path.clone());
        PartialKey { site: note.site, account, path }
    }
}

/// Names a published file whose name its client calls temporary.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TemporaryKey {
    pub(crate) site: SiteId,
    pub(crate) endpoint: Name,
    /// Path at the endpoint.
    pub(crate) path: StorePath,
}

#[derive(Default)]
struct BookState {
    moving: HashMap<TransferId, Arc<Moving>>,
    kept: HashMap<TransferId, KeptPartial>,
    /// The transfer of each partial in `kept`.
    transfers: HashMap<PartialKey, TransferId>,
    /// The transfer of each partial in `kept` that its client continues by id instead.
    by_id: HashMap<UploadId, TransferId>,
    /// Uploads by id that are being published: a checkpoint must not lose them.
    publishing: HashMap<TransferId, Partial>,
    pending: HashMap<EventId, Change>,
    /// Changes that came to nothing, and whose end the journal did not take yet.
    unclosed: Vec<EventId>,
    temporaries: HashMap<TemporaryKey, FileFact>,
    temporary_order: VecDeque<TemporaryKey>,
}

/// The record in memory of what moves, what is kept and what is about to change.
pub(crate) struct Book {
    journal: Journal,
    state: Mutex<BookState>,
    checkpoint: AtomicU64,
    draining: AtomicBool,
}

impl Book {
    pub(crate) fn new(journal: Journal) -> Self {
        Book {
            journal,
            state: Mutex::default(),
            checkpoint: AtomicU64::new(0),
            draining: AtomicBool::new(false),
        }
    }

    /// From now on no upload begins.
    pub(crate) fn drain(&self) {
        self.draining.store(true, Ordering::Release);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }

    // --- what moves

    pub(crate) fn begin(&self, moving: Arc<Moving>) {
        self.state.lock().moving.insert(moving.id, moving);
    }

    pub(crate) fn end(&self, id: TransferId) {
        self.state.lock().moving.remove(&id);
    }

    /// Bytes of transfers that move now, from and to the peer, by session.
    pub(crate) fn moving_bytes(&self) -> HashMap<SessionId, (u64, u64)> {
        let mut bytes: HashMap<SessionId, (u64, u64)> = HashMap::new();
        for moving in self.state.lock().moving.values() {
            let Some(session) = moving.session else { continue };
            let (received, sent) = bytes.entry(session).or_default();
            let moved = moving.bytes.load(Ordering::Relaxed);
            match moving.direction {
                Direction::In => *received += moved,
                Direction::Out => *sent += moved,
            }
        }
        bytes
    }

    /// The transfers that move now.
    pub(crate) fn moving(&self) -> Vec<MovingTransfer> {
        let state = self.state.lock();
        let rows = state.moving.values().map(|moving| MovingTransfer {
            id: moving.id,
            direction: moving.direction,
            session: moving.session,
            path: moving.path.to_string(),
            size: moving.size,
            bytes: moving.bytes.load(Ordering::Relaxed),
            started_at: moving.started_at,
        });
        rows.collect()
    }

    /// True if a staged file of this transfer is needed.
    pub(crate) fn needs_staging(&self, id: TransferId) -> bool {
        let state = self.state.lock();
        let pending =
            |change: &Change| change.event.fact.file().is_some_and(|file| file.transfer == id);
        state.moving.contains_key(&id)
            || state.kept.contains_key(&id)
            || state.publishing.contains_key(&id)
            || state.pending.values().any(pending)
    }

    // --- changes

    /// Notes durably that something is about to change.
    pub(crate) async fn announce(&self, change: Change) -> Result<(), JournalError> {
        let id = change.id();
        let payload = encode(&NewNote::Change(&change))?;
        {
            let mut state = self.state.lock();
            // What came to nothing must not be taken for what is tried again now.
            self.close(&mut state);
            state.pending.insert(id, change);
        }
        // Dropped half-way, the intent stays pending until recovery looks at it.
        let written = if thread::may_wait() {
            self.journal.append_durable_here(RecordKind::Intent, &payload)
        } else {
            self.journal.append_durable(RecordKind::Intent, &payload).await
        };
        if let Err(error) = written {
            // It may yet become durable: then this says that nothing came of it.
            self.dismiss(id);
            return Err(error);
        }
        Ok(())
    }

    /// Records what happened; ends the change of the same id.
    pub(crate) fn record(&self, event: &Event) -> Result<u64, JournalError> {
        let payload = encode(event)?;
        let mut state = self.state.lock();
        let sequence = self.journal.append(RecordKind::Event, &payload)?;
        state.pending.remove(&event.id);
        Ok(sequence)
    }

    /// The last record of the journal so far.
    pub(crate) fn appended(&self) -> u64 {
        self.journal.usage().appended
    }

    /// Waits until a record is durable, and with it all before it.
    pub(crate) async fn sync(&self, sequence: u64) -> Result<(), JournalError> {
        self.journal.sync(sequence).await
    }

    /// Records an event that ends nothing; `false`: the journal refused it, which is logged.
    pub(crate) fn tell(&self, event: &Event) -> bool {
        let told = encode(event)
            .and_then(|payload| self.journal.append(RecordKind::Event, &payload).map(|_| ()));
        if let Err(error) = &told {
            let kind = event.fact.kind();
            tracing::error!(code = error.code(), %error, kind, "a fact is lost");
        }
        told.is_ok()
    }

    /// Ends a change that came to nothing.
    pub(crate) fn dismiss(&self, id: EventId) {
        let mut state = self.state.lock();
        state.pending.remove(&id);
        state.unclosed.push(id);
        self.close(&mut state);
    }

    /// Notes the ends of changes that came to nothing, as far as the journal takes them.
    fn close(&self, state: &mut BookState) {
        while let Some(id) = state.unclosed.last() {
            let closed = self.journal.append(RecordKind::Closed, id.to_string().as_bytes());
            if let Err(error) = closed {
                tracing::warn!(code = error.code(), %error, "the end of an intent is not noted");
                return;
            }
            state.unclosed.pop();
        }
    }

    /// A change without an end.
    pub(crate) fn pending(&self, id: EventId) -> Option<Change> {
        self.state.lock().pending.get(&id).cloned()
    }

    /// True if it is not known whether this transfer was published: its intent is open.
    pub(crate) fn is_undecided(&self, transfer: TransferId) -> bool {
        let state = self.state.lock();
        let of = |change: &Change| change.event.fact.file().map(|file| file.transfer);
        state.pending.values().any(|change| of(change) == Some(transfer))
    }

    pub(crate) fn adopt_pending(&self, change: Change) {
        self.state.lock().pending.insert(change.id(), change);
    }

    // --- partials

    /// Notes how far an upload is that still moves.
    pub(crate) fn mark(&self, note: &Partial) {
        let noted = encode(&NewNote::Partial(note))
            .and_then(|payload| self.journal.append(RecordKind::Intent, &payload));
        if let Err(error) = noted {
            tracing::debug!(code = error.code(), %error, "a resume mark is not noted");
        }
    }

    /// Keeps a cut upload for its owner. Returns those it displaces, to be discarded.
    pub(crate) fn keep(&self, kept: KeptPartial) -> Vec<KeptPartial> {
        self.mark(&kept.note);
        self.adopt_kept(kept)
    }

    /// [`Book::keep`] without a note.
    pub(crate) fn adopt_kept(&self, kept: KeptPartial) -> Vec<KeptPartial> {
        let mut state = self.state.lock();
        state.moving.remove(&kept.note.transfer);
        if let Some(record) = &kept.note.by_id {
            state.by_id.insert(record.id.clone(), kept.note.transfer);
            state.publishing.remove(&kept.note.transfer);
            state.kept.insert(kept.note.transfer, kept);
            return Vec::new();
        }
        let key = PartialKey::of(&kept.note);
        let mut displaced = Vec::new();
        if let Some(older) = state.transfers.insert(key.clone(), kept.note.transfer)
            && older != kept.note.transfer
        {
            displaced.extend(state.kept.remove(&older));
        }
        let mine = |note: &Partial| {
            note.site == key.site && note.account == key.account && note.by_id.is_none()
        };
        if state.transfers.len() > limits::PARTIALS_PER_ACCOUNT
            && state.kept.values().filter(|kept| mine(&kept.note)).count()
                >= limits::PARTIALS_PER_ACCOUNT
        {
            let oldest = state.kept.values().filter(|kept| mine(&kept.note));
            let oldest = oldest.min_by_key(|kept| kept.note.at).map(|kept| kept.note.transfer);
            displaced.extend(oldest.and_then(|id| take(&mut state, id)));
        }
        state.kept.insert(kept.note.transfer, kept);
        displaced
    }

    /// What is kept of this file for this account: bytes, and when it was noted.
    pub(crate) fn look(&self, key: &PartialKey) -> Option<Partial> {
        let state = self.state.lock();
        let id = state.transfers.get(key)?;
        state.kept.get(id).map(|kept| kept.note.clone())
    }

    /// The files directly in a directory of which partials are kept for this account.
    pub(crate) fn partials_in(
        &self,
        site: SiteId,
        account: &Name,
        directory: &VPath,
    ) -> Vec<VPath> {
        let state = self.state.lock();
        let here = |key: &&PartialKey| {
            key.site == site
                && key.account == *account
                && key.path.parent().as_ref() == Some(directory)
        };
        state.transfers.keys().filter(here).map(|key| key.path.clone()).collect()
    }

    /// Takes it out, to resume or to discard it.
    pub(crate) fn take(&self, key: &PartialKey) -> Option<KeptPartial> {
        let mut state = self.state.lock();
        let id = *state.transfers.get(key)?;
        take(&mut state, id)
    }

    /// Takes out those whose time is over and that are not in use.
    pub(crate) fn take_expired(
        &self,
        now: Timestamp,
        is_in_use: impl Fn(&Partial) -> bool,
    ) -> Vec<KeptPartial> {
        let mut state = self.state.lock();
        let is_over = |note: &Partial| note.until <= now && !is_in_use(note);
        let over = state.kept.values().filter(|kept| is_over(&kept.note));
        let over: Vec<_> = over.map(|kept| kept.note.transfer).collect();
        over.into_iter().filter_map(|id| take(&mut state, id)).collect()
    }

    /// Looks at each partial.
    pub(crate) fn each_kept(&self, look: impl FnMut(&mut KeptPartial)) {
        self.state.lock().kept.values_mut().for_each(look);
    }

    /// Forgets partials of an endpoint whose staged bytes are not there (any more): a power cut
    /// took them. `staged` holds what is there, with its size.
    pub(crate) fn reconcile(
        &self,
        site: SiteId,
        endpoint: &Name,
        boot: &str,
        staged: &HashMap<TransferId, u64>,
    ) {
        let mut state = self.state.lock();
        let here = |note: &Partial| note.site == site && note.endpoint == *endpoint;
        let lost = |note: &Partial| {
            // A store that needs a ticket does not list what it was not told of.
            note.ticket.is_none()
                && !note.is_spooled()
                && staged
                    .get(&note.transfer)
                    .is_none_or(|size| *size < note.trusted(boot).max(note.kept_end()))
        };
        let lost = state.kept.values().filter(|kept| here(&kept.note) && lost(&kept.note));
        let lost: Vec<_> = lost.map(|kept| kept.note.transfer).collect();
        for id in &lost {
            take(&mut state, *id);
        }
        drop(state);
        lost.into_iter().for_each(|id| self.forget(id));
    }

    /// Notes that a partial is gone without an event.
    pub(crate) fn forget(&self, id: TransferId) {
        if let Err(error) = self.journal.append(RecordKind::Closed, id.to_string().as_bytes()) {
            tracing::debug!(code = error.code(), %error, "the end of a partial is not noted");
        }
    }

    // --- uploads by id

    /// What is known of an upload that is continued by id.
    pub(crate) fn look_by_id(&self, id: &UploadId) -> Option<Partial> {
        let state = self.state.lock();
        let kept = state.kept.get(state.by_id.get(id)?)?;
        Some(kept.note.clone())
    }

    /// All uploads that an account continues by id.
    pub(crate) fn all_by_id(&self, site: SiteId, account: &Name) -> Vec<Partial> {
        let state = self.state.lock();
        let mine = |note: &&Partial| note.site == site && note.account == *account;
        let kept = state.by_id.values().filter_map(|id| Some(&state.kept.get(id)?.note));
        kept.filter(mine).cloned().collect()
    }

    /// Bytes of uploads that wait in the spool, as far as they are known.
    pub(crate) fn spooled_bytes(&self) -> u64 {
        let state = self.state.lock();
        let notes = state.by_id.values().filter_map(|id| Some(&state.kept.get(id)?.note));
        let size = |note: &Partial| {
            let size = note.by_id.as_ref().and_then(|record| record.size);
            size.unwrap_or_default().max(note.kept_bytes())
        };
        notes.filter(|note| note.is_spooled()).map(size).sum()
    }

    /// Takes it out to publish it; it comes back by [`Book::adopt_kept`], or is over.
    pub(crate) fn take_to_publish(&self, id: &UploadId) -> Option<KeptPartial> {
        let mut state = self.state.lock();
        let id = *state.by_id.get(id)?;
        let kept = take(&mut state, id)?;
        state.publishing.insert(id, kept.note.clone());
        Some(kept)
    }

    /// It was published, or nothing of it was kept.
    pub(crate) fn end_publishing(&self, id: TransferId) {
        self.state.lock().publishing.remove(&id);
    }

    /// Takes it out to discard it.
    pub(crate) fn take_by_id(&self, id: &UploadId) -> Option<KeptPartial> {
        let mut state = self.state.lock();
        let id = *state.by_id.get(id)?;
        take(&mut state, id)
    }

    /// Works on the room of an upload that is continued by id; `None`: it is gone.
    pub(crate) fn with_room<T>(
        &self,
        id: &UploadId,
        work: impl FnOnce(&Partial, &mut Option<Reservation>) -> T,
    ) -> Option<T> {
        let mut state = self.state.lock();
        let id = *state.by_id.get(id)?;
        let KeptPartial { note, reservation, .. } = state.kept.get_mut(&id)?;
        Some(work(note, reservation))
    }

    /// Changes what is known of an upload that is continued by id, and gives the sequence of the
    /// record that says so. `None`: it is gone.
    pub(crate) fn change_by_id(
        &self,
        id: &UploadId,
        change: impl FnOnce(&mut Partial),
    ) -> Option<Result<u64, JournalError>> {
        let mut state = self.state.lock();
        let id = *state.by_id.get(id)?;
        let kept = state.kept.get_mut(&id)?;
        let mut note = kept.note.clone();
        change(&mut note);
        // Under the lock: the last note in the journal must be the newest.
        let noted = encode(&NewNote::Partial(&note))
            .and_then(|payload| self.journal.append(RecordKind::Intent, &payload));
        if noted.is_ok() {
            kept.note = note;
        }
        Some(noted)
    }

    // --- temporary names

    /// Remembers a file that was published under a temporary name.
    pub(crate) fn remember(&self, key: TemporaryKey, file: FileFact) {
        let mut state = self.state.lock();
        if state.temporaries.insert(key.clone(), file).is_none() {
            state.temporary_order.push_back(key);
        }
        while state.temporary_order.len() > limits::TEMPORARIES {
            if let Some(oldest) = state.temporary_order.pop_front() {
                state.temporaries.remove(&oldest);
            }
        }
    }

    /// What is remembered of it.
    pub(crate) fn recall(&self, key: &TemporaryKey) -> Option<FileFact> {
        self.state.lock().temporaries.get(key).cloned()
    }

    /// The name is no longer that file's.
    pub(crate) fn unremember(&self, key: &TemporaryKey) {
        let mut state = self.state.lock();
        if state.temporaries.remove(key).is_some() {
            state.temporary_order.retain(|other| other != key);
        }
    }

    // --- checkpoints

    /// Writes a checkpoint if the journal has grown enough since the last one.
    pub(crate) fn checkpoint_if_due(&self) -> Result<(), JournalError> {
        let appended = self.journal.usage().appended;
        let last = self.checkpoint.load(Ordering::Acquire);
        if appended.saturating_sub(last) < limits::CHECKPOINT_RECORDS {
            return Ok(());
        }
        self.checkpoint()
    }

    /// Notes again all that has not ended, so that recovery need not read what is older.
    pub(crate) fn checkpoint(&self) -> Result<(), JournalError> {
        let mut state = self.state.lock();
        self.close(&mut state);
        let from = self.journal.usage().appended + 1;
        for change in state.pending.values() {
            let note = encode(&NewNote::Change(change))?;
            self.journal.append(RecordKind::Intent, &note)?;
        }
        let kept = state.kept.values().map(|kept| &kept.note);
        for note in kept.chain(state.publishing.values()) {
            let note = encode(&NewNote::Partial(note))?;
            self.journal.append(RecordKind::Intent, &note)?;
        }
        let end = encode(&NewNote::Checkpoint { from })?;
        let sequence = self.journal.append(RecordKind::Intent, &end)?;
        drop(state);
        self.checkpoint.store(sequence, Ordering::Release);
        Ok(())
    }
}

fn take(state: &mut BookState, id: TransferId) -> Option<KeptPartial> {
    let kept = state.kept.remove(&id)?;
    if let Some(record) = &kept.note.by_id {
        state.by_id.remove(&record.id);
        return Some(kept);
    }
    let key = PartialKey::of(&kept.note);
    if state.transfers.get(&key) == Some(&id) {
        state.transfers.remove(&key);
    }
    Some(kept)
}

pub(crate) fn encode<T: serde::Serialize>(what: &T) -> Result<Vec<u8>, JournalError> {
    let mut text = Vec::with_capacity(limits::RECORD_BYTES);
    serde_json::to_writer(&mut text, what).map_err(|error| JournalError::Io {
        action: "encode",
        file: "a record".to_owned(),
        problem: error.to_string(),
    })?;
    Ok(text)
}

/// The transfer that this event ends for good: nothing of it is left to resume.
pub(crate) fn ended_transfer(fact: &Fact) -> Option<TransferId> {
    match fact {
        Fact::FileUploaded { file }
        | Fact::FileRecovered { file }
        | Fact::FileUnknown { file }
        | Fact::FileInterrupted { file, kept: false, .. } => Some(file.transfer),
        Fact::FileHeld { held } => Some(held.file.transfer),
        _ => None,
    }
}
