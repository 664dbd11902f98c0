//! The heartbeat: says each second in the database that this node lives, learns from the answer
//! what the database says of the node, and takes over the jobs of nodes that are dead.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Beat, BeatAnswer, Beaten, Db, DbError, Dialect, Incarnation, NodeIdentity};
use entrepot_journal::Recorder;
use entrepot_nouns::Timestamp;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::limits::{
    BEAT_FAST, BEAT_LAST, BEATS_REMEMBERED, CLOCK_WARN, HEARTBEAT, HEARTBEAT_ALONE, SETTLE,
};
use crate::membership::Membership;

/// What the heartbeat works with.
pub(crate) struct Heart {
    pub(crate) db: Db,
    pub(crate) recorder: Recorder,
    pub(crate) membership: Arc<Membership>,
    /// The last projected sequence.
    pub(crate) projected: watch::Receiver<u64>,
    /// There may be a job to claim.
    pub(crate) jobs: Arc<Notify>,
    /// The projector shall say how far it is.
    pub(crate) nudge: Arc<Notify>,
    /// Version of the program.
    pub(crate) program: String,
    /// Cancelled when a later start of this very node is found.
    pub(crate) superseded: CancellationToken,
}

/// What is remembered from one beat to the next.
#[derive(Default)]
struct Pulse {
    /// How long the last beats took; one that failed is no beat.
    took: VecDeque<Duration>,
    clock_ahead_us: i64,
    clock_told: bool,
    reach: Reach,
}

/// Up to what time all events of the journal are in the database.
#[derive(Default)]
struct Reach {
    /// A moment, and the last record that the journal had then.
    asked: Option<(Timestamp, u64)>,
    /// The last such moment of which the record is in the database.
    reached: Option<(Timestamp, u64)>,
}

impl Reach {
    /// Looks how far it is: the journal has records up to `appended` now, the database up to
    /// `projected`.
    fn look(&mut self, now: Timestamp, appended: u64, projected: u64) {
        // A database that fell back lacks what it had.
        self.reached = self.reached.filter(|(_, sequence)| *sequence <= projected);
        for _ in 0..2 {
            let asked = *self.asked.get_or_insert((now, appended));
            if asked.1 <= projected {
                self.reached = Some(asked);
                self.asked = None;
            }
        }
    }

    fn until(&self) -> Timestamp {
        self.reached.map_or_else(Timestamp::default, |(at, _)| at)
    }
}

impl Pulse {
    fn is_fast(&self) -> bool {
        self.took.len() == BEATS_REMEMBERED && self.took.iter().all(|took| *took < BEAT_FAST)
    }

    fn add(&mut self, took: Duration) {
        if self.took.len() == BEATS_REMEMBERED {
            self.took.pop_front();
        }
        self.took.push_back(took);
    }
}

/// Beats until `stop`; then says that the node stopped in good order.
pub(crate) async fn run(heart: Heart, stop: CancellationToken) {
    // A SQLite file has one node: nobody waits for its heartbeat, and each costs a sync.
    let every = match heart.db.dialect() {
        Dialect::Sqlite => HEARTBEAT_ALONE,
        Dialect::Postgres => HEARTBEAT,
    };
    if !heart.membership.is_counted(&stop).await {
        return;
    }
    let mut pulse = Pulse::default();
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = heart.beat(&mut pulse) => {}
        }
        tokio::select! {
            biased;
            () = stop.cancelled() => break,
            () = tokio::time::sleep(every) => {}
        }
    }
    let last = Beat { stopped: true, ..heart.next(&mut pulse) };
    let written = tokio::time::timeout(BEAT_LAST, heart.db.beat(&last)).await;
    if !matches!(written, Ok(Ok(_))) {
        tracing::warn!("the other nodes see this one as silent, not as stopped");
    }
}

/// What an answer says of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Learnt {
    Nothing,
    /// It has less than it had, or another server answers.
    FellBack,
}

impl Heart {
    fn next(&self, pulse: &mut Pulse) -> Beat {
        let round_trip = pulse.took.back().copied().unwrap_or_default();
        let now = self.recorder.env().now();
        let usage = self.recorder.journal().usage();
        let (durable, projected) = (usage.durable, *self.projected.borrow());
        pulse.reach.look(now, usage.appended, projected);
        if projected < usage.appended {
            // The last records may be the journal's own.
            self.nudge.notify_one();
        }
        Beat {
            node: self.recorder.node_id(),
            incarnation: self.membership.standing.borrow().incarnation.number,
            program: self.program.clone(),
            rebuilding: self.membership.is_rebuilding(projected),
            stopped: false,
            clock_ahead_us: pulse.clock_ahead_us,
            round_trip_us: i64::try_from(round_trip.as_micros()).unwrap_or(i64::MAX),
            unprojected: durable.saturating_sub(projected),
            projected_until: pulse.reach.until(),
        }
    }

