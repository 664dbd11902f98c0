//! What the journal counts, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Upper bounds of the histogram of sync times, in microseconds; one more bucket is above.
pub const SYNC_BUCKETS_US: [u64; 14] =
    [10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 1_000_000, 5_000_000];

/// Counters since the journal was opened. Reading them costs nothing.
#[derive(Debug, Default)]
pub struct Meters {
    records: AtomicU64,
    bytes: AtomicU64,
    syncs: AtomicU64,
    inline_syncs: AtomicU64,
    sync_failures: AtomicU64,
    write_failures: AtomicU64,
    rotations: AtomicU64,
    sync_nanos: AtomicU64,
    buckets: [AtomicU64; SYNC_BUCKETS_US.len() + 1],
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident)*) => {
        $($(#[$doc])* pub fn $name(&self) -> u64 { self.$name.load(Ordering::Relaxed) })*
    };
}

impl Meters {
    counters! {
        /// Records appended.
        records
        /// Bytes appended, with headers.
        bytes
        /// Syncs of segments.
        syncs
        /// Those of them that the caller made itself, without the flusher thread.
        inline_syncs
        /// Syncs that failed; more than 0 means suspect.
        sync_failures
        /// Writes that failed and are tried again.
        write_failures
        /// Segments begun after the first.
        rotations
    }

    /// Time spent in syncs.
    pub fn sync_time(&self) -> Duration {
        Duration::from_nanos(self.sync_nanos.load(Ordering::Relaxed))
    }

    /// How many syncs fell into each bucket of [`SYNC_BUCKETS_US`], and above the last.
    pub fn sync_buckets(&self) -> Vec<u64> {
        self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect()
    }

    pub(crate) fn count_record(&self, bytes: u64) {
        self.records.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn count_sync(&self, took: Duration) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.sync_nanos.fetch_add(nanos, Ordering::Relaxed);
        let at = SYNC_BUCKETS_US.iter().position(|bound| nanos <= bound * 1000);
        if let Some(bucket) = self.buckets.get(at.unwrap_or(SYNC_BUCKETS_US.len())) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_inline(&self) {
        self.inline_syncs.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_sync_failure(&self) {
        self.sync_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_write_failure(&self) {
        self.write_failures.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_rotation(&self) {
        self.rotations.fetch_add(1, Ordering::Relaxed);
    }
}
