//! No way out of the root, on the real kernel: planted links, hard links, devices, races.

use std::fs as disk;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::BytesMut;
use entrepot_nouns::{Env, StorePath, Timestamp};
use entrepot_storage::*;

const SECRET: &[u8] = b"outside";

/// Permission bits that nothing else here has.
const ODD_MODE: ModeChange = ModeChange { bits: 0o741, mask: 0o777, origin: ModeOrigin::Request };

fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

async fn put(store: &dyn Store, name: &str, data: &[u8]) -> Result<Published> {
    let file = store.stage(Env::real().new_id(), &path(name)).await?;
    file.write_at(0, data.to_vec().into()).await?;
    file.sync().await?;
    let size = data.len() as u64;
    let how =
        Publish { existing: Existing::Replace, accessed: None, modified: None, mode: None, size };
    let published = file.publish(&how).await;
    if published.is_err() {
        file.discard().await?;
    }
    published
}

async fn read(store: &dyn Store, name: &str) -> Result<Vec<u8>> {
    let file = store.open(&path(name)).await?;
    Ok(file.read_at(0, BytesMut::new(), 100).await?.to_vec())
}

/// A root beside a directory that must never be touched.
struct Yard {
    dir: tempfile::TempDir,
    store: AnyStore,
}

impl Yard {
    async fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        disk::create_dir(dir.path().join("outside")).unwrap();
        disk::write(dir.path().join("outside/file"), SECRET).unwrap();
        let store = fs::open(&dir.path().join("root"), &Env::real()).await.unwrap();
        Yard { dir, store }
    }

    fn root(&self) -> std::path::PathBuf {
        self.dir.path().join("root")
    }

    fn outside(&self) -> std::path::PathBuf {
        self.dir.path().join("outside")
    }

    /// Names and contents outside, and the times of the file there.
    fn check_outside(&self) {
        let names: Vec<_> = disk::read_dir(self.outside()).unwrap().flatten().collect();
        assert_eq!(names.len(), 1, "something was made or removed outside: {names:?}");
        assert_eq!(disk::read(self.outside().join("file")).unwrap(), SECRET);
    }
}

#[tokio::test]
async fn planted_links_and_devices_do_not_exist() {
    let yard = Yard::new().await;
    let (store, root) = (&*yard.store, yard.root());
    symlink(yard.outside().join("file"), root.join("to-file")).unwrap();
    symlink(yard.outside(), root.join("to-dir")).unwrap();
    symlink("../outside", root.join("relative")).unwrap();
    symlink(".", root.join("loop")).unwrap();
    symlink("/proc/self/root", root.join("magic")).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        root.join("pipe"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o666),
        0,
    )
    .unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap();
    disk::write(root.join("real"), b"in").unwrap();
    let mut listing = store.list(&path("")).await.unwrap();
    let names: Vec<String> =
        listing.next_page(100).await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["real"]);
    for name in [
        "to-file",
        "to-dir",
        "to-dir/file",
        "relative/file",
        "relative",
        "loop",
        "loop/real",
        "loop/loop/real",
        "magic",
        "magic/etc/passwd",
        "pipe",
        "socket",
    ] {
        let gone = |result: Option<StoreError>| {
            let hidden = matches!(result, Some(StoreError::NotFound | StoreError::Denied(_)));
            assert!(hidden, "'{name}': {result:?}");
        };
        gone(store.stat(&path(name)).await.err());
        gone(store.open(&path(name)).await.err());
        gone(store.list(&path(name)).await.err());
        gone(store.remove(&path(name)).await.err());
        gone(store.remove_directory(&path(name)).await.err());
        gone(store.set_times(&path(name), None, Some(Timestamp(0))).await.err());
        gone(store.set_mode(&path(name), ODD_MODE).await.err());
        gone(store.rename(&path(name), &path("x"), Existing::Replace).await.err());
        gone(store.rename(&path("real"), &path(name), Existing::Replace).await.err());
        gone(put(store, name, b"over").await.err());
        let below = format!("{name}/new");
        gone(put(store, &below, b"through").await.err());
        gone(store.make_directory(&path(&below)).await.err());
    }
    assert_eq!(read(store, "real").await.unwrap(), b"in");
    yard.check_outside();
}

