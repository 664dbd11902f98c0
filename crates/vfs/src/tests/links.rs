//! Symbolic links in mounts that offer them, on the simulated disk and on the kernel's.

use std::collections::HashMap;

use entrepot_nouns::{MountOption, Right, StorePath};
use entrepot_storage::fault::Cut;

use super::*;
use crate::{Attributes, EntryKind, Existing, VfsError, limits};

async fn linking(world: &World, account: &str, at: &str, change: impl FnOnce(&mut Mount)) {
    world
        .account(account, at, |mount| {
            mount.options = [MountOption::Symlinks].into();
            change(mount);
        })
        .await;
}

/// A node with a session of an account that may link in `/`, which is the folder `home`.
async fn linker(world: &World) -> (Node, Session) {
    linking(world, "linker", "/", |mount| mount.prefix = "home".to_owned()).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "linker").await;
    (node, session)
}

async fn link(vfs: &Vfs, target: &str, at: &str) -> Result<()> {
    vfs.make_link(target, &path(at)).await
}

async fn said(vfs: &Vfs, at: &str) -> Result<String> {
    vfs.read_link(&path(at)).await
}

/// Makes a link as another program of the host would.
async fn plant(node: &Node, target: &str, at: &str) {
    let at: StorePath = format!("home/{at}").parse().unwrap();
    node.files.as_ref().unwrap().make_link(target, &at).await.unwrap();
}

async fn kinds(vfs: &Vfs, at: &str) -> Vec<(String, EntryKind)> {
    let mut listing = vfs.list(&path(at)).await.unwrap();
    let page = listing.next_page(100).await.unwrap();
    let mut found: Vec<_> =
        page.into_iter().map(|entry| (entry.name, entry.attributes.kind)).collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}

fn entry(name: &str, kind: EntryKind) -> (String, EntryKind) {
    (name.to_owned(), kind)
}

#[tokio::test]
async fn links_are_followed_within_the_mount_and_say_the_way_there() {
    let world = World::new().await;
    let (node, session) = linker(&world).await;
    let vfs = session.vfs();
    for folder in ["/a", "/a/b", "/c"] {
        vfs.make_directory(&path(folder)).await.unwrap();
    }
    put(vfs, "/a/b/f", b"one").await.unwrap();
    for (target, at, says) in [
        ("/a/b/f", "/c/absolute", "../a/b/f"),
        ("../a/b/f", "/c/relative", "../a/b/f"),
        ("b/./f", "/a/near", "b/f"),
        ("relative", "/c/chain", "relative"),
        ("/c/chain", "/chain", "c/chain"),
        ("/a/b", "/to-b", "a/b"),
        ("/to-b/f", "/c/through", "../to-b/f"),
        ("c/../a/b/../b/f", "/winding", "a/b/f"),
        ("/", "/a/b/top", "../.."),
        (".", "/a/b/here", "."),
    ] {
        link(vfs, target, at).await.unwrap();
        assert_eq!(said(vfs, at).await.unwrap(), says, "{at}");
        assert_eq!(vfs.lstat(&path(at)).await.unwrap().kind, EntryKind::Link, "{at}");
    }
    for at in [
        "/c/absolute",
        "/c/relative",
        "/a/near",
        "/c/chain",
        "/chain",
        "/to-b/f",
        "/c/through",
        "/winding",
        "/a/b/top/c/chain",
        "/a/b/here/here/f",
        "/to-b/top/to-b/f",
    ] {
        assert_eq!(read(vfs, at).await.unwrap(), b"one", "{at}");
        assert_eq!(vfs.stat(&path(at)).await.unwrap().size, 3, "{at}");
        assert_eq!(vfs.resolve(&path(at)).await.unwrap(), path("/a/b/f"), "{at}");
    }
    assert_eq!(vfs.stat(&path("/to-b")).await.unwrap().kind, EntryKind::Directory);
    let (file, link) = (EntryKind::File, EntryKind::Link);
    let below = [entry("f", file), entry("here", link), entry("top", link)];
    assert_eq!(kinds(vfs, "/to-b").await, below);
    assert_eq!(names(vfs, "/a/b/top").await.unwrap(), ["a", "c", "chain", "to-b", "winding"]);
    let made = node.events().await.into_iter().filter_map(|event| match event.fact {
        Fact::LinkCreated { path, target } => Some((event.account.unwrap(), path, target)),
        _ => None,
    });
    let first = (name("linker"), "/c/absolute".to_owned(), "/a/b/f".to_owned());
    assert_eq!(made.collect::<Vec<_>>().first(), Some(&first));
}

