//! Cut uploads: kept for their owner, resumed where they stopped, seen by nobody else.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::{Env, Fact};
use entrepot_storage::fault::{Cut, SimDisk};
use entrepot_storage::limits::POOL_TASKS;

use super::{CONTINUE, How, NEW, Random, World};
use super::{content, digest, name, names, path, put, read, write};
use crate::{Create, CreateIntent, VfsError};

#[tokio::test]
async fn a_cut_upload_is_resumed_where_it_stopped() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let (alice, bob) = (world.session(&node, "alice").await, world.session(&node, "bob").await);
    let whole = content(3, 200_000);
    let mut upload = alice.vfs().create(&path("/f"), NEW).await.unwrap();
    let transfer = upload.transfer();
    write(&mut upload, 0, &whole[..100_000]).await.unwrap();
    // Beyond a hole: not to be trusted.
    write(&mut upload, 150_000, &whole[150_000..160_000]).await.unwrap();
    assert_eq!(alice.vfs().stat(&path("/f")).await.unwrap().size, 160_000, "one's own upload");
    drop(upload);
    let seen = alice.vfs().stat(&path("/f")).await.unwrap();
    assert!(seen.partial && seen.size == 100_000, "{seen:?}");
    assert_eq!(bob.vfs().stat(&path("/f")).await, Err(VfsError::NotFound));
    assert!(alice.vfs().open(&path("/f")).await.is_err());
    assert!(names(alice.vfs(), "/").await.unwrap().is_empty());

    let mut upload = alice.vfs().create(&path("/f"), CONTINUE).await.unwrap();
    assert_eq!((upload.size(), upload.transfer()), (100_000, transfer));
    write(&mut upload, 100_000, &whole[100_000..]).await.unwrap();
    let uploaded = upload.finish().await.unwrap();
    assert_eq!(uploaded.digests.blake3, Some(digest(&whole)));
    assert_eq!(read(bob.vfs(), "/f").await.unwrap(), whole);
    assert_eq!(node.staged().await, 0);
    let events = node.events().await;
    let cut = events.iter().any(|event| {
        matches!(&event.fact, Fact::FileInterrupted { file, kept: true, .. }
            if file.transfer == transfer)
    });
    assert!(cut, "the cut is not recorded");
}

#[tokio::test]
async fn another_start_of_the_machine_trusts_only_what_was_synced() {
    let world = World::new().await;
    for (boot, wanted) in [("boot-1", 90_000), ("boot-2", 50_000)] {
        let disk = SimDisk::new(&world.env);
        let node = world.start(&disk, &How::default()).await;
        let session = world.session(&node, "alice").await;
        let whole = content(4, 120_000);
        let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
        write(&mut upload, 0, &whole[..50_000]).await.unwrap();
        upload.sync().await.unwrap();
        write(&mut upload, 50_000, &whole[50_000..90_000]).await.unwrap();
        drop(upload);
        node.journal.sync(node.journal.usage().appended).await.unwrap();
        drop(session);
        node.service.stop().await;
        let _ = node.journal.close().await;
        let node = world.start(&disk, &How { boot, ..How::default() }).await;
        assert_eq!(node.report.partials, 1);
        let session = world.session(&node, "alice").await;
        let seen = session.vfs().stat(&path("/f")).await.unwrap();
        assert_eq!((seen.size, seen.partial), (wanted, true), "{boot}");
        let mut upload = session.vfs().create(&path("/f"), CONTINUE).await.unwrap();
        write(&mut upload, wanted, &whole[wanted as usize..]).await.unwrap();
        let uploaded = upload.finish().await.unwrap();
        let found = read(session.vfs(), "/f").await.unwrap();
        let wrong = found.iter().zip(&whole).position(|(found, wanted)| found != wanted);
        assert_eq!((found.len(), wrong), (whole.len(), None), "{boot}");
        assert_eq!(uploaded.digests.blake3, Some(digest(&whole)), "{boot}");
        node.stop().await;
    }
}

/// `fdatasync` of a staged file does not promise its name: without it nothing may be shown, or a
/// client would continue behind a hole.
#[tokio::test]
async fn a_partial_whose_bytes_are_gone_is_not_shown() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    for at in ["/f", "/g"] {
        let mut upload = session.vfs().create(&path(at), NEW).await.unwrap();
        write(&mut upload, 0, &content(4, 50_000)).await.unwrap();
        upload.interrupt("cut").await;
    }
    node.journal.sync(node.journal.usage().appended).await.unwrap();
    // Gone behind our back.
    let staged = node.files.as_ref().unwrap().staged().await.unwrap();
    for file in staged {
        node.files.as_ref().unwrap().discard_staged(file.id).await.unwrap();
    }
    let resumed = session.vfs().create(&path("/f"), CONTINUE).await;
    assert_eq!(resumed.err(), Some(VfsError::Conflict));
    assert_eq!(session.vfs().create(&path("/f"), CONTINUE).await.unwrap().size(), 0);
    let disk = disk.cut(1, Cut::Strict);
    let node = world.start(&disk, &How { boot: "boot-2", ..How::default() }).await;
    assert_eq!(node.report.partials, 0);
    let session = world.session(&node, "alice").await;
    assert_eq!(session.vfs().stat(&path("/g")).await, Err(VfsError::NotFound));
}

