//! Files and trees copied: each file an upload, with its event; nothing half-done stays.

use entrepot_nouns::{Quota, Rights};
use entrepot_storage::fault::SimDisk;

use super::{How, World, content, digest, names, path, put, read};
use crate::limits::COPY_PIECE_BYTES;
use crate::{OnConflict, TreeCopy, VfsError};

async fn run(mut copy: TreeCopy) -> Result<TreeCopy, VfsError> {
    while copy.step().await? {}
    Ok(copy)
}

#[tokio::test]
async fn a_tree_is_copied_with_digests_events_and_times() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    for directory in ["/a", "/a/b", "/a/b/empty"] {
        vfs.make_directory(&path(directory)).await.unwrap();
    }
    let large = content(1, COPY_PIECE_BYTES as usize + 70_000);
    put(vfs, "/a/large", &large).await.unwrap();
    put(vfs, "/a/b/none", b"").await.unwrap();
    let old = Some(entrepot_nouns::Timestamp::from_seconds(1_600_000_000));
    vfs.set_times(&path("/a/b/none"), old, old).await.unwrap();
    let copy = vfs.copy(&path("/a"), &path("/c"), OnConflict::Refuse).await.unwrap();
    let copy = run(copy).await.unwrap();
    let progress = copy.progress();
    assert_eq!((progress.files, progress.directories, progress.links), (2, 3, 0));
    assert_eq!(progress.bytes, large.len() as u64);
    assert!(read(vfs, "/c/large").await.unwrap() == large);
    assert_eq!(Some(vfs.stat(&path("/c/b/none")).await.unwrap().modified), old);
    assert_eq!(names(vfs, "/c/b").await.unwrap(), ["empty", "none"]);
    let arrivals = node.arrivals().await;
    let arrived = arrivals.iter().find(|file| file.path == "/c/large").unwrap();
    assert_eq!(arrived.digests.blake3, Some(digest(&large)));
    assert_eq!(node.staged().await, 0);

    // Once more: refused, merged, beside it.
    let again = vfs.copy(&path("/a"), &path("/c"), OnConflict::Refuse).await;
    assert_eq!(again.err(), Some(VfsError::Exists));
    put(vfs, "/c/own", b"own").await.unwrap();
    put(vfs, "/c/large", b"other").await.unwrap();
    run(vfs.copy(&path("/a"), &path("/c"), OnConflict::Replace).await.unwrap()).await.unwrap();
    assert!(read(vfs, "/c/large").await.unwrap() == large);
    assert_eq!(names(vfs, "/c").await.unwrap(), ["b", "large", "own"]);
    let beside = vfs.copy(&path("/a"), &path("/c"), OnConflict::KeepBoth).await.unwrap();
    assert_eq!(run(beside).await.unwrap().target(), &path("/c (1)"));
    let file = vfs.copy(&path("/c/own"), &path("/c/own"), OnConflict::KeepBoth).await.unwrap();
    assert_eq!(run(file).await.unwrap().target(), &path("/c/own (1)"));
}

#[tokio::test]
async fn a_copy_that_is_given_up_leaves_nothing_of_the_file_at_hand() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    put(vfs, "/a", &content(1, 2 * COPY_PIECE_BYTES as usize)).await.unwrap();
    let mut copy = vfs.copy(&path("/a"), &path("/b"), OnConflict::Replace).await.unwrap();
    assert!(copy.step().await.unwrap());
    assert!(copy.progress().bytes > 0);
    drop(copy);
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
    assert_eq!(vfs.stat(&path("/b")).await, Err(VfsError::NotFound));
    assert_eq!(node.staged().await, 0);
}

#[tokio::test]
async fn a_directory_is_not_copied_into_itself_and_rights_and_quotas_hold() {
    let world = World::new().await;
    world.account("carol", "/rw", |_| {}).await;
    // The same directory once more, and one with a quota.
    world.mount("carol-again", "carol", "/again", |_| {}).await;
    let small = Quota { size_bytes: Some(1000), files: None, file_size_bytes: None };
    world
        .mount("carol-small", "carol", "/small", |mount| {
            mount.endpoint = super::name("other");
            mount.quota = Some(small);
        })
        .await;
    world.mount("carol-ro", "carol", "/ro", |mount| mount.rights = Rights::read_only()).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let carol = world.session(&node, "carol").await;
    let vfs = carol.vfs();
    vfs.make_directory(&path("/rw/d")).await.unwrap();
    put(vfs, "/rw/d/f", &content(1, 600)).await.unwrap();
    for to in ["/rw/d/e", "/again/d/e", "/rw/d"] {
        let refused = vfs.copy(&path("/rw/d"), &path(to), OnConflict::Replace).await;
        assert!(matches!(refused.err(), Some(VfsError::Denied { .. })), "{to}");
    }
    let refused = vfs.copy(&path("/rw/d"), &path("/ro/e"), OnConflict::Replace).await.unwrap();
    assert!(matches!(run(refused).await.err(), Some(VfsError::Denied { .. })));
    run(vfs.copy(&path("/rw/d"), &path("/small/d"), OnConflict::Replace).await.unwrap())
        .await
        .unwrap();
    let full = vfs.copy(&path("/rw/d"), &path("/small/e"), OnConflict::Replace).await.unwrap();
    assert!(matches!(run(full).await.err(), Some(VfsError::Quota { .. })));
    assert!(names(vfs, "/small/e").await.unwrap().is_empty());
    let gone = vfs.copy(&path("/rw/none"), &path("/rw/x"), OnConflict::Replace).await;
    assert_eq!(gone.err(), Some(VfsError::NotFound));
}