#[tokio::test]
async fn two_names_of_a_file_are_one_file() {
    let world = World::new().await;
    let (node, session) = linker(&world).await;
    let vfs = session.vfs();
    vfs.make_directory(&path("/d")).await.unwrap();
    link(vfs, "/d/f", "/l").await.unwrap();
    link(vfs, "/d", "/e").await.unwrap();
    // To nothing: the upload makes the file it leads to.
    let mut upload = vfs.create(&path("/l"), NEW).await.unwrap();
    write(&mut upload, 0, b"fresh").await.unwrap();
    for at in ["/l", "/d/f", "/e/f"] {
        let Attributes { size, partial, .. } = vfs.stat(&path(at)).await.unwrap();
        assert_eq!((size, partial), (5, true), "{at}");
    }
    upload.finish().await.unwrap();
    assert_eq!(read(vfs, "/d/f").await.unwrap(), b"fresh");
    put(vfs, "/e/f", b"again").await.unwrap();
    assert_eq!(read(vfs, "/l").await.unwrap(), b"again");
    assert_eq!(vfs.lstat(&path("/l")).await.unwrap().kind, EntryKind::Link);
    let told: Vec<_> =
        node.arrivals().await.into_iter().map(|f| (f.path, f.displaced.is_some())).collect();
    assert_eq!(told, [("/d/f".to_owned(), false), ("/d/f".to_owned(), true)]);
    // A cut upload of one name is resumed under the other.
    let mut upload = vfs.create(&path("/e/cut"), NEW).await.unwrap();
    write(&mut upload, 0, &[7; 1000]).await.unwrap();
    upload.interrupt("a test").await;
    assert_eq!(vfs.create(&path("/d/cut"), CONTINUE).await.unwrap().size(), 1000);
    vfs.rename(&path("/l"), &path("/m"), Existing::Refuse).await.unwrap();
    assert_eq!(said(vfs, "/m").await.unwrap(), "d/f");
    put(vfs, "/taken", b"x").await.unwrap();
    assert!(vfs.rename(&path("/m"), &path("/taken"), Existing::Replace).await.unwrap().replaced);
    vfs.set_times(&path("/taken"), None, Some(entrepot_nouns::Timestamp(5))).await.unwrap();
    assert_eq!(vfs.stat(&path("/d/f")).await.unwrap().modified.0, 5);
    vfs.remove(&path("/taken")).await.unwrap();
    assert_eq!(vfs.lstat(&path("/taken")).await, Err(VfsError::NotFound));
    assert_eq!(read(vfs, "/d/f").await.unwrap(), b"again");
}

