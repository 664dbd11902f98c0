//! Rights, names, mounts, sessions: what each may see and do.

use entrepot_nouns::{Account, AccountType, Direction, Fact, Right, Rights};
use entrepot_storage::EntryKind;
use entrepot_storage::fault::SimDisk;

use super::{
    CONTINUE, EXCLUSIVE, How, NEW, Node, World, content, digest, name, names, path, put, read,
    write,
};
use crate::{Existing, UploadEnd, VfsError};

async fn node(world: &World) -> Node {
    world.start(&SimDisk::new(&world.env), &How::default()).await
}

fn denied<T: std::fmt::Debug>(result: Result<T, VfsError>) -> bool {
    matches!(result, Err(VfsError::Denied { .. }))
}

#[tokio::test]
async fn two_uploads_to_one_name_the_last_wins_whole() {
    let world = World::new().await;
    let node = node(&world).await;
    let (alice, bob) = (world.session(&node, "alice").await, world.session(&node, "bob").await);
    let (one, other) = (content(1, 100_000), content(2, 80_000));
    let mut first = alice.vfs().create(&path("/f"), NEW).await.unwrap();
    let mut second = bob.vfs().create(&path("/f"), NEW).await.unwrap();
    let mut taken = alice.vfs().create(&path("/f"), EXCLUSIVE).await.unwrap();
    for at in (0..80_000).step_by(10_000) {
        write(&mut first, at as u64, &one[at..at + 10_000]).await.unwrap();
        write(&mut second, at as u64, &other[at..at + 10_000]).await.unwrap();
    }
    write(&mut first, 80_000, &one[80_000..]).await.unwrap();
    write(&mut taken, 0, b"taken").await.unwrap();
    assert_eq!(alice.vfs().open(&path("/f")).await.err(), Some(VfsError::NotFound));
    assert!(!second.finish().await.unwrap().replaced);
    let before = alice.vfs().open(&path("/f")).await.unwrap();
    assert!(first.finish().await.unwrap().replaced);
    assert_eq!(read(bob.vfs(), "/f").await.unwrap(), one);
    // A download goes on with the version it opened.
    let mut buffer = vec![0; 80_000];
    assert_eq!(before.try_read_at(0, &mut buffer).unwrap(), Some(80_000));
    assert_eq!(buffer, other);
    assert_eq!(taken.finish().await, Err(VfsError::Exists));
    assert_eq!(alice.vfs().create(&path("/f"), EXCLUSIVE).await.err(), Some(VfsError::Exists));
    let arrivals = node.arrivals().await;
    let digests: Vec<_> = arrivals.iter().filter_map(|file| file.digests.blake3).collect();
    assert_eq!(digests, [digest(&other), digest(&one)]);
    assert_eq!(node.service.meters().uploads(UploadEnd::Completed), 2);
    assert_eq!(node.staged().await, 0);
}

#[tokio::test]
async fn rights_are_needed_and_looked_at_again_at_the_publish() {
    let world = World::new().await;
    let node = node(&world).await;
    world.account("reader", "/", |mount| mount.rights = Rights::read_only()).await;
    world
        .account("dropper", "/", |mount| mount.rights = [Right::Write].into_iter().collect())
        .await;
    let alice = world.session(&node, "alice").await;
    put(alice.vfs(), "/f", b"old").await.unwrap();
    let reader = world.session(&node, "reader").await;
    assert_eq!(read(reader.vfs(), "/f").await.unwrap(), b"old");
    assert!(denied(put(reader.vfs(), "/g", b"new").await));
    assert!(denied(put(reader.vfs(), "/f", b"new").await));
    assert!(denied(reader.vfs().remove(&path("/f")).await));
    assert!(denied(reader.vfs().rename(&path("/f"), &path("/g"), Existing::Refuse).await));
    assert!(denied(reader.vfs().make_directory(&path("/d")).await));
    let dropper = world.session(&node, "dropper").await;
    assert!(denied(put(dropper.vfs(), "/f", b"new").await), "replaced without the right");
    assert!(denied(dropper.vfs().open(&path("/f")).await.map(drop)));
    assert!(denied(dropper.vfs().list(&path("/")).await.map(drop)));
    put(dropper.vfs(), "/g", b"mine").await.unwrap();
    // The name is taken while it writes; and its rights go while it writes.
    let mut late = dropper.vfs().create(&path("/h"), NEW).await.unwrap();
    write(&mut late, 0, b"late").await.unwrap();
    put(alice.vfs(), "/h", b"first").await.unwrap();
    assert!(denied(late.finish().await));
    let mut late = dropper.vfs().create(&path("/i"), NEW).await.unwrap();
    write(&mut late, 0, b"late").await.unwrap();
    world.mount("dropper-main", "dropper", "/", |mount| mount.rights = Rights::read_only()).await;
    assert!(denied(late.finish().await));
    assert_eq!(names(alice.vfs(), "/").await.unwrap(), ["f", "g", "h"]);
    assert_eq!(read(alice.vfs(), "/h").await.unwrap(), b"first");
}

