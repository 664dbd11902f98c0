//! Power cuts and failing system calls on the simulated disk, under the code that serves
//! directories. A failure prints its seed.

use bytes::BytesMut;
use entrepot_nouns::{Env, StorePath, TransferId};
use entrepot_storage::fault::{Cut, DiskCall, SimDisk, SimError, SimStore};
use entrepot_storage::*;

const SEEDS: u64 = 1000;
const NAMES: [&str; 4] = ["a", "d/a", "d/b", "d/e/a"];

fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

async fn read(store: &dyn Store, name: &str) -> Result<Vec<u8>> {
    let file = store.open(&path(name)).await?;
    Ok(file.read_at(0, BytesMut::new(), 1 << 20).await?.to_vec())
}

/// The content of one version of a file: its number on each of several pages.
fn version(number: u64) -> Vec<u8> {
    number.to_le_bytes().repeat(1 + (number as usize * 379) % 1600)
}

/// Uploads until something fails; what was acknowledged goes to the ledger.
struct Uploader {
    env: Env,
    next: u64,
    /// By name: versions acknowledged last, and versions tried since.
    ledger: Vec<(Option<u64>, Vec<u64>)>,
    acknowledged: u64,
}

impl Uploader {
    fn new(seed: u64) -> Self {
        let ledger = vec![(None, Vec::new()); NAMES.len()];
        Uploader { env: Env::simulated(seed), next: 1, ledger, acknowledged: 0 }
    }

    fn random(&self, end: u64) -> u64 {
        let mut bytes = [0; 8];
        self.env.fill_random(&mut bytes);
        u64::from_le_bytes(bytes) % end
    }

    async fn upload(&mut self, store: &dyn Store) -> Result<()> {
        let which = self.random(NAMES.len() as u64) as usize;
        let number = self.next;
        self.next += 1;
        self.ledger[which].1.push(number);
        let data = version(number);
        let id = self.env.new_id::<TransferId>();
        let file = store.stage(id, &path(NAMES[which])).await?;
        let half = data.len() / 2;
        file.try_write_at(half as u64, &data[half..])?;
        file.try_write_at(0, &data[..half])?;
        file.sync().await?;
        let how = Publish {
            existing: Existing::Replace,
            accessed: None,
            modified: None,
            mode: None,
            size: data.len() as u64,
        };
        file.publish(&how).await?;
        self.ledger[which] = (Some(number), Vec::new());
        self.acknowledged += 1;
        Ok(())
    }

    /// What is wrong with the disk after the cut.
    async fn check(&self, store: &dyn Store) -> Option<String> {
        for (name, (acknowledged, tried)) in NAMES.iter().zip(&self.ledger) {
            let found = match read(store, name).await {
                Ok(found) => found,
                Err(StoreError::NotFound) if acknowledged.is_none() => continue,
                Err(error) => return Some(format!("'{name}' is lost: {error}")),
            };
            let mut may = acknowledged.iter().chain(tried);
            if !may.any(|number| version(*number) == found) {
                return Some(format!("'{name}' is torn or old, {} bytes", found.len()));
            }
        }
        None
    }
}

/// One life of a disk: uploads until the power goes, then the check. The number acknowledged, or
/// what is wrong.
async fn life(seed: u64, cut: Cut, break_it: impl FnOnce(&SimDisk)) -> Result<u64, String> {
    let mut uploader = Uploader::new(seed);
    let disk = SimDisk::new(&uploader.env);
    let store = SimStore::open(&disk, &uploader.env).unwrap();
    store.make_directory(&path("d")).await.unwrap();
    store.make_directory(&path("d/e")).await.unwrap();
    if seed.is_multiple_of(3) {
        disk.forget_rename_flags();
    }
    break_it(&disk);
    disk.power_off_at(1 + uploader.random(400));
    while uploader.upload(&*store).await.is_ok() {}
    let after = disk.cut(seed, cut);
    let store = SimStore::open(&after, &uploader.env).map_err(|e| format!("no restart: {e}"))?;
    for staged in store.staged().await.unwrap() {
        store.discard_staged(staged.id).await.unwrap();
    }
    match uploader.check(&*store).await {
        Some(wrong) => Err(format!("seed {seed} {cut:?}: {wrong}")),
        None => {
            // It works again.
            uploader.upload(&*store).await.map_err(|e| format!("seed {seed}: {e}"))?;
            Ok(uploader.acknowledged - 1)
        }
    }
}

#[tokio::test]
async fn what_was_acknowledged_survives_a_power_cut() {
    let mut acknowledged = 0;
    for seed in 0..SEEDS {
        for cut in [Cut::Strict, Cut::Mixed] {
            acknowledged += life(seed, cut, |_| ()).await.unwrap();
        }
    }
    assert!(acknowledged >= 10_000, "only {acknowledged} uploads were acknowledged");
}

