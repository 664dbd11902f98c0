//! Tampering, torn tails, limits, grouping, archive: on real files and on the simulated disk.

mod sim;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use entrepot_journal::{
    Journal, JournalError, Options, RecordKind, Recorder, Report, Scope, TornEnd, verify,
};
use entrepot_nouns::{Env, Fact, Name, SiteId};
use sim::{Call, SimDisk};

fn node() -> Name {
    "n1".parse().unwrap()
}

fn open(dir: &Path, options: Options) -> Result<Journal, JournalError> {
    Journal::open(dir, &node(), Env::simulated(1), options).map(|(journal, _)| journal)
}

fn open_sim(disk: &SimDisk, options: Options) -> Journal {
    Journal::open_on(Arc::new(disk.clone()), &node(), Env::real(), options).unwrap().0
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|e| e == "journal")).collect();
    found.sort();
    found
}

fn text(number: u64) -> Vec<u8> {
    format!("{{\"number\":{number},\"filler\":\"{}\"}}", "x".repeat(number as usize % 50))
        .into_bytes()
}

/// Byte ranges of the records of a segment, by the format's description.
fn ranges(bytes: &[u8]) -> Vec<std::ops::Range<usize>> {
    let mut at = 192;
    let mut found = Vec::new();
    while bytes.get(at..at + 4).is_some_and(|magic| magic == b"EPr1") {
        let length = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().unwrap()) as usize;
        found.push(at..at + 64 + length);
        at += 64 + length;
    }
    found
}

/// As a forger would: the checksum is made good again.
fn with_good_checksum(mut record: Vec<u8>) -> Vec<u8> {
    let body = record.len() - 36;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&record[4..body]);
    crc.update(&record[body + 4..]);
    let crc = crc.finalize().to_le_bytes();
    record[body..body + 4].copy_from_slice(&crc);
    record
}

#[tokio::test]
async fn a_folder_without_segments_is_no_journal() {
    let dir = tempfile::tempdir().unwrap();
    let none = |found: Result<Report, JournalError>| {
        assert!(matches!(found, Err(JournalError::NoJournal { .. })), "{found:?}");
    };
    none(verify(dir.path()));
    none(verify(&dir.path().join("missing")));
    let journal = open(dir.path(), Options::default()).unwrap();
    assert!(verify(dir.path()).unwrap().is_intact(), "it is empty and open");
    journal.close().await.unwrap();
    assert!(verify(dir.path()).unwrap().is_intact(), "it is empty and closed");
    for segment in segments(dir.path()) {
        std::fs::remove_file(segment).unwrap();
    }
    none(verify(dir.path()));
}

async fn two_hundred(dir: &Path) -> Vec<u8> {
    let journal = open(dir, Options::default()).unwrap();
    for number in 1..=200 {
        journal.append(RecordKind::Event, &text(number)).unwrap();
    }
    journal.close().await.unwrap();
    let path = segments(dir).pop().unwrap();
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(ranges(&bytes).len(), 201, "200 records and the mark of the close");
    bytes
}

fn report(dir: &Path, bytes: &[u8]) -> Report {
    let path = segments(dir).pop().unwrap();
    std::fs::write(path, bytes).unwrap();
    verify(dir).unwrap()
}

#[tokio::test]
async fn any_of_200_records_changed_dropped_or_swapped_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = two_hundred(dir.path()).await;
    assert!(report(dir.path(), &bytes).is_intact());
    let ranges = ranges(&bytes);
    for row in 0..200 {
        let range = ranges[row].clone();
        let names_row = |report: &Report, what: &str| {
            assert!(!report.is_intact(), "{what} record {} was not found", row + 1);
            let first = report.findings.first().unwrap();
            assert_eq!(first.sequence, row as u64 + 1, "{what}: {report}");
        };
        let mut changed = bytes.clone();
        changed[range.start + 40] ^= 1;
        names_row(&report(dir.path(), &changed), "changed");

        let forged = with_good_checksum(changed[range.clone()].to_vec());
        changed[range.clone()].copy_from_slice(&forged);
        names_row(&report(dir.path(), &changed), "changed with its checksum");

        let mut dropped = bytes.clone();
        dropped.drain(range.clone());
        names_row(&report(dir.path(), &dropped), "dropped");

        let other = ranges[(row + 1) % 200].clone();
        let (a, b) = if range.start < other.start { (range, other) } else { (other, range) };
        let mut swapped = bytes[..a.start].to_vec();
        swapped.extend(&bytes[b.clone()]);
        swapped.extend(&bytes[a.end..b.start]);
        swapped.extend(&bytes[a.clone()]);
        swapped.extend(&bytes[b.end..]);
        assert_eq!(swapped.len(), bytes.len());
        assert!(!report(dir.path(), &swapped).is_intact(), "swapped {row}");

        // The journal itself refuses to build on it.
        let refused = open(dir.path(), Options::default()).err();
        assert!(matches!(refused, Some(JournalError::Corrupt { .. })), "{row}: {refused:?}");
    }
}

