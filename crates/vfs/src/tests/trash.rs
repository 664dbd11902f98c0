//! What is removed can be put back: by whom, where, how long, and whatever breaks meanwhile.

use std::time::Duration;

use entrepot_db::{Projected, Projection};
use entrepot_nouns::mount::TRASH_NAME;
use entrepot_nouns::{Fact, Mount, Rights, TrashOptions, VPath};
use entrepot_storage::EntryKind;
use entrepot_storage::fault::{Cut, SimDisk};

use super::{How, Node, World, content, name, names, path, put, read, with_quota};
use crate::{OnConflict, Removed, TrashedEntry, Vfs, VfsError};

fn keeping(mount: &mut Mount) {
    mount.trash = Some(TrashOptions { days: 7, bytes: None });
}

/// As the projector of the engine does.
pub(super) async fn project(world: &World, node: &Node) {
    let events: Vec<_> = (1..).zip(node.events().await).collect();
    let label = name("n1");
    let id = node.service.0.recorder.node_id();
    let up_to = node.journal.usage().appended;
    let piece = Projection { up_to, ..Projection::of(id, &label, &events) };
    assert_eq!(world.db.project(&piece).await.unwrap(), Projected::Kept);
}

async fn trash(vfs: &Vfs, folder: &str) -> Vec<TrashedEntry> {
    let (mut entries, mut behind) = (Vec::new(), None);
    loop {
        let page = vfs.trash(&path(folder), behind, 2).await.unwrap();
        entries.extend(page.entries);
        let Some(next) = page.next else { return entries };
        behind = Some(next);
    }
}

async fn remove(vfs: &Vfs, at: &str) -> TrashedEntry {
    match vfs.remove_undoable(&path(at)).await.unwrap() {
        Removed::Kept(entry) => entry,
        Removed::Gone => panic!("{at} is gone"),
    }
}

/// Names in the hidden directory.
pub(super) async fn hidden(node: &Node) -> usize {
    let store = node.files.as_ref().unwrap();
    let Ok(mut listing) = store.list(&TRASH_NAME.parse().unwrap()).await else { return 0 };
    listing.next_page(1000).await.unwrap().len()
}

fn paths(entries: &[TrashedEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.path.as_str()).collect()
}

