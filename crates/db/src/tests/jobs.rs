//! The queue: a job that one worker holds is given to no other.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Env, Job, JobHolder, JobId, JobState, SiteId};

use super::{HeldJobs, both, job, name, passed, project, started, take};
use crate::{Claim, Db, JobCounts, JobEnd, JobFilter, JobHold, RowPosition};

const LEASE: Duration = Duration::from_secs(30);

/// By the process of the node that runs; its first claim starts one.
async fn claim(db: &Db, node: &str, env: &Env, max: usize) -> Vec<Job> {
    let known = db.nodes().await.unwrap();
    let claim = match known.iter().find(|known| known.name == name(node)) {
        Some(known) if known.incarnation > 0 => {
            let era = started(db, "era").await.holder.era;
            let holder = JobHolder { node: known.id, incarnation: known.incarnation, era };
            Claim { node: known.name.clone(), holder, beats: 0 }
        }
        _ => started(db, node).await,
    };
    take(db, &claim, max, env.now(), LEASE).await.unwrap()
}

async fn retry(db: &Db, site: SiteId, id: JobId, env: &Env) -> bool {
    let mut tx = db.begin().await.unwrap();
    let done = tx.retry_job(site, id, env.now()).await.unwrap();
    tx.commit().await.unwrap();
    done
}

async fn cancel(db: &Db, site: SiteId, id: JobId, env: &Env) -> bool {
    let mut tx = db.begin().await.unwrap();
    let done = tx.cancel_job(site, id, env.now()).await.unwrap();
    tx.commit().await.unwrap();
    done
}

async fn find(db: &Db, id: JobId) -> Job {
    db.job(SiteId::MAIN, id).await.unwrap().unwrap()
}

/// Where the job goes on.
fn place(job: &Job) -> Option<&str> {
    job.at.as_ref().map(|address| &*address.0)
}

async fn a_claim_takes_what_is_due_and_leases_it(db: Db) {
    let env = Env::simulated(1);
    let second = Duration::from_secs(1);
    let jobs = [
        job(&env, "later", env.now().plus(second)),
        job(&env, "second", env.now()),
        job(&env, "first", env.now().minus(second)),
    ];
    project(&db, "n1", &[], &jobs).await;
    assert_eq!(find(&db, jobs[0].id).await, jobs[0]);
    assert_eq!(claim(&db, "n1", &env, 0).await, []);
    let first = claim(&db, "n1", &env, 1).await;
    assert_eq!(first[0].id, jobs[2].id);
    let second_one = claim(&db, "n2", &env, 10).await;
    assert_eq!(second_one.len(), 1);
    let held = find(&db, jobs[1].id).await;
    assert_eq!(held, second_one[0]);
    let expected = Job {
        holder: second_one[0].holder.clone(),
        state: JobState::Running,
        attempts: 1,
        epoch: 1,
        node: Some(name("n2")),
        leased_until: Some(env.now().plus(LEASE)),
        ..jobs[1].clone()
    };
    assert_eq!(held, expected);
    env.advance(second);
    assert_eq!(claim(&db, "n1", &env, 10).await[0].id, jobs[0].id);
}

