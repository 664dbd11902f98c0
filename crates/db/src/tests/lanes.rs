//! Lanes: which have work, in turn, and how many of their jobs run.

use std::collections::BTreeMap;
use std::time::Duration;

use entrepot_nouns::{Env, Job, JobLane, JobState, JobStep, Pool, Priority, SiteId, StepState};

use super::{HeldJobs, both, job, name, passed, postgres_url, project, started, step, take};
use crate::claims::EXPLAIN_CLAIM;
use crate::{
    Claim, Db, DbOptions, Dialect, EndpointLimit, HandOver, JobChange, JobClaim, JobCounts, JobEnd,
    JobEnding, JobHold, JobWrite, LaneKey, LaneWant, PassedStep, Purpose, RestsFor,
};

const LEASE: Duration = Duration::from_secs(30);

fn to(endpoint: &str) -> JobLane {
    let endpoint = Some(name(endpoint));
    JobLane { pool: Pool::Target, endpoint, priority: Priority::Normal }
}

fn job_in(env: &Env, lane: &JobLane) -> Job {
    Job { lane: lane.clone(), ..job(env, "route", env.now()) }
}

fn key(lane: &JobLane) -> LaneKey {
    LaneKey::new(SiteId::MAIN, &name("route"), lane)
}

async fn due(db: &Db, after: Option<&LaneKey>, env: &Env, limit: usize) -> Vec<String> {
    let lanes = db.due_lanes(Pool::Target, after, env.now(), limit).await.unwrap();
    lanes.into_iter().map(|lane| lane.lane().endpoint.unwrap().to_string()).collect()
}

fn claim_of(claim: &Claim, want: LaneWant, env: &Env) -> JobClaim {
    let until = env.now().plus(LEASE);
    JobClaim { claim: claim.clone(), wants: vec![want], at: env.now(), until }
}

async fn of_lane(db: &Db, claim: &Claim, want: LaneWant, env: &Env) -> Vec<Job> {
    db.claim_jobs(&claim_of(claim, want, env)).await.unwrap()
}

async fn each_lane_with_a_due_job_has_its_turn(db: Db) {
    let env = Env::simulated(1);
    let mut jobs = Vec::new();
    for endpoint in ["b", "a", "c"] {
        jobs.extend((0..3).map(|_| job_in(&env, &to(endpoint))));
    }
    let later = env.now().plus(Duration::from_secs(9));
    jobs.push(Job { due_at: later, ..job_in(&env, &to("later")) });
    jobs.push(job(&env, "elsewhere", env.now()));
    project(&db, "n1", &[], &jobs).await;
    assert_eq!(due(&db, None, &env, 9).await, ["a", "b", "c"]);
    assert_eq!(due(&db, None, &env, 2).await, ["a", "b"]);
    assert_eq!(due(&db, Some(&key(&to("a"))), &env, 9).await, ["b", "c", "a"]);
    assert_eq!(due(&db, Some(&key(&to("c"))), &env, 2).await, ["a", "b"]);
    let elsewhere = db.due_lanes(Pool::Instance, None, env.now(), 9).await.unwrap();
    assert_eq!(elsewhere, [LaneKey::of(jobs.last().unwrap())]);
    assert_eq!(elsewhere[0].rule(), Some("elsewhere"));
    assert_eq!(db.due_lanes(Pool::Source, None, env.now(), 9).await.unwrap(), []);

    let n1 = started(&db, "n1").await;
    let want = LaneWant { lane: key(&to("b")), max: 2, since: None, at_once: None };
    let claimed = of_lane(&db, &n1, want.clone(), &env).await;
    assert_eq!(claimed.len(), 2);
    assert!(claimed.iter().all(|job| job.lane == to("b")));
    assert_eq!(of_lane(&db, &n1, want, &env).await.len(), 1);
    assert_eq!(due(&db, None, &env, 9).await, ["a", "c"]);
    env.advance(LEASE);
    assert_eq!(due(&db, None, &env, 9).await, ["a", "b", "c", "later"], "leases ended");
}

