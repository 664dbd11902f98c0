//! Uploads that a mount holds are seen by nobody before they are released, and are lost by nothing.

use entrepot_nouns::event::{FileFact, HeldFact};
use entrepot_nouns::mount::TRASH_NAME;
use entrepot_nouns::{EventId, Fact, JobId, Mount, Protocol, SiteId, VersionOptions};
use entrepot_storage::fault::{Cut, SimDisk};
use entrepot_testkit::s3::S3Server;
use uuid::Uuid;

use super::resumable::{append, begin, of_size};
use super::trash::hidden;
use super::{
    CONTINUE, EXCLUSIVE, How, NEW, Node, World, content, digest, name, names, objects, path, put,
    read, with_quota, write,
};
use crate::{Existing, Session, Uploaded, VfsError};

fn holding(mount: &mut Mount) {
    mount.hold = true;
}

/// What the journal says is held, each transfer as it was told of last.
async fn held(node: &Node) -> Vec<HeldFact> {
    let mut found: Vec<HeldFact> = Vec::new();
    for event in node.events().await {
        if let Fact::FileHeld { held } = event.fact {
            found.retain(|known| known.file.transfer != held.file.transfer);
            found.push(held);
        }
    }
    found
}

/// A session of a rule, in the name of an account.
async fn rule(world: &World, node: &Node, account: &str) -> Session {
    let grant = world.gate.internal(SiteId::MAIN, &name(account), "rule r").await.unwrap();
    let (job, cause) = (JobId(Uuid::from_u128(7)), EventId(Uuid::from_u128(8)));
    Session::open_for_job(&node.service, grant, job, cause, 1).await.unwrap()
}

/// What the event says of an upload to `/a`.
fn waiting(world: &World, uploaded: &Uploaded) -> HeldFact {
    let file = FileFact {
        transfer: uploaded.transfer,
        path: "/a".to_owned(),
        size: uploaded.size,
        digests: uploaded.digests,
        protocol: Protocol::Internal,
        started_at: world.env.now(),
        identity: None,
        displaced: None,
        temporary: false,
        as2: None,
    };
    HeldFact { file, endpoint: name("files"), prefix: String::new(), stored: "a".to_owned() }
}

async fn kinds(node: &Node) -> Vec<String> {
    let all = node.events().await;
    let of_files = all.iter().map(|event| event.fact.kind().to_owned());
    of_files.filter(|kind| kind.starts_with("file.")).collect()
}

#[tokio::test]
async fn a_held_file_has_no_name_before_it_is_released() {
    let world = World::new().await;
    world.account("anna", "/", holding).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let (anna, bob) = (world.session(&node, "anna").await, world.session(&node, "bob").await);
    put(bob.vfs(), "/a", b"old").await.unwrap();
    let bytes = content(3, 40_000);
    let sent = put(anna.vfs(), "/a", &bytes).await.unwrap();
    assert!(sent.published && !sent.replaced);
    put(anna.vfs(), "/b", b"another").await.unwrap();

    // Nobody sees it, whoever sent it among them.
    for session in [&anna, &bob] {
        let vfs = session.vfs();
        assert_eq!(names(vfs, "/").await.unwrap(), ["a"]);
        assert_eq!(read(vfs, "/a").await.unwrap(), b"old");
        assert_eq!(vfs.stat(&path("/b")).await, Err(VfsError::NotFound));
        assert!(vfs.open(&path("/b")).await.is_err());
        assert_eq!(vfs.remove(&path("/b")).await, Err(VfsError::NotFound));
        let renamed = vfs.rename(&path("/b"), &path("/c"), Existing::Refuse).await;
        assert_eq!(renamed, Err(VfsError::NotFound));
        let inside = format!("/{TRASH_NAME}/held-{}", sent.transfer);
        assert_eq!(vfs.stat(&path(&inside)).await, Err(VfsError::NotFound));
    }
    assert_eq!((hidden(&node).await, node.staged().await), (2, 0));
    let told = held(&node).await;
    assert_eq!(told[0].file.digests.blake3, Some(digest(&bytes)));
    assert_eq!((told[0].file.path.as_str(), told[0].stored.as_str()), ("/a", "a"));
    assert_eq!(told[0].file.transfer, sent.transfer);

    let courier = rule(&world, &node, "anna").await;
    let refused = courier.vfs().release(&told[0], Existing::Refuse).await;
    assert_eq!(refused, Err(VfsError::Exists));
    courier.vfs().release(&told[0], Existing::Replace).await.unwrap();
    courier.vfs().release(&told[1], Existing::Refuse).await.unwrap();
    assert!(read(bob.vfs(), "/a").await.unwrap() == bytes);
    assert_eq!(names(bob.vfs(), "/").await.unwrap(), ["a", "b"]);
    assert_eq!(hidden(&node).await, 0);
    let again = courier.vfs().release(&told[0], Existing::Replace).await;
    assert_eq!(again, Err(VfsError::NotFound));
    assert_eq!(
        kinds(&node).await,
        ["file.uploaded", "file.held", "file.held", "file.uploaded", "file.uploaded"]
    );
    let arrivals = node.arrivals().await;
    assert_eq!(arrivals[1].transfer, sent.transfer);
    assert!(arrivals[1].displaced.is_some() && arrivals[1].digests == told[0].file.digests);
}

