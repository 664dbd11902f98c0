//! A stop waits for what runs, and begins nothing more.

use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::JobState;
use entrepot_nouns::rule::Existing;
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};

use super::world::{SITE, World, content, deliver, files, memory_store, rule};
use crate::PoolSizes;

/// So long that nobody waits for it by mistake.
const HOURS: Duration = Duration::from_secs(3 * 3600);

/// A world whose first writes to `partner` take so long, each longer than the one before.
async fn slow(seed: u64, writes: &[u64]) -> (World, FaultStore) {
    let world = World::new(seed).await;
    let out = FaultStore::new(memory_store(&world.env));
    world.target("partner", Arc::new(out.clone())).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    for (nth, seconds) in (1..).zip(writes) {
        out.fail(Some(StoreCall::Write), nth, Fault::Delay(Duration::from_secs(*seconds)));
    }
    (world, out)
}

fn writes(out: &FaultStore) -> usize {
    out.log().iter().filter(|call| **call == StoreCall::Write).count()
}

#[tokio::test(start_paused = true)]
async fn a_stop_waits_for_every_running_job() {
    let (mut world, out) = slow(41, &[60, 600, 1800]).await;
    world.options.pools = PoolSizes::each(6);
    let mut jobs = Vec::new();
    for number in 0..3 {
        let event = world.upload(&format!("/in/{number}"), &content(0, number)).await;
        jobs.push(world.job_of(&event, "r").await);
    }
    world.start();
    world.until(async |_| writes(&out) == 3).await;
    let begun = tokio::time::Instant::now();
    world.stop(HOURS).await;
    for job in jobs {
        let ended = world.db.job(SITE, job).await.unwrap().unwrap();
        assert_eq!((ended.state, ended.epoch), (JobState::Done, 1), "left behind by the stop");
    }
    let took = begun.elapsed();
    assert!(took >= Duration::from_secs(1700), "it did not wait: {took:?}");
    assert!(took < HOURS, "it went on waiting when all had ended: {took:?}");
    assert_eq!(world.events("file.delivered").await.len(), 3);
    assert_eq!(world.events("job.done").await.len(), 3, "what they told was not projected");
    assert_eq!(files(&world.partner()).await.len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_engine_claims_no_more() {
    let (mut world, out) = slow(42, &[60]).await;
    world.options.pools = PoolSizes::each(1);
    let mut jobs = Vec::new();
    for number in 0..4 {
        let event = world.upload(&format!("/in/{number}"), &content(0, number)).await;
        jobs.push(world.job_of(&event, "r").await);
    }
    world.start();
    world.until(async |_| writes(&out) == 1).await;
    world.projected().await;
    let begun = tokio::time::Instant::now();
    world.stop(HOURS).await;
    assert!(begun.elapsed() < HOURS, "it did not stop by itself");
    let mut states = Vec::new();
    for job in jobs {
        let job = world.db.job(SITE, job).await.unwrap().unwrap();
        states.push((job.state, job.attempts));
    }
    states.sort_by_key(|(_, attempts)| *attempts);
    let waits = (JobState::Ready, 0);
    assert_eq!(states, [waits, waits, waits, (JobState::Done, 1)]);
}
