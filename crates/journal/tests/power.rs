//! Power cuts: what was acknowledged survives, at any call, in any order of pages.

mod sim;

use std::sync::{Arc, Mutex};

use entrepot_journal::{Journal, JournalError, Options, RecordKind, verify_on};
use entrepot_nouns::{Env, Name};
use sim::{Call, Cut, Random, SimDisk};

fn node() -> Name {
    "n1".parse().unwrap()
}

fn options(seed: u64) -> Options {
    Options {
        segment_bytes: 6000 + (seed % 7) * 3000,
        // Both ways to sync.
        inline_below: std::time::Duration::from_micros(if seed.is_multiple_of(3) {
            0
        } else {
            100
        }),
        ..Options::default()
    }
}

fn payload(seed: u64, number: u64) -> Vec<u8> {
    let mut random = Random(seed ^ number.rotate_left(32));
    let length = [20, 200, 1500, 5000][random.below(4) as usize];
    let mut text = format!("{{\"number\":{number},\"filler\":\"").into_bytes();
    text.extend((0..length).map(|_| b'a' + (random.below(26) as u8)));
    text.extend(b"\"}");
    text
}

type Acknowledged = Arc<Mutex<Vec<(u64, Vec<u8>)>>>;

/// Appends until the disk is dead or the work is done.
async fn work(disk: &SimDisk, seed: u64, acknowledged: &Acknowledged) {
    let env = Env::simulated(seed);
    let Ok((journal, _)) = Journal::open_on(Arc::new(disk.clone()), &node(), env, options(seed))
    else {
        return;
    };
    let mut random = Random(seed);
    for round in 0..12 {
        let mut group = tokio::task::JoinSet::new();
        for member in 0..=random.below(4) {
            let bytes = payload(seed, round * 10 + member);
            if random.below(3) == 0 {
                let _ = journal.append(RecordKind::Event, &bytes);
            }
            let (journal, acknowledged) = (journal.clone(), acknowledged.clone());
            if seed % 5 < 2 {
                group.spawn_blocking(move || {
                    if let Ok(sequence) = journal.append_durable_here(RecordKind::Intent, &bytes) {
                        acknowledged.lock().unwrap().push((sequence, bytes));
                    }
                });
                continue;
            }
            group.spawn(async move {
                if let Ok(sequence) = journal.append_durable(RecordKind::Intent, &bytes).await {
                    acknowledged.lock().unwrap().push((sequence, bytes));
                }
            });
        }
        group.join_all().await;
        if random.below(4) == 0 {
            let _ = journal.release(journal.usage().durable);
        }
    }
    if seed.is_multiple_of(2) {
        let _ = journal.close().await;
    }
}

/// Cuts the power at the given call and returns what is left, with what was acknowledged by then.
async fn cut_at(
    disk: &SimDisk,
    seed: u64,
    (call, mode): (u64, Cut),
    before: &[(u64, Vec<u8>)],
) -> (SimDisk, Vec<(u64, Vec<u8>)>) {
    let acknowledged: Acknowledged = Arc::new(Mutex::new(before.to_vec()));
    let left = Arc::new(Mutex::new(None));
    let (theirs, slot) = (acknowledged.clone(), left.clone());
    disk.on_call(Box::new(move |number, _, disk| {
        let mut slot = slot.lock().unwrap();
        if number == call && slot.is_none() {
            *slot = Some((disk.cut(seed, mode), theirs.lock().unwrap().clone()));
        }
        if slot.is_some() { Err(std::io::ErrorKind::BrokenPipe.into()) } else { Ok(()) }
    }));
    work(disk, seed, &acknowledged).await;
    let left = left.lock().unwrap().take();
    left.unwrap_or_else(|| (disk.cut(seed, mode), acknowledged.lock().unwrap().clone()))
}