#[tokio::test]
async fn what_rules_write_is_not_held_and_what_is_there_is_asked_about() {
    let world = World::new().await;
    world.account("anna", "/", holding).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let courier = rule(&world, &node, "anna").await;
    put(courier.vfs(), "/made", b"by a rule").await.unwrap();
    let anna = world.session(&node, "anna").await;
    let vfs = anna.vfs();
    assert_eq!(read(vfs, "/made").await.unwrap(), b"by a rule");
    assert!(matches!(vfs.create(&path("/made"), EXCLUSIVE).await, Err(VfsError::Exists)));

    // What is laid over a file is a whole file of its own.
    let mut upload = vfs.create(&path("/made"), CONTINUE).await.unwrap();
    write(&mut upload, 9, b", and more").await.unwrap();
    upload.finish().await.unwrap();
    assert_eq!(read(vfs, "/made").await.unwrap(), b"by a rule");
    courier.vfs().release(&held(&node).await[0], Existing::Replace).await.unwrap();
    assert_eq!(read(vfs, "/made").await.unwrap(), b"by a rule, and more");

    // Nothing was written: what is there stays, and nothing is held.
    let upload = vfs.create(&path("/made"), CONTINUE).await.unwrap();
    assert!(!upload.finish().await.unwrap().published);
    assert_eq!(hidden(&node).await, 0);

    // The directory is made again that was removed meanwhile.
    vfs.make_directory(&path("/in")).await.unwrap();
    put(vfs, "/in/x", b"x").await.unwrap();
    vfs.remove_directory(&path("/in")).await.unwrap();
    let told = held(&node).await.pop().unwrap();
    courier.vfs().release(&told, Existing::Refuse).await.unwrap();
    assert_eq!(read(vfs, "/in/x").await.unwrap(), b"x");
}

#[tokio::test]
async fn a_mount_that_changed_takes_no_upload_past_the_hold() {
    let world = World::new().await;
    world.account("anna", "/", |_| {}).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let mut upload = anna.vfs().create(&path("/a"), NEW).await.unwrap();
    write(&mut upload, 0, b"begun before").await.unwrap();
    world.mount("anna-main", "anna", "/", holding).await;
    assert!(matches!(upload.finish().await, Err(VfsError::Denied { .. })));
    assert_eq!(names(anna.vfs(), "/").await.unwrap(), Vec::<String>::new());

    // Released where its mount shows another directory since, it would be another file.
    put(anna.vfs(), "/a", b"a").await.unwrap();
    world.mount("anna-main", "anna", "/", |mount| mount.prefix = "elsewhere".to_owned()).await;
    let courier = rule(&world, &node, "anna").await;
    let told = held(&node).await;
    let refused = courier.vfs().release(&told[0], Existing::Refuse).await;
    assert_eq!(refused, Err(VfsError::NotFound));
    assert_eq!(hidden(&node).await, 1);
}

