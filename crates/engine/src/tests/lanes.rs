//! Lanes: a partner that is slow or dead keeps only its own jobs waiting.

use std::sync::Arc;
use std::time::Duration;

use entrepot_db::LaneKey;
use entrepot_nouns::rule::Existing;
use entrepot_nouns::{Endpoint, Job, JobId, JobLane, JobState, Pool, PoolPlaces, Priority};
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};
use entrepot_testbed::memory_endpoint;

use super::made::write;
use super::world::{SITE, World, content, deliver, files, memory_store, rule};
use crate::PoolSizes;

const HOURS: Duration = Duration::from_secs(24 * 3600);
/// So long that no lease ends while a partner does not answer.
const LEASE: Duration = Duration::from_secs(100_000);

/// A world with a partner that answers, and one that does not.
async fn with_a_dead_one(seed: u64) -> World {
    let mut world = World::new(seed).await;
    world.options.lease = LEASE;
    world.target("partner", memory_store(&world.env)).await;
    let dead = FaultStore::new(memory_store(&world.env));
    for nth in 1..=200 {
        dead.fail(Some(StoreCall::Write), nth, Fault::Delay(HOURS));
    }
    world.target("dead", Arc::new(dead)).await;
    world
}

/// `count` files arrive for the rule, in the directory of their name.
async fn arrive(world: &mut World, rule: &str, count: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    for number in 0..count {
        let event = world.upload(&format!("/in/{rule}.{number}"), &content(0, 1)).await;
        jobs.push(world.job_of(&event, rule).await);
    }
    jobs
}

/// A rule on files whose names begin with its own.
fn rule_for(label: &str, targets: &[&str]) -> entrepot_nouns::Rule {
    let steps = targets.iter().map(|to| deliver(to, "{name}", Existing::Replace));
    let mut made = rule(label, steps.collect());
    made.condition = Some(format!("file.name.startsWith('{label}.')"));
    made
}

#[tokio::test(start_paused = true)]
async fn a_partner_that_never_answers_holds_up_no_other() {
    let mut world = with_a_dead_one(91).await;
    world.put(&rule_for("dead", &["dead"])).await;
    world.put(&rule_for("live", &["partner"])).await;
    let stuck = arrive(&mut world, "dead", 100).await;
    world.start();
    world.until(async |world| world.db.job_counts().await.unwrap().running > 0).await;
    let jobs = arrive(&mut world, "live", 50).await;
    let begun = tokio::time::Instant::now();
    for job in jobs {
        let ended = world.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Done, 1), "{:?}", ended.error);
    }
    assert!(begun.elapsed() < HOURS / 24, "they waited for the other partner");
    assert_eq!(files(&world.partner()).await.len(), 50);
    let counts = world.db.job_counts().await.unwrap();
    assert_eq!((counts.running, counts.ready), (13, 87), "of 25 places the dead one has half");
    let waiting = world.db.job(SITE, stuck[99]).await.unwrap().unwrap();
    assert_eq!((waiting.state, waiting.attempts), (JobState::Ready, 0));
    assert_eq!(waiting.lane.to_string(), "target/dead");
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_waits_for_a_dead_partner_keeps_no_place_of_another() {
    let mut world = with_a_dead_one(92).await;
    world.put(&rule_for("both", &["partner", "dead"])).await;
    let both = arrive(&mut world, "both", 60).await;
    world.start();
    let partner = world.partner();
    world.until(async |_| files(&partner).await.len() == 60).await;
    world
        .until(async |world| {
            // One that is about to be handed over counts as running too.
            let jobs = world.db.jobs(SITE, &Default::default()).await.unwrap();
            let is_there = |job: &Job| job.at.as_ref().is_some_and(|at| &*at.0 == "do.1");
            let ready = jobs.iter().filter(|job| job.state == JobState::Ready).count();
            jobs.iter().all(is_there) && ready == 47
        })
        .await;
    let mut waiting = 0;
    for job in both {
        let job = world.db.job(SITE, job).await.unwrap().unwrap();
        assert_eq!(job.lane.to_string(), "target/dead");
        assert_eq!(job.at.as_ref().map(|at| &*at.0), Some("do.1"));
        if job.state == JobState::Ready {
            // Once more for each time that it was claimed ahead and found no place.
            assert!(job.handed_over >= 1, "{job:?}");
            assert_eq!((job.attempts, job.life()), (0, 0));
            waiting += 1;
        }
    }
    assert_eq!(waiting, 47);
    world.projected().await;
    assert_eq!(world.events("file.delivered").await.len(), 60, "a file was delivered twice");
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_done_but_for_its_end_keeps_nobody_from_a_place() {
    let mut world = World::new(94).await;
    world.target("partner", memory_store(&world.env)).await;
    world.options.pools = PoolSizes::each(1);
    world.put(&rule_for("live", &["partner"])).await;
    let jobs = arrive(&mut world, "live", 40).await;
    world.database_refuses("UPDATE OF state ON jobs WHEN NEW.state = 'done'").await;
    world.start();
    let partner = world.partner();
    world.until(async |_| files(&partner).await.len() == 40).await;
    let counts = world.db.job_counts().await.unwrap();
    assert_eq!(counts.running, 40, "an end was written");
    // Longer than their leases, which are kept although no end can be written.
    for _ in 0..world.options.lease.as_millis() / 50 {
        world.turn().await;
    }
    world.database_is_back().await;
    for job in jobs {
        let ended = world.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Done, 1), "{:?}", ended.error);
    }
    world.kill().await;
}