#[tokio::test]
async fn a_disabled_account_ends_at_once_and_publishes_nothing() {
    let world = World::new().await;
    let node = node(&world).await;
    world.account("gone", "/", |_| {}).await;
    let session = world.session(&node, "gone").await;
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, b"half").await.unwrap();
    let mut account = Account::new(name("gone"), AccountType::Partner);
    account.enabled = false;
    world.put(&account).await;
    world.directory.refresh().await.unwrap();
    assert!(!session.ended().await.is_empty());
    assert!(matches!(write(&mut upload, 4, b"x").await, Err(VfsError::Ended { .. })));
    assert!(matches!(upload.finish().await, Err(VfsError::Ended { .. })));
    assert!(matches!(session.vfs().list(&path("/")).await.err(), Some(VfsError::Ended { .. })));
    let alice = world.session(&node, "alice").await;
    assert!(names(alice.vfs(), "/").await.unwrap().is_empty());
    assert!(
        !node.service.end_session(session.id(), "again")
            || session.vfs().open(&path("/")).await.is_err()
    );
}

#[tokio::test]
async fn a_rename_out_of_a_temporary_name_is_the_arrival() {
    let world = World::new().await;
    let node = node(&world).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let sent = put(vfs, "/x.filepart", b"whole").await.unwrap();
    assert!(node.arrivals().await[0].temporary);
    let renamed = vfs.rename(&path("/x.filepart"), &path("/x"), Existing::Refuse).await.unwrap();
    assert!(renamed.arrival && !renamed.replaced);
    put(vfs, "/y", b"other").await.unwrap();
    assert!(!vfs.rename(&path("/y"), &path("/z"), Existing::Refuse).await.unwrap().arrival);
    let events = node.events().await;
    let found: Vec<_> = events
        .iter()
        .filter_map(|event| match &event.fact {
            Fact::FileRenamed { arrival, file, size, .. } => Some((*arrival, file, *size)),
            _ => None,
        })
        .collect();
    let (arrival, file, size) = &found[0];
    let file = file.as_ref().unwrap();
    assert!(*arrival && *size == 5 && !file.temporary && file.path == "/x");
    assert_eq!((file.transfer, file.digests), (sent.transfer, sent.digests));
    assert!(!found[1].0 && found[1].1.is_none());
    // The memory of it outlives a start.
    put(vfs, "/v.tmp", b"later").await.unwrap();
    assert_eq!(vfs.rename(&path("/z"), &path("/x"), Existing::Refuse).await, Err(VfsError::Exists));
    assert!(vfs.rename(&path("/z"), &path("/x"), Existing::Replace).await.unwrap().replaced);
    assert_eq!(names(vfs, "/").await.unwrap(), ["v.tmp", "x"]);
}

#[tokio::test]
async fn a_temporary_upload_is_known_after_a_start() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    let sent = put(session.vfs(), "/v.tmp", b"later").await.unwrap();
    drop(session);
    node.stop().await;
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    session.vfs().rename(&path("/v.tmp"), &path("/v"), Existing::Refuse).await.unwrap();
    let events = node.events().await;
    let file = events.iter().rev().find_map(|event| match &event.fact {
        Fact::FileRenamed { file, .. } => file.clone(),
        _ => None,
    });
    assert_eq!(file.unwrap().transfer, sent.transfer);
}