#[tokio::test]
async fn a_torn_tail_is_cut_at_every_byte_and_kept() {
    let source = tempfile::tempdir().unwrap();
    let whole = {
        let journal = open(source.path(), Options::default()).unwrap();
        for number in 1..=4 {
            journal.append_durable(RecordKind::Event, &text(6 * number)).await.unwrap();
        }
        let bytes = std::fs::read(segments(source.path()).pop().unwrap()).unwrap();
        let ranges = ranges(&bytes);
        bytes[..ranges.last().unwrap().end].to_vec()
    };
    let parts = ranges(&whole);
    for (zeros, step) in [(0, 1), (5000, 5)] {
        for cut in (parts[2].end..=whole.len()).step_by(step) {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(dir.path().join("torn")).unwrap();
            let name = segments(source.path()).pop().unwrap();
            let path = dir.path().join(name.file_name().unwrap());
            let mut torn = whole[..cut].to_vec();
            torn.resize(cut + zeros, 0);
            std::fs::write(&path, &torn).unwrap();
            let (journal, recovered) =
                Journal::open(dir.path(), &node(), Env::simulated(1), Options::default()).unwrap();
            let left = if cut == whole.len() { 4 } else { 3 };
            assert_eq!(recovered.last_sequence, left, "cut at {cut}");
            let records = journal.reader(0).read_now(10).unwrap();
            assert_eq!(records.len() as u64, left);
            // Nothing of the torn record is left behind the good ones.
            let bytes = std::fs::read(&path).unwrap();
            let end = ranges(&bytes).last().unwrap().end;
            assert!(bytes[end..].iter().all(|byte| *byte == 0), "cut at {cut}");
            assert!(records.iter().all(|record| record.payload == text(6 * record.sequence)));
            let kept = std::fs::read_dir(dir.path().join("torn")).unwrap().count();
            assert_eq!(kept, usize::from(recovered.torn_bytes > 0));
            assert_eq!(recovered.torn_bytes > 0, cut != parts[2].end && cut != whole.len());
            journal.append_durable(RecordKind::Event, b"{}").await.unwrap();
            journal.close().await.unwrap();
            assert!(verify(dir.path()).unwrap().is_intact());
        }
    }
}

#[tokio::test]
async fn damage_before_durable_records_is_reported_and_never_cut() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(dir.path(), Options::default()).unwrap();
    for number in 1..=5 {
        journal.append_durable(RecordKind::Event, &text(number)).await.unwrap();
    }
    // What the crashed process left: no mark of a close.
    let path = segments(dir.path()).pop().unwrap();
    let crashed = std::fs::read(&path).unwrap();
    drop(journal);
    for at in ranges(&crashed)[2].clone() {
        let mut damaged = crashed.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&path, &damaged).unwrap();
        let refused = open(dir.path(), Options::default()).err();
        assert!(matches!(refused, Some(JournalError::Corrupt { .. })), "byte {at}: {refused:?}");
        assert_eq!(std::fs::read(&path).unwrap(), damaged, "nothing was cut");
    }
}

