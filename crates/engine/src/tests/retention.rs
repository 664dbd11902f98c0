//! Retention: what goes, what stays, and that the rest verifies.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::BytesMut;
use entrepot_crypto::{HashAlgorithm, NoteSigner};
use entrepot_db::{NodeKey, PrunedKind};
use entrepot_journal::{FsMedium, Journal, Options, Recorder, Scope};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::rule::Existing;
use entrepot_nouns::{Endpoint, EventId, Fact, Sealed, Secret, Site};
use entrepot_proof::{
    Compared, Comparison, EventsStub, HeadParts, Heads, compare, origin, signers,
};
use entrepot_storage::AnyStore;
use entrepot_vfs::PurgedBatch;
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::world::{SITE, SimFileAccess, World, content, deliver, files, memory_store, name, rule};
use crate::retention::error::RetentionError;
use crate::retention::{RetentionWorker, Stores};

const DAY: Duration = Duration::from_secs(86_400);
/// Size of the small segments here, and more records than fit into one.
const SEGMENT_BYTES: u64 = 4096;
const SEGMENT_RECORDS: u64 = 40;

#[async_trait]
impl Stores for SimFileAccess {
    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore, RetentionError> {
        let store = crate::files::FileAccess::store(self, endpoint).await;
        store.map_err(|error| {
            let endpoint = endpoint.noun.name.clone();
            RetentionError::Export { endpoint, problem: error.to_string() }
        })
    }

    async fn purge_trash(&self, _: Option<EventId>) -> Result<PurgedBatch, RetentionError> {
        Ok(PurgedBatch { purged: 0, next: None })
    }
}

/// A node that signs heads and deletes.
struct Keeping {
    world: World,
    folder: std::path::PathBuf,
    heads: Heads,
    worker: RetentionWorker,
}

impl Keeping {
    /// With a journal of small segments.
    async fn new(seed: u64, retention: serde_json::Value) -> Keeping {
        let bed = World::new(seed).await;
        let folder = bed.bed.folder().join("small");
        let options = Options { segment_bytes: SEGMENT_BYTES, ..Options::default() };
        let node = name("small");
        let (journal, _) = Journal::open(&folder, &node, bed.env.clone(), options).unwrap();
        let recorder = Recorder::new(journal, bed.env.clone(), node.clone());
        let mut world = bed.with_recorder(recorder.clone()).await;
        let id = recorder.node_id();
        let signer = NoteSigner::new(&origin(&node, id), &Secret::new([5; 32])).unwrap();
        let public = signer.verifier().to_string();
        let key = NodeKey { public, private_sealed: Sealed("none".to_owned()) };
        world.db.insert_node_key(id, &key).await.unwrap();
        let heads = Heads::open(HeadParts {
            db: world.db.clone(),
            recorder: recorder.clone(),
            medium: Arc::new(FsMedium::existing(&folder)),
            signer,
        });
        let heads = heads.unwrap();
        let stores = Box::new(world.file_access.clone());
        let worker =
            RetentionWorker::with_stores(world.db.clone(), recorder, heads.clone(), stores);
        let site: Site =
            serde_json::from_value(json!({"name": "main", "retention": retention})).unwrap();
        world.put(&site).await;
        world.start();
        Keeping { world, folder, heads, worker }
    }

    /// Records so many removals of files, a day apart, and projects and signs them.
    async fn days(&mut self, days: u64) {
        for day in 0..days {
            let fact = Fact::FileRemoved { path: format!("/in/{day}") };
            self.world.recorder.record_durable(&Scope::site(SITE), fact).await.unwrap();
            self.world.env.advance(DAY);
        }
        self.settle().await;
        // Segments move to the archive on the journal's own thread.
        let archived = async |world: &World| {
            let journal = world.recorder.journal();
            let last = journal.archived().unwrap().last().map_or(0, |segment| segment.last);
            last + SEGMENT_RECORDS >= journal.usage().released
        };
        self.world.until(archived).await;
    }