#[tokio::test]
async fn mounts_make_one_tree() {
    let world = World::new().await;
    let node = node(&world).await;
    world.account("m", "/in", |mount| mount.prefix = "m/in".to_owned()).await;
    world.mount("deep", "m", "/in/deep/er", |mount| mount.endpoint = name("other")).await;
    world.mount("out", "m", "/out", |mount| mount.rights = Rights::read_only()).await;
    let session = world.session(&node, "m").await;
    let vfs = session.vfs();
    assert_eq!(names(vfs, "/").await.unwrap(), ["in", "out"]);
    assert_eq!(names(vfs, "/in").await.unwrap(), ["deep"]);
    assert_eq!(vfs.stat(&path("/")).await.unwrap().kind, EntryKind::Directory);
    put(vfs, "/in/a", b"1").await.unwrap();
    put(vfs, "/in/deep/er/b", b"2").await.unwrap();
    assert_eq!(names(vfs, "/in").await.unwrap(), ["a", "deep"]);
    assert_eq!(names(vfs, "/in/deep/er").await.unwrap(), ["b"]);
    let alice = world.session(&node, "alice").await;
    assert_eq!(read(alice.vfs(), "/m/in/a").await.unwrap(), b"1");
    for (from, to) in [("/in/a", "/in/deep/er/a"), ("/in/a", "/out/a")] {
        let moved = vfs.rename(&path(from), &path(to), Existing::Replace).await;
        assert_eq!(moved, Err(VfsError::OtherMount), "{to}");
    }
    assert!(denied(put(vfs, "/out/x", b"3").await));
    assert_eq!(vfs.open(&path("/nowhere")).await.err(), Some(VfsError::NotFound));
    assert!(vfs.remove_directory(&path("/in")).await.is_err(), "a mount was removed");
    assert!(vfs.rename(&path("/in"), &path("/x"), Existing::Refuse).await.is_err());
    assert_eq!(vfs.create(&path("/in"), NEW).await.err(), Some(VfsError::IsDirectory));
}

#[tokio::test]
async fn directories_come_and_go_with_their_records() {
    let world = World::new().await;
    let node = node(&world).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    vfs.make_directory(&path("/d")).await.unwrap();
    assert_eq!(vfs.make_directory(&path("/d")).await, Err(VfsError::Exists));
    assert_eq!(vfs.make_directory(&path("/a/b")).await, Err(VfsError::NotFound));
    assert_eq!(vfs.create(&path("/nowhere/f"), NEW).await.err(), Some(VfsError::NotFound));
    put(vfs, "/d/f", b"1").await.unwrap();
    assert_eq!(vfs.remove_directory(&path("/d")).await, Err(VfsError::NotEmpty));
    assert_eq!(vfs.remove(&path("/d")).await, Err(VfsError::IsDirectory));
    assert_eq!(vfs.remove_directory(&path("/d/f")).await, Err(VfsError::NotDirectory));
    assert_eq!(vfs.open(&path("/d")).await.err(), Some(VfsError::IsDirectory));
    vfs.remove(&path("/d/f")).await.unwrap();
    vfs.remove_directory(&path("/d")).await.unwrap();
    assert_eq!(vfs.remove(&path("/d/f")).await, Err(VfsError::NotFound));
    let events = node.events().await;
    let kinds: Vec<_> = events.iter().map(|event| event.fact.kind()).collect();
    let wanted = ["directory.created", "file.uploaded", "file.removed", "directory.removed"];
    assert_eq!(kinds, wanted);
    assert!(events.iter().all(|event| event.account == Some(name("alice"))));
}

