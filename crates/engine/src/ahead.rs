//! Jobs that were claimed before there was a place for them, so that a lane whose jobs end quickly
//! waits for the database once for many jobs, and not for each few that have places.
//!
//! Only lanes whose jobs have ended within [`QUICK_JOB`](crate::limits::QUICK_JOB) of late have
//! any, and only where nothing over all nodes counts how many run. They wait for [`AHEAD_TIME`] at
//! most; whoever still waits by then is given back, and nothing of it counts as an attempt.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::LaneKey;
use entrepot_nouns::{Job, Pool};

use crate::limits::AHEAD_TIME;
use crate::places::{JobPlace, Places};

/// A claimed job without a place.
pub(crate) struct JobAhead {
    pub(crate) lane: LaneKey,
    pub(crate) job: Job,
    /// What `Env::elapsed` was when it was claimed.
    pub(crate) claimed: Duration,
}

/// Claimed jobs without a place, those of each lane in the order of their claims.
#[derive(Default)]
pub(crate) struct JobsAhead(BTreeMap<LaneKey, VecDeque<JobAhead>>);

impl JobsAhead {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether jobs wait for a place of the pool.
    pub(crate) fn has_any_of(&self, pool: Pool) -> bool {
        self.0.keys().any(|lane| lane.pool() == pool)
    }

    /// Whether jobs of the lane wait for a place.
    pub(crate) fn has(&self, lane: &LaneKey) -> bool {
        self.0.contains_key(lane)
    }

    pub(crate) fn add(&mut self, job: JobAhead) {
        self.0.entry(job.lane.clone()).or_default().push_back(job);
    }

    /// Those that find a place now, one of each lane in turn.
    pub(crate) fn placed(&mut self, places: &Arc<Places>) -> Vec<(JobAhead, JobPlace)> {
        let mut placed = Vec::new();
        loop {
            let before = placed.len();
            self.0.retain(|lane, jobs| {
                if let Some(place) = places.take(lane) {
                    placed.extend(jobs.pop_front().map(|job| (job, place)));
                }
                !jobs.is_empty()
            });
            if placed.len() == before {
                return placed;
            }
        }
    }

    /// Those of lanes that turn out to be slow, by what `Env::elapsed` is now.
    pub(crate) fn overdue(&mut self, now: Duration) -> Vec<JobAhead> {
        let is_late = |jobs: &VecDeque<JobAhead>| {
            jobs.front().is_some_and(|job| now.saturating_sub(job.claimed) >= AHEAD_TIME)
        };
        let late: Vec<LaneKey> =
            self.0.iter().filter(|(_, jobs)| is_late(jobs)).map(|(lane, _)| lane.clone()).collect();
        late.iter().filter_map(|lane| self.0.remove(lane)).flatten().collect()
    }

    /// All of them: nobody starts them here any more.
    pub(crate) fn take(&mut self) -> Vec<JobAhead> {
        std::mem::take(&mut self.0).into_values().flatten().collect()
    }
}
