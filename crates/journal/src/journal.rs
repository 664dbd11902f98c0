//! The journal itself: append, group sync, release, close.
//!
//! Who syncs: if syncs are fast (memory file systems, drives with a protected cache), the caller
//! writes and syncs all pending records itself, without a change of thread. Callers that come
//! meanwhile, and all callers on a slower disk, are served by one flusher thread, which syncs for
//! all of them at once. No other caller ever waits for the disk on a thread of the reactor.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Env, Name, NodeId};
use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};

use crate::disk::{Disk, Failure, Pace, Segments};
use crate::error::{JournalError, Result};
use crate::format::{CLOSED_MARK, RecordKind};
use crate::limits;
use crate::medium::{FsMedium, Medium};
use crate::meters::Meters;
use crate::reader::Reader;
use crate::recover::{Opening, Recovered, TornEnd};
use crate::state::{Fault, Start, State, Waiter};
use crate::written::{ArchivedSegment, Progress, Written};

/// How the journal keeps its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// A segment file is closed before it grows beyond this many bytes. Default 64 MiB.
    pub segment_bytes: u64,
    /// Most bytes that may wait to be released. Default 1 GiB.
    pub limit_bytes: u64,
    /// A record that nobody waits for is synced after this time. Default 10 ms.
    pub max_tail_delay: Duration,
    /// Callers sync themselves while a sync takes less than this. Default 100 µs; zero: never.
    pub inline_below: Duration,
    /// What opening does with a torn end. Default: it is cut and set aside.
    pub torn_end: TornEnd,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            segment_bytes: 64 * 1024 * 1024,
            limit_bytes: 1024 * 1024 * 1024,
            max_tail_delay: Duration::from_millis(10),
            inline_below: Duration::from_micros(100),
            torn_end: TornEnd::default(),
        }
    }
}

/// How full the journal is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// The last record.
    pub appended: u64,
    /// The last record on stable storage.
    pub durable: u64,
    /// The last record that is projected.
    pub released: u64,
    /// Bytes of what is not released.
    pub unreleased_bytes: u64,
    /// Most bytes that may wait to be released.
    pub limit_bytes: u64,
    /// No new intent is taken.
    pub full: bool,
    /// A sync failed: nothing is taken until the journal is opened again.
    pub suspect: bool,
}

/// What all handles and the flusher share.
struct Shared {
    env: Env,
    node_id: NodeId,
    /// What readers see.
    written: Arc<Written>,
    state: Mutex<State>,
    disk: Mutex<Disk>,
    wake: Condvar,
    stopped: watch::Sender<bool>,
    /// The sync that failed. Apart from the progress, which changes with each flush: what waits for
    /// a failure sleeps until there is one.
    failed: watch::Sender<Option<JournalError>>,
    meters: Arc<Meters>,
    pace: Arc<Pace>,
    options: Options,
}

/// The node's record of facts. Cheap to clone; the last clone that goes closes it.
#[derive(Clone)]
pub struct Journal {
    shared: Arc<Shared>,
    _flusher: Arc<Flusher>,
}

/// Owns the thread: it ends, and is joined, when the last handle goes.
struct Flusher {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.stop();
        if let Some(thread) = self.thread.take() {
            // A panic of the flusher is its own: waiters see their channel closed.
            let _ = thread.join();
        }
    }
}

impl Journal {
    /// Opens the journal in `dir`, which is made if it is not there, and checks what is in it.
    ///
    /// # Errors
    /// [`JournalError::Locked`] if a process has it open, [`JournalError::Corrupt`] if anything
    /// that was durable once has changed, [`JournalError::Torn`] if the options say so,
    /// [`JournalError::Io`].
    pub fn open(dir: &Path, node: &Name, env: Env, options: Options) -> Result<(Self, Recovered)> {
        let medium = FsMedium::create(dir)
            .map_err(|error| JournalError::io("open", &dir.display().to_string(), &error))?;
        Self::open_on(Arc::new(medium), node, env, options)
    }