    async fn settle(&mut self) {
        self.world.projected().await;
        let end = CancellationToken::new();
        let signing = tokio::spawn(self.heads.clone().run(end.clone()));
        let last = self.world.recorder.journal().usage().durable;
        let signed = async |world: &World| {
            let head = world.db.last_head(world.recorder.node_id()).await.unwrap();
            head.is_some_and(|head| head.size >= last)
        };
        self.world.until(signed).await;
        end.cancel();
        signing.await.unwrap();
    }

    async fn pass(&mut self) -> Result<(), RetentionError> {
        let passed = self.worker.pass(&CancellationToken::new()).await;
        self.settle().await;
        passed
    }

    async fn compare(&self) -> Comparison {
        let (db, recorder) = (self.world.db.clone(), &self.world.recorder);
        let signers = signers(&db).await.unwrap();
        let keys = vec![self.heads.verifier().clone()];
        let (node, id) = (recorder.node().clone(), recorder.node_id());
        let folder = self.folder.clone();
        let outside = Vec::new();
        compare(Compared { db, node, id, folder, keys, signers, outside }).await.unwrap()
    }

    /// All events as they were recorded.
    async fn bodies(&self) -> Vec<String> {
        let events = self.world.all_events().await;
        events.iter().map(|event| serde_json::to_string(event).unwrap()).collect()
    }

    async fn removed(&self) -> usize {
        self.world.events("file.removed").await.len()
    }

