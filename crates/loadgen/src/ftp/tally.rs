//! What the users of a round did.

use crate::histogram::Histogram;
use crate::limits::FAILURES_TOLD;
use crate::report::Counts;

/// What one user, or a round, did.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) counts: Counts,
    pub(super) latency: Histogram,
    pub(super) bytes: u64,
    pub(super) failures: Vec<String>,
}

impl Tally {
    pub(super) fn add(&mut self, other: Tally) {
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
        self.bytes += other.bytes;
        for failure in other.failures {
            self.tell(failure);
        }
    }

    /// Each sentence once, and not many.
    pub(super) fn tell(&mut self, failure: String) {
        let is_new = !self.failures.contains(&failure);
        if is_new && self.failures.len() < FAILURES_TOLD {
            self.failures.push(failure);
        }
    }
}