#[tokio::test]
async fn a_torn_end_is_left_as_it_is_where_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(dir.path(), Options::default()).unwrap();
    for number in 1..=5 {
        journal.append_durable(RecordKind::Event, &text(number)).await.unwrap();
    }
    journal.close().await.unwrap();
    let path = segments(dir.path()).pop().unwrap();
    let torn = [std::fs::read(&path).unwrap(), b"EPr1x".to_vec()].concat();
    std::fs::write(&path, &torn).unwrap();
    let options = Options { torn_end: TornEnd::Refuse, ..Options::default() };
    let refused = open(dir.path(), options.clone()).err();
    assert!(matches!(refused, Some(JournalError::Torn { bytes: 5, .. })), "{refused:?}");
    assert_eq!(std::fs::read(&path).unwrap(), torn, "nothing was cut");
    assert_eq!(std::fs::read_dir(dir.path().join("torn")).unwrap().count(), 0);
    open(dir.path(), Options::default()).unwrap().close().await.unwrap();
    open(dir.path(), options).unwrap();
}

#[tokio::test]
async fn a_copy_of_a_journal_that_is_being_written_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 2048, ..Options::default() };
    let journal = open(dir.path(), options).unwrap();
    for number in 1..=60 {
        journal.append_durable(RecordKind::Event, &text(number)).await.unwrap();
    }
    journal.release(30).unwrap();
    let writing = journal.clone();
    let writer = tokio::spawn(async move {
        for number in 61..=400 {
            writing.append_durable(RecordKind::Event, &text(number)).await.unwrap();
        }
    });
    for round in 0..5 {
        let to = dir.path().join(format!("copy-{round}"));
        let (from, target) = (dir.path().to_owned(), to.clone());
        let copied = tokio::task::spawn_blocking(move || entrepot_journal::copy(&from, &target));
        let copied = copied.await.unwrap().unwrap();
        let report = verify(&to).unwrap();
        assert!(report.is_intact(), "{report}");
        assert!(report.head.is_some_and(|head| head.sequence >= 60));
        for file in copied {
            let bytes = std::fs::read(to.join(&file.name)).unwrap();
            assert_eq!((bytes.len() as u64, blake3::hash(&bytes)), (file.size, file.blake3.into()));
        }
    }
    writer.await.unwrap();
    // What is torn at the end does not come along.
    journal.close().await.unwrap();
    let path = segments(dir.path()).pop().unwrap();
    std::fs::write(&path, [std::fs::read(&path).unwrap(), b"EPr1x".to_vec()].concat()).unwrap();
    let to = dir.path().join("copy");
    entrepot_journal::copy(dir.path(), &to).unwrap();
    assert_eq!(verify(&to).unwrap().torn_bytes, 0);
    let nothing = entrepot_journal::copy(&to.join("torn"), &dir.path().join("none"));
    assert!(matches!(nothing, Err(JournalError::NoJournal { .. } | JournalError::Io { .. })));
}

#[tokio::test]
async fn segments_rotate_move_to_the_archive_and_are_read_across() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 4096, ..Options::default() };
    let (mut after, mut archived) = (0, 0);
    for run in 0..3 {
        let journal = open(dir.path(), options.clone()).unwrap();
        for number in 0..100 {
            after = journal.append_durable(RecordKind::Event, &text(number)).await.unwrap();
        }
        let all = journal.reader(0).read_now(10_000).unwrap();
        assert_eq!(all.len(), (run + 1) * 100);
        assert_eq!(journal.reader(after - 1).read_now(10).unwrap().len(), 1);
        assert_eq!(segments(&dir.path().join("archive")).len(), archived, "nothing is released");
        journal.release(after).unwrap();
        assert_eq!(journal.usage().unreleased_bytes, 0);
        assert_eq!(journal.usage().released, journal.usage().appended);
        journal.close().await.unwrap();
        archived = segments(&dir.path().join("archive")).len();
    }
    assert_eq!(segments(dir.path()).len(), 1, "only the segment in use is left");
    let archive = segments(&dir.path().join("archive"));
    assert!(archive.len() > 5, "{} in the archive", archive.len());
    let report = verify(dir.path()).unwrap();
    assert!(report.is_intact() && report.first_sequence == 1, "{report}");
    // A segment that is gone is found, in the middle as at the beginning.
    for lost in [&archive[3], &archive[0]] {
        let bytes = std::fs::read(lost).unwrap();
        std::fs::remove_file(lost).unwrap();
        assert!(!verify(dir.path()).unwrap().is_intact());
        std::fs::write(lost, bytes).unwrap();
    }
}

