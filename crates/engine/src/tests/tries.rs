//! How often a step is tried that has a `retry` of its own.

use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::rule::Retry;
use entrepot_nouns::{Event, Fact, Job, JobState};
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};
use serde_json::json;

use super::world::{World, doing, memory_store};

/// Partners `a` and `b`, of which the first calls that publish a file fail: so many each.
async fn failing(seed: u64, a: u64, b: u64) -> (World, [FaultStore; 2]) {
    let world = World::new(seed).await;
    let mut stores = Vec::new();
    for (name, count) in [("a", a), ("b", b)] {
        let store = FaultStore::new(memory_store(&world.env));
        // Each of them is the first one of those that are left.
        for _ in 0..count {
            store.fail(Some(StoreCall::Publish), 1, Fault::Io);
        }
        world.target(name, Arc::new(store.clone())).await;
        stores.push(store);
    }
    (world, stores.try_into().ok().unwrap())
}

fn tried(store: &FaultStore) -> usize {
    store.log().iter().filter(|call| **call == StoreCall::Stage).count()
}

/// The pauses behind the attempts that failed, in tens of seconds.
async fn pauses(world: &World) -> Vec<u64> {
    world.projected().await;
    let told = world.events("job.retrying").await;
    let pause = |event: &Event| match &event.fact {
        Fact::JobRetrying { retrying } => retrying.due_at.since(event.at),
        _ => Duration::ZERO,
    };
    // Spread by ± 20 %.
    told.iter().map(|event| (pause(event).as_secs() + 5) / 10).collect()
}

async fn ended(world: &World, event: &Event) -> Job {
    world.ended(world.job_of(event, "r").await).await
}

const ONCE_MORE: Retry = Retry { attempts: 2, first_delay_seconds: 10, longest_delay_seconds: 10 };

#[tokio::test(start_paused = true)]
async fn failures_of_a_step_count_for_its_own_retry_alone() {
    let (mut world, [a, b]) = failing(901, 3, 1).await;
    let own = json!({"attempts": 4, "first_delay_seconds": 100, "longest_delay_seconds": 100});
    let mut rule = doing(json!([
        {"deliver": {"endpoint": "a"}, "retry": own},
        {"deliver": {"endpoint": "b"}},
    ]));
    rule.retry = ONCE_MORE;
    world.put(&rule).await;
    let event = world.upload("/in/f", b"four").await;
    world.start();
    let job = ended(&world, &event).await;
    assert_eq!((job.state, job.attempts, job.error), (JobState::Done, 5, None));
    assert_eq!((tried(&a), tried(&b)), (4, 2));
    let pauses = pauses(&world).await;
    assert!(pauses[..3].iter().all(|pause| (8..=12).contains(pause)), "{pauses:?}");
    assert_eq!(pauses[3..], [1]);
}

#[tokio::test(start_paused = true)]
async fn a_step_that_used_up_its_own_attempts_fails_the_job_or_is_left_behind() {
    for (seed, on_error, state) in
        [(902, "fail", JobState::Failed), (903, "continue", JobState::Done)]
    {
        let (mut world, [a, b]) = failing(seed, 6, 1).await;
        let own = json!({"attempts": 3, "first_delay_seconds": 10});
        world
            .put(&doing(json!([
                {"deliver": {"endpoint": "a"}, "retry": own, "on_error": on_error},
                {"deliver": {"endpoint": "b"}},
            ])))
            .await;
        let event = world.upload("/in/f", b"four").await;
        world.start();
        let job = ended(&world, &event).await;
        assert_eq!(job.state, state, "{on_error}");
        let behind = if on_error == "fail" { 0 } else { 2 };
        assert_eq!((tried(&a), tried(&b)), (3, behind), "{on_error}");
        if state == JobState::Done {
            continue;
        }
        // A retry by hand begins to count anew.
        assert!(world.retry(job.id, world.env.now()).await);
        assert_eq!(ended(&world, &event).await.state, JobState::Failed);
        assert_eq!((tried(&a), tried(&b)), (6, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_branch_without_attempts_left_fails_the_others_with_it() {
    let (mut world, [a, b]) = failing(904, 9, 2).await;
    let own = json!({"attempts": 2, "first_delay_seconds": 10});
    world
        .put(&doing(json!([{"parallel": {"need": "all", "do": [
            [{"deliver": {"endpoint": "b"}}],
            [{"deliver": {"endpoint": "a"}, "retry": own}],
        ]}}])))
        .await;
    let event = world.upload("/in/f", b"four").await;
    world.start();
    let job = ended(&world, &event).await;
    assert_eq!(job.state, JobState::Failed);
    assert!(job.error.unwrap().contains("'a'"));
    // Also where the other branch had failed first, and may pass yet: its second attempt has begun
    // by then, or not.
    assert_eq!(tried(&a), 2);
    assert!((1..=2).contains(&tried(&b)), "{}", tried(&b));
}
