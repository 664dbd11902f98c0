//! Nodes: who lives, who holds which lease, and what a database that fell back is told.

use std::time::Duration;

use entrepot_nouns::{Env, Fact, Job, JobState, SiteId, Timestamp};

use super::{
    HeldJobs, both, job, journal, name, node_id, passed, piece, project, started, take, uploaded,
};
use crate::limits::NODE_DEAD_AFTER;
use crate::{
    Beat, Beaten, Claim, Db, Drained, EventFilter, JobEnd, JobFilter, JobHold, Projected,
    Projection, TransferFilter,
};

const LEASE: Duration = Duration::from_secs(3_600);

fn beat(claim: &Claim) -> Beat {
    Beat {
        node: claim.holder.node,
        incarnation: claim.holder.incarnation,
        program: "1".to_owned(),
        rebuilding: false,
        stopped: false,
        clock_ahead_us: -3,
        round_trip_us: 700,
        unprojected: 9,
        projected_until: Timestamp(8),
    }
}

async fn beaten(db: &Db, beat: &Beat) -> crate::BeatAnswer {
    match db.beat(beat).await.unwrap() {
        Beaten::Written(answer) => answer,
        other => panic!("{other:?}"),
    }
}

/// As if the node had said nothing for a while: its clock is the database's.
async fn silence(db: &Db, node: &str) {
    let text: &'static str = match node {
        "n1" => "UPDATE nodes SET heartbeat_at = heartbeat_at - 4100000 WHERE name = 'n1'",
        _ => "UPDATE nodes SET heartbeat_at = heartbeat_at - 4100000 WHERE name = 'n2'",
    };
    super::raw(db, text).await;
}

async fn nodes_are_known_by_their_heartbeat(db: Db) {
    let (n1, n2) = (started(&db, "n1").await, started(&db, "n2").await);
    let env = Env::real();
    project(&db, "n1", &[(5, uploaded(&env, "/a"))], &[]).await;
    let first = beaten(&db, &beat(&n1)).await;
    let second = beaten(&db, &beat(&n1)).await;
    assert_eq!((second.beats, second.drained), (first.beats + 1, false));
    assert!(second.now >= first.now && second.era == n1.holder.era && !second.era.is_empty());
    // Within what machines differ: the clock is one in the test.
    assert!(env.now().since(second.now) < Duration::from_secs(60));

    let mut tx = db.begin().await.unwrap();
    assert!(tx.set_drained(&name("n1"), Drained::Yes).await.unwrap());
    assert!(!tx.set_drained(&name("n9"), Drained::Yes).await.unwrap());
    tx.commit().await.unwrap();
    assert!(beaten(&db, &beat(&n1)).await.drained);
    silence(&db, "n2").await;
    let nodes = db.nodes().await.unwrap();
    let seen: Vec<_> = nodes
        .iter()
        .map(|it| (it.name.as_str(), it.slot, it.incarnation, it.drained, it.is_silent()))
        .collect();
    assert_eq!(seen, [("n1", Some(0), 1, true, false), ("n2", Some(1), 1, false, true)]);
    let row = &nodes[0];
    assert_eq!((row.id, row.projected_up_to, row.unprojected), (n1.holder.node, 5, 9));
    assert_eq!((row.clock_ahead_us, row.round_trip_us), (-3, 700));
    assert_eq!(row.projected_until, Timestamp(8));

    // The same journal, started again: the earlier process is superseded.
    let again = started(&db, "n1").await;
    assert_eq!(again.holder.incarnation, 2);
    assert_eq!(db.beat(&beat(&n1)).await.unwrap(), Beaten::Superseded);
    let mut tx = db.begin().await.unwrap();
    assert!(tx.remove_node(n2.holder.node).await.unwrap());
    tx.commit().await.unwrap();
    assert_eq!(db.beat(&beat(&n2)).await.unwrap(), Beaten::Missing);
    assert_eq!(db.nodes().await.unwrap().len(), 1);
}

