//! Power cuts: several sessions upload, replace, remove and rename; the power goes at a random
//! system call of journal or files; afterwards everything that was acknowledged is there, with
//! exactly one event, and nothing else is visible.

use std::collections::BTreeMap;

use entrepot_nouns::{Env, Fact, Kind, SiteId, TransferId};
use entrepot_storage::fault::{Cut, DiskCall, SimDisk};

use super::{
    Event, How, NEW, Node, Random, World, content, digest, name, names, path, put, read, write,
};
use crate::{Existing, Result, Vfs};

/// Files by path.
type Files = BTreeMap<String, Vec<u8>>;

/// What one session was told.
#[derive(Default)]
struct Told {
    /// Files as they must be.
    files: Files,
    /// Files as they may be instead, if the operation that failed last did happen.
    or: Option<Files>,
    /// Uploads: transfer, path, digest.
    uploads: Vec<(TransferId, String, [u8; 32])>,
    removes: u64,
    renames: u64,
    /// An operation failed though the power was on.
    odd: Option<String>,
}

/// The sabotage of one run.
#[derive(Clone, Copy, Default)]
struct Sabotage {
    disk: Option<DiskCall>,
    journal: bool,
}

const SESSIONS: u64 = 3;
const STEPS: u64 = 8;

async fn put_shuffled(
    vfs: &Vfs,
    at: &str,
    bytes: &[u8],
    random: &mut Random,
) -> Result<TransferId> {
    let mut upload = vfs.create(&path(at), NEW).await?;
    let mut chunks: Vec<_> = bytes.chunks(4096).enumerate().collect();
    if random.below(3) == 0 && chunks.len() > 1 {
        let (one, other) = (random.below(chunks.len() as u64), random.below(chunks.len() as u64));
        chunks.swap(one as usize, other as usize);
    }
    for (number, chunk) in chunks {
        write(&mut upload, number as u64 * 4096, chunk).await?;
    }
    Ok(upload.finish().await?.transfer)
}

/// One session's work on names of its own, and on one that all share.
async fn work(vfs: Vfs, session: u64, seed: u64) -> Told {
    let mut random = Random(seed * 31 + session);
    let mut told = Told::default();
    for step in 0..STEPS {
        let at = format!("/s{session}-{}", random.below(3));
        let other = format!("/s{session}-{}", random.below(3));
        let mut after = told.files.clone();
        let done = match random.below(10) {
            0..=4 => {
                let len = [0, 10, 5_000, 20_000][random.below(4) as usize];
                let bytes = content(seed ^ (session << 32) ^ (step << 40), len);
                let sent = put_shuffled(&vfs, &at, &bytes, &mut random).await;
                after.insert(at.clone(), bytes.clone());
                sent.map(|id| told.uploads.push((id, at, digest(&bytes))))
            }
            5 => {
                let bytes = content(seed ^ session ^ (step << 20), 3_000);
                let sent = put_shuffled(&vfs, "/shared", &bytes, &mut random).await;
                sent.map(|id| told.uploads.push((id, "/shared".to_owned(), digest(&bytes))))
            }
            6 if after.remove(&at).is_some() => {
                vfs.remove(&path(&at)).await.map(|()| told.removes += 1)
            }
            7 | 8 if at != other && after.contains_key(&at) => {
                let moved = after.remove(&at).unwrap_or_default();
                after.insert(other.clone(), moved);
                let renamed = vfs.rename(&path(&at), &path(&other), Existing::Replace).await;
                renamed.map(|_| told.renames += 1)
            }
            _ => cut_upload(&vfs, &at, session ^ step).await,
        };
        match done {
            Ok(()) => told.files = after,
            Err(error) => {
                told.odd = Some(format!("session {session}, step {step}: {error:?}"));
                told.or = Some(after);
                return told;
            }
        }
        tokio::task::yield_now().await;
    }
    told
}

/// A client that dies half-way.
async fn cut_upload(vfs: &Vfs, at: &str, seed: u64) -> Result<()> {
    let mut upload = vfs.create(&path(at), NEW).await?;
    write(&mut upload, 0, &content(seed, 7_000)).await?;
    if seed.is_multiple_of(3) {
        upload.sync().await?;
    }
    match seed % 3 {
        0 => upload.interrupt("the client went away").await,
        1 => upload.abort().await,
        _ => drop(upload),
    }
    Ok(())
}

