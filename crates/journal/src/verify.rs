//! Checking the whole chain, archive included: finds any record that was changed, dropped or
//! swapped, and says where.
//!
//! What no chain can show by itself is a journal cut short at its end, or made anew from the
//! first record on: compare [`Report::head`] with a copy kept elsewhere.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::error::{JournalError, Result};
use crate::format::{self, Chain, MARK, RecordKind};
use crate::limits;
use crate::medium::{ARCHIVE, FsMedium, Medium, MediumFile};
use crate::scan::{self, Scanner, Step};

/// The end of the chain. A copy of it kept elsewhere proves all records before it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Head {
    /// The last record.
    pub sequence: u64,
    /// Its chain hash, hexadecimal.
    pub chain: String,
}

/// Something that is not as it was written.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// File, within the journal's directory.
    pub segment: String,
    /// Byte of that file.
    pub offset: u64,
    /// The record that should be there.
    pub sequence: u64,
    /// What is wrong.
    pub problem: String,
}

/// The result of a verification.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Segment files read, archived ones included.
    pub segments: u64,
    /// Records read, the journal's own included.
    pub records: u64,
    /// The first record there is; above 1 if older segments were removed by retention.
    pub first_sequence: u64,
    /// The end of the chain.
    pub head: Option<Head>,
    /// Bytes after the last record that are not a record. While a node runs they are a write in
    /// progress; otherwise they are a finding too: a torn tail, which the next start sets aside, or
    /// a change.
    pub torn_bytes: u64,
    /// What is wrong, at most [`limits::FINDINGS`].
    pub findings: Vec<Finding>,
    /// How many findings there are in all.
    pub findings_total: u64,
}

impl Report {
    /// True if nothing is wrong.
    pub fn is_intact(&self) -> bool {
        self.findings_total == 0
    }

    fn find(&mut self, segment: &str, offset: u64, sequence: u64, problem: String) {
        self.findings_total += 1;
        if self.findings.len() < limits::FINDINGS {
            self.findings.push(Finding { segment: segment.to_owned(), offset, sequence, problem });
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            let Finding { segment, offset, sequence, problem } = finding;
            writeln!(f, "'{segment}' at byte {offset}, record {sequence}: {problem}")?;
        }
        let hidden = self.findings_total - self.findings.len() as u64;
        if hidden > 0 {
            writeln!(f, "and {hidden} more")?;
        }
        write!(f, "{} records in {} segments", self.records, self.segments)?;
        if let Some(head) = &self.head {
            write!(f, ", records {} to {}", self.first_sequence, head.sequence)?;
            write!(f, ", chain {}", head.chain)?;
        }
        match self.findings_total {
            0 => f.write_str(": intact"),
            1 => f.write_str(": 1 finding"),
            count => write!(f, ": {count} findings"),
        }
    }
}

/// Verifies the journal in `dir`. A node may have it open meanwhile.
///
/// # Errors
/// [`JournalError::NoJournal`] if the folder holds no segment, [`JournalError::Io`] if something
/// cannot be read. What is wrong with the records is in the report.
pub fn verify(dir: &Path) -> Result<Report> {
    verify_on(&FsMedium::existing(dir), &mut |_| {})
}

/// A record that a verification came by.
#[derive(Clone, Copy, Debug)]
pub struct Visited<'a> {
    /// Its place in the journal.
    pub sequence: u64,
    /// What it holds; `None`: something of the journal's own.
    pub kind: Option<RecordKind>,
    /// The bytes that were appended.
    pub payload: &'a [u8],
}

/// [`verify`] on any medium, which also shows every record, in order. Records behind a finding may
/// come twice or be missing.
///
/// # Errors
/// As [`verify`].
pub fn verify_on(medium: &dyn Medium, visit: &mut dyn FnMut(Visited<'_>)) -> Result<Report> {
    let io = |name: &str, error: &io::Error| {
        JournalError::io("read", &format!("{}/{name}", medium.describe()), error)
    };
    let no_journal = || JournalError::NoJournal { dir: medium.describe() };
    // Live first: a segment that moves to the archive meanwhile is then seen twice, not never.
    let live = medium.list("").map_err(|error| match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => no_journal(),
        _ => io("", &error),
    })?;
    let archived = medium.list(ARCHIVE).map_err(|error| io(ARCHIVE, &error))?;
    let mut firsts: Vec<u64> =
        live.iter().chain(&archived).filter_map(|name| format::segment_first(name)).collect();
    firsts.sort_unstable();
    firsts.dedup();
    if firsts.is_empty() {
        // Opening a journal makes its first segment, so one without segments is none.
        return Err(no_journal());
    }
    let running = matches!(medium.lock(), Ok(None));
    let report = Report::default();
    let mut walk = Verification { report, visit, running, node: None, next: None, pruned: None };
    for (at, first) in firsts.iter().enumerate() {
        let name = format::segment_name(*first);
        let place =
            if archived.contains(&name) { format!("{ARCHIVE}/{name}") } else { name.clone() };
        // It may have moved since it was listed.
        let file = medium
            .open(&place)
            .or_else(|_| medium.open(&format!("{ARCHIVE}/{name}")))
            .map_err(|error| io(&place, &error))?;
        let segment = SegmentFile { name: &place, file, is_last: at + 1 == firsts.len() };
        walk.segment(&segment, *first).map_err(|error| io(&place, &error))?;
    }
    walk.check_start();
    Ok(walk.report)
}