async fn jobs_of_a_dead_node_are_free_at_once(db: Db) {
    let env = Env::real();
    let (n1, n2) = (started(&db, "n1").await, started(&db, "n2").await);
    let jobs: Vec<Job> = (0..2).map(|_| job(&env, "route", env.now())).collect();
    project(&db, "n1", &[], &jobs).await;
    let held = take(&db, &n1, 2, env.now(), LEASE).await.unwrap();
    assert_eq!(held.len(), 2);
    // Nobody is dead.
    assert_eq!(db.take_over_jobs(env.now()).await.unwrap(), 0);
    assert_eq!(take(&db, &n2, 1, env.now(), LEASE).await.unwrap(), []);
    silence(&db, "n1").await;
    assert_eq!(db.take_over_jobs(env.now()).await.unwrap(), 2);
    let taken = take(&db, &n2, 1, env.now(), LEASE).await.unwrap();
    assert_eq!((taken.len(), taken[0].epoch), (1, 2));
    // It was only slow: nothing that it says of its jobs is taken.
    for job in &held {
        let hold = JobHold::from(job);
        assert!(!db.extend_lease(&hold, env.now().plus(LEASE)).await.unwrap());
        assert!(!db.end_job(&hold, JobEnd::Done, env.now(), None).await.unwrap());
    }
    // A start that is over holds nothing either, however fresh its heartbeat.
    beaten(&db, &beat(&n2)).await;
    let again = started(&db, "n2").await;
    assert_eq!(take(&db, &n2, 1, env.now(), LEASE).await.unwrap(), [], "superseded");
    let (node, number) = (again.holder.node, again.holder.incarnation);
    assert_eq!(db.release_jobs(node, number, env.now()).await.unwrap(), 1);
    assert!(!db.extend_lease(&JobHold::from(&taken[0]), env.now()).await.unwrap());
    assert_eq!(NODE_DEAD_AFTER, Duration::from_secs(4));
}

async fn a_token_is_of_one_process_and_one_era(db: Db) {
    let env = Env::real();
    let (n1, n2) = (started(&db, "n1").await, started(&db, "n2").await);
    project(&db, "n1", &[], &[job(&env, "route", env.now())]).await;
    let old = JobHold::from(&take(&db, &n1, 1, env.now(), LEASE).await.unwrap()[0]);
    // The database falls back behind the claim: another node gets the same epoch.
    super::raw(&db, "UPDATE jobs SET state = 'ready', epoch = 0, claim_at = 0").await;
    let new = JobHold::from(&take(&db, &n2, 1, env.now(), LEASE).await.unwrap()[0]);
    assert_eq!(new.epoch, old.epoch);
    for hold in [&old, &JobHold { holder: None, ..old.clone() }] {
        assert!(!db.extend_lease(hold, env.now().plus(LEASE)).await.unwrap());
        assert!(!db.pass_step(hold, &passed(hold, 0, &env)).await.unwrap());
        assert!(!db.end_job(hold, JobEnd::Done, env.now(), None).await.unwrap());
    }
    assert!(db.extend_lease(&new, env.now().plus(LEASE)).await.unwrap());
    // Another server takes over: it is a new era, in which no lease of the old one holds.
    super::raw(&db, "UPDATE eras SET era = 'after'").await;
    assert!(!db.extend_lease(&new, env.now().plus(LEASE)).await.unwrap());
    assert_eq!(take(&db, &n1, 1, env.now(), LEASE).await.unwrap(), [], "it does not know yet");
    assert_eq!(db.take_over_jobs(env.now()).await.unwrap(), 1);
    let era = beaten(&db, &beat(&n1)).await.era;
    let mut known = n1.clone();
    known.holder.era = era;
    assert_eq!(take(&db, &known, 1, env.now(), LEASE).await.unwrap().len(), 1);
}

