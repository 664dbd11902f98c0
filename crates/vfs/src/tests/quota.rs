//! Quotas: never passed, and given back however an upload ends.

use entrepot_storage::fault::SimDisk;

use super::{CONTINUE, How, NEW, World, content, path, put, read, with_quota, write};
use crate::VfsError;

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