#[tokio::test]
async fn a_removed_file_comes_back_with_the_folders_above_it() {
    let world = World::new().await;
    world.account("anna", "/", keeping).await;
    world.account("guest", "/", |mount| mount.rights = Rights::read_only()).await;
    world.account("far", "/", |mount| mount.prefix = "elsewhere".to_owned()).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    vfs.make_directory(&path("/in")).await.unwrap();
    vfs.make_directory(&path("/in/deep")).await.unwrap();
    let bytes = content(1, 50_000);
    put(vfs, "/in/deep/a", &bytes).await.unwrap();
    let entry = remove(vfs, "/in/deep/a").await;
    assert_eq!((entry.path.as_str(), entry.kind), ("/in/deep/a", EntryKind::File));
    assert_eq!((entry.size, entry.removed_by.clone()), (50_000, Some(name("anna"))));
    assert_eq!(entry.until, entry.removed_at.plus(Duration::from_secs(7 * 86_400)));
    for folder in ["/in/deep", "/in"] {
        vfs.remove_directory(&path(folder)).await.unwrap();
    }
    assert_eq!(names(vfs, "/").await.unwrap(), Vec::<String>::new());

    // No path leads there, whatever its case.
    let lower = format!("/{TRASH_NAME}");
    for hidden in [lower.clone(), lower.to_uppercase(), format!("{lower}/{}", entry.id)] {
        assert_eq!(vfs.stat(&path(&hidden)).await, Err(VfsError::NotFound), "{hidden}");
        assert!(vfs.list(&path(&hidden)).await.is_err(), "{hidden}");
        assert_eq!(put(vfs, &hidden, b"x").await.map(drop), Err(VfsError::NotFound), "{hidden}");
        assert!(vfs.make_directory(&path(&hidden)).await.is_err(), "{hidden}");
        assert!(vfs.trash(&path(&hidden), None, 9).await.is_err(), "{hidden}");
    }

    // Who may not delete there, or sees another folder, sees nothing of it.
    for other in ["guest", "far"] {
        let session = world.session(&node, other).await;
        assert_eq!(trash(session.vfs(), "/").await, [], "{other}");
        let refused = session.vfs().restore(entry.id, OnConflict::Refuse).await;
        assert_eq!(refused, Err(VfsError::NotFound), "{other}");
        assert_eq!(session.vfs().purge(entry.id).await, Err(VfsError::NotFound), "{other}");
    }
    // Who may, does; in the folder that it was removed from and above.
    let bob = world.session(&node, "bob").await;
    for (folder, count) in [("/", 1), ("/in", 1), ("/other", 0)] {
        assert_eq!(trash(bob.vfs(), folder).await.len(), count, "{folder}");
    }
    let back = bob.vfs().restore(entry.id, OnConflict::Refuse).await.unwrap();
    assert_eq!(back.as_str(), "/in/deep/a");
    assert!(read(vfs, "/in/deep/a").await.unwrap() == bytes);
    let again = vfs.restore(entry.id, OnConflict::Refuse).await;
    assert_eq!(again, Err(VfsError::NotFound));
    assert_eq!((trash(vfs, "/").await.len(), hidden(&node).await), (0, 0));
    let kinds: Vec<String> =
        node.events().await.iter().map(|event| event.fact.kind().to_owned()).collect();
    for (kind, count) in [("file.trashed", 1), ("file.restored", 1), ("file.removed", 0)] {
        assert_eq!(kinds.iter().filter(|it| *it == kind).count(), count, "{kind}");
    }
    // A mount that keeps none removes for good.
    assert_eq!(bob.vfs().remove_undoable(&path("/in/deep/a")).await, Ok(Removed::Gone));
}

#[tokio::test]
async fn a_name_that_is_taken_is_refused_or_kept_beside() {
    let world = World::new().await;
    world.account("anna", "/", keeping).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    let mut ids = Vec::new();
    for version in ["one", "two", "three"] {
        put(vfs, "/a.txt", version.as_bytes()).await.unwrap();
        ids.push(remove(vfs, "/a.txt").await.id);
        world.env.advance(Duration::from_secs(1));
    }
    put(vfs, "/a.txt", b"four").await.unwrap();
    let found: Vec<_> = trash(vfs, "/").await.into_iter().map(|entry| entry.id).collect();
    assert_eq!(found, ids.iter().rev().copied().collect::<Vec<_>>(), "the newest first");
    for conflict in [OnConflict::Refuse, OnConflict::Replace] {
        assert_eq!(vfs.restore(ids[1], conflict).await, Err(VfsError::Exists));
    }
    let back = vfs.restore(ids[1], OnConflict::KeepBoth).await.unwrap();
    assert_eq!(back.as_str(), "/a (1).txt");
    assert_eq!(read(vfs, "/a.txt").await.unwrap(), b"four");
    assert_eq!(read(vfs, "/a (1).txt").await.unwrap(), b"two");
    // The database has it all now; what it has is not shown twice.
    project(&world, &node).await;
    let found: Vec<_> = trash(vfs, "/").await.into_iter().map(|entry| entry.id).collect();
    assert_eq!(found, [ids[2], ids[0]]);
    vfs.purge(ids[2]).await.unwrap();
    assert_eq!(vfs.purge(ids[2]).await, Err(VfsError::NotFound));
    assert_eq!(trash(vfs, "/").await.len(), 1, "though the database still has it");
    // Another node of the database, which knows nothing but what that has.
    project(&world, &node).await;
    node.stop().await;
    let node = world.start(&disk, &How { boot: "boot-2", ..How::default() }).await;
    let anna = world.session(&node, "anna").await;
    anna.vfs().remove(&path("/a.txt")).await.unwrap();
    anna.vfs().restore(ids[0], OnConflict::Refuse).await.unwrap();
    assert_eq!(read(anna.vfs(), "/a.txt").await.unwrap(), b"one");
}