/// Lets a world start in which a job of `rule` for the partner has just ended at once.
fn start_with_a_quick_one(world: &mut World, rule: &str) {
    let (endpoint, rule) = (Some("partner".parse().unwrap()), rule.parse().unwrap());
    let lane = JobLane { pool: Pool::Target, endpoint, priority: Priority::Normal };
    world.start();
    let mut place = world.engine().shared.places.take(&LaneKey::new(SITE, &rule, &lane)).unwrap();
    place.begin();
}

#[tokio::test(start_paused = true)]
async fn jobs_that_end_quickly_are_claimed_many_at_a_time() {
    let mut world = World::new(97).await;
    world.target("partner", memory_store(&world.env)).await;
    world.put(&rule_for("live", &["partner"])).await;
    let jobs = arrive(&mut world, "live", 90).await;
    start_with_a_quick_one(&mut world, "live");
    for job in jobs {
        let ended = world.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Done, 1), "{:?}", ended.error);
        assert_eq!(ended.handed_over, 0, "it was given back");
    }
    let claims = world.engine().meters().claims.count();
    assert!(claims < 90 / 13, "{claims} claims: no more jobs at a time than there are places");
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_claimed_ahead_are_given_back_when_their_partner_answers_no_more() {
    let mut world = with_a_dead_one(98).await;
    let dead = world.file_access.targets.lock()["dead"].clone();
    world.target("partner", dead).await;
    world.put(&rule_for("live", &["partner"])).await;
    let jobs = arrive(&mut world, "live", 100).await;
    start_with_a_quick_one(&mut world, "live");
    let counts = async |world: &World| {
        let counts = world.db.job_counts().await.unwrap();
        (counts.running, counts.ready)
    };
    world.until(async |world| counts(world).await == (77, 23)).await;
    world.until(async |world| counts(world).await == (13, 87)).await;
    let mut given_back = 0;
    for job in jobs {
        let job = world.db.job(SITE, job).await.unwrap().unwrap();
        assert_eq!(job.attempts, u32::from(job.state == JobState::Running));
        given_back += job.handed_over;
    }
    assert_eq!(given_back, 64);
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_changed_its_lane_ends_as_any_other() {
    let mut world = World::new(93).await;
    world.target("partner", memory_store(&world.env)).await;
    // In each place at once, so that each change finds somebody who waits.
    world.options.pools = PoolSizes::each(1);
    let mut made = rule_for("two", &["partner"]);
    made.steps.insert(0, exec_true());
    made.steps.push(exec_true());
    world.put(&made).await;
    let jobs = arrive(&mut world, "two", 12).await;
    world.start();
    for job in jobs {
        let ended = world.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Done, 1), "{:?}", ended.error);
        assert_eq!(ended.life(), 0);
    }
    assert!(world.count(|meters| &meters.jobs_handed_over) > 0, "none had to wait");
    world.projected().await;
    assert_eq!(world.events("file.delivered").await.len(), 12);
    assert_eq!(world.events("job.done").await.len(), 12);
    world.kill().await;
}

