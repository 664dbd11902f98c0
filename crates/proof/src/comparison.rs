//! Compares a node's journal with its signed heads and with its events in the database, so that a
//! cut tail, a changed, missing or added record or row is named.
//!
//! The journal's own chain is verified on the way. Records are compared by hash, rows by the hash
//! of their body and by the columns that repeat what is in it.

use std::path::PathBuf;

use entrepot_crypto::merkle::{Frontier, Hash, leaf_hash};
use entrepot_crypto::{Checkpoint, NoteVerifier};
use entrepot_db::{Db, ProjectedEvent, StoredHead};
use entrepot_journal::{FsMedium, RecordKind, Report, Visited};
use entrepot_nouns::{Event, EventId, Name, NodeId};
use serde::Serialize;
use tokio::sync::mpsc;

use crate::error::{ProofError, Result};
use crate::heads::origin;
use crate::limits::{COMPARED_BATCHES, COMPARED_ROWS, FINDINGS, GAP};
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
    /// Of an event: its id.
    event: Option<EventId>,
}

/// As much of an event as a comparison needs.
#[derive(serde::Deserialize)]
struct Identified {
    id: EventId,
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
    let mut state = ComparisonState::new(compared, projected);
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
        let event = event.map(|event| event.id);
        batch.push(ReadRecord { sequence: visited.sequence, leaf, event });
        if batch.len() >= COMPARED_ROWS as usize {
            // Without a receiver the comparison has ended with an error of its own.
            let _ = to.blocking_send(std::mem::take(&mut batch));
        }
    };
    let report = entrepot_journal::verify_on(&FsMedium::existing(folder), &mut visit)?;
    let _ = to.blocking_send(batch);
    Ok(report)
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
    heads: PagedRows<StoredHead>,
    rows: PagedRows<ProjectedEvent>,
}

/// Items that come from the database page by page.
struct PagedRows<T> {
    items: std::collections::VecDeque<T>,
    /// The last number that was asked for or read.
    after: u64,
    ended: bool,
}

impl<T> PagedRows<T> {
    fn new() -> Self {
        PagedRows { items: std::collections::VecDeque::new(), after: 0, ended: false }
    }

    fn fill(&mut self, page: Vec<T>, number: impl Fn(&T) -> u64) {
        self.ended = page.is_empty();
        self.after = page.last().map_or(self.after, number);
        self.items = page.into();
    }
}

impl ComparisonState {
    fn new(compared: Compared, projected: u64) -> Self {
        let (heads, rows) = (PagedRows::new(), PagedRows::new());
        let (result, tree) = (Comparison::default(), Some(Frontier::default()));
        ComparisonState { compared, projected, result, tree, last: 0, heads, rows }
    }

    /// Compares one record.
    async fn record(&mut self, seen: &ReadRecord) -> Result<()> {
        if seen.sequence <= self.last {
            // Behind damage, which the verification of the chain has found.
            return Ok(());
        }
        if self.last == 0 && seen.sequence > 1 {
            self.begin_behind_pruned(seen.sequence - 1).await?;
        }
        self.grow(seen).await?;
        self.last = seen.sequence;
        while let Some(row) = self.next_row(seen.sequence).await? {
            if row.node_sequence < seen.sequence {
                self.surplus(&row);
            } else {
                self.compare_row(seen, &row);
                return Ok(());
            }
        }
        let Some(event) = seen.event.filter(|_| seen.sequence <= self.projected) else {
            return Ok(());
        };
        if !self.is_repeated(seen, event).await? {
            let problem = format!("the row of its event, {event}, is missing in the table");
            self.result.find(seen.sequence, problem);
        }
        Ok(())
    }

    /// True if the event stands in an earlier record too, whose row it shares: that row was
    /// compared with the earlier record. After a crash the event of a change of the configuration
    /// is recorded again if the database does not know yet that it was, and a delivery is looked
    /// at and told again, by an event of the same id.
    async fn is_repeated(&self, seen: &ReadRecord, event: EventId) -> Result<bool> {
        let place = self.compared.db.place_of_event(event).await?;
        let place = place.filter(|place| place.node == self.compared.node);
        let first = place.and_then(|place| place.node_sequence);
        Ok(first.is_some_and(|first| first < seen.sequence))
    }

    /// Retention removed the first records: their hashes are in the files of the tree.
    async fn begin_behind_pruned(&mut self, up_to: u64) -> Result<()> {
        let folder = self.compared.folder.clone();
        let read = tokio::task::spawn_blocking(move || {
            let tree = TreeFiles::open(&FsMedium::existing(&folder))?;
            tree.frontier(up_to)
        });
        self.tree = read.await.ok().and_then(Result::ok);
        if self.tree.is_none() {
            let problem =
                "the hashes of the records up to this one, which were pruned, are missing";
            self.result.find(up_to, problem);
        }
        self.last = up_to;
        // Rows of pruned records have nothing to be compared with.
        self.rows.after = up_to;
        self.heads.after = up_to.saturating_sub(1);
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
                self.compare_head(&head);
            }
        }
        Ok(())
    }

    fn compare_head(&mut self, head: &StoredHead) {
        self.result.heads += 1;
        let keys = self.compared.keys.iter();
        let opened =
            keys.map(|key| Checkpoint::open(&head.note, key)).find(|opened| opened.is_ok());
        let root = self.tree.as_ref().map(Frontier::root);
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

    fn compare_row(&mut self, seen: &ReadRecord, row: &ProjectedEvent) {
        self.result.rows += 1;
        if leaf_hash(row.body.as_bytes()) != seen.leaf {
            self.result.find(seen.sequence, "the row of this event was changed");
            return;
        }
        let Ok(event) = serde_json::from_str::<Event>(&row.body) else { return };
        let account = event.account.as_ref().map(Name::as_str);
        let same = row.id == event.id
            && row.at == event.at
            && row.account.as_deref() == account
            && row.kind == event.fact.kind();
        if !same {
            self.result.find(seen.sequence, "a column of the row of this event was changed");
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