/// The proof that the test above can fail: each call that makes durable, left out in turn.
#[tokio::test]
async fn a_forgotten_sync_or_rename_is_noticed() {
    for call in [DiskCall::SyncFile, DiskCall::SyncDir, DiskCall::Rename] {
        let mut noticed = 0;
        for seed in 1..60 {
            noticed += u64::from(life(seed, Cut::Strict, |disk| disk.lie(call)).await.is_err());
        }
        assert!(noticed >= 30, "{call:?} left out was noticed in {noticed} of 59 lives");
    }
}

#[tokio::test]
async fn the_calls_of_a_publish_come_in_their_order() {
    let env = Env::simulated(1);
    let disk = SimDisk::new(&env);
    let store = SimStore::open(&disk, &env).unwrap();
    let mut uploader = Uploader::new(1);
    store.make_directory(&path("d")).await.unwrap();
    store.make_directory(&path("d/e")).await.unwrap();
    disk.start_log();
    uploader.upload(&*store).await.unwrap();
    let durable: Vec<DiskCall> = disk
        .log()
        .into_iter()
        .filter(|call| !matches!(call, DiskCall::Open | DiskCall::Stat | DiskCall::Read))
        .collect();
    use DiskCall::{Rename, SyncDir, SyncFile, Write};
    assert_eq!(durable, [Write, Write, SyncFile, Rename, SyncDir]);
}

/// Every system call of an upload, of its replacement and of changes of names fails once, each in
/// its turn: what is visible is the old file or the new one, and all works again afterwards.
#[tokio::test]
async fn any_one_failing_call_leaves_the_old_or_the_new() {
    for plain in [false, true] {
        for error in [SimError::Io, SimError::NoSpace] {
            let mut nth = 1;
            while one_failing_call(nth, error, plain).await {
                nth += 1;
            }
            assert!(nth > 40, "the scenario has only {nth} calls");
        }
    }
}

/// False when the scenario ended without meeting its fault.
async fn one_failing_call(nth: u64, error: SimError, plain: bool) -> bool {
    let env = Env::simulated(7);
    let disk = SimDisk::new(&env);
    let store = SimStore::open(&disk, &env).unwrap();
    if plain {
        disk.forget_rename_flags();
    }
    let mut uploader = Uploader::new(7);
    store.make_directory(&path("d")).await.unwrap();
    store.make_directory(&path("d/e")).await.unwrap();
    let before = disk.calls();
    disk.fail(None, nth, error);
    let mut failures = 0;
    for _ in 0..8 {
        if let Err(found) = uploader.upload(&*store).await {
            failures += 1;
            let want = match error {
                SimError::Io => matches!(found, StoreError::Io(_)),
                SimError::NotPermitted => matches!(found, StoreError::Denied(_)),
                SimError::Exists => found == StoreError::Exists,
                SimError::NotFound => found == StoreError::NotFound,
                SimError::NoSpace => found == StoreError::NoSpace,
            };
            assert!(want, "call {nth} {error:?}: {found:?}");
        }
        // The fault may have been met by the check itself: it looks twice.
        if uploader.check(&*store).await.is_some()
            && let Some(wrong) = uploader.check(&*store).await
        {
            panic!("call {nth} {error:?} plain {plain}: {wrong}");
        }
    }
    let met = disk.calls() - before >= nth;
    assert!(failures <= 1, "call {nth}: one fault made {failures} failures");
    met
}

#[tokio::test]
async fn a_failed_directory_sync_is_undone() {
    for plain in [false, true] {
        let env = Env::simulated(1);
        let disk = SimDisk::new(&env);
        if plain {
            disk.forget_rename_flags();
        }
        let store = SimStore::open(&disk, &env).unwrap();
        for old in [None, Some(b"old")] {
            if let Some(old) = old {
                publish(&*store, &env, old).await.unwrap();
            }
            disk.fail(Some(DiskCall::SyncDir), 1, SimError::Io);
            let failed = publish(&*store, &env, b"new").await;
            assert!(matches!(failed, Err(StoreError::Io(_))), "{failed:?}");
            match (old, store.open(&path("f")).await) {
                (None, Err(StoreError::NotFound)) => {}
                (Some(old), Ok(file)) => {
                    let found = file.read_at(0, BytesMut::new(), 10).await.unwrap();
                    assert_eq!(&found[..], old, "plain {plain}");
                }
                (_, other) => panic!("plain {plain}: {:?}", other.err()),
            }
        }
        disk.fail(Some(DiskCall::SyncDir), 1, SimError::Io);
        let (from, to) = (path("f"), path("g"));
        assert!(store.rename(&from, &to, Existing::Refuse).await.is_err());
        assert!(store.stat(&from).await.is_ok(), "the rename was not undone");
        assert_eq!(store.stat(&to).await, Err(StoreError::NotFound));
    }
}

