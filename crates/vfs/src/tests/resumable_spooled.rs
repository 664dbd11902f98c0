//! Uploads by id to a store that takes bytes only in order: they wait on the local disk.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use entrepot_storage::AnyStore;
use entrepot_storage::fault::{Cut, Fault, FaultStore, SimDisk, StoreCall};
use entrepot_storage::limits::PART_BYTES;
use entrepot_testkit::s3::S3Server;

use super::objects::bucket;
use super::resumable::{PLAIN, append, begin, by_parts, of_size, part};
use super::{How, Node, World, content, digest, name, path, put, read};
use crate::{NewResumable, OnConflict, VfsError};

async fn start(world: &World, disk: &SimDisk, store: AnyStore, spool: Option<&Path>) -> Node {
    let stores = HashMap::from([(name("files"), store)]);
    let how = How { spool: spool.map(Path::to_owned), boot: "boot-1", ..How::default() };
    world.start_on(disk, &how, stores).await.unwrap()
}

async fn spooled(spool: &Path, world: &World) -> usize {
    let spool = entrepot_storage::fs::open(spool, &world.env).await.unwrap();
    spool.staged().await.unwrap().len()
}

#[tokio::test]
async fn a_bucket_gets_the_whole_file_at_the_finish() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(&world.env);
    let whole = content(1, PART_BYTES + 300_001);
    let node = start(&world, &disk, bucket(&server, &world), Some(folder.path())).await;
    let session = world.session(&node, "alice").await;
    let in_order = begin(&session, "/f", PLAIN).await;
    let parts = begin(&session, "/g", by_parts(whole.len())).await;
    let dropped = begin(&session, "/h", of_size(9)).await;
    // Pieces that are smaller than a part of an object count all the same.
    assert_eq!(append(&in_order, 0, &whole[..100_000]).await, Ok(100_000));
    let count = whole.len().div_ceil(super::resumable::PART as usize) as u64;
    for number in (0..count).rev().filter(|number| number % 5 != 0) {
        part(&parts, number, &whole).await.unwrap();
    }
    drop(session);
    node.stop().await;

    let node = start(&world, &disk, bucket(&server, &world), Some(folder.path())).await;
    let session = world.session(&node, "alice").await;
    let (in_order, parts) = (in_order.id().clone(), parts.id().clone());
    let in_order = session.vfs().resumable(&in_order);
    let parts = session.vfs().resumable(&parts);
    assert_eq!(append(&in_order, 100_000, &whole[100_000..]).await, Ok(whole.len() as u64));
    for number in (0..count).filter(|number| number % 5 == 0) {
        part(&parts, number, &whole).await.unwrap();
    }
    for (upload, at) in [(in_order, "/f"), (parts, "/g")] {
        let uploaded = upload.finish().await.unwrap();
        assert_eq!(uploaded.digests.blake3, Some(digest(&whole)), "{at}");
        assert!(read(session.vfs(), at).await.unwrap() == whole, "{at}");
    }
    assert_eq!(spooled(folder.path(), &world).await, 1);
    session.vfs().resumable(dropped.id()).terminate().await.unwrap();
    assert_eq!(spooled(folder.path(), &world).await, 0);
    assert_eq!((node.arrivals().await.len(), server.orphan_parts().unwrap()), (2, 0));
    node.stop().await;
}

#[tokio::test]
async fn a_finish_that_fails_or_dies_leaves_all_bytes_on_the_disk() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let disk = SimDisk::new(&world.env);
    let whole = content(2, PART_BYTES + 70_000);
    let store = FaultStore::new(bucket(&server, &world));
    let node = start(&world, &disk, Arc::new(store.clone()), Some(folder.path())).await;
    let session = world.session(&node, "alice").await;
    let keep_old = NewResumable { on_conflict: OnConflict::Refuse, ..PLAIN };
    let upload = begin(&session, "/f", keep_old).await;
    append(&upload, 0, &whole).await.unwrap();
    store.fail(Some(StoreCall::Write), 1, Fault::Io);
    assert!(upload.finish().await.is_err());
    assert_eq!(upload.status().await.unwrap().offset, whole.len() as u64);
    put(session.vfs(), "/f", b"old").await.unwrap();
    assert_eq!(upload.finish().await, Err(VfsError::Exists));
    session.vfs().remove(&path("/f")).await.unwrap();

    // The process dies in the middle of the publish.
    store.fail(Some(StoreCall::Publish), 1, Fault::Delay(Duration::from_secs(3600)));
    let finishing = tokio::spawn({
        let upload = upload.clone();
        async move { upload.finish().await }
    });
    let published = || store.log().iter().filter(|call| **call == StoreCall::Publish).count();
    let before = published();
    while published() == before {
        tokio::task::yield_now().await;
    }
    let disk = disk.cut(1, Cut::Strict);
    let node = start(&world, &disk, bucket(&server, &world), Some(folder.path())).await;
    assert_eq!((node.report.unpublished, node.report.partials), (1, 1), "{:?}", node.report);
    let other = world.session(&node, "alice").await;
    let upload = other.vfs().resumable(upload.id());
    assert_eq!(upload.status().await.unwrap().offset, whole.len() as u64);
    assert_eq!(upload.finish().await.unwrap().digests.blake3, Some(digest(&whole)));
    assert!(read(other.vfs(), "/f").await.unwrap() == whole);
    assert_eq!(spooled(folder.path(), &world).await, 0);
    finishing.abort();
}

#[tokio::test]
async fn without_a_spool_such_a_store_takes_no_upload_by_id() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let node = start(&world, &SimDisk::new(&world.env), bucket(&server, &world), None).await;
    let session = world.session(&node, "alice").await;
    let created = session.vfs().create_resumable(&path("/f"), of_size(9)).await;
    assert_eq!(created.err(), Some(VfsError::Unsupported));
}