/// Runs one seed and says what was broken, if anything.
async fn run(world: &World, seed: u64, sabotage: Sabotage) -> std::result::Result<u64, String> {
    let env = Env::simulated(seed);
    let disk = SimDisk::new(&env);
    let mode = if seed.is_multiple_of(2) { Cut::Strict } else { Cut::Mixed };
    let how = How { journal_lies: sabotage.journal, ..How::default() };
    let node = world.start(&disk, &how).await;
    if let Some(call) = sabotage.disk {
        disk.lie(call);
    }
    let before = disk.calls();
    let at = 1 + Random(seed).below(450);
    disk.power_off_at(at);
    let mut sessions = tokio::task::JoinSet::new();
    for session in 0..SESSIONS {
        let account = ["alice", "bob"][(session % 2) as usize];
        if let Ok(opened) = world.try_session(&node, account).await {
            sessions.spawn(async move {
                let told = work(opened.vfs().clone(), session, seed).await;
                opened.close("done", 0, 0).await;
                (session, told)
            });
        }
    }
    let told: Vec<(u64, Told)> = sessions.join_all().await;
    let is_off = disk.calls() >= before + at;
    if let (false, Some(odd)) = (is_off, told.iter().find_map(|(_, told)| told.odd.clone())) {
        return Err(format!("refused while the power was on: {odd}"));
    }
    let left = disk.cut(seed, mode);
    end(node).await;
    // The second start sees what the first one did, also if the power goes again at its end.
    for round in 0..2 {
        let how = How { boot: "boot-2", ..How::default() };
        let node = world.try_start(&left, &how).await?;
        check(world, &node, &told).await.map_err(|wrong| format!("start {round}: {wrong}"))?;
        node.stop().await;
    }
    Ok(told.iter().map(|(_, told)| told.uploads.len() as u64).sum())
}

/// The process of a dead machine.
async fn end(node: Node) {
    node.service.stop().await;
    // There is no disk any more.
    let _ = node.journal.close().await;
}

async fn check(
    world: &World,
    node: &Node,
    told: &[(u64, Told)],
) -> std::result::Result<(), String> {
    let session = world.session(node, "alice").await;
    let vfs = session.vfs();
    let mut found = Files::new();
    for name in names(vfs, "/").await.map_err(|error| format!("no listing: {error}"))? {
        let at = format!("/{name}");
        let bytes = read(vfs, &at).await.map_err(|error| format!("'{at}': {error}"))?;
        found.insert(at, bytes);
    }
    let shared = found.remove("/shared");
    for (session, told) in told {
        let mine = |at: &str| at.starts_with(&format!("/s{session}-"));
        let theirs: Files = found.clone().into_iter().filter(|(at, _)| mine(at)).collect();
        if theirs != told.files && told.or.as_ref() != Some(&theirs) {
            return Err(format!("session {session} finds {}", differ(&theirs, &told.files)));
        }
    }
    if found.keys().any(|at| !at.starts_with("/s")) {
        return Err(format!("visible: {:?}", found.keys()));
    }
    check_events(node, told, shared.as_deref()).await
}

fn differ(found: &Files, wanted: &Files) -> String {
    let show = |files: &Files| {
        let each = files.iter().map(|(at, bytes)| format!("{at}={}", bytes.len()));
        each.collect::<Vec<_>>().join(" ")
    };
    format!("[{}] instead of [{}]", show(found), show(wanted))
}

async fn check_events(
    node: &Node,
    told: &[(u64, Told)],
    shared: Option<&[u8]>,
) -> std::result::Result<(), String> {
    let arrivals = node.arrivals().await;
    for (id, at, wanted) in told.iter().flat_map(|(_, told)| &told.uploads) {
        let of: Vec<_> = arrivals.iter().filter(|file| file.transfer == *id).collect();
        match of[..] {
            [file] if file.path == *at && file.digests.blake3 == Some(*wanted) => {}
            _ => return Err(format!("'{at}': events {of:?}")),
        }
    }
    let last = arrivals.iter().rev().find(|file| file.path == "/shared");
    match (last, shared) {
        (Some(file), Some(bytes)) if file.digests.blake3 == Some(digest(bytes)) => {}
        (None, None) => {}
        _ => return Err(format!("'/shared' is not what was recorded last: {last:?}")),
    }
    let events = node.events().await;
    let count = |kind: &str| events.iter().filter(|e| e.fact.kind() == kind).count() as u64;
    let (removes, renames) = told.iter().fold((0, 0), |(removes, renames), (_, told)| {
        (removes + told.removes, renames + told.renames)
    });
    let uncertain = told.iter().filter(|(_, told)| told.or.is_some()).count() as u64;
    if !(removes..=removes + uncertain).contains(&count("file.removed")) {
        return Err(format!("{} removes recorded of {removes}", count("file.removed")));
    }
    if !(renames..=renames + uncertain).contains(&count("file.renamed")) {
        return Err(format!("{} renames recorded of {renames}", count("file.renamed")));
    }
    let mut ids: Vec<_> = events.iter().map(|event| event.id).collect();
    ids.sort();
    ids.dedup();
    if ids.len() != events.len() {
        return Err("an event is recorded twice".to_owned());
    }
    let unknown = events.iter().filter(|e| matches!(e.fact, Fact::FileUnknown { .. })).count();
    if unknown as u64 > uncertain {
        return Err(format!("{unknown} outcomes unknown, {uncertain} were not answered"));
    }
    Ok(())
}

