//! What is replaced can be put back: by whom, how much of it, and whatever breaks meanwhile.

use std::time::Duration;

use bytes::BytesMut;
use entrepot_nouns::{EventId, Fact, Mount, Right, Rights, TrashOptions, VPath, VersionOptions};
use entrepot_storage::fault::{Cut, SimDisk};
use entrepot_testkit::s3::S3Server;

use super::objects;
use super::trash::{hidden, project};
use super::{CONTINUE, How, Node, World, content, path, put, read, with_quota, write};
use crate::{Existing, FileVersion, OnConflict, Vfs, VfsError};

fn keeping(mount: &mut Mount) {
    mount.versions = Some(VersionOptions { keep: Some(3), days: Some(7), bytes: None });
}

async fn versions(vfs: &Vfs, at: &str) -> Vec<FileVersion> {
    let (mut found, mut behind) = (Vec::new(), None);
    loop {
        let page = vfs.versions(&path(at), behind, 2).await.unwrap();
        found.extend(page.versions);
        let Some(next) = page.next else { return found };
        behind = Some(next);
    }
}

async fn read_version(vfs: &Vfs, at: &str, id: EventId) -> Vec<u8> {
    let file = vfs.open_version(&path(at), id).await.unwrap();
    let bytes = file.read_at(0, BytesMut::new(), 1 << 20).await.unwrap();
    assert_eq!(bytes.len() as u64, file.attributes().size);
    file.finish().await;
    bytes.to_vec()
}

/// The contents of all versions of a file, the newest first.
async fn contents(vfs: &Vfs, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    for version in versions(vfs, at).await {
        found.push(String::from_utf8(read_version(vfs, at, version.id).await).unwrap());
    }
    found
}

async fn kinds(node: &Node, kind: &str) -> usize {
    node.events().await.iter().filter(|event| event.fact.kind() == kind).count()
}

#[tokio::test]
async fn whatever_replaces_a_file_keeps_it() {
    let world = World::new().await;
    world.account("anna", "/", keeping).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    put(vfs, "/a", b"one").await.unwrap();
    assert_eq!(versions(vfs, "/a").await, []);
    world.env.advance(Duration::from_secs(10));
    let replaced = put(vfs, "/a", b"two").await.unwrap().replaced;
    let first = versions(vfs, "/a").await.remove(0);
    assert!(replaced && first.size == 3 && first.modified < first.replaced_at, "{first:?}");
    assert_eq!(first.until, Some(first.replaced_at.plus(Duration::from_secs(7 * 86_400))));
    assert_eq!(first.replaced_by.as_ref().map(|name| name.as_str()), Some("anna"));

    // By a rename, by a copy, and by an upload that is laid over it.
    put(vfs, "/b", b"three").await.unwrap();
    world.env.advance(Duration::from_secs(10));
    assert!(vfs.rename(&path("/b"), &path("/a"), Existing::Replace).await.unwrap().replaced);
    put(vfs, "/c", b"four").await.unwrap();
    world.env.advance(Duration::from_secs(10));
    let mut copy = vfs.copy(&path("/c"), &path("/a"), OnConflict::Replace).await.unwrap();
    while copy.step().await.unwrap() {}
    world.env.advance(Duration::from_secs(10));
    let mut upload = vfs.create(&path("/a"), CONTINUE).await.unwrap();
    write(&mut upload, 4, b" and five").await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(read(vfs, "/a").await.unwrap(), b"four and five");
    assert_eq!(contents(vfs, "/a").await, ["four", "three", "two", "one"]);
    assert_eq!(kinds(&node, "file.versioned").await, 4);

    // What fails keeps nothing, and what has another name has no versions.
    put(vfs, "/x", b"x").await.unwrap();
    assert!(vfs.rename(&path("/x"), &path("/a"), Existing::Refuse).await.is_err());
    vfs.make_directory(&path("/d")).await.unwrap();
    assert!(vfs.rename(&path("/d"), &path("/a"), Existing::Replace).await.is_err());
    assert_eq!((versions(vfs, "/x").await.len(), hidden(&node).await), (0, 4));
    // Of names that clients only write under, none are kept.
    for part in ["one", "two"] {
        put(vfs, "/a.filepart", part.as_bytes()).await.unwrap();
    }
    assert_eq!(versions(vfs, "/a.filepart").await, []);
    // Who keeps no versions replaces for good.
    let bob = world.session(&node, "bob").await;
    put(bob.vfs(), "/a", b"six").await.unwrap();
    assert_eq!(contents(vfs, "/a").await, ["four", "three", "two", "one"]);
}

