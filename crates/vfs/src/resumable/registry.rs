//! The uploads that are continued by id, as this process works on them: who writes, which bytes
//! are hashed, what has ended. What is durable of them is in the book.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use entrepot_crypto::StreamDigest;
use entrepot_nouns::{Name, SiteId};
use entrepot_storage::{AnyStore, StagedFile};
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedMutexGuard};
use tokio_util::sync::CancellationToken;

use super::record::UploadId;
use super::status::{FinishedUpload, ResumableStatus};
use crate::book::Book;
use crate::error::{Result, VfsError};
use crate::limits;
use crate::notes::Partial;

/// A staged file that several requests write at once.
pub(crate) type SharedStaged = Arc<dyn StagedFile>;

/// All uploads that are continued by id and were asked for since the start.
pub(crate) struct Resumables {
    book: Arc<Book>,
    entries: Mutex<HashMap<UploadId, Arc<Entry>>>,
    finished: Mutex<Finished>,
}

/// One upload at work.
pub(crate) struct Entry {
    site: SiteId,
    account: Name,
    /// Held by the one append, and by the finish.
    writer: Arc<tokio::sync::Mutex<()>>,
    /// Whoever held `writer` is gone, and what came is being made durable.
    closing: AtomicBool,
    ended: AtomicBool,
    staged: tokio::sync::Mutex<Option<Weak<dyn StagedFile>>>,
    /// The digest of acknowledged bytes from the start on; `None`: the finish reads them back.
    pub(crate) digest: Arc<tokio::sync::Mutex<Option<StreamDigest>>>,
    work: Mutex<Work>,
    /// Somebody has ended a part.
    released: Notify,
}

/// What is done to an upload now.
#[derive(Default)]
struct Work {
    /// Who appends; cancelled when another request wants to.
    append: CancellationToken,
    /// Parts that are being written; cancelled when another request wants to write one.
    parts: HashMap<u64, CancellationToken>,
    /// It is being published; how it stood then.
    finishing: Option<ResumableStatus>,
}

/// The right to append or to finish; it ends with the drop.
pub(crate) struct WriterGuard {
    _held: OwnedMutexGuard<()>,
    /// Another request wants to write.
    pub(crate) displaced: CancellationToken,
}

/// The right to write one part; it ends with the drop.
pub(crate) struct PartGuard {
    entry: Arc<Entry>,
    number: u64,
    /// Another request wants to write this part.
    pub(crate) displaced: CancellationToken,
}

#[derive(Default)]
struct Finished {
    of: HashMap<UploadId, FinishedUpload>,
    order: VecDeque<UploadId>,
}

impl Resumables {
    pub(crate) fn new(book: Arc<Book>) -> Resumables {
        Resumables { book, entries: Mutex::default(), finished: Mutex::default() }
    }

    /// The upload of a note, at work. `digest` is that of what is acknowledged, if that is known.
    pub(crate) fn entry(
        &self,
        id: &UploadId,
        note: &Partial,
        digest: Option<StreamDigest>,
    ) -> Arc<Entry> {
        let mut entries = self.entries.lock();
        let entry = entries.entry(id.clone()).or_insert_with(|| Arc::new(Entry::new(note, digest)));
        Arc::clone(entry)
    }

    /// The upload, if it was asked for since the start.
    pub(crate) fn known(&self, id: &UploadId) -> Option<Arc<Entry>> {
        self.entries.lock().get(id).cloned()
    }

    /// The upload is gone: writers that are left fail.
    pub(crate) fn remove(&self, id: &UploadId) {
        if let Some(entry) = self.entries.lock().remove(id) {
            entry.ended.store(true, Ordering::Release);
        }
    }

    /// Remembers the end of an upload for clients that ask again.
    pub(crate) fn finished(&self, id: &UploadId, upload: FinishedUpload) {
        self.remove(id);
        let mut finished = self.finished.lock();
        if finished.of.insert(id.clone(), upload).is_none() {
            finished.order.push_back(id.clone());
        }
        while finished.order.len() > limits::FINISHED_UPLOADS {
            if let Some(oldest) = finished.order.pop_front() {
                finished.of.remove(&oldest);
            }
        }
    }

    /// What is remembered of an upload that was published.
    pub(crate) fn look_finished(&self, id: &UploadId) -> Option<FinishedUpload> {
        self.finished.lock().of.get(id).cloned()
    }

    /// True while somebody writes or publishes it.
    pub(crate) fn is_in_use(&self, note: &Partial) -> bool {
        let Some(record) = &note.by_id else { return false };
        self.known(&record.id).is_some_and(|entry| {
            let is_written = entry.writer.try_lock().is_err();
            is_written || !entry.work.lock().parts.is_empty()
        })
    }

