//! Quotas: never passed, and given back however an upload ends.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Endpoint, Fact, SiteId};
use entrepot_storage::fault::{Fault, FaultStore, SimDisk, SimStore, StoreCall};
use entrepot_storage::{AnyStore, Publish};

use super::{CONTINUE, How, NEW, World, content, name, path, put, read, with_quota, write};
use crate::{Existing, VfsError, limits};

#[tokio::test]
async fn bytes_and_files_are_limited_and_come_back() {
    let world = World::new().await;
    world
        .account("q", "/", |mount| {
            mount.prefix = "homes/q".to_owned();
            with_quota(Some(10_000), Some(3), Some(8_000))(mount);
        })
        .await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "q").await;
    let vfs = session.vfs();
    put(vfs, "/a", &content(1, 6_000)).await.unwrap();
    let over = put(vfs, "/b", &content(2, 5_000)).await;
    assert_eq!(over, Err(VfsError::Quota { what: "bytes", limit: 10_000 }));
    let large = put(vfs, "/b", &content(2, 8_001)).await;
    assert_eq!(large, Err(VfsError::Quota { what: "bytes a file", limit: 8_000 }));
    put(vfs, "/b", &content(2, 4_000)).await.unwrap();
    assert_eq!(vfs.space(&path("/")).await.unwrap().free_bytes, 0);
    vfs.remove(&path("/a")).await.unwrap();
    let space = vfs.space(&path("/")).await.unwrap();
    assert_eq!((space.total_bytes, space.free_bytes), (10_000, 6_000));
    put(vfs, "/a", b"1").await.unwrap();
    put(vfs, "/c", b"1").await.unwrap();
    assert_eq!(put(vfs, "/d", b"1").await, Err(VfsError::Quota { what: "files", limit: 3 }));
    put(vfs, "/c", b"22").await.unwrap();
    let space = vfs.space(&path("/")).await.unwrap();
    assert_eq!((space.free_bytes, space.free_files), (5_997, 0));
}

#[tokio::test]
async fn a_quota_that_fills_is_told_once_until_it_was_emptier() {
    let world = World::new().await;
    let limits = with_quota(Some(1_000), Some(20), None);
    world
        .account("q", "/", |mount| {
            mount.prefix = "homes/q".to_owned();
            limits(mount);
        })
        .await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "q").await;
    let vfs = session.vfs();
    let reached = async || {
        let events = node.events().await.into_iter();
        events.filter(|event| event.fact.kind() == "quota.reached").collect::<Vec<_>>()
    };
    let mut told = Vec::new();
    for (name, size) in
        [("/a", 790), ("/b", 10), ("/c", 50), ("/c", 45), ("/d", 60), ("/e", 95), ("/f", 0)]
    {
        put(vfs, name, &content(1, size)).await.unwrap();
        told.push((name, reached().await.len()));
    }
    let wanted = [("/a", 0), ("/b", 1), ("/c", 1), ("/c", 1), ("/d", 2), ("/e", 3), ("/f", 3)];
    assert_eq!(told, wanted);
    vfs.remove(&path("/a")).await.unwrap();
    put(vfs, "/a", &content(1, 600)).await.unwrap();
    let events = reached().await;
    let Fact::QuotaReached { quota } = &events[3].fact else { panic!("{events:?}") };
    assert_eq!((quota.endpoint.as_str(), quota.folder.as_str()), ("files", "homes/q"));
    assert_eq!((quota.percent, quota.bytes, quota.files), (80, 810, 6));
    assert_eq!(events[3].account, Some(name("q")));
}

