//! Counters of the data plane. Sessions add what they moved when a file ends or a MiB is full, so
//! that no chunk touches memory which sessions share.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use entrepot_nouns::{Direction, Protocol};
use tokio::sync::watch;

/// Counters since the start, and what is active now.
#[derive(Debug, Default)]
pub struct Meters {
    uploads: [AtomicU64; 4],
    downloads: AtomicU64,
    recovered: AtomicU64,
    spooled: AtomicU64,
    pub(crate) spool_bytes: AtomicU64,
    bytes: [[AtomicU64; Protocol::ALL.len()]; 2],
    active: [AtomicI64; 2],
    sessions: AtomicI64,
    /// Counts what begins and ends, for those who follow it.
    changes: watch::Sender<u64>,
}

/// How an upload ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadEnd {
    /// Whole, durable, visible.
    Completed,
    /// Kept for its owner to resume.
    Partial,
    /// Refused, aborted or failed: nothing is left.
    Failed,
    /// Nothing was written to an existing file.
    Untouched,
}

impl UploadEnd {
    /// Every way in which an upload ends, in the order of the counters.
    pub const ALL: [UploadEnd; 4] =
        [UploadEnd::Completed, UploadEnd::Partial, UploadEnd::Failed, UploadEnd::Untouched];

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            UploadEnd::Completed => "completed",
            UploadEnd::Partial => "partial",
            UploadEnd::Failed => "failed",
            UploadEnd::Untouched => "untouched",
        }
    }
}

impl Meters {
    /// Uploads that ended so.
    pub fn uploads(&self, end: UploadEnd) -> u64 {
        self.uploads.get(end as usize).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    /// Downloads that ended.
    pub fn downloads(&self) -> u64 {
        self.downloads.load(Ordering::Relaxed)
    }

    /// Intents of an earlier run that recovery decided.
    pub fn recovered(&self) -> u64 {
        self.recovered.load(Ordering::Relaxed)
    }

    /// Uploads that went over the local disk, because a store takes bytes only in order.
    pub fn spooled(&self) -> u64 {
        self.spooled.load(Ordering::Relaxed)
    }

    /// What such uploads have there now.
    pub fn spool_bytes(&self) -> u64 {
        self.spool_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of files moved, by direction and protocol.
    pub fn bytes(&self, direction: Direction, protocol: Protocol) -> u64 {
        self.cell(direction, protocol).map_or(0, |bytes| bytes.load(Ordering::Relaxed))
    }

    /// Transfers that are active now, by direction.
    pub fn active(&self, direction: Direction) -> u64 {
        let count = self.active.get(direction as usize);
        count.map_or(0, |count| u64::try_from(count.load(Ordering::Relaxed)).unwrap_or(0))
    }

    /// Sessions that are open now, those of rules included.
    pub fn sessions(&self) -> u64 {
        u64::try_from(self.sessions.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Changes whenever a session opens or ends, or a transfer begins or ends.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    fn changed(&self) {
        if self.changes.receiver_count() > 0 {
            self.changes.send_modify(|count| *count = count.wrapping_add(1));
        }
    }

    fn cell(&self, direction: Direction, protocol: Protocol) -> Option<&AtomicU64> {
        let at = Protocol::ALL.iter().position(|known| *known == protocol)?;
        self.bytes.get(direction as usize)?.get(at)
    }

    pub(crate) fn moved(&self, direction: Direction, protocol: Protocol, bytes: u64) {
        if let Some(cell) = self.cell(direction, protocol) {
            cell.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn upload_ended(&self, end: UploadEnd) {
        if let Some(count) = self.uploads.get(end as usize) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn download_ended(&self) {
        self.downloads.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn spool_begun(&self) {
        self.spooled.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn intent_recovered(&self) {
        self.recovered.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn active_changed(&self, direction: Direction, by: i64) {
        if let Some(count) = self.active.get(direction as usize) {
            count.fetch_add(by, Ordering::Relaxed);
        }
        self.changed();
    }

    pub(crate) fn sessions_changed(&self, by: i64) {
        self.sessions.fetch_add(by, Ordering::Relaxed);
        self.changed();
    }
}
