//! Delivery under crashes, power cuts and faults: at least once, with exactly-once effect (P9).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use entrepot_db::TransferFilter;
use entrepot_nouns::rule::{Existing, Retry};
use entrepot_nouns::{Env, JobState, TransferState};
use entrepot_storage::fault::{Cut, Fault, FaultStore, SimDisk, SimStore};
use entrepot_storage::{AnyStore, Store};

use super::world::{SITE, World, content, deliver, drop_once, files, memory_store, rule};
use crate::Pause;

/// The points a rule of one delivery passes: no step changes its source, and none follows.
fn points() -> impl Iterator<Item = Pause> {
    let other = |point: &Pause| matches!(point, Pause::Changed | Pause::Advanced);
    Pause::ALL.into_iter().filter(move |point| !other(point))
}

#[tokio::test(start_paused = true)]
async fn a_kill_between_any_two_effects_leaves_one_whole_file_and_one_record() {
    for existing in [Existing::Replace, Existing::Refuse] {
        for (number, point) in points().enumerate() {
            for cut in [None, Some(Cut::Strict), Some(Cut::Mixed)] {
                one_crash(number as u64, point, existing, cut).await;
            }
        }
    }
}

async fn one_crash(seed: u64, point: Pause, existing: Existing, cut: Option<Cut>) {
    let what = format!("{point:?} {existing:?} {cut:?}");
    let mut world = World::new(seed).await;
    let disk = SimDisk::new(&world.env);
    world.target("partner", SimStore::open(&disk, &world.env).unwrap()).await;
    world.put(&rule("r", vec![deliver("partner", "to/{name}", existing)])).await;
    let (pauses, dropped) = drop_once(point);
    world.options.pauses = Some(pauses);
    let bytes = content(2, seed as u8);
    let event = world.upload("/in/a", &bytes).await;
    let job = world.job_of(&event, "r").await;
    world.start();
    world.until(async |_| dropped.load(Ordering::SeqCst)).await;
    world.kill().await;
    world.env.advance(world.options.lease);
    if let Some(cut) = cut {
        let disk = disk.cut(seed, cut);
        let store = SimStore::open(&disk, &world.env).unwrap();
        world.file_access.targets.lock().insert("partner".to_owned(), store);
    }
    let store = world.file_access.targets.lock()["partner"].clone();
    for (name, found) in files(&store).await {
        assert_eq!(found, bytes, "{what}: '{name}' is visible and not whole");
    }
    world.start();
    let done = world.ended(job).await;
    world.projected().await;
    assert_eq!(done.state, JobState::Done, "{what}: {:?}", done.error);
    assert!(done.epoch >= 2, "{what}: it was not interrupted");
    let found = files(&store).await;
    assert_eq!(found.len(), 1, "{what}: {:?}", found.keys());
    assert_eq!(found["to/a"], bytes, "{what}");
    assert!(store.staged().await.unwrap().is_empty(), "{what}: litter");
    assert_eq!(world.events("file.delivered").await.len(), 1, "{what}");
    assert_eq!(world.events("job.done").await.len(), 1, "{what}");
    let transfers = world.db.transfers(SITE, &TransferFilter::default()).await.unwrap();
    let delivered = transfers.iter().filter(|transfer| transfer.job == Some(job));
    let states: Vec<_> = delivered.map(|transfer| transfer.state).collect();
    assert_eq!(states, [TransferState::Completed], "{what}");
}

#[tokio::test(start_paused = true)]
async fn a_partner_that_takes_the_file_away_does_not_get_it_twice() {
    let mut world = World::new(1).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    world.put(&rule("r", vec![deliver("partner", "{name}", Existing::Replace)])).await;
    let (pauses, dropped) = drop_once(Pause::Recorded);
    world.options.pauses = Some(pauses);
    let event = world.upload("/in/a", b"abc").await;
    world.start();
    world.until(async |_| dropped.load(Ordering::SeqCst)).await;
    world.kill().await;
    out.remove(&"a".parse().unwrap()).await.unwrap();
    world.start();
    assert_eq!(world.ended(world.job_of(&event, "r").await).await.state, JobState::Done);
    assert!(files(&out).await.is_empty(), "delivered again");
}

