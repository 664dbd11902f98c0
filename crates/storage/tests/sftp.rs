//! What an SFTP endpoint adds to the conformance suite: servers that offer less, that change
//! under us, that die; pinned keys; several processes.

use bytes::{Bytes, BytesMut};
use entrepot_nouns::endpoint::{PublishBy, SftpTarget};
use entrepot_nouns::{EndpointTarget, Env, StorePath, TransferId};
use entrepot_storage::*;
use entrepot_testkit::sshd::Sshd;

fn path(text: &str) -> StorePath {
    text.parse().unwrap()
}

fn id(number: u128) -> TransferId {
    TransferId(uuid::Uuid::from_u128(number))
}

fn target(sshd: &Sshd) -> SftpTarget {
    SftpTarget {
        host: "127.0.0.1".to_owned(),
        port: sshd.port(),
        user: sshd.user().to_owned(),
        host_keys: vec![sshd.host_key().to_owned()],
        root: sshd.folder().display().to_string(),
        key: None,
        password_sealed: None,
        password: None,
        allow_private: true,
        publish: PublishBy::Rename,
    }
}

fn secrets(sshd: &Sshd) -> ResolvedSecrets {
    let key = std::fs::read_to_string(sshd.user_key()).unwrap();
    ResolvedSecrets { secret: None, private_key: Some(key.into()) }
}

async fn open_target(target: SftpTarget, secrets: &ResolvedSecrets) -> AnyStore {
    open(&EndpointTarget::Sftp(target), secrets, &Env::real()).await.unwrap()
}

async fn open_on(sshd: &Sshd) -> AnyStore {
    open_target(target(sshd), &secrets(sshd)).await
}

fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    Env::simulated(seed).fill_random(&mut bytes);
    bytes
}

fn how(existing: Existing, size: usize) -> Publish {
    Publish { existing, accessed: None, modified: None, mode: None, size: size as u64 }
}

async fn put(store: &AnyStore, name: &str, data: &[u8], existing: Existing) -> Result<Published> {
    let file = store.stage(Env::real().new_id(), &path(name)).await?;
    for (number, piece) in data.chunks(100_000).enumerate() {
        let offset = number as u64 * 100_000;
        file.write_at(offset, Bytes::copy_from_slice(piece)).await?;
    }
    file.sync().await?;
    let published = file.publish(&how(existing, data.len())).await;
    if published.is_err() {
        file.discard().await?;
    }
    published
}

async fn get(store: &AnyStore, name: &str, step: usize) -> Result<Vec<u8>> {
    let file = store.open(&path(name)).await?;
    let mut all = BytesMut::new();
    loop {
        let before = all.len();
        all = file.read_at(before as u64, all, step).await?;
        if all.len() < before + step {
            return Ok(all.to_vec());
        }
    }
}

#[tokio::test]
async fn large_files_go_both_ways_in_any_step() {
    let sshd = Sshd::start().unwrap();
    let store = open_on(&sshd).await;
    let data = pattern(1, 20_000_000);
    put(&store, "big", &data, Existing::Refuse).await.unwrap();
    assert!(std::fs::read(sshd.folder().join("big")).unwrap() == data);
    for step in [30_000, 261_120, 1_000_000, 50_000_000] {
        assert!(get(&store, "big", step).await.unwrap() == data, "by {step}");
    }
    let file = store.open(&path("big")).await.unwrap();
    for (offset, len) in [(19_999_990, 100), (5, 3), (8, 2), (10, 400_000), (0, 1)] {
        let got = file.read_at(offset as u64, BytesMut::new(), len).await.unwrap();
        assert!(got[..] == data[offset..data.len().min(offset + len)], "{len} at {offset}");
    }
}

/// A server without `posix-rename` cannot replace in one step, so nothing is replaced; one without
/// `fsync`, `limits` and `statvfs` is served all the same.
#[tokio::test]
async fn a_server_that_offers_little_is_served_without_tricks() {
    let less = "internal-sftp -P posix-rename,fsync,limits,statvfs";
    let sshd = Sshd::start_with(less, &[]).unwrap();
    let store = open_on(&sshd).await;
    let data = pattern(2, 300_000);
    assert!(!put(&store, "f", &data, Existing::Replace).await.unwrap().replaced());
    assert!(get(&store, "f", 100_000).await.unwrap() == data);
    let again = put(&store, "f", b"new", Existing::Replace).await;
    assert!(matches!(again, Err(StoreError::Unsupported(_))), "{again:?}");
    let refused = put(&store, "f", b"new", Existing::Refuse).await;
    assert_eq!(refused, Err(StoreError::Exists));
    assert!(get(&store, "f", 400_000).await.unwrap() == data, "the old version is whole");
    let left: Vec<_> = std::fs::read_dir(sshd.folder()).unwrap().collect();
    assert_eq!(left.len(), 1, "no part is left");
    assert_eq!(store.space().await.unwrap().total_bytes, u64::MAX);
}