#[tokio::test]
async fn loops_and_names_of_links_to_nothing() {
    let world = World::new().await;
    let (_node, session) = linker(&world).await;
    let vfs = session.vfs();
    link(vfs, "b", "/a").await.unwrap();
    link(vfs, "a", "/b").await.unwrap();
    link(vfs, "self", "/self").await.unwrap();
    link(vfs, "nothing", "/dangling").await.unwrap();
    link(vfs, "nothing/../x", "/odd").await.unwrap();
    put(vfs, "/f", b"f").await.unwrap();
    link(vfs, "f", "/n0").await.unwrap();
    for number in 0..limits::LINKS {
        link(vfs, &format!("n{number}"), &format!("/n{}", number + 1)).await.unwrap();
    }
    let last = format!("/n{}", limits::LINKS - 1);
    assert_eq!(read(vfs, &last).await.unwrap(), b"f");
    let beyond = format!("/n{}", limits::LINKS);
    for at in ["/a", "/b", "/self", "/self/x", beyond.as_str()] {
        assert_eq!(vfs.stat(&path(at)).await, Err(VfsError::LinkLoop), "{at}");
        assert_eq!(vfs.create(&path(at), NEW).await.err(), Some(VfsError::LinkLoop), "{at}");
        assert_eq!(vfs.list(&path(at)).await.err(), Some(VfsError::LinkLoop), "{at}");
    }
    assert_eq!(vfs.lstat(&path("/a")).await.unwrap().kind, EntryKind::Link);
    for at in ["/dangling", "/dangling/below"] {
        assert_eq!(vfs.stat(&path(at)).await, Err(VfsError::NotFound), "{at}");
    }
    let taken = vfs.create(&path("/dangling"), EXCLUSIVE).await.err();
    assert_eq!(taken, Some(VfsError::Exists));
    assert_eq!(vfs.make_directory(&path("/dangling")).await, Err(VfsError::Exists));
    assert_eq!(vfs.remove_directory(&path("/dangling")).await, Err(VfsError::NotDirectory));
    assert_eq!(link(vfs, "f", "/dangling").await, Err(VfsError::Exists));
    assert_eq!(link(vfs, "", "/empty").await, Err(VfsError::NotFound));
    assert_eq!(said(vfs, "/f").await, Err(VfsError::NotLink));
    assert_eq!(said(vfs, "/none").await, Err(VfsError::NotFound));
}

#[tokio::test]
async fn links_that_lead_outside_are_names_only() {
    let world = World::new().await;
    linking(&world, "linker", "/", |mount| mount.prefix = "home".to_owned()).await;
    world.mount("hides", "linker", "/hidden", |mount| mount.endpoint = name("other")).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "linker").await;
    let (vfs, alice) = (session.vfs(), world.session(&node, "alice").await);
    vfs.make_directory(&path("/d")).await.unwrap();
    put(alice.vfs(), "/secret", b"secret").await.unwrap();
    alice.vfs().make_directory(&path("/home/hidden")).await.unwrap();
    put(alice.vfs(), "/home/hidden/f", b"secret").await.unwrap();
    for (target, at) in [
        ("/secret", "d/absolute"),
        ("/home/d", "d/absolute-inside"),
        ("../../secret", "d/up"),
        ("../../home/d", "d/out-and-in"),
        ("up", "d/chain"),
        ("../hidden/f", "d/covered"),
        ("../..", "d/parent"),
    ] {
        plant(&node, target, at).await;
    }
    let found = kinds(vfs, "/d").await;
    assert!(found.len() == 7 && found.iter().all(|(_, kind)| *kind == EntryKind::Link));
    let outside = Some(VfsError::LinkOutside);
    for (entry, _) in &found {
        let at = &format!("/d/{entry}");
        assert_eq!(vfs.stat(&path(at)).await.err(), outside, "{at}");
        assert_eq!(vfs.open(&path(at)).await.err(), outside, "{at}");
        assert_eq!(vfs.list(&path(at)).await.err(), outside, "{at}");
        assert_eq!(vfs.create(&path(at), NEW).await.err(), outside, "{at}");
        assert_eq!(vfs.create(&path(at), CONTINUE).await.err(), outside, "{at}");
        assert_eq!(vfs.set_times(&path(at), None, None).await.err(), outside, "{at}");
        assert_eq!(vfs.link(&path(at), &path("/g")).await.err(), outside, "{at}");
        let below = &format!("{at}/new");
        assert_eq!(put(vfs, below, b"x").await.err(), outside, "{below}");
        assert_eq!(vfs.make_directory(&path(below)).await.err(), outside, "{below}");
        assert_eq!(vfs.remove(&path(below)).await.err(), outside, "{below}");
        match entry.as_str() {
            "chain" => assert_eq!(said(vfs, at).await.unwrap(), "up"),
            _ => assert_eq!(said(vfs, at).await.err(), outside, "{at}"),
        }
    }
    // They can be moved and removed, as names.
    vfs.rename(&path("/d/up"), &path("/up"), Existing::Refuse).await.unwrap();
    for at in ["/up", "/d/chain", "/d/absolute"] {
        vfs.remove(&path(at)).await.unwrap();
    }
    assert_eq!(read(alice.vfs(), "/secret").await.unwrap(), b"secret");
    assert_eq!(read(alice.vfs(), "/home/hidden/f").await.unwrap(), b"secret");
}

