//! Compares a node's journal with its signed heads and with its events in the database, so that a
//! cut tail, a changed, missing or added record or row is named.
//!
//! The journal's own chain is verified on the way. Records are compared by hash, rows by the hash
//! of their body and by the columns that repeat what is in it.

use std::collections::VecDeque;
use std::path::PathBuf;

use entrepot_crypto::merkle::{Frontier, Hash, Subtrees, leaf_hash};
use entrepot_crypto::{Checkpoint, NoteVerifier};
use entrepot_db::{Db, ProjectedEvent, PrunedKind, StoredHead, StoredStub};
use entrepot_journal::{FsMedium, RecordKind, Report, Visited};
use entrepot_nouns::{Event, Name, NodeId};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::archive::Identified;
use crate::error::{ProofError, Result};
use crate::heads::origin;
use crate::limits::{COMPARED_BATCHES, COMPARED_ROWS, FINDINGS, GAP, STUB_RELOADS};
use crate::sinks::SentHead;
use crate::stub::{ArchiveStub, EventNumbers, PrunedRows, all_stubs};
use crate::tree::TreeFiles;

/// What is compared.
pub struct Compared {
    /// Has the heads and the events.
    pub db: Db,
    /// Whose journal it is.
    pub node: Name,
    /// The same by its id.
    pub id: NodeId,
    /// The folder of the journal; a node may have it open meanwhile.
    pub folder: PathBuf,
    /// The keys that this node signed its heads with.
    pub keys: Vec<NoteVerifier>,
    /// The keys of all nodes of the database: any of them deletes what is old, and signs that.
    pub signers: Vec<NoteVerifier>,
    /// Heads that were kept elsewhere, in the order of the records they cover.
    pub outside: Vec<SentHead>,
}

/// Something that is not as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The record, or the last that a head covers.
    pub record: u64,
    /// What is wrong.
    pub problem: String,
}

/// What a comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Comparison {
    /// The chain of the journal by itself.
    pub journal: Report,
    /// Signed heads that were compared.
    pub heads: u64,
    /// Rows of the table of events that were compared.
    pub rows: u64,
    /// Events whose rows retention deleted, as signed stubs say.
    pub pruned_rows: u64,
    /// The last record that retention removed from the archive; 0 if it removed none.
    pub pruned_records: u64,
    /// The last record that a signed head covers; what lies behind it is proven by the chain and
    /// the table alone.
    pub covered: u64,
    /// What is wrong with heads and rows, at most [`FINDINGS`].
    pub findings: Vec<Finding>,
    /// How many of these findings there are in all.
    pub findings_total: u64,
}

impl Comparison {
    /// True if nothing is wrong.
    pub fn is_intact(&self) -> bool {
        self.findings_total == 0 && self.journal.is_intact()
    }

    fn find(&mut self, record: u64, problem: impl Into<String>) {
        self.findings_total += 1;
        if self.findings.len() < FINDINGS {
            self.findings.push(Finding { record, problem: problem.into() });
        }
    }
}

impl std::fmt::Display for Comparison {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Finding { record, problem } in &self.findings {
            writeln!(f, "record {record}: {problem}")?;
        }
        let hidden = self.findings_total - self.findings.len() as u64;
        if hidden > 0 {
            writeln!(f, "and {hidden} more")?;
        }
        write!(f, "{}\n{} signed heads up to record {}", self.journal, self.heads, self.covered)?;
        write!(f, ", {} rows of the table of events", self.rows)?;
        if self.pruned_rows > 0 {
            write!(f, ", {} more deleted by retention", self.pruned_rows)?;
        }
        if self.pruned_records > 0 {
            write!(f, ", the records up to {} by their hashes", self.pruned_records)?;
        }
        match self.findings_total {
            0 => f.write_str(": they agree"),
            1 => f.write_str(": 1 finding"),
            count => write!(f, ": {count} findings"),
        }
    }
}

/// A record, as much of it as is compared.
struct ReadRecord {
    sequence: u64,
    leaf: Hash,
    /// Of an event: its id and its site.
    event: Option<Identified>,
    /// Of the journal's own mark that numbers were skipped: the last one before them.
    skipped_after: Option<u64>,
}