    /// All lines of all files at an endpoint.
    async fn exported(&self, store: &AnyStore) -> Vec<String> {
        let mut lines = Vec::new();
        for path in files(store).await.into_keys() {
            let path = path.parse().unwrap();
            let file = store.open(&path).await.unwrap();
            let size = usize::try_from(file.meta().size).unwrap();
            let bytes = file.read_at(0, BytesMut::new(), size).await.unwrap();
            let mut text = String::new();
            zstd::stream::read::Decoder::new(&bytes[..])
                .unwrap()
                .read_to_string(&mut text)
                .unwrap();
            lines.extend(text.lines().map(str::to_owned));
        }
        lines
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_old_is_exported_and_deleted_and_the_rest_verifies() {
    let export = json!({"endpoint": "vault", "folder": "audit"});
    let mut keeping = Keeping::new(1, json!({"events": "30d", "export": export})).await;
    let vault = memory_store(&keeping.world.env);
    keeping.world.target("vault", vault.clone()).await;
    keeping.days(100).await;
    let before: Vec<String> = keeping.bodies().await;
    keeping.pass().await.unwrap();
    assert_eq!(keeping.removed().await, 29);
    let found = keeping.compare().await;
    assert!(found.is_intact(), "{found}");
    assert!(found.pruned_rows >= 70, "{found}");
    // What was deleted is in the file, byte for byte, and both are in the stub and the event.
    let lines = keeping.exported(&vault).await;
    assert_eq!(lines, before[..lines.len()]);
    assert!(lines.len() >= 70);
    let node = keeping.world.recorder.node_id();
    let stubs = keeping.world.db.stubs_after(node, PrunedKind::Events, 0, 10).await.unwrap();
    assert_eq!(stubs.len(), 1);
    assert_eq!(stubs[0].pending, None);
    let keys = signers(&keeping.world.db).await.unwrap();
    let stub = EventsStub::open(&stubs[0].note, &keys).unwrap();
    assert_eq!(stub.count, lines.len() as u64);
    let mut tree = entrepot_crypto::merkle::Frontier::default();
    lines.iter().for_each(|l| tree.push(entrepot_crypto::merkle::leaf_hash(l.as_bytes())));
    assert_eq!(stub.root, tree.root());
    let told = keeping.world.events("retention.pruned").await;
    let exported = told.iter().find_map(|event| match &event.fact {
        Fact::RetentionPruned { pruned } => Some((pruned.exported.as_ref()?, &pruned.count)),
        _ => None,
    });
    let (file, count) = exported.expect("an event that tells of the export");
    assert_eq!(*count, stub.count);
    assert_eq!(file.path, format!("audit/main/events/small-{:020}.ndjson.zst", 1));
    let (path, size) = (file.path.parse().unwrap(), usize::try_from(file.size).unwrap());
    let bytes = vault.open(&path).await.unwrap().read_at(0, BytesMut::new(), size).await.unwrap();
    let digest = HashAlgorithm::Sha256.hash(&bytes);
    assert_eq!(file.sha256, digest.iter().map(|b| format!("{b:02x}")).collect::<String>());
    assert_eq!(stub.exported.as_ref(), Some(&file.sha256));
    // A second pass finds nothing to do.
    keeping.pass().await.unwrap();
    assert_eq!(keeping.removed().await, 29);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_somebody_else_deleted_is_found_behind_and_in_place_of_retention() {
    let retention = json!({"events": "30d", "archive": "forever"});
    let mut keeping = Keeping::new(2, retention).await;
    keeping.days(100).await;
    keeping.pass().await.unwrap();
    assert!(keeping.compare().await.is_intact());
    // One row more than the stub names.
    let first = "(SELECT MIN(sequence) FROM events WHERE kind = 'file.removed')";
    keeping.world.sql(format!("DELETE FROM events WHERE sequence = {first}")).await;
    let found = keeping.compare().await;
    assert_eq!(found.findings_total, 1, "{found}");
    assert!(found.findings[0].problem.contains("missing"), "{found}");
    // And a stub that was made to name it is not signed.
    let stub = "UPDATE retention_stubs SET up_to = up_to + 1, note = replace(note, \
                'records 1 to ' || up_to, 'records 1 to ' || (up_to + 1))";
    keeping.world.sql(stub.to_owned()).await;
    let found = keeping.compare().await;
    assert!(found.findings.iter().any(|it| it.problem.contains("not signed")), "{found}");
    assert!(found.findings_total > 50, "no row counts as deleted by retention: {found}");
}

#[tokio::test(start_paused = true)]
async fn a_changed_row_stays_as_evidence_and_what_is_in_use_stays_too() {
    let mut keeping = Keeping::new(3, json!({"events": "30d", "jobs": "1d"})).await;
    // A job that waits for its endpoint.
    keeping.world.put(&rule("r", vec![deliver("away", "{name}", Existing::Replace)])).await;
    keeping.world.put(&entrepot_testbed::memory_endpoint("away")).await;
    keeping.days(5).await;
    let event = keeping.world.upload("/in/a", &content(1, 3)).await;
    keeping.days(5).await;
    let job = keeping.world.job_of(&event, "r").await;
    keeping.world.die().await;
    let set = "UPDATE jobs SET state = 'ready', claim_at = 1";
    keeping.world.sql(set.to_owned()).await;
    keeping.world.env.advance(DAY * 60);
    keeping.worker.pass(&CancellationToken::new()).await.unwrap();
    assert_eq!(keeping.removed().await, 5, "those behind the event of the open job");
    assert!(keeping.world.db.job(SITE, job).await.unwrap().is_some());
    // The job ends: it goes, and so do the events.
    let set = "UPDATE jobs SET state = 'done', claim_at = NULL, changed_at = 1, created_at = 1";
    keeping.world.sql(set.to_owned()).await;
    let spoil = "UPDATE events SET body = replace(body, '/in/3', '/on/3') \
                 WHERE sequence = (SELECT MAX(sequence) FROM events WHERE path = '/in/3')";
    keeping.world.sql(spoil.to_owned()).await;
    let refused = keeping.worker.pass(&CancellationToken::new()).await;
    assert!(matches!(refused, Err(RetentionError::Changed { .. })), "{refused:?}");
    assert!(keeping.world.db.job(SITE, job).await.unwrap().is_none());
    assert_eq!(keeping.removed().await, 5);
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_was_cut_short_goes_on_and_nothing_goes_before_its_export() {
    let export = json!({"endpoint": "vault"});
    let mut keeping = Keeping::new(4, json!({"events": "30d", "export": export})).await;
    keeping.world.put(&entrepot_testbed::memory_endpoint("vault")).await;
    keeping.days(50).await;
    let refused = keeping.pass().await;
    assert!(matches!(refused, Err(RetentionError::Export { .. })), "{refused:?}");
    assert_eq!(keeping.removed().await, 50, "the endpoint was away");
    let vault = memory_store(&keeping.world.env);
    keeping.world.target("vault", vault.clone()).await;
    // The database refuses the deletion, but not the stub.
    keeping.world.database_refuses("DELETE ON events").await;
    assert!(keeping.pass().await.is_err());
    assert_eq!(keeping.removed().await, 50);
    assert!(keeping.compare().await.is_intact());
    keeping.world.database_is_back().await;
    keeping.pass().await.unwrap();
    assert_eq!(keeping.removed().await, 29);
    assert_eq!(files(&vault).await.len(), 1);
    let found = keeping.compare().await;
    assert!(found.is_intact(), "{found}");
    let node = keeping.world.recorder.node_id();
    let stubs = keeping.world.db.stubs_after(node, PrunedKind::Events, 0, 10).await.unwrap();
    assert!(stubs.iter().all(|stub| stub.pending.is_none()));
}

#[tokio::test(start_paused = true)]
async fn the_archive_goes_by_age_and_size_and_verification_begins_behind_it() {
    let mut keeping = Keeping::new(5, json!({"archive": "20d"})).await;
    keeping.days(100).await;
    let before = keeping.world.recorder.journal().archived().unwrap();
    keeping.pass().await.unwrap();
    let after = keeping.world.recorder.journal().archived().unwrap();
    assert!(after.len() < before.len() && after[0].first > 50, "{before:?} {after:?}");
    let found = keeping.compare().await;
    assert!(found.is_intact(), "{found}");
    assert_eq!(found.pruned_records, after[0].first - 1);
    assert_eq!(found.rows, keeping.world.all_events().await.len() as u64, "all rows are compared");
    // Rows of records that are gone are compared with their hashes.
    for change in [
        "UPDATE events SET body = replace(body, '/in/7\"', '/on/7\"') WHERE path = '/in/7'",
        "DELETE FROM events WHERE path = '/in/7'",
        "UPDATE retention_stubs SET numbers = replace(numbers, 'sites', 'places')",
        "UPDATE retention_stubs SET note = replace(note, 'records 1 to', 'records 2 to')",
        "DELETE FROM retention_stubs",
    ] {
        let tables = ["events", "retention_stubs"];
        for table in tables {
            keeping.world.sql(format!("CREATE TABLE kept_{table} AS SELECT * FROM {table}")).await;
        }
        keeping.world.sql(change.to_owned()).await;
        let found = keeping.compare().await;
        assert!(!found.is_intact(), "{change}");
        for table in tables {
            let back = format!(
                "DELETE FROM {table}; INSERT INTO {table} SELECT * FROM kept_{table}; \
                 DROP TABLE kept_{table}"
            );
            keeping.world.sql(back).await;
        }
    }
    assert!(keeping.compare().await.is_intact());
    // The hashes of the tree are lost: what follows still verifies, and what is lost is named.
    std::fs::write(keeping.folder.join("tree/0"), b"").unwrap();
    let found = keeping.compare().await;
    assert_eq!(found.findings_total, 1, "{found}");
}

#[tokio::test(start_paused = true)]
async fn a_segment_whose_rows_are_not_as_recorded_stays() {
    let mut keeping = Keeping::new(6, json!({"archive": "20d"})).await;
    keeping.days(100).await;
    keeping.world.sql("DELETE FROM events WHERE path = '/in/3'".to_owned()).await;
    let before = keeping.world.recorder.journal().archived().unwrap();
    let refused = keeping.pass().await;
    assert!(matches!(refused, Err(RetentionError::Proof(_))), "{refused:?}");
    assert_eq!(keeping.world.recorder.journal().archived().unwrap()[0], before[0]);
}

#[tokio::test(start_paused = true)]
async fn one_node_at_a_time_deletes_from_the_database() {
    let mut keeping = Keeping::new(7, json!({"events": "30d"})).await;
    keeping.days(40).await;
    let other = keeping.world.env.new_id();
    let db = keeping.world.db.clone();
    assert!(db.lease_retention(other, Duration::from_secs(3_600)).await.unwrap());
    keeping.pass().await.unwrap();
    assert_eq!(keeping.removed().await, 40);
    db.release_retention(other).await.unwrap();
    keeping.pass().await.unwrap();
    assert_eq!(keeping.removed().await, 29);
}
