//! Makes the stub of a segment of the archive before the segment goes: its records are compared
//! with the tree and with the table of events once more, for what is deleted is no evidence later.

use std::collections::{HashMap, HashSet};

use entrepot_crypto::NoteVerifier;
use entrepot_crypto::merkle::{Hash, Subtrees, leaf_hash};
use entrepot_db::{Db, PrunedKind, StoredStub};
use entrepot_journal::{ArchivedSegment, Reader, Record, RecordKind};
use entrepot_nouns::{EventId, SiteId};

use crate::error::{ProofError, Result};
use crate::heads::{Heads, origin};
use crate::leaves;
use crate::limits::{COMPARED_ROWS, LEAVES};
use crate::stub::{ArchiveStub, EventNumbers, PrunedRows};

/// As much of an event as is needed to find its row.
#[derive(serde::Deserialize)]
pub(crate) struct Identified {
    pub(crate) id: EventId,
    pub(crate) site: SiteId,
}

/// The keys by which nodes of this database sign.
///
/// # Errors
/// Those of the database.
pub async fn signers(db: &Db) -> Result<Vec<NoteVerifier>> {
    let keys = db.node_keys().await?;
    Ok(keys.iter().filter_map(|key| key.parse().ok()).collect())
}

impl Heads {
    /// The signed note of a text, by the key of this node.
    pub fn sign(&self, text: &str) -> String {
        self.signer().sign(text)
    }

    /// The hashes of the records behind `after` and up to `up_to`; fewer if the tree is shorter.
    ///
    /// # Errors
    /// [`ProofError::Tree`].
    pub async fn record_hashes(&self, after: u64, up_to: u64) -> Result<Vec<Hash>> {
        self.on_tree(move |tree| tree.leaves(after, up_to.min(tree.size()))).await
    }

    /// The stub of a segment, which may be deleted once this is stored; `None` if no signed head
    /// covers the segment yet, or the database does not have all of it.
    ///
    /// # Errors
    /// [`ProofError::Evidence`] if the segment, the tree and the table do not agree: then the
    /// segment must stay. Those of the journal, the tree and the database.
    pub async fn archive_stub(&self, segment: &ArchivedSegment) -> Result<Option<StoredStub>> {
        let (db, node) = (self.db(), self.node_id());
        let covered = db.last_head(node).await?.map_or(0, |head| head.size);
        if covered.min(db.projected_up_to(node).await?) < segment.last {
            return Ok(None);
        }
        let after = db.pruned_up_to(node, PrunedKind::Archive, SiteId::MAIN).await?;
        let numbers = self.numbers(after, segment.last).await?;
        let up_to = segment.last;
        let tree = self.on_tree(move |tree| frontier(tree, up_to)).await?;
        let (text, hash) = numbers.encode()?;
        let at = self.env().now();
        let of = origin(self.node(), node);
        let stub = ArchiveStub { of, after, up_to, tree, numbers: hash, at };
        Ok(Some(StoredStub {
            node,
            kind: PrunedKind::Archive,
            site: SiteId::MAIN,
            after,
            up_to,
            at,
            note: self.sign(&stub.text()),
            numbers: Some(text),
            pending: None,
        }))
    }

    /// Which records of a range are events, once they are known to agree with tree and table.
    async fn numbers(&self, after: u64, up_to: u64) -> Result<EventNumbers> {
        let signers = signers(self.db()).await?;
        let (db, node, id) = (self.db(), self.node(), self.node_id());
        let (mut pruned, _) = PrunedRows::load(db, node, id, &signers).await?;
        let (mut numbers, mut seen) = (EventNumbers::default(), HashSet::new());
        let mut reader = self.journal().reader(after);
        while reader.position() < up_to {
            let before = reader.position();
            let (moved, records) = read(reader).await?;
            reader = moved;
            if reader.position() == before {
                let problem = "the archive ends before it".to_owned();
                return Err(ProofError::Evidence { record: before + 1, problem });
            }
            let end = reader.position().min(up_to);
            self.same_as_tree(&records, before, end).await?;
            let rows = self.rows(before, end).await?;
            for record in records.iter().filter(|record| record.kind == RecordKind::Event) {
                let Ok(event) = serde_json::from_slice::<Identified>(&record.payload) else {
                    continue;
                };
                if record.sequence > up_to || !seen.insert(event.id) {
                    continue;
                }
                if self.has_row(record, &event, &rows, &mut pruned).await? {
                    numbers.insert(record.sequence - after - 1, event.site);
                }
            }
        }
        Ok(numbers)
    }