#[tokio::test]
async fn a_full_journal_says_try_later_before_a_byte_is_taken() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let how = How { journal_bytes: 200_000, ..How::default() };
    let node = world.start(&disk, &how).await;
    let session = world.session(&node, "alice").await;
    let vfs = session.vfs();
    let mut open = vfs.create(&path("/open"), NEW).await.unwrap();
    write(&mut open, 0, b"kept").await.unwrap();
    let mut sent = 0;
    let refused = loop {
        match put(vfs, "/f", b"1").await {
            Ok(_) => sent += 1,
            Err(error) => break error,
        }
        assert!(sent < 5_000, "the journal is never full");
    };
    assert_eq!(refused, VfsError::NoRecord);
    assert_eq!(vfs.create(&path("/g"), NEW).await.err(), Some(VfsError::NoRecord));
    assert_eq!(open.finish().await.err(), Some(VfsError::NoRecord));
    assert!(vfs.stat(&path("/open")).await.unwrap().partial, "what came is kept");
    assert_eq!(read(vfs, "/f").await.unwrap(), b"1");
    node.journal.sync(node.journal.usage().appended).await.unwrap();
    node.journal.release(node.journal.usage().appended).unwrap();
    put(vfs, "/f", b"2").await.unwrap();
    assert_eq!(node.arrivals().await.len(), sent + 1);
}

#[tokio::test]
async fn announced_sizes_are_kept_to() {
    let world = World::new().await;
    let node = node(&world).await;
    let session = world.session(&node, "alice").await;
    let announced = crate::Create { expected_size: Some(5), ..NEW };
    let mut upload = session.vfs().create(&path("/f"), announced).await.unwrap();
    write(&mut upload, 0, b"1234").await.unwrap();
    let short = VfsError::Incomplete { size: 4, expected: 5 };
    assert_eq!(upload.check_expected_size(), Err(short.clone()));
    assert_eq!(upload.finish().await, Err(short));
    let mut upload = session.vfs().create(&path("/f"), announced).await.unwrap();
    write(&mut upload, 0, b"12345").await.unwrap();
    let long = VfsError::Incomplete { size: 6, expected: 5 };
    assert_eq!(write(&mut upload, 5, b"6").await, Err(long.clone()), "one byte too many was taken");
    assert_eq!(upload.finish().await, Err(long));
    assert_eq!(session.vfs().stat(&path("/f")).await.err(), Some(VfsError::NotFound));
    let mut upload = session.vfs().create(&path("/f"), announced).await.unwrap();
    write(&mut upload, 0, b"12345").await.unwrap();
    upload.finish().await.unwrap();
    put(session.vfs(), "/empty", b"").await.unwrap();
    assert_eq!(read(session.vfs(), "/empty").await.unwrap(), b"");
}

#[tokio::test]
async fn announced_bytes_are_the_whole_file_or_what_is_added() {
    let world = World::new().await;
    let node = node(&world).await;
    let session = world.session(&node, "alice").await;
    for (added, fits) in [(&b"a"[..], true), (b"abcd", true), (b"ab", false), (b"abcde", false)] {
        put(session.vfs(), "/f", b"123").await.unwrap();
        let mut upload = session.vfs().create(&path("/f"), CONTINUE).await.unwrap();
        upload.expect_whole_or_added(4);
        let written = write(&mut upload, 3, added).await;
        assert_eq!(written.is_ok(), added.len() <= 4, "{added:?}");
        let finished = upload.finish().await;
        assert_eq!(finished.is_ok(), fits, "{added:?}: {finished:?}");
        let size = session.vfs().stat(&path("/f")).await.unwrap().size;
        assert_eq!(size, if fits { 3 + added.len() as u64 } else { 3 });
    }
}

#[tokio::test]
async fn no_file_is_longer_than_system_calls_can_address() {
    let world = World::new().await;
    let node = node(&world).await;
    let session = world.session(&node, "alice").await;
    let too_long = VfsError::Quota { what: "bytes a file", limit: i64::MAX.unsigned_abs() };
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    assert_eq!(upload.set_len(u64::MAX).await, Err(too_long.clone()));
    write(&mut upload, 0, b"fits").await.unwrap();
    upload.finish().await.unwrap();
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    assert_eq!(write(&mut upload, i64::MAX as u64, b"x").await, Err(too_long.clone()));
    assert_eq!(upload.refusal(), Some(&too_long));
    assert_eq!(upload.finish().await, Err(too_long));
    assert_eq!(read(session.vfs(), "/f").await.unwrap(), b"fits");
}

