//! Cut uploads to a bucket: what whole parts hold is resumed, also by another process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::ObjectTarget;
use entrepot_storage::fault::{Cut, Fault, FaultStore, SimDisk, StoreCall};
use entrepot_storage::{AnyStore, Existing, ResolvedSecrets, limits::PART_BYTES, object};
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};

use super::{CONTINUE, How, NEW, Node, World, content, digest, name, path, put, read};
use crate::{Session, Upload, VfsError};

const PART: u64 = PART_BYTES as u64;

/// The bucket as a new process sees it: it knows of no upload.
pub(super) fn bucket(server: &S3Server, world: &World) -> AnyStore {
    let target = ObjectTarget {
        url: Some(server.url()),
        access_key_id: Some(ACCESS_KEY_ID.to_owned()),
        allow_private: true,
        ..ObjectTarget::new(BUCKET)
    };
    let secret = Some(SECRET_KEY.to_owned().into());
    object::open(&target, &ResolvedSecrets { secret, private_key: None }, &world.env).unwrap()
}

pub(super) async fn start(
    world: &World,
    disk: &SimDisk,
    server: &S3Server,
    boot: &'static str,
) -> Node {
    let stores = HashMap::from([(name("files"), bucket(server, world))]);
    world.start_on(disk, &How { boot, ..How::default() }, stores).await.unwrap()
}

/// As an adapter writes, from what is there on.
async fn go_on(upload: &mut Upload, bytes: &[u8]) {
    for chunk in bytes.chunks(100_003) {
        upload.write_at(upload.size(), Bytes::copy_from_slice(chunk)).await.unwrap();
    }
}

/// An upload of two parts and a bit.
async fn begun(session: &Session, whole: &[u8]) -> Upload {
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    go_on(&mut upload, &whole[..2 * PART_BYTES + 70_000]).await;
    upload
}

async fn resumed(session: &Session, from: u64, whole: &[u8]) {
    let seen = session.vfs().stat(&path("/f")).await.unwrap();
    assert_eq!((seen.size, seen.partial), (from, true));
    let mut upload = session.vfs().create(&path("/f"), CONTINUE).await.unwrap();
    assert_eq!(upload.size(), from);
    go_on(&mut upload, &whole[from as usize..]).await;
    let uploaded = upload.finish().await.unwrap();
    assert_eq!(uploaded.digests.blake3, Some(digest(whole)));
    assert!(read(session.vfs(), "/f").await.unwrap() == whole);
}

#[tokio::test]
async fn whole_parts_are_resumed_in_the_same_process_and_in_another() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let disk = SimDisk::new(&world.env);
    let whole = content(11, 3 * PART_BYTES + 500_000);
    let node = start(&world, &disk, &server, "boot-1").await;
    let session = world.session(&node, "alice").await;
    drop(begun(&session, &whole).await);
    resumed(&session, 2 * PART, &whole).await;
    session.vfs().remove(&path("/f")).await.unwrap();

    // Cut twice, the second time by the end of the process.
    drop(begun(&session, &whole).await);
    let mut upload = session.vfs().create(&path("/f"), CONTINUE).await.unwrap();
    go_on(&mut upload, &whole[2 * PART_BYTES..3 * PART_BYTES + 1]).await;
    upload.interrupt("the server is stopping").await;
    drop(session);
    node.stop().await;
    let node = start(&world, &disk, &server, "boot-2").await;
    assert_eq!(node.report.partials, 1);
    let session = world.session(&node, "alice").await;
    resumed(&session, 3 * PART, &whole).await;
    assert_eq!(server.orphan_parts().unwrap(), 0);
    // Less than a part cannot be kept.
    let mut upload = session.vfs().create(&path("/g"), NEW).await.unwrap();
    go_on(&mut upload, &whole[..PART_BYTES]).await;
    drop(upload);
    assert_eq!(session.vfs().stat(&path("/g")).await, Err(VfsError::NotFound));
}

#[tokio::test]
async fn an_upload_is_resumed_after_a_crash_and_swept_after_its_time() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let disk = SimDisk::new(&world.env);
    let whole = content(12, 3 * PART_BYTES + 5);
    let node = start(&world, &disk, &server, "boot-1").await;
    let session = world.session(&node, "alice").await;
    let upload = begun(&session, &whole).await;
    node.journal.sync(node.journal.usage().appended).await.unwrap();
    let disk = disk.cut(1, Cut::Strict);
    // What the dead process would still say is not heard.
    let node = start(&world, &disk, &server, "boot-2").await;
    let other = world.session(&node, "alice").await;
    resumed(&other, 2 * PART, &whole).await;
    drop((upload, session));

    other.vfs().remove(&path("/f")).await.unwrap();
    begun(&other, &whole).await.interrupt("cut").await;
    drop(other);
    node.stop().await;
    let node = start(&world, &disk, &server, "boot-3").await;
    assert!(server.orphan_parts().unwrap() > 0);
    world.env.advance(Duration::from_secs(8 * 86_400));
    node.service.sweep().await;
    assert_eq!(server.orphan_parts().unwrap(), 0, "not swept after its time");
    let session = world.session(&node, "alice").await;
    assert_eq!(session.vfs().stat(&path("/f")).await, Err(VfsError::NotFound));
    put(session.vfs(), "/f", b"anew").await.unwrap();
}