    /// The records are those whose hashes were signed.
    async fn same_as_tree(&self, records: &[Record], after: u64, up_to: u64) -> Result<()> {
        let hashes = self.record_hashes(after, up_to).await?;
        let read = leaves::hashes(records, after, up_to)?;
        let differing = read.iter().zip(&hashes).position(|(read, signed)| read != signed);
        let differing = differing.or((hashes.len() < read.len()).then_some(hashes.len()));
        match differing {
            Some(place) => {
                let problem = "it is not the one that was signed".to_owned();
                Err(ProofError::Evidence { record: after + 1 + place as u64, problem })
            }
            None => Ok(()),
        }
    }

    /// The hashes of rows by record.
    async fn rows(&self, after: u64, up_to: u64) -> Result<HashMap<u64, Hash>> {
        let (mut rows, mut last) = (HashMap::new(), after);
        while last < up_to {
            let page = self.db().projected_events(self.node(), last, COMPARED_ROWS).await?;
            let Some(end) = page.last().map(|row| row.node_sequence) else { break };
            let within = page.iter().filter(|row| row.node_sequence <= up_to);
            rows.extend(within.map(|row| (row.node_sequence, leaf_hash(row.body.as_bytes()))));
            last = end;
        }
        Ok(rows)
    }

    /// True if the event has, or had, a row of its own; false if it shares that of an earlier
    /// record.
    async fn has_row(
        &self,
        record: &Record,
        event: &Identified,
        rows: &HashMap<u64, Hash>,
        pruned: &mut PrunedRows,
    ) -> Result<bool> {
        let changed = |problem: &str| {
            Err(ProofError::Evidence { record: record.sequence, problem: problem.to_owned() })
        };
        match rows.get(&record.sequence) {
            Some(row) if *row == leaf_hash(&record.payload) => Ok(true),
            Some(_) => changed("its row in the table of events was changed"),
            None if pruned.covers(record.sequence, event.site, event.id) => Ok(true),
            None => {
                let place = self.db().place_of_event(event.id).await?;
                let earlier = place.and_then(|place| place.node_sequence);
                match earlier {
                    Some(earlier) if earlier < record.sequence => Ok(false),
                    _ => changed("its row is missing in the table of events"),
                }
            }
        }
    }
}

/// Reads on, on a thread that may wait for the disk.
async fn read(mut reader: Reader) -> Result<(Reader, Vec<Record>)> {
    let read = tokio::task::spawn_blocking(move || {
        let records = reader.read_now(LEAVES);
        (reader, records)
    });
    let (reader, records) = read.await.map_err(|_| {
        let ended = std::io::Error::other("the thread that read the archive has ended");
        ProofError::tree("archive", &ended)
    })?;
    Ok((reader, records?))
}

/// The roots of the complete subtrees of a tree of `size` leaves, from left to right.
fn frontier<S: Subtrees>(tree: &S, size: u64) -> std::result::Result<Vec<Hash>, S::Error> {
    let mut from = 0u64;
    let mut roots = Vec::new();
    for level in (0..u64::BITS).rev().filter(|level| size >> level & 1 == 1) {
        roots.push(tree.root_of(level, from >> level)?);
        from += 1 << level;
    }
    Ok(roots)
}
