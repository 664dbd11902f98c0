//! Publishing that is undone, or that was done although it did not seem so; several stores on one
//! directory stand for several nodes.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use bytes::BytesMut;
use entrepot_nouns::{Env, StorePath};
use entrepot_storage::fault::{DiskCall, SimDisk, SimError, SimStore};
use entrepot_storage::*;

fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

fn how(existing: Existing, data: &[u8]) -> Publish {
    let size = data.len() as u64;
    Publish { existing, accessed: None, modified: None, mode: None, size }
}

async fn staged(store: &AnyStore, env: &Env, data: &[u8]) -> Box<dyn StagedFile> {
    let file = store.stage(env.new_id(), &path("f")).await.unwrap();
    assert!(file.try_write_at(0, data).unwrap());
    file.sync().await.unwrap();
    file
}

async fn put(store: &AnyStore, env: &Env, data: &[u8], existing: Existing) -> Result<Published> {
    staged(store, env, data).await.publish(&how(existing, data)).await
}

async fn read(store: &AnyStore, name: &str) -> Result<Vec<u8>> {
    let file = store.open(&path(name)).await?;
    Ok(file.read_at(0, BytesMut::new(), 1_000).await?.to_vec())
}

/// What never waits, from within a call of the disk.
fn now<T>(work: impl Future<Output = T>) -> T {
    match pin!(work).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => done,
        Poll::Pending => panic!("it waits"),
    }
}

