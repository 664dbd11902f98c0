//! Jobs that run one after the other.

use std::time::Duration;

use entrepot_nouns::{BehindFailed, Env, Job, SiteId};

use super::{HeldJobs, both, job, project, started, take};
use crate::{Claim, Db, HandOver, JobChange, JobEnd, JobEnding, JobHold, LaneKey, RestsFor};

const LEASE: Duration = Duration::from_secs(30);
const HOUR: Duration = Duration::from_secs(3_600);

/// A job of an order, whose event happened so many seconds from now.
fn in_order(env: &Env, order: &str, seconds: u64) -> Job {
    let mut made = Job { order: Some(order.to_owned()), ..job(env, "route", env.now()) };
    made.event.at = env.now().plus(Duration::from_secs(seconds));
    made
}

struct Bench {
    db: Db,
    env: Env,
    claim: Claim,
}

impl Bench {
    async fn with(db: Db, env: Env, jobs: &[Job]) -> Bench {
        project(&db, "n1", &[], jobs).await;
        let claim = started(&db, "n1").await;
        Bench { db, env, claim }
    }

    /// Claims all that may be claimed.
    async fn take(&self) -> Vec<Job> {
        take(&self.db, &self.claim, 9, self.env.now(), LEASE).await.unwrap()
    }

    /// Claims all that may be claimed, and lets those rest that are not admitted; the others.
    async fn admitted(&self, failed: BehindFailed) -> Vec<JobHold> {
        let mut admitted = Vec::new();
        for job in self.take().await {
            let hold = JobHold::from(&job);
            if self.db.admit_job(&hold, failed).await.unwrap() {
                admitted.push(hold);
            } else {
                assert!(self.rest(&job, failed).await);
            }
        }
        admitted
    }

    async fn rest(&self, job: &Job, failed: BehindFailed) -> bool {
        let over = HandOver {
            lane: LaneKey::of(job),
            at: self.env.now(),
            due_at: Some(self.env.now().plus(HOUR)),
            passed: None,
            rests_for: vec![RestsFor::Turn(failed)],
        };
        self.db.write_job(&JobHold::from(job), JobChange::HandOver(over)).await.unwrap()
    }

    async fn end(&self, hold: &JobHold, end: JobEnd) {
        let at = self.env.now();
        let (steps, wakes) = (Vec::new(), None);
        let ending = JobEnding { end, at, steps, wakes, in_order: true, waited: true };
        assert!(self.db.write_job(hold, JobChange::End(ending)).await.unwrap());
    }
}

fn ids(holds: &[JobHold]) -> Vec<entrepot_nouns::JobId> {
    holds.iter().map(|hold| hold.id).collect()
}

async fn each_begins_when_the_one_before_has_ended(db: Db) {
    let env = Env::simulated(1);
    // Made in another order than their events happened in.
    let jobs: Vec<Job> = [2, 0, 1].map(|at| in_order(&env, "a", at)).into();
    let other = in_order(&env, "b", 5);
    let free = job(&env, "route", env.now());
    let all = [&jobs[..], &[other.clone(), free.clone()]].concat();
    let bench = Bench::with(db, env, &all).await;
    let mut first = ids(&bench.admitted(BehindFailed::Stop).await);
    first.sort();
    let mut wanted = vec![jobs[1].id, other.id, free.id];
    wanted.sort();
    assert_eq!(first, wanted, "the first of each order, and those of none");
    assert_eq!(bench.take().await, []);
    let ahead = bench.db.job_ahead(SiteId::MAIN, jobs[0].id, BehindFailed::Stop).await.unwrap();
    assert_eq!(ahead, Some(jobs[1].id));
    // It fails, and keeps its turn while it waits for its next attempt.
    let found = bench.db.job(SiteId::MAIN, jobs[1].id).await.unwrap().unwrap();
    let due_at = bench.env.now().plus(Duration::from_secs(9));
    bench.end(&JobHold::from(&found), JobEnd::Retry { due_at, error: "e".to_owned() }).await;
    assert_eq!(bench.take().await, []);
    bench.env.advance(Duration::from_secs(9));
    for next in [&jobs[1], &jobs[2], &jobs[0]] {
        let admitted = bench.admitted(BehindFailed::Stop).await;
        let mine: Vec<&JobHold> = admitted.iter().filter(|hold| hold.id == next.id).collect();
        assert_eq!(mine.len(), 1);
        bench.end(mine[0], JobEnd::Done).await;
    }
    assert!(bench.take().await.iter().all(|job| job.order.as_deref() != Some("a")));
}