    /// Forgets what expired.
    pub(crate) fn prune(&self) {
        let is_there = |id: &UploadId, entry: &Arc<Entry>| {
            self.book.look_by_id(id).is_some() || entry.finishing().is_some()
        };
        self.entries.lock().retain(|id, entry| {
            let stays = is_there(id, entry);
            if !stays {
                entry.ended.store(true, Ordering::Release);
            }
            stays
        });
    }
}

impl Entry {
    fn new(note: &Partial, digest: Option<StreamDigest>) -> Entry {
        Entry {
            site: note.site,
            account: note.account.clone(),
            writer: Arc::default(),
            closing: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            staged: tokio::sync::Mutex::default(),
            digest: Arc::new(tokio::sync::Mutex::new(digest)),
            work: Mutex::default(),
            released: Notify::new(),
        }
    }

    /// True for the account that began the upload.
    pub(crate) fn is_of(&self, site: SiteId, account: &Name) -> bool {
        self.site == site && self.account == *account
    }

    /// True once it was published or dropped.
    pub(crate) fn is_over(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Its state when it began to be published, while it is.
    pub(crate) fn finishing(&self) -> Option<ResumableStatus> {
        self.work.lock().finishing.clone()
    }

    /// Waits until what an append that broke off has sent is durable.
    pub(crate) async fn settled(&self) {
        if self.closing.load(Ordering::Acquire) {
            drop(self.writer.lock().await);
        }
    }

    /// Becomes the only one to append, or to finish.
    ///
    /// # Errors
    /// [`VfsError::UploadInUse`]: another request does.
    pub(crate) async fn write(self: &Arc<Self>) -> Result<WriterGuard> {
        self.settled().await;
        let guard = Arc::clone(&self.writer).try_lock_owned();
        let _held = guard.map_err(|_| VfsError::UploadInUse)?;
        let displaced = CancellationToken::new();
        self.work.lock().append = displaced.clone();
        Ok(WriterGuard { _held, displaced })
    }

    /// Asks who appends to give way, and waits until that has happened.
    pub(crate) async fn displace_append(&self) {
        self.work.lock().append.cancel();
        drop(self.writer.lock().await);
    }

    /// The same of who writes a part.
    pub(crate) async fn displace_part(&self, number: u64) {
        loop {
            let released = self.released.notified();
            let mut released = std::pin::pin!(released);
            released.as_mut().enable();
            match self.work.lock().parts.get(&number) {
                Some(displaced) => displaced.cancel(),
                None => return,
            }
            released.await;
        }
    }

    /// The one who appended is gone: newcomers wait until `guard` is dropped.
    pub(crate) fn close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// What came is durable: the one who appended has given the upload back.
    pub(crate) fn closed(&self) {
        self.closing.store(false, Ordering::Release);
    }

    /// Becomes the only one to write a part.
    ///
    /// # Errors
    /// [`VfsError::UploadInUse`]: another request does, or the upload is being published.
    pub(crate) fn write_part(self: &Arc<Self>, number: u64) -> Result<PartGuard> {
        let mut work = self.work.lock();
        if work.finishing.is_some() || work.parts.contains_key(&number) {
            return Err(VfsError::UploadInUse);
        }
        let displaced = CancellationToken::new();
        work.parts.insert(number, displaced.clone());
        Ok(PartGuard { entry: Arc::clone(self), number, displaced })
    }

    /// From now on no part is written.
    ///
    /// # Errors
    /// [`VfsError::UploadInUse`]: one is being written.
    pub(crate) fn begin_finish(&self, status: ResumableStatus) -> Result<()> {
        let mut work = self.work.lock();
        if !work.parts.is_empty() {
            return Err(VfsError::UploadInUse);
        }
        work.finishing = Some(status);
        Ok(())
    }

    /// It was not published: parts may be written again.
    pub(crate) fn end_finish(&self) {
        self.work.lock().finishing = None;
    }

    /// The staged file, opened once for all who write at a time.
    pub(crate) async fn open(&self, store: &AnyStore, note: &Partial) -> Result<SharedStaged> {
        let mut shared = self.staged.lock().await;
        if let Some(staged) = shared.as_ref().and_then(Weak::upgrade) {
            return Ok(staged);
        }
        let target = note.staged_target()?;
        let staged: SharedStaged = Arc::from(store.resume(note.transfer, &target).await?);
        *shared = Some(Arc::downgrade(&staged));
        Ok(staged)
    }
}

impl Drop for PartGuard {
    fn drop(&mut self) {
        self.entry.work.lock().parts.remove(&self.number);
        self.entry.released.notify_waiters();
    }
}
