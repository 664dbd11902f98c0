//! Counters of the engine, as the ops listener shows them.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use entrepot_nouns::Timestamp;

use crate::times::Times;

macro_rules! counters {
    ($( $(#[$doc:meta])* $name:ident )*) => {
        /// Counters of one engine; all since its start.
        #[derive(Default)]
        pub struct Meters {
            $( $(#[$doc])* pub $name: AtomicU64, )*
            /// From looking for due jobs until those that were found are claimed, durably.
            pub claims: Times,
            /// Listings of watched folders, with what came of them.
            pub listings: Times,
            /// Time of the oldest event read and not yet projected, microseconds; 0: none.
            oldest_us: AtomicI64,
        }
    };
}

counters! {
    /// Journal records projected.
    records
    /// Projections committed.
    batches
    /// Records set aside because they cannot be read or stored.
    poison
    /// Times a projection had to wait for the database or the journal.
    stalls
    /// Jobs made by rules.
    jobs_made
    /// Events that did not start a rule because its condition failed.
    conditions_failed
    /// Events that did not start a rule because of their depth.
    depth_refused
    /// Jobs whose steps are all done.
    jobs_done
    /// Attempts that failed and will be tried again.
    jobs_retried
    /// Jobs whose last attempt failed.
    jobs_failed
    /// Jobs lost to another node, or interrupted by a stop.
    jobs_released
    /// Times a job went back into the queue because its next step runs in another lane.
    jobs_handed_over
    /// Jobs being worked on now.
    jobs_running
    /// Files delivered.
    deliveries
    /// Deliveries that an earlier attempt turned out to have made already.
    deliveries_found
    /// Bytes written to endpoints.
    delivery_bytes
    /// Events that retention deleted from the database.
    deleted_events
    /// Transfers that retention deleted.
    deleted_transfers
    /// Jobs that retention deleted.
    deleted_jobs
    /// Things that lay in the trash for their time and were deleted for good.
    purged_trash
    /// Records that retention deleted with segments of the archive.
    deleted_records
    /// Times that retention could not delete what is old.
    retention_failures
}

impl Meters {
    pub(crate) fn add(counter: &AtomicU64, by: u64) {
        counter.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn set_oldest(&self, at: Option<Timestamp>) {
        self.oldest_us.store(at.map_or(0, Timestamp::micros), Ordering::Relaxed);
    }

    /// Age of the oldest event read and not yet projected, in seconds.
    pub fn oldest_seconds(&self, now: Timestamp) -> f64 {
        match self.oldest_us.load(Ordering::Relaxed) {
            0 => 0.0,
            at => now.since(Timestamp(at)).as_secs_f64(),
        }
    }
}