async fn a_lane_is_looked_at_from_a_time_on(db: Db) {
    let env = Env::simulated(3);
    let early = env.now();
    let mut jobs = vec![job_in(&env, &to("a")), job_in(&env, &to("b"))];
    env.advance(Duration::from_secs(10));
    let since = env.now();
    jobs.extend([job_in(&env, &to("b")), job_in(&env, &to("c"))]);
    let later = env.now().plus(Duration::from_secs(9));
    jobs.push(Job { due_at: later, ..job_in(&env, &to("d")) });
    project(&db, "n1", &[], &jobs).await;
    if db.dialect() == Dialect::Postgres {
        let all = |since| ["a", "b", "d", "e"].map(|endpoint| (key(&to(endpoint)), since)).into();
        let due = async |since| db.due_lanes_since(&all(since), env.now()).await.unwrap();
        assert_eq!(due(early).await, [key(&to("a")), key(&to("b"))]);
        assert_eq!(due(since).await, [key(&to("b"))]);
        assert_eq!(db.due_lanes_since(&BTreeMap::new(), env.now()).await.unwrap(), []);
    }

    let n1 = started(&db, "n1").await;
    let want = LaneWant { lane: key(&to("b")), max: 9, since: Some(since), at_once: None };
    let claimed = of_lane(&db, &n1, want.clone(), &env).await;
    assert_eq!(claimed.iter().map(|job| job.id).collect::<Vec<_>>(), [jobs[2].id]);
    assert_eq!(of_lane(&db, &n1, want.clone(), &env).await.len(), 0);
    let whole = LaneWant { since: None, ..want };
    assert_eq!(of_lane(&db, &n1, whole, &env).await[0].id, jobs[1].id);
}

/// How many pages the server looks at for a claim, which is not made.
async fn pages(db: &Db, claim: &JobClaim) -> u64 {
    let mut work = db.work(Purpose::Other).await.unwrap();
    let values = db.claiming(claim, &claim.wants[0], claim.wants[0].max);
    let lines = work.query(EXPLAIN_CLAIM, values, |row| row.text(0)).await.unwrap();
    let of_all = lines.iter().find_map(|line| line.trim().strip_prefix("Buffers: shared "));
    let parts = of_all.unwrap().split(' ').filter_map(|part| part.split_once('='));
    let looked = parts.filter(|(what, _)| matches!(*what, "hit" | "read"));
    looked.map(|(_, pages)| pages.parse::<u64>().unwrap()).sum()
}