    /// [`Journal::open`] on any medium: the seam for tests of faults.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn open_on(
        medium: Arc<dyn Medium>,
        node: &Name,
        env: Env,
        options: Options,
    ) -> Result<(Self, Recovered)> {
        let lock = medium
            .lock()
            .map_err(|error| JournalError::io("lock", &medium.describe(), &error))?
            .ok_or_else(|| JournalError::Locked { dir: medium.describe() })?;
        let torn_end = options.torn_end;
        let opened = Opening { medium: &medium, node, env: &env, torn_end }.run()?;
        let recovered = opened.recovered.clone();
        let first = opened.segments.last().map_or(1, |segment| segment.first);
        let size = opened.file.size();
        let reserved =
            size.map_err(|error| JournalError::io("read", &medium.describe(), &error))?;
        let (meters, pace) = (Arc::new(Meters::default()), Arc::new(Pace::default()));
        let segments: Segments = Arc::new(Mutex::new(opened.segments));
        let disk = Disk {
            medium: medium.clone(),
            file: opened.file,
            first,
            offset: opened.offset,
            reserved,
            segment_bytes: options.segment_bytes,
            node: node.clone(),
            node_id: opened.node_id,
            env: env.clone(),
            segments: segments.clone(),
            meters: meters.clone(),
            pace: pace.clone(),
            stuck: None,
            lock: Some(lock),
        };
        let state = State::new(Start {
            chain: opened.chain,
            position: opened.offset,
            last: opened.last,
            visible: opened.visible,
            account: opened.account,
            segment_bytes: options.segment_bytes,
            limit_bytes: options.limit_bytes,
        });
        let progress = watch::Sender::new(Progress { durable: opened.last, ended: None });
        let shared = Arc::new(Shared {
            env,
            node_id: opened.node_id,
            written: Arc::new(Written { medium, segments, progress }),
            state: Mutex::new(state),
            disk: Mutex::new(disk),
            wake: Condvar::new(),
            stopped: watch::Sender::new(false),
            failed: watch::Sender::new(None),
            meters,
            pace,
            options,
        });
        shared.begin(&recovered)?;
        let flusher = Flusher::start(shared.clone())?;
        Ok((Journal { shared, _flusher: Arc::new(flusher) }, recovered))
    }

    /// The node whose facts these are: made with the first segment, and in the header of each.
    pub fn node_id(&self) -> NodeId {
        self.shared.node_id
    }

    /// Appends a record and returns its sequence. It is ordered now, and durable with the next
    /// sync, at most `max_tail_delay` later. Never waits for the disk.
    ///
    /// # Errors
    /// [`JournalError::Full`], [`JournalError::Behind`] (temporary), [`JournalError::Suspect`].
    pub fn append(&self, kind: RecordKind, payload: &[u8]) -> Result<u64> {
        let mut state = self.shared.state.lock();
        let sequence = state.append(kind, payload)?;
        if !state.timer_armed {
            state.timer_armed = true;
            self.shared.wake.notify_one();
        }
        drop(state);
        self.shared.count(payload);
        Ok(sequence)
    }

    /// Appends a record and returns when it, and all before it, are on stable storage.
    ///
    /// # Errors
    /// As [`Journal::append`] and [`Journal::sync`]. After an error of the sync the record may or
    /// may not be found at the next start: it was not acknowledged.
    pub async fn append_durable(&self, kind: RecordKind, payload: &[u8]) -> Result<u64> {
        // No timer for the tail: this call sees to it.
        let sequence = self.shared.state.lock().append(kind, payload)?;
        self.shared.count(payload);
        self.sync(sequence).await?;
        Ok(sequence)
    }

    /// [`Journal::append_durable`] on a thread that may wait for the disk: one of those who wait
    /// at a time writes and syncs what has come from all of them.
    ///
    /// # Errors
    /// As [`Journal::append_durable`].
    pub fn append_durable_here(&self, kind: RecordKind, payload: &[u8]) -> Result<u64> {
        let sequence = self.shared.state.lock().append(kind, payload)?;
        self.shared.count(payload);
        self.shared.sync_here(sequence)?;
        Ok(sequence)
    }

    /// Returns when the record `sequence`, and all before it, are on stable storage.
    ///
    /// # Errors
    /// [`JournalError::Io`] if the disk refuses to write (tried again later),
    /// [`JournalError::Suspect`] if a sync failed.
    pub async fn sync(&self, sequence: u64) -> Result<()> {
        let Some(waiting) = self.shared.sync_or_wait(sequence)? else { return Ok(()) };
        waiting.await.unwrap_or(Err(JournalError::Closed))
    }

    /// Reads durable records behind `after`, in order.
    pub fn reader(&self, after: u64) -> Reader {
        Reader::new(self.shared.written.clone(), after)
    }

    /// Says that everything up to `up_to` is projected durably. It counts no longer towards the
    /// limit; segments that hold nothing else move to `archive/` soon after.
    ///
    /// # Errors
    /// [`JournalError::Closed`] after the close.
    pub fn release(&self, up_to: u64) -> Result<()> {
        let mut state = self.shared.state.lock();
        if state.closing {
            return Err(JournalError::Closed);
        }
        state.release(up_to);
        let may_archive = self.shared.written.segments.lock().iter().any(|segment| {
            !segment.archived && segment.end.is_some_and(|end| end.visible <= state.released)
        });
        state.archive_wanted = may_archive;
        if may_archive {
            self.shared.wake.notify_one();
        }
        Ok(())
    }

    /// The segments of the archive, oldest first. Asks the disk for their sizes.
    ///
    /// # Errors
    /// [`JournalError::Io`].
    pub fn archived(&self) -> Result<Vec<ArchivedSegment>> {
        self.shared.written.archived()
    }

    /// Removes segments of the archive whose records all lie up to `up_to`, but none whose newest
    /// record may be younger than [`limits::ARCHIVE_KEEP_LEAST`]. That they go is in the journal
    /// before. Says which record was the last that went; 0 if none did. Waits for the disk.
    ///
    /// # Errors
    /// [`JournalError::Io`], [`JournalError::Suspect`].
    pub fn prune_archive(&self, up_to: u64) -> Result<u64> {
        self.shared.prune_archive(up_to)
    }

    /// Goes on with numbers above `sequence`, durably, if it has not reached them. For a node
    /// whose journal is new while the database knows records of an older one: their numbers must
    /// not come again.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    pub async fn skip_past(&self, sequence: u64) -> Result<()> {
        let last = {
            let mut state = self.shared.state.lock();
            state.skip_past(sequence);
            state.last
        };
        self.sync(last).await
    }

    /// How full it is.
    pub fn usage(&self) -> Usage {
        let state = self.shared.state.lock();
        Usage {
            appended: state.last,
            durable: state.durable,
            released: state.released,
            unreleased_bytes: state.account.total(),
            limit_bytes: self.shared.options.limit_bytes,
            full: state.is_full(),
            suspect: state.fault.is_some(),
        }
    }

    /// How long ago a sync failed; `None` while none has.
    pub fn failed_for(&self) -> Option<Duration> {
        let at = self.shared.state.lock().fault.as_ref().map(|fault| fault.at);
        at.map(|at| self.shared.env.elapsed().saturating_sub(at))
    }

    /// Returns once a sync has failed, with [`JournalError::Suspect`]; never if none does. What of
    /// the records that were not durable is on the disk is not known then, and cannot be found out
    /// by another sync: only a new start reads and proves what is there.
    pub async fn failed(&self) -> JournalError {
        let mut failed = self.shared.failed.subscribe();
        let seen = failed.wait_for(Option::is_some).await.map(|error| error.clone());
        match seen {
            Ok(Some(error)) => error,
            // Its sender is in this journal, and what is waited for is there.
            Ok(None) | Err(_) => std::future::pending().await,
        }
    }

    /// Counters of appends, syncs and failures since the journal was opened.
    pub fn meters(&self) -> &Meters {
        &self.shared.meters
    }

    /// Makes everything durable, notes the orderly end, and lets others open the journal.
    ///
    /// # Errors
    /// What kept the last records from becoming durable.
    pub async fn close(&self) -> Result<()> {
        self.shared.stop();
        let mut stopped = self.shared.stopped.subscribe();
        // An error means the flusher is gone without a word: then the check below tells.
        let _ = stopped.wait_for(|stopped| *stopped).await;
        let state = self.shared.state.lock();
        match state.suspect() {
            Some(error) => Err(error),
            None if state.durable < state.last => {
                Err(JournalError::Behind { pending: state.pending_bytes() as u64 })
            }
            None => Ok(()),
        }
    }
}