/// A segment that is being verified.
struct SegmentFile<'a> {
    /// Its name within the journal's directory.
    name: &'a str,
    file: Arc<dyn MediumFile>,
    is_last: bool,
}

struct Verification<'a> {
    report: Report,
    /// Sees every record.
    visit: &'a mut dyn FnMut(Visited<'_>),
    /// A node writes meanwhile: the very end may be half written.
    running: bool,
    /// Of the first segment.
    node: Option<entrepot_nouns::NodeId>,
    /// What the next segment must begin with.
    next: Option<(u64, Chain)>,
    /// The last record that retention removed, as the journal noted it.
    pruned: Option<u64>,
}

impl Verification<'_> {
    fn segment(&mut self, segment: &SegmentFile<'_>, first: u64) -> io::Result<()> {
        let name = segment.name;
        self.report.segments += 1;
        let (mut scanner, header) = match Scanner::open(segment.file.clone()) {
            Ok(opened) => opened,
            Err(Err(error)) => return Err(error),
            Err(Ok(why)) => return self.headless(segment, first, why),
        };
        if header.first != first {
            let problem = "its name and its header do not agree".to_owned();
            self.report.find(name, 0, first, problem);
        }
        if *self.node.get_or_insert(header.node_id) != header.node_id {
            let problem = "it is of another node of the same name".to_owned();
            self.report.find(name, 0, first, problem);
        }
        match self.next {
            None => self.report.first_sequence = header.first,
            Some((next, _)) if next != header.first => {
                let problem = format!("records {next} to {} are missing", header.first - 1);
                self.report.find(name, 0, next, problem);
            }
            Some((next, chain)) if chain != header.chain => {
                let problem = "it does not follow the chain of the segment before".to_owned();
                self.report.find(name, 0, next, problem);
            }
            Some(_) => {}
        }
        self.records(segment, &mut scanner)?;
        self.next = Some((scanner.next_sequence(), scanner.chain()));
        self.report.head = Some(Head {
            sequence: scanner.next_sequence() - 1,
            chain: entrepot_nouns::transfer::hex(&scanner.chain()),
        });
        Ok(())
    }

    /// A segment without a good header: its records are not checked, and the next segment will not
    /// follow from it.
    fn headless(&mut self, segment: &SegmentFile<'_>, first: u64, why: &str) -> io::Result<()> {
        let survey = scan::survey(&*segment.file, 0)?;
        if segment.is_last && survey.bytes.is_empty() {
            // The power went while it was made, or it is being made.
            return Ok(());
        }
        self.report.find(segment.name, 0, first, why.to_owned());
        Ok(())
    }

    fn records(&mut self, segment: &SegmentFile<'_>, scanner: &mut Scanner) -> io::Result<()> {
        loop {
            let (offset, wanted) = (scanner.offset(), scanner.next_sequence());
            let problem = match scanner.step()? {
                Step::Record { head, payload, .. } => {
                    self.report.records += 1;
                    if head.kind == MARK {
                        self.pruned = pruned_by(payload).or(self.pruned);
                    }
                    let kind = RecordKind::from_byte(head.kind);
                    (self.visit)(Visited { sequence: head.sequence, kind, payload });
                    continue;
                }
                Step::Blank => None,
                Step::Torn(why) => Some(why.to_owned()),
                Step::Broken(why) => Some(why),
            };
            // Behind damage, or an end: is there any more?
            let survey = scan::survey(&*segment.file, offset)?;
            if survey.bytes.is_empty() {
                return Ok(());
            }
            let stray = survey.strays.first();
            let written_now = self.running
                && segment.is_last
                && stray.is_none_or(|first| first.offset > offset)
                && survey.strays.iter().all(|stray| stray.head.synced < wanted);
            if written_now || stray.is_none() && segment.is_last {
                self.report.torn_bytes = survey.bytes.len() as u64;
            }
            if written_now {
                return Ok(());
            }
            let problem = problem.unwrap_or_else(|| format!("record {wanted} is missing"));
            self.report.find(segment.name, offset, wanted, problem);
            let Some(stray) = stray else { return Ok(()) };
            // A record that does not fit, or the first good one behind the damage: go on with it.
            self.report.records += 1;
            scanner.resume_at(stray.end, stray.head.sequence + 1, stray.chain);
        }
    }

    /// The first segment must hold record 1, or retention must have noted what it removed.
    fn check_start(&mut self) {
        let first = self.report.first_sequence;
        if first > 1 && self.pruned.is_none_or(|pruned| pruned + 1 < first) {
            let problem = format!("records before {first} are missing, and nothing removed them");
            self.report.find(&format::segment_name(1), 0, 1, problem);
        }
    }
}

/// The last record that retention removed, if a mark of the journal says so.
fn pruned_by(payload: &[u8]) -> Option<u64> {
    let mark: serde_json::Value = serde_json::from_slice(payload).ok()?;
    (mark.get("mark")? == "pruned").then(|| mark.get("up_to")?.as_u64()).flatten()
}