/// What has ended stays in the index as long as somebody's transaction sees it: it must not be
/// looked at for each job anew.
#[tokio::test]
async fn a_claim_passes_by_what_an_open_transaction_keeps() {
    let url = postgres_url().await;
    let db = Db::open(&url, DbOptions::default()).await.unwrap();
    let (looker, connection) = tokio_postgres::connect(&url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    looker.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.unwrap();
    let env = Env::simulated(7);
    let make = || {
        env.advance(Duration::from_millis(1));
        job_in(&env, &to("a"))
    };
    let jobs: Vec<Job> = (0..1_000).map(|_| make()).collect();
    project(&db, "n1", &[], &jobs).await;
    let n1 = started(&db, "n1").await;
    let held = take(&db, &n1, jobs.len(), env.now(), LEASE).await.unwrap();
    let (end, at) = (JobEnd::Done, env.now());
    let ending =
        JobEnding { end, at, steps: Vec::new(), wakes: None, in_order: false, waited: false };
    let ended =
        |job: &Job| JobWrite { hold: JobHold::from(job), change: JobChange::End(ending.clone()) };
    let writes: Vec<JobWrite> = held.iter().map(ended).collect();
    assert_eq!(db.write_jobs(&writes, None).await.unwrap().held, vec![true; jobs.len()]);
    project(&db, "n1", &[], &[make()]).await;
    let want = |since| LaneWant { lane: key(&to("a")), max: 1, since, at_once: None };
    let claim = |since| claim_of(&n1, want(since), &env);
    let (whole, known) = (claim(None), claim(held.last().map(|job| job.due_at)));
    let (all, few) = (pages(&db, &whole).await, pages(&db, &known).await);
    assert!(few * 2 < all, "{few} of {all}");
    assert_eq!(db.claim_jobs(&known).await.unwrap().len(), 1);
    drop(looker);
}

async fn an_endpoint_limits_jobs_of_all_rules_and_nodes(db: Db) {
    let env = Env::simulated(2);
    let mut jobs: Vec<Job> = (0..4).map(|_| job_in(&env, &to("slow"))).collect();
    jobs.extend((0..4).map(|_| Job { rule: name("other"), ..job_in(&env, &to("slow")) }));
    jobs.extend((0..4).map(|_| job_in(&env, &to("slow-too"))));
    project(&db, "n1", &[], &jobs).await;
    let limit = EndpointLimit { site: SiteId::MAIN, endpoint: name("slow"), most: 3 };
    let want = |lane: LaneKey| LaneWant { lane, max: 2, since: None, at_once: Some(limit.clone()) };
    let other = LaneKey::new(SiteId::MAIN, &name("other"), &to("slow"));
    let (n1, n2) = (started(&db, "n1").await, started(&db, "n2").await);
    let first = of_lane(&db, &n1, want(key(&to("slow"))), &env).await;
    assert_eq!(first.len(), 2);
    assert_eq!(of_lane(&db, &n2, want(other.clone()), &env).await.len(), 1);
    assert_eq!(of_lane(&db, &n1, want(other.clone()), &env).await, []);
    let free = LaneWant { lane: key(&to("slow-too")), max: 4, since: None, at_once: None };
    assert_eq!(of_lane(&db, &n1, free, &env).await.len(), 4, "another endpoint");
    let end = JobEnd::Done;
    assert!(db.end_job(&JobHold::from(&first[0]), end, env.now(), None).await.unwrap());
    assert_eq!(of_lane(&db, &n2, want(other.clone()), &env).await.len(), 1);
    assert_eq!(of_lane(&db, &n2, want(other.clone()), &env).await, []);
    // A node that died keeps nothing for longer than its leases.
    env.advance(LEASE);
    assert_eq!(of_lane(&db, &n2, want(other), &env).await.len(), 2);
}

async fn crowds_never_go_beyond_a_limit(db: Db) {
    let env = Env::simulated(3);
    let jobs: Vec<Job> = (0..200).map(|_| job_in(&env, &to("slow"))).collect();
    project(&db, "n1", &[], &jobs).await;
    let limit = EndpointLimit { site: SiteId::MAIN, endpoint: name("slow"), most: 5 };
    let want = LaneWant { lane: key(&to("slow")), max: 3, since: None, at_once: Some(limit) };
    let mut tasks = tokio::task::JoinSet::new();
    for node in 0..6 {
        let (db, env, want) = (db.clone(), env.clone(), want.clone());
        let claim = started(&db, &format!("n{node}")).await;
        tasks.spawn(async move {
            let mut done = 0;
            loop {
                let counts = db.job_counts().await.unwrap();
                assert!(counts.running <= 5, "{counts:?}");
                if counts == JobCounts::default() {
                    return done;
                }
                for job in of_lane(&db, &claim, want.clone(), &env).await {
                    let hold = JobHold::from(&job);
                    let end = JobEnd::Done;
                    assert!(db.end_job(&hold, end, env.now(), None).await.unwrap());
                    done += 1;
                }
            }
        });
    }
    let done: Vec<usize> = tasks.join_all().await;
    assert_eq!(done.iter().sum::<usize>(), 200);
}

/// Whichever comes first, the rest of the one or the end of the other.
async fn a_job_that_rests_goes_on_when_the_other_ends(db: Db) {
    let env = Env::simulated(5);
    let (other, early, late) =
        (job_in(&env, &to("a")), job_in(&env, &to("b")), job_in(&env, &to("c")));
    project(&db, "n1", &[], &[other.clone(), early.clone(), late.clone()]).await;
    let n1 = started(&db, "n1").await;
    let held = take(&db, &n1, 3, env.now(), LEASE).await.unwrap();
    let hold = |job: &Job| JobHold::from(held.iter().find(|it| it.id == job.id).unwrap());
    let rest = |job: &Job| {
        let due_at = Some(env.now().plus(Duration::from_secs(3_600)));
        let (lane, rests_for) = (key(&job.lane), vec![RestsFor::EndOf(other.id)]);
        JobChange::HandOver(HandOver { lane, at: env.now(), due_at, passed: None, rests_for })
    };
    let begun = |job: &Job| {
        let ended = step(&hold(job), 0, &env);
        JobChange::Begin(JobStep { state: StepState::Begun, ended_at: None, ..ended })
    };
    for job in [&early, &late] {
        assert!(db.write_job(&hold(job), begun(job)).await.unwrap());
    }
    assert!(db.write_job(&hold(&early), rest(&early)).await.unwrap());
    assert_eq!(due(&db, None, &env, 9).await, Vec::<String>::new());
    let (end, at) = (JobEnd::Done, env.now());
    let (steps, wakes) = (Vec::new(), Some(early.id));
    let end = JobEnding { end, at, steps, wakes, in_order: false, waited: true };
    assert!(db.write_job(&hold(&other), JobChange::End(end)).await.unwrap());
    assert_eq!(due(&db, None, &env, 9).await, ["b"]);
    assert!(db.write_job(&hold(&late), rest(&late)).await.unwrap());
    assert_eq!(due(&db, None, &env, 9).await, ["b", "c"]);
    // Who waits for something else, as for the time after a failure, is let be.
    let held = take(&db, &n1, 1, env.now(), LEASE).await.unwrap();
    let due_at = env.now().plus(Duration::from_secs(60));
    let failed = JobStep { state: StepState::Failed, epoch: 1, ..step(&hold(&early), 0, &env) };
    let (end, at) = (JobEnd::Retry { due_at, error: "e".to_owned() }, env.now());
    let steps = vec![failed];
    let ending = JobEnding { end, at, steps, wakes: None, in_order: false, waited: true };
    assert!(db.write_job(&JobHold::from(&held[0]), JobChange::End(ending)).await.unwrap());
    let mut tx = db.begin().await.unwrap();
    tx.wake_job(held[0].id, env.now()).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(due(&db, None, &env, 9).await.len(), 1);
}

async fn a_job_that_is_handed_over_waits_in_its_new_lane(db: Db) {
    let env = Env::simulated(4);
    let made = job_in(&env, &to("a"));
    project(&db, "n1", &[], std::slice::from_ref(&made)).await;
    let n1 = started(&db, "n1").await;
    let held = take(&db, &n1, 1, env.now(), LEASE).await.unwrap();
    let hold = JobHold::from(&held[0]);
    env.advance(Duration::from_secs(1));
    let step = PassedStep { lane: key(&to("b")), ..passed(&hold, 0, &env) };
    let over = HandOver {
        lane: key(&to("b")),
        at: env.now(),
        due_at: None,
        passed: Some(step),
        rests_for: Vec::new(),
    };
    assert!(db.write_job(&hold, JobChange::HandOver(over.clone())).await.unwrap());
    assert!(
        !db.write_job(&hold, JobChange::HandOver(over.clone())).await.unwrap(),
        "it is not held any more"
    );
    let waiting = db.job(SiteId::MAIN, made.id).await.unwrap().unwrap();
    assert_eq!((waiting.state, waiting.attempts, waiting.epoch), (JobState::Ready, 0, 1));
    assert_eq!((waiting.lane.clone(), waiting.handed_over), (to("b"), 1));
    assert_eq!(waiting.at.as_ref().map(|at| &*at.0), Some("do.1"));
    assert_eq!((waiting.life(), waiting.due_at), (0, made.due_at));
    assert_eq!(due(&db, None, &env, 9).await, ["b"]);
    assert_eq!(db.job_steps(made.id).await.unwrap().len(), 1);
    let again = take(&db, &n1, 1, env.now(), LEASE).await.unwrap();
    assert_eq!((again[0].attempts, again[0].epoch, again[0].life()), (1, 2, 0));
    let over = HandOver {
        lane: key(&to("c")),
        at: env.now(),
        due_at: None,
        passed: None,
        rests_for: Vec::new(),
    };
    assert!(db.write_job(&JobHold::from(&again[0]), JobChange::HandOver(over)).await.unwrap());
    let waiting = db.job(SiteId::MAIN, made.id).await.unwrap().unwrap();
    assert_eq!(waiting.at.as_ref().map(|at| &*at.0), Some("do.1"), "it stays where it was");
}

/// The counts that changes keep are those that counting gives.
async fn jobs_are_counted_as_they_change(db: Db) {
    let env = Env::simulated(5);
    let jobs: Vec<Job> = (0..9).map(|at| job_in(&env, &to(["a", "b", "c"][at % 3]))).collect();
    project(&db, "n1", &[], &jobs).await;
    // A piece that comes again makes nothing anew.
    project(&db, "n1", &[], &jobs).await;
    let n1 = started(&db, "n1").await;
    let held = take(&db, &n1, 7, env.now(), LEASE).await.unwrap();
    for (at, job) in held.iter().enumerate() {
        let hold = JobHold::from(job);
        let end = match at {
            0 => JobEnd::Failed { error: "no".to_owned() },
            1 => JobEnd::Retry { due_at: env.now(), error: "no".to_owned() },
            2 | 3 => JobEnd::Done,
            _ => continue,
        };
        assert!(db.extend_lease(&hold, env.now().plus(LEASE)).await.unwrap());
        assert!(db.end_job(&hold, end, env.now(), None).await.unwrap());
    }
    let counts = db.job_counts().await.unwrap();
    assert_eq!((counts.ready, counts.running, counts.failed), (3, 3, 1));
    let busy = db.busy_lanes(9).await.unwrap();
    let sums = |of: fn(&crate::LaneCounts) -> u64| busy.iter().map(of).sum::<u64>();
    assert_eq!((sums(|lane| lane.ready), sums(|lane| lane.running)), (3, 3));
    assert!(busy.is_sorted_by_key(|lane| std::cmp::Reverse(lane.ready)));
    assert!(busy.iter().all(|lane| lane.claim_at.is_some()));
    assert_eq!(db.busy_lanes(1).await.unwrap().len(), 1);
    db.fold_job_counts().await.unwrap();
    assert_eq!(db.job_counts().await.unwrap(), counts);
    assert_eq!(db.busy_lanes(9).await.unwrap(), busy);

    let mut tx = db.begin().await.unwrap();
    assert!(tx.cancel_job(SiteId::MAIN, held[6].id, env.now()).await.unwrap());
    assert!(tx.retry_job(SiteId::MAIN, held[0].id, env.now()).await.unwrap());
    tx.commit().await.unwrap();
    let counts = db.job_counts().await.unwrap();
    assert_eq!((counts.ready, counts.running, counts.failed), (4, 2, 0));
    // What is rolled back is not counted.
    let mut tx = db.begin().await.unwrap();
    assert!(tx.cancel_job(SiteId::MAIN, held[5].id, env.now()).await.unwrap());
    drop(tx);
    assert_eq!(db.job_counts().await.unwrap(), counts);
    env.advance(LEASE);
    let gone = db.delete_jobs(SiteId::MAIN, env.now(), 100).await.unwrap();
    assert_eq!(gone, 3);
    assert_eq!(db.job_counts().await.unwrap(), counts);
}

/// What one write of several cannot do changes nothing about the others.
async fn writes_of_a_kind_are_made_together_and_those_of_one_job_in_their_order(db: Db) {
    let env = Env::simulated(7);
    let jobs: Vec<Job> = (0..3).map(|_| job_in(&env, &to("a"))).collect();
    project(&db, "n1", &[], &jobs).await;
    let n1 = started(&db, "n1").await;
    let jobs = take(&db, &n1, 3, env.now(), LEASE).await.unwrap();
    let holds: Vec<JobHold> = jobs.iter().map(JobHold::from).collect();
    let pass = |at: usize, step| JobWrite {
        hold: holds[at].clone(),
        change: JobChange::Pass(passed(&holds[at], step, &env)),
    };
    let at = async |at: usize| {
        let job = db.job(SiteId::MAIN, holds[at].id).await.unwrap().unwrap();
        job.at.map(|at| at.0.to_string())
    };
    let ghost = JobHold { epoch: 9, ..holds[2].clone() };
    let lost = JobWrite { change: JobChange::Extend(env.now()), hold: ghost };
    let writes = [pass(0, 0), pass(1, 3), lost];
    assert_eq!(db.write_jobs(&writes, None).await.unwrap().held, [true, true, false]);
    assert_eq!((at(0).await, at(1).await), (Some("do.1".into()), Some("do.4".into())));
    let writes = [pass(0, 1), pass(1, 4), pass(0, 2)];
    assert_eq!(db.write_jobs(&writes, None).await.unwrap().held, [true; 3]);
    assert_eq!((at(0).await, at(1).await), (Some("do.3".into()), Some("do.5".into())));
    assert_eq!(db.job_steps(holds[0].id).await.unwrap().len(), 3);
}

async fn writes_for_jobs_are_one_transaction(db: Db) {
    let env = Env::simulated(6);
    let jobs: Vec<Job> = (0..4).map(|_| job_in(&env, &to("a"))).collect();
    project(&db, "n1", &[], &jobs).await;
    let n1 = started(&db, "n1").await;
    let holds = take(&db, &n1, 4, env.now(), LEASE).await.unwrap();
    let waiting: Vec<Job> = (0..2).map(|_| job_in(&env, &to("a"))).collect();
    project(&db, "n1", &[], &waiting).await;
    let holds: Vec<JobHold> = holds.iter().map(JobHold::from).collect();
    let lost = JobHold { epoch: 0, ..holds[2].clone() };
    let end = |end, steps| {
        let at = env.now();
        JobChange::End(JobEnding { end, at, steps, wakes: None, in_order: false, waited: true })
    };
    let step = passed(&holds[1], 0, &env);
    let writes = [
        (holds[0].clone(), end(JobEnd::Done, Vec::new())),
        (holds[1].clone(), JobChange::Pass(step.clone())),
        (lost, end(JobEnd::Done, step.steps)),
        (holds[3].clone(), JobChange::Extend(env.now().plus(LEASE * 2))),
    ];
    let writes = writes.map(|(hold, change)| JobWrite { hold, change });
    let limit = EndpointLimit { site: SiteId::MAIN, endpoint: name("a"), most: 3 };
    let want = LaneWant { lane: key(&to("a")), max: 9, since: None, at_once: Some(limit) };
    let written = db.write_jobs(&writes, Some(&claim_of(&n1, want, &env))).await.unwrap();
    assert_eq!(written.held, [true, true, false, true]);
    // The place of the one that ended.
    assert_eq!(written.claimed.len(), 1);
    assert!(waiting.iter().any(|job| job.id == written.claimed[0].id));
    let found = async |at: usize| db.job(SiteId::MAIN, holds[at].id).await.unwrap().unwrap();
    assert_eq!(found(0).await.state, JobState::Done);
    assert_eq!(found(1).await.at.as_ref().map(|at| &*at.0), Some("do.1"));
    assert_eq!(found(2).await.state, JobState::Running);
    assert_eq!(found(3).await.leased_until, Some(env.now().plus(LEASE * 2)));
    assert_eq!(db.job_steps(holds[1].id).await.unwrap().len(), 1);
    assert_eq!(db.job_steps(holds[2].id).await.unwrap(), []);
    let nothing = db.write_jobs(&[], None).await.unwrap();
    assert!(nothing.held.is_empty() && nothing.claimed.is_empty());
}

both!(
    writes_of_a_kind_are_made_together_and_those_of_one_job_in_their_order,
    writes_for_jobs_are_one_transaction,
    each_lane_with_a_due_job_has_its_turn,
    a_lane_is_looked_at_from_a_time_on,
    an_endpoint_limits_jobs_of_all_rules_and_nodes,
    crowds_never_go_beyond_a_limit,
    a_job_that_is_handed_over_waits_in_its_new_lane,
    a_job_that_rests_goes_on_when_the_other_ends,
    jobs_are_counted_as_they_change,
);
