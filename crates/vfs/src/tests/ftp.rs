//! Mounts on FTP servers, whose bytes go there and come back in order only.

use std::collections::HashMap;

use bytes::Bytes;
use entrepot_nouns::endpoint::{FtpTarget, FtpTls, PublishBy};
use entrepot_storage::fault::SimDisk;
use entrepot_storage::{AnyStore, ResolvedSecrets, ftp};
use entrepot_testkit::ftpd::Ftpd;

use super::{CONTINUE, How, NEW, Node, World, content, digest, name, path, put, read};
use crate::{Create, CreateIntent, Upload, VfsError};

const RESUME: Create = Create { intent: CreateIntent::Resume, ..CONTINUE };

/// The server as a new process sees it.
fn there(server: &Ftpd, world: &World, publish: PublishBy) -> AnyStore {
    let target = FtpTarget { publish, ..server.target() };
    let secret = Some(server.password().to_owned().into());
    ftp::open(&target, &ResolvedSecrets { secret, private_key: None }, &world.env).unwrap()
}

async fn start(world: &World, disk: &SimDisk, store: AnyStore, boot: &'static str) -> Node {
    let stores = HashMap::from([(name("files"), store)]);
    world.start_on(disk, &How { boot, ..How::default() }, stores).await.unwrap()
}

async fn go_on(upload: &mut Upload, bytes: &[u8]) {
    for chunk in bytes.chunks(65_537) {
        upload.write_at(upload.size(), Bytes::copy_from_slice(chunk)).await.unwrap();
    }
}

#[tokio::test]
async fn a_cut_upload_goes_on_and_its_digest_is_that_of_the_whole() {
    let servers = [Ftpd::vsftpd(FtpTls::Off).unwrap(), Ftpd::pyftpdlib(FtpTls::Off).unwrap()];
    for server in servers {
        let world = World::new().await;
        let disk = SimDisk::new(&world.env);
        let whole = content(31, 1_500_000);
        let store = there(&server, &world, PublishBy::Rename);
        let node = start(&world, &disk, store, "boot-1").await;
        let session = world.session(&node, "alice").await;
        put(session.vfs(), "/f", b"an older one").await.unwrap();
        let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
        go_on(&mut upload, &whole[..400_000]).await;
        drop(upload);
        let mut upload = session.vfs().create(&path("/f"), RESUME).await.unwrap();
        assert_eq!(upload.size(), 400_000);
        go_on(&mut upload, &whole[400_000..900_000]).await;
        // The second time by the end of the process.
        upload.interrupt("the server is stopping").await;
        assert_eq!(read(session.vfs(), "/f").await.unwrap(), b"an older one");
        drop(session);
        node.stop().await;
        let store = there(&server, &world, PublishBy::Rename);
        let node = start(&world, &disk, store.clone(), "boot-2").await;
        let session = world.session(&node, "alice").await;
        let mut upload = session.vfs().create(&path("/f"), RESUME).await.unwrap();
        assert_eq!(upload.size(), 900_000);
        go_on(&mut upload, &whole[900_000..]).await;
        let uploaded = upload.finish().await.unwrap();
        assert_eq!((uploaded.size, uploaded.replaced), (1_500_000, true));
        assert_eq!(uploaded.digests.blake3, Some(digest(&whole)));
        assert!(std::fs::read(server.folder().join("f")).unwrap() == whole);
        assert!(store.staged().await.unwrap().is_empty(), "a part is left");
    }
}

/// Written under its own name, a file is gone with the first byte of the next.
#[tokio::test]
async fn nothing_is_appended_where_files_are_written_under_their_own_names() {
    let server = Ftpd::vsftpd(FtpTls::Off).unwrap();
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = start(&world, &disk, there(&server, &world, PublishBy::Direct), "boot-1").await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let refused = vfs.create(&path("/new"), CONTINUE).await.unwrap();
    refused.abort().await;
    put(vfs, "/f", b"first").await.unwrap();
    let refused = vfs.create(&path("/f"), CONTINUE).await.err();
    assert_eq!(refused, Some(VfsError::Unsupported));
    assert_eq!(std::fs::read(server.folder().join("f")).unwrap(), b"first", "it was touched");
    put(vfs, "/f", b"second").await.unwrap();
    assert_eq!(std::fs::read(server.folder().join("f")).unwrap(), b"second");
    // Beside it there is room for both.
    let disk = SimDisk::new(&world.env);
    let node = start(&world, &disk, there(&server, &world, PublishBy::Rename), "boot-1").await;
    let session = world.session(&node, "alice").await;
    let mut upload = session.vfs().create(&path("/f"), CONTINUE).await.unwrap();
    upload.write_at(6, Bytes::from_static(b", third")).await.unwrap();
    let uploaded = upload.finish().await.unwrap();
    assert_eq!(uploaded.digests.blake3, Some(digest(b"second, third")));
    assert_eq!(std::fs::read(server.folder().join("f")).unwrap(), b"second, third");
}

/// What an earlier connection sent was hashed then, not now: nothing may be taken for its digest.
#[tokio::test]
async fn a_resumed_upload_in_another_order_has_the_digest_of_the_whole() {
    let server = Ftpd::vsftpd(FtpTls::Off).unwrap();
    let (world, folder) = (World::new().await, tempfile::tempdir().unwrap());
    let store = there(&server, &world, PublishBy::Rename);
    let how = How { spool: Some(folder.path().join("spool")), ..How::default() };
    let stores = HashMap::from([(name("files"), store)]);
    let node = world.start_on(&SimDisk::new(&world.env), &how, stores).await.unwrap();
    let session = world.session(&node, "alice").await;
    let whole = content(47, 900_000);
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    go_on(&mut upload, &whole[..300_000]).await;
    upload.interrupt("cut").await;
    let mut upload = session.vfs().create(&path("/f"), CONTINUE).await.unwrap();
    assert_eq!(upload.size(), 300_000);
    upload.expect_any_order().await.unwrap();
    for part in [600_000..900_000, 300_000..600_000] {
        let bytes = Bytes::copy_from_slice(&whole[part.clone()]);
        upload.write_at(part.start as u64, bytes).await.unwrap();
    }
    assert!(node.service.meters().spooled() > 0, "nothing was spooled");
    let uploaded = upload.finish().await.unwrap();
    assert!(std::fs::read(server.folder().join("f")).unwrap() == whole);
    assert_eq!(uploaded.digests.blake3, Some(digest(&whole)));
}
