//! Leases, retries, dead letters, and the steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use entrepot_nouns::rule::{DeleteSpec, Existing, MoveSpec, Retry, StepSpec};
use entrepot_nouns::{Fact, JobState, Name, Timestamp};
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};

use tokio::sync::Notify;

use super::world::{
    SITE, World, content, deliver, drop_once, files, memory_store, name, rule, stranger, take_one,
};
use crate::{Pause, PoolSizes};

fn archive(to: &str) -> StepSpec {
    StepSpec::Move(MoveSpec { to: to.to_owned(), existing: Existing::Replace })
}

fn remove() -> StepSpec {
    StepSpec::Delete(DeleteSpec { path: None })
}

#[tokio::test(start_paused = true)]
async fn deliver_move_and_deliver_again_from_there() {
    let mut world = World::new(1).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    let steps = vec![
        deliver("partner", "{account}/{name}", Existing::Refuse),
        archive("/done/{date}/{name}"),
        deliver("partner", "copies/{stem}.{transfer}", Existing::Replace),
        remove(),
    ];
    world.put(&rule("r", steps)).await;
    let bytes = content(3, 9);
    let event = world.upload("/in/a.xml", &bytes).await;
    world.start();
    let done = world.ended(world.job_of(&event, "r").await).await;
    assert_eq!((done.state, done.attempts, &done.error), (JobState::Done, 1, &None));
    world.projected().await;
    let transfer = event.fact.file().unwrap().transfer;
    let found = files(&out).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found["acme/a.xml"], bytes);
    assert_eq!(found[&format!("copies/a.{transfer}")], bytes);
    assert!(files(&world.file_access.home).await.is_empty());
    let told = world.events("file.delivered").await;
    assert_eq!(told.len(), 2);
    assert!(told.iter().all(|told| told.depth == 1 && told.cause == Some(event.id)));
    assert_eq!(world.events("job.done").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn failures_are_retried_on_schedule_then_end_in_the_dead_letter_state() {
    let mut world = World::new(2).await;
    let out = FaultStore::new(memory_store(&world.env));
    world.target("partner", Arc::new(out.clone())).await;
    world.target("aside", memory_store(&world.env)).await;
    let mut failing = rule("r", vec![deliver("partner", "{name}", Existing::Replace)]);
    failing.retry = Retry { attempts: 3, first_delay_seconds: 10, longest_delay_seconds: 15 };
    failing.otherwise = vec![
        deliver("nowhere", "{name}", Existing::Replace).into(),
        deliver("aside", "failed/{name}", Existing::Replace).into(),
    ];
    world.put(&failing).await;
    for _ in 0..3 {
        out.fail(Some(StoreCall::Publish), 1, Fault::Io);
    }
    for nth in 1..=3 {
        out.fail(Some(StoreCall::Sync), nth, Fault::NoSpace);
    }
    let event = world.upload("/in/a", &content(1, 1)).await;
    world.start();
    let job = world.job_of(&event, "r").await;
    let failed = world.ended(job).await;
    world.projected().await;
    assert_eq!((failed.state, failed.attempts), (JobState::Failed, 3));
    let retries = world.events("job.retrying").await;
    let delays: Vec<Duration> = retries
        .iter()
        .map(|event| match &event.fact {
            Fact::JobRetrying { retrying } => retrying.due_at.since(event.at),
            _ => Duration::ZERO,
        })
        .collect();
    assert_eq!(delays.len(), 2);
    for (delay, base) in delays.iter().zip([10, 15]) {
        let base = Duration::from_secs(base);
        assert!(*delay >= base * 4 / 5 && *delay <= base * 6 / 5, "{delays:?}");
    }
    let told = world.events("job.failed").await;
    assert_eq!(told.len(), 1);
    let text = serde_json::to_string(&told).unwrap();
    assert!(text.contains("EP0805") && text.contains("EP0811"), "{text}");
    let aside = world.file_access.targets.lock()["aside"].clone();
    assert!(files(&aside).await.contains_key("failed/a"), "the else steps did not run");
    // An operator tries again once the partner is back: the same job, told of anew.
    out.heal();
    assert!(world.retry(job, world.env.now()).await);
    world.engine().wake();
    assert_eq!(world.ended(job).await.state, JobState::Done);
}

#[tokio::test(start_paused = true)]
async fn an_operators_retry_that_fails_again_is_told_again() {
    let mut world = World::new(12).await;
    world.put(&rule("r", vec![deliver("nowhere", "{name}", Existing::Replace)])).await;
    let event = world.upload("/in/a", b"abc").await;
    world.start();
    let job = world.job_of(&event, "r").await;
    for round in 1..=3 {
        assert_eq!(world.ended(job).await.state, JobState::Failed);
        world.projected().await;
        assert_eq!(world.events("job.failed").await.len(), round);
        assert!(world.retry(job, world.env.now()).await);
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_pass_fails_at_once_with_a_sentence() {
    let mut world = World::new(3).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    let to = |path: &str| deliver("partner", path, Existing::Refuse);
    let table: Vec<(&str, Vec<StepSpec>, Option<Name>)> = vec![
        ("EP0811", vec![deliver("nowhere", "{name}", Existing::Replace)], None),
        ("EP0811", vec![to("{name}")], Some(name("nobody"))),
        ("EP0812", vec![to("../{name}")], None),
        ("EP0812", vec![to("{nmae}")], None),
        ("EP0812", vec![archive("relative/{name}")], None),
        ("EP0810", vec![remove(), to("{name}")], None),
        ("EP0809", vec![to("same"), to("same")], None),
    ];
    world.start();
    for (number, (code, steps, run_as)) in table.into_iter().enumerate() {
        let mut failing = rule("r", steps);
        failing.run_as = run_as;
        world.put(&failing).await;
        let event = world.upload(&format!("/in/{number}"), b"abc").await;
        let failed = world.ended(world.job_of(&event, "r").await).await;
        let error = failed.error.unwrap_or_default();
        assert_eq!((failed.state, failed.attempts), (JobState::Failed, 1), "{code}: {error}");
        assert!(error.starts_with(code), "{code}: {error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_file_that_changed_since_is_neither_delivered_nor_removed() {
    let mut world = World::new(4).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    world.put(&rule("send", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    world.put(&rule("wipe", vec![remove()])).await;
    world.put(&rule("move", vec![archive("/done/{name}")])).await;
    let old = world.publish("/in/a", b"old").await;
    let new = world.publish("/in/a", b"new").await;
    world.recorder.seal(&old).await.unwrap();
    world.start();
    for label in ["send", "wipe", "move"] {
        let failed = world.ended(world.job_of(&old, label).await).await;
        assert_eq!(failed.state, JobState::Failed, "{label}");
        assert!(failed.error.unwrap().starts_with("EP0808"), "{label}");
    }
    assert!(files(&out).await.is_empty());
    assert_eq!(files(&world.file_access.home).await["in/a"], b"new");
    drop(new);
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_begins_no_further_effect() {
    // Another node claims the job at each point of the first attempt.
    for point in [Pause::SourceOpen, Pause::Staged, Pause::BlockWritten, Pause::Synced] {
        let mut world = World::new(5).await;
        let out = FaultStore::new(memory_store(&world.env));
        world.target("partner", Arc::new(out.clone())).await;
        world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
        let event = world.upload("/in/a", &content(2, 5)).await;
        let job = world.job_of(&event, "r").await;
        let (reached, lost) = (Arc::new(AtomicBool::new(false)), std::sync::mpsc::channel::<()>());
        let (go, wait) = lost;
        let wait = std::sync::Mutex::new(wait);
        let (flag, entered) = (reached.clone(), Arc::new(Notify::new()));
        let entering = entered.clone();
        world.options.pools = PoolSizes::each(1);
        world.options.pauses = Some(Arc::new(move |at| {
            if at == point && !flag.swap(true, Ordering::SeqCst) {
                entering.notify_one();
                // Stands still as a machine that was suspended does.
                let _ = wait.lock().unwrap().recv_timeout(Duration::from_secs(5));
            }
            false
        }));
        let (db, env) = (world.db.clone(), world.env.clone());
        let flag = reached.clone();
        let thief = std::thread::spawn(move || {
            while !flag.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            env.advance(Duration::from_secs(60));
            let runtime = tokio::runtime::Runtime::new().unwrap();
            let lease = Duration::from_secs(3600);
            let claimed = runtime.block_on(async {
                let other = stranger(&db, &env, "n2").await;
                take_one(&db, &other, env.now(), lease).await
            });
            go.send(()).unwrap();
            claimed.unwrap()
        });
        world.start();
        // Nobody waits for the writer of the database meanwhile: on this one thread whoever gets it
        // then would keep it from the thief.
        entered.notified().await;
        let released = &world.engine().meters().jobs_released;
        world.until(async |_| released.load(Ordering::SeqCst) == 1).await;
        let claimed = thief.join().unwrap();
        assert_eq!((claimed.len(), claimed[0].epoch), (1, 2));
        world.projected().await;
        assert!(!out.log().contains(&StoreCall::Publish), "{point:?}: published without a lease");
        assert!(world.events("file.delivered").await.is_empty());
        let job = world.db.job(SITE, job).await.unwrap().unwrap();
        assert_eq!((job.state, job.epoch, job.at), (JobState::Running, 2, None), "{point:?}");
        assert_eq!(job.node, Some(name("n2")));
        world.kill().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_delivery_keeps_its_lease() {
    let mut world = World::new(6).await;
    let out = FaultStore::new(memory_store(&world.env));
    world.target("partner", Arc::new(out.clone())).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    // The clocks of tokio and of the environment go together here, two minutes in one write.
    world.options.lease = Duration::from_secs(30);
    out.fail(Some(StoreCall::Write), 1, Fault::Delay(Duration::from_secs(120)));
    let event = world.upload("/in/a", &content(1, 1)).await;
    let job = world.job_of(&event, "r").await;
    world.start();
    let mut leases = std::collections::BTreeSet::new();
    for _ in 0..100_000 {
        let found = world.db.job(SITE, job).await.unwrap();
        match found {
            Some(found) if found.state == JobState::Done => break,
            Some(found) => leases.extend(found.leased_until.map(Timestamp::micros)),
            None => {}
        }
        world.turn().await;
    }
    let done = world.db.job(SITE, job).await.unwrap().unwrap();
    assert_eq!((done.state, done.epoch), (JobState::Done, 1), "the lease was lost");
    assert!(leases.len() > 5, "the lease was extended {} times", leases.len());
}

#[tokio::test(start_paused = true)]
async fn a_stop_gives_unfinished_jobs_back_at_once() {
    let mut world = World::new(7).await;
    let out = FaultStore::new(memory_store(&world.env));
    world.target("partner", Arc::new(out.clone())).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    out.fail(Some(StoreCall::Write), 1, Fault::Delay(Duration::from_secs(100_000)));
    let event = world.upload("/in/a", &content(1, 1)).await;
    let job = world.job_of(&event, "r").await;
    world.start();
    world.until(async |_| out.log().contains(&StoreCall::Write)).await;
    world.stop(Duration::from_secs(5)).await;
    let stopped = world.db.job(SITE, job).await.unwrap().unwrap();
    assert_eq!(stopped.state, JobState::Running);
    assert!(stopped.leased_until.unwrap() <= world.env.now(), "the lease still runs");
    world.start();
    assert_eq!(world.ended(job).await.state, JobState::Done);
    assert_eq!(files(&world.partner()).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stop_lets_jobs_end_within_its_limit_and_projects_what_they_tell() {
    let mut world = World::new(8).await;
    let out = FaultStore::new(memory_store(&world.env));
    world.target("partner", Arc::new(out.clone())).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    out.fail(Some(StoreCall::Write), 1, Fault::Delay(Duration::from_secs(2)));
    let event = world.upload("/in/a", &content(1, 1)).await;
    let job = world.job_of(&event, "r").await;
    world.start();
    world.until(async |_| out.log().contains(&StoreCall::Write)).await;
    world.stop(Duration::from_secs(60)).await;
    assert_eq!(world.db.job(SITE, job).await.unwrap().unwrap().state, JobState::Done);
    assert_eq!(world.events("job.done").await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_move_that_was_done_before_a_crash_is_not_missed() {
    let mut world = World::new(9).await;
    world.put(&rule("r", vec![archive("/done/{name}"), archive("/done/2-{name}")])).await;
    let (pauses, dropped) = drop_once(Pause::Changed);
    world.options.pauses = Some(pauses);
    let event = world.upload("/in/a", b"abc").await;
    world.start();
    let done = world.ended(world.job_of(&event, "r").await).await;
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!((done.state, done.epoch), (JobState::Done, 2));
    assert_eq!(files(&world.file_access.home).await["done/2-a"], b"abc");
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_document_is_gone_fails_and_one_that_is_cancelled_stays_so() {
    let mut world = World::new(10).await;
    world.target("partner", memory_store(&world.env)).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    let (pauses, dropped) = drop_once(Pause::Claimed);
    world.options.pauses = Some(pauses);
    let event = world.upload("/in/a", b"abc").await;
    let job = world.job_of(&event, "r").await;
    world.start();
    world.until(async |_| dropped.load(Ordering::SeqCst)).await;
    world.kill().await;
    world.sql("DELETE FROM rule_versions".to_owned()).await;
    world.start();
    let failed = world.ended(job).await;
    assert!(failed.error.as_deref().is_some_and(|e| e.starts_with("EP0811")), "{failed:?}");
    assert!(world.retry(job, Timestamp(i64::MAX)).await);
    assert!(world.cancel(job).await);
    assert_eq!(world.ended(job).await.state, JobState::Cancelled);
}