/// The intent holds the multipart upload: the last short part is lost with the process.
#[tokio::test]
async fn a_crash_between_intent_and_completion_leaves_the_whole_parts() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let disk = SimDisk::new(&world.env);
    let whole = content(16, 2 * PART_BYTES + 70_000);
    let store = FaultStore::new(bucket(&server, &world));
    store.fail(Some(StoreCall::Publish), 1, Fault::Delay(Duration::from_secs(3600)));
    let stores = HashMap::from([(name("files"), Arc::new(store.clone()) as AnyStore)]);
    let node = world.start_on(&disk, &How::default(), stores).await.unwrap();
    let session = world.session(&node, "alice").await;
    let finishing = tokio::spawn(begun(&session, &whole).await.finish());
    while !store.log().contains(&StoreCall::Publish) {
        tokio::task::yield_now().await;
    }
    let disk = disk.cut(1, Cut::Strict);
    let node = start(&world, &disk, &server, "boot-2").await;
    assert_eq!((node.report.unpublished, node.report.partials), (1, 1), "{:?}", node.report);
    let other = world.session(&node, "alice").await;
    resumed(&other, 2 * PART, &whole).await;
    assert_eq!(server.orphan_parts().unwrap(), 0);
    finishing.abort();
}

/// All copies first, then the old names: the record says that it was renamed when none is left.
#[tokio::test]
async fn a_crash_in_the_rename_of_a_directory_leaves_each_file_under_a_name() {
    for old_names in [&["a", "b"][..], &["b"], &[]] {
        let (world, server) = (World::new().await, S3Server::start().unwrap());
        let disk = SimDisk::new(&world.env);
        let store = FaultStore::new(bucket(&server, &world));
        store.fail(Some(StoreCall::Rename), 1, Fault::Delay(Duration::from_secs(3600)));
        let stores = HashMap::from([(name("files"), Arc::new(store.clone()) as AnyStore)]);
        let node = world.start_on(&disk, &How::default(), stores).await.unwrap();
        let session = world.session(&node, "alice").await;
        session.vfs().make_directory(&path("/old")).await.unwrap();
        for file in ["a", "b"] {
            put(session.vfs(), &format!("/old/{file}"), file.as_bytes()).await.unwrap();
        }
        let vfs = session.vfs().clone();
        let renaming = tokio::spawn(async move {
            vfs.rename(&path("/old"), &path("/new"), Existing::Refuse).await
        });
        while !store.log().contains(&StoreCall::Rename) {
            tokio::task::yield_now().await;
        }
        // As far as the dead process came.
        let (old, new) = (server.objects().join("old"), server.objects().join("new"));
        std::fs::create_dir(&new).unwrap();
        for entry in std::fs::read_dir(&old).unwrap().flatten() {
            let file = entry.file_name();
            std::fs::copy(entry.path(), new.join(&file)).unwrap();
            if !old_names.iter().any(|name| *name == file) {
                std::fs::remove_file(entry.path()).unwrap();
            }
        }
        let disk = disk.cut(1, Cut::Strict);
        let node = start(&world, &disk, &server, "boot-2").await;
        let done = u64::from(old_names.is_empty());
        assert_eq!((node.report.changes, node.report.undone), (done, 1 - done));
        let other = world.session(&node, "alice").await;
        for file in ["a", "b"] {
            let there = read(other.vfs(), &format!("/new/{file}")).await.unwrap();
            assert_eq!(there, file.as_bytes());
        }
        let again = other.vfs().rename(&path("/old"), &path("/new"), Existing::Refuse).await;
        assert!(again.is_err(), "two directories became one");
        renaming.abort();
    }
}

