//! What a pool tells of itself.

use entrepot_nouns::Timestamp;
use serde::Serialize;

/// How many there are of something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Gauge {
    /// At this moment.
    pub now: usize,
    /// At most since the pool began.
    pub peak: usize,
    /// When there were so many for the first time; unset: there never was one.
    pub peak_at: Option<Timestamp>,
}

impl Gauge {
    pub(crate) fn set(&mut self, now: usize, peak: usize, at: Timestamp) {
        self.now = now;
        if peak > self.peak {
            self.peak = peak;
            self.peak_at = Some(at);
        }
    }
}

impl PoolFigures {
    /// The gauges of states that sessions have, with their words.
    pub fn states(&self) -> [StateGauge; 5] {
        let gauge = |state, gauge| StateGauge { state, gauge };
        [
            gauge("pending", self.pending),
            gauge("idle", self.idle),
            gauge("active", self.active),
            gauge("suspended", self.suspended),
            gauge("rogue", self.rogue),
        ]
    }
}

/// How many sessions are in a state.
#[derive(Clone, Copy, Debug)]
pub struct StateGauge {
    /// In one word.
    pub state: &'static str,
    /// How many there are, and were at most.
    pub gauge: Gauge,
}

/// The sessions of a pool by state, and what became of others since it began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolFigures {
    /// Sessions that are being opened.
    pub pending: Gauge,
    /// At home, for the next caller.
    pub idle: Gauge,
    /// With a caller, or on their way home.
    pub active: Gauge,
    /// Held by clients between their requests.
    pub suspended: Gauge,
    /// Left by clients, or not found home.
    pub rogue: Gauge,
    /// Calls that wait for a session.
    pub waiting: Gauge,
    /// Sessions that were opened.
    pub opened: u64,
    /// Attempts to open one that failed.
    pub not_opened: u64,
    /// Sessions whose connection ended by itself.
    pub broken: u64,
    /// Sessions that callers were given.
    pub given: u64,
    /// Callers that were given none.
    pub refused: u64,
    /// Why the last attempt to open a session failed; unset: it did not.
    pub failure: Option<String>,
}
