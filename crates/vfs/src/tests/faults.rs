//! Each single failing call is refused and leaves the old file or nothing; room comes back.

use std::collections::HashMap;

use entrepot_nouns::Fact;
use entrepot_nouns::endpoint::MemoryTarget;
use entrepot_storage::fault::{DiskCall, SimDisk, SimError};

use super::{How, NEW, World, content, digest, name, names, path, put, read, with_quota, write};
use crate::{Existing, VfsError};

/// What stands under the name before.
#[derive(Clone, Copy, PartialEq)]
enum Before {
    Nothing,
    Old,
}

/// Uploads 256 KiB while the n-th call from the open on fails. `None`: there is no n-th call.
async fn upload_with_fault(world: &World, n: u64, error: SimError, before: Before) -> Option<bool> {
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "small").await;
    let vfs = session.vfs();
    let old = content(1, 150_000);
    if before == Before::Old {
        put(vfs, "/f", &old).await.unwrap();
    }
    let new = content(n, 1 << 18);
    let calls = disk.calls();
    disk.fail(None, n, error);
    let sent = put(vfs, "/f", &new).await;
    if disk.calls() < calls + n {
        return None;
    }
    let what = format!("call {n}, {error:?}: {sent:?}");
    let found = read(vfs, "/f").await;
    match (&sent, before) {
        (Ok(_), _) => assert!(found.as_ref() == Ok(&new), "{what}"),
        (Err(_), Before::Old) => assert!(found.as_ref() == Ok(&old), "{what}"),
        (Err(_), Before::Nothing) => assert_eq!(found.as_ref(), Err(&VfsError::NotFound), "{what}"),
    }
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    let refused = sent.is_err();
    // What came before the fault of the journal may be resumed; everything else gave its room back.
    let suspect = node.journal.usage().suspect;
    if refused && !suspect {
        let again = put(vfs, "/g", &content(1 << 40, 1 << 18)).await;
        assert!(again.is_ok(), "{what}: no room for the next: {again:?}");
    }
    session.close("done", 0, 0).await;
    let transfer = sent.as_ref().ok().map(|uploaded| uploaded.transfer);
    node.service.stop().await;
    let _ = node.journal.close().await;
    drop(node);
    // A start after it finds the same, and one event for what was acknowledged.
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "small").await;
    let arrivals = node.arrivals().await;
    let of = |id| arrivals.iter().filter(|file| Some(file.transfer) == id).count();
    match transfer {
        Some(_) => assert_eq!(of(transfer), 1, "{what}"),
        None => {
            let whole = arrivals.iter().any(|file| file.digests.blake3 == Some(digest(&new)));
            assert!(!whole, "{what}: refused and recorded");
            assert_eq!(read(session.vfs(), "/f").await, found, "{what}: changed by the start");
        }
    }
    node.stop().await;
    Some(refused)
}

async fn any_failing_call(before: Before) {
    let world = World::new().await;
    world.account("small", "/", with_quota(Some(3 << 18), None, None)).await;
    let mut refused = 0;
    for error in [SimError::Io, SimError::NoSpace] {
        let mut n = 1;
        while let Some(was_refused) = upload_with_fault(&world, n, error, before).await {
            refused += u32::from(was_refused);
            n += 1;
            assert!(n < 1_000, "an upload has no end");
        }
        assert!(n > 20, "only {n} calls were tried");
    }
    assert!(refused > 30, "only {refused} uploads were refused");
}

#[tokio::test]
async fn any_failing_call_leaves_nothing_under_a_new_name() {
    any_failing_call(Before::Nothing).await;
}

#[tokio::test]
async fn any_failing_call_leaves_the_old_file() {
    any_failing_call(Before::Old).await;
}

#[tokio::test]
async fn a_failed_fsync_is_never_retried_into_a_success() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    put(session.vfs(), "/f", b"old").await.unwrap();
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, b"new").await.unwrap();
    disk.fail(Some(DiskCall::SyncFile), 1, SimError::Io);
    assert!(matches!(upload.sync().await, Err(VfsError::Io { .. })));
    assert!(upload.finish().await.is_err(), "published after a failed fsync");
    assert_eq!(read(session.vfs(), "/f").await.unwrap(), b"old");
    assert_eq!(node.staged().await, 0);
}