#[tokio::test]
async fn what_cannot_be_undone_makes_the_store_sick() {
    let env = Env::simulated(1);
    let disk = SimDisk::new(&env);
    let store = SimStore::open(&disk, &env).unwrap();
    publish(&*store, &env, b"old").await.unwrap();
    let calls = disk.calls();
    store.probe().await.unwrap();
    let probe_calls = disk.calls() - calls;
    disk.fail(Some(DiskCall::SyncDir), 1, SimError::Io);
    // The first is the exchange: the name was taken when the file was staged.
    disk.fail(Some(DiskCall::Rename), 2, SimError::Io);
    let failed = publish(&*store, &env, b"new").await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    let later = store.make_directory(&path("d")).await;
    assert!(matches!(later, Err(StoreError::Unavailable(_))), "{later:?}");
    assert!(store.open(&path("f")).await.is_ok(), "reading goes on");
    assert!(store.is_sick());
    // A probe that fails, at whichever call, changes nothing; one that succeeds does.
    for n in 1..=probe_calls {
        disk.fail(None, n, SimError::Io);
        assert!(store.probe().await.is_err() && store.is_sick(), "call {n}");
    }
    store.probe().await.unwrap();
    assert!(probe_calls > 6 && !store.is_sick(), "{probe_calls} calls");
    store.make_directory(&path("d")).await.unwrap();
    publish(&*store, &env, b"newer").await.unwrap();
    // What was visible when the probe succeeded is durable.
    let after = SimStore::open(&disk.cut(1, Cut::Strict), &env).unwrap();
    assert!(after.stat(&path("d")).await.is_ok());
}

async fn publish(store: &dyn Store, env: &Env, data: &[u8]) -> Result<Published> {
    let file = store.stage(env.new_id(), &path("f")).await?;
    file.try_write_at(0, data)?;
    file.sync().await?;
    let size = data.len() as u64;
    let how =
        Publish { existing: Existing::Replace, accessed: None, modified: None, mode: None, size };
    file.publish(&how).await
}

#[tokio::test]
async fn a_failed_sync_is_never_repeated_into_a_success() {
    let env = Env::simulated(1);
    let disk = SimDisk::new(&env);
    let store = SimStore::open(&disk, &env).unwrap();
    let file = store.stage(env.new_id(), &path("f")).await.unwrap();
    file.try_write_at(0, b"abc").unwrap();
    disk.fail(Some(DiskCall::SyncFile), 1, SimError::Io);
    assert!(file.sync().await.is_err());
    let syncs = disk.calls_of(DiskCall::SyncFile);
    assert!(file.sync().await.is_err());
    assert_eq!(disk.calls_of(DiskCall::SyncFile), syncs, "the sync was tried again");
    let how = Publish {
        existing: Existing::Replace,
        accessed: None,
        modified: None,
        mode: None,
        size: 3,
    };
    assert!(file.publish(&how).await.is_err());
    assert_eq!(store.stat(&path("f")).await, Err(StoreError::NotFound));
}

#[tokio::test]
async fn a_full_disk_says_so_and_works_again() {
    let env = Env::simulated(1);
    let target = entrepot_nouns::endpoint::MemoryTarget { size_bytes: Some(100_000) };
    let store = memory::open(&target, &env).unwrap();
    let id = env.new_id();
    let file = store.stage(id, &path("big")).await.unwrap();
    assert!(file.try_write_at(0, &[1; 90_000]).unwrap());
    assert_eq!(file.try_write_at(90_000, &[1; 20_000]), Err(StoreError::NoSpace));
    file.discard().await.unwrap();
    drop(file);
    assert_eq!(store.space().await.unwrap().free_bytes, 100_000, "room was not given back");
    publish(&*store, &env, &[1; 90_000]).await.unwrap();
}

#[test]
fn a_folder_keeps_what_was_synced() {
    let env = Env::simulated(1);
    let disk = SimDisk::new(&env);
    let folder = disk.folder("journal").unwrap();
    folder.create("lost").unwrap().append(b"x").unwrap();
    let file = folder.create("1.log").unwrap();
    file.append(b"durable").unwrap();
    file.sync().unwrap();
    folder.sync_dir("").unwrap();
    file.append(b" and not").unwrap();
    folder.rename("1.log", "2.log").unwrap();
    let after = disk.cut(1, Cut::Strict);
    assert!(file.sync().is_err(), "the old disk still works");
    let folder = after.folder("journal").unwrap();
    let mut names = folder.list("").unwrap();
    names.sort();
    // The directory sync made both names durable; only one file had durable bytes.
    assert_eq!(names, ["1.log", "lost"]);
    assert_eq!(folder.open("lost").unwrap().size().unwrap(), 0);
    let mut found = [0; 20];
    let count = folder.open("1.log").unwrap().read_at(0, &mut found).unwrap();
    assert_eq!(&found[..count], b"durable");
}