/// The endpoint may allow several steps where the server cannot do it in one.
#[tokio::test]
async fn an_old_file_is_replaced_in_steps_where_the_endpoint_says_so() {
    let sshd = Sshd::start_with("internal-sftp -P posix-rename", &[]).unwrap();
    let in_steps = SftpTarget { publish: PublishBy::RemoveAndRename, ..target(&sshd) };
    let store = open_target(in_steps, &secrets(&sshd)).await;
    put(&store, "f", b"old", Existing::Replace).await.unwrap();
    assert!(put(&store, "f", b"newer", Existing::Replace).await.unwrap().replaced());
    assert_eq!(put(&store, "f", b"x", Existing::Refuse).await, Err(StoreError::Exists));
    assert_eq!(std::fs::read(sshd.folder().join("f")).unwrap(), b"newer");
    assert_eq!(files(&sshd), ["f"], "neither a part nor the old file is left");
    // What an earlier process could not remove is in nobody's way.
    std::fs::write(sshd.folder().join(".f.replaced"), b"old").unwrap();
    assert!(put(&store, "f", b"newest", Existing::Replace).await.unwrap().replaced());
    assert_eq!(std::fs::read(sshd.folder().join("f")).unwrap(), b"newest");
    assert_eq!(files(&sshd), ["f"]);
}

/// A server that does not replace by RENAME, and a plan of which RENAME goes wrong and how: see
/// `sftp_fault.py`.
struct FaultyServer {
    sshd: Sshd,
    store: AnyStore,
    plan: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

impl FaultyServer {
    async fn start() -> FaultyServer {
        let folder = tempfile::tempdir().unwrap();
        let plan = folder.path().join("plan");
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/sftp_fault.py");
        let server = "/usr/lib/openssh/sftp-server -P posix-rename";
        let command = format!("python3 {script} {} {server}", plan.display());
        let sshd = Sshd::start_with(&command, &[]).unwrap();
        let in_steps = SftpTarget { publish: PublishBy::RemoveAndRename, ..target(&sshd) };
        let store = open_target(in_steps, &secrets(&sshd)).await;
        put(&store, "f", b"old", Existing::Replace).await.unwrap();
        FaultyServer { sshd, store, plan, _folder: folder }
    }

    /// Replaces the file while a RENAME behind `passing` others suffers `fault`; gives back what
    /// came of it.
    async fn replace(&self, passing: u32, fault: &str) -> Result<Published> {
        std::fs::write(&self.plan, format!("{passing} {fault}")).unwrap();
        let file = self.store.stage(id(1), &path("f")).await?;
        file.write_at(0, Bytes::from_static(b"newer")).await?;
        file.sync().await?;
        let published = file.publish(&how(Existing::Replace, 5)).await;
        assert!(!self.plan.exists(), "the fault never came");
        drop(file);
        self.store.staged().await.unwrap();
        self.store.discard_staged(id(1)).await.unwrap();
        published
    }

    fn content(&self) -> Vec<u8> {
        std::fs::read(self.sshd.folder().join("f")).unwrap()
    }
}

fn files(sshd: &Sshd) -> Vec<String> {
    let entries = std::fs::read_dir(sshd.folder()).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The first RENAME moves the old file aside, the second gives its name to the new one.
#[tokio::test]
async fn a_replacement_that_fails_between_its_steps_leaves_the_old_file() {
    let server = FaultyServer::start().await;
    for passing in [0, 1] {
        for fault in ["refuse", "before"] {
            let failed = server.replace(passing, fault).await;
            assert!(failed.is_err(), "{fault} {passing}: {failed:?}");
            assert_eq!(server.content(), b"old", "{fault} {passing}");
            assert_eq!(files(&server.sshd), ["f"], "{fault} {passing}");
        }
    }
    // The server moved the old file aside, and its answer was lost.
    let failed = server.replace(0, "after").await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))), "{failed:?}");
    assert_eq!(server.content(), b"old");
    assert_eq!(files(&server.sshd), ["f"]);
}

#[tokio::test]
async fn a_replacement_whose_answer_is_lost_counts_when_the_new_file_has_the_name() {
    let server = FaultyServer::start().await;
    assert!(server.replace(1, "after").await.unwrap().replaced());
    assert_eq!(server.content(), b"newer");
    assert_eq!(files(&server.sshd), ["f"]);
}