/// Compares everything there is of one node.
///
/// # Errors
/// Those of the database, and of the journal if it cannot be read at all.
pub async fn compare(compared: Compared) -> Result<Comparison> {
    // Rows are only expected up to here: a running node is still projecting what comes later.
    let projected = compared.db.projected_up_to(compared.id).await?;
    let (sender, mut batches) = mpsc::channel(COMPARED_BATCHES);
    let folder = compared.folder.clone();
    let walk = tokio::task::spawn_blocking(move || read_journal(&folder, &sender));
    let mut state = ComparisonState::new(compared, projected).await?;
    while let Some(batch) = batches.recv().await {
        for seen in batch {
            state.record(&seen).await?;
        }
    }
    let report = walk.await.map_err(|_| {
        let ended = std::io::Error::other("the thread that read the journal has ended");
        ProofError::tree("journal", &ended)
    })??;
    state.end(report).await
}

/// Reads the journal, whose chain is verified on the way, and sends what is in it.
fn read_journal(folder: &std::path::Path, to: &mpsc::Sender<Vec<ReadRecord>>) -> Result<Report> {
    let mut batch = Vec::with_capacity(COMPARED_ROWS as usize);
    let mut visit = |visited: Visited<'_>| {
        let leaf = match visited.kind {
            Some(_) => leaf_hash(visited.payload),
            None => leaf_hash(&[]),
        };
        let event = match visited.kind {
            Some(RecordKind::Event) => serde_json::from_slice::<Identified>(visited.payload).ok(),
            _ => None,
        };
        let skipped_after = match visited.kind {
            Some(_) => None,
            None => entrepot_journal::skipped_after(visited.payload),
        };
        batch.push(ReadRecord { sequence: visited.sequence, leaf, event, skipped_after });
        if batch.len() >= COMPARED_ROWS as usize {
            // Without a receiver the comparison has ended with an error of its own.
            let _ = to.blocking_send(std::mem::take(&mut batch));
        }
    };
    let report = entrepot_journal::verify_on(&FsMedium::existing(folder), &mut visit)?;
    let _ = to.blocking_send(batch);
    Ok(report)
}

/// The tree that a stub of the archive has: of its complete subtrees the largest ones.
struct StubTree<'a>(&'a ArchiveStub);

impl Subtrees for StubTree<'_> {
    type Error = ProofError;

    fn root_of(&self, level: u32, _index: u64) -> Result<Hash> {
        // The bits of the number of records above this one stand for the subtrees before it.
        let before = self.0.up_to.checked_shr(level + 1).unwrap_or(0).count_ones();
        let root = self.0.tree.get(before as usize);
        root.copied().ok_or_else(|| ProofError::Stub("its tree is too short".to_owned()))
    }
}

/// A comparison that is under way.
struct ComparisonState {
    compared: Compared,
    projected: u64,
    result: Comparison,
    /// The tree of what was read so far; `None` once it is known that it cannot be right.
    tree: Option<Frontier>,
    /// The last record that was read.
    last: u64,
    pruned: PrunedRows,
    /// How often the stubs were read again.
    reloads: u32,
    /// Heads that were kept elsewhere.
    outside: VecDeque<StoredHead>,
    heads: PagedRows<StoredHead>,
    rows: PagedRows<ProjectedEvent>,
}

/// Items that come from the database page by page.
struct PagedRows<T> {
    items: VecDeque<T>,
    /// The last number that was asked for or read.
    after: u64,
    ended: bool,
}

impl<T> PagedRows<T> {
    fn new() -> Self {
        PagedRows { items: VecDeque::new(), after: 0, ended: false }
    }

    fn fill(&mut self, page: Vec<T>, number: impl Fn(&T) -> u64) {
        self.ended = page.is_empty();
        self.after = page.last().map_or(self.after, number);
        self.items = page.into();
    }
}