#[tokio::test]
async fn a_version_is_put_back_by_who_may_replace_and_removed_by_who_may_delete() {
    let world = World::new().await;
    world.account("anna", "/", keeping).await;
    world.account("guest", "/", |mount| mount.rights = Rights::read_only()).await;
    let blind = [Right::List, Right::Write, Right::Overwrite];
    world.account("blind", "/", |mount| mount.rights = blind.into_iter().collect()).await;
    world.account("far", "/", |mount| mount.prefix = "elsewhere".to_owned()).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    vfs.make_directory(&path("/in")).await.unwrap();
    for text in ["one", "two", "three"] {
        put(vfs, "/in/a", text.as_bytes()).await.unwrap();
        world.env.advance(Duration::from_secs(1));
    }
    let one = versions(vfs, "/in/a").await[1].id;

    let guest = world.session(&node, "guest").await;
    assert_eq!(contents(guest.vfs(), "/in/a").await, ["two", "one"]);
    let denied = |result: &crate::Result<()>| matches!(result, Err(VfsError::Denied { .. }));
    assert!(denied(&guest.vfs().restore_version(&path("/in/a"), one).await.map(drop)));
    assert!(denied(&guest.vfs().remove_version(&path("/in/a"), one).await));
    let blind = world.session(&node, "blind").await;
    assert!(denied(&blind.vfs().versions(&path("/in/a"), None, 9).await.map(drop)));
    assert!(denied(&blind.vfs().restore_version(&path("/in/a"), one).await.map(drop)));
    let far = world.session(&node, "far").await;
    let other = far.vfs().open_version(&path("/in/a"), one).await.map(drop);
    assert_eq!(other, Err(VfsError::NotFound));
    // Only by its own path.
    put(vfs, "/in/b", b"b").await.unwrap();
    assert_eq!(vfs.restore_version(&path("/in/b"), one).await, Err(VfsError::NotFound));
    assert_eq!(vfs.restore(one, OnConflict::Refuse).await, Err(VfsError::NotFound));
    assert_eq!(vfs.purge(one).await, Err(VfsError::NotFound));

    assert_eq!(vfs.restore_version(&path("/in/a"), one).await, Ok(true));
    assert_eq!(read(vfs, "/in/a").await.unwrap(), b"one");
    assert_eq!(contents(vfs, "/in/a").await, ["three", "two"]);
    assert_eq!(vfs.restore_version(&path("/in/a"), one).await, Err(VfsError::NotFound));
    // The database has it all now.
    project(&world, &node).await;
    assert_eq!(contents(vfs, "/in/a").await, ["three", "two"]);
    let last = versions(vfs, "/in/a").await;
    vfs.remove_version(&path("/in/a"), last[0].id).await.unwrap();
    assert_eq!(contents(vfs, "/in/a").await, ["two"]);
    // Whoever keeps none loses nothing by it.
    let bob = world.session(&node, "bob").await;
    let two = last[1].id;
    assert_eq!(bob.vfs().restore_version(&path("/in/a"), two).await, Err(VfsError::Exists));
    // A file that is gone comes back, with the folder above it.
    vfs.remove(&path("/in/a")).await.unwrap();
    vfs.remove(&path("/in/b")).await.unwrap();
    vfs.remove_directory(&path("/in")).await.unwrap();
    assert_eq!(bob.vfs().restore_version(&path("/in/a"), two).await, Ok(false));
    assert_eq!(read(vfs, "/in/a").await.unwrap(), b"two");
    assert_eq!((hidden(&node).await, kinds(&node, "file.restored").await), (0, 2));
}

#[tokio::test]
async fn versions_count_and_end() {
    let world = World::new().await;
    let quota = with_quota(Some(1_000_000), Some(4), None);
    let both = |mount: &mut Mount| {
        quota(mount);
        keeping(mount);
        mount.trash = Some(TrashOptions { days: 30, bytes: None });
    };
    world.account("anna", "/", both).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    let room = |vfs: Vfs| async move {
        let space = vfs.space(&VPath::root()).await.unwrap();
        (space.free_bytes, space.free_files)
    };
    for nth in 0..4 {
        put(vfs, "/a", &content(nth, 10_000)).await.unwrap();
        world.env.advance(Duration::from_secs(86_400));
    }
    assert_eq!(room(vfs.clone()).await, (960_000, 0));
    let full = put(vfs, "/a", b"five").await.map(drop);
    assert!(matches!(full, Err(VfsError::Quota { .. })), "{full:?}");
    assert_eq!((versions(vfs, "/a").await.len(), hidden(&node).await), (3, 3));
    vfs.remove_version(&path("/a"), versions(vfs, "/a").await[2].id).await.unwrap();
    assert_eq!(room(vfs.clone()).await, (970_000, 1));
    // What is removed is no version, and the other way round.
    vfs.remove(&path("/a")).await.unwrap();
    assert_eq!(vfs.trash(&VPath::root(), None, 9).await.unwrap().entries.len(), 1);
    assert_eq!((versions(vfs, "/a").await.len(), room(vfs.clone()).await.0), (2, 970_000));

    // More than are to be kept, and those whose time is over.
    world
        .mount("anna-more", "anna", "/more", |mount| {
            keeping(mount);
            mount.prefix = "more".to_owned();
        })
        .await;
    for nth in 0..6 {
        put(vfs, "/more/b", &content(nth, 10)).await.unwrap();
        world.env.advance(Duration::from_secs(1));
    }
    project(&world, &node).await;
    assert_eq!(node.service.purge_trash(None).await.unwrap().purged, 2);
    assert_eq!(versions(vfs, "/more/b").await.len(), 3);
    world.env.advance(Duration::from_secs(6 * 86_400));
    project(&world, &node).await;
    assert_eq!(node.service.purge_trash(None).await.unwrap().purged, 2, "those of the first file");
    assert_eq!((versions(vfs, "/a").await.len(), versions(vfs, "/more/b").await.len()), (0, 3));
}