#[tokio::test]
async fn a_sick_store_is_told_and_works_again_after_a_probe() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    put(session.vfs(), "/before", b"x").await.unwrap();
    assert!(node.service.stores().iter().any(|store| store.endpoint == name("files")));
    assert!(node.service.sick_stores().is_empty());
    // The directory cannot be synced, and the rename cannot be undone.
    disk.fail(Some(DiskCall::SyncDir), 1, SimError::Io);
    disk.fail(Some(DiskCall::Rename), 2, SimError::Io);
    let sent = put(session.vfs(), "/f", b"whole").await;
    assert!(matches!(sent, Err(VfsError::Busy { .. })), "{sent:?}");
    let sick: Vec<_> = node.service.sick_stores().into_iter().map(|it| it.endpoint).collect();
    assert_eq!(sick, [name("files")]);
    assert!(put(session.vfs(), "/g", b"x").await.is_err());
    // As long as it is sick nothing is said of the file.
    disk.fail(Some(DiskCall::SyncFile), 1, SimError::Io);
    node.service.probe_sick().await;
    node.service.sweep().await;
    assert_eq!((node.service.sick_stores().len(), node.arrivals().await.len()), (1, 1));
    node.service.probe_sick().await;
    assert!(node.service.sick_stores().is_empty());
    put(session.vfs(), "/g", b"x").await.unwrap();
    // The file that was visible all the time has its event, without a restart.
    let paths: Vec<_> = node.arrivals().await.into_iter().map(|file| file.path).collect();
    assert_eq!(paths, ["/before", "/f", "/g"]);
}

#[tokio::test]
async fn a_refused_write_poisons_the_upload() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, b"begin").await.unwrap();
    disk.fail(Some(DiskCall::Write), 1, SimError::NoSpace);
    assert_eq!(write(&mut upload, 5, b"middle").await, Err(VfsError::NoSpace));
    assert!(write(&mut upload, 5, b"middle").await.is_err(), "taken after a refusal");
    assert_eq!(upload.finish().await, Err(VfsError::NoSpace));
    assert!(names(session.vfs(), "/").await.unwrap().is_empty());
    assert_eq!(node.staged().await, 0);
    let events = node.events().await;
    let told = |event: &&entrepot_nouns::Event| {
        matches!(&event.fact, Fact::FileInterrupted { kept: false, .. })
    };
    assert_eq!(events.iter().filter(told).count(), 1);
}

#[tokio::test]
async fn a_full_disk_gives_room_back_and_works_again() {
    let world = World::new().await;
    // A memory store: a simulated disk keeps what its durable image still names.
    let target = MemoryTarget { size_bytes: Some(2 << 20) };
    let files = entrepot_storage::memory::open(&target, &world.env).unwrap();
    let stores = HashMap::from([(name("files"), files.clone())]);
    let disk = SimDisk::new(&world.env);
    let mut node = world.start_on(&disk, &How::default(), stores).await.unwrap();
    node.files = Some(files);
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    put(vfs, "/keep", &content(1, 200_000)).await.unwrap();
    for round in 0..3 {
        let full = put(vfs, "/big", &content(2, 4 << 20)).await;
        assert_eq!(full, Err(VfsError::NoSpace), "round {round}");
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        assert_eq!(node.staged().await, 0, "round {round}");
    }
    assert_eq!(names(vfs, "/").await.unwrap(), ["keep"]);
    put(vfs, "/fits", &content(3, 900_000)).await.unwrap();
    vfs.remove(&path("/fits")).await.unwrap();
    put(vfs, "/fits", &content(4, 900_000)).await.unwrap();
    assert_eq!(read(vfs, "/keep").await.unwrap(), content(1, 200_000));
}

#[tokio::test]
async fn changes_of_names_survive_any_failing_call() {
    let world = World::new().await;
    for n in 1.. {
        let disk = SimDisk::new(&world.env);
        let node = world.start(&disk, &How::default()).await;
        let session = world.session(&node, "alice").await;
        let vfs = session.vfs();
        put(vfs, "/a", b"a").await.unwrap();
        put(vfs, "/b", b"b").await.unwrap();
        let calls = disk.calls();
        disk.fail(None, n, SimError::Io);
        let renamed = vfs.rename(&path("/a"), &path("/b"), Existing::Replace).await;
        let removed = vfs.remove(&path("/b")).await;
        if disk.calls() < calls + n {
            assert!(n > 6, "only {n} calls were tried");
            return;
        }
        let left = names(vfs, "/").await.unwrap();
        let wanted: &[&[&str]] = match (&renamed, &removed) {
            (Ok(_), Ok(())) => &[&[]],
            (Ok(_), Err(_)) => &[&["b"], &[]],
            (Err(_), Ok(())) => &[&["a"]],
            (Err(_), Err(_)) => &[&["a", "b"]],
        };
        assert!(
            wanted.iter().any(|wanted| left == *wanted),
            "call {n}: {left:?} after {renamed:?} and {removed:?}"
        );
    }
}
