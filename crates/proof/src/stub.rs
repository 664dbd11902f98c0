//! Signed stubs: what stays of records and rows that retention deleted, so that the rest still
//! verifies and nobody can pass a deletion of his own off for retention.
//!
//! A stub is a signed note (C2SP `signed-note`) by the key of the node that deletes. Its second
//! line is none that a head could have, so that one is never taken for the other.

use std::collections::HashMap;
use std::str::{FromStr, Lines};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use entrepot_crypto::NoteVerifier;
use entrepot_crypto::merkle::{Hash, leaf_hash};
use entrepot_db::{Db, PrunedKind, StoredStub};
use entrepot_nouns::{EventId, Name, NodeId, SiteId, Timestamp};
use serde::{Deserialize, Serialize};

use crate::error::{ProofError, Result};
use crate::heads::origin;
use crate::limits::STUB_PAGE;

/// What a stub calls its form.
const FORMAT: &str = "entrepot-retention/1";

/// Says that the events of a site with these records are no longer in the table of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsStub {
    /// The log whose records they were: [`origin`].
    pub of: String,
    /// The site of all of them.
    pub site: SiteId,
    /// The last record before the first.
    pub after: u64,
    /// The last record.
    pub up_to: u64,
    /// How many events they were.
    pub count: u64,
    /// The root of the Merkle tree (RFC 9162 §2.1) over them alone, in their order.
    pub root: Hash,
    /// All of them happened before this.
    pub older_than: Timestamp,
    /// SHA-256 of the file that they were written to before, 64 hexadecimal digits.
    pub exported: Option<String>,
    /// When it was signed.
    pub at: Timestamp,
}

/// Says that these records are no longer in the archive of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveStub {
    /// The log: [`origin`].
    pub of: String,
    /// The last record before the first.
    pub after: u64,
    /// The last record.
    pub up_to: u64,
    /// Roots of the complete subtrees of the tree of the first `up_to` records, from left to
    /// right: what the tree over all later records grows from.
    pub tree: Vec<Hash>,
    /// The leaf hash of the JSON of its [`EventNumbers`].
    pub numbers: Hash,
    /// When it was signed.
    pub at: Timestamp,
}

fn invalid(problem: &str) -> ProofError {
    ProofError::Stub(problem.to_owned())
}

/// What stands behind `word` in the next line.
fn field<'a>(lines: &mut Lines<'a>, word: &str) -> Result<&'a str> {
    let line = lines.next().unwrap_or_default();
    let value = line.strip_prefix(word).and_then(|rest| rest.strip_prefix(' '));
    value.ok_or_else(|| ProofError::Stub(format!("it has no line '{word}' where it belongs")))
}

fn parsed<T: FromStr>(text: &str) -> Result<T> {
    text.parse().map_err(|_| ProofError::Stub(format!("'{text}' cannot be read")))
}

fn hash(text: &str) -> Result<Hash> {
    let bytes = STANDARD.decode(text).ok().and_then(|bytes| bytes.try_into().ok());
    bytes.ok_or_else(|| ProofError::Stub(format!("'{text}' is no hash")))
}

/// `records 1 to 7` is behind 0 and up to 7.
fn range(lines: &mut Lines<'_>) -> Result<(u64, u64)> {
    let (first, last) = field(lines, "records")?
        .split_once(" to ")
        .ok_or_else(|| invalid("its line 'records' names no range"))?;
    let (first, last): (u64, u64) = (parsed(first)?, parsed(last)?);
    match first.checked_sub(1) {
        Some(after) if first <= last => Ok((after, last)),
        _ => Err(invalid("its line 'records' names no range")),
    }
}

/// The lines of a note that one of `signers` signed.
fn open<'a>(note: &'a str, signers: &[NoteVerifier]) -> Result<Lines<'a>> {
    let text = signers.iter().find_map(|signer| signer.open(note).ok());
    let text = text.ok_or_else(|| invalid("it is not signed by a node of this installation"))?;
    let mut lines = text.lines();
    match lines.next() {
        Some(FORMAT) => Ok(lines),
        _ => Err(invalid("it has another form")),
    }
}