#[tokio::test]
async fn a_new_upload_a_remove_or_time_drop_the_partial() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let cut = async || {
        let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
        write(&mut upload, 0, b"part").await.unwrap();
        drop(upload);
        assert!(vfs.stat(&path("/f")).await.unwrap().partial);
    };
    cut().await;
    put(vfs, "/f", b"whole").await.unwrap();
    assert_eq!(node.staged().await, 0);
    vfs.remove(&path("/f")).await.unwrap();
    assert_eq!(vfs.stat(&path("/f")).await, Err(VfsError::NotFound));
    cut().await;
    vfs.remove(&path("/f")).await.unwrap();
    assert_eq!(vfs.stat(&path("/f")).await, Err(VfsError::NotFound));
    assert_eq!(node.staged().await, 0);
    cut().await;
    world.env.advance(Duration::from_secs(8 * 86_400));
    node.service.sweep().await;
    assert_eq!(node.staged().await, 0, "not swept after its time");
    assert_eq!(vfs.stat(&path("/f")).await, Err(VfsError::NotFound));
}

#[tokio::test]
async fn an_overlay_keeps_what_is_not_written() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let mut wanted = content(5, 50_000);
    put(vfs, "/f", &wanted).await.unwrap();
    let mut upload = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    assert_eq!(upload.size(), 50_000);
    for (at, length) in [(10_000, 500), (49_900, 5_000), (0, 7)] {
        let bytes = content(at as u64, length);
        write(&mut upload, at as u64, &bytes).await.unwrap();
        wanted.resize(wanted.len().max(at + length), 0);
        wanted[at..at + length].copy_from_slice(&bytes);
    }
    let back = upload.read_at(9_000, bytes::BytesMut::new(), 2_000).await.unwrap();
    assert_eq!(back[..], wanted[9_000..11_000]);
    let uploaded = upload.finish().await.unwrap();
    assert!(uploaded.replaced && uploaded.digests.blake3 == Some(digest(&wanted)));
    assert_eq!(read(vfs, "/f").await.unwrap(), wanted);

    // Cut and extended: what lies behind is zeros, not the base's.
    let mut upload = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    upload.set_len(100).await.unwrap();
    upload.set_len(300).await.unwrap();
    upload.finish().await.unwrap();
    wanted.truncate(100);
    wanted.resize(300, 0);
    assert_eq!(read(vfs, "/f").await.unwrap(), wanted);
}

#[tokio::test]
async fn an_overlay_whose_base_changed_is_a_conflict() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    put(vfs, "/f", b"one").await.unwrap();
    let mut upload = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    write(&mut upload, 3, b"more").await.unwrap();
    put(vfs, "/f", b"two").await.unwrap();
    assert_eq!(upload.finish().await, Err(VfsError::Conflict));
    assert_eq!(read(vfs, "/f").await.unwrap(), b"two");
    // Nothing written: nothing published, no transfer.
    let before = node.arrivals().await.len();
    let upload = vfs.create(&path("/f"), CONTINUE).await.unwrap();
    assert!(!upload.finish().await.unwrap().published);
    assert_eq!(node.arrivals().await.len(), before);
    assert_eq!(node.staged().await, 0);
}