async fn nothing_is_lost(seeds: std::ops::Range<u64>) {
    let world = World::new().await;
    let (wanted, mut acknowledged) = (3 * (seeds.end - seeds.start), 0);
    for seed in seeds {
        match run(&world, seed, Sabotage::default()).await {
            Ok(uploads) => acknowledged += uploads,
            Err(wrong) => panic!("seed {seed}: {wrong}"),
        }
    }
    assert!(acknowledged >= wanted, "only {acknowledged} uploads were acknowledged");
}

#[tokio::test]
async fn nothing_acknowledged_is_lost_at_a_power_cut() {
    nothing_is_lost(0..500).await;
}

/// The other half, for the other processor.
#[tokio::test]
async fn nothing_acknowledged_is_lost_at_other_power_cuts() {
    nothing_is_lost(500..1000).await;
}

/// Each step of the promise, taken out, is missed.
#[tokio::test]
async fn a_disk_that_lies_is_noticed() {
    let world = World::new().await;
    let sabotages = [
        ("fdatasync", Sabotage { disk: Some(DiskCall::SyncFile), journal: false }),
        ("fsync of directories", Sabotage { disk: Some(DiskCall::SyncDir), journal: false }),
        ("rename", Sabotage { disk: Some(DiskCall::Rename), journal: false }),
        ("the journal's fsync", Sabotage { disk: None, journal: true }),
    ];
    for (what, sabotage) in sabotages {
        let mut noticed = None;
        for seed in 0..40 {
            if let Err(wrong) = run(&world, seed, sabotage).await {
                noticed = Some(wrong);
                break;
            }
        }
        assert!(noticed.is_some(), "nobody missed {what}");
    }
}

/// A session task that ends in the middle of the publish does not stop it.
#[tokio::test]
async fn a_dropped_session_leaves_no_publish_half_done() {
    let world = World::new().await;
    let disk = SimDisk::new(&world.env);
    let node = world.start(&disk, &How::default()).await;
    let session = world.session(&node, "alice").await;
    for polls in 0..12 {
        let at = format!("/f{polls}");
        let mut upload = session.vfs().create(&path(&at), NEW).await.unwrap();
        write(&mut upload, 0, b"whole").await.unwrap();
        let mut finish = Box::pin(upload.finish());
        for _ in 0..polls {
            let once = std::future::poll_fn(|context| {
                std::task::Poll::Ready(finish.as_mut().poll(context).is_ready())
            });
            if once.await {
                break;
            }
            tokio::task::yield_now().await;
        }
        drop(finish);
        for _ in 0..50 {
            tokio::task::yield_now().await;
        }
        let visible = read(session.vfs(), &at).await.is_ok();
        let recorded = node.arrivals().await.iter().any(|file| file.path == at);
        assert_eq!(visible, recorded, "after {polls} polls");
    }
    put(session.vfs(), "/f0", b"again").await.unwrap();
}

/// Nobody can look at an endpoint that was deleted: what was under way there does not wait for it.
#[tokio::test]
async fn a_change_at_a_deleted_endpoint_ends_as_unknown() {
    let world = World::new().await;
    let (own, files) = (SimDisk::new(&world.env), SimDisk::new(&world.env));
    let node = world.start_apart(&own, &files).await;
    let session = world.session(&node, "alice").await;
    let sent = put(session.vfs(), "/f", b"whole").await.unwrap();
    let left = own.cut(1, Cut::Strict);
    drop(session);
    node.service.stop().await;
    let _ = node.journal.close().await;
    let mut tx = world.db.begin().await.unwrap();
    assert!(tx.delete(SiteId::MAIN, Kind::Endpoint, &name("files")).await.unwrap());
    tx.commit().await.unwrap();
    for _ in 0..2 {
        let node = world.start_apart(&left, &files).await;
        let unknown = |event: Event| match event.fact {
            Fact::FileUnknown { file } => Some(file.transfer),
            _ => None,
        };
        let unknown: Vec<_> = node.events().await.into_iter().filter_map(unknown).collect();
        assert_eq!((unknown, node.report.waiting), (vec![sent.transfer], 0));
        node.stop().await;
    }
}