#[tokio::test]
async fn a_client_that_renames_when_done_finds_its_temporary_file() {
    let world = World::new().await;
    world.account("anna", "/", holding).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    put(anna.vfs(), "/x.filepart", b"whole").await.unwrap();
    put(anna.vfs(), "/y.filepart", b"other").await.unwrap();
    let seen = anna.vfs().stat(&path("/x.filepart")).await.unwrap();
    assert_eq!((seen.size, seen.partial), (5, true));
    assert_eq!(names(anna.vfs(), "/").await.unwrap(), Vec::<String>::new());
    let renamed = anna.vfs().rename(&path("/x.filepart"), &path("/x"), Existing::Refuse).await;
    assert!(renamed.unwrap().arrival);
    drop(anna);
    node.stop().await;

    // Another process knows the one that still has its temporary name, and only that.
    let node = world.start(&disk, &How { boot: "boot-2", ..How::default() }).await;
    let anna = world.session(&node, "anna").await;
    let gone = anna.vfs().rename(&path("/x.filepart"), &path("/z"), Existing::Refuse).await;
    assert_eq!(gone, Err(VfsError::NotFound));
    let renamed = anna.vfs().rename(&path("/y.filepart"), &path("/y"), Existing::Refuse).await;
    assert!(renamed.unwrap().arrival);
    let told = held(&node).await;
    let files: Vec<_> =
        told.iter().map(|held| (held.file.path.as_str(), held.file.temporary)).collect();
    assert_eq!(files, [("/x", false), ("/y", false)]);
    let courier = rule(&world, &node, "anna").await;
    for held in &told {
        courier.vfs().release(held, Existing::Refuse).await.unwrap();
    }
    assert_eq!(names(anna.vfs(), "/").await.unwrap(), ["x", "y"]);
    assert_eq!(read(anna.vfs(), "/y").await.unwrap(), b"other");
}

#[tokio::test]
async fn what_is_replaced_is_kept_and_quotas_count_what_is_held() {
    let world = World::new().await;
    let keep = |mount: &mut Mount| {
        holding(mount);
        with_quota(Some(100), Some(3), None)(mount);
        mount.versions = Some(VersionOptions { keep: Some(3), ..VersionOptions::default() });
    };
    world.account("anna", "/", keep).await;
    let node = world.start(&SimDisk::new(&world.env), &How::default()).await;
    let (anna, courier) = (world.session(&node, "anna").await, rule(&world, &node, "anna").await);
    for content in [b"the first 1", b"the second "] {
        put(anna.vfs(), "/a", content).await.unwrap();
        let told = held(&node).await.pop().unwrap();
        courier.vfs().release(&told, Existing::Replace).await.unwrap();
    }
    let kept = anna.vfs().versions(&path("/a"), None, 9).await.unwrap().versions;
    assert_eq!((kept.len(), kept[0].size), (1, 11));
    put(anna.vfs(), "/a", &[0; 70]).await.unwrap();
    // Two files and a version are there: neither room nor a name is left.
    let full = put(anna.vfs(), "/b", &[0; 20]).await;
    assert!(matches!(full, Err(VfsError::Quota { .. })), "{full:?}");
    let told = held(&node).await.pop().unwrap();
    courier.vfs().discard_held(&told, "cli:root").await.unwrap();
    assert_eq!(hidden(&node).await, 1, "the version");
    let gone = courier.vfs().release(&told, Existing::Replace).await;
    assert_eq!(gone, Err(VfsError::NotFound));
    put(anna.vfs(), "/b", &[0; 20]).await.unwrap();
    assert!(kinds(&node).await.contains(&"file.discarded".to_owned()));
}

#[tokio::test]
async fn uploads_that_go_on_are_held_too() {
    let world = World::new().await;
    world.account("anna", "/", holding).await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let anna = world.session(&node, "anna").await;
    let bytes = content(9, 60_000);
    let mut upload = anna.vfs().create(&path("/a"), NEW).await.unwrap();
    write(&mut upload, 0, &bytes[..20_000]).await.unwrap();
    upload.interrupt("the client went away").await;
    let by_id = begin(&anna, "/b", of_size(bytes.len())).await;
    append(&by_id, 0, &bytes[..30_000]).await.unwrap();
    let id = by_id.id().clone();
    drop((by_id, anna));
    node.stop().await;

    let node = world.start(&disk, &How { boot: "boot-2", ..How::default() }).await;
    let anna = world.session(&node, "anna").await;
    let mut upload = anna.vfs().create(&path("/a"), CONTINUE).await.unwrap();
    assert_eq!(upload.size(), 20_000);
    write(&mut upload, 20_000, &bytes[20_000..]).await.unwrap();
    upload.finish().await.unwrap();
    let by_id = anna.vfs().resumable(&id);
    append(&by_id, 30_000, &bytes[30_000..]).await.unwrap();
    by_id.finish().await.unwrap();
    by_id.finish().await.unwrap();
    assert_eq!(names(anna.vfs(), "/").await.unwrap(), Vec::<String>::new());
    let courier = rule(&world, &node, "anna").await;
    let told = held(&node).await;
    assert_eq!(told.len(), 2);
    for held in &told {
        assert_eq!(held.file.digests.blake3, Some(digest(&bytes)));
        courier.vfs().release(held, Existing::Refuse).await.unwrap();
    }
    for at in ["/a", "/b"] {
        assert!(read(anna.vfs(), at).await.unwrap() == bytes, "{at}");
    }
    assert_eq!((hidden(&node).await, node.staged().await), (0, 0));
}