#[tokio::test]
async fn a_link_in_the_way_of_a_publish_stays() {
    let yard = Yard::new().await;
    let store = &*yard.store;
    let file = store.stage(Env::real().new_id(), &path("f")).await.unwrap();
    file.sync().await.unwrap();
    symlink(yard.outside().join("file"), yard.root().join("f")).unwrap();
    let how = Publish {
        existing: Existing::Replace,
        accessed: None,
        modified: None,
        mode: None,
        size: 0,
    };
    let denied = file.publish(&how).await;
    assert!(matches!(denied, Err(StoreError::Denied(_))), "{denied:?}");
    assert!(yard.root().join("f").is_symlink());
    yard.check_outside();
}

#[tokio::test]
async fn what_has_a_second_name_outside_is_never_changed() {
    let yard = Yard::new().await;
    let store = &*yard.store;
    let outside = yard.outside().join("file");
    for name in ["a", "b", "c"] {
        disk::hard_link(&outside, yard.root().join(name)).unwrap();
    }
    let before = disk::metadata(&outside).unwrap();
    put(store, "a", b"new").await.unwrap();
    store.remove(&path("b")).await.unwrap();
    let times = store.set_times(&path("c"), None, Some(Timestamp(0))).await;
    assert!(matches!(times, Err(StoreError::Denied(_))), "{times:?}");
    let mode = store.set_mode(&path("c"), ODD_MODE).await;
    assert!(matches!(mode, Err(StoreError::Denied(_))), "{mode:?}");
    put(store, "d", b"other").await.unwrap();
    store.rename(&path("d"), &path("c"), Existing::Replace).await.unwrap();
    assert_eq!(read(store, "a").await.unwrap(), b"new");
    assert_eq!(read(store, "c").await.unwrap(), b"other");
    let after = disk::metadata(&outside).unwrap();
    assert_eq!((after.mtime(), after.mode()), (before.mtime(), before.mode()));
    yard.check_outside();
}

/// Swaps a directory and a link to the outside as fast as it can.
fn swap(root: &Path, stop: &AtomicBool) -> u64 {
    use rustix::fs::{CWD, RenameFlags, renameat_with};
    let mut swaps = 0;
    while !stop.load(Ordering::Relaxed) {
        renameat_with(CWD, root.join("d"), CWD, root.join("link"), RenameFlags::EXCHANGE).unwrap();
        swaps += 1;
    }
    swaps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rename_race_of_two_seconds_never_escapes() {
    let yard = Yard::new().await;
    let root = yard.root();
    disk::create_dir(root.join("d")).unwrap();
    disk::write(root.join("d/file"), b"inside").unwrap();
    symlink("../outside", root.join("link")).unwrap();
    let stop = std::sync::Arc::new(AtomicBool::new(false));
    let swapper = {
        let stop = std::sync::Arc::clone(&stop);
        std::thread::spawn(move || swap(&root, &stop))
    };
    let (env, store) = (Env::real(), &*yard.store);
    let (mut inside, mut refused) = (0u64, 0u64);
    let mut count = |ok: bool| if ok { inside += 1 } else { refused += 1 };
    while env.elapsed() < std::time::Duration::from_secs(2) {
        match read(store, "d/file").await {
            Ok(found) => {
                assert_eq!(found, b"inside", "read outside");
                count(true);
            }
            Err(_) => count(false),
        }
        count(put(store, "d/new", b"x").await.is_ok());
        count(store.make_directory(&path("d/made")).await.is_ok());
        let _ = store.remove_directory(&path("d/made")).await;
        count(store.rename(&path("d/new"), &path("d/newer"), Existing::Replace).await.is_ok());
        let _ = store.remove(&path("d/newer")).await;
        let _ = store.set_times(&path("d/file"), None, Some(Timestamp(0))).await;
        count(store.set_mode(&path("d/file"), ODD_MODE).await.is_ok());
        let _ = store.set_mode(&path("d"), ODD_MODE).await;
        if let Ok(mut listing) = store.list(&path("d")).await {
            let _ = listing.next_page(10).await;
        }
    }
    stop.store(true, Ordering::Relaxed);
    let swaps = swapper.join().unwrap();
    assert!(swaps > 100 && inside > 10 && refused > 10, "{swaps} {inside} {refused}: no race");
    yard.check_outside();
    assert!(disk::metadata(yard.outside().join("file")).unwrap().mtime() != 0, "times outside");
    for name in ["file", ""] {
        let mode = disk::metadata(yard.outside().join(name)).unwrap().mode();
        assert_ne!(mode & 0o777, ODD_MODE.bits, "the mode outside of '{name}'");
    }
}

#[tokio::test]
async fn a_root_that_is_missing_with_its_parent_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let missing = fs::open(&dir.path().join("no/root"), &Env::real()).await;
    assert_eq!(missing.err(), Some(StoreError::NotFound));
    disk::write(dir.path().join("file"), b"").unwrap();
    let file = fs::open(&dir.path().join("file"), &Env::real()).await;
    assert_eq!(file.err(), Some(StoreError::NotDirectory));
}

