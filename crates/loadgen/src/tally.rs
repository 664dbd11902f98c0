//! What the users of a round did.

use std::time::Duration;

use crate::histogram::Histogram;
use crate::limits::FAILURES_TOLD;
use crate::report::Counts;

/// What one user, or a round, did.
#[derive(Default)]
pub(crate) struct Tally {
    pub(crate) counts: Counts,
    pub(crate) latency: Histogram,
    pub(crate) bytes: u64,
    pub(crate) failures: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.counts.add(&other.counts);
        self.latency.merge(&other.latency);
        self.bytes += other.bytes;
        for failure in other.failures {
            self.tell(failure);
        }
    }

    /// One more that gave what it should.
    pub(crate) fn done(&mut self, time: Duration, bytes: u64) {
        self.counts.done += 1;
        self.latency.record(time);
        self.bytes += bytes;
    }

    /// Each sentence once, and not many.
    pub(crate) fn tell(&mut self, failure: String) {
        let is_new = !self.failures.contains(&failure);
        if is_new && self.failures.len() < FAILURES_TOLD {
            self.failures.push(failure);
        }
    }
}
