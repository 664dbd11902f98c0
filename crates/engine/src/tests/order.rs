//! Jobs of a rule that run one after the other.

use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::rule::{Existing, Retry, When};
use entrepot_nouns::{BehindFailed, Event, Fact, JobId, JobState, Order, Rule};
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};

use serde_json::json;

use super::world::{SITE, World, content, deliver, doing, files, memory_store, name, rule};

/// A rule that keeps files with the same stem in order.
fn in_order(failed: BehindFailed, retry: Retry) -> Rule {
    let order = Some(Order { by: "{stem}".to_owned(), failed });
    let deliver = deliver("partner", "{name}", Existing::Refuse);
    Rule { order, retry, ..rule("orders", vec![deliver]) }
}

/// Files of several partners arrive by turns; the jobs of each.
async fn arrive(world: &mut World, partners: &[&str], count: usize) -> Vec<Vec<JobId>> {
    let mut jobs = vec![Vec::new(); partners.len()];
    for number in 0..count {
        for (partner, jobs) in partners.iter().zip(&mut jobs) {
            world.env.advance(Duration::from_millis(1));
            let path = format!("/in/{partner}.{number:04}");
            let event = world.upload(&path, &content(0, 1)).await;
            jobs.push(world.job_of(&event, "orders").await);
        }
    }
    jobs
}

async fn states(world: &World, jobs: &[JobId]) -> Vec<Option<JobState>> {
    let mut states = Vec::new();
    for job in jobs {
        states.push(world.db.job(SITE, *job).await.unwrap().map(|job| job.state));
    }
    states
}

#[tokio::test(start_paused = true)]
async fn files_of_a_partner_keep_their_order_over_nodes_kills_and_retries() {
    let mut first = World::new(211).await;
    let faulty = FaultStore::new(memory_store(&first.env));
    for nth in [3, 9, 10, 25] {
        faulty.fail(Some(StoreCall::Write), nth, Fault::Io);
    }
    for nth in [5, 14, 31] {
        faulty.fail(Some(StoreCall::Publish), nth, Fault::LostAnswer);
    }
    first.target("partner", Arc::new(faulty)).await;
    let retry = Retry { attempts: 9, first_delay_seconds: 7, longest_delay_seconds: 7 };
    first.put(&in_order(BehindFailed::Stop, retry)).await;
    let mut second = first.beside("n2").await;
    let jobs = arrive(&mut first, &["a", "b", "c"], 12).await;
    first.start();
    second.start();
    let mut is_killed = false;
    loop {
        let mut done = 0;
        for jobs in &jobs {
            // One statement after the other: states are looked at from the last to the first, so
            // that one that ends meanwhile is not seen before the one ahead of it.
            let back: Vec<JobId> = jobs.iter().rev().copied().collect();
            let mut seen = states(&first, &back).await;
            seen.reverse();
            let ended = seen.iter().take_while(|state| **state == Some(JobState::Done)).count();
            assert!(!seen[ended..].contains(&Some(JobState::Done)), "{seen:?}");
            done += ended;
        }
        if done == 36 {
            break;
        }
        if done > 12 && !is_killed {
            is_killed = true;
            first.kill().await;
            first.start();
        }
        first.turn().await;
    }
    assert!(is_killed);
    assert_eq!(files(&first.partner()).await.len(), 36);
    for world in [&mut first, &mut second] {
        world.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_failed_keeps_those_behind_it_waiting_or_does_not() {
    for (seed, failed) in [(212, BehindFailed::Stop), (213, BehindFailed::Skip)] {
        let mut world = World::new(seed).await;
        let faulty = FaultStore::new(memory_store(&world.env));
        faulty.fail(Some(StoreCall::Write), 1, Fault::Io);
        world.target("partner", Arc::new(faulty)).await;
        world.put(&in_order(failed, Retry { attempts: 1, ..Retry::default() })).await;
        let jobs = arrive(&mut world, &["a"], 3).await.remove(0);
        world.start();
        assert_eq!(world.ended(jobs[0]).await.state, JobState::Failed);
        if failed == BehindFailed::Stop {
            // Woken by the failure, they look once more, and rest again.
            for _ in 0..600 {
                world.turn().await;
            }
            for job in states(&world, &jobs[1..]).await {
                assert_eq!(job, Some(JobState::Ready));
            }
            assert!(files(&world.partner()).await.is_empty());
            let mut tx = world.db.begin().await.unwrap();
            assert!(tx.cancel_job(SITE, jobs[0], world.env.now()).await.unwrap());
            tx.commit().await.unwrap();
        }
        // Sooner than they would look by themselves.
        for job in &jobs[1..] {
            assert_eq!(world.ended(*job).await.state, JobState::Done);
        }
        world.projected().await;
        let delivered = world.events("file.delivered").await;
        let paths = delivered.iter().filter_map(|event| event.fact.file());
        let paths: Vec<&str> = paths.map(|file| &*file.path).collect();
        assert_eq!(paths, ["a.0001", "a.0002"]);
        let stops = world.events("order.stopped").await;
        assert_eq!(stops.len(), usize::from(failed == BehindFailed::Stop), "{stops:?}");
        if let Some(Event { job, fact: Fact::OrderStopped { stopped }, .. }) = stops.first() {
            assert_eq!((*job, stopped.order.as_str()), (Some(jobs[0]), "a"));
            assert!(stopped.error.contains("EP0805"), "{}", stopped.error);
        }
        world.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_told_once_each_time_an_order_comes_to_stand_still() {
    let mut world = World::new(214).await;
    let faulty = FaultStore::new(memory_store(&world.env));
    for nth in [1, 2] {
        faulty.fail(Some(StoreCall::Write), nth, Fault::Io);
    }
    world.target("partner", Arc::new(faulty)).await;
    world.put(&in_order(BehindFailed::Stop, Retry { attempts: 1, ..Retry::default() })).await;
    let told = json!([{"set": {"which": "event.order", "why": "event.error"}}]);
    let when = When::Event("order.stopped".to_owned()).into();
    world.put(&Rule { name: name("alert"), when, ..doing(told) }).await;
    let jobs = arrive(&mut world, &["a"], 5).await.remove(0);
    world.start();
    for stops in [1, 2] {
        world.ended(jobs[0]).await;
        world.until(async |world| world.events("job.done").await.len() == stops).await;
        let told = world.events("order.stopped").await;
        assert_eq!(told.len(), stops, "{told:?}");
        let alert = world.job_of(&told[stops - 1], "alert").await;
        let steps = world.db.job_steps(alert).await.unwrap();
        assert_eq!(world.ended(alert).await.state, JobState::Done, "{steps:?}");
        assert!(world.retry(jobs[0], world.env.now()).await);
        world.engine().wake();
    }
    for job in &jobs {
        assert_eq!(world.ended(*job).await.state, JobState::Done);
    }
    assert_eq!(world.events("order.stopped").await.len(), 2);
    world.kill().await;
}