#[tokio::test]
async fn a_tree_goes_at_once_and_only_where_nothing_else_is_mounted_in_it() {
    let world = World::new().await;
    let quota = with_quota(Some(1_000_000), Some(10), None);
    world
        .account("anna", "/", |mount| {
            quota(mount);
            keeping(mount);
        })
        .await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    for folder in ["/t", "/t/u", "/t/u/v"] {
        vfs.make_directory(&path(folder)).await.unwrap();
    }
    for file in ["/t/1", "/t/u/2", "/t/u/v/3"] {
        put(vfs, file, &content(7, 100_000)).await.unwrap();
    }
    let room = |vfs: Vfs| async move { vfs.space(&VPath::root()).await.unwrap().free_bytes };
    let before = room(vfs.clone()).await;
    let entry = vfs.remove_tree(&path("/t")).await.unwrap();
    assert_eq!((entry.kind, names(vfs, "/").await.unwrap().len()), (EntryKind::Directory, 0));
    assert_eq!(room(vfs.clone()).await, before, "the trash counts");
    assert_eq!(vfs.remove_tree(&path("/t")).await, Err(VfsError::NotFound));
    vfs.restore(entry.id, OnConflict::Refuse).await.unwrap();
    assert!(read(vfs, "/t/u/v/3").await.unwrap() == content(7, 100_000));

    world.mount("anna-v", "anna", "/t/u/v", |mount| mount.rights = Rights::read_only()).await;
    assert_eq!(vfs.remove_tree(&path("/t")).await, Err(VfsError::Unsupported));
    let mounts = world.db.list::<Mount>(entrepot_nouns::SiteId::MAIN).await.unwrap();
    let inner = mounts.into_iter().find(|mount| mount.noun.name == name("anna-v")).unwrap();
    let aside = Mount { path: path("/aside"), ..inner.noun };
    world.put(&aside).await;
    world.directory.refresh().await.unwrap();

    vfs.remove_tree(&path("/t")).await.unwrap();
    put(vfs, "/x", b"x").await.unwrap();
    let kept = remove(vfs, "/x").await;
    assert_eq!(paths(&trash(vfs, "/t").await), ["/t"]);
    assert_eq!(vfs.empty_trash(&path("/t")).await, Ok(1));
    assert_eq!(room(vfs.clone()).await, before + 300_000 - 1);
    assert_eq!(paths(&trash(vfs, "/").await), ["/x"]);
    vfs.purge(kept.id).await.unwrap();
    assert_eq!(hidden(&node).await, 0);
}

#[tokio::test]
async fn what_is_kept_long_enough_goes_for_good() {
    let world = World::new().await;
    world.account("anna", "/", keeping).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    for day in 0..3 {
        put(vfs, &format!("/{day}"), b"x").await.unwrap();
        remove(vfs, &format!("/{day}")).await;
        world.env.advance(Duration::from_secs(86_400));
    }
    project(&world, &node).await;
    let purged = node.service.purge_trash(None).await.unwrap();
    assert_eq!((purged.purged, purged.next), (0, None));
    world.env.advance(Duration::from_secs(5 * 86_400 - 1));
    assert_eq!(node.service.purge_trash(None).await.unwrap().purged, 1);
    assert_eq!(paths(&trash(vfs, "/").await), ["/2", "/1"]);
    project(&world, &node).await;
    assert_eq!(node.service.purge_trash(None).await.unwrap().purged, 0);
    assert_eq!(hidden(&node).await, 2);
    let purges = node.events().await;
    let purges = purges.iter().filter(|event| event.fact.kind() == "file.purged");
    assert!(purges.clone().count() == 1 && purges.into_iter().all(|it| it.account.is_none()));
}

