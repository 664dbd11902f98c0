//! Cut uploads to a bucket: what whole parts hold is resumed, also by another process.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use entrepot_model::endpoint::{ObjectProvider, ObjectTarget};
use entrepot_storage::fault::{Cut, SimDisk};
use entrepot_storage::{AnyStore, ResolvedSecrets, limits::PART_BYTES, object};
use entrepot_testkit::s3::{ACCESS_KEY_ID, BUCKET, S3Server, SECRET_KEY};

use super::{CONTINUE, How, NEW, Node, World, content, digest, name, path, put, read};
use crate::{Session, Upload, VfsError};

const PART: u64 = PART_BYTES as u64;

/// The bucket as a new process sees it: it knows of no upload.
fn bucket(server: &S3Server, world: &World) -> AnyStore {
    let target = ObjectTarget {
        provider: ObjectProvider::S3,
        bucket: BUCKET.to_owned(),
        prefix: String::new(),
        url: Some(server.url()),
        region: None,
        access_key_id: Some(ACCESS_KEY_ID.to_owned()),
        secret_key_sealed: None,
        secret_key: None,
        allow_private: true,
    };
    let secret = Some(SECRET_KEY.to_owned().into());
    object::open(&target, &ResolvedSecrets { secret, private_key: None }, &world.env).unwrap()
}

async fn start(world: &World, disk: &SimDisk, server: &S3Server, boot: &'static str) -> Node {
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
