//! What a second attempt finds and tells, and in which order a failed one cleans up and tells.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use entrepot_db::TransferFilter;
use entrepot_nouns::event::FileFact;
use entrepot_nouns::rule::{Existing, Retry};
use entrepot_nouns::{Fact, JobState, StepAddress, Transfer};
use entrepot_storage::Store;
use entrepot_storage::fault::{Fault, FaultStore, StoreCall};

use super::world::{SITE, World, content, deliver, drop_once, files, memory_store, rule};
use crate::Pause;
use crate::ids::{self, StepKey};

/// The deliveries that the database knows of.
async fn deliveries(world: &World) -> Vec<Transfer> {
    let all = world.db.transfers(SITE, &TransferFilter::default()).await.unwrap();
    all.into_iter().filter(|transfer| transfer.job.is_some()).collect()
}

/// What the one `file.delivered` says.
async fn told(world: &World) -> FileFact {
    let mut told = world.events("file.delivered").await;
    assert_eq!(told.len(), 1, "{told:?}");
    match told.remove(0).fact {
        Fact::FileDelivered { file, .. } => file,
        fact => panic!("{fact:?}"),
    }
}

/// What tells the steps of `do` apart.
fn key(place: u32) -> StepKey {
    StepKey::at(&StepAddress(format!("do.{place}")))
}

