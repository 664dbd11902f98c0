//! Reading records one after the other, with every check.

use std::io;
use std::sync::Arc;

use crate::format::{
    self, Chain, Found, Look, MARK, OVERHEAD, RECORD_HEADER, RECORD_MAGIC, RecordHead,
    SEGMENT_HEADER, SegmentHeader,
};
use crate::limits;
use crate::medium::MediumFile;

/// A segment as the journal knows it.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) first: u64,
    pub(crate) created_us: i64,
    /// Set once the next segment has begun.
    pub(crate) end: Option<SegmentEnd>,
    pub(crate) archived: bool,
}

/// Where a closed segment ends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SegmentEnd {
    /// Its last record.
    pub(crate) last: u64,
    /// Its last record that readers see; less than `first` if there is none.
    pub(crate) visible: u64,
}

impl Segment {
    /// Name within the medium.
    pub(crate) fn path(&self) -> String {
        let name = format::segment_name(self.first);
        if self.archived { format!("{}/{name}", crate::medium::ARCHIVE) } else { name }
    }
}

/// What lies where the next record should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// The record, all checks passed.
    Record { head: RecordHead, payload: &'a [u8], offset: u64 },
    /// Nothing was written from here on.
    Blank,
    /// No whole record; a torn write looks like this, and so does damage.
    Torn(&'static str),
    /// A whole record that does not belong here; a torn write never looks like this.
    Broken(String),
}

/// Walks over the records of one segment.
pub(crate) struct Scanner {
    file: Arc<dyn MediumFile>,
    window: Vec<u8>,
    window_at: u64,
    used: usize,
    chain: Chain,
    next: u64,
}

impl Scanner {
    /// Reads the header and stands before the first record. `Err(Ok(text))` says what is wrong
    /// with the header.
    pub(crate) fn open(
        file: Arc<dyn MediumFile>,
    ) -> Result<(Self, SegmentHeader), io::Result<&'static str>> {
        let mut bytes = [0; SEGMENT_HEADER];
        let read = file.read_at(0, &mut bytes).map_err(Err)?;
        if read < SEGMENT_HEADER {
            return Err(Ok("it is too short for a journal segment"));
        }
        let header = SegmentHeader::decode(&bytes).map_err(Ok)?;
        let scanner = Scanner {
            file,
            window: Vec::new(),
            window_at: SEGMENT_HEADER as u64,
            used: 0,
            chain: header.chain,
            next: header.first,
        };
        Ok((scanner, header))
    }

    /// Where the next record begins.
    pub(crate) fn offset(&self) -> u64 {
        self.window_at + self.used as u64
    }

    /// The sequence that the next record must have.
    pub(crate) fn next_sequence(&self) -> u64 {
        self.next
    }

    /// Chain hash of the record before.
    pub(crate) fn chain(&self) -> Chain {
        self.chain
    }

    /// Forgets what was read ahead: the file has grown meanwhile.
    pub(crate) fn refresh(&mut self) {
        self.window_at = self.offset();
        self.window.clear();
        self.used = 0;
    }

    /// Goes on after damage with what is found there; the next record need not follow any chain.
    pub(crate) fn resume_at(&mut self, offset: u64, sequence: u64, chain: Chain) {
        self.window.clear();
        self.used = 0;
        self.window_at = offset;
        self.next = sequence;
        self.chain = chain;
    }

    fn rest(&self) -> &[u8] {
        self.window.get(self.used..).unwrap_or_default()
    }

    /// Makes at least `wanted` bytes available; false if the file ends before.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.rest().len() >= wanted {
            return Ok(true);
        }
        self.window.drain(..self.used);
        self.window_at += self.used as u64;
        self.used = 0;
        let mut more = vec![0; wanted.max(limits::SCAN_BYTES)];
        let read = self.file.read_at(self.window_at + self.window.len() as u64, &mut more)?;
        self.window.extend_from_slice(more.get(..read).unwrap_or_default());
        Ok(self.window.len() >= wanted)
    }

    /// Looks at the next record and, if it is good, goes past it.
    pub(crate) fn step(&mut self) -> io::Result<Step<'_>> {
        let found = loop {
            match format::look(self.rest()) {
                Look::Record(found) => break found,
                Look::Blank => return Ok(Step::Blank),
                Look::Bad(why) => return Ok(Step::Torn(why)),
                Look::Short(wanted) => {
                    if !self.fill(wanted)? {
                        let blank = self.rest().iter().all(|byte| *byte == 0);
                        let torn = Step::Torn("the file ends within a record");
                        return Ok(if blank { Step::Blank } else { torn });
                    }
                }
            }
        };
        if let Some(problem) = self.misfit(&found) {
            return Ok(Step::Broken(problem));
        }
        let (offset, start) = (self.offset(), self.used);
        self.used += found.bytes();
        self.next = found.head.sequence + 1;
        self.chain = found.chain;
        let payload = start + RECORD_HEADER..start + RECORD_HEADER + found.payload_bytes;
        let payload = self.window.get(payload).unwrap_or_default();
        Ok(Step::Record { head: found.head, payload, offset })
    }

    fn misfit(&self, found: &Found) -> Option<String> {
        let sequence = found.head.sequence;
        if sequence != self.next && !self.skips(found) {
            return Some(format!("record {sequence} stands where {} belongs", self.next));
        }
        let chain = format::chain_of(&self.chain, self.rest(), found);
        (chain != found.chain).then(|| format!("record {sequence} does not follow its chain"))
    }
}