/// A node that is drained, that has not seen that the database fell back, or that lives beside one
/// which brings back what was lost, claims nothing.
async fn claims_wait_until_the_database_is_whole(db: Db) {
    let env = Env::real();
    let (n1, n2) = (started(&db, "n1").await, started(&db, "n2").await);
    project(&db, "n1", &[], &[job(&env, "route", env.now())]).await;
    let beats = beaten(&db, &beat(&n1)).await.beats;
    let fell_back = Claim { beats: beats + 1, ..n1.clone() };
    assert_eq!(take(&db, &fell_back, 1, env.now(), LEASE).await.unwrap(), []);
    beaten(&db, &Beat { rebuilding: true, ..beat(&n2) }).await;
    assert_eq!(take(&db, &n1, 1, env.now(), LEASE).await.unwrap(), []);
    // One that died over it holds up nobody.
    silence(&db, "n2").await;
    let mut tx = db.begin().await.unwrap();
    tx.set_drained(&name("n1"), Drained::Yes).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(take(&db, &n1, 1, env.now(), LEASE).await.unwrap(), []);
    let mut tx = db.begin().await.unwrap();
    tx.set_drained(&name("n1"), Drained::No).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(take(&db, &n1, 1, env.now(), LEASE).await.unwrap().len(), 1);
}

/// The piece behind a gap is refused, and what is missing comes once: events, transfers, jobs.
async fn a_database_that_fell_back_is_told_what_it_misses(db: Db) {
    let env = Env::real();
    let n1 = started(&db, "n1").await;
    let mut events: Vec<_> = (0..4).map(|n| uploaded(&env, &format!("/in/{n}"))).collect();
    let jobs: Vec<Job> = events
        .iter()
        .map(|event| Job { event_id: event.id, ..job(&env, "route", env.now()) })
        .collect();
    for job in &jobs[..2] {
        let fact = Fact::JobDone { rule: name("route") };
        events.push(entrepot_nouns::Event { job: Some(job.id), ..super::event(&env, fact) });
    }
    let lines = journal(events.clone());
    project(&db, "n1", &lines, &jobs).await;
    // The first two jobs were done. Then the commits of all but the first record are lost, and
    // with them how the first job ended.
    super::raw(
        &db,
        "UPDATE nodes SET projected_up_to = 1; DELETE FROM events WHERE node_sequence > 1; \
         DELETE FROM transfers WHERE path <> '/in/0'; DELETE FROM jobs",
    )
    .await;
    project(&db, "n1", &lines[..1], &jobs[..1]).await;
    let node = name("n1");
    let next = [(7, uploaded(&env, "/in/7"))];
    let ahead = Projection { after: 6, ..piece(&node, &next, &[]) };
    assert_eq!(db.project(&ahead).await.unwrap(), Projected::Behind(1));
    let repeated: Vec<Job> =
        jobs[1..].iter().map(|job| Job { repeated: true, ..job.clone() }).collect();
    let again = Projection { after: 1, repeated: true, ..piece(&node, &lines[1..], &repeated) };
    assert_eq!(db.project(&again).await.unwrap(), Projected::Kept);
    assert_eq!(db.project(&ahead).await.unwrap(), Projected::Kept);
    events.push(next[0].1.clone());
    let found = db.events(SiteId::MAIN, &EventFilter::default()).await.unwrap();
    let found: Vec<_> = found.into_iter().map(|row| row.event).collect();
    assert_eq!(found, events);
    let transfers = db.transfers(SiteId::MAIN, &TransferFilter::default()).await.unwrap();
    assert_eq!(transfers.len(), 5);
    // What had ended stays ended; what had not is worked on as by a later attempt.
    let done = JobFilter { state: Some(JobState::Done), ..JobFilter::default() };
    assert_eq!(db.jobs(SiteId::MAIN, &done).await.unwrap().len(), 2);
    let left = take(&db, &n1, 9, env.now(), LEASE).await.unwrap();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|job| job.repeated));
    assert_eq!(db.projected_up_to(node_id("n1")).await.unwrap(), 7);
}

both!(
    nodes_are_known_by_their_heartbeat,
    jobs_of_a_dead_node_are_free_at_once,
    a_token_is_of_one_process_and_one_era,
    claims_wait_until_the_database_is_whole,
    a_database_that_fell_back_is_told_what_it_misses,
);