/// It may be laid to rest at the moment when the one before ends.
async fn whoever_rests_too_late_goes_on_at_once(db: Db) {
    let env = Env::simulated(2);
    let jobs: Vec<Job> = [0, 1].map(|at| in_order(&env, "a", at)).into();
    let bench = Bench::with(db, env, &jobs).await;
    let held = bench.take().await;
    let hold = |job: &Job| JobHold::from(held.iter().find(|it| it.id == job.id).unwrap());
    assert!(!bench.db.admit_job(&hold(&jobs[1]), BehindFailed::Stop).await.unwrap());
    assert!(bench.db.admit_job(&hold(&jobs[0]), BehindFailed::Stop).await.unwrap());
    bench.end(&hold(&jobs[0]), JobEnd::Done).await;
    let second = held.iter().find(|it| it.id == jobs[1].id).unwrap();
    assert!(bench.rest(second, BehindFailed::Stop).await);
    assert_eq!(ids(&bench.admitted(BehindFailed::Stop).await), [jobs[1].id]);
}

async fn one_that_came_late_waits_for_the_one_that_began(db: Db) {
    let env = Env::simulated(3);
    let (late, begun) = (in_order(&env, "a", 0), in_order(&env, "a", 1));
    let bench = Bench::with(db, env, std::slice::from_ref(&begun)).await;
    let admitted = bench.admitted(BehindFailed::Stop).await;
    assert_eq!(ids(&admitted), [begun.id]);
    project(&bench.db, "n1", &[], std::slice::from_ref(&late)).await;
    assert_eq!(bench.admitted(BehindFailed::Stop).await, []);
    let ahead = bench.db.job_ahead(SiteId::MAIN, late.id, BehindFailed::Stop).await.unwrap();
    assert_eq!(ahead, Some(begun.id));
    bench.end(&admitted[0], JobEnd::Done).await;
    assert_eq!(ids(&bench.admitted(BehindFailed::Stop).await), [late.id]);
}

async fn a_failed_one_stops_those_behind_it_until_somebody_decides(db: Db) {
    let env = Env::simulated(4);
    let jobs: Vec<Job> = (0..3).map(|at| in_order(&env, "a", at)).collect();
    let bench = Bench::with(db, env, &jobs).await;
    let failed = || JobEnd::Failed { error: "e".to_owned() };
    let admitted = bench.admitted(BehindFailed::Stop).await;
    bench.end(&admitted[0], failed()).await;
    assert_eq!(bench.admitted(BehindFailed::Stop).await, []);
    let ahead = bench.db.job_ahead(SiteId::MAIN, jobs[1].id, BehindFailed::Stop).await.unwrap();
    assert_eq!(ahead, Some(jobs[0].id));
    // It is tried again: still before the others.
    let mut tx = bench.db.begin().await.unwrap();
    assert!(tx.retry_job(SiteId::MAIN, jobs[0].id, bench.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    let admitted = bench.admitted(BehindFailed::Stop).await;
    assert_eq!(ids(&admitted), [jobs[0].id]);
    bench.end(&admitted[0], failed()).await;
    assert_eq!(bench.admitted(BehindFailed::Stop).await, []);
    // Or it is given up.
    let mut tx = bench.db.begin().await.unwrap();
    assert!(tx.cancel_job(SiteId::MAIN, jobs[0].id, bench.env.now()).await.unwrap());
    tx.commit().await.unwrap();
    let admitted = bench.admitted(BehindFailed::Skip).await;
    assert_eq!(ids(&admitted), [jobs[1].id]);
    bench.end(&admitted[0], failed()).await;
    assert_eq!(ids(&bench.admitted(BehindFailed::Skip).await), [jobs[2].id]);
}

both!(
    each_begins_when_the_one_before_has_ended,
    whoever_rests_too_late_goes_on_at_once,
    one_that_came_late_waits_for_the_one_that_began,
    a_failed_one_stops_those_behind_it_until_somebody_decides,
);