async fn a_lost_lease_is_fenced(db: Db) {
    let env = Env::simulated(1);
    project(&db, "n1", &[], &[job(&env, "route", env.now())]).await;
    let old = JobHold::from(&claim(&db, "n1", &env, 1).await[0]);
    env.advance(LEASE - Duration::from_micros(1));
    assert_eq!(claim(&db, "n2", &env, 1).await, []);
    assert!(db.extend_lease(&old, env.now().plus(LEASE)).await.unwrap());
    assert!(db.pass_step(&old, &passed(&old, 0, &env)).await.unwrap());
    env.advance(LEASE - Duration::from_micros(1));
    assert_eq!(claim(&db, "n2", &env, 1).await, []);
    env.advance(Duration::from_micros(1));
    let taken = claim(&db, "n2", &env, 1).await;
    let new = JobHold::from(&taken[0]);
    assert_eq!((place(&taken[0]), taken[0].attempts, new.epoch), (Some("do.1"), 2, old.epoch + 1));
    // The first node wakes up: nothing of what it says is heard.
    let before = find(&db, old.id).await;
    assert!(!db.extend_lease(&old, env.now().plus(LEASE)).await.unwrap());
    assert!(!db.pass_step(&old, &passed(&old, 1, &env)).await.unwrap());
    let retry = JobEnd::Retry { due_at: env.now(), error: "late".to_owned() };
    let failed = JobEnd::Failed { error: "late".to_owned() };
    for end in [JobEnd::Done, retry, failed] {
        assert!(!db.end_job(&old, end, env.now(), None).await.unwrap());
    }
    assert_eq!(find(&db, old.id).await, before);
    assert!(db.end_job(&new, JobEnd::Done, env.now(), None).await.unwrap());
    // Ended is ended, for its last holder too.
    assert!(!db.end_job(&new, JobEnd::Done, env.now(), None).await.unwrap());
    assert!(!db.extend_lease(&new, env.now().plus(LEASE)).await.unwrap());
    env.advance(LEASE * 100);
    assert_eq!(claim(&db, "n1", &env, 1).await, []);
}

async fn attempts_end_in_each_way(db: Db) {
    let env = Env::simulated(1);
    let jobs: Vec<Job> = (0..3).map(|_| job(&env, "route", env.now())).collect();
    project(&db, "n1", &[], &jobs).await;
    let held = claim(&db, "n1", &env, 3).await;
    let due_at = env.now().plus(LEASE);
    let ends = [
        JobEnd::Done,
        JobEnd::Retry { due_at, error: "no answer".to_owned() },
        JobEnd::Failed { error: "gave up".to_owned() },
    ];
    for (job, end) in held.iter().zip(ends) {
        assert!(db.end_job(&JobHold::from(job), end, env.now(), None).await.unwrap());
    }
    let expected = JobCounts { ready: 1, running: 0, failed: 1, oldest_due: Some(due_at) };
    assert_eq!(db.job_counts().await.unwrap(), expected);
    let retrying = find(&db, held[1].id).await;
    assert_eq!((retrying.state, retrying.due_at), (JobState::Ready, due_at));
    assert_eq!((retrying.node, retrying.leased_until), (None, None));
    assert_eq!(retrying.error.as_deref(), Some("no answer"));
    assert_eq!(claim(&db, "n1", &env, 3).await, []);
    env.advance(LEASE);
    let again = claim(&db, "n1", &env, 3).await;
    assert_eq!((again.len(), again[0].attempts, again[0].epoch), (1, 2, 2));
    let failed = JobFilter { state: Some(JobState::Failed), ..JobFilter::default() };
    let listed = db.jobs(SiteId::MAIN, &failed).await.unwrap();
    assert_eq!((listed.len(), listed[0].id), (1, held[2].id));
    let all = db.jobs(SiteId::MAIN, &JobFilter::default()).await.unwrap();
    let after = Some(RowPosition { at: all[0].created_at, id: all[0].id.0 });
    let rest = JobFilter { after, ..JobFilter::default() };
    assert_eq!(db.jobs(SiteId::MAIN, &rest).await.unwrap(), all[1..]);
    let other_rule = JobFilter { rule: Some(name("other")), ..JobFilter::default() };
    assert_eq!(db.jobs(SiteId::MAIN, &other_rule).await.unwrap(), []);
    let elsewhere = SiteId(uuid::Uuid::from_u128(45));
    assert_eq!(db.jobs(elsewhere, &JobFilter::default()).await.unwrap(), []);
    assert_eq!(db.job(elsewhere, held[0].id).await.unwrap(), None);
}

