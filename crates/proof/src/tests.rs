//! Heads, receipts and comparisons over a real journal and database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use entrepot_crypto::{Checkpoint, NoteSigner, NoteVerifier};
use entrepot_db::Projection;
use entrepot_journal::{FsMedium, Journal, Options, RecordKind, Recorder, Scope};
use entrepot_nouns::event::FileFact;
use entrepot_nouns::{Env, Event, Fact, NodeId, Protocol, Secret, SiteId, Timestamp, TransferId};
use entrepot_testbed::{NODE, Testbed, name};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::{
    Compared, Comparison, HeadParts, HeadSink, Heads, ProofError, Receipt, SentHead, SinkTask,
    check_end, compare, origin, read_heads,
};

/// A key of the node with this id.
fn signer(node: NodeId, seed: u8) -> NoteSigner {
    NoteSigner::new(&origin(&name(NODE), node), &Secret::new([seed; 32])).expect("a key")
}

pub(crate) struct Bed {
    pub(crate) bed: Testbed,
    pub(crate) recorder: Recorder,
}

impl Bed {
    pub(crate) async fn start() -> Bed {
        let bed = Testbed::start_in_memory(Env::real()).await;
        let recorder = bed.recorder.clone();
        Bed { bed, recorder }
    }

    fn id(&self) -> NodeId {
        self.recorder.node_id()
    }

    fn journal_folder(&self) -> PathBuf {
        self.bed.folder().join("journal")
    }

    fn heads(&self) -> Heads {
        let medium = Arc::new(FsMedium::existing(&self.journal_folder()));
        let (db, recorder) = (self.bed.db.clone(), self.recorder.clone());
        Heads::open(HeadParts { db, recorder, medium, signer: signer(self.id(), 5) })
            .expect("heads")
    }

    /// Records uploads, and gives their transfers.
    async fn upload(&self, count: usize) -> Vec<TransferId> {
        let mut transfers = Vec::new();
        for number in 0..count {
            let transfer = self.bed.env.new_id();
            let file = FileFact {
                transfer,
                path: format!("/in/{number}"),
                size: 5,
                digests: Default::default(),
                protocol: Protocol::Sftp,
                started_at: self.bed.env.now(),
                identity: None,
                displaced: None,
                temporary: false,
                as2: None,
            };
            let scope = Scope { account: Some(name("partner")), ..Scope::site(SiteId::MAIN) };
            let fact = Fact::FileUploaded { file };
            self.recorder.record_durable(&scope, fact).await.expect("recorded");
            transfers.push(transfer);
        }
        transfers
    }

    /// Projects the whole journal.
    pub(crate) async fn project(&self) {
        let records = self.recorder.journal().reader(0).read_now(100_000).expect("read");
        let events: Vec<(u64, Event)> = records
            .iter()
            .filter(|record| record.kind == RecordKind::Event)
            .map(|record| {
                let event = serde_json::from_slice(&record.payload).expect("an event");
                (record.sequence, event)
            })
            .collect();
        let up_to = records.last().map_or(0, |record| record.sequence);
        let (node, name) = (self.id(), name(NODE));
        let after = self.bed.db.projected_up_to(node).await.expect("the cursor");
        let piece = Projection { after, up_to, ..Projection::of(node, &name, &events) };
        self.bed.db.project(&piece).await.expect("projected");
    }

    /// Signs heads until all that is there is covered.
    pub(crate) async fn sign(&self) -> Heads {
        let heads = self.heads();
        let end = CancellationToken::new();
        let task = tokio::spawn(heads.clone().run(end.clone()));
        let last = self.recorder.journal().usage().durable;
        assert!(heads.covering(last).await.expect("the database").is_some());
        end.cancel();
        task.await.expect("the task ends well");
        heads
    }

    async fn compare(&self) -> Comparison {
        self.compare_with(Vec::new()).await
    }

    /// Also with heads that were kept elsewhere.
    async fn compare_with(&self, outside: Vec<SentHead>) -> Comparison {
        let compared = Compared {
            db: self.bed.db.clone(),
            node: name(NODE),
            id: self.id(),
            folder: self.journal_folder(),
            keys: vec![signer(self.id(), 5).verifier().clone()],
            signers: vec![signer(self.id(), 5).verifier().clone()],
            outside,
        };
        compare(compared).await.expect("compared")
    }