impl ComparisonState {
    async fn new(mut compared: Compared, projected: u64) -> Result<Self> {
        let outside = std::mem::take(&mut compared.outside).into_iter();
        let outside = outside.map(|head| {
            let SentHead { size, at, note } = head;
            StoredHead { size, at, note }
        });
        let outside = outside.collect();
        let (heads, rows) = (PagedRows::new(), PagedRows::new());
        let (mut result, tree) = (Comparison::default(), Some(Frontier::default()));
        let Compared { db, node, id, signers, .. } = &compared;
        let (pruned, bad) = PrunedRows::load(db, node, *id, signers).await?;
        for stub in bad {
            result.find(stub.up_to, stub.problem);
        }
        let last = 0;
        Ok(ComparisonState {
            compared,
            projected,
            result,
            tree,
            last,
            pruned,
            reloads: 0,
            outside,
            heads,
            rows,
        })
    }

    /// Compares one record.
    async fn record(&mut self, seen: &ReadRecord) -> Result<()> {
        if seen.sequence <= self.last {
            // Behind damage, which the verification of the chain has found.
            return Ok(());
        }
        let before = seen.skipped_after.unwrap_or(seen.sequence - 1);
        if self.last == 0 && before > 0 {
            self.begin_behind_pruned(before).await?;
        }
        self.grow(seen).await?;
        self.last = seen.sequence;
        while let Some(row) = self.next_row(seen.sequence).await? {
            if row.node_sequence < seen.sequence {
                self.surplus(&row);
            } else {
                self.compare_row(seen.sequence, &seen.leaf, &row);
                return Ok(());
            }
        }
        let Some(event) = seen.event.as_ref().filter(|_| seen.sequence <= self.projected) else {
            return Ok(());
        };
        if self.is_pruned(seen.sequence, event).await? {
            self.result.pruned_rows += 1;
        } else if !self.is_repeated(seen, event).await? {
            let problem = format!("the row of its event, {}, is missing in the table", event.id);
            self.result.find(seen.sequence, problem);
        }
        Ok(())
    }

    /// True if retention deleted the row of an event; also if it did so since this began.
    async fn is_pruned(&mut self, record: u64, event: &Identified) -> Result<bool> {
        if self.pruned.covers(record, event.site, event.id) {
            return Ok(true);
        }
        let Compared { db, node, id, signers, .. } = &self.compared;
        let is_new = db.pruned_up_to(*id, PrunedKind::Events, event.site).await? >= record;
        if !is_new || self.reloads >= STUB_RELOADS {
            return Ok(false);
        }
        self.reloads += 1;
        (self.pruned, _) = PrunedRows::load(db, node, *id, signers).await?;
        Ok(self.pruned.covers(record, event.site, event.id))
    }

    /// True if the event stands in an earlier record too, whose row it shares: that row was
    /// compared with the earlier record. After a crash the event of a change of the configuration
    /// is recorded again if the database does not know yet that it was, and a delivery is looked
    /// at and told again, by an event of the same id.
    async fn is_repeated(&self, seen: &ReadRecord, event: &Identified) -> Result<bool> {
        let place = self.compared.db.place_of_event(event.id).await?;
        let place = place.filter(|place| place.node == self.compared.node);
        let first = place.and_then(|place| place.node_sequence);
        Ok(first.is_some_and(|first| first < seen.sequence))
    }

    /// The first records up to this one are gone from the archive. Signed stubs must say so: they
    /// have what the tree grows from, and the hashes in the files of the tree, which then must have
    /// the same root, verify the rows and heads of these records.
    async fn begin_behind_pruned(&mut self, up_to: u64) -> Result<()> {
        self.last = up_to;
        let stored = all_stubs(&self.compared.db, self.compared.id, PrunedKind::Archive).await?;
        let mut stubs: Vec<(ArchiveStub, EventNumbers)> = Vec::new();
        for stub in stored.into_iter().filter(|stub| stub.up_to <= up_to) {
            match self.archive_stub(&stub, stubs.last().map_or(0, |(stub, _)| stub.up_to)) {
                Ok(opened) => stubs.push(opened),
                Err(error) => self.result.find(stub.up_to, error.to_string()),
            }
        }
        let last = stubs.last().map(|(stub, _)| stub.clone());
        let Some(last) = last.filter(|last| last.up_to == up_to) else {
            let problem = "the records up to this one are gone, and no signed stub says that \
                           retention removed them";
            self.result.find(up_to, problem);
            self.tree = None;
            self.rows.after = up_to;
            self.heads.after = up_to.saturating_sub(1);
            self.outside.retain(|head| head.size >= up_to);
            return Ok(());
        };
        self.result.pruned_records = up_to;
        let frontier = Frontier::of(&StubTree(&last), up_to)?;
        let root = frontier.root();
        self.tree = Some(frontier);
        let folder = self.compared.folder.clone();
        let opened = tokio::task::spawn_blocking(move || {
            let tree = TreeFiles::open(&FsMedium::existing(&folder))?;
            Ok::<_, ProofError>((tree.root(up_to)? == root).then_some(tree))
        });
        let Ok(Ok(Some(files))) = opened.await else {
            let problem = "the hashes of the records up to this one, which were pruned, are \
                           missing or were changed";
            self.result.find(up_to, problem);
            self.rows.after = up_to;
            self.heads.after = up_to.saturating_sub(1);
            self.outside.retain(|head| head.size >= up_to);
            return Ok(());
        };
        for (stub, numbers) in &stubs {
            self.compare_pruned(stub, numbers, &files).await?;
        }
        Ok(())
    }

