//! At start: what was about to change when the node stopped, and what can be resumed.
//!
//! For each change without an end: the target has its file → the event is recorded; nothing
//! changed → the staged file is kept to resume; neither → "outcome unknown". No scan of data: only
//! the end of the journal is read, and the names in question are looked at.

mod journal_tail;
mod outcome;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Db, Dialect};
use entrepot_journal::Recorder;
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{Endpoint, EndpointTarget, EventId, Fact, SiteId, Stored, Timestamp};
use entrepot_storage::StoreError;
use parking_lot::Mutex;

use crate::book::{Book, KeptPartial, TemporaryKey};
use crate::error::StartError;
use crate::limits;
use crate::meters::Meters;
use crate::notes::{Change, Partial};
use crate::partials::Partials;
use crate::resumable::record::UploadId;
use crate::resumable::status::FinishedUpload;
use crate::stores::Stores;
use crate::uploaded::Uploaded;
use journal_tail::FinishedNote;
use outcome::Outcome;

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

/// What recovery works with.
pub(crate) struct RecoveryParts {
    /// The journal of the last run, and the clock.
    pub(crate) recorder: Recorder,
    pub(crate) db: Db,
    pub(crate) book: Arc<Book>,
    pub(crate) meters: Arc<Meters>,
    pub(crate) stores: Arc<Stores>,
    pub(crate) partials: Partials,
    /// Which start of the machine this is.
    pub(crate) boot: String,
}

/// Decides what the last run left undecided: at start, and later where an endpoint could not be
/// reached then.
pub(crate) struct Recovery {
    parts: RecoveryParts,
    /// Changes at endpoints that could not be reached, or that took no changes.
    waiting: Mutex<Vec<Change>>,
    /// Uploads by id that had been published, for clients that lost the answer.
    finished: Mutex<Vec<(UploadId, FinishedUpload)>>,
}

impl Recovery {
    pub(crate) fn new(parts: RecoveryParts) -> Recovery {
        Recovery { parts, waiting: Mutex::default(), finished: Mutex::default() }
    }

    /// The uploads by id that the journal's end says were published, in their order.
    pub(crate) fn take_finished(&self) -> Vec<(UploadId, FinishedUpload)> {
        std::mem::take(&mut *self.finished.lock())
    }

    /// Remembers an upload by id that was published, until it would have expired.
    fn note_finished(&self, note: &Partial, file: &FileFact) {
        let is_over = note.until <= self.parts.recorder.env().now();
        let Some(record) = note.by_id.as_deref().filter(|_| !is_over) else { return };
        let uploaded = Uploaded {
            transfer: file.transfer,
            size: file.size,
            digests: file.digests,
            replaced: file.displaced.is_some(),
            published: true,
        };
        let finished = FinishedUpload {
            site: note.site,
            account: note.account.clone(),
            path: file.path.parse().unwrap_or_else(|_| note.path.clone()),
            ticket: record.ticket.clone(),
            metadata: record.metadata.clone(),
            uploaded,
        };
        self.finished.lock().push((record.id.clone(), finished));
    }

    /// Looks at what the journal says of the last run.
    ///
    /// # Errors
    /// The journal or the database cannot be read, or a newer version wrote the journal.
    pub(crate) async fn run(&self) -> Result<RecoveryReport, StartError> {
        let RecoveryParts { recorder, book, partials, .. } = &self.parts;
        let found = journal_tail::read(recorder.journal())?;
        let mut report = RecoveryReport::default();
        // An upload that was being published is decided by its change alone.
        let of = |change: &Change| change.event.fact.file().map(|file| file.transfer);
        let publishing: HashSet<_> = found.changes.values().filter_map(of).collect();
        for FinishedNote { note, file } in found.finished {
            self.note_finished(&note, &file);
        }
        let mut undecided = HashMap::new();
        for note in found.partials.into_values() {
            if publishing.contains(&note.transfer) {
                undecided.insert(note.transfer, note);
                continue;
            }
            if note.outlives_process() {
                drop(book.adopt_kept(KeptPartial::of(note)));
            } else {
                partials.discard_later(vec![KeptPartial::of(note)]);
            }
        }
        for change in found.changes.into_values() {
            book.adopt_pending(change.clone());
            let transfer = of(&change);
            let before = report.recovered;
            let file = change.event.fact.file().cloned();
            self.settle(change, &mut report).await?;
            let note = transfer.and_then(|transfer| undecided.remove(&transfer));
            if let (Some(note), Some(file), true) = (note, file, report.recovered > before) {
                self.note_finished(&note, &file);
            }
        }
        for (change, file) in found.temporaries {
            let Change { event, endpoint, target: path, .. } = change;
            book.remember(TemporaryKey { site: event.site, endpoint, path }, file);
        }
        self.sweep_staging().await?;
        self.sweep_spool().await;
        book.each_kept(|_| report.partials += 1);
        book.checkpoint()?;
        Ok(report)
    }

    /// True if it is known of all changes of the last run how they turned out.
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    /// Looks later at a change of this run: nobody knows yet how it turned out.
    pub(crate) fn look_later(&self, change: EventId) {
        self.waiting.lock().extend(self.parts.book.pending(change));
    }

    /// Looks again at changes whose endpoint could not be reached.
    pub(crate) async fn retry(&self) {
        let waiting = std::mem::take(&mut *self.waiting.lock());
        for change in waiting {
            let mut report = RecoveryReport::default();
            if let Err(error) = self.settle(change.clone(), &mut report).await {
                tracing::warn!(code = error.code(), %error, "a change of the last run waits");
                self.waiting.lock().push(change);
            }
        }
    }