    fn sql(&self, statement: &str) -> usize {
        let database = rusqlite::Connection::open(self.bed.database()).expect("the database");
        database.execute(statement, []).expect(statement)
    }

    /// Closes the journal and opens it again.
    async fn restart(&mut self) {
        self.recorder.journal().close().await.expect("closed");
        let (env, node) = (self.bed.env.clone(), name(NODE));
        let opened = Journal::open(&self.journal_folder(), &node, env.clone(), Options::default());
        let (journal, _) = opened.expect("opened");
        self.recorder = Recorder::new(journal, env, node);
    }
}

#[tokio::test]
async fn a_receipt_proves_its_event_to_a_reader_with_the_key_alone() {
    let bed = Bed::start().await;
    let transfers = bed.upload(20).await;
    bed.project().await;
    let heads = bed.sign().await;
    let key: NoteVerifier = heads.verifier().to_string().parse().expect("a key");
    for transfer in &transfers {
        let receipt = heads.receipt(SiteId::MAIN, *transfer).await.expect("a receipt");
        let text = serde_json::to_string_pretty(&receipt).expect("JSON");
        let verified = Receipt::parse(&text).expect("a receipt").verify(&key).expect("valid");
        let file = verified.event.fact.file().expect("a file");
        assert_eq!(file.transfer, *transfer);
        assert!(verified.covered >= verified.record);
    }
    let unknown = heads.receipt(SiteId::MAIN, bed.bed.env.new_id()).await;
    assert!(matches!(unknown, Err(ProofError::NoFact(_))), "{unknown:?}");
}