#[tokio::test]
async fn what_is_promised_to_uploads_counts_until_they_end() {
    let world = World::new().await;
    world.account("q", "/", with_quota(Some(100_000), None, None)).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "q").await;
    let vfs = session.vfs();
    let announced = crate::Create { expected_size: Some(60_000), ..NEW };
    let first = vfs.create(&path("/a"), announced).await.unwrap();
    let second = vfs.create(&path("/b"), announced).await;
    assert_eq!(second.err(), Some(VfsError::Quota { what: "bytes", limit: 100_000 }));
    first.abort().await;
    let mut second = vfs.create(&path("/b"), announced).await.unwrap();
    write(&mut second, 0, &content(1, 60_000)).await.unwrap();
    drop(second);
    // The partial lies in staging and counts.
    assert_eq!(vfs.space(&path("/")).await.unwrap().free_bytes, 40_000);
    let resumed = vfs.create(&path("/b"), CONTINUE).await.unwrap();
    assert_eq!(resumed.size(), 60_000);
    resumed.finish().await.unwrap();
    assert_eq!(vfs.space(&path("/")).await.unwrap().free_bytes, 40_000);
}

#[tokio::test]
async fn room_that_is_reserved_is_nobody_elses_until_it_is_dropped() {
    let world = World::new().await;
    world.account("q", "/", with_quota(Some(100_000), None, Some(90_000))).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "q").await;
    let vfs = session.vfs();
    let bytes = VfsError::Quota { what: "bytes", limit: 100_000 };
    let room = vfs.reserve(&path("/"), 80_000).await.unwrap();
    assert_eq!(put(vfs, "/a", &content(1, 30_000)).await, Err(bytes.clone()));
    assert_eq!(vfs.reserve(&path("/"), 30_000).await.err(), Some(bytes));
    drop(room);
    put(vfs, "/a", &content(1, 30_000)).await.unwrap();
    let file = VfsError::Quota { what: "bytes a file", limit: 90_000 };
    assert_eq!(vfs.reserve(&path("/"), 90_001).await.err(), Some(file));
}

#[tokio::test]
async fn what_was_there_before_is_counted() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    session.vfs().make_directory(&path("/d")).await.unwrap();
    put(session.vfs(), "/d/x", &content(1, 900)).await.unwrap();
    put(session.vfs(), "/y", &content(1, 90)).await.unwrap();
    world.account("q", "/", with_quota(Some(1_000), Some(5), None)).await;
    let theirs = world.session(&node, "q").await;
    assert!(put(theirs.vfs(), "/z", &content(1, 11)).await.is_err(), "990 of 1,000 are used");
    put(theirs.vfs(), "/z", &content(1, 10)).await.unwrap();
    // Whoever removes it, it is given back.
    session.vfs().remove(&path("/d/x")).await.unwrap();
    put(theirs.vfs(), "/w", &content(1, 900)).await.unwrap();
    assert_eq!(read(theirs.vfs(), "/w").await.unwrap().len(), 900);
}

#[tokio::test(start_paused = true)]
async fn what_changes_while_it_is_counted_counts_once() {
    let world = World::new().await;
    world.account("q", "/", with_quota(Some(10_000), Some(10), None)).await;
    let disk = SimDisk::new(&world.env);
    let files = FaultStore::new(SimStore::open_in(&disk, "files", &world.env).unwrap());
    let stores = HashMap::from([(name("files"), Arc::new(files.clone()) as AnyStore)]);
    let node = world.start_on(&disk, &How::default(), stores).await.unwrap();
    let session = world.session(&node, "q").await;
    let vfs = session.vfs();
    vfs.make_directory(&path("/d")).await.unwrap();
    for at in ["/a", "/b", "/d/c", "/d/e"] {
        put(vfs, at, &content(1, 1_000)).await.unwrap();
    }
    let lists = || files.log().iter().filter(|call| **call == StoreCall::List).count();
    // The removals come while the directory above, or their own, is being listed.
    for (nth, gone, moved) in [(1, "/a", "/d/c"), (2, "/d/e", "/b")] {
        world.env.advance(limits::RECOUNT_EVERY);
        let before = lists();
        files.fail(Some(StoreCall::List), nth, Fault::Delay(Duration::from_secs(60)));
        let counting = node.service.clone();
        let counting = tokio::spawn(async move { counting.sweep().await });
        while lists() < before + usize::try_from(nth).unwrap() {
            tokio::task::yield_now().await;
        }
        vfs.remove(&path(gone)).await.unwrap();
        vfs.rename(&path(moved), &path(&format!("{moved}-moved")), Existing::Refuse).await.unwrap();
        put(vfs, "/new", &content(1, 100 * nth as usize)).await.unwrap();
        counting.await.unwrap();
        let space = vfs.space(&path("/")).await.unwrap();
        let left = (10_000 - (4 - nth) * 1_000 - nth * 100, 10 - (4 - nth) - 1);
        assert_eq!((space.free_bytes, space.free_files), left, "list {nth}");
    }
}