impl Flusher {
    fn start(shared: Arc<Shared>) -> Result<Self> {
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || theirs.run())
            .map_err(|error| JournalError::io("start", "the flusher thread", &error))?;
        Ok(Flusher { shared, thread: Some(thread) })
    }
}

impl Shared {
    fn count(&self, payload: &[u8]) {
        self.meters.count_record((payload.len() + crate::format::OVERHEAD) as u64);
    }

    /// Records the start, so that a later record proves the end of the previous run.
    fn begin(&self, recovered: &Recovered) -> Result<()> {
        if recovered.last_sequence == 0 || recovered.clean {
            return Ok(());
        }
        let note = format!("{{\"mark\":\"opened\",\"torn_bytes\":{}}}", recovered.torn_bytes);
        self.state.lock().append_mark(note.as_bytes());
        self.flush(&mut self.disk.lock())
    }

    fn fits_inline(&self) -> bool {
        self.state.lock().fits_inline()
    }

    fn stop(&self) {
        self.state.lock().closing = true;
        self.wake.notify_one();
    }

    /// Syncs here if that is fast and nobody else does, or queues up. `None`: it is durable.
    fn sync_or_wait(&self, sequence: u64) -> Result<Option<oneshot::Receiver<Result<()>>>> {
        if self.pace.is_below(self.options.inline_below)
            && let Some(mut disk) = self.disk.try_lock()
            && self.fits_inline()
        {
            self.meters.count_inline();
            // Its result concerns all who wait; what it means for this one is read below.
            let failed = self.flush(&mut disk).err();
            let state = self.state.lock();
            if let Some(error) = failed.filter(|_| state.durable < sequence) {
                return Err(error);
            }
        }
        let mut state = self.state.lock();
        if state.durable >= sequence.min(state.last) {
            return Ok(None);
        }
        if let Some(error) = state.suspect() {
            return Err(error);
        }
        let (done, waiting) = oneshot::channel();
        state.waiters.push(Waiter { sequence, done });
        state.flush_wanted = true;
        self.wake.notify_one();
        Ok(Some(waiting))
    }