#[tokio::test]
async fn only_links_that_stay_in_their_mount_are_made() {
    let world = World::new().await;
    linking(&world, "linker", "/in", |_| {}).await;
    world.mount("more", "linker", "/in/more", |mount| mount.endpoint = name("other")).await;
    world.mount("plain", "linker", "/plain", |mount| mount.endpoint = name("other")).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let session = world.session(&node, "linker").await;
    let vfs = session.vfs();
    vfs.make_directory(&path("/in/d")).await.unwrap();
    for target in [
        "/etc/passwd",
        "../../etc/passwd",
        "../../in/d",
        "/in/more/f",
        "../more",
        "/in/more",
        "/plain/f",
        "/",
        "../../../../../..",
    ] {
        let refused = link(vfs, target, "/in/d/l").await;
        assert_eq!(refused, Err(VfsError::LinkOutside), "{target}");
    }
    for at in ["/plain/l", "/in/more/l", "/l", "/nowhere/l"] {
        assert_eq!(link(vfs, "x", at).await, Err(VfsError::Unsupported), "{at}");
        assert_eq!(said(vfs, at).await, Err(VfsError::Unsupported), "{at}");
    }
    assert_eq!(link(vfs, "x", "/in/none/l").await, Err(VfsError::NotFound));
    assert_eq!(link(vfs, "x", "/in").await, Err(VfsError::Exists));
    // A link that would lead outside from another folder stays where it is.
    link(vfs, "../x", "/in/d/l").await.unwrap();
    let moved = vfs.rename(&path("/in/d/l"), &path("/in/l"), Existing::Refuse).await;
    assert_eq!(moved, Err(VfsError::LinkOutside));
    assert_eq!(names(vfs, "/in/d").await.unwrap(), ["l"]);
}

#[tokio::test]
async fn links_need_the_option_rights_and_room() {
    let world = World::new().await;
    let (node, session) = linker(&world).await;
    put(session.vfs(), "/f", b"f").await.unwrap();
    link(session.vfs(), "f", "/l").await.unwrap();
    // Without the option there are none, as ever.
    world.account("plain", "/", |mount| mount.prefix = "home".to_owned()).await;
    let plain = world.session(&node, "plain").await;
    assert_eq!(names(plain.vfs(), "/").await.unwrap(), ["f"]);
    assert_eq!(plain.vfs().stat(&path("/l")).await, Err(VfsError::NotFound));
    assert_eq!(plain.vfs().lstat(&path("/l")).await, Err(VfsError::NotFound));
    assert_eq!(plain.vfs().remove(&path("/l")).await, Err(VfsError::NotFound));
    assert!(matches!(put(plain.vfs(), "/l", b"").await, Err(VfsError::Denied { .. })));
    assert_eq!(said(plain.vfs(), "/l").await, Err(VfsError::Unsupported));
    assert_eq!(link(plain.vfs(), "f", "/m").await, Err(VfsError::Unsupported));
    for (account, right, reads) in
        [("reads", Right::Read, true), ("lists", Right::List, true), ("sends", Right::Write, false)]
    {
        linking(&world, account, "/", |mount| {
            mount.prefix = "home".to_owned();
            mount.rights = [right].into_iter().collect();
        })
        .await;
        let session = world.session(&node, account).await;
        assert_eq!(said(session.vfs(), "/l").await.is_ok(), reads, "{account}");
        let made = link(session.vfs(), "f", &format!("/of-{account}")).await;
        assert_eq!(made.is_ok(), right == Right::Write, "{account} {made:?}");
        let removed = session.vfs().remove(&path("/l")).await;
        assert!(matches!(removed, Err(VfsError::Denied { .. })), "{account} {removed:?}");
    }
    linking(&world, "full", "/", |mount| {
        mount.prefix = "home".to_owned();
        with_quota(None, Some(4), None)(mount);
    })
    .await;
    let full = world.session(&node, "full").await;
    link(full.vfs(), "f", "/m").await.unwrap();
    let refused = link(full.vfs(), "f", "/n").await;
    assert!(matches!(refused, Err(VfsError::Quota { .. })), "{refused:?}");
    full.vfs().remove(&path("/m")).await.unwrap();
    link(full.vfs(), "f", "/n").await.unwrap();
}