impl EventsStub {
    /// The text that is signed.
    pub fn text(&self) -> String {
        let EventsStub { of, site, count, older_than, at, .. } = self;
        let (first, last) = (self.after + 1, self.up_to);
        let root = STANDARD.encode(self.root);
        let exported = self.exported.as_ref();
        let exported = exported.map(|sha256| format!("exported {sha256}\n")).unwrap_or_default();
        format!(
            "{FORMAT}\nevents of {of}\nsite {site}\nrecords {first} to {last}\ncount {count}\n\
             root {root}\nolder-than {older_than}\n{exported}time {at}\n"
        )
    }

    /// Reads a stub that one of `signers` signed.
    ///
    /// # Errors
    /// [`ProofError::Stub`].
    pub fn open(note: &str, signers: &[NoteVerifier]) -> Result<Self> {
        let mut lines = open(note, signers)?;
        let of = field(&mut lines, "events of")?.to_owned();
        let site = parsed(field(&mut lines, "site")?)?;
        let (after, up_to) = range(&mut lines)?;
        let count = parsed(field(&mut lines, "count")?)?;
        let root = hash(field(&mut lines, "root")?)?;
        let older_than = parsed(field(&mut lines, "older-than")?)?;
        let mut rest = lines.clone();
        let exported = field(&mut rest, "exported").ok().map(str::to_owned);
        if exported.is_some() {
            lines = rest;
        }
        let at = parsed(field(&mut lines, "time")?)?;
        Ok(EventsStub { of, site, after, up_to, count, root, older_than, exported, at })
    }
}

impl ArchiveStub {
    /// The text that is signed.
    pub fn text(&self) -> String {
        let ArchiveStub { of, at, .. } = self;
        let (first, last) = (self.after + 1, self.up_to);
        let tree: Vec<String> = self.tree.iter().map(|hash| STANDARD.encode(hash)).collect();
        let (tree, numbers) = (tree.join(" "), STANDARD.encode(self.numbers));
        format!(
            "{FORMAT}\narchive of {of}\nrecords {first} to {last}\ntree {tree}\n\
             numbers {numbers}\ntime {at}\n"
        )
    }

    /// Reads a stub that one of `signers` signed.
    ///
    /// # Errors
    /// [`ProofError::Stub`].
    pub fn open(note: &str, signers: &[NoteVerifier]) -> Result<Self> {
        let mut lines = open(note, signers)?;
        let of = field(&mut lines, "archive of")?.to_owned();
        let (after, up_to) = range(&mut lines)?;
        let tree =
            field(&mut lines, "tree")?.split(' ').map(hash).collect::<Result<Vec<Hash>>>()?;
        if tree.len() != up_to.count_ones() as usize {
            return Err(invalid("its tree has not the hashes of so many records"));
        }
        let numbers = hash(field(&mut lines, "numbers")?)?;
        let at = parsed(field(&mut lines, "time")?)?;
        Ok(ArchiveStub { of, after, up_to, tree, numbers, at })
    }
}

/// Which records of a range are events, by site.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EventNumbers {
    sites: Vec<SiteNumbers>,
}

/// Of one site: base64 of a bit for each record of the range, the lowest bit of the first byte for
/// the first record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SiteNumbers {
    site: SiteId,
    #[serde(with = "bits")]
    records: Vec<u8>,
}

mod bits {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bits: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bits))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        STANDARD.decode(String::deserialize(from)?).map_err(serde::de::Error::custom)
    }
}

impl EventNumbers {
    /// Notes that the record at this place of the range, from 0 on, is an event of `site`.
    pub(crate) fn insert(&mut self, place: u64, site: SiteId) {
        let at = self.sites.iter().position(|known| known.site == site).unwrap_or_else(|| {
            self.sites.push(SiteNumbers { site, records: Vec::new() });
            self.sites.len() - 1
        });
        let Some(SiteNumbers { records, .. }) = self.sites.get_mut(at) else { return };
        let byte = usize::try_from(place / 8).unwrap_or(usize::MAX);
        if records.len() <= byte {
            records.resize(byte.saturating_add(1), 0);
        }
        if let Some(bits) = records.get_mut(byte) {
            *bits |= 1 << (place % 8);
        }
    }

    /// The site of the event at this place; `None` if it is none.
    pub(crate) fn site_at(&self, place: u64) -> Option<SiteId> {
        let byte = usize::try_from(place / 8).ok()?;
        let found = self
            .sites
            .iter()
            .find(|known| known.records.get(byte).is_some_and(|bits| bits >> (place % 8) & 1 == 1));
        found.map(|known| known.site)
    }