    /// One beat, and what follows from its answer.
    async fn beat(&self, pulse: &mut Pulse) {
        let env = self.recorder.env();
        let (asked, began) = (env.now(), env.elapsed());
        let next = self.next(pulse);
        let beaten = self.db.beat(&next).await;
        let took = env.elapsed().saturating_sub(began);
        match beaten {
            Ok(Beaten::Written(answer)) => {
                pulse.add(took);
                // The database read its clock about half way.
                let ours = asked.plus(took / 2).micros();
                pulse.clock_ahead_us = ours.saturating_sub(answer.now.micros());
                self.recorder.set_clock_ahead(pulse.clock_ahead_us);
                self.tell_of_clock(pulse);
                if let Err(error) = self.db.fold_job_counts().await {
                    tracing::debug!(%error, "counts of jobs are folded later");
                }
                if self.learn(answer, pulse.clock_ahead_us) == Learnt::FellBack
                    && let Err(error) = self.db.skip_revisions().await
                {
                    tracing::warn!(code = "EP0716", %error, "revisions may be given twice");
                }
            }
            Ok(Beaten::Superseded) => {
                tracing::error!(
                    code = "EP0714",
                    "another process serves as this node with a copy of its journal; this one ends"
                );
                self.superseded.cancel();
            }
            Ok(Beaten::Missing) => self.come_back().await,
            Err(error) => {
                pulse.took.clear();
                tracing::debug!(%error, "the heartbeat of this node is late");
            }
        }
        if pulse.is_fast() {
            self.take_over().await;
        }
    }

    fn tell_of_clock(&self, pulse: &mut Pulse) {
        let off = Duration::from_micros(pulse.clock_ahead_us.unsigned_abs());
        let is_off = off > CLOCK_WARN;
        if is_off && !pulse.clock_told {
            let seconds = off.as_secs_f64();
            let side = if pulse.clock_ahead_us > 0 { "ahead of" } else { "behind" };
            tracing::warn!(
                code = "EP0715",
                seconds,
                "the clock of this node is {side} the database's; set it by NTP"
            );
        }
        pulse.clock_told = is_off;
    }

    /// Takes over what the database says of this node.
    fn learn(&self, answer: BeatAnswer, clock_ahead_us: i64) -> Learnt {
        let BeatAnswer { beats, drained, era, pools, .. } = answer;
        let settled_at = self.recorder.env().elapsed().saturating_add(SETTLE);
        let (mut learnt, mut first) = (Learnt::Nothing, false);
        self.membership.standing.send_if_modified(|standing| {
            let before = standing.clone();
            let known = &mut standing.incarnation;
            if beats <= known.beats || era != known.era {
                let (reached, found) = (known.beats, beats);
                tracing::warn!(
                    code = "EP0716",
                    reached,
                    found,
                    era,
                    "the database fell back, or another server took over: every lease of this \
                     node has ended"
                );
                learnt = Learnt::FellBack;
            }
            (known.beats, known.drained, known.era) = (beats, drained, era);
            first = standing.clock_ahead_us.is_none();
            standing.clock_ahead_us = Some(clock_ahead_us);
            first |= standing.pools != pools;
            standing.pools = pools;
            if learnt == Learnt::FellBack {
                standing.settled_at = settled_at;
            }
            *standing != before
        });
        if first {
            // Jobs may be claimed from now on.
            self.jobs.notify_one();
        }
        learnt
    }

    /// The row of this node is gone or older than its process: the node begins anew in it.
    async fn come_back(&self) {
        let before = self.membership.standing.borrow().incarnation.clone();
        let identity = NodeIdentity {
            id: self.recorder.node_id(),
            name: self.recorder.node().clone(),
            program: self.program.clone(),
        };
        match self.rejoin(&identity, before.number).await {
            Ok(Some(incarnation)) => {
                tracing::warn!(code = "EP0716", "this node was missing in the database: added");
                let settled_at = self.recorder.env().elapsed().saturating_add(SETTLE);
                self.membership.standing.send_modify(|standing| {
                    standing.incarnation = incarnation;
                    standing.settled_at = settled_at;
                });
            }
            Ok(None) => {}
            Err(error) => tracing::warn!(code = "EP0716", %error, "this node is not in the list"),
        }
    }

    async fn rejoin(
        &self,
        identity: &NodeIdentity,
        before: i64,
    ) -> Result<Option<Incarnation>, DbError> {
        let mut tx = self.db.begin().await?;
        tx.join_node(&self.db, identity).await?;
        tx.commit().await?;
        self.db.start_node(identity, before).await
    }

    async fn take_over(&self) {
        match self.db.take_over_jobs(self.recorder.env().now()).await {
            Ok(0) => {}
            Ok(jobs) => {
                tracing::info!(jobs, "jobs of a node that died go on");
                self.jobs.notify_one();
            }
            Err(error) => {
                tracing::debug!(%error, "jobs of dead nodes wait");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_is_in_the_database_up_to_the_last_look_whose_records_are() {
        let mut reach = Reach::default();
        for (now, appended, projected, until) in [
            (10, 5, 3, 0),
            (11, 9, 4, 0),
            (12, 9, 5, 10),
            (13, 12, 8, 10),
            (14, 12, 9, 12),
            (15, 12, 12, 15),
            (16, 12, 12, 16),
            // It falls back, and is brought up to date.
            (17, 14, 6, 0),
            (18, 14, 13, 0),
            (19, 15, 14, 17),
            (20, 15, 15, 20),
        ] {
            reach.look(Timestamp(now), appended, projected);
            assert_eq!(reach.until(), Timestamp(until), "at {now}");
        }
    }

    #[test]
    fn only_a_node_whose_own_heartbeats_are_fast_judges_others() {
        let mut pulse = Pulse::default();
        let fast = BEAT_FAST - Duration::from_millis(1);
        for _ in 1..BEATS_REMEMBERED {
            pulse.add(fast);
            assert!(!pulse.is_fast(), "too few");
        }
        pulse.add(fast);
        assert!(pulse.is_fast());
        pulse.add(BEAT_FAST);
        for _ in 1..BEATS_REMEMBERED {
            assert!(!pulse.is_fast(), "one was slow");
            pulse.add(fast);
        }
        assert!(!pulse.is_fast());
        pulse.add(fast);
        assert!(pulse.is_fast());
    }
}
