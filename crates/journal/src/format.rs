//! Bytes of segments and records. All numbers are little-endian.
//!
//! A segment is a header of 192 bytes and records up to its end; zeros may follow the last one.
//!
//! | header | bytes | |
//! | --- | --- | --- |
//! | magic | 8 | `EPJOURNL` |
//! | version | 4 | 1 |
//! | checksum | 4 | CRC-32 of all the rest |
//! | first | 8 | sequence of the first record |
//! | created | 8 | microseconds since 1970 |
//! | node | 1 + 64 | length and text, rest zero |
//! | node id | 16 | the node's, made with its first segment |
//! | reserved | 47 | zero |
//! | chain | 32 | chain hash of the record before the first one |
//!
//! | record | bytes | |
//! | --- | --- | --- |
//! | magic | 4 | `EPr1` |
//! | length | 4 | of the payload |
//! | kind | 1 + 3 | and zeros |
//! | sequence | 8 | one more than the record before; more only in a mark that says so |
//! | synced | 8 | a record known to be durable when this one was appended |
//! | payload | length | |
//! | checksum | 4 | CRC-32 of all the others but the magic, the chain included |
//! | chain | 32 | BLAKE3 of (chain of the record before ‖ the 28 bytes above ‖ payload) |
//!
//! The chain hash stands at the end, so that what is hashed for the next record lies in one piece
//! in memory. `synced` lets recovery tell a torn tail (never acknowledged) from damage:
//! what a later record calls synced was on stable storage once.

use entrepot_nouns::{Name, NodeId};

/// A chain hash.
pub(crate) type Chain = [u8; 32];

pub(crate) const SEGMENT_HEADER: usize = 192;
pub(crate) const RECORD_HEADER: usize = 28;
const CHECKSUM: usize = 4;
pub(crate) const CHAIN: usize = 32;
/// Bytes of a record beside its payload.
pub(crate) const OVERHEAD: usize = RECORD_HEADER + CHECKSUM + CHAIN;

const SEGMENT_MAGIC: &[u8; 8] = b"EPJOURNL";
pub(crate) const RECORD_MAGIC: &[u8; 4] = b"EPr1";
const VERSION: u32 = 1;

/// What a record holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecordKind {
    /// A fact: JSON of [`entrepot_nouns::Event`].
    Event = 1,
    /// Something is about to be made visible: JSON, by `vfs`.
    Intent = 2,
    /// An intent that ended without an event: the transfer's id.
    Closed = 3,
}

/// The journal's own records (opened, closed, pruned): part of the chain, never read out.
pub(crate) const MARK: u8 = 0;
/// Payload of the mark that ends an orderly run.
pub(crate) const CLOSED_MARK: &[u8] = b"{\"mark\":\"closed\"}";

/// Payload of the mark that stands behind a gap in the sequence: the last record before it.
pub(crate) fn skip_mark(before: u64) -> Vec<u8> {
    format!("{{\"mark\":\"skipped\",\"after\":{before}}}").into_bytes()
}

/// The last record before numbers that were skipped, if this is the payload of the journal's own
/// mark of that.
pub fn skipped_after(payload: &[u8]) -> Option<u64> {
    let mark: serde_json::Value = serde_json::from_slice(payload).ok()?;
    (mark.get("mark")? == "skipped").then(|| mark.get("after")?.as_u64()).flatten()
}

impl RecordKind {
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            1 => Some(RecordKind::Event),
            2 => Some(RecordKind::Intent),
            3 => Some(RecordKind::Closed),
            _ => None,
        }
    }
}

/// Header of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) first: u64,
    pub(crate) created_us: i64,
    pub(crate) node: String,
    pub(crate) node_id: NodeId,
    pub(crate) chain: Chain,
}

impl SegmentHeader {
    pub(crate) fn encode(&self) -> [u8; SEGMENT_HEADER] {
        let mut bytes = [0u8; SEGMENT_HEADER];
        let mut at = 0;
        let mut put = |part: &[u8], width: usize| {
            for (to, from) in bytes.iter_mut().skip(at).zip(part) {
                *to = *from;
            }
            at += width;
        };
        let node = self.node.as_bytes();
        put(SEGMENT_MAGIC, 8);
        put(&VERSION.to_le_bytes(), 4);
        put(&[0; 4], 4);
        put(&self.first.to_le_bytes(), 8);
        put(&self.created_us.to_le_bytes(), 8);
        put(&[u8::try_from(node.len()).unwrap_or(0)], 1);
        put(node, 64);
        put(self.node_id.0.as_bytes(), 16);
        put(&[0; 47], 47);
        put(&self.chain, 32);
        let checksum = Self::checksum(&bytes).to_le_bytes();
        for (to, from) in bytes.iter_mut().skip(12).zip(checksum) {
            *to = from;
        }
        bytes
    }

    fn checksum(bytes: &[u8; SEGMENT_HEADER]) -> u32 {
        let mut crc = crc32fast::Hasher::new();
        crc.update(bytes.get(..12).unwrap_or_default());
        crc.update(bytes.get(16..).unwrap_or_default());
        crc.finalize()
    }