#[tokio::test]
async fn an_upload_that_is_left_changes_no_bytes() {
    let world = World::new().await;
    let node = node(&world).await;
    let session = world.session(&node, "alice").await;
    put(session.vfs(), "/f", b"as it was").await.unwrap();
    let events = node.events().await.len();
    let mut upload = session.vfs().create(&path("/f"), CONTINUE).await.unwrap();
    let stamp = entrepot_nouns::Timestamp::from_seconds(1_000_000_000);
    upload.set_times(Some(stamp), Some(stamp));
    assert!(!upload.is_touched());
    upload.leave().await.unwrap();
    let found = session.vfs().stat(&path("/f")).await.unwrap();
    assert_eq!((found.size, found.modified), (9, stamp));
    assert_eq!(node.events().await.len(), events, "nothing happened that is worth an event");
    let mut upload = session.vfs().create(&path("/partial"), NEW).await.unwrap();
    write(&mut upload, 0, b"cut").await.unwrap();
    upload.interrupt("cut").await;
    let upload = session.vfs().create(&path("/partial"), CONTINUE).await.unwrap();
    upload.leave().await.unwrap();
    let found = session.vfs().stat(&path("/partial")).await.unwrap();
    assert_eq!((found.size, found.partial), (3, true), "the partial is kept");
}

#[tokio::test]
async fn a_draining_node_ends_what_runs_and_begins_nothing() {
    let world = World::new().await;
    let node = node(&world).await;
    let session = world.session(&node, "alice").await;
    let mut upload = session.vfs().create(&path("/f"), NEW).await.unwrap();
    assert_eq!(node.service.meters().active(Direction::In), 1);
    node.service.drain();
    write(&mut upload, 0, b"runs").await.unwrap();
    let begun = session.vfs().create(&path("/g"), NEW).await.err();
    assert!(matches!(begun, Some(VfsError::Busy { .. })), "{begun:?}");
    upload.finish().await.unwrap();
    assert_eq!(read(session.vfs(), "/f").await.unwrap(), b"runs");
    assert_eq!(node.service.meters().active(Direction::In), 0);
}

#[tokio::test]
async fn every_error_has_a_page() {
    let sources = [include_str!("../error.rs")];
    let codes: std::collections::BTreeSet<&str> = sources
        .iter()
        .flat_map(|text| text.match_indices("\"EP04").map(|(at, _)| &text[at + 1..at + 7]))
        .collect();
    assert!(codes.len() >= 17, "{codes:?}");
    for code in codes {
        let page = format!("{}/../../docs/errors/{code}.md", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|_| panic!("no page {code}"));
        assert!(text.contains("**What to do.**"), "{code} says not what to do");
    }
}

#[tokio::test]
async fn uploads_that_look_for_a_free_name_do_not_meet() {
    let world = World::new().await;
    let node = node(&world).await;
    let (alice, bob) = (world.session(&node, "alice").await, world.session(&node, "bob").await);
    put(alice.vfs(), "/report.pdf", b"there").await.unwrap();
    let wanted = path("/report.pdf");
    let first = alice.vfs().create_under_free_name(&wanted, None).await.unwrap();
    let second = bob.vfs().create_under_free_name(&wanted, None).await.unwrap();
    let names = [&path("/report (1).pdf"), &path("/report (2).pdf")];
    assert_eq!([first.path(), second.path()], names);
    // One that is given up gives back its name.
    first.abort().await;
    let mut third = bob.vfs().create_under_free_name(&wanted, None).await.unwrap();
    assert_eq!(third.path(), names[0]);
    write(&mut third, 0, b"third").await.unwrap();
    third.finish().await.unwrap();
    let fourth = alice.vfs().create_under_free_name(&wanted, None).await.unwrap();
    assert_eq!(fourth.path(), &path("/report (3).pdf"));
    assert_eq!(read(alice.vfs(), "/report (1).pdf").await.unwrap(), b"third");
    second.abort().await;
    fourth.abort().await;
    assert_eq!(node.staged().await, 0);
}