/// With exchange and `NOREPLACE`, and without.
fn disks(env: &Env) -> [(SimDisk, &'static str); 2] {
    let plain = SimDisk::new(env);
    plain.forget_rename_flags();
    [(SimDisk::new(env), "flags"), (plain, "no flags")]
}

#[tokio::test]
async fn a_publish_is_undone_until_it_is_settled() {
    let env = Env::simulated(1);
    for (disk, what) in disks(&env) {
        let store = SimStore::open(&disk, &env).unwrap();
        for before in [None, Some(b"old".as_slice())] {
            if let Some(old) = before {
                put(&store, &env, old, Existing::Replace).await.unwrap();
            }
            let there = store.stat(&path("f")).await.ok().and_then(|meta| meta.identity);
            let file = staged(&store, &env, b"new").await;
            let published = file.publish_undoably(&how(Existing::Replace, b"new")).await.unwrap();
            assert_eq!(published.replaced(), before.is_some(), "{what}");
            assert_eq!(read(&store, "f").await.unwrap(), b"new");
            assert_eq!(file.take_back().await, Ok(TakenBack::Restored), "{what}");
            let now = store.stat(&path("f")).await.ok().and_then(|meta| meta.identity);
            assert_eq!(now, there, "{what}");
            assert_eq!(read(&store, "f").await.ok().as_deref(), before, "{what}");
            // It is a staged file as before, and may be published all the same.
            file.publish_undoably(&how(Existing::Replace, b"new")).await.unwrap();
            file.settle().await;
            assert!(file.take_back().await.is_err(), "{what}: undone when it was settled");
            assert_eq!(read(&store, "f").await.unwrap(), b"new");
            drop(file);
            assert!(store.staged().await.unwrap().is_empty(), "{what}");
            store.remove(&path("f")).await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_another_node_has_published_since_is_not_undone() {
    let env = Env::simulated(1);
    for (disk, what) in disks(&env) {
        let (one, other) =
            (SimStore::open(&disk, &env).unwrap(), SimStore::open(&disk, &env).unwrap());
        put(&one, &env, b"old", Existing::Replace).await.unwrap();
        let file = staged(&one, &env, b"ours").await;
        file.publish_undoably(&how(Existing::Replace, b"ours")).await.unwrap();
        put(&other, &env, b"theirs", Existing::Replace).await.unwrap();
        assert_eq!(file.take_back().await, Ok(TakenBack::Overtaken), "{what}");
        assert_eq!(read(&one, "f").await.unwrap(), b"theirs", "{what}");
        drop(file);
        assert!(one.staged().await.unwrap().is_empty(), "{what}");
    }
}

#[tokio::test]
async fn what_another_node_publishes_while_it_is_undone_keeps_the_name() {
    let env = Env::simulated(1);
    for (disk, what) in disks(&env) {
        let (one, other) =
            (SimStore::open(&disk, &env).unwrap(), SimStore::open(&disk, &env).unwrap());
        put(&one, &env, b"old", Existing::Replace).await.unwrap();
        put(&other, &env, b"older", Existing::Replace).await.unwrap();
        let theirs = staged(&other, &env, b"theirs").await;
        // The sync of the directory fails; the other node acts between the look at the name and
        // the rename that undoes ours.
        disk.fail(Some(DiskCall::SyncDir), 1, SimError::Io);
        let undoing = if what == "flags" { 2 } else { 4 };
        let published = how(Existing::Replace, b"theirs");
        disk.before(DiskCall::Rename, undoing, move || {
            now(theirs.publish(&published)).unwrap();
        });
        assert!(put(&one, &env, b"ours", Existing::Replace).await.is_err(), "{what}");
        assert_eq!(read(&one, "f").await.unwrap(), b"theirs", "{what}");
        let left = one.staged().await.unwrap();
        assert!(left.iter().all(|file| file.size == 4), "{what}: more than our own is left");
        put(&one, &env, b"next", Existing::Replace).await.unwrap();
    }
}

#[tokio::test]
async fn an_answer_that_was_lost_is_no_error() {
    for existing in [Existing::Refuse, Existing::Replace] {
        let env = Env::simulated(1);
        let disk = SimDisk::new(&env);
        disk.forget_rename_flags();
        let store = SimStore::open(&disk, &env).unwrap();
        // From the first one on it is known that the file system has no flags.
        put(&store, &env, b"old", existing).await.unwrap();
        store.remove(&path("f")).await.unwrap();
        disk.lose_answer(1, SimError::Exists);
        let published = put(&store, &env, b"new", existing).await.unwrap();
        assert!(!published.replaced());
        assert_eq!(read(&store, "f").await.unwrap(), b"new");
        assert!(store.staged().await.unwrap().is_empty());
        // A name that another file has stays taken.
        assert_eq!(put(&store, &env, b"x", Existing::Refuse).await.err(), Some(StoreError::Exists));
        // The second name of the old version, and the rename over it.
        let old = store.stat(&path("f")).await.unwrap().displaced();
        disk.lose_answer(2, SimError::Exists);
        disk.lose_answer(3, SimError::NotFound);
        let published = put(&store, &env, b"newest", Existing::Replace).await.unwrap();
        assert_eq!(published.displaced, Some(old));
        assert_eq!(read(&store, "f").await.unwrap(), b"newest");
    }
}

#[tokio::test]
async fn a_rename_or_link_whose_answer_was_lost_is_done() {
    let env = Env::simulated(1);
    let disk = SimDisk::new(&env);
    disk.forget_rename_flags();
    let store = SimStore::open(&disk, &env).unwrap();
    put(&store, &env, b"one", Existing::Refuse).await.unwrap();
    // First it is asked not to replace, which this file system does not know.
    disk.lose_answer(2, SimError::NotFound);
    let renamed = store.rename(&path("f"), &path("g"), Existing::Refuse).await.unwrap();
    assert!(!renamed.replaced());
    assert_eq!(read(&store, "g").await.unwrap(), b"one");
    put(&store, &env, b"two", Existing::Refuse).await.unwrap();
    disk.lose_answer(2, SimError::NotFound);
    let renamed = store.rename(&path("g"), &path("f"), Existing::Replace).await.unwrap();
    assert!(renamed.replaced());
    assert_eq!(read(&store, "f").await.unwrap(), b"one");
    disk.lose_answer(1, SimError::Exists);
    store.link(&path("f"), &path("h")).await.unwrap();
    assert_eq!(read(&store, "h").await.unwrap(), b"one");
    let gone = store.rename(&path("g"), &path("k"), Existing::Replace).await;
    assert_eq!(gone.err(), Some(StoreError::NotFound));
    put(&store, &env, b"two", Existing::Replace).await.unwrap();
    let taken = store.link(&path("f"), &path("h")).await;
    assert_eq!(taken, Err(StoreError::Exists));
}