    /// The stub of a part of the archive that follows the record `after`.
    fn archive_stub(&self, stored: &StoredStub, after: u64) -> Result<(ArchiveStub, EventNumbers)> {
        let stub = ArchiveStub::open(&stored.note, &self.compared.signers)?;
        if stub.of != origin(&self.compared.node, self.compared.id) {
            return Err(ProofError::Stub("it is of another log".to_owned()));
        }
        if stub.after != after {
            let problem = format!("it does not follow the record {after}");
            return Err(ProofError::Stub(problem));
        }
        let numbers = EventNumbers::decode(&stub, stored.numbers.as_deref().unwrap_or_default())?;
        Ok((stub, numbers))
    }

    /// Compares the rows and heads of records that are gone with the hashes of the records.
    async fn compare_pruned(
        &mut self,
        stub: &ArchiveStub,
        numbers: &EventNumbers,
        files: &TreeFiles,
    ) -> Result<()> {
        let mut after = stub.after;
        while after < stub.up_to {
            let end = stub.up_to.min(after + u64::from(COMPARED_ROWS));
            for (sequence, leaf) in (after + 1..=end).zip(files.leaves(after, end)?) {
                while let Some(head) = self.next_head(sequence).await? {
                    let root = files.root(head.size)?;
                    self.compare_head(&head, Some(root));
                }
                while let Some(head) = self.outside.pop_front_if(|head| head.size <= sequence) {
                    let root = files.root(head.size)?;
                    self.compare_head(&head, Some(root));
                }
                let site = numbers.site_at(sequence - stub.after - 1);
                let mut found = false;
                while let Some(row) = self.next_row(sequence).await? {
                    if row.node_sequence < sequence || site.is_none() {
                        self.surplus(&row);
                    } else {
                        self.compare_row(sequence, &leaf, &row);
                        found = true;
                        break;
                    }
                }
                match site {
                    Some(site) if !found && self.pruned.has(sequence, site) => {
                        self.result.pruned_rows += 1;
                    }
                    Some(_) if !found => {
                        self.result.find(sequence, "the row of its event is missing in the table");
                    }
                    _ => {}
                }
            }
            after = end;
        }
        Ok(())
    }

    /// Takes the record into the tree, and compares the tree with the heads that end with it or
    /// with a number that was skipped before it.
    async fn grow(&mut self, seen: &ReadRecord) -> Result<()> {
        if seen.sequence - self.last > GAP {
            self.tree = None;
        }
        let nothing = leaf_hash(&[]);
        for sequence in self.last + 1..=seen.sequence {
            let Some(tree) = &mut self.tree else { return Ok(()) };
            tree.push(if sequence == seen.sequence { seen.leaf } else { nothing });
            while let Some(head) = self.next_head(sequence).await? {
                let root = self.tree.as_ref().map(Frontier::root);
                self.compare_head(&head, root);
            }
            while let Some(head) = self.outside.pop_front_if(|head| head.size <= sequence) {
                let root = self.tree.as_ref().map(Frontier::root);
                self.compare_head(&head, root);
            }
        }
        Ok(())
    }