async fn check(disk: &SimDisk, seed: u64, acknowledged: &[(u64, Vec<u8>)]) {
    let env = Env::simulated(seed);
    let opened = Journal::open_on(Arc::new(disk.clone()), &node(), env, options(seed));
    let (journal, recovered) = opened.unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    let all = journal.reader(0).read_now(10_000).unwrap();
    assert!(all.windows(2).all(|two| two[0].sequence < two[1].sequence), "seed {seed}");
    for (sequence, bytes) in acknowledged {
        let found = all.iter().find(|record| record.sequence == *sequence);
        let found = found.unwrap_or_else(|| panic!("seed {seed}: record {sequence} is lost"));
        assert!(found.payload == *bytes, "seed {seed}: record {sequence} has changed");
    }
    assert!(recovered.last_sequence >= acknowledged.iter().map(|a| a.0).max().unwrap_or(0));
    let next = journal.append_durable(RecordKind::Event, b"{}").await.unwrap();
    assert!(next > recovered.last_sequence);
    journal.close().await.unwrap();
    let report = verify_on(disk, &mut |_| {}).unwrap();
    assert!(report.is_intact(), "seed {seed}: {report}");
    assert_eq!(report.torn_bytes, 0, "seed {seed}");
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_power_cut_at_any_call() {
    let mut tried = (0, 0);
    for seed in 0..1000 {
        let mut random = Random(seed);
        let mode = if seed % 2 == 0 { Cut::Strict } else { Cut::Mixed };
        let at = 1 + random.below(90);
        let (disk, kept) = cut_at(&SimDisk::default(), seed, (at, mode), &[]).await;
        // A second cut, often within the recovery from the first.
        let again = (1 + random.below(if seed % 4 < 2 { 6 } else { 60 }), mode);
        let (disk, kept) = cut_at(&disk, seed + 1_000_000, again, &kept).await;
        check(&disk, seed, &kept).await;
        tried = (tried.0 + 1, tried.1 + kept.len());
    }
    assert!(tried.1 > 5_000, "only {} records were acknowledged before the cuts", tried.1);
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_acknowledged_and_reopening_proves_the_rest() {
    for seed in 0..60 {
        let disk = SimDisk::default();
        let broken = Arc::new(Mutex::new(false));
        let (theirs, fail_at) = (broken.clone(), 3 + seed % 15);
        let mut syncs = 0;
        disk.on_call(Box::new(move |_, call, _| {
            syncs += u64::from(call == Call::Sync);
            if call == Call::Sync && syncs == fail_at {
                *theirs.lock().unwrap() = true;
                return Err(std::io::Error::other("EIO"));
            }
            Ok(())
        }));
        let env = Env::simulated(seed);
        let medium = Arc::new(disk.clone());
        let (journal, _) = Journal::open_on(medium, &node(), env, options(seed)).unwrap();
        let mut acknowledged = Vec::new();
        for number in 0..40 {
            let bytes = payload(seed, number);
            let appended = match seed % 2 {
                0 => journal.append_durable(RecordKind::Intent, &bytes).await,
                _ => journal.append_durable_here(RecordKind::Intent, &bytes),
            };
            match appended {
                Ok(sequence) => {
                    assert!(!*broken.lock().unwrap(), "seed {seed}: acknowledged after a failure");
                    acknowledged.push((sequence, bytes));
                }
                Err(error) => {
                    assert!(matches!(error, JournalError::Suspect { .. }), "{error}");
                    assert!(*broken.lock().unwrap());
                }
            }
        }
        assert!(journal.usage().suspect && *broken.lock().unwrap());
        assert!(journal.close().await.is_err());
        drop(journal);
        disk.no_hook();
        // The kernel still shows what never reached the disk; then it is opened, and then the
        // power goes.
        let more: Acknowledged = Arc::new(Mutex::new(acknowledged));
        work(&disk, seed, &more).await;
        let kept = more.lock().unwrap().clone();
        check(&disk.cut(seed, Cut::Strict), seed, &kept).await;
    }
}

#[test]
fn threads_that_wait_share_a_sync() {
    const THREADS: u64 = 8;
    let disk = SimDisk::default();
    let env = Env::simulated(1);
    // The flusher's timer would sync as well.
    let max_tail_delay = std::time::Duration::from_secs(600);
    let options = Options { max_tail_delay, ..Options::default() };
    let medium = Arc::new(disk.clone());
    let (journal, _) = Journal::open_on(medium, &node(), env, options).unwrap();
    let before = journal.usage().appended;
    let syncs = Arc::new(Mutex::new(0));
    let (seen, theirs) = (syncs.clone(), journal.clone());
    disk.on_call(Box::new(move |_, call, _| {
        if call == Call::Sync {
            let mut syncs = seen.lock().unwrap();
            *syncs += 1;
            // The first lasts until all others have come.
            while *syncs == 1 && theirs.usage().appended < before + THREADS {
                std::thread::yield_now();
            }
        }
        Ok(())
    }));
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let journal = &journal;
            scope.spawn(move || {
                let bytes = payload(1, number);
                let sequence = journal.append_durable_here(RecordKind::Intent, &bytes).unwrap();
                assert!(journal.usage().durable >= sequence, "told before it was durable");
            });
        }
    });
    assert_eq!(*syncs.lock().unwrap(), 2, "syncs for {THREADS} threads");
    disk.no_hook();
}