#[tokio::test(start_paused = true)]
async fn a_file_of_another_is_refused_also_after_a_crash() {
    let mut world = World::new(2).await;
    let out = memory_store(&world.env);
    world.target("partner", out.clone()).await;
    world.put(&rule("other", vec![deliver("partner", "a", Existing::Replace)])).await;
    let first = world.upload("/in/first", b"theirs").await;
    world.start();
    assert_eq!(world.ended(world.job_of(&first, "other").await).await.state, JobState::Done);
    world.kill().await;
    let (pauses, dropped) = drop_once(Pause::Claimed);
    world.options.pauses = Some(pauses);
    let mut refuses = rule("refuses", vec![deliver("partner", "a", Existing::Refuse)]);
    refuses.condition = Some("file.name == 'second'".to_owned());
    world.put(&refuses).await;
    let mut other = rule("other", vec![deliver("partner", "a", Existing::Replace)]);
    other.enabled = false;
    world.put(&other).await;
    let second = world.upload("/in/second", b"ours!!").await;
    world.start();
    let failed = world.ended(world.job_of(&second, "refuses").await).await;
    assert!(dropped.load(Ordering::SeqCst));
    assert_eq!(failed.state, JobState::Failed);
    assert!(failed.error.unwrap().starts_with("EP0809"));
    assert_eq!(files(&out).await["a"], b"theirs");
}

/// Small numbers out of a seed.
struct Dice(Env);

impl Dice {
    fn below(&self, most: u64) -> u64 {
        let mut bytes = [0; 8];
        self.0.fill_random(&mut bytes);
        u64::from_le_bytes(bytes) % most
    }
}

#[tokio::test(start_paused = true)]
async fn two_hundred_seeds_of_random_faults() {
    let mut world = World::new(77).await;
    world.options.lease = Duration::from_secs(3);
    let out = FaultStore::new(memory_store(&world.env));
    let home = FaultStore::new(world.file_access.home.clone());
    world.file_access.home = Arc::new(home.clone());
    world.target("partner", Arc::new(out.clone())).await;
    for (label, path, existing) in
        [("keep", "k/{name}", Existing::Refuse), ("put", "p/{name}", Existing::Replace)]
    {
        let mut rule = rule(label, vec![deliver("partner", path, existing)]);
        rule.retry = Retry { attempts: 30, first_delay_seconds: 0, longest_delay_seconds: 1 };
        world.put(&rule).await;
    }
    let mut wanted = HashMap::new();
    for seed in 0..200u64 {
        let dice = Dice(Env::simulated(seed));
        let bytes = content(dice.below(3) as usize, seed as u8);
        let event = world.upload(&format!("/in/{seed}"), &bytes).await;
        for _ in 0..dice.below(6) {
            let fault = match dice.below(4) {
                0 => Fault::Io,
                1 => Fault::NoSpace,
                2 => Fault::ShortWrite,
                _ => Fault::LostAnswer,
            };
            out.fail(None, 1 + dice.below(30), fault);
        }
        if dice.below(3) == 0 {
            home.fail(None, 1 + dice.below(8), Fault::Io);
        }
        let left = Arc::new(AtomicI64::new(1 + dice.below(18) as i64));
        let drops = dice.below(2) == 0;
        world.options.pauses =
            Some(Arc::new(move |_: Pause| drops && left.fetch_sub(1, Ordering::SeqCst) == 1));
        world.start();
        for _ in 0..dice.below(40) {
            world.turn().await;
        }
        if dice.below(2) == 0 {
            world.kill().await;
            world.start();
        }
        for (label, folder) in [("keep", "k"), ("put", "p")] {
            let done = world.ended(world.job_of(&event, label).await).await;
            assert_eq!(done.state, JobState::Done, "seed {seed} {label}: {:?}", done.error);
            wanted.insert(format!("{folder}/{seed}"), bytes.clone());
        }
        out.heal();
        home.heal();
        world.kill().await;
    }
    world.options.pauses = None;
    world.start();
    world.projected().await;
    let store: AnyStore = Arc::new(out.clone());
    let found = files(&store).await;
    assert_eq!(found.len(), wanted.len());
    for (name, bytes) in &wanted {
        assert_eq!(&found[name], bytes, "'{name}' is not whole");
    }
    assert!(out.staged().await.unwrap().is_empty(), "litter at the target");
    assert_eq!(world.events("file.delivered").await.len(), wanted.len());
    assert_eq!(world.events("job.done").await.len(), wanted.len());
    assert_eq!(world.events("job.failed").await.len(), 0);
}