#[tokio::test]
async fn what_is_beyond_the_limit_of_bytes_goes_oldest_first() {
    let world = World::new().await;
    let limited = |mount: &mut Mount| {
        mount.trash = Some(TrashOptions { days: 7, bytes: Some(50_000) });
    };
    world.account("anna", "/", limited).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    put(vfs, "/oldest", &content(1, 10_000)).await.unwrap();
    remove(vfs, "/oldest").await;
    world.env.advance(Duration::from_secs(1));
    for folder in ["/t", "/t/u"] {
        vfs.make_directory(&path(folder)).await.unwrap();
    }
    put(vfs, "/t/u/a", &content(2, 30_000)).await.unwrap();
    vfs.remove_tree(&path("/t")).await.unwrap();
    world.env.advance(Duration::from_secs(1));
    put(vfs, "/new", &content(3, 20_000)).await.unwrap();
    remove(vfs, "/new").await;
    world.env.advance(Duration::from_secs(1));
    project(&world, &node).await;
    assert_eq!(node.service.purge_trash(None).await.unwrap().purged, 1, "the tree is counted");
    assert_eq!(paths(&trash(vfs, "/").await), ["/new", "/t"]);
    put(vfs, "/one", b"x").await.unwrap();
    remove(vfs, "/one").await;
    project(&world, &node).await;
    assert_eq!(node.service.purge_trash(None).await.unwrap().purged, 1);
    assert_eq!(paths(&trash(vfs, "/").await), ["/one", "/new"]);
    assert_eq!(hidden(&node).await, 2);
}

/// The file is removed, put back, removed and deleted for good, and the power goes at call `nth`:
/// afterwards it is under its name, or in the trash and recorded, or was to be deleted for good.
async fn cut(world: &World, nth: u64) -> bool {
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let bytes = content(nth, 20_000);
    put(anna.vfs(), "/f", &bytes).await.unwrap();
    let before = disk.calls();
    disk.power_off_at(nth);
    let vfs = anna.vfs().clone();
    let mut purged = false;
    let work = async {
        let Removed::Kept(first) = vfs.remove_undoable(&path("/f")).await? else { return Ok(()) };
        vfs.restore(first.id, OnConflict::Refuse).await?;
        let Removed::Kept(last) = vfs.remove_undoable(&path("/f")).await? else { return Ok(()) };
        purged = true;
        vfs.purge(last.id).await
    };
    let done: crate::Result<()> = work.await;
    let is_off = disk.calls() >= before + nth;
    assert!(is_off || done.is_ok(), "call {nth}: {done:?} while the power was on");
    let left = disk.cut(nth, Cut::Strict);
    node.service.stop().await;
    let _ = node.journal.close().await;
    for boot in ["boot-2", "boot-3"] {
        let node = world.start(&left, &How { boot, ..How::default() }).await;
        let anna = world.session(&node, "anna").await;
        let visible = read(anna.vfs(), "/f").await;
        let mut kept = Vec::new();
        for event in node.events().await {
            match event.fact {
                Fact::FileTrashed { .. } => kept.push(event.id),
                Fact::FileRestored { trashed, .. } | Fact::FilePurged { trashed, .. } => {
                    kept.retain(|id| *id != trashed);
                }
                _ => {}
            }
        }
        let what = format!("call {nth}, {boot}: {:?}, {kept:?}", visible.as_ref().map(Vec::len));
        match &visible {
            Ok(found) => assert!(*found == bytes && kept.is_empty(), "{what}"),
            Err(_) => {
                let is_there = hidden(&node).await == 1 && kept.len() == 1;
                assert!(is_there || purged, "{what}");
            }
        }
        assert!(kept.len() <= 1 && hidden(&node).await <= 1, "{what}");
        node.stop().await;
    }
    is_off
}

/// What was not synced is lost. File systems with a journal write a rename between two directories
/// as one; [`Cut::Mixed`] would tear it apart.
#[tokio::test]
async fn a_power_cut_at_any_call_loses_nothing() {
    let world = World::new().await;
    world.account("anna", "/", keeping).await;
    let mut nth = 1;
    while cut(&world, nth).await {
        nth += 1;
        assert!(nth < 1_000, "it has no end");
    }
    assert!(nth > 15, "only {nth} calls were tried");
}