fn exec_true() -> entrepot_nouns::rule::Step {
    serde_json::from_value(serde_json::json!({ "exec": { "argv": ["/bin/true"] } })).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_used_as_often_at_once_as_it_says_over_all_nodes() {
    let mut first = World::new(94).await;
    first.options.lease = LEASE;
    let slow = FaultStore::new(memory_store(&first.env));
    for nth in 1..=200 {
        slow.fail(Some(StoreCall::Write), nth, Fault::Delay(Duration::from_secs(3)));
    }
    first.target("partner", Arc::new(slow)).await;
    first.put(&Endpoint { at_once: Some(3), ..memory_endpoint("partner") }).await;
    first.put(&rule_for("one", &["partner"])).await;
    first.put(&rule_for("two", &["partner"])).await;
    let mut second = first.beside("n2").await;
    let mut jobs = arrive(&mut first, "one", 12).await;
    jobs.extend(arrive(&mut first, "two", 12).await);
    first.start();
    second.start();
    let mut most = 0;
    first
        .until(async |world| {
            let counts = world.db.job_counts().await.unwrap();
            assert!(counts.running <= 3, "{counts:?}");
            most = most.max(counts.running);
            let mut done = 0;
            for job in &jobs {
                let job = world.db.job(SITE, *job).await.unwrap();
                done += usize::from(job.is_some_and(|job| job.state == JobState::Done));
            }
            done == jobs.len()
        })
        .await;
    assert_eq!(most, 3);
    for world in [&mut first, &mut second] {
        world.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn jobs_wait_for_an_endpoint_that_is_paused() {
    let mut world = World::new(99).await;
    for label in ["partner", "other"] {
        world.target(label, memory_store(&world.env)).await;
    }
    world.put(&Endpoint { paused: true, ..memory_endpoint("partner") }).await;
    world.put(&rule_for("both", &["other", "partner"])).await;
    world.put(&rule_for("live", &["other"])).await;
    let jobs = arrive(&mut world, "both", 30).await;
    world.start();
    for job in arrive(&mut world, "live", 30).await {
        assert_eq!(world.ended(job).await.state, JobState::Done);
    }
    let resting = async |world: &World| {
        let counts = world.db.job_counts().await.unwrap();
        (counts.running, counts.ready) == (0, 30)
    };
    world.until(async |world| resting(world).await).await;
    for _ in 0..100 {
        world.turn().await;
    }
    assert!(resting(&world).await, "one of them ran");
    assert!(files(&world.partner()).await.is_empty());
    world.put(&memory_endpoint("partner")).await;
    for job in jobs {
        let ended = world.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Done, 1), "{:?}", ended.error);
    }
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn rules_have_their_turns_by_priority() {
    let mut world = World::new(95).await;
    world.target("partner", memory_store(&world.env)).await;
    world.options.pools = PoolSizes::each(1);
    for (label, priority) in [("high", Priority::High), ("low", Priority::Low)] {
        let mut made = rule_for(label, &["partner"]);
        made.priority = priority;
        world.put(&made).await;
    }
    // The low one was there first.
    let mut jobs = arrive(&mut world, "low", 10).await;
    jobs.extend(arrive(&mut world, "high", 10).await);
    let mut pools = std::mem::replace(&mut world.options.pools, PoolSizes::each(0));
    world.start();
    world.projected().await;
    world.stop(HOURS).await;
    std::mem::swap(&mut pools, &mut world.options.pools);
    world.start();
    for job in jobs {
        assert_eq!(world.ended(job).await.state, JobState::Done);
    }
    world.projected().await;
    let mut order = Vec::new();
    for event in world.events("job.done").await {
        let entrepot_nouns::Fact::JobDone { rule } = event.fact else { panic!("{event:?}") };
        order.push(rule.as_str().to_owned());
    }
    let early = |label: &str| order.iter().take(10).filter(|rule| *rule == label).count();
    assert_eq!((early("high"), early("low")), (8, 2), "{order:?}");
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_of_programs_that_knew_no_lanes_find_theirs() {
    let mut world = World::new(96).await;
    world.target("partner", memory_store(&world.env)).await;
    world.put(&rule_for("old", &["partner"])).await;
    let pools = std::mem::replace(&mut world.options.pools, PoolSizes::each(0));
    let jobs = arrive(&mut world, "old", 30).await;
    world.start();
    world.projected().await;
    world.stop(HOURS).await;
    world.sql("UPDATE jobs SET lane = ''".to_owned()).await;
    world.options.pools = pools;
    world.start();
    for job in jobs {
        let ended = world.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Done, 1), "{:?}", ended.error);
        assert_eq!(ended.lane.to_string(), "target/partner");
    }
    let due = world.db.due_lanes(Pool::Instance, None::<&LaneKey>, world.env.now(), 9).await;
    assert_eq!(due.unwrap(), []);
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn pools_change_their_size_while_jobs_run() {
    let mut world = with_a_dead_one(97).await;
    world.options.pools = PoolSizes::each(1);
    world.put(&rule_for("dead", &["dead"])).await;
    arrive(&mut world, "dead", 40).await;
    let node = world.recorder.node().clone();
    let set = async |world: &World, target: u32| {
        let mut tx = world.db.begin().await.unwrap();
        let places = PoolPlaces { target: Some(target), ..PoolPlaces::default() };
        assert!(tx.set_pools(&node, places).await.unwrap());
        tx.commit().await.unwrap();
    };
    let running = async |world: &World| world.db.job_counts().await.unwrap().running;
    world.start();
    world.until(async |world| running(world).await == 1).await;
    set(&world, 25).await;
    world.until(async |world| running(world).await == 13).await;
    set(&world, 1).await;
    let target = |world: &World| {
        let pools = world.engine().pools();
        pools.into_iter().find(|used| used.pool == Pool::Target).unwrap()
    };
    world.until(async |world| target(world).size == 1).await;
    assert_eq!(target(&world).taken, 13, "what runs goes on");
    world.kill().await;
}

#[tokio::test(start_paused = true)]
async fn what_failed_in_else_is_told_of_a_job_that_changed_its_lane_there() {
    let mut world = World::new(98).await;
    world.target("partner", memory_store(&world.env)).await;
    world.options.pools = PoolSizes::each(1);
    let mut made = rule_for("bad", &["nowhere"]);
    made.otherwise = vec![
        deliver("lost", "{name}", Existing::Replace).into(),
        exec_true(),
        deliver("partner", "{name}", Existing::Replace).into(),
    ];
    world.put(&made).await;
    let jobs = arrive(&mut world, "bad", 12).await;
    world.start();
    for job in jobs {
        let ended = world.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Failed, 1));
        let error = ended.error.unwrap();
        assert!(error.contains("'nowhere'") && error.contains("'lost'"), "{error}");
        assert_eq!(error.matches("an else step failed too").count(), 1, "{error}");
    }
    assert!(world.count(|meters| &meters.jobs_handed_over) > 0, "none had to wait");
    assert_eq!(files(&world.partner()).await.len(), 12);
    world.projected().await;
    assert_eq!(world.events("job.failed").await.len(), 12);
    world.kill().await;
}