/// A server that renames nothing gets files under their own names; what is refused in the middle
/// does not stay.
#[tokio::test]
async fn files_are_written_directly_where_the_endpoint_says_so() {
    let sshd = Sshd::start_with("internal-sftp -P rename,posix-rename", &[]).unwrap();
    let store = open_on(&sshd).await;
    assert!(put(&store, "f", b"content", Existing::Replace).await.is_err(), "it cannot rename");
    let direct = SftpTarget { publish: PublishBy::Direct, ..target(&sshd) };
    assert!(store.caps().staged_apart);
    let store = open_target(direct, &secrets(&sshd)).await;
    assert!(!store.caps().staged_apart, "what is laid over a file would read what it wrote");
    let data = pattern(3, 3_000_000);
    assert!(!put(&store, "f", &data, Existing::Replace).await.unwrap().replaced());
    assert!(std::fs::read(sshd.folder().join("f")).unwrap() == data);
    assert!(put(&store, "f", b"short", Existing::Replace).await.unwrap().replaced());
    assert_eq!(std::fs::read(sshd.folder().join("f")).unwrap(), b"short");
    let file = store.stage(id(9), &path("g")).await.unwrap();
    file.write_at(0, Bytes::from_static(b"half")).await.unwrap();
    file.sync().await.unwrap();
    assert!(sshd.folder().join("g").exists(), "its name is there from the start");
    file.discard().await.unwrap();
    assert!(!sshd.folder().join("g").exists());
}

#[tokio::test]
async fn an_unknown_host_key_is_refused_and_shown() {
    let sshd = Sshd::start().unwrap();
    let other = Sshd::start().unwrap();
    let pinned = |keys: &[&str]| SftpTarget {
        host_keys: keys.iter().map(|key| (*key).to_owned()).collect(),
        ..target(&sshd)
    };
    let store = open_target(pinned(&[other.host_key()]), &secrets(&sshd)).await;
    let Err(StoreError::Denied(why)) = store.stat(&path("")).await else { panic!("accepted") };
    assert!(why.contains("SHA256:") && why.contains("not pinned"), "{why}");
    let both = pinned(&[other.host_key(), sshd.host_key()]);
    let store = open_target(both, &secrets(&sshd)).await;
    assert!(store.stat(&path("")).await.is_ok());
    let store = open_target(target(&sshd), &secrets(&other)).await;
    let Err(StoreError::Denied(why)) = store.stat(&path("")).await else { panic!("accepted") };
    assert!(why.contains("log in"), "{why}");
    let private = SftpTarget { allow_private: false, ..target(&sshd) };
    let store = open_target(private, &secrets(&sshd)).await;
    assert!(matches!(store.stat(&path("")).await, Err(StoreError::Denied(_))));
}