#[tokio::test]
async fn a_bucket_holds_files_too() {
    let (world, server) = (World::new().await, S3Server::start().unwrap());
    world.account("anna", "/", holding).await;
    let node = objects::start(&world, &SimDisk::new(&world.env), &server, "boot-1").await;
    let (anna, courier) = (world.session(&node, "anna").await, rule(&world, &node, "anna").await);
    let bytes = content(4, 300_000);
    put(anna.vfs(), "/in/a", &bytes).await.unwrap();
    assert_eq!(anna.vfs().stat(&path("/in/a")).await, Err(VfsError::NotFound));
    assert_eq!(names(anna.vfs(), "/").await.unwrap(), Vec::<String>::new());
    courier.vfs().release(&held(&node).await[0], Existing::Refuse).await.unwrap();
    assert!(read(anna.vfs(), "/in/a").await.unwrap() == bytes);
}

/// The power goes at each call of a held upload and its release: what was acknowledged is there,
/// once, under its name or hidden, and the journal says which.
#[tokio::test]
async fn a_power_cut_loses_no_held_file_and_shows_none() {
    let world = World::new().await;
    world.account("anna", "/", holding).await;
    let bytes = content(5, 9_000);
    let (mut at, mut acknowledged, mut released) = (1, 0, 0);
    loop {
        let disk = SimDisk::new(&world.env);
        let node = world.start(&disk, &How::default()).await;
        let anna = world.session(&node, "anna").await;
        put(anna.vfs(), "/old", b"old").await.unwrap();
        put(rule(&world, &node, "anna").await.vfs(), "/a", b"old").await.unwrap();
        let before = disk.calls();
        disk.power_off_at(at);
        let uploaded = put(anna.vfs(), "/a", &bytes).await;
        let (sent, mut out) = (uploaded.is_ok(), false);
        if let Ok(uploaded) = uploaded {
            let told = waiting(&world, &uploaded);
            let courier = rule(&world, &node, "anna").await;
            out = courier.vfs().release(&told, Existing::Replace).await.is_ok();
        }
        let is_over = disk.calls() < before + at;
        let mode = if at % 2 == 0 { Cut::Strict } else { Cut::Mixed };
        let left = disk.cut(at, mode);
        drop(anna);
        node.service.stop().await;
        let _ = node.journal.close().await;

        let node = world.start(&left, &How { boot: "boot-2", ..How::default() }).await;
        let anna = world.session(&node, "anna").await;
        let visible = read(anna.vfs(), "/a").await.unwrap();
        assert!(visible == bytes || visible == b"old", "call {at}: torn");
        let is_out = visible == bytes;
        assert!(is_out || !out, "call {at}: released and not there");
        let told: Vec<_> =
            held(&node).await.into_iter().filter(|held| held.file.path == "/a").collect();
        let arrived = node.arrivals().await.iter().filter(|file| file.size == 9_000).count();
        assert_eq!(arrived, usize::from(is_out), "call {at}: {:?}", kinds(&node).await);
        assert!(told.len() == 1 || (!sent && told.is_empty()), "call {at}: {told:?}");
        if let (Some(held), false) = (told.first(), is_out) {
            // "/old" is held besides.
            assert_eq!(hidden(&node).await, 2, "call {at}");
            let courier = rule(&world, &node, "anna").await;
            courier.vfs().release(held, Existing::Replace).await.unwrap();
            assert!(read(anna.vfs(), "/a").await.unwrap() == bytes, "call {at}");
        }
        (acknowledged, released) = (acknowledged + usize::from(sent), released + usize::from(out));
        node.stop().await;
        if is_over {
            break;
        }
        at += 1;
    }
    assert!(acknowledged > 3 && released > 0 && at > 10, "{acknowledged} {released} {at}");
}