async fn operators_retry_and_cancel(db: Db) {
    let env = Env::simulated(1);
    let site = SiteId::MAIN;
    let made = job(&env, "route", env.now());
    project(&db, "n1", &[], std::slice::from_ref(&made)).await;
    let elsewhere = SiteId(uuid::Uuid::from_u128(45));
    assert!(!cancel(&db, elsewhere, made.id, &env).await);
    let hold = JobHold::from(&claim(&db, "n1", &env, 1).await[0]);
    assert!(!retry(&db, site, made.id, &env).await, "it runs");
    assert!(db.pass_step(&hold, &passed(&hold, 1, &env)).await.unwrap());
    assert!(cancel(&db, site, made.id, &env).await);
    assert!(!cancel(&db, site, made.id, &env).await);
    // The node at work on it finds it lost, and no lease brings it back.
    assert!(!db.pass_step(&hold, &passed(&hold, 2, &env)).await.unwrap());
    assert!(!db.end_job(&hold, JobEnd::Done, env.now(), None).await.unwrap());
    env.advance(LEASE * 2);
    assert_eq!(claim(&db, "n2", &env, 1).await, []);
    assert!(!retry(&db, elsewhere, made.id, &env).await);
    assert!(retry(&db, site, made.id, &env).await);
    let again = claim(&db, "n2", &env, 1).await;
    assert_eq!((place(&again[0]), again[0].attempts), (Some("do.2"), 1));
    assert!(again[0].epoch > hold.epoch);
    let hold = JobHold::from(&again[0]);
    assert!(db.end_job(&hold, JobEnd::Done, env.now(), None).await.unwrap());
    assert!(!retry(&db, site, made.id, &env).await, "it is done");
    assert!(!cancel(&db, site, made.id, &env).await, "it is done");
}

/// Many claim at once, leases run out now and then: no job is ever held twice under one epoch,
/// epochs only grow, and all jobs are done in the end.
async fn crowds_never_take_the_same_job(db: Db) {
    let env = Env::simulated(1);
    let jobs: Vec<Job> = (0..200).map(|_| job(&env, "route", env.now())).collect();
    project(&db, "n1", &[], &jobs).await;
    let db = Arc::new(db);
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..8 {
        let (db, env) = (db.clone(), env.clone());
        tasks.spawn(async move {
            let (node, mut holds, mut done) = (format!("n{worker}"), Vec::new(), 0);
            for round in 0.. {
                let claimed = claim(&db, &node, &env, 7).await;
                if claimed.is_empty() && db.job_counts().await.unwrap() == JobCounts::default() {
                    break;
                }
                for (at, job) in claimed.iter().enumerate() {
                    let hold = JobHold::from(job);
                    holds.push(hold.clone());
                    // Every now and then a worker forgets a job; time passes.
                    if (round + at) % 5 == 0 {
                        env.advance(Duration::from_secs(1));
                        continue;
                    }
                    done += usize::from(
                        db.end_job(&hold, JobEnd::Done, env.now(), None).await.unwrap(),
                    );
                }
                env.advance(Duration::from_secs(3));
            }
            (holds, done)
        });
    }
    let (mut seen, mut last, mut done) = (HashSet::new(), HashMap::new(), 0);
    while let Some(ended) = tasks.join_next().await {
        let (holds, by_worker) = ended.unwrap();
        done += by_worker;
        for hold in holds {
            assert!(seen.insert((hold.id, hold.epoch)), "{hold:?} was given twice");
            let epoch = last.entry(hold.id).or_insert(0);
            *epoch = hold.epoch.max(*epoch);
        }
    }
    assert_eq!(done, 200, "each job is done once");
    for job in &jobs {
        let ended = find(&db, job.id).await;
        assert_eq!((ended.state, ended.epoch), (JobState::Done, last[&job.id]));
    }
}

both!(
    a_claim_takes_what_is_due_and_leases_it,
    a_lost_lease_is_fenced,
    attempts_end_in_each_way,
    operators_retry_and_cancel,
    crowds_never_take_the_same_job,
);
