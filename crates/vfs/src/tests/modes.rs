//! Permission bits: what of a client's wishes the mount lets through, and what is told of it.

use entrepot_nouns::{ModeMask, Right};
use entrepot_storage::fault::{Cut, DiskCall, SimError};

use super::*;
use crate::{EntryKind, Existing, ModeOrigin, VfsError};

fn mask(text: &str) -> Option<ModeMask> {
    Some(text.parse().unwrap())
}

async fn mode(vfs: &Vfs, at: &str) -> Option<u32> {
    vfs.stat(&path(at)).await.unwrap().mode
}

/// The changes that the journal tells.
async fn changes(node: &Node) -> Vec<(Name, String, String, String)> {
    let told = node.events().await.into_iter().filter_map(|event| match event.fact {
        Fact::ModeChanged { path, from, to } => Some((event.account.unwrap(), path, from, to)),
        _ => None,
    });
    told.collect()
}

async fn put_with(vfs: &Vfs, at: &str, bits: u32, origin: ModeOrigin) {
    let mut upload = vfs.create(&path(at), NEW).await.unwrap();
    write(&mut upload, 0, b"bytes").await.unwrap();
    upload.set_mode(bits, origin);
    upload.finish().await.unwrap();
}

#[tokio::test]
async fn modes_are_changed_within_the_mask_of_the_mount_and_told() {
    let world = World::new().await;
    world.account("narrow", "/", |mount| mount.mode_mask = mask("0070")).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let (alice, narrow) =
        (world.session(&node, "alice").await, world.session(&node, "narrow").await);
    let vfs = alice.vfs();
    put(vfs, "/f", b"bytes").await.unwrap();
    vfs.make_directory(&path("/d")).await.unwrap();
    assert_eq!((mode(vfs, "/f").await, mode(vfs, "/d").await), (Some(0o644), Some(0o755)));
    assert_eq!(vfs.set_mode(&path("/f"), 0o600).await, Ok(Some(0o600)));
    assert_eq!(vfs.set_mode(&path("/f"), 0o600).await, Ok(Some(0o600)), "as it is");
    assert_eq!(vfs.set_mode(&path("/d"), 0o7770).await, Ok(Some(0o770)), "never set-uid");
    assert_eq!(narrow.vfs().set_mode(&path("/f"), 0o777).await, Ok(Some(0o670)));
    let listed = vfs.list(&path("/")).await.unwrap().next_page(100).await.unwrap();
    let shown: Vec<_> = listed.iter().map(|e| (e.name.as_str(), e.attributes.mode)).collect();
    assert_eq!(shown, [("d", Some(0o770)), ("f", Some(0o670))]);
    assert_eq!(vfs.open(&path("/f")).await.unwrap().attributes().mode, Some(0o670));
    let missing = vfs.set_mode(&path("/x"), 0o600).await;
    assert_eq!(missing, Err(VfsError::NotFound));
    let told = |who: &str, path: &str, from: &str, to: &str| {
        (name(who), path.to_owned(), from.to_owned(), to.to_owned())
    };
    let expected = [
        told("alice", "/f", "0644", "0600"),
        told("alice", "/d", "0755", "0770"),
        told("narrow", "/f", "0600", "0670"),
    ];
    assert_eq!(changes(&node).await, expected);
}

#[tokio::test]
async fn without_a_mask_or_at_a_mount_nothing_is_changed_and_nothing_fails() {
    let world = World::new().await;
    world.account("none", "/", |mount| mount.mode_mask = mask("0000")).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let (alice, none) = (world.session(&node, "alice").await, world.session(&node, "none").await);
    put_with(none.vfs(), "/f", 0o600, ModeOrigin::Request).await;
    none.vfs().make_directory_with_mode(&path("/d"), 0o700).await.unwrap();
    assert_eq!(none.vfs().set_mode(&path("/f"), 0o600).await, Ok(None));
    assert_eq!(none.vfs().set_mode(&path("/x"), 0o600).await, Err(VfsError::NotFound));
    assert_eq!(mode(none.vfs(), "/f").await, None, "as the rights say");
    assert_eq!(
        (mode(alice.vfs(), "/f").await, mode(alice.vfs(), "/d").await),
        (Some(0o644), Some(0o755))
    );
    // The directory that is the mount is the operator's.
    assert_eq!(alice.vfs().set_mode(&path("/"), 0o700).await, Ok(None));
    world.account("deep", "/a/b", |_| {}).await;
    let deep = world.session(&node, "deep").await;
    for at in ["/", "/a", "/a/b"] {
        assert_eq!(deep.vfs().set_mode(&path(at), 0o700).await, Ok(None), "{at}");
    }
    assert_eq!(changes(&node).await, []);
}