/// Clients that write in any order, read back and cut: all that is not at the store yet can change.
#[tokio::test]
async fn what_a_bucket_cannot_take_in_order_goes_over_the_disk() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let spool = folder.path().join("spool");
    let node = start_spooling(&world, &SimDisk::new(&world.env), &server, &spool).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let whole = content(14, 4 * PART_BYTES + 9);
    drop(begun(&session, &whole).await);
    resumed(&session, 2 * PART, &whole).await;
    assert_eq!(node.service.meters().spooled(), 0, "in order nothing is spooled");

    // A little file changes at its head; a large one behind what was sent.
    for (sent, at) in [(60_000, 3), (2 * PART_BYTES + 500, 2 * PART_BYTES + 1)] {
        let mut wanted = whole[..sent].to_vec();
        let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
        go_on(&mut upload, &wanted).await;
        upload.write_at(at as u64, Bytes::from_static(b"again")).await.unwrap();
        wanted[at..at + 5].copy_from_slice(b"again");
        let back = upload.read_at(at as u64 - 1, BytesMut::new(), 100).await.unwrap();
        assert_eq!(back[..], wanted[at - 1..at + 99]);
        upload.set_len(sent as u64 - 50).await.unwrap();
        wanted.truncate(sent - 50);
        upload.write_at(sent as u64, Bytes::from_static(b"behind a hole")).await.unwrap();
        wanted.resize(sent, 0);
        wanted.extend_from_slice(b"behind a hole");
        let uploaded = upload.finish().await.unwrap();
        assert_eq!(uploaded.digests.blake3, Some(digest(&wanted)), "{sent}");
        assert!(read(vfs, "/f").await.unwrap() == wanted, "{sent}");
    }
    // From the last byte to the first, further apart than memory goes.
    let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
    let chunks: Vec<_> = whole.chunks(1 << 20).enumerate().collect();
    for (number, chunk) in chunks.into_iter().rev() {
        upload.write_at((number as u64) << 20, Bytes::copy_from_slice(chunk)).await.unwrap();
    }
    assert!(node.service.meters().spool_bytes() > 16 << 20);
    assert_eq!(upload.finish().await.unwrap().digests.blake3, Some(digest(&whole)));
    assert!(read(vfs, "/f").await.unwrap() == whole);
    node.stop().await;
}

#[tokio::test]
async fn a_spool_holds_what_was_announced_and_nothing_stays_of_it() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let (disk, spool) = (SimDisk::new(&world.env), folder.path().join("spool"));
    let node = start_spooling(&world, &disk, &server, &spool).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let mut wanted = content(15, 2 * PART_BYTES + 100_000);
    put(vfs, "/f", &wanted).await.unwrap();
    // What is laid over may change anywhere where the client says so before.
    let mut upload = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    upload.expect_any_order().await.unwrap();
    for at in [2 * PART_BYTES, 7, 7] {
        upload.write_at(at as u64, Bytes::from_static(b"new")).await.unwrap();
        wanted[at..at + 3].copy_from_slice(b"new");
    }
    upload.finish().await.unwrap();
    assert!(read(vfs, "/f").await.unwrap() == wanted);

    // What was sent cannot change: nothing is published.
    let mut upload = begun(&session, &wanted).await;
    let refused = upload.write_at(0, Bytes::from_static(b"head")).await;
    assert_eq!(refused, Err(VfsError::Unsupported));
    assert_eq!(upload.finish().await.err(), Some(VfsError::Unsupported));
    assert!(read(vfs, "/f").await.unwrap() == wanted);
    while node.service.meters().spool_bytes() > 0 {
        tokio::task::yield_now().await;
    }
    let left = entrepot_storage::fs::open(&spool, &world.env).await.unwrap();
    assert!(left.staged().await.unwrap().is_empty());
    assert_eq!(server.orphan_parts().unwrap(), 0);

    // What a dead process left goes at the next start.
    drop(left.stage(world.env.new_id(), &"left".parse().unwrap()).await.unwrap());
    assert_eq!(left.staged().await.unwrap().len(), 1);
    drop(session);
    node.stop().await;
    let node = start_spooling(&world, &disk, &server, &spool).await;
    assert!(left.staged().await.unwrap().is_empty());
    node.stop().await;
}

async fn start_spooling(
    world: &World,
    disk: &SimDisk,
    server: &S3Server,
    spool: &std::path::Path,
) -> Node {
    let stores = HashMap::from([(name("files"), bucket(server, world))]);
    let how = How { spool: Some(spool.to_owned()), ..How::default() };
    world.start_on(disk, &how, stores).await.unwrap()
}

/// The state of SHA-256 is not noted: with the process the upload is lost.
#[tokio::test]
async fn with_sha256_an_upload_is_resumed_in_the_same_process_only() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    world.account("carol", "/", |mount| mount.sha256 = true).await;
    let disk = SimDisk::new(&world.env);
    let whole = content(13, 2 * PART_BYTES + 100_000);
    let node = start(&world, &disk, &server, "boot-1").await;
    let session = world.session(&node, "carol").await;
    drop(begun(&session, &whole).await);
    resumed(&session, 2 * PART, &whole).await;
    let arrived = node.arrivals().await.pop().unwrap();
    assert!(arrived.digests.sha256.is_some());
    session.vfs().remove(&path("/f")).await.unwrap();
    begun(&session, &whole).await.interrupt("cut").await;
    drop(session);
    node.stop().await;
    let node = start(&world, &disk, &server, "boot-1").await;
    assert_eq!(node.report.partials, 0);
    let session = world.session(&node, "carol").await;
    assert_eq!(session.vfs().stat(&path("/f")).await, Err(VfsError::NotFound));
    while server.orphan_parts().unwrap() > 0 {
        tokio::task::yield_now().await;
    }
}