#[tokio::test]
async fn what_rules_put_into_a_counted_place_is_counted_and_held_to_its_quota() {
    let world = World::new().await;
    world
        .account("q", "/", |mount| {
            mount.prefix = "homes/q".to_owned();
            with_quota(Some(1_000), Some(3), None)(mount);
        })
        .await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "q").await;
    put(session.vfs(), "/mine", &content(1, 300)).await.unwrap();
    let endpoint = world.db.find::<Endpoint>(SiteId::MAIN, &name("files")).await.unwrap().unwrap();
    let at = |text: &str| text.parse().unwrap();
    let held = node.service.hold_name(&endpoint, &at("homes/q/given"), 600).await.unwrap();
    // Reserved, and nobody else changes the name.
    assert_eq!(session.vfs().space(&path("/")).await.unwrap().free_bytes, 100);
    let mut upload = session.vfs().create(&path("/given"), NEW).await.unwrap();
    write(&mut upload, 0, b"mine").await.unwrap();
    let mut finish = Box::pin(upload.finish());
    for _ in 0..20 {
        let once = std::future::poll_fn(|context| {
            std::task::Poll::Ready(finish.as_mut().poll(context).is_ready())
        });
        assert!(!once.await, "the name is held");
        tokio::task::yield_now().await;
    }
    let store = node.files.clone().unwrap();
    let given = store.stage(world.env.new_id(), &at("homes/q/given")).await.unwrap();
    assert!(given.try_write_at(0, &[1; 600]).unwrap());
    given.sync().await.unwrap();
    let (existing, size) = (Existing::Replace, 600);
    let how = Publish { existing, accessed: None, modified: None, mode: None, size };
    given.publish(&how).await.unwrap();
    held.published();
    // A little is promised to the upload that waits.
    assert_eq!(session.vfs().space(&path("/")).await.unwrap().free_bytes, 94);
    assert!(finish.await.unwrap().replaced);
    let over = node.service.hold_name(&endpoint, &at("homes/q/more"), 800).await.err();
    assert_eq!(over, Some(VfsError::Quota { what: "bytes", limit: 1_000 }));
    let dropped = node.service.hold_name(&endpoint, &at("homes/q/more"), 100).await.unwrap();
    drop(dropped);
    // Elsewhere nothing is counted.
    node.service.hold_name(&endpoint, &at("homes/z/f"), 1 << 40).await.unwrap().published();
    assert_eq!(session.vfs().space(&path("/")).await.unwrap().free_files, 1);
}

#[tokio::test]
async fn many_at_once_cannot_pass_the_limit() {
    let world = World::new().await;
    world.account("q", "/", with_quota(Some(50_000), Some(100), None)).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "q").await;
    let mut all = tokio::task::JoinSet::new();
    for number in 0..20u64 {
        let vfs = session.vfs().clone();
        all.spawn(async move {
            let mut upload = vfs.create(&path(&format!("/f{number}")), NEW).await?;
            for at in 0..10 {
                write(&mut upload, at * 1_000, &content(number, 1_000)).await?;
                tokio::task::yield_now().await;
            }
            upload.finish().await
        });
    }
    let done = all.join_all().await.into_iter().filter(Result::is_ok).count();
    assert!(done <= 5, "{done} files of 10,000 bytes in 50,000");
    let free = session.vfs().space(&path("/")).await.unwrap().free_bytes;
    assert_eq!(free, 50_000 - 10_000 * done as u64);
}
