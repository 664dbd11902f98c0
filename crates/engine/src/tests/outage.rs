//! A database that goes away in the middle of a job: the job waits, and goes on where it was.

use std::collections::BTreeSet;
use std::sync::Arc;

use entrepot_db::DbError;
use entrepot_nouns::rule::{Existing, Retry};
use entrepot_nouns::{Job, JobId, JobState};
use entrepot_storage::fault::{FaultStore, StoreCall};

use super::world::{SITE, World, content, deliver, files, memory_store, rule, stranger, take_one};

/// A job of two deliveries, and only one attempt: an outage that counted as a failure would be
/// its end.
async fn one_attempt(seed: u64) -> (World, FaultStore, JobId) {
    let mut world = World::new(seed).await;
    let out = FaultStore::new(memory_store(&world.env));
    world.target("partner", Arc::new(out.clone())).await;
    let to = |folder: &str| deliver("partner", &format!("{folder}-{{name}}"), Existing::Refuse);
    let mut once = rule("r", vec![to("a"), to("b")]);
    once.retry = Retry { attempts: 1, first_delay_seconds: 1, longest_delay_seconds: 1 };
    world.put(&once).await;
    let event = world.upload("/in/x", &content(1, 8)).await;
    let job = world.job_of(&event, "r").await;
    (world, out, job)
}

async fn found(world: &World, job: JobId) -> Job {
    world.db.job(SITE, job).await.unwrap().unwrap()
}

async fn turns(world: &World, count: u32) {
    for _ in 0..count {
        world.turn().await;
    }
}

/// Both files once, each told once, nothing of retries or failures.
async fn all_is_done(world: &World, job: JobId, what: &str) {
    world.projected().await;
    let found: BTreeSet<String> = files(&world.partner()).await.into_keys().collect();
    assert_eq!(found, ["a-x", "b-x"].map(String::from).into(), "{what}");
    let told = world.events("file.delivered").await;
    assert!(told.iter().all(|event| event.job == Some(job)), "{what}");
    assert_eq!(told.len(), 2, "{what}");
    assert_eq!(world.events("job.done").await.len(), 1, "{what}");
    assert_eq!(world.events("job.retrying").await.len(), 0, "{what}");
    assert_eq!(world.events("job.failed").await.len(), 0, "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_at_any_write_is_waited_for_within_the_attempt() {
    // The write that is refused, and how many files are published when it is.
    let table = [
        ("lease", "UPDATE OF leased_until ON jobs WHEN NEW.epoch = OLD.epoch", 0),
        ("advance", "UPDATE OF step ON jobs", 1),
        ("end", "UPDATE OF state ON jobs WHEN NEW.state = 'done'", 2),
    ];
    for (number, (what, refused, published)) in table.into_iter().enumerate() {
        let (mut world, out, job) = one_attempt(50 + number as u64).await;
        let publishes =
            |out: &FaultStore| out.log().iter().filter(|call| **call == StoreCall::Publish).count();
        world.database_refuses(refused).await;
        world.start();
        world.until(async |_| out.log().contains(&StoreCall::Sync)).await;
        world.until(async |_| publishes(&out) == published).await;
        // Several repetitions, and still within the lease.
        turns(&world, 150).await;
        let held = found(&world, job).await;
        assert_eq!((held.state, held.epoch), (JobState::Running, 1), "{what}: {:?}", held.error);
        assert_eq!(publishes(&out), published, "{what}: it went on without the database");

        world.database_is_back().await;
        let done = world.ended(job).await;
        assert_eq!((done.state, done.attempts, done.epoch), (JobState::Done, 1, 1), "{what}");
        assert_eq!(publishes(&out), 2, "{what}: written again");
        assert_eq!(world.count(|meters| &meters.jobs_released), 0, "{what}");
        all_is_done(&world, job, what).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_longer_than_the_lease_hands_the_job_on_and_doubles_nothing() {
    for refused in ["OF step", "OF state"] {
        let (mut world, _, job) = one_attempt(60).await;
        world.start();
        world.projected().await;
        world.kill().await;
        // Every change of a job that is claimed, the end of its lease included.
        let refused = format!("UPDATE {refused} ON jobs WHEN NEW.epoch = OLD.epoch");
        let mut world = world.beside("n2").await;
        world.database_refuses(&refused).await;
        world.start();
        let lease = world.options.lease;
        turns(&world, 3 * lease.as_millis() as u32 / 100).await;
        world.database_is_back().await;
        let done = world.ended(job).await;
        assert_eq!(done.state, JobState::Done, "{refused}: {:?}", done.error);
        all_is_done(&world, job, &refused).await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_that_cannot_be_claimed_wait_untouched() {
    let (mut world, out, job) = one_attempt(70).await;
    world.database_refuses("UPDATE ON jobs").await;
    let other = stranger(&world.db, &world.env, "n9").await;
    let claim = take_one(&world.db, &other, world.env.now(), world.options.lease).await;
    // Nothing to claim yet: the statement has no row to refuse.
    assert!(claim.unwrap().is_empty());
    world.start();
    world.projected().await;
    let now = world.env.now();
    let claim = take_one(&world.db, &other, now, world.options.lease).await;
    assert!(matches!(claim, Err(DbError::Unavailable(_))), "{claim:?}");
    turns(&world, 600).await;
    let waiting = found(&world, job).await;
    assert_eq!((waiting.state, waiting.attempts, waiting.epoch), (JobState::Ready, 0, 0));
    assert_eq!(out.calls(), 0);
    world.database_is_back().await;
    let done = world.ended(job).await;
    assert_eq!((done.state, done.attempts, done.epoch), (JobState::Done, 1, 1));
    all_is_done(&world, job, "claim").await;
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_projected_wait_and_come_once_in_order() {
    let mut world = World::new(77).await;
    world.database_refuses("INSERT ON events").await;
    world.start();
    let mut told = Vec::new();
    for number in 0..5 {
        let path = format!("/in/{number}");
        told.push(world.upload(&path, &content(number, 8)).await.id);
        turns(&world, 50).await;
    }
    assert!(world.events("file.uploaded").await.is_empty(), "the database took them after all");
    world.database_is_back().await;
    world.projected().await;
    let found: Vec<_> =
        world.events("file.uploaded").await.into_iter().map(|event| event.id).collect();
    assert_eq!(found, told);
}