    /// Syncs on this thread, unless the previous holder of the disk has done it. Blocks.
    fn sync_here(&self, sequence: u64) -> Result<()> {
        let mut disk = self.disk.lock();
        if self.state.lock().durable >= sequence {
            return Ok(());
        }
        let failed = self.flush(&mut disk).err();
        let state = self.state.lock();
        if state.durable >= sequence {
            return Ok(());
        }
        Err(failed.or_else(|| state.suspect()).unwrap_or(JournalError::Closed))
    }

    /// Writes and syncs all pending records, and wakes everyone who waits for one of them.
    fn flush(&self, disk: &mut Disk) -> Result<()> {
        loop {
            let batch = {
                let mut state = self.state.lock();
                if let Some(error) = state.suspect() {
                    return Err(error);
                }
                disk.stuck.take().or_else(|| state.take())
            };
            let Some(mut batch) = batch else { return Ok(()) };
            let (result, last) = (disk.write(&mut batch), batch.last);
            let mut state = self.state.lock();
            state.stuck_bytes = 0;
            match result {
                Ok(()) => {
                    state.durable = last;
                    state.give_back(batch);
                    let due = state.take_waiters(last);
                    drop(state);
                    self.written.progress.send_modify(|progress| progress.durable = last);
                    due.into_iter().for_each(|waiter| drop(waiter.done.send(Ok(()))));
                }
                Err(Failure::Write(error)) => {
                    self.meters.count_write_failure();
                    state.stuck_bytes = batch.bytes.len();
                    disk.stuck = Some(batch);
                    let due = state.take_waiters(u64::MAX);
                    drop(state);
                    tracing::error!(%error, "the journal could not write, it will try again");
                    fail(due, &error);
                    return Err(error);
                }
                Err(Failure::Sync(problem)) => return Err(self.suspect(state, problem)),
            }
        }
    }