/// Each node makes the file that it needs, in the place that the job has got, so that a job does
/// not go to and fro between the lanes of its steps with the file on the other node.
#[tokio::test(start_paused = true)]
async fn a_job_waits_once_for_an_endpoint_whichever_node_has_its_file() {
    let mut first = World::new(99).await;
    let bank = memory_store(&first.env);
    first.target("bank", bank.clone()).await;
    first.target("partner", memory_store(&first.env)).await;
    first.put(&Endpoint { at_once: Some(1), ..memory_endpoint("partner") }).await;
    let mut made = rule_for("take", &["partner"]);
    let fetch = serde_json::json!({"fetch": {"endpoint": "bank", "path": "{name}"}});
    made.steps.insert(0, serde_json::from_value(fetch).unwrap());
    first.put(&made).await;
    let mut second = first.beside("n2").await;
    let jobs = arrive(&mut first, "take", 24).await;
    for number in 0..24 {
        write(&first, &bank, &format!("take.{number}"), &content(2, 7)).await;
    }
    first.start();
    second.start();
    for job in jobs {
        let ended = first.ended(job).await;
        assert_eq!((ended.state, ended.attempts), (JobState::Done, 1), "{:?}", ended.error);
        assert_eq!(ended.handed_over, 1);
    }
    for world in [&mut first, &mut second] {
        world.kill().await;
    }
}
