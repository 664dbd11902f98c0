//! Deletes what is older than its site keeps it, in small batches beside everything else.
//!
//! Events and segments of the archive of a journal are evidence. Before the first of them goes,
//! these are durable, in this order: the file that they are exported to, if the site wants that; a
//! stub signed by this node, by which the rest still verifies; the event `retention.pruned`. A
//! process that ends in between goes on where it was: the stub names what is to be deleted. Each
//! node deletes from its own archive; from the database one node at a time, by a lease.

pub(crate) mod error;
mod export;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use entrepot_crypto::merkle::{Frontier, leaf_hash};
use entrepot_db::{Db, EventRange, OldEvent, PrunedKind, StoredStub};
use entrepot_journal::{ArchivedSegment, Recorder, Scope};
use entrepot_nouns::event::{ExportedFile, PrunedFact};
use entrepot_nouns::noun::Stored;
use entrepot_nouns::retention::RetentionExport;
use entrepot_nouns::{
    Endpoint, Event, EventId, Fact, Name, NodeId, Retention, Site, SiteId, Timestamp,
};
use entrepot_proof::{EventsStub, Heads};
use entrepot_storage::AnyStore;
use entrepot_vfs::{PurgedBatch, Service};
use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;

use crate::limits::{
    RETENTION_CHUNK, RETENTION_FIRST, RETENTION_INTERVAL, RETENTION_LEASE, RETENTION_OPEN_JOBS,
    RETENTION_OPEN_TRANSFER, RETENTION_PAUSE, RETENTION_ROWS, RETENTION_WINDOW, THIN_HEADS_AFTER,
};
use crate::meters::Meters;
use error::{Result, RetentionError};
use export::Export;

/// What retention works with.
pub struct RetentionParts {
    /// Events, transfers, jobs, stubs.
    pub db: Db,
    /// The journal of this node, and the clock.
    pub recorder: Recorder,
    /// Signs, and knows the hashes of the records.
    pub heads: Heads,
    /// Opens the endpoints that events are exported to.
    pub vfs: Service,
    /// Counters of the engine of this node.
    pub meters: Arc<Meters>,
}

/// Opens the stores of endpoints, and empties their trash: a narrow seam over `vfs`.
#[async_trait]
pub(crate) trait Stores: Send + Sync {
    /// The store of an endpoint.
    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore>;

    /// Deletes for good a batch of what lies in the trash longer than its mount keeps it.
    async fn purge_trash(&self, after: Option<EventId>) -> Result<PurgedBatch>;
}

#[async_trait]
impl Stores for Service {
    async fn store(&self, endpoint: &Stored<Endpoint>) -> Result<AnyStore> {
        Service::store(self, endpoint).await.map_err(|error| {
            let endpoint = endpoint.noun.name.clone();
            RetentionError::Export { endpoint, problem: error.to_string() }
        })
    }

    async fn purge_trash(&self, after: Option<EventId>) -> Result<PurgedBatch> {
        let purged = Service::purge_trash(self, after).await;
        purged.map_err(|error| RetentionError::Trash(error.to_string()))
    }
}

/// Deletes what is old.
pub struct RetentionWorker {
    db: Db,
    recorder: Recorder,
    heads: Heads,
    stores: Box<dyn Stores>,
    meters: Arc<Meters>,
    /// Up to which record nothing of a site is left in the journal of a node.
    passed: Mutex<HashMap<(SiteId, NodeId), u64>>,
    /// When the lease was last renewed, by the clock that only goes forward.
    leased_at: Mutex<Duration>,
}

/// A node whose events may be old.
#[derive(Clone)]
struct Log {
    id: NodeId,
    name: Name,
    /// Nothing behind this record is looked at.
    up_to: u64,
}

/// A site, and what it keeps.
struct Keeper {
    site: SiteId,
    name: Name,
    retention: Retention,
}

/// Events that are deleted together.
struct Chunk {
    after: u64,
    up_to: u64,
    count: u64,
    tree: Frontier,
    export: Option<Export>,
}

impl RetentionWorker {
    /// Over the parts of a node. Nothing is deleted before [`RetentionWorker::run`].
    pub fn new(parts: RetentionParts) -> Self {
        let RetentionParts { db, recorder, heads, vfs, meters } = parts;
        let worker = RetentionWorker::with_stores(db, recorder, heads, Box::new(vfs));
        RetentionWorker { meters, ..worker }
    }