impl Scanner {
    /// True if the record is the journal's own note that it went on with a higher number.
    fn skips(&self, found: &Found) -> bool {
        let payload = self.rest().get(RECORD_HEADER..RECORD_HEADER + found.payload_bytes);
        found.head.kind == MARK
            && found.head.sequence > self.next
            && payload == Some(format::skip_mark(self.next.saturating_sub(1)).as_slice())
    }
}

/// A record with a good checksum, found by searching.
#[derive(Clone, Debug)]
pub(crate) struct Stray {
    pub(crate) offset: u64,
    pub(crate) head: RecordHead,
    /// Chain hash it carries.
    pub(crate) chain: Chain,
    /// Where it ends.
    pub(crate) end: u64,
}

/// What lies from some place of a segment to its end.
pub(crate) struct Survey {
    /// All bytes up to the last one that is not zero.
    pub(crate) bytes: Vec<u8>,
    /// Whole records among them.
    pub(crate) strays: Vec<Stray>,
}

/// Where the zeros at the end begin. By blocks: most of what is looked at is reserved and blank.
fn content_end(bytes: &[u8]) -> usize {
    const BLANK: [u8; 4096] = [0; 4096];
    let mut end = bytes.len();
    while let Some((rest, block)) = bytes.get(..end).and_then(|b| b.split_last_chunk::<4096>()) {
        if *block != BLANK {
            break;
        }
        end = rest.len();
    }
    let rest = bytes.get(..end).unwrap_or_default();
    rest.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Looks at everything from `from` on. A payload cannot look like a record: it is JSON, which has
/// no zero bytes, and each record header has.
pub(crate) fn survey(file: &dyn MediumFile, from: u64) -> io::Result<Survey> {
    let size = file.size()?;
    let length = usize::try_from(size.saturating_sub(from)).unwrap_or(usize::MAX);
    let mut bytes = vec![0; length];
    let read = file.read_at(from, &mut bytes)?;
    bytes.truncate(read);
    let end = content_end(&bytes);
    let mut strays = Vec::new();
    let mut at = 0;
    while let Some(rest) = bytes.get(at..end).filter(|rest| rest.len() >= RECORD_HEADER) {
        if !rest.starts_with(RECORD_MAGIC) {
            at += 1;
            continue;
        }
        // The chain hash may end in zeros, so the record is looked for in all bytes.
        match format::look(bytes.get(at..).unwrap_or_default()) {
            Look::Record(found) => {
                let offset = from + at as u64;
                let (head, chain) = (found.head, found.chain);
                at += found.bytes();
                strays.push(Stray { offset, head, chain, end: from + at as u64 });
            }
            _ => at += 1,
        }
    }
    debug_assert!(strays.iter().all(|stray| stray.end - stray.offset >= OVERHEAD as u64));
    bytes.truncate(end);
    Ok(Survey { bytes, strays })
}
