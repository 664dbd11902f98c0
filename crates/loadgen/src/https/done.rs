//! What came of a round.

use crate::histogram::Histogram;
use crate::tally::Tally;

/// All streams of a round together.
pub(super) struct Done {
    pub(super) tally: Tally,
    /// Parts of it that have a row of their own; none: it is one scenario.
    pub(super) tests: Vec<Tests>,
}

/// Tests of one kind.
pub(super) struct Tests {
    pub(super) name: String,
    pub(super) passed: Histogram,
    pub(super) failed: u64,
}