    /// Reads a header back, or says what is wrong with it.
    pub(crate) fn decode(bytes: &[u8; SEGMENT_HEADER]) -> Result<Self, &'static str> {
        if bytes.get(..8) != Some(SEGMENT_MAGIC.as_slice()) {
            return Err("it does not begin like a journal segment");
        }
        if number4(bytes, 12) != Self::checksum(bytes) {
            return Err("its header has changed");
        }
        if number4(bytes, 8) != VERSION {
            return Err("it was written by a newer version of this program");
        }
        let node_bytes = usize::from(bytes.get(32).copied().unwrap_or(0));
        let node = bytes.get(33..33 + node_bytes).unwrap_or_default();
        let node = std::str::from_utf8(node).map_err(|_| "its node name is no text")?;
        let id: [u8; 16] =
            bytes.get(97..113).and_then(|part| part.try_into().ok()).unwrap_or_default();
        Ok(SegmentHeader {
            first: number8(bytes, 16),
            created_us: i64::from_le_bytes(number8(bytes, 24).to_le_bytes()),
            node: node.to_owned(),
            node_id: NodeId(uuid::Uuid::from_bytes(id)),
            chain: chain_at(bytes, 160),
        })
    }

    pub(crate) fn is_of(&self, node: &Name) -> bool {
        self.node == node.as_str()
    }
}

/// Reads a number; zero beyond the end, which the callers' length checks exclude.
fn number4(bytes: &[u8], at: usize) -> u32 {
    let part = bytes.get(at..at + 4).and_then(|part| part.try_into().ok());
    u32::from_le_bytes(part.unwrap_or_default())
}

fn number8(bytes: &[u8], at: usize) -> u64 {
    let part = bytes.get(at..at + 8).and_then(|part| part.try_into().ok());
    u64::from_le_bytes(part.unwrap_or_default())
}

fn chain_at(bytes: &[u8], at: usize) -> Chain {
    bytes.get(at..at + CHAIN).and_then(|part| part.try_into().ok()).unwrap_or_default()
}

/// Numbers of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordHead {
    pub(crate) kind: u8,
    pub(crate) sequence: u64,
    pub(crate) synced: u64,
}

/// Appends a record to `buffer`, whose last 32 bytes are the chain hash of the record before.
/// Returns the new chain hash, which `buffer` then ends with.
pub(crate) fn encode(buffer: &mut Vec<u8>, head: RecordHead, payload: &[u8]) -> Chain {
    let start = buffer.len();
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    buffer.extend_from_slice(RECORD_MAGIC);
    buffer.extend_from_slice(&length.to_le_bytes());
    buffer.extend_from_slice(&[head.kind, 0, 0, 0]);
    buffer.extend_from_slice(&head.sequence.to_le_bytes());
    buffer.extend_from_slice(&head.synced.to_le_bytes());
    buffer.extend_from_slice(payload);
    let hashed = buffer.get(start.saturating_sub(CHAIN)..).unwrap_or_default();
    let chain: Chain = blake3::hash(hashed).into();
    let summed = buffer.get(start + RECORD_MAGIC.len()..).unwrap_or_default();
    let checksum = checksum(summed, &chain);
    buffer.extend_from_slice(&checksum.to_le_bytes());
    buffer.extend_from_slice(&chain);
    chain
}

fn checksum(record: &[u8], chain: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(record);
    crc.update(chain);
    crc.finalize()
}

/// A record as found in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) head: RecordHead,
    pub(crate) payload_bytes: usize,
    pub(crate) chain: Chain,
}

impl Found {
    /// All its bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.payload_bytes + OVERHEAD
    }
}

/// What lies at the beginning of some bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// A record with a good checksum.
    Record(Found),
    /// The first bytes of a record perhaps; so many are needed to say.
    Short(usize),
    /// Zeros: nothing was written here.
    Blank,
    /// The bytes are not a record, for this reason.
    Bad(&'static str),
}

/// Looks for a record at the beginning of `bytes`; the checksum is compared, the chain not.
pub(crate) fn look(bytes: &[u8]) -> Look {
    let Some(header) = bytes.get(..RECORD_HEADER) else {
        return Look::Short(RECORD_HEADER);
    };
    if header.iter().all(|byte| *byte == 0) {
        return Look::Blank;
    }
    if header.get(..4) != Some(RECORD_MAGIC.as_slice()) {
        return Look::Bad("no record begins here");
    }
    let payload_bytes = number4(header, 4) as usize;
    if payload_bytes > crate::limits::PAYLOAD_BYTES {
        return Look::Bad("a record claims an impossible length");
    }
    let total = payload_bytes + OVERHEAD;
    let Some(record) = bytes.get(..total) else { return Look::Short(total) };
    let body = RECORD_HEADER + payload_bytes;
    let chain = chain_at(record, body + CHECKSUM);
    let summed = record.get(RECORD_MAGIC.len()..body).unwrap_or_default();
    if checksum(summed, &chain) != number4(record, body) {
        return Look::Bad("a record does not match its checksum");
    }
    let kind = header.get(8).copied().unwrap_or(u8::MAX);
    if kind != MARK && RecordKind::from_byte(kind).is_none() {
        return Look::Bad("a record has an unknown kind");
    }
    let head = RecordHead { kind, sequence: number8(header, 12), synced: number8(header, 20) };
    Look::Record(Found { head, payload_bytes, chain })
}

/// The chain hash that the record at the beginning of `bytes` must carry.
pub(crate) fn chain_of(before: &Chain, bytes: &[u8], found: &Found) -> Chain {
    let mut hasher = blake3::Hasher::new();
    hasher.update(before);
    hasher.update(bytes.get(..RECORD_HEADER + found.payload_bytes).unwrap_or_default());
    hasher.finalize().into()
}

/// Name of the segment that begins with this sequence.
pub(crate) fn segment_name(first: u64) -> String {
    format!("{first:020}.journal")
}

/// The first sequence of the segment of this name, if it is one.
pub(crate) fn segment_first(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".journal")?;
    (digits.len() == 20).then(|| digits.parse().ok()).flatten()
}