#[tokio::test]
async fn a_power_cut_leaves_a_link_and_its_record_or_neither() {
    let world = World::new().await;
    linking(&world, "linker", "/", |_| {}).await;
    let (mut made, mut lost) = (0, 0);
    for at in 1..40 {
        let disk = SimDisk::new(&Env::simulated(at));
        let node = world.start(&disk, &How::default()).await;
        let session = world.session(&node, "linker").await;
        link(session.vfs(), "f", "/removed").await.unwrap();
        disk.power_off_at(at);
        let created = link(session.vfs(), "f", "/l").await.is_ok();
        let removed = session.vfs().remove(&path("/removed")).await.is_ok();
        drop(session);
        let left = disk.cut(at, if at % 2 == 0 { Cut::Strict } else { Cut::Mixed });
        node.service.stop().await;
        let _ = node.journal.close().await;
        let node = world.start(&left, &How { boot: "boot-2", ..How::default() }).await;
        let session = world.session(&node, "linker").await;
        let found = names(session.vfs(), "/").await.unwrap();
        let (is_there, is_gone) =
            (found.contains(&"l".to_owned()), !found.contains(&"removed".to_owned()));
        assert!(is_there || !created, "call {at}: lost");
        assert!(is_gone || !removed, "call {at}: back again");
        let events = node.events().await;
        let count = |kind: &str| events.iter().filter(|e| e.fact.kind() == kind).count();
        assert_eq!(count("link.created"), 1 + usize::from(is_there), "call {at}");
        assert_eq!(count("file.removed"), usize::from(is_gone), "call {at}");
        (made, lost) = (made + u32::from(is_there), lost + u32::from(!is_there));
    }
    assert!(made > 3 && lost > 3, "{made} {lost}: the power went at the wrong time");
}