    /// A sync failed: no pending or later record is reported as durable.
    fn suspect(&self, mut state: MutexGuard<'_, State>, problem: String) -> JournalError {
        self.meters.count_sync_failure();
        let error = JournalError::Suspect { problem: problem.clone() };
        state.fault = Some(Fault { problem, at: self.env.elapsed() });
        let due = state.take_waiters(u64::MAX);
        drop(state);
        tracing::error!(%error, "nothing more is acknowledged by this node");
        self.written.progress.send_modify(|progress| progress.ended = Some(error.clone()));
        self.failed.send_replace(Some(error.clone()));
        fail(due, &error);
        error
    }

    /// The flusher thread.
    fn run(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            if state.flush_wanted {
                state.flush_wanted = false;
                drop(state);
                let failed = self.flush(&mut self.disk.lock()).is_err();
                state = self.state.lock();
                if failed && !state.closing && !state.flush_wanted {
                    self.wake.wait_for(&mut state, limits::WRITE_RETRY);
                    state.flush_wanted |= state.has_pending();
                }
            } else if state.archive_wanted {
                state.archive_wanted = false;
                let released = state.released;
                drop(state);
                self.tidy(released);
                state = self.state.lock();
            } else if state.has_pending() {
                let waited = self.wake.wait_for(&mut state, self.options.max_tail_delay);
                state.flush_wanted |= waited.timed_out() && state.has_pending();
            } else {
                state.timer_armed = false;
                self.wake.wait(&mut state);
            }
        }
        let released = state.released;
        drop(state);
        self.finish(released);
    }

    /// Moves to the archive what is released. What fails is tried again at the next release.
    fn tidy(&self, released: u64) {
        if let Err(error) = self.disk.lock().archive(released) {
            tracing::warn!(%error, "the journal could not move segments to its archive");
        }
    }

    fn prune_archive(&self, up_to: u64) -> Result<u64> {
        let mut disk = self.disk.lock();
        let mut expired = disk.expired(limits::ARCHIVE_KEEP_LEAST);
        expired.retain(|segment| segment.end.is_some_and(|end| end.last <= up_to));
        let last = expired.last().and_then(|segment| segment.end).map(|end| end.last);
        let Some(last) = last else { return Ok(0) };
        let note = format!("{{\"mark\":\"pruned\",\"up_to\":{last}}}");
        self.state.lock().append_mark(note.as_bytes());
        // The note first: a segment that is missing without one is a finding of `verify`.
        self.flush(&mut disk)?;
        disk.prune(&expired).map_err(|error| {
            JournalError::io("remove from", &format!("{}/archive", disk.medium.describe()), &error)
        })?;
        Ok(last)
    }

    fn finish(&self, released: u64) {
        let mut disk = self.disk.lock();
        let pending = self.state.lock().suspect().is_none();
        if pending && self.flush(&mut disk).is_ok() {
            if let Err(error) = disk.archive(released) {
                tracing::warn!(%error, "the journal could not move segments to its archive");
            }
            self.state.lock().append_mark(CLOSED_MARK);
            // `close` reports a failure: it sees that not everything is durable.
            if self.flush(&mut disk).is_ok() {
                disk.trim();
            }
        }
        disk.lock = None;
        drop(disk);
        let due = self.state.lock().take_waiters(u64::MAX);
        fail(due, &JournalError::Closed);
        self.written.progress.send_modify(|progress| {
            progress.ended.get_or_insert(JournalError::Closed);
        });
        self.stopped.send_replace(true);
    }
}

fn fail(due: Vec<Waiter>, error: &JournalError) {
    for waiter in due {
        // A waiter that has given up needs no answer.
        let _ = waiter.done.send(Err(error.clone()));
    }
}