/// Where files have one name only, the file is moved aside.
#[tokio::test]
async fn a_store_without_second_names_keeps_versions_too() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    world.account("anna", "/", keeping).await;
    let disk = SimDisk::new(&world.env);
    let node = objects::start(&world, &disk, &server, "boot-1").await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    for text in ["one", "two", "three"] {
        let replaced = put(vfs, "/a", text.as_bytes()).await.unwrap().replaced;
        assert_eq!(replaced, text != "one");
        world.env.advance(Duration::from_secs(1));
    }
    assert_eq!(contents(vfs, "/a").await, ["two", "one"]);
    let one = versions(vfs, "/a").await[1].id;
    assert_eq!(vfs.restore_version(&path("/a"), one).await, Ok(true));
    assert_eq!(read(vfs, "/a").await.unwrap(), b"one");
    assert_eq!(contents(vfs, "/a").await, ["three", "two"]);
}

/// A file is replaced by an upload and by a rename, and a version is put back; the power goes at
/// call `nth`. Afterwards a file has the name, and every content that had it before is there, as a
/// version or under a name.
async fn cut(world: &World, nth: u64) -> bool {
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let texts: Vec<Vec<u8>> = (0..3).map(|part| content(nth * 3 + part, 20_000)).collect();
    put(anna.vfs(), "/f", &texts[0]).await.unwrap();
    put(anna.vfs(), "/g", &texts[2]).await.unwrap();
    let before = disk.calls();
    disk.power_off_at(nth);
    let vfs = anna.vfs().clone();
    let mut done = 0;
    let work = async {
        put(&vfs, "/f", &texts[1]).await?;
        done = 1;
        vfs.rename(&path("/g"), &path("/f"), Existing::Replace).await?;
        let page = vfs.versions(&path("/f"), None, 9).await?;
        let Some(oldest) = page.versions.last() else { return Err(VfsError::NotFound) };
        vfs.restore_version(&path("/f"), oldest.id).await.map(drop)
    };
    let worked: crate::Result<()> = work.await;
    let is_off = disk.calls() >= before + nth;
    assert!(is_off || worked.is_ok(), "call {nth}: {worked:?} while the power was on");
    let left = disk.cut(nth, Cut::Strict);
    node.service.stop().await;
    let _ = node.journal.close().await;
    for boot in ["boot-2", "boot-3"] {
        let node = world.start(&left, &How { boot, ..How::default() }).await;
        let anna = world.session(&node, "anna").await;
        let visible = read(anna.vfs(), "/f").await;
        let other = read(anna.vfs(), "/g").await.ok();
        let mut kept = Vec::new();
        for event in node.events().await {
            match event.fact {
                Fact::FileVersioned { .. } => kept.push(event.id),
                Fact::FileRestored { trashed, .. } => kept.retain(|id| *id != trashed),
                _ => {}
            }
        }
        let what = format!("call {nth}, {boot}: after {done}, {kept:?}");
        assert_eq!(hidden(&node).await, kept.len(), "{what}");
        let visible = visible.unwrap_or_else(|error| panic!("{what}: {error}"));
        let mut all = vec![visible];
        all.extend(other);
        for id in kept {
            let store = node.files.as_ref().unwrap();
            let at = format!("{}/{id}", entrepot_nouns::mount::TRASH_NAME);
            let file = store.open(&at.parse().unwrap()).await.unwrap();
            all.push(file.read_at(0, BytesMut::new(), 1 << 20).await.unwrap().to_vec());
        }
        let is_there = |text: &Vec<u8>| all.iter().filter(|found| *found == text).count() == 1;
        assert!(is_there(&texts[0]) && is_there(&texts[2]), "{what}: {}", all.len());
        assert!(is_there(&texts[1]) || done == 0, "{what}: {}", all.len());
        node.stop().await;
    }
    is_off
}

#[tokio::test]
async fn a_power_cut_at_any_call_loses_no_version() {
    let world = World::new().await;
    world.account("anna", "/", keeping).await;
    let mut nth = 1;
    while cut(&world, nth).await {
        nth += 1;
        assert!(nth < 1_000, "it has no end");
    }
    assert!(nth > 20, "only {nth} calls were tried");
}