#[tokio::test]
async fn names_that_are_no_text_are_left_out() {
    use std::os::unix::ffi::OsStrExt;
    let yard = Yard::new().await;
    disk::write(yard.root().join(std::ffi::OsStr::from_bytes(b"\xff\xfe")), b"").unwrap();
    disk::write(yard.root().join("good"), b"").unwrap();
    let mut listing = yard.store.list(&path("")).await.unwrap();
    let page = listing.next_page(10).await.unwrap();
    assert_eq!(page.len(), 1);
    assert_eq!(page[0].name, "good");
}

/// Mounts a file system inside the root; only where the test may (root, or CAP_SYS_ADMIN).
#[test]
fn a_file_system_mounted_inside_has_its_own_staging() {
    // A mount namespace belongs to a thread; every call below is made on this one.
    std::thread::spawn(|| {
        if let Err(error) = in_own_mounts() {
            let test = "a file system mounted inside the root";
            entrepot_testkit::not_run(test, &format!("it cannot be mounted: {error}")).unwrap();
            return;
        }
        let runtime =
            tokio::runtime::Builder::new_current_thread().max_blocking_threads(4).build().unwrap();
        runtime.block_on(across_mounts());
    })
    .join()
    .unwrap();
}

fn in_own_mounts() -> rustix::io::Result<()> {
    use rustix::mount::{MountPropagationFlags, mount_change};
    // SAFETY: this thread is new, shares nothing by file system attributes, and does nothing but
    // this test.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS)? };
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)
}

async fn across_mounts() {
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let (root, inner) = (dir.path().join("root"), dir.path().join("root/a/mnt"));
    disk::create_dir_all(&inner).unwrap();
    let flags = rustix::mount::MountFlags::empty();
    rustix::mount::mount("none", &inner, "tmpfs", flags, None).unwrap();
    disk::create_dir(inner.join("deep")).unwrap();
    let store = fs::open(&root, &Env::real()).await.unwrap();
    put(&*store, "a/mnt/deep/f", b"one").await.unwrap();
    put(&*store, "a/mnt/f", b"two").await.unwrap();
    put(&*store, "a/f", b"three").await.unwrap();
    put(&*store, "a/mnt/f", b"again").await.unwrap();
    assert_eq!(read(&*store, "a/mnt/deep/f").await.unwrap(), b"one");
    assert_eq!(read(&*store, "a/mnt/f").await.unwrap(), b"again");
    let across = store.rename(&path("a/f"), &path("a/mnt/g"), Existing::Replace).await;
    assert!(matches!(across, Err(StoreError::Unsupported(_))), "{across:?}");
    let id = Env::real().new_id();
    drop(store.stage(id, &path("a/mnt/kept")).await.unwrap());
    drop(store);
    // Another process finds it without being told of the mount.
    let store = fs::open(&root, &Env::real()).await.unwrap();
    let staged = store.staged().await.unwrap();
    assert_eq!(staged.iter().map(|staged| staged.id).collect::<Vec<_>>(), [id]);
    store.discard_staged(id).await.unwrap();
    assert!(store.staged().await.unwrap().is_empty());
    drop(store);
    rustix::mount::unmount(&inner, rustix::mount::UnmountFlags::DETACH).unwrap();
}

#[tokio::test]
async fn a_second_name_is_neither_of_nor_through_a_planted_link() {
    let yard = Yard::new().await;
    let (store, root) = (&*yard.store, yard.root());
    put(store, "f", b"inside").await.unwrap();
    symlink(yard.outside().join("file"), root.join("to-file")).unwrap();
    symlink(yard.outside(), root.join("to-dir")).unwrap();
    for (from, to) in [("to-file", "g"), ("to-dir/file", "g"), ("f", "to-dir/g")] {
        let refused = store.link(&path(from), &path(to)).await;
        assert_eq!(refused, Err(StoreError::NotFound), "{from} {to}");
    }
    assert_eq!(store.link(&path("f"), &path("to-file")).await, Err(StoreError::Exists));
    assert!(!root.join("g").exists());
    yard.check_outside();
}
