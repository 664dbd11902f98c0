//! What the node has is shared: an account that takes all it can leaves enough for others, and what
//! there is no memory for goes another way.

use std::collections::HashMap;

use bytes::{Bytes, BytesMut};
use entrepot_storage::fault::SimDisk;
use entrepot_testkit::s3::S3Server;

use super::objects::bucket;
use super::{CONTINUE, How, NEW, Node, World, content, digest, name, path, put, read};
use crate::{Download, NodeLimits, Upload, VfsError};

const FILES: VfsError = VfsError::TooMany { what: "files" };

fn used(node: &Node, kind: &str) -> u64 {
    let budgets = node.service.budgets();
    budgets.iter().find(|budget| budget.kind == kind).unwrap().used
}

#[tokio::test]
async fn open_files_of_one_account_leave_descriptors_for_others() {
    let world = World::new().await;
    let limits = NodeLimits { descriptors: 12, ..NodeLimits::default() };
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How { limits, ..How::default() }).await;
    let (alice, bob) = (world.session(&node, "alice").await, world.session(&node, "bob").await);
    let again = world.session(&node, "alice").await;
    put(alice.vfs(), "/a", b"content").await.unwrap();
    let mut held = Vec::new();
    let refused = loop {
        match alice.vfs().open(&path("/a")).await {
            Ok(file) => held.push(file),
            Err(error) => break error,
        }
    };
    assert_eq!((held.len(), refused), (6, FILES));
    assert_eq!(alice.vfs().list(&path("/")).await.err(), Some(FILES));
    assert_eq!(alice.vfs().create(&path("/b"), NEW).await.err(), Some(FILES));
    assert_eq!(again.vfs().open(&path("/a")).await.err(), Some(FILES), "another session of it");
    assert!(alice.vfs().stat(&path("/a")).await.is_ok(), "names need none");
    // What is appended to needs two: the new file and the one below it.
    let mut over = bob.vfs().create(&path("/a"), CONTINUE).await.unwrap();
    assert_eq!(used(&node, "descriptors"), 8);
    over.write_at(7, Bytes::from_static(b" and more")).await.unwrap();
    over.finish().await.unwrap();
    assert_eq!(read(bob.vfs(), "/a").await.unwrap(), b"content and more");
    assert_eq!(used(&node, "descriptors"), 6);
    held.clear();
    put(again.vfs(), "/c", b"there is room again").await.unwrap();
    assert_eq!(used(&node, "descriptors"), 0);
}

/// A node over a bucket whose accounts have 16 MiB, one of them alone 8 MiB.
async fn over_bucket(
    world: &World,
    server: &S3Server,
    disk: &SimDisk,
) -> (Node, tempfile::TempDir) {
    let spool = tempfile::tempdir().unwrap();
    let stores = HashMap::from([(name("files"), bucket(server, world))]);
    let limits = NodeLimits { memory_bytes: 16 << 20, ..NodeLimits::default() };
    let how = How { limits, spool: Some(spool.path().join("spool")), ..How::default() };
    (world.start_on(disk, &how, stores).await.unwrap(), spool)
}

#[tokio::test]
async fn uploads_that_find_no_memory_go_over_the_disk_and_arrive_whole() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let disk = SimDisk::new(&world.env);
    let (node, _spool) = over_bucket(&world, &server, &disk).await;
    let session = world.session(&node, "alice").await;
    let wholes: Vec<Vec<u8>> = (0..6).map(|seed| content(seed, 6_000_000)).collect();
    let mut uploads: Vec<Upload> = Vec::new();
    for number in 0..wholes.len() {
        let at = path(&format!("/{number}"));
        uploads.push(session.vfs().create(&at, NEW).await.unwrap());
    }
    const BLOCK: usize = 250_000;
    for step in 0..wholes[0].len() / BLOCK {
        for (number, upload) in uploads.iter_mut().enumerate() {
            // Every second client sends each two blocks the wrong way round.
            let step = if number % 2 == 0 { step } else { step ^ 1 };
            let block = &wholes[number][step * BLOCK..][..BLOCK];
            let block = Bytes::copy_from_slice(block);
            upload.write_at((step * BLOCK) as u64, block).await.unwrap();
            let used = used(&node, "memory_bytes");
            assert!(used <= 8 << 20, "one account has {used} bytes of 16 MiB");
        }
    }
    let spooled = node.service.meters().spooled();
    assert!((1..6).contains(&spooled), "{spooled} of 6 went over the disk");
    for (upload, whole) in uploads.into_iter().zip(&wholes) {
        let uploaded = upload.finish().await.unwrap();
        assert_eq!(uploaded.digests.blake3, Some(digest(whole)));
    }
    assert_eq!(used(&node, "memory_bytes"), 0);
    for (number, whole) in wholes.iter().enumerate() {
        let back = read(session.vfs(), &format!("/{number}")).await.unwrap();
        assert!(back == *whole, "{number} differs");
    }
}

#[tokio::test]
async fn what_is_read_ahead_shrinks_with_the_memory_and_every_reader_goes_on() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    let disk = SimDisk::new(&world.env);
    let (node, _spool) = over_bucket(&world, &server, &disk).await;
    let session = world.session(&node, "alice").await;
    let whole = content(9, 6_000_000);
    put(session.vfs(), "/f", &whole).await.unwrap();
    let mut files: Vec<Download> = Vec::new();
    for _ in 0..100 {
        files.push(session.vfs().open(&path("/f")).await.unwrap());
    }
    for offset in [0, 3_000_000, 5_990_000] {
        for file in &files {
            let got = file.read_at(offset, BytesMut::new(), 20_000).await.unwrap();
            let end = whole.len().min(offset as usize + 20_000);
            assert!(got == whole[offset as usize..end], "{offset}");
            let used = used(&node, "memory_bytes");
            assert!(used <= 8 << 20, "one account has {used} bytes of 16 MiB");
        }
    }
    assert!(used(&node, "memory_bytes") > 0);
    drop(files);
    assert_eq!(used(&node, "memory_bytes"), 0);
}
