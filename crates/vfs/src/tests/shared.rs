//! Several nodes on one directory: each with a journal on a disk of its own.

use std::time::Duration;

use entrepot_nouns::endpoint::DirectoryTarget;
use entrepot_nouns::{Displaced, EndpointTarget, Fact};
use entrepot_storage::fault::{Cut, SimDisk};
use entrepot_testbed::endpoint;

use super::{NEW, World, path, put, read, write};
use crate::Existing;

#[tokio::test]
async fn each_upload_names_the_file_that_it_took_the_name_from() {
    for flags in [true, false] {
        let world = World::new().await;
        let disk = SimDisk::new(&world.env);
        if !flags {
            disk.forget_rename_flags();
        }
        let one = world.start_apart(&SimDisk::new(&world.env), &disk).await;
        let other = world.start_apart(&SimDisk::new(&world.env), &disk).await;
        let (alice, bob) = (world.session(&one, "alice").await, world.session(&other, "bob").await);
        put(alice.vfs(), "/f", b"first").await.unwrap();
        put(bob.vfs(), "/f", b"second").await.unwrap();
        put(alice.vfs(), "/f", b"third").await.unwrap();
        let (ours, theirs) = (one.arrivals().await, other.arrivals().await);
        let line = [&ours[0], &theirs[0], &ours[1]];
        assert_eq!(line[0].displaced, None);
        for pair in line.windows(2) {
            let identity = pair[0].identity.clone();
            assert!(identity.is_some());
            assert_eq!(pair[1].displaced, Some(Displaced { identity }), "flags: {flags}");
        }
        // So does a rename that replaces; one to a free name names nothing.
        put(bob.vfs(), "/g", b"fourth").await.unwrap();
        bob.vfs().rename(&path("/g"), &path("/f"), Existing::Replace).await.unwrap();
        bob.vfs().rename(&path("/f"), &path("/h"), Existing::Replace).await.unwrap();
        assert_eq!(read(alice.vfs(), "/h").await.unwrap(), b"fourth");
        let renames: Vec<_> = other
            .events()
            .await
            .into_iter()
            .filter_map(|event| match event.fact {
                Fact::FileRenamed { displaced, .. } => Some(displaced),
                _ => None,
            })
            .collect();
        let third = Displaced { identity: line[2].identity.clone() };
        assert_eq!(renames, [Some(third), None], "flags: {flags}");
        assert_eq!((one.staged().await, other.staged().await), (0, 0));
    }
}

/// What A's journal says after the power of A's machine failed, when B had changed the names.
async fn told_after_the_power_of_one_failed(target: DirectoryTarget) -> Vec<&'static str> {
    let world = World::new().await;
    world.put(&endpoint("files", EndpointTarget::Directory(target))).await;
    world.directory.refresh().await.unwrap();
    let disk = SimDisk::new(&world.env);
    let own = SimDisk::new(&world.env);
    let one = world.start_apart(&own, &disk).await;
    let other = world.start_apart(&SimDisk::new(&world.env), &disk).await;
    let (alice, bob) = (world.session(&one, "alice").await, world.session(&other, "bob").await);
    put(bob.vfs(), "/gone", b"first").await.unwrap();
    put(bob.vfs(), "/moved", b"first").await.unwrap();
    alice.vfs().remove(&path("/gone")).await.unwrap();
    alice.vfs().rename(&path("/moved"), &path("/to"), Existing::Refuse).await.unwrap();
    let sent = put(alice.vfs(), "/f", b"first").await.unwrap();
    for at in ["/f", "/gone", "/to"] {
        put(bob.vfs(), at, b"second").await.unwrap();
    }
    let left = own.cut(1, Cut::Strict);
    drop(alice);
    one.service.stop().await;
    let _ = one.journal.close().await;
    let one = world.start_apart(&left, &disk).await;
    let mut told = Vec::new();
    for event in one.events().await {
        match &event.fact {
            Fact::FileUploaded { file } | Fact::FileRecovered { file } => {
                assert_eq!(file.transfer, sent.transfer);
                told.push("uploaded");
            }
            Fact::FileUnknown { .. } => told.push("unknown"),
            Fact::FileRemoved { .. } => told.push("removed"),
            Fact::FileRenamed { .. } => told.push("renamed"),
            _ => {}
        }
    }
    told
}

#[tokio::test]
async fn what_was_answered_on_a_shared_directory_is_recorded_also_after_a_power_cut() {
    let shared = DirectoryTarget { shared: true, ..DirectoryTarget::new("/srv/files") };
    let told = told_after_the_power_of_one_failed(shared).await;
    assert_eq!(told, ["removed", "renamed", "uploaded"]);
    // Without it the directory no longer shows what happened: the last record was not durable yet.
    let told = told_after_the_power_of_one_failed(DirectoryTarget::new("/srv/files")).await;
    assert_eq!(told, ["removed", "renamed", "unknown"]);
}

#[tokio::test]
async fn a_start_leaves_running_uploads_of_others_on_a_shared_directory_alone() {
    let world = World::new().await;
    let shared = DirectoryTarget { shared: true, ..DirectoryTarget::new("/srv/files") };
    world.put(&endpoint("files", EndpointTarget::Directory(shared))).await;
    world.directory.refresh().await.unwrap();
    let disk = SimDisk::new(&world.env);
    let one = world.start_apart(&SimDisk::new(&world.env), &disk).await;
    let alice = world.session(&one, "alice").await;
    let mut upload = alice.vfs().create(&path("/f"), NEW).await.unwrap();
    write(&mut upload, 0, b"begun").await.unwrap();
    world.env.advance(Duration::from_secs(3_600));
    // Another installation, whose journal knows nothing of it.
    let other = world.start_apart(&SimDisk::new(&world.env), &disk).await;
    upload.finish().await.unwrap();
    let bob = world.session(&other, "bob").await;
    assert_eq!(read(bob.vfs(), "/f").await.unwrap(), b"begun");
}