    /// Compares a head with the root of the tree of so many records, if that is known.
    fn compare_head(&mut self, head: &StoredHead, root: Option<Hash>) {
        self.result.heads += 1;
        let keys = self.compared.keys.iter();
        let opened =
            keys.map(|key| Checkpoint::open(&head.note, key)).find(|opened| opened.is_ok());
        let problem = match opened {
            Some(Ok(checkpoint)) if checkpoint.size != head.size => {
                Some("the head says another length than its row")
            }
            Some(Ok(checkpoint))
                if checkpoint.origin != origin(&self.compared.node, self.compared.id) =>
            {
                Some("the head is of another node")
            }
            Some(Ok(checkpoint)) if root.is_some_and(|root| root != checkpoint.root) => {
                Some("the records up to this one are not those that were signed")
            }
            Some(Ok(_)) => None,
            _ => Some("the head is not signed by a key of this node"),
        };
        match problem {
            Some(problem) => self.result.find(head.size, problem),
            None => self.result.covered = self.result.covered.max(head.size),
        }
    }

    fn compare_row(&mut self, record: u64, leaf: &Hash, row: &ProjectedEvent) {
        self.result.rows += 1;
        if leaf_hash(row.body.as_bytes()) != *leaf {
            self.result.find(record, "the row of this event was changed");
            return;
        }
        let Ok(event) = serde_json::from_str::<Event>(&row.body) else { return };
        let account = event.account.as_ref().map(Name::as_str);
        let same = row.id == event.id
            && row.at == event.at
            && row.account.as_deref() == account
            && row.kind == event.fact.kind();
        if !same {
            self.result.find(record, "a column of the row of this event was changed");
        }
    }

    fn surplus(&mut self, row: &ProjectedEvent) {
        self.result.rows += 1;
        let problem = format!(
            "no record is that of the event {}: the record is gone, or the row was added",
            row.id
        );
        self.result.find(row.node_sequence, problem);
    }

    /// What is left in the database behind the end of the journal.
    async fn end(mut self, report: Report) -> Result<Comparison> {
        let last = report.head.as_ref().map_or(0, |head| head.sequence);
        let mut beyond = 0;
        while let Some(head) = self.next_head(u64::MAX).await? {
            self.result.heads += 1;
            beyond = beyond.max(head.size);
        }
        for head in std::mem::take(&mut self.outside) {
            self.result.heads += 1;
            beyond = beyond.max(head.size);
        }
        while let Some(row) = self.next_row(u64::MAX).await? {
            self.result.rows += 1;
            beyond = beyond.max(row.node_sequence);
        }
        // A node that runs writes on while this reads.
        if beyond > last && beyond > self.now_last().await? {
            let problem = format!("the journal ends before it, at record {last}: its end was cut");
            self.result.find(beyond, problem);
        }
        self.result.journal = report;
        Ok(self.result)
    }

    /// The last record of the journal as it is now.
    async fn now_last(&self) -> Result<u64> {
        let folder = self.compared.folder.clone();
        let read = tokio::task::spawn_blocking(move || entrepot_journal::verify(&folder)).await;
        let report = read.map_err(|_| {
            let ended = std::io::Error::other("the thread that read the journal has ended");
            ProofError::tree("journal", &ended)
        })??;
        Ok(report.head.map_or(0, |head| head.sequence))
    }

    /// The next head that covers no more than `up_to` records.
    async fn next_head(&mut self, up_to: u64) -> Result<Option<StoredHead>> {
        if self.heads.items.is_empty() && !self.heads.ended {
            let (db, node) = (&self.compared.db, self.compared.id);
            let page = db.heads_after(node, self.heads.after, COMPARED_ROWS).await?;
            self.heads.fill(page, |head| head.size);
        }
        Ok(self.heads.items.pop_front_if(|head| head.size <= up_to))
    }

    /// The next row of a record no later than `up_to`.
    async fn next_row(&mut self, up_to: u64) -> Result<Option<ProjectedEvent>> {
        if self.rows.items.is_empty() && !self.rows.ended {
            let (db, node) = (&self.compared.db, &self.compared.node);
            let page = db.projected_events(node, self.rows.after, COMPARED_ROWS).await?;
            self.rows.fill(page, |row| row.node_sequence);
        }
        Ok(self.rows.items.pop_front_if(|row| row.node_sequence <= up_to))
    }
}