/// Writes in any order, overlapping, cut and extended: the digest is that of what is read back.
#[tokio::test]
async fn the_digest_is_that_of_the_file_however_it_was_written() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    for seed in 0..60 {
        let mut random = Random(seed);
        let (mut wanted, mut upload) =
            (Vec::new(), session.vfs().create(&path("/f"), NEW).await.unwrap());
        for _ in 0..random.below(30) {
            let at = match random.below(4) {
                0 => random.below(40_000),
                1 => random.below(wanted.len() as u64 + 1),
                _ => wanted.len() as u64,
            } as usize;
            if random.below(12) == 0 {
                upload.set_len(at as u64).await.unwrap();
                wanted.resize(at, 0);
                continue;
            }
            let bytes = content(random.next(), random.below(3_000) as usize);
            write(&mut upload, at as u64, &bytes).await.unwrap();
            if !bytes.is_empty() {
                wanted.resize(wanted.len().max(at + bytes.len()), 0);
                wanted[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        assert_eq!(upload.size(), wanted.len() as u64, "seed {seed}");
        let uploaded = upload.finish().await.unwrap();
        let found = read(session.vfs(), "/f").await.unwrap();
        assert!(found == wanted, "seed {seed}: {} bytes", wanted.len());
        assert_eq!(uploaded.digests.blake3, Some(digest(&wanted)), "seed {seed}");
    }
}

#[tokio::test]
async fn a_cut_replacement_is_resumed_while_the_old_version_is_what_it_was() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let (old, whole) = (content(5, 150_000), content(6, 120_000));
    put(vfs, "/f", &old).await.unwrap();
    assert_eq!(vfs.unfinished(&path("/f")).await, None);
    let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, &whole[..70_000]).await.unwrap();
    drop(upload);
    assert_eq!(vfs.stat(&path("/f")).await.unwrap().size, 150_000, "the old one is seen");
    assert_eq!(vfs.unfinished(&path("/f")).await.unwrap().size, 70_000);
    let resume = Create { intent: CreateIntent::Resume, ..CONTINUE };
    let mut upload = vfs.create(&path("/f"), resume).await.unwrap();
    assert_eq!(upload.size(), 70_000);
    write(&mut upload, 70_000, &whole[70_000..]).await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(read(vfs, "/f").await.unwrap(), whole);

    let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, &old[..70_000]).await.unwrap();
    drop(upload);
    let other = world.session(&node, "bob").await;
    put(other.vfs(), "/f", &old).await.unwrap();
    assert_eq!(vfs.unfinished(&path("/f")).await, None, "two versions would be mixed");
    assert!(vfs.create(&path("/f"), resume).await.is_err());
    assert_eq!(read(vfs, "/f").await.unwrap(), old);
}

#[tokio::test]
async fn an_upload_that_is_not_wanted_any_more_is_kept_and_not_published() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let whole = content(7, 120_000);
    let mut upload = vfs.create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, &whole[..70_000]).await.unwrap();
    let told = upload.finish_if(std::future::ready(false)).await;
    assert_eq!(told.unwrap_err(), VfsError::Gone);
    let other = world.session(&node, "bob").await;
    assert_eq!(other.vfs().stat(&path("/f")).await.unwrap_err(), VfsError::NotFound);
    let kept = vfs.stat(&path("/f")).await.unwrap();
    assert_eq!((kept.size, kept.partial), (70_000, true));
    let resume = Create { intent: CreateIntent::Resume, ..CONTINUE };
    let mut upload = vfs.create(&path("/f"), resume).await.unwrap();
    write(&mut upload, 70_000, &whole[70_000..]).await.unwrap();
    upload.finish_if(std::future::ready(true)).await.unwrap();
    assert_eq!(read(vfs, "/f").await.unwrap(), whole);
}

/// A store has so many threads; uploads that wait for their clients' verdicts hold none.
#[tokio::test]
async fn no_thread_of_a_store_waits_to_hear_whether_a_client_is_there() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    // Its syncs are measured: a disk on a clock that stands still would need no threads.
    let files = entrepot_storage::fs::open(folder.path(), &Env::real()).await.unwrap();
    let stores = HashMap::from([(name("files"), files)]);
    let disk = SimDisk::new(&world.env);
    let node = world.start_on(&disk, &How::default(), stores).await.unwrap();
    let session = world.session(&node, "alice").await;
    let (mut waiting, asked) = (Vec::new(), Arc::new(tokio::sync::Semaphore::new(0)));
    for number in 0..POOL_TASKS {
        let at = path(&format!("/f{number}"));
        let mut upload = session.vfs().create(&at, NEW).await.unwrap();
        write(&mut upload, 0, b"content").await.unwrap();
        let (verdict, heard) = tokio::sync::oneshot::channel();
        let theirs = Arc::clone(&asked);
        let wanted = async move {
            theirs.add_permits(1);
            heard.await.unwrap_or(false)
        };
        waiting.push((verdict, tokio::spawn(upload.finish_if(wanted))));
    }
    asked.acquire_many(POOL_TASKS as u32).await.unwrap().forget();
    let other = put(session.vfs(), "/other", b"other");
    let other = tokio::time::timeout(Duration::from_secs(60), other).await;
    other.expect("all threads are held").unwrap();
    assert_eq!(names(session.vfs(), "/").await.unwrap(), ["other"]);
    for (number, (verdict, ended)) in waiting.into_iter().enumerate() {
        verdict.send(number > 0).unwrap();
        let ended = ended.await.unwrap();
        assert_eq!(ended.err(), (number == 0).then_some(VfsError::Gone));
    }
    assert_eq!(read(session.vfs(), "/f1").await.unwrap(), b"content");
    assert!(session.vfs().stat(&path("/f0")).await.unwrap().partial);
}