    /// Decides one change of the last run.
    async fn settle(&self, change: Change, report: &mut RecoveryReport) -> Result<(), StartError> {
        let RecoveryParts { db, book, meters, stores, .. } = &self.parts;
        let endpoint = db.find::<Endpoint>(change.event.site, &change.endpoint).await?;
        let outcome = match &endpoint {
            None if !self.is_deleted(&change).await => Err(StoreError::NotFound),
            None => {
                let endpoint = &change.endpoint;
                tracing::warn!(%endpoint, "a change of the last run: its endpoint was deleted");
                Ok(outcome::without_endpoint(&change))
            }
            Some(endpoint) => match stores.open(endpoint).await {
                // What is visible there need not be durable.
                Ok(store) if store.is_sick() => {
                    Err(StoreError::Unavailable("it takes no changes now".to_owned()))
                }
                Ok(store) => outcome::look(&store, &change).await,
                Err(error) => Err(StoreError::Unavailable(error.to_string())),
            },
        };
        match outcome {
            Ok(Outcome::Happened(event)) => {
                match &event.fact {
                    Fact::FileRecovered { .. } | Fact::FileHeld { .. } => report.recovered += 1,
                    Fact::FileUnknown { .. } => report.unknown += 1,
                    _ => report.changes += 1,
                }
                book.record(&event)?;
                meters.intent_recovered();
            }
            Ok(Outcome::NotPublished) => {
                report.unpublished += 1;
                self.keep_unpublished(&change);
                book.dismiss(change.id());
            }
            Ok(Outcome::NotDone) => {
                report.undone += 1;
                book.dismiss(change.id());
            }
            Err(error) => {
                let endpoint = &change.endpoint;
                tracing::warn!(%error, %endpoint, "a change of the last run waits");
                report.waiting += 1;
                self.waiting.lock().push(change);
            }
        }
        Ok(())
    }

    /// Whether the database itself has no such endpoint: the copy of the configuration that a node
    /// starts with while its database is away may be older than the endpoint.
    async fn is_deleted(&self, change: &Change) -> bool {
        let Ok(mut tx) = self.parts.db.begin().await else { return false };
        let found = tx.find::<Endpoint>(change.event.site, &change.endpoint).await;
        found.is_ok_and(|endpoint| endpoint.is_none())
    }

    /// A whole upload that was not published: its owner may resume it, all of it is durable.
    fn keep_unpublished(&self, change: &Change) {
        let RecoveryParts { recorder, partials, boot, .. } = &self.parts;
        if let Some(left) = &change.left {
            let left = KeptPartial::of((**left).clone());
            if left.note.outlives_process() {
                partials.keep(left);
            } else {
                partials.discard_later(vec![left]);
            }
            return;
        }
        let Some(file) = change.event.fact.file() else { return };
        let (Some(account), Ok(path)) = (change.event.account.clone(), file.path.parse()) else {
            return;
        };
        let now = recorder.env().now();
        let note = Partial {
            transfer: file.transfer,
            site: change.event.site,
            account,
            path,
            endpoint: change.endpoint.clone(),
            mount: change.mount.clone(),
            target: change.target.clone(),
            protocol: file.protocol,
            contiguous: file.size,
            synced: file.size,
            boot: boot.clone(),
            started_at: file.started_at,
            at: now,
            until: now.plus(limits::UNPUBLISHED_KEPT),
            ticket: None,
            digest: None,
            replaces: None,
            by_id: None,
        };
        partials.keep(KeptPartial::of(note));
    }

    /// Drops staged files that nobody can resume, where a store lists them by itself. What others
    /// may be writing, nodes of this database or installations on a shared directory, is left until
    /// it is old.
    async fn sweep_staging(&self) -> Result<(), StartError> {
        let RecoveryParts { recorder, db, stores, .. } = &self.parts;
        let alone = db.dialect() == Dialect::Sqlite;
        let now = recorder.env().now();
        for site in db.sites().await? {
            for endpoint in db.list::<Endpoint>(SiteId(site.id)).await? {
                let given = stores.is_given(&endpoint.noun.name);
                let target = &endpoint.noun.target;
                if given || matches!(target, EndpointTarget::Directory(_)) {
                    let own = alone && !target.is_shared();
                    let age = if own { Duration::ZERO } else { limits::FOREIGN_STAGING };
                    self.sweep_endpoint(&endpoint, now.minus(age)).await;
                }
            }
        }
        Ok(())
    }

    /// Drops what lies in the spool and belongs to uploads that cannot be continued.
    async fn sweep_spool(&self) {
        let RecoveryParts { book, stores, .. } = &self.parts;
        let Some(spool) = stores.spool() else { return };
        let Ok(staged) = spool.staged().await else { return };
        for file in staged {
            if !book.needs_staging(file.id)
                && let Err(error) = spool.discard_staged(file.id).await
            {
                tracing::warn!(%error, transfer = %file.id, "a spooled file cannot be dropped");
            }
        }
    }

    async fn sweep_endpoint(&self, endpoint: &Stored<Endpoint>, before: Timestamp) {
        let RecoveryParts { book, stores, boot, .. } = &self.parts;
        let Ok(store) = stores.open(endpoint).await else { return };
        let Ok(staged) = store.staged().await else { return };
        let sizes = staged.iter().map(|file| (file.id, file.size)).collect();
        book.reconcile(endpoint.site, &endpoint.noun.name, boot, &sizes);
        for file in staged {
            let wanted = file.modified > before || book.needs_staging(file.id);
            if !wanted && let Err(error) = store.discard_staged(file.id).await {
                tracing::warn!(%error, transfer = %file.id, "a staged file cannot be dropped");
            }
        }
    }
}