#[tokio::test]
async fn only_what_is_released_moves_to_the_archive() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options { segment_bytes: 4096, ..Options::default() };
    let journal = open(dir.path(), options).unwrap();
    for number in 0..200 {
        journal.append(RecordKind::Event, &text(number)).unwrap();
    }
    journal.sync(200).await.unwrap();
    journal.release(100).unwrap();
    journal.close().await.unwrap();
    let first =
        |path: &PathBuf| -> u64 { path.file_stem().unwrap().to_str().unwrap().parse().unwrap() };
    let live: Vec<u64> = segments(dir.path()).iter().map(first).collect();
    let archive: Vec<u64> = segments(&dir.path().join("archive")).iter().map(first).collect();
    assert!(live.len() > 1 && live[0] <= 101, "record 101 is not released: {live:?}");
    assert!(archive.len() > 1 && archive[archive.len() - 1] < live[0], "{archive:?}");
}

#[tokio::test]
async fn retention_removes_old_segments_and_says_so() {
    let disk = SimDisk::default();
    let env = Env::simulated(3);
    let day = Duration::from_secs(86_400);
    let options = Options { segment_bytes: 2048, ..Options::default() };
    let medium = Arc::new(disk.clone());
    let (journal, _) = Journal::open_on(medium, &node(), env.clone(), options).unwrap();
    for number in 0..60 {
        let last = journal.append_durable(RecordKind::Event, &text(number)).await.unwrap();
        journal.release(last).unwrap();
        env.advance(day);
    }
    // The flusher archives in its own time; a later release asks again.
    let archived = loop {
        let last = journal.append_durable(RecordKind::Event, &text(1)).await.unwrap();
        journal.release(last).unwrap();
        let archived = journal.archived().unwrap();
        if archived.last().is_some_and(|segment| segment.last > 40) {
            break archived;
        }
        tokio::task::yield_now().await;
    };
    assert!(archived.is_sorted_by_key(|segment| segment.newest));
    assert!(archived.iter().all(|segment| (1..=2048).contains(&segment.bytes)));
    let up_to = archived.iter().rev().find(|segment| segment.last <= 40).unwrap().last;
    assert_eq!(journal.prune_archive(up_to).unwrap(), up_to);
    assert_eq!(journal.prune_archive(up_to).unwrap(), 0, "nothing is left to do");
    let Err(JournalError::Gone { first, .. }) = journal.reader(0).read_now(1) else {
        panic!("the first records are still there")
    };
    assert_eq!(first, up_to + 1);
    // What a database that falls back may need stays, whatever is asked for.
    assert!(journal.prune_archive(u64::MAX).unwrap() < journal.usage().appended);
    let young = env.now().minus(entrepot_journal::limits::ARCHIVE_KEEP_LEAST);
    let last = journal.append_durable(RecordKind::Event, &text(1)).await.unwrap();
    let kept = journal.archived().unwrap();
    assert!(kept.iter().all(|segment| segment.newest >= young), "{kept:?} of {last}");
    let first = journal.usage().appended - 1;
    assert!(journal.reader(first).read_now(1).unwrap()[0].sequence > first);
    journal.close().await.unwrap();
    let report = entrepot_journal::verify_on(&disk, &mut |_| {}).unwrap();
    assert!(report.is_intact() && report.first_sequence > 20, "{report}");
}

