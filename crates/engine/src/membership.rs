//! What this process knows of itself as one node of several: which start it is, the era of the
//! database, whether it may claim jobs now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entrepot_db::{Claim, Incarnation};
use entrepot_journal::Recorder;
use entrepot_nouns::{JobHolder, PoolPlaces};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// As the last heartbeat left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Which start of the node, the era, and how many heartbeats the database has counted.
    pub(crate) incarnation: Incarnation,
    /// How far the node's clock is ahead of the database's, microseconds; unknown before the first
    /// heartbeat.
    pub(crate) clock_ahead_us: Option<i64>,
    /// No job is claimed before `Env::elapsed` reaches this: other nodes may not have noticed yet
    /// that the database fell back.
    pub(crate) settled_at: Duration,
    /// The sizes of pools that an operator set.
    pub(crate) pools: PoolPlaces,
}

/// Shared by the heartbeat, the projector and the workers.
pub(crate) struct Membership {
    pub(crate) standing: watch::Sender<Standing>,
    /// The last record that was in the database before it fell back, as far as it ever did.
    reached: AtomicU64,
}

impl Membership {
    /// Of a process that has just started.
    pub(crate) fn new(incarnation: Incarnation) -> Arc<Membership> {
        let standing = Standing {
            incarnation,
            clock_ahead_us: None,
            settled_at: Duration::ZERO,
            pools: PoolPlaces::default(),
        };
        Arc::new(Membership { standing: watch::Sender::new(standing), reached: AtomicU64::new(0) })
    }

    /// The database has counted this start of the node, which began without it.
    pub(crate) fn counted(&self, incarnation: Incarnation) {
        self.standing.send_modify(|standing| standing.incarnation = incarnation);
    }

    /// Waits until the database has counted this start of the node; false if `stop` comes first.
    /// Before, nothing may be written there: the node may not be what the database knows.
    pub(crate) async fn is_counted(&self, stop: &CancellationToken) -> bool {
        let mut standing = self.standing.subscribe();
        tokio::select! {
            biased;
            () = stop.cancelled() => false,
            counted = standing.wait_for(|it| it.incarnation.is_counted()) => counted.is_ok(),
        }
    }

    /// The database has less of the journal than `reached`: what lies between is projected anew.
    /// No job is claimed before `settled_at`.
    pub(crate) fn fell_back(&self, reached: u64, settled_at: Duration) {
        self.reached.fetch_max(reached, Ordering::AcqRel);
        self.standing.send_modify(|standing| standing.settled_at = settled_at);
    }

    /// True of a record that was in the database before it fell back.
    pub(crate) fn was_projected(&self, sequence: u64) -> bool {
        sequence <= self.reached.load(Ordering::Acquire)
    }

    /// True while the database, which has the journal up to `projected`, misses what it had.
    pub(crate) fn is_rebuilding(&self, projected: u64) -> bool {
        projected < self.reached.load(Ordering::Acquire)
    }

    /// What a claim of jobs shows the database.
    pub(crate) fn claim(&self, recorder: &Recorder) -> Claim {
        let Incarnation { number, era, beats, .. } = self.standing.borrow().incarnation.clone();
        let holder = JobHolder { node: recorder.node_id(), incarnation: number, era };
        Claim { node: recorder.node().clone(), holder, beats }
    }

    /// True if jobs may be claimed when `Env::elapsed` is `elapsed` and leases last `lease`. A
    /// clock that is off by more than a quarter of a lease would end the leases of others, or
    /// lose its own: none is claimed before it is known how far it is off.
    pub(crate) fn may_claim(&self, elapsed: Duration, lease: Duration) -> bool {
        let standing = self.standing.borrow();
        let Some(ahead) = standing.clock_ahead_us else { return false };
        let off = Duration::from_micros(ahead.unsigned_abs());
        !standing.incarnation.drained && off <= lease / 4 && elapsed >= standing.settled_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_drained_unsettled_or_off_by_its_clock_claims_nothing() {
        let (second, lease) = (Duration::from_secs(1), Duration::from_secs(40));
        let era = "e".to_owned();
        let incarnation = Incarnation { number: 1, era, beats: 0, drained: false, slot: None };
        let membership = Membership::new(incarnation);
        let with = |change: fn(&mut Standing)| {
            membership.standing.send_modify(change);
            membership.may_claim(second, lease)
        };
        assert!(!with(|_| {}), "its clock may be off by any time");
        assert!(with(|standing| standing.clock_ahead_us = Some(0)));
        assert!(!with(|standing| standing.clock_ahead_us = Some(10_000_001)));
        assert!(!with(|standing| standing.clock_ahead_us = Some(-10_000_001)));
        assert!(with(|standing| standing.clock_ahead_us = Some(-10_000_000)));
        assert!(!with(|standing| standing.incarnation.drained = true));
        assert!(with(|standing| standing.incarnation.drained = false));
        membership.fell_back(7, second * 2);
        assert!(!with(|_| {}));
        assert!(membership.may_claim(second * 2, lease));
        assert!(membership.is_rebuilding(6) && !membership.is_rebuilding(7));
        assert!(membership.was_projected(7) && !membership.was_projected(8));
    }
}