    /// With stores of any kind: the seam for tests.
    pub(crate) fn with_stores(
        db: Db,
        recorder: Recorder,
        heads: Heads,
        stores: Box<dyn Stores>,
    ) -> Self {
        let (meters, passed, leased_at) = (Arc::default(), Mutex::default(), Mutex::default());
        RetentionWorker { db, recorder, heads, stores, meters, passed, leased_at }
    }

    /// Deletes what is old, now and then, until `cancel`.
    pub async fn run(self, cancel: CancellationToken) {
        let mut wait = RETENTION_FIRST;
        loop {
            tokio::select! {
                biased;
                () = cancel.cancelled() => return,
                () = tokio::time::sleep(wait) => {}
            }
            wait = RETENTION_INTERVAL;
            match self.pass(&cancel).await {
                Ok(()) | Err(RetentionError::Stopped) => {}
                Err(error) => {
                    Meters::add(&self.meters.retention_failures, 1);
                    tracing::warn!(code = error.code(), "what is old is not deleted now: {error}");
                }
            }
        }
    }

    /// Deletes everything that is old at this moment.
    ///
    /// # Errors
    /// What kept it from doing so; it goes on from there the next time.
    pub(crate) async fn pass(&self, cancel: &CancellationToken) -> Result<()> {
        let keepers = self.keepers().await?;
        let node = self.recorder.node_id();
        let mut first_error = None;
        if let Some(main) = keepers.iter().find(|keeper| keeper.site == SiteId::MAIN) {
            first_error = self.archive(&main.retention, cancel).await.err();
        }
        self.thin_heads(cancel).await?;
        if self.lease().await? {
            let result = self.database(&keepers, cancel).await;
            // Whether it worked or not: another node may go on.
            self.db.release_retention(node).await?;
            first_error = first_error.or(result.err());
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn keepers(&self) -> Result<Vec<Keeper>> {
        let sites = self.db.sites().await?;
        let keeper = |stored: Stored<Site>| {
            let (site, Site { name, retention, .. }) = (SiteId(stored.id), stored.noun);
            Keeper { site, name, retention: retention.unwrap_or_default() }
        };
        Ok(sites.into_iter().map(keeper).collect())
    }

    /// What one node does for all.
    async fn database(&self, keepers: &[Keeper], cancel: &CancellationToken) -> Result<()> {
        let nodes = self.db.nodes().await?;
        let logs: Vec<Log> = nodes
            .into_iter()
            .map(|node| Log { id: node.id, name: node.name, up_to: node.projected_up_to })
            .collect();
        for stub in self.db.pending_stubs(PrunedKind::Events, RETENTION_ROWS).await? {
            let log = logs.iter().find(|log| log.id == stub.node);
            let Some(log) = log else { continue };
            self.delete_events(&stub, log, cancel).await?;
        }
        let now = self.recorder.env().now();
        for keeper in keepers {
            self.jobs(keeper, now, cancel).await?;
            self.transfers(keeper, now, cancel).await?;
            for log in &logs {
                self.events(keeper, log, cancel).await?;
            }
        }
        self.trash(cancel).await?;
        Ok(self.db.forget_event_times().await?)
    }

    /// Each thing has its own event, `file.purged`.
    async fn trash(&self, cancel: &CancellationToken) -> Result<()> {
        let mut after = None;
        loop {
            let batch = self.stores.purge_trash(after).await?;
            Meters::add(&self.meters.purged_trash, batch.purged);
            let Some(next) = batch.next else { return Ok(()) };
            after = Some(next);
            self.pause(cancel).await?;
        }
    }

    async fn jobs(
        &self,
        keeper: &Keeper,
        now: Timestamp,
        cancel: &CancellationToken,
    ) -> Result<()> {
        let Some(before) = keeper.retention.jobs().cutoff(now) else { return Ok(()) };
        let count = self.db.old_jobs(keeper.site, before).await?;
        if count > 0 {
            self.record_rows(keeper.site, "jobs", count, before).await?;
            while self.some_jobs(keeper, before).await? {
                self.pause(cancel).await?;
            }
        }
        self.db.forget_rule_versions(keeper.site, before).await?;
        Ok(())
    }

    /// True if there may be more.
    async fn some_jobs(&self, keeper: &Keeper, before: Timestamp) -> Result<bool> {
        let deleted = self.db.delete_jobs(keeper.site, before, RETENTION_ROWS).await?;
        Meters::add(&self.meters.deleted_jobs, deleted);
        Ok(deleted >= u64::from(RETENTION_ROWS))
    }

    async fn transfers(
        &self,
        keeper: &Keeper,
        now: Timestamp,
        cancel: &CancellationToken,
    ) -> Result<()> {
        let Some(before) = keeper.retention.transfers().cutoff(now) else { return Ok(()) };
        let (site, open) = (keeper.site, now.minus(RETENTION_OPEN_TRANSFER));
        let count = self.db.old_transfers(site, before, open).await?;
        if count == 0 {
            return Ok(());
        }
        self.record_rows(site, "transfers", count, before).await?;
        loop {
            let deleted = self.db.delete_transfers(site, before, open, RETENTION_ROWS).await?;
            Meters::add(&self.meters.deleted_transfers, deleted);
            if deleted < u64::from(RETENTION_ROWS) {
                return Ok(());
            }
            self.pause(cancel).await?;
        }
    }

    /// What is derived from events leaves no stub.
    async fn record_rows(
        &self,
        site: SiteId,
        what: &str,
        count: u64,
        older_than: Timestamp,
    ) -> Result<()> {
        let pruned = PrunedFact {
            what: what.to_owned(),
            of: None,
            first: None,
            last: None,
            count,
            older_than,
            exported: None,
            stub: None,
        };
        let fact = Fact::RetentionPruned { pruned };
        self.recorder.record_durable(&Scope::site(site), fact).await?;
        Ok(())
    }

    /// Events of a site from the journal of a node: the oldest ones, up to the first that must
    /// stay.
    async fn events(&self, keeper: &Keeper, log: &Log, cancel: &CancellationToken) -> Result<()> {
        let now = self.recorder.env().now();
        let Some(cutoff) = keeper.retention.events().cutoff(now) else { return Ok(()) };
        let open = self.db.events_of_open_jobs(keeper.site, RETENTION_OPEN_JOBS).await?;
        if open.len() >= RETENTION_OPEN_JOBS as usize {
            tracing::info!(site = %keeper.name, "no event is deleted while so many jobs wait");
            return Ok(());
        }
        let open: HashSet<EventId> = open.into_iter().collect();
        let pruned = self.db.pruned_up_to(log.id, PrunedKind::Events, keeper.site).await?;
        let passed = self.passed.lock().get(&(keeper.site, log.id)).copied().unwrap_or(0);
        let mut after = pruned.max(passed);
        let mut chunk: Option<Chunk> = None;
        let mut ended = false;
        while !ended && after < log.up_to {
            let up_to = log.up_to.min(after + RETENTION_WINDOW);
            let range = EventRange { site: keeper.site, node: &log.name, after, up_to };
            let found = self.db.old_events(range, now.minus(RETENTION_OPEN_TRANSFER)).await?;
            let stays = |event: &OldEvent| {
                event.at >= cutoff || event.transfer_open || open.contains(&event.id)
            };
            let all = found.len();
            let old: Vec<OldEvent> = found.into_iter().take_while(|event| !stays(event)).collect();
            ended = old.len() < all;
            self.untouched(log, &old).await?;
            if !old.is_empty() {
                let taken = match chunk.take() {
                    Some(chunk) => chunk,
                    None => self.begin(keeper, log, after).await?,
                };
                chunk = Some(taken.with(old).await?);
            } else if chunk.is_none() && !ended {
                self.passed.lock().insert((keeper.site, log.id), up_to);
            }
            after = up_to;
            if chunk.as_ref().is_some_and(|chunk| chunk.count >= RETENTION_CHUNK)
                && let Some(full) = chunk.take()
            {
                self.delete(keeper, log, full, cutoff, cancel).await?;
            }
            self.pause(cancel).await?;
        }
        match chunk {
            Some(rest) => self.delete(keeper, log, rest, cutoff, cancel).await,
            None => Ok(()),
        }
    }

    /// Rows of this node are those whose hashes it signed: one that was changed is evidence, and
    /// stays.
    async fn untouched(&self, log: &Log, events: &[OldEvent]) -> Result<()> {
        if log.id != self.recorder.node_id() {
            return Ok(());
        }
        let (Some(first), Some(last)) = (events.first(), events.last()) else { return Ok(()) };
        let after = first.node_sequence - 1;
        let hashes = self.heads.record_hashes(after, last.node_sequence).await?;
        for event in events {
            let at = usize::try_from(event.node_sequence - first.node_sequence).unwrap_or(0);
            // What the tree does not have yet is younger than anything that is deleted.
            let same = hashes.get(at).is_some_and(|hash| *hash == leaf_hash(event.body.as_bytes()));
            if !same {
                return Err(RetentionError::Changed { record: event.node_sequence });
            }
        }
        Ok(())
    }

    async fn begin(&self, keeper: &Keeper, log: &Log, after: u64) -> Result<Chunk> {
        let export = match &keeper.retention.export {
            Some(wanted) => Some(self.begin_export(keeper, log, after, wanted).await?),
            None => None,
        };
        Ok(Chunk { after, up_to: after, count: 0, tree: Frontier::default(), export })
    }

    async fn begin_export(
        &self,
        keeper: &Keeper,
        log: &Log,
        after: u64,
        wanted: &RetentionExport,
    ) -> Result<Export> {
        let endpoint = self.db.find::<Endpoint>(SiteId::MAIN, &wanted.endpoint).await?;
        let endpoint = endpoint.ok_or_else(|| {
            let problem = "there is no such endpoint in the site 'main'".to_owned();
            RetentionError::Export { endpoint: wanted.endpoint.clone(), problem }
        })?;
        let store = self.stores.store(&endpoint).await?;
        let name = format!("{}-{:020}.ndjson.zst", log.name, after + 1);
        let folders = wanted.folder.split('/').filter(|part| !part.is_empty());
        let path = folders.chain([keeper.name.as_str(), "events", name.as_str()]);
        let path = path.collect::<Vec<_>>().join("/");
        let id = self.recorder.env().new_id();
        Export::begin(store, wanted.endpoint.clone(), &path, id).await
    }

    /// Makes export, stub and event durable, and deletes.
    async fn delete(
        &self,
        keeper: &Keeper,
        log: &Log,
        chunk: Chunk,
        older_than: Timestamp,
        cancel: &CancellationToken,
    ) -> Result<()> {
        let exported = match chunk.export {
            Some(export) => Some(export.publish().await?),
            None => None,
        };
        let at = self.recorder.env().now();
        let stub = EventsStub {
            of: entrepot_proof::origin(&log.name, log.id),
            site: keeper.site,
            after: chunk.after,
            up_to: chunk.up_to,
            count: chunk.count,
            root: chunk.tree.root(),
            older_than,
            exported: exported.as_ref().map(|file| file.sha256.clone()),
            at,
        };
        let mut stored = StoredStub {
            node: log.id,
            kind: PrunedKind::Events,
            site: keeper.site,
            after: chunk.after,
            up_to: chunk.up_to,
            at,
            note: self.heads.sign(&stub.text()),
            numbers: None,
            pending: None,
        };
        let deletion = Deletion { of: &log.name, older_than, count: chunk.count, exported };
        stored.pending = Some(deletion.event(&self.recorder, &stored));
        self.db.insert_stub(&stored).await?;
        self.delete_events(&stored, log, cancel).await
    }

    /// Deletes what a stub names; its event is recorded first, again if it was recorded before.
    async fn delete_events(
        &self,
        stub: &StoredStub,
        log: &Log,
        cancel: &CancellationToken,
    ) -> Result<()> {
        if let Some(event) = &stub.pending {
            self.recorder.seal(event).await?;
        }
        let (site, node) = (stub.site, &log.name);
        let range = EventRange { site, node, after: stub.after, up_to: stub.up_to };
        loop {
            let deleted = self.db.delete_events(range, RETENTION_ROWS).await?;
            Meters::add(&self.meters.deleted_events, deleted);
            if deleted < u64::from(RETENTION_ROWS) {
                break;
            }
            self.pause(cancel).await?;
        }
        Ok(self.db.end_stub(stub).await?)
    }

    /// Lets others write, and keeps the lease.
    async fn pause(&self, cancel: &CancellationToken) -> Result<()> {
        tokio::select! {
            biased;
            () = cancel.cancelled() => return Err(RetentionError::Stopped),
            () = tokio::time::sleep(RETENTION_PAUSE) => {}
        }
        let now = self.recorder.env().elapsed();
        let is_fresh = now.saturating_sub(*self.leased_at.lock()) < RETENTION_LEASE / 3;
        if is_fresh || self.lease().await? { Ok(()) } else { Err(RetentionError::Stopped) }
    }

    /// Makes this node the one that deletes from the database, or keeps it so.
    async fn lease(&self) -> Result<bool> {
        let now = self.recorder.env().elapsed();
        let is_ours = self.db.lease_retention(self.recorder.node_id(), RETENTION_LEASE).await?;
        *self.leased_at.lock() = now;
        Ok(is_ours)
    }

    /// Segments of the archive of this node, the oldest first.
    async fn archive(&self, kept: &Retention, cancel: &CancellationToken) -> Result<()> {
        for stub in self.db.pending_stubs(PrunedKind::Archive, RETENTION_ROWS).await? {
            if stub.node == self.recorder.node_id() {
                self.delete_segment(&stub).await?;
            }
        }
        let now = self.recorder.env().now();
        let cutoff = kept.archive().cutoff(now);
        let most = kept.archive_mib.map(|mib| mib.saturating_mul(1 << 20));
        // The journal would not let younger ones go.
        let least = now.minus(entrepot_journal::limits::ARCHIVE_KEEP_LEAST);
        loop {
            let journal = self.recorder.journal().clone();
            let archived = tokio::task::spawn_blocking(move || journal.archived()).await;
            let archived = archived.map_err(|_| RetentionError::Stopped)??;
            let bytes: u64 = archived.iter().map(|segment| segment.bytes).sum();
            let is_due = |segment: &&ArchivedSegment| {
                let is_old = cutoff.is_some_and(|cutoff| segment.newest < cutoff);
                let is_much = most.is_some_and(|most| bytes > most);
                (is_old || is_much) && segment.newest < least
            };
            let Some(segment) = archived.first().filter(is_due) else { return Ok(()) };
            let Some(mut stub) = self.heads.archive_stub(segment).await? else { return Ok(()) };
            let (older_than, count) = (segment.newest, stub.up_to - stub.after);
            let of = self.recorder.node();
            let deletion = Deletion { of, older_than, count, exported: None };
            stub.pending = Some(deletion.event(&self.recorder, &stub));
            self.db.insert_stub(&stub).await?;
            self.delete_segment(&stub).await?;
            if cancel.is_cancelled() {
                return Err(RetentionError::Stopped);
            }
        }
    }

    async fn delete_segment(&self, stub: &StoredStub) -> Result<()> {
        if let Some(event) = &stub.pending {
            self.recorder.seal(event).await?;
        }
        let (journal, up_to) = (self.recorder.journal().clone(), stub.up_to);
        let pruned = tokio::task::spawn_blocking(move || journal.prune_archive(up_to)).await;
        if pruned.map_err(|_| RetentionError::Stopped)?? > 0 {
            Meters::add(&self.meters.deleted_records, stub.up_to - stub.after);
        }
        Ok(self.db.end_stub(stub).await?)
    }

    /// Of heads that are not young any more the last of each hour stays: it covers the others.
    async fn thin_heads(&self, cancel: &CancellationToken) -> Result<()> {
        let before = self.recorder.env().now().minus(THIN_HEADS_AFTER);
        loop {
            let node = self.recorder.node_id();
            let thinned = self.db.thin_heads(node, 0, before, RETENTION_ROWS).await?;
            if thinned < u64::from(RETENTION_ROWS) {
                return Ok(());
            }
            tokio::select! {
                biased;
                () = cancel.cancelled() => return Err(RetentionError::Stopped),
                () = tokio::time::sleep(RETENTION_PAUSE) => {}
            }
        }
    }
}

impl Chunk {
    /// Takes events, in their order.
    async fn with(mut self, events: Vec<OldEvent>) -> Result<Chunk> {
        for event in &events {
            self.tree.push(leaf_hash(event.body.as_bytes()));
            self.up_to = event.node_sequence;
            self.count += 1;
        }
        if let Some(export) = self.export.take() {
            let lines = events.into_iter().map(|event| event.body).collect();
            self.export = Some(export.write(lines).await?);
        }
        Ok(self)
    }
}

/// What the event of a stub tells beside it.
struct Deletion<'a> {
    of: &'a Name,
    older_than: Timestamp,
    count: u64,
    exported: Option<ExportedFile>,
}

impl Deletion<'_> {
    fn event(self, recorder: &Recorder, stub: &StoredStub) -> Event {
        let pruned = PrunedFact {
            what: stub.kind.as_str().to_owned(),
            of: Some(self.of.clone()),
            first: Some(stub.after + 1),
            last: Some(stub.up_to),
            count: self.count,
            older_than: self.older_than,
            exported: self.exported,
            stub: Some(stub.note.clone()),
        };
        recorder.event(&Scope::site(stub.site), Fact::RetentionPruned { pruned })
    }
}