#[tokio::test]
async fn a_receipt_in_which_anything_was_changed_is_not_valid() {
    let bed = Bed::start().await;
    let transfer = bed.upload(9).await[4];
    bed.project().await;
    let heads = bed.sign().await;
    let good = heads.receipt(SiteId::MAIN, transfer).await.expect("a receipt");
    good.verify(heads.verifier()).expect("valid");
    let change = |change: &dyn Fn(&mut Receipt)| {
        let mut receipt = good.clone();
        change(&mut receipt);
        receipt.verify(heads.verifier())
    };
    type Edit<'a> = &'a dyn Fn(&mut Receipt);
    let changes: [(&str, Edit<'_>); 7] = [
        ("path", &|receipt| receipt.event["path"] = "/in/5".into()),
        ("size", &|receipt| receipt.event["size"] = 6.into()),
        ("account", &|receipt| receipt.event["account"] = "other".into()),
        ("record", &|receipt| receipt.record += 1),
        ("no record", &|receipt| receipt.record = 0),
        ("hashes", &|receipt| receipt.path.reverse()),
        ("head", &|receipt| receipt.head = receipt.head.replace("time 2", "time 3")),
    ];
    for (what, edit) in changes {
        assert!(change(edit).is_err(), "{what}");
    }
    let other = signer(bed.id(), 6);
    assert!(matches!(good.verify(other.verifier()), Err(ProofError::Note(_))));
}

#[tokio::test]
async fn a_node_that_starts_again_goes_on_with_its_tree() {
    let mut bed = Bed::start().await;
    let first = bed.upload(300).await[7];
    bed.project().await;
    bed.sign().await;
    bed.restart().await;
    bed.upload(300).await;
    bed.project().await;
    let heads = bed.sign().await;
    heads.receipt(SiteId::MAIN, first).await.expect("a receipt of the first run");
    let found = bed.compare().await;
    assert!(found.is_intact(), "{found}");
    assert_eq!(found.rows, 600);
    // The hashes are lost: they are computed again from the journal.
    std::fs::remove_dir_all(bed.journal_folder().join("tree")).expect("removed");
    bed.restart().await;
    bed.upload(1).await;
    bed.project().await;
    let heads = bed.sign().await;
    heads.receipt(SiteId::MAIN, first).await.expect("a receipt after that");
    assert!(bed.compare().await.is_intact());
}

#[tokio::test]
async fn the_last_head_of_a_run_covers_what_came_just_before_its_end() {
    let bed = Bed::start().await;
    bed.upload(3).await;
    let heads = bed.heads();
    let end = CancellationToken::new();
    let task = tokio::spawn(heads.clone().run(end.clone()));
    assert!(heads.covering(1).await.expect("the database").is_some());
    bed.upload(3).await;
    end.cancel();
    task.await.expect("the task ends well");
    let last = bed.bed.db.last_head(bed.id()).await.expect("the database").expect("a head");
    assert_eq!(last.size, bed.recorder.journal().usage().durable);
}

/// A change of the configuration whose event was recorded, but not yet marked so, before a crash;
/// a delivery that is told again, at another time, by an event of the same id.
#[tokio::test]
async fn an_event_that_is_recorded_again_after_a_crash_is_no_finding() {
    let bed = Bed::start().await;
    bed.upload(3).await;
    let event = bed.recorder.event(&Scope::site(SiteId::MAIN), Fact::NodeStopped {});
    let later = Event { at: Timestamp(event.at.micros() + 1), ..event.clone() };
    for event in [&event, &event, &later] {
        bed.recorder.seal(event).await.expect("recorded");
    }
    bed.project().await;
    bed.sign().await;
    let found = bed.compare().await;
    assert!(found.is_intact(), "{found}");
    assert_eq!(bed.sql("DELETE FROM events WHERE kind = 'node.stopped'"), 1);
    assert_eq!(bed.compare().await.findings_total, 3);
}

#[tokio::test]
async fn each_change_of_the_table_of_events_is_found() {
    let bed = Bed::start().await;
    bed.upload(200).await;
    bed.project().await;
    bed.sign().await;
    let intact = bed.compare().await;
    assert!(intact.is_intact(), "{intact}");
    assert_eq!(intact.rows, 200);
    let copy = "CREATE TABLE copy AS SELECT * FROM events";
    bed.sql(copy);
    let restore = || {
        bed.sql("DELETE FROM events");
        bed.sql("INSERT INTO events SELECT * FROM copy");
    };
    for number in (0..200).step_by(7) {
        let one = format!("WHERE sequence = (SELECT MIN(sequence) + {number} FROM copy)");
        let changes = [
            format!("UPDATE events SET body = replace(body, '/in/', '/on/') {one}"),
            format!("UPDATE events SET account = 'other' {one}"),
            format!("UPDATE events SET kind = 'file.downloaded' {one}"),
            format!("UPDATE events SET at = at + 1 {one}"),
            format!("DELETE FROM events {one}"),
            format!(
                "INSERT INTO events (id, at, site, node, node_sequence, kind, body, sealed) \
                 SELECT randomblob(16), at, site, node, node_sequence, kind, body, sealed \
                 FROM events {one}"
            ),
        ];
        for change in changes {
            assert_eq!(bed.sql(&change), 1, "{change}");
            let found = bed.compare().await;
            assert!(!found.is_intact(), "{change}");
            assert!(found.journal.is_intact(), "{change}");
            restore();
        }
    }
    let swap =
        "UPDATE events SET node_sequence = 300 - node_sequence WHERE node_sequence IN (100, 200)";
    assert_eq!(bed.sql(swap), 2);
    assert!(!bed.compare().await.is_intact());
}

#[tokio::test]
async fn a_journal_whose_end_was_cut_is_found_before_and_after_the_next_start() {
    let mut bed = Bed::start().await;
    bed.upload(20).await;
    bed.project().await;
    bed.sign().await;
    bed.recorder.journal().close().await.expect("closed");
    let segment = std::fs::read_dir(bed.journal_folder())
        .expect("the folder")
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .find(|path| path.is_file() && path.file_name().is_some_and(|name| name != "lock"))
        .expect("a segment");
    let bytes = std::fs::read(&segment).expect("the segment");
    let starts: Vec<usize> = bytes
        .windows(4)
        .enumerate()
        .filter(|(_, four)| four == b"EPr1")
        .map(|(at, _)| at)
        .collect();
    let cut = starts[starts.len() - 6];
    std::fs::write(&segment, &bytes[..cut]).expect("cut");
    let found = bed.compare().await;
    assert!(found.journal.is_intact(), "the chain by itself shows nothing");
    assert!(found.findings.iter().any(|finding| finding.problem.contains("cut")), "{found}");
    // The node starts, and skips the numbers that were used.
    let (env, node) = (bed.bed.env.clone(), name(NODE));
    let opened = Journal::open(&bed.journal_folder(), &node, env.clone(), Options::default());
    let (journal, _) = opened.expect("opened");
    bed.recorder = Recorder::new(journal, env, node);
    check_end(&bed.bed.db, &bed.recorder).await.expect("checked");
    bed.upload(3).await;
    bed.project().await;
    bed.sign().await;
    let events = entrepot_testbed::events(bed.recorder.journal());
    let altered = events.iter().filter(|event| matches!(event.fact, Fact::JournalAltered { .. }));
    assert_eq!(altered.count(), 1, "the start records what it found");
    let found = bed.compare().await;
    assert!(!found.is_intact());
    let missing =
        found.findings.iter().filter(|finding| finding.problem.contains("signed")).count();
    assert!(missing > 0, "{found}");
}

#[tokio::test]
async fn a_head_that_was_changed_or_exchanged_is_found() {
    let bed = Bed::start().await;
    bed.upload(20).await;
    bed.project().await;
    bed.sign().await;
    let changes = [
        "UPDATE heads SET note = replace(note, 'time 2', 'time 3')",
        "UPDATE heads SET size = size - 1",
        "UPDATE heads SET size = size + 1",
    ];
    bed.sql("CREATE TABLE copy AS SELECT * FROM heads");
    for change in changes {
        bed.sql(change);
        let found = bed.compare().await;
        assert!(!found.is_intact(), "{change}");
        bed.sql("DELETE FROM heads");
        bed.sql("INSERT INTO heads SELECT * FROM copy");
    }
    assert!(bed.compare().await.is_intact());
}

/// A sink that keeps what it gets, and is away at first.
#[derive(Clone, Default)]
struct MemorySink {
    got: Arc<Mutex<String>>,
    away: Arc<AtomicBool>,
}

#[async_trait::async_trait]
impl HeadSink for MemorySink {
    async fn send(&self, heads: &[SentHead]) -> Result<(), String> {
        if self.away.load(Ordering::Relaxed) {
            return Err("it is away".to_owned());
        }
        for head in heads {
            *self.got.lock() += &serde_json::to_string(head).expect("JSON");
            *self.got.lock() += "\n";
        }
        Ok(())
    }
}

#[tokio::test]
async fn a_sink_gets_each_head_also_those_of_an_outage_and_none_twice() {
    let bed = Bed::start().await;
    let sink = MemorySink::default();
    let send = async |heads: Heads| {
        let (sink, meters) = (Box::new(sink.clone()), heads.sink_meters("log"));
        let ended = CancellationToken::new();
        ended.cancel();
        SinkTask { heads, sink, meters }.run(ended).await;
    };
    bed.upload(3).await;
    send(bed.sign().await).await;
    sink.away.store(true, Ordering::Relaxed);
    for _ in 0..3 {
        bed.upload(2).await;
        send(bed.sign().await).await;
    }
    sink.away.store(false, Ordering::Relaxed);
    bed.upload(1).await;
    send(bed.sign().await).await;
    send(bed.heads()).await;
    let got = read_heads("log", &sink.got.lock()).expect("heads");
    let stored = bed.bed.db.heads_after(bed.id(), 0, 100).await.expect("the database");
    assert!(stored.len() >= 5, "{stored:?}");
    assert_eq!(got, stored.into_iter().map(SentHead::from).collect::<Vec<_>>());
    let events = entrepot_testbed::events(bed.recorder.journal());
    let failed = events.iter().filter(|event| matches!(event.fact, Fact::SinkFailed { .. }));
    assert_eq!(failed.count(), 3, "each run of a task records that the sink refused once");
}

/// With the key of a node its journal, database and heads can be written anew so that all agree.
#[tokio::test]
async fn a_history_that_was_written_anew_with_the_nodes_own_key_is_found_by_heads_kept_elsewhere() {
    let bed = Bed::start().await;
    bed.upload(20).await;
    bed.project().await;
    bed.sign().await;
    let stored = bed.bed.db.heads_after(bed.id(), 0, 100).await.expect("the database");
    let kept: Vec<SentHead> = stored.into_iter().map(SentHead::from).collect();
    assert!(bed.compare_with(kept.clone()).await.is_intact());
    let last = kept.last().expect("a head").clone();
    let checkpoint = Checkpoint::open_unverified(&last.note).expect("a checkpoint");
    let before = Checkpoint { root: [9; 32], ..checkpoint };
    let note = signer(bed.id(), 5).sign(&before.text());
    let found = bed.compare_with(vec![SentHead { note, ..last.clone() }]).await;
    assert_eq!(found.findings_total, 1, "{found}");
    assert!(bed.compare().await.is_intact(), "without them nothing shows");
    // A journal that is shorter than a head that was sent.
    let found = bed.compare_with(vec![SentHead { size: last.size + 5, ..last }]).await;
    assert!(found.findings[0].problem.contains("cut"), "{found}");
}