/// How often each of these calls was made.
fn calls<const N: usize>(store: &FaultStore, kinds: [StoreCall; N]) -> [usize; N] {
    let log = store.log();
    kinds.map(|kind| log.iter().filter(|call| **call == kind).count())
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_two_nodes_record_is_told_once() {
    let mut first = World::new(31).await;
    let out = memory_store(&first.env);
    first.target("partner", out.clone()).await;
    first.put(&rule("r", vec![deliver("partner", "{name}", Existing::Refuse)])).await;
    let mut second = first.beside("n2").await;
    let (pauses, dropped) = drop_once(Pause::Recorded);
    first.options.pauses = Some(pauses);
    let event = first.upload("/in/a", &content(1, 3)).await;
    let job = first.job_of(&event, "r").await;
    // The delivery is in the first node's journal, and the database cannot hear of it.
    first.database_refuses("INSERT ON events WHEN NEW.kind = 'file.delivered'").await;
    first.start();
    first.until(async |_| dropped.load(Ordering::SeqCst)).await;
    assert_eq!(first.count(|meters| &meters.deliveries), 1);
    first.kill().await;
    first.env.advance(first.options.lease);
    second.start();
    let done = second.ended(job).await;
    assert_eq!((done.state, done.epoch), (JobState::Done, 2), "{:?}", done.error);
    let told_again = (
        second.count(|meters| &meters.deliveries),
        second.count(|meters| &meters.deliveries_found),
    );
    assert_eq!(told_again, (1, 1), "the second node did not tell of it");
    assert!(second.events("file.delivered").await.is_empty());

    second.database_is_back().await;
    first.start();
    first.projected().await;
    second.projected().await;
    let delivered = first.events("file.delivered").await;
    let named: Vec<_> = delivered.iter().map(|event| event.id).collect();
    assert_eq!(named, [ids::told_by_step(job, "delivered", &key(0))], "told twice");
    let transfers: Vec<_> = deliveries(&first).await.iter().map(|transfer| transfer.id).collect();
    assert_eq!(transfers, [ids::delivery(job, &key(0))], "one delivery counts as two");
    assert_eq!(first.events("job.done").await.len(), 1);
    assert_eq!(files(&out).await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn each_step_of_a_job_is_a_delivery_of_its_own_on_every_attempt() {
    let mut world = World::new(32).await;
    world.target("partner", memory_store(&world.env)).await;
    let steps = ["a", "b"]
        .map(|folder| deliver("partner", &format!("{folder}/{{name}}"), Existing::Refuse));
    world.put(&rule("r", steps.to_vec())).await;
    let (pauses, dropped) = drop_once(Pause::Recorded);
    world.options.pauses = Some(pauses);
    let event = world.upload("/in/a", b"abc").await;
    let job = world.job_of(&event, "r").await;
    world.start();
    assert_eq!(world.ended(job).await.state, JobState::Done);
    assert!(dropped.load(Ordering::SeqCst));
    world.projected().await;
    let mut found: Vec<_> = world.events("file.delivered").await.iter().map(|e| e.id).collect();
    found.sort();
    let mut wanted = [0, 1].map(|step| ids::told_by_step(job, "delivered", &key(step)));
    wanted.sort();
    assert_eq!(found, wanted);
    let mut found: Vec<_> = deliveries(&world).await.iter().map(|transfer| transfer.id).collect();
    found.sort();
    let mut wanted = [0, 1].map(|step| ids::delivery(job, &key(step)));
    wanted.sort();
    assert_eq!(found, wanted);
}

#[tokio::test(start_paused = true)]
async fn what_an_earlier_attempt_published_is_found_and_not_written_again() {
    for existing in [Existing::Replace, Existing::Refuse] {
        // With digests in the event, and without: then the source says what was meant.
        for digests in [true, false] {
            found_at_target(existing, digests).await;
        }
    }
}

async fn found_at_target(existing: Existing, digests: bool) {
    let what = format!("{existing:?}, digests: {digests}");
    let mut world = World::new(33).await;
    let out = FaultStore::new(memory_store(&world.env));
    world.target("partner", Arc::new(out.clone())).await;
    world.put(&rule("r", vec![deliver("partner", "to/{name}", existing)])).await;
    let (pauses, dropped) = drop_once(Pause::Published);
    world.options.pauses = Some(pauses);
    let bytes = content(2, 7);
    let mut event = world.publish("/in/a", &bytes).await;
    let expected = event.fact.file().unwrap().clone();
    if !digests {
        event.fact = Fact::FileRenamed {
            from: "/in/a.part".to_owned(),
            to: "/in/a".to_owned(),
            displaced: None,
            arrival: true,
            size: expected.size,
            file: None,
        };
    }
    world.recorder.seal(&event).await.unwrap();
    let job = world.job_of(&event, "r").await;
    world.start();
    world.until(async |_| dropped.load(Ordering::SeqCst)).await;
    world.kill().await;
    let writes = [StoreCall::Stage, StoreCall::Write, StoreCall::Publish];
    let before = calls(&out, writes);
    world.start();
    let done = world.ended(job).await;
    assert_eq!((done.state, done.epoch), (JobState::Done, 2), "{what}: {:?}", done.error);
    assert_eq!(calls(&out, writes), before, "{what}: written again");
    assert_eq!(world.count(|meters| &meters.deliveries_found), 1, "{what}");
    assert_eq!(world.count(|meters| &meters.delivery_bytes), 0, "{what}");
    world.projected().await;
    let told = told(&world).await;
    assert_eq!((told.size, told.path.as_str()), (expected.size, "to/a"), "{what}");
    assert_eq!(told.transfer, ids::delivery(job, &key(0)), "{what}");
    assert_eq!(told.digests.blake3, expected.digests.blake3, "{what}");
    assert!(told.displaced.is_none(), "{what}: it replaced nothing but itself");
    assert_eq!(files(&world.partner()).await["to/a"], bytes);
}

#[tokio::test(start_paused = true)]
async fn a_file_of_another_at_the_target_is_not_taken_for_ones_own() {
    // Of the same size, and of another one; the attempt before ended before it wrote anything.
    for theirs in [b"theirs".as_slice(), b"longer than ours"] {
        let mut world = World::new(34).await;
        let out = memory_store(&world.env);
        world.target("partner", out.clone()).await;
        world.put(&rule("r", vec![deliver("partner", "a", Existing::Replace)])).await;
        let first = world.upload("/in/first", theirs).await;
        world.start();
        assert_eq!(world.ended(world.job_of(&first, "r").await).await.state, JobState::Done);
        world.kill().await;
        let (pauses, dropped) = drop_once(Pause::SourceOpen);
        world.options.pauses = Some(pauses);
        let second = world.upload("/in/second", b"ours!!").await;
        let job = world.job_of(&second, "r").await;
        world.start();
        assert_eq!(world.ended(job).await.state, JobState::Done);
        assert!(dropped.load(Ordering::SeqCst));
        assert_eq!(world.count(|meters| &meters.deliveries_found), 0);
        assert_eq!(files(&out).await["a"], b"ours!!");
        world.projected().await;
        let told = world.events("file.delivered").await;
        let told = told.iter().find(|event| event.job == Some(job)).unwrap();
        assert!(told.fact.replaced() == Some(true), "it replaced the other's file");
    }
}

#[tokio::test(start_paused = true)]
async fn a_failed_delivery_cleans_up_then_tells_then_ends() {
    // The first attempt fails and is retried, the second one is the last.
    for (attempts, kind, state) in
        [(2, "job.retrying", JobState::Ready), (1, "job.failed", JobState::Failed)]
    {
        let mut world = World::new(35).await;
        let out = FaultStore::new(memory_store(&world.env));
        world.target("partner", Arc::new(out.clone())).await;
        let mut failing = rule("r", vec![deliver("partner", "{name}", Existing::Replace)]);
        // So long a pause that the second attempt is not seen here.
        let long = 1_000_000;
        failing.retry = Retry { attempts, first_delay_seconds: long, longest_delay_seconds: long };
        world.put(&failing).await;
        out.fail(Some(StoreCall::Sync), 1, Fault::NoSpace);
        // A minute: shorter than it takes anybody to sweep, longer than telling takes.
        out.fail(Some(StoreCall::Discard), 1, Fault::Delay(Duration::from_secs(60)));
        world
            .database_refuses("UPDATE ON jobs WHEN NEW.state IN ('ready', 'failed', 'done')")
            .await;
        let event = world.upload("/in/a", &content(1, 1)).await;
        let job = world.job_of(&event, "r").await;
        world.start();
        world.until(async |_| out.log().contains(&StoreCall::Discard)).await;
        for _ in 0..50 {
            world.turn().await;
        }
        world.projected().await;
        assert_eq!(out.staged().await.unwrap().len(), 1, "{kind}: the clean-up has not begun");
        assert!(world.events(kind).await.is_empty(), "{kind}: told before the clean-up");

        // Told while the job is still held: a crash from here on tells it again, the same.
        world.until(async |world| !world.events(kind).await.is_empty()).await;
        assert!(out.staged().await.unwrap().is_empty(), "{kind}: told with litter at the target");
        let held = world.db.job(SITE, job).await.unwrap().unwrap();
        assert_eq!((held.state, held.epoch), (JobState::Running, 1), "{kind}: ended untold");

        world.database_is_back().await;
        world
            .until(async |world| world.db.job(SITE, job).await.unwrap().unwrap().state == state)
            .await;
        let ended = world.db.job(SITE, job).await.unwrap().unwrap();
        assert_eq!((ended.attempts, ended.epoch), (1, 1), "{kind}");
        assert_eq!(world.events(kind).await.len(), 1, "{kind}");
        assert!(files(&world.partner()).await.is_empty());
    }
}