#[tokio::test]
async fn an_upload_has_the_mode_that_was_asked_for_or_that_of_what_it_replaces() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let alice = world.session(&node, "alice").await;
    let vfs = alice.vfs();
    put_with(vfs, "/private", 0o600, ModeOrigin::Creation).await;
    assert_eq!(mode(vfs, "/private").await, Some(0o600));
    // What the umask takes: the simulated disk's is 022.
    put_with(vfs, "/open", 0o666, ModeOrigin::Creation).await;
    assert_eq!(mode(vfs, "/open").await, Some(0o644));
    put_with(vfs, "/asked", 0o6666, ModeOrigin::Request).await;
    assert_eq!(mode(vfs, "/asked").await, Some(0o666));
    // What is replaced keeps its mode, unless another is asked for.
    vfs.set_mode(&path("/open"), 0o751).await.unwrap();
    put(vfs, "/open", b"newer").await.unwrap();
    assert_eq!(mode(vfs, "/open").await, Some(0o751));
    put_with(vfs, "/open", 0o600, ModeOrigin::Creation).await;
    assert_eq!(mode(vfs, "/open").await, Some(0o751));
    put_with(vfs, "/open", 0o600, ModeOrigin::Request).await;
    assert_eq!(mode(vfs, "/open").await, Some(0o600));
    let mut both = vfs.create(&path("/both"), NEW).await.unwrap();
    both.set_mode(0o640, ModeOrigin::Request);
    both.set_mode(0o777, ModeOrigin::Creation);
    assert_eq!(both.named_mode(), Some(0o640), "what is requested comes first");
    both.finish().await.unwrap();
    assert_eq!(mode(vfs, "/both").await, Some(0o640));
    // Nothing is written to a file that is there: its mode is set all the same.
    let mut touched = vfs.create(&path("/both"), CONTINUE).await.unwrap();
    touched.set_mode(0o444, ModeOrigin::Request);
    assert!(!touched.finish().await.unwrap().published);
    assert_eq!(mode(vfs, "/both").await, Some(0o444));
    vfs.rename(&path("/both"), &path("/moved"), Existing::Refuse).await.unwrap();
    assert_eq!(mode(vfs, "/moved").await, Some(0o444));
    vfs.make_directory_with_mode(&path("/d"), 0o7700).await.unwrap();
    let made = vfs.stat(&path("/d")).await.unwrap();
    assert_eq!((made.kind, made.mode), (EntryKind::Directory, Some(0o700)));
}

#[tokio::test]
async fn to_change_a_mode_takes_the_right_to_write() {
    let world = World::new().await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    put(world.session(&node, "alice").await.vfs(), "/f", b"bytes").await.unwrap();
    for (account, rights, may) in [
        ("reader", Rights::read_only(), false),
        ("deleter", [Right::List, Right::Delete].into_iter().collect(), false),
        ("writer", [Right::Write].into_iter().collect(), true),
        ("replacer", [Right::Overwrite].into_iter().collect(), true),
    ] {
        world.account(account, "/", |mount| mount.rights = rights).await;
        let session = world.session(&node, account).await;
        let set = session.vfs().set_mode(&path("/f"), 0o600).await;
        assert_eq!(set.is_ok(), may, "{account}: {set:?}");
        assert!(may || matches!(set, Err(VfsError::Denied { .. })), "{account}: {set:?}");
    }
}

#[tokio::test]
async fn a_mode_that_cannot_be_set_fails_no_upload_and_is_told_by_itself() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let alice = world.session(&node, "alice").await;
    disk.fail(Some(DiskCall::SetMode), 1, SimError::NotPermitted);
    put_with(alice.vfs(), "/f", 0o600, ModeOrigin::Request).await;
    assert_eq!(mode(alice.vfs(), "/f").await, Some(0o644));
    disk.fail(Some(DiskCall::SetMode), 1, SimError::NotPermitted);
    let refused = alice.vfs().set_mode(&path("/f"), 0o600).await;
    assert!(matches!(refused, Err(VfsError::Denied { .. })), "{refused:?}");
    assert_eq!(changes(&node).await, [], "what did not happen is not recorded");
}

#[tokio::test]
async fn a_power_cut_leaves_a_mode_and_its_record_or_neither() {
    let world = World::new().await;
    let (mut changed, mut lost) = (0, 0);
    for at in 1..30 {
        let disk = SimDisk::new(&Env::simulated(at));
        let node = world.start(&disk, &How::default()).await;
        let session = world.session(&node, "alice").await;
        put(session.vfs(), "/f", b"bytes").await.unwrap();
        session.vfs().make_directory(&path("/d")).await.unwrap();
        disk.power_off_at(at);
        let of_file = session.vfs().set_mode(&path("/f"), 0o600).await.is_ok();
        let of_directory = session.vfs().set_mode(&path("/d"), 0o700).await.is_ok();
        drop(session);
        let left = disk.cut(at, if at % 2 == 0 { Cut::Strict } else { Cut::Mixed });
        node.service.stop().await;
        let _ = node.journal.close().await;
        let node = world.start(&left, &How { boot: "boot-2", ..How::default() }).await;
        let session = world.session(&node, "alice").await;
        let is_set = mode(session.vfs(), "/f").await == Some(0o600);
        let is_set_too = mode(session.vfs(), "/d").await == Some(0o700);
        assert!(is_set || !of_file, "call {at}: the file's is lost");
        assert!(is_set_too || !of_directory, "call {at}: the directory's is lost");
        let told = changes(&node).await.len();
        assert_eq!(told, usize::from(is_set) + usize::from(is_set_too), "call {at}");
        (changed, lost) = (changed + u32::from(is_set), lost + u32::from(!is_set));
    }
    assert!(changed > 3 && lost > 3, "{changed} {lost}: the power went at the wrong time");
}