#[tokio::test]
async fn links_and_pipes_are_not_there() {
    let sshd = Sshd::start().unwrap();
    let store = open_on(&sshd).await;
    std::os::unix::fs::symlink("/etc/passwd", sshd.folder().join("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", sshd.folder().join("broken")).unwrap();
    std::fs::write(sshd.folder().join("file"), b"x").unwrap();
    for name in ["link", "broken"] {
        assert_eq!(store.stat(&path(name)).await, Err(StoreError::NotFound));
        assert_eq!(store.open(&path(name)).await.err(), Some(StoreError::NotFound));
        assert_eq!(store.remove(&path(name)).await, Err(StoreError::NotFound));
    }
    let entries = store.list(&path("")).await.unwrap().next_page(10).await.unwrap();
    assert_eq!(entries.len(), 1);
    assert_eq!(entries[0].name, "file");
}

#[tokio::test]
async fn another_process_finds_and_continues_what_was_staged() {
    let sshd = Sshd::start().unwrap();
    std::fs::create_dir_all(sshd.folder().join("a/b/c")).unwrap();
    let first = open_on(&sshd).await;
    let data = pattern(3, 500_000);
    let file = first.stage(id(7), &path("a/b/c/f")).await.unwrap();
    file.write_at(0, Bytes::copy_from_slice(&data[..200_000])).await.unwrap();
    drop(file);
    first.staged().await.unwrap();
    drop(first);
    let second = open_on(&sshd).await;
    let staged = second.staged().await.unwrap();
    assert_eq!((staged.len(), staged[0].id, staged[0].size), (1, id(7), 200_000));
    let file = second.resume(id(7), &path("a/b/c/f")).await.unwrap();
    let tail = file.read_at(199_000, BytesMut::new(), 5000).await.unwrap();
    assert!(tail[..] == data[199_000..200_000]);
    file.write_at(200_000, Bytes::copy_from_slice(&data[200_000..])).await.unwrap();
    file.sync().await.unwrap();
    file.publish(&how(Existing::Refuse, 500_000)).await.unwrap();
    assert!(get(&second, "a/b/c/f", 600_000).await.unwrap() == data);
    let third = open_on(&sshd).await;
    assert!(third.staged().await.unwrap().is_empty());
    drop(second.stage(id(8), &path("a/g")).await.unwrap());
    second.staged().await.unwrap();
    let fourth = open_on(&sshd).await;
    fourth.discard_staged(id(8)).await.unwrap();
    assert!(second.staged().await.unwrap().is_empty(), "gone for the one who made it too");
}

/// Another node may die while both of them run: the server is not looked through again for that.
#[tokio::test]
async fn what_another_process_staged_later_is_found_when_it_is_asked_for() {
    let sshd = Sshd::start().unwrap();
    let (first, second) = (open_on(&sshd).await, open_on(&sshd).await);
    assert!(second.staged().await.unwrap().is_empty());
    drop(first.stage(id(7), &path("f")).await.unwrap());
    first.staged().await.unwrap();
    assert!(second.staged().await.unwrap().is_empty(), "it looks again");
    for number in [6, 7] {
        second.may_be_staged(id(number), &path("f"));
    }
    let staged = second.staged().await.unwrap();
    assert_eq!(staged.iter().map(|file| file.id).collect::<Vec<_>>(), [id(7)]);
    second.discard_staged(id(7)).await.unwrap();
    assert!(files(&sshd).is_empty(), "{:?}", files(&sshd));
}

#[tokio::test]
async fn a_server_that_dies_fails_everything_and_publishes_nothing() {
    let mut sshd = Sshd::start().unwrap();
    let store = open_on(&sshd).await;
    put(&store, "f", b"old", Existing::Refuse).await.unwrap();
    let reader = store.open(&path("f")).await.unwrap();
    let file = store.stage(id(1), &path("f")).await.unwrap();
    file.write_at(0, Bytes::from(vec![1; 1_000_000])).await.unwrap();
    sshd.kill().unwrap();
    let synced = file.sync().await;
    assert!(matches!(synced, Err(StoreError::Unavailable(_))), "{synced:?}");
    assert!(synced.unwrap_err().is_temporary());
    assert!(file.write_at(0, Bytes::from_static(b"x")).await.is_err(), "it stays failed");
    assert!(file.publish(&how(Existing::Replace, 1_000_000)).await.is_err());
    assert!(reader.read_at(0, BytesMut::new(), 10).await.is_err());
    let stat = store.stat(&path("f")).await;
    assert!(matches!(stat, Err(StoreError::Unavailable(_))), "{stat:?}");
    assert_eq!(std::fs::read(sshd.folder().join("f")).unwrap(), b"old");
}

/// The write fails on the server (a size limit stands in for a full disk): the staged file fails
/// for good and nothing is published.
#[tokio::test]
async fn a_refused_write_fails_the_file_for_good() {
    let sshd = Sshd::start().unwrap();
    let store = open_on(&sshd).await;
    let file = store.stage(id(1), &path("f")).await.unwrap();
    let part = std::fs::read_dir(sshd.folder()).unwrap().next().unwrap().unwrap().path();
    // Beyond what any Linux file system takes: EFBIG, which SFTP calls a failure.
    let far = (i64::MAX as u64) - 4096;
    let mut refused = file.write_at(far, Bytes::from_static(b"x")).await;
    if refused.is_ok() {
        refused = file.sync().await;
    }
    assert!(refused.is_err(), "the server took it");
    assert!(file.sync().await.is_err() && file.try_write_at(0, b"x").is_err());
    assert!(file.publish(&how(Existing::Replace, 0)).await.is_err());
    file.discard().await.unwrap();
    assert!(!part.exists());
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_read_fails() {
    let sshd = Sshd::start().unwrap();
    let store = open_on(&sshd).await;
    let name = sshd.folder().join("f");
    std::fs::write(&name, pattern(4, 100_000)).unwrap();
    for size in [50_000, 200_000] {
        std::fs::write(&name, pattern(4, 100_000)).unwrap();
        let file = store.open(&path("f")).await.unwrap();
        file.read_at(0, BytesMut::new(), 1000).await.unwrap();
        std::fs::OpenOptions::new().write(true).open(&name).unwrap().set_len(size).unwrap();
        let mut all = BytesMut::new();
        let failed = loop {
            let before = all.len();
            match file.read_at(before as u64, all, 60_000).await {
                Ok(more) if more.len() < before + 60_000 => break false,
                Ok(more) => all = more,
                Err(_) => break true,
            }
        };
        assert!(failed, "to {size}");
    }
}

#[tokio::test]
async fn the_login_directory_is_the_root_when_none_is_named() {
    let sshd = Sshd::start().unwrap();
    let store =
        open_target(SftpTarget { root: String::new(), ..target(&sshd) }, &secrets(&sshd)).await;
    assert_eq!(store.stat(&path("")).await.unwrap().kind, EntryKind::Directory);
    let relative = SftpTarget { root: "no-such-directory-here".to_owned(), ..target(&sshd) };
    let store = open_target(relative, &secrets(&sshd)).await;
    assert_eq!(store.stat(&path("")).await, Err(StoreError::NotFound));
}