#[tokio::test]
async fn the_limit_refuses_intents_then_facts_until_released() {
    let disk = SimDisk::default();
    let options = Options { limit_bytes: 80_000, segment_bytes: 20_000, ..Options::default() };
    let journal = open_sim(&disk, options);
    let payload = vec![b'x'; 1000];
    let error = loop {
        if let Err(error) = journal.append(RecordKind::Intent, &payload) {
            break error;
        }
    };
    let JournalError::Full { used, limit } = error else { panic!("{error}") };
    assert!(limit == 80_000 && used <= 80_000 && used > 78_000, "{used} of {limit}");
    assert!(error.is_temporary());
    // What has happened is still taken, but not without end.
    let mut facts = 0;
    while journal.append(RecordKind::Event, &payload).is_ok() {
        facts += 1;
    }
    assert!((5..15).contains(&facts), "{facts} facts in the headroom");
    assert!(journal.usage().full);
    let last = journal.usage().appended;
    journal.sync(last).await.unwrap();
    journal.release(last).unwrap();
    assert!(!journal.usage().full);
    journal.append_durable(RecordKind::Intent, &payload).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn one_sync_serves_all_who_wait() {
    let disk = SimDisk::default();
    let options = Options { inline_below: Duration::ZERO, ..Options::default() };
    let journal = open_sim(&disk, options);
    disk.close_gate();
    let before = disk.syncs();
    let mut group = tokio::task::JoinSet::new();
    for number in 0..500 {
        let journal = journal.clone();
        group.spawn(async move {
            journal.append_durable(RecordKind::Intent, &text(number)).await.unwrap()
        });
    }
    while journal.usage().appended < 500 {
        tokio::task::yield_now().await;
    }
    assert_eq!(journal.usage().durable, 0, "nothing is durable while the disk is busy");
    disk.open_gate();
    assert_eq!(group.join_all().await.len(), 500);
    let syncs = disk.syncs() - before;
    assert!(syncs <= 3, "{syncs} syncs for 500 records");
}

#[tokio::test]
async fn a_write_that_fails_is_told_and_tried_again() {
    let disk = SimDisk::default();
    let journal = open_sim(&disk, Options::default());
    journal.append_durable(RecordKind::Event, b"1").await.unwrap();
    disk.on_call(Box::new(|_, call, _| match call {
        Call::Write => Err(std::io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    }));
    for _ in 0..3 {
        let error = journal.append_durable(RecordKind::Event, b"2").await.unwrap_err();
        assert!(matches!(error, JournalError::Io { .. }) && error.is_temporary(), "{error}");
    }
    disk.no_hook();
    assert_eq!(journal.append_durable(RecordKind::Event, b"3").await.unwrap(), 5);
    let payloads: Vec<Vec<u8>> =
        journal.reader(0).read_now(10).unwrap().into_iter().map(|r| r.payload).collect();
    assert_eq!(payloads, [b"1", b"2", b"2", b"2", b"3"]);
    journal.close().await.unwrap();
    assert!(entrepot_journal::verify_on(&disk, &mut |_| {}).unwrap().is_intact());
}

#[tokio::test]
async fn a_sync_that_fails_is_told_to_those_who_end_the_node() {
    let disk = SimDisk::default();
    let journal = open_sim(&disk, Options::default());
    journal.append_durable(RecordKind::Event, b"1").await.unwrap();
    let watching = journal.clone();
    let failed = tokio::spawn(async move { watching.failed().await });
    assert_eq!(journal.failed_for(), None);
    disk.on_call(Box::new(|_, call, _| match call {
        Call::Sync => Err(std::io::Error::other("EIO")),
        _ => Ok(()),
    }));
    let refused = journal.append_durable(RecordKind::Event, b"2").await.unwrap_err();
    disk.no_hook();
    assert_eq!(failed.await.unwrap(), refused);
    assert!(matches!(refused, JournalError::Suspect { .. }), "{refused}");
    assert!(journal.failed_for().is_some());
    // The disk is well again, and that proves nothing.
    assert_eq!(journal.append_durable(RecordKind::Event, b"3").await.unwrap_err(), refused);
    assert_eq!(journal.failed().await, refused, "also for those who ask later");
    drop(journal);
    let again = open_sim(&disk, Options::default());
    again.append_durable(RecordKind::Event, b"4").await.unwrap();
    let records = again.reader(0).read_now(10).unwrap();
    assert_eq!(records.first().map(|record| &*record.payload), Some(&b"1"[..]));
    assert_eq!(records.last().map(|record| &*record.payload), Some(&b"4"[..]));
}

#[tokio::test]
async fn a_tail_that_nobody_waits_for_becomes_durable_and_wakes_the_reader() {
    let disk = SimDisk::default();
    let journal = open_sim(&disk, Options::default());
    let mut reader = journal.reader(0);
    let waiting = tokio::spawn(async move { reader.next_batch(10).await });
    journal.append(RecordKind::Event, b"tail").unwrap();
    assert_eq!(waiting.await.unwrap().unwrap()[0].payload, b"tail");
}

#[tokio::test]
async fn one_process_at_a_time_and_only_its_own_node() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(dir.path(), Options::default()).unwrap();
    let second = open(dir.path(), Options::default()).err();
    assert!(matches!(second, Some(JournalError::Locked { .. })), "{second:?}");
    journal.append_durable(RecordKind::Event, b"x").await.unwrap();
    journal.close().await.unwrap();
    assert_eq!(journal.append(RecordKind::Event, b"x"), Err(JournalError::Closed));
    drop(journal);
    let other = "n2".parse().unwrap();
    let other = Journal::open(dir.path(), &other, Env::simulated(1), Options::default()).err();
    assert!(matches!(other, Some(JournalError::Corrupt { .. })), "{other:?}");
    open(dir.path(), Options::default()).unwrap();
}

#[tokio::test]
async fn a_journal_is_of_one_node_in_all_its_segments() {
    let disk = SimDisk::default();
    let options = Options { segment_bytes: 400, ..Options::default() };
    let named = |name: &str| {
        let medium = Arc::new(disk.clone());
        Journal::open_on(medium, &name.parse().unwrap(), Env::real(), options.clone())
    };
    // One that holds nothing yet may be given another name, and is another node then.
    let unused = named("n0").unwrap().0;
    let before = unused.node_id();
    unused.close().await.unwrap();
    drop(unused);
    let journal = named("n1").unwrap().0;
    let id = journal.node_id();
    assert_ne!(id, before);
    for number in 0..20 {
        journal.append_durable(RecordKind::Event, &text(number)).await.unwrap();
    }
    let last = journal.usage().durable;
    journal.release(last).unwrap();
    journal.close().await.unwrap();
    drop(journal);
    let refused = named("n0").err();
    assert!(matches!(refused, Some(JournalError::Corrupt { .. })), "{refused:?}");
    let journal = named("n1").unwrap().0;
    assert_eq!(journal.node_id(), id);
    journal.close().await.unwrap();
    assert!(entrepot_journal::verify_on(&disk, &mut |_| {}).unwrap().is_intact());
}

#[tokio::test]
async fn numbers_of_a_lost_journal_do_not_come_again() {
    let disk = SimDisk::default();
    let journal = open_sim(&disk, Options { segment_bytes: 400, ..Options::default() });
    let first = journal.append_durable(RecordKind::Event, &text(1)).await.unwrap();
    journal.skip_past(5000).await.unwrap();
    journal.skip_past(3).await.unwrap();
    for _ in 0..10 {
        journal.append_durable(RecordKind::Event, &text(2)).await.unwrap();
    }
    let sequences = |journal: &Journal, after| -> Vec<u64> {
        journal.reader(after).read_now(100).unwrap().iter().map(|r| r.sequence).collect()
    };
    assert_eq!(sequences(&journal, 5000), (5002..=5011).collect::<Vec<u64>>());
    assert_eq!(sequences(&journal, 0)[..2], [first, 5002]);
    journal.close().await.unwrap();
    assert!(entrepot_journal::verify_on(&disk, &mut |_| {}).unwrap().is_intact());
    let journal = open_sim(&disk, Options::default());
    assert_eq!(sequences(&journal, 0).len(), 11);
    assert!(journal.append(RecordKind::Event, b"x").unwrap() > 5011);
}

#[tokio::test]
async fn a_recorded_event_reads_back() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let journal = open(dir.path(), Options::default()).unwrap();
    let recorder = Recorder::new(journal.clone(), env, node());
    let fact = Fact::FileRemoved { path: "/in/a".to_owned() };
    let event = recorder.record_durable(&Scope::site(SiteId::MAIN), fact).await.unwrap();
    let record = journal.reader(0).next_batch(1).await.unwrap().remove(0);
    assert_eq!(record.kind, RecordKind::Event);
    let read: entrepot_nouns::Event = serde_json::from_slice(&record.payload).unwrap();
    assert_eq!(read, event);
}

#[tokio::test]
async fn a_running_journal_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let journal = open(dir.path(), Options::default()).unwrap();
    for number in 0..50 {
        journal.append_durable(RecordKind::Event, &text(number)).await.unwrap();
    }
    let report = verify(dir.path()).unwrap();
    assert!(report.is_intact() && report.records == 50, "{report}");
    assert_eq!(report.head.as_ref().map(|head| head.sequence), Some(50));
}