/// Swaps a directory and a link to the outside all the time, on the kernel's disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swapped_name_never_leads_a_link_outside() {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};
    let world = World::new().await;
    linking(&world, "linker", "/", |_| {}).await;
    let yard = tempfile::tempdir().unwrap();
    let (root, outside) = (yard.path().join("root"), yard.path().join("outside"));
    let files = entrepot_storage::fs::open(&root, &Env::real()).await.unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::write(outside.join("file"), b"outside").unwrap();
    std::fs::create_dir(root.join("d")).unwrap();
    std::fs::write(root.join("d/file"), b"inside").unwrap();
    symlink("../outside", root.join("swapped")).unwrap();
    let stores = HashMap::from([(name("files"), files)]);
    let node = world.start_on(&SimDisk::new(&world.env), &How::default(), stores).await.unwrap();
    let session = world.session(&node, "linker").await;
    let vfs = session.vfs();
    link(vfs, "/d", "/to-d").await.unwrap();
    link(vfs, "/d/file", "/to-file").await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapper = std::thread::spawn({
        let (root, stop) = (root.clone(), Arc::clone(&stop));
        move || {
            let (one, other, away) = (root.join("d"), root.join("swapped"), root.join("away"));
            while !stop.load(Ordering::Relaxed) {
                for (from, to) in [(&one, &away), (&other, &one), (&one, &other), (&away, &one)] {
                    std::fs::rename(from, to).unwrap();
                }
            }
        }
    });
    let (mut inside, mut refused) = (0, 0);
    for round in 0..100_000 {
        for at in ["/to-d/file", "/to-file", "/d/file"] {
            match read(vfs, at).await {
                Ok(found) => {
                    assert_eq!(found, b"inside", "{at} was read outside");
                    inside += 1;
                }
                Err(_) => refused += 1,
            }
        }
        let _ = put(vfs, "/to-d/new", b"x").await;
        let _ = vfs.make_directory(&path("/to-d/made")).await;
        let _ = vfs.remove_directory(&path("/to-d/made")).await;
        let _ = link(vfs, "file", "/to-d/link").await;
        let _ = vfs.rename(&path("/to-d/new"), &path("/to-d/newer"), Existing::Replace).await;
        for at in ["/to-d/newer", "/to-d/link"] {
            let _ = vfs.remove(&path(at)).await;
        }
        let _ = vfs.set_times(&path("/to-file"), None, Some(entrepot_nouns::Timestamp(0))).await;
        if round > 300 && inside > 20 && refused > 20 {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(inside > 20 && refused > 20, "{inside} {refused}: no race");
    let names: Vec<_> = std::fs::read_dir(&outside).unwrap().flatten().collect();
    assert_eq!(names.len(), 1, "{names:?}");
    let found = std::fs::metadata(outside.join("file")).unwrap();
    assert!(found.modified().unwrap() != std::time::UNIX_EPOCH, "times were set outside");
    assert_eq!(std::fs::read(outside.join("file")).unwrap(), b"outside");
}

/// What the kernel makes of the same links, as long as they stay inside.
#[tokio::test]
async fn random_links_lead_where_the_kernel_says() {
    const NAMES: [&str; 4] = ["x1", "x2", "x3", "x4"];
    let world = World::new().await;
    linking(&world, "linker", "/", |_| {}).await;
    let (mut found, mut refused, mut through) = (0, 0, 0);
    for seed in 0..25 {
        let mut random = Random(seed);
        let yard = tempfile::tempdir().unwrap();
        let root = yard.path().canonicalize().unwrap().join("above/root");
        std::fs::create_dir_all(&root).unwrap();
        for name in NAMES {
            std::fs::write(root.parent().unwrap().join(name), b"outside").unwrap();
        }
        let mut word = |most: u64, up: bool| {
            let parts = (0..=random.below(most)).map(|_| match random.below(8) {
                0..=2 if up => "..",
                3 if up => ".",
                other => NAMES[(other % 4) as usize],
            });
            parts.collect::<Vec<_>>().join("/")
        };
        for step in 0..40 {
            let at = root.join(word(2, false));
            // Some are taken, some have no parent.
            let _ = match step % 4 {
                0 => std::fs::create_dir(at),
                1 => std::fs::write(at, format!("{step}")),
                _ => std::os::unix::fs::symlink(word(3, true), at),
            };
        }
        let files = entrepot_storage::fs::open(&root, &Env::real()).await.unwrap();
        let stores = HashMap::from([(name("files"), files)]);
        let disk = SimDisk::new(&world.env);
        let node = world.start_on(&disk, &How::default(), stores).await.unwrap();
        let session = world.session(&node, "linker").await;
        for _ in 0..60 {
            let at = word(4, false);
            let wanted = root.join(&at).canonicalize().ok();
            let wanted = wanted.and_then(|at| Some(at.strip_prefix(&root).ok()?.to_owned()));
            let virtual_path = path(&format!("/{at}"));
            let led = session.vfs().resolve(&virtual_path).await;
            let is_there = session.vfs().stat(&virtual_path).await.is_ok();
            match &wanted {
                Some(wanted) => {
                    let wanted = path(&format!("/{}", wanted.display()));
                    assert_eq!(led.as_ref(), Ok(&wanted), "seed {seed}: /{at}");
                    through += u32::from(wanted != virtual_path);
                }
                None => assert!(!is_there, "seed {seed}: /{at} leads to {led:?}"),
            }
            assert_eq!(is_there, wanted.is_some(), "seed {seed}: /{at} leads to {led:?}");
            (found, refused) = (found + u32::from(is_there), refused + u32::from(led.is_err()));
        }
    }
    assert!(found > 300 && refused > 50 && through > 50, "{found} {refused} {through}");
}