    /// As it is stored, with the hash that the stub has of it.
    pub(crate) fn encode(&self) -> Result<(String, Hash)> {
        let text = serde_json::to_string(self).map_err(|error| invalid(&error.to_string()))?;
        let hash = leaf_hash(text.as_bytes());
        Ok((text, hash))
    }

    /// Those of a stub.
    pub(crate) fn decode(stub: &ArchiveStub, text: &str) -> Result<Self> {
        if leaf_hash(text.as_bytes()) != stub.numbers {
            return Err(invalid("the list of its events was changed"));
        }
        serde_json::from_str(text).map_err(|error| invalid(&error.to_string()))
    }
}

/// The rows that retention deleted of the events of one journal.
#[derive(Debug, Default)]
pub(crate) struct PrunedRows {
    /// By site: ranges, behind the first number up to the second.
    ranges: HashMap<SiteId, Vec<(u64, u64)>>,
    /// The last events that were found pruned: one of them that was recorded again has no row
    /// either.
    recent: std::collections::VecDeque<EventId>,
    known: std::collections::HashSet<EventId>,
}

/// A stub that does not count, and why.
pub(crate) struct BadStub {
    pub(crate) up_to: u64,
    pub(crate) problem: String,
}

impl PrunedRows {
    /// Reads the stubs of a journal; those that do not count are given beside.
    pub(crate) async fn load(
        db: &Db,
        node: &Name,
        id: NodeId,
        signers: &[NoteVerifier],
    ) -> Result<(Self, Vec<BadStub>)> {
        let of = origin(node, id);
        let (mut pruned, mut bad) = (PrunedRows::default(), Vec::new());
        for stored in all_stubs(db, id, PrunedKind::Events).await? {
            let problem = match EventsStub::open(&stored.note, signers) {
                Ok(stub) if stub.of != of => "it is of another log".to_owned(),
                Ok(stub) => {
                    let ranges = pruned.ranges.entry(stub.site).or_default();
                    ranges.push((stub.after, stub.up_to));
                    continue;
                }
                Err(error) => error.to_string(),
            };
            bad.push(BadStub { up_to: stored.up_to, problem });
        }
        Ok((pruned, bad))
    }

    /// True if the row of this event of `site` was deleted by retention.
    pub(crate) fn covers(&mut self, record: u64, site: SiteId, event: EventId) -> bool {
        if self.known.contains(&event) {
            return true;
        }
        if !self.has(record, site) {
            return false;
        }
        if self.recent.len() >= crate::limits::PRUNED_REMEMBERED
            && let Some(oldest) = self.recent.pop_front()
        {
            self.known.remove(&oldest);
        }
        self.recent.push_back(event);
        self.known.insert(event);
        true
    }

    /// True if the rows of the events of `site` were deleted at this record.
    pub(crate) fn has(&self, record: u64, site: SiteId) -> bool {
        let ranges = self.ranges.get(&site);
        ranges.is_some_and(|ranges| {
            ranges.iter().any(|(after, up_to)| *after < record && record <= *up_to)
        })
    }
}

/// All stubs of a kind about a journal, in the order of their last records.
pub(crate) async fn all_stubs(db: &Db, node: NodeId, kind: PrunedKind) -> Result<Vec<StoredStub>> {
    let mut all: Vec<StoredStub> = Vec::new();
    let mut after = 0;
    loop {
        let page = db.stubs_after(node, kind, after, STUB_PAGE).await?;
        let is_last = page.len() < STUB_PAGE as usize;
        let fresh = |stub: &StoredStub| {
            let same = |known: &StoredStub| (known.up_to, known.site) == (stub.up_to, stub.site);
            !all.iter().rev().take_while(|known| known.up_to >= stub.up_to).any(same)
        };
        let fresh: Vec<StoredStub> = page.into_iter().filter(fresh).collect();
        if fresh.is_empty() {
            return Ok(all);
        }
        all.extend(fresh);
        if is_last {
            return Ok(all);
        }
        // Several sites may have stubs with the same last record: the page may end between them.
        after = all.last().map_or(0, |stub| stub.up_to.saturating_sub(1));
    }
}
