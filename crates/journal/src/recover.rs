//! Opening what an earlier run left: everything is checked, a torn tail is set aside.
//!
//! Only the end of the last segment can be torn, and only records that no sync ever covered. A
//! record that cannot be read is taken for torn unless something behind it says that it was
//! durable once (its `synced` field): then it is damage, and the journal does not open. Torn
//! bytes are kept in `torn/`.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use entrepot_nouns::{Env, Name, NodeId};

use crate::account::Account;
use crate::error::{JournalError, Result};
use crate::format::{self, Chain, MARK, SEGMENT_HEADER, SegmentHeader};
use crate::medium::{ARCHIVE, Medium, MediumFile, TORN};
use crate::scan::{self, Scanner, Segment, SegmentEnd, Step};

/// What opening found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    /// The last record; 0 in a new journal.
    pub last_sequence: u64,
    /// Bytes at the end that were no whole, synced records. They are kept in `torn/`.
    pub torn_bytes: u64,
    /// Whole records among them. None was ever acknowledged.
    pub torn_records: u64,
    /// Records in segments that are not archived.
    pub records: u64,
    /// Segments that are not archived.
    pub segments: u64,
    /// The last run closed the journal in good order (or there was none).
    pub clean: bool,
}

/// What opening a journal does with an end that was not written whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TornEnd {
    /// It is cut off and kept in `torn/`.
    #[default]
    SetAside,
    /// [`JournalError::Torn`]; nothing is changed.
    Refuse,
}

/// Where writing goes on.
pub(crate) struct Opened {
    pub(crate) node_id: NodeId,
    pub(crate) file: Arc<dyn MediumFile>,
    /// Where the next record goes in the last segment.
    pub(crate) offset: u64,
    pub(crate) chain: Chain,
    pub(crate) last: u64,
    /// Last record that readers see.
    pub(crate) visible: u64,
    pub(crate) segments: Vec<Segment>,
    /// Sizes of the records that may not be projected yet.
    pub(crate) account: Account,
    pub(crate) recovered: Recovered,
}

/// Who opens which journal.
pub(crate) struct Opening<'a> {
    pub(crate) medium: &'a Arc<dyn Medium>,
    pub(crate) node: &'a Name,
    pub(crate) env: &'a Env,
    pub(crate) torn_end: TornEnd,
}

/// Makes a segment durable, empty, ready for its first record.
pub(crate) fn create_segment(
    medium: &dyn Medium,
    header: &SegmentHeader,
) -> std::result::Result<Arc<dyn MediumFile>, (&'static str, io::Error)> {
    let name = format::segment_name(header.first);
    let file = match medium.create(&name) {
        // Left by a rotation that failed before the segment had any record.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            medium.remove(&name).and_then(|()| medium.create(&name))
        }
        other => other,
    }
    .map_err(|error| ("create", error))?;
    file.write_at(0, &header.encode()).map_err(|error| ("write", error))?;
    file.sync().map_err(|error| ("sync", error))?;
    medium.sync_dir("").map_err(|error| ("sync", error))?;
    Ok(file)
}

struct Walk {
    /// Of the first segment that was read.
    node_id: Option<NodeId>,
    expected: Option<(u64, Chain)>,
    visible: u64,
    account: Account,
    recovered: Recovered,
    segments: Vec<Segment>,
}

impl Opening<'_> {
    /// Checks everything and prepares the last segment for writing.
    pub(crate) fn run(&self) -> Result<Opened> {
        let archived = self.firsts(ARCHIVE)?;
        let live = self.firsts("")?;
        let mut walk = Walk {
            node_id: None,
            expected: None,
            visible: 0,
            account: Account::default(),
            recovered: Recovered { clean: true, ..Recovered::default() },
            segments: self.archive(&archived, &live)?,
        };
        let Some((last, closed)) = live.split_last() else {
            if let Some(first) = archived.last() {
                let segment = format!("{ARCHIVE}/{}", format::segment_name(*first));
                return Err(corrupt(&segment, 0, "the segments after it are missing"));
            }
            return self.fresh(walk);
        };
        for first in closed {
            self.closed_segment(&mut walk, *first)?;
        }
        self.last_segment(walk, *last)
    }

    fn firsts(&self, folder: &str) -> Result<Vec<u64>> {
        let names = self.medium.list(folder).map_err(|error| self.io("list", folder, &error))?;
        let mut firsts: Vec<u64> =
            names.iter().filter_map(|name| format::segment_first(name)).collect();
        firsts.sort_unstable();
        Ok(firsts)
    }

    fn io(&self, action: &'static str, name: &str, error: &io::Error) -> JournalError {
        JournalError::io(action, &format!("{}/{name}", self.medium.describe()), error)
    }

    fn archive(&self, archived: &[u64], live: &[u64]) -> Result<Vec<Segment>> {
        let mut segments = Vec::new();
        for (at, first) in archived.iter().enumerate() {
            let next = archived.get(at + 1).or(live.first());
            let Some(next) = next.filter(|next| *next > first) else { continue };
            let end = SegmentEnd { last: next - 1, visible: next - 1 };
            let mut segment =
                Segment { first: *first, created_us: 0, end: Some(end), archived: true };
            let path = segment.path();
            let file = self.medium.open(&path).map_err(|error| self.io("open", &path, &error))?;
            // Damage in the archive is found by `verify`; it must not stop the node.
            if let Ok((_, header)) = Scanner::open(file) {
                segment.created_us = header.created_us;
            }
            segments.push(segment);
        }
        Ok(segments)
    }

    fn fresh(&self, mut walk: Walk) -> Result<Opened> {
        let mut chain = Chain::default();
        self.env.fill_random(&mut chain);
        walk.expected = Some((1, chain));
        self.begin(walk, 1, chain)
    }

    /// Makes the segment that begins with `first` and opens it.
    fn begin(&self, mut walk: Walk, first: u64, chain: Chain) -> Result<Opened> {
        let node_id = walk.node_id.unwrap_or_else(|| self.env.new_id());
        let header = SegmentHeader {
            first,
            created_us: self.env.now().micros(),
            node: self.node.to_string(),
            node_id,
            chain,
        };
        let name = format::segment_name(first);
        let file = create_segment(&**self.medium, &header)
            .map_err(|(action, error)| self.io(action, &name, &error))?;
        walk.segments.push(Segment {
            first,
            created_us: header.created_us,
            end: None,
            archived: false,
        });
        walk.recovered.last_sequence = first - 1;
        walk.recovered.segments += 1;
        Ok(Opened {
            node_id,
            file,
            offset: SEGMENT_HEADER as u64,
            chain,
            last: first - 1,
            visible: walk.visible,
            segments: walk.segments,
            account: walk.account,
            recovered: walk.recovered,
        })
    }

    fn open_segment(&self, name: &str) -> Result<Arc<dyn MediumFile>> {
        self.medium.open(name).map_err(|error| self.io("open", name, &error))
    }

    /// Checks a header against its name, this node and the segment before.
    fn admit(&self, walk: &mut Walk, name: &str, header: &SegmentHeader) -> Result<()> {
        if format::segment_name(header.first) != name {
            return Err(corrupt(name, 0, "its name and its header do not agree"));
        }
        if !header.is_of(self.node) {
            let problem = format!("it belongs to node '{}'", header.node);
            return Err(corrupt(name, 0, problem));
        }
        if *walk.node_id.get_or_insert(header.node_id) != header.node_id {
            return Err(corrupt(name, 0, "it is of another node of the same name"));
        }
        match walk.expected {
            Some((next, _)) if next != header.first => {
                Err(corrupt(name, 0, format!("record {next} should be its first")))
            }
            Some((_, chain)) if chain != header.chain => {
                Err(corrupt(name, 0, "it does not follow the chain of the segment before"))
            }
            _ => Ok(()),
        }
    }

    fn closed_segment(&self, walk: &mut Walk, first: u64) -> Result<()> {
        let name = format::segment_name(first);
        let (mut scanner, header) =
            Scanner::open(self.open_segment(&name)?).map_err(|wrong| match wrong {
                Ok(why) => corrupt(&name, 0, why),
                Err(error) => self.io("read", &name, &error),
            })?;
        self.admit(walk, &name, &header)?;
        loop {
            let offset = scanner.offset();
            let step = scanner.step().map_err(|error| self.io("read", &name, &error))?;
            match step {
                Step::Record { head, payload, .. } => walk.count(head, payload),
                Step::Blank => break,
                Step::Torn(why) => return Err(corrupt(&name, offset, why)),
                Step::Broken(why) => return Err(corrupt(&name, offset, why)),
            }
        }
        let last = scanner.next_sequence() - 1;
        let end = SegmentEnd { last, visible: walk.visible.min(last) };
        walk.segments.push(Segment {
            first,
            created_us: header.created_us,
            end: Some(end),
            archived: false,
        });
        walk.recovered.segments += 1;
        walk.expected = Some((scanner.next_sequence(), scanner.chain()));
        Ok(())
    }

    fn last_segment(&self, mut walk: Walk, first: u64) -> Result<Opened> {
        let name = format::segment_name(first);
        let file = self.open_segment(&name)?;
        let (mut scanner, header) = match Scanner::open(file.clone()) {
            Ok(opened) => opened,
            Err(Err(error)) => return Err(self.io("read", &name, &error)),
            Err(Ok(why)) => return self.unborn_segment(walk, first, &*file, why),
        };
        if first == 1 && !header.is_of(self.node) && self.is_unused(file.clone())? {
            // The node was given another name before it recorded anything.
            return self.fresh(walk);
        }
        self.admit(&mut walk, &name, &header)?;
        // Records that no later record calls synced, and where they begin.
        let mut unproven: VecDeque<(u64, u64)> = VecDeque::new();
        let torn = loop {
            let at = scanner.offset();
            let step = scanner.step().map_err(|error| self.io("read", &name, &error))?;
            match step {
                Step::Record { head, payload, offset } => {
                    walk.count(head, payload);
                    unproven.push_back((head.sequence, offset));
                    while unproven.front().is_some_and(|(sequence, _)| *sequence <= head.synced) {
                        unproven.pop_front();
                    }
                }
                Step::Blank => break None,
                Step::Torn(why) => break Some(why),
                Step::Broken(why) => return Err(corrupt(&name, at, why)),
            }
        };
        let tail = Tail {
            name: &name,
            file: &*file,
            end: scanner.offset(),
            next: scanner.next_sequence(),
            why: torn.unwrap_or("something stands behind an empty place"),
        };
        self.cut_torn(&mut walk, &tail)?;
        let from = unproven.front().map_or(tail.end, |(_, offset)| *offset);
        self.prove(&tail, from)?;
        walk.segments.push(Segment {
            first,
            created_us: header.created_us,
            end: None,
            archived: false,
        });
        walk.recovered.segments += 1;
        walk.recovered.last_sequence = tail.next - 1;
        Ok(Opened {
            node_id: header.node_id,
            offset: tail.end,
            chain: scanner.chain(),
            last: tail.next - 1,
            visible: walk.visible,
            segments: walk.segments,
            account: walk.account,
            recovered: walk.recovered,
            file,
        })
    }

    /// True if the segment holds nothing but marks of the journal's own.
    fn is_unused(&self, file: Arc<dyn MediumFile>) -> Result<bool> {
        let name = format::segment_name(1);
        let Ok((mut scanner, _)) = Scanner::open(file) else { return Ok(false) };
        loop {
            match scanner.step().map_err(|error| self.io("read", &name, &error))? {
                Step::Record { head, .. } if head.kind == MARK => {}
                Step::Blank => return Ok(true),
                Step::Record { .. } | Step::Torn(_) | Step::Broken(_) => return Ok(false),
            }
        }
    }

    /// A segment without a good header: the power went while it was made, or it is damaged.
    fn unborn_segment(
        &self,
        mut walk: Walk,
        first: u64,
        file: &dyn MediumFile,
        why: &'static str,
    ) -> Result<Opened> {
        let name = format::segment_name(first);
        let survey = scan::survey(file, 0).map_err(|error| self.io("read", &name, &error))?;
        if !survey.strays.is_empty() {
            return Err(corrupt(&name, 0, why));
        }
        self.may_cut(&name, survey.bytes.len())?;
        walk.recovered.torn_bytes = survey.bytes.len() as u64;
        self.set_aside(first, &survey.bytes);
        match walk.expected {
            Some((next, _)) if next != first => {
                Err(corrupt(&name, 0, format!("record {next} should be its first")))
            }
            Some((_, chain)) => self.begin(walk, first, chain),
            None if first == 1 => self.fresh_again(walk),
            None => Err(corrupt(&name, 0, why)),
        }
    }

    fn fresh_again(&self, walk: Walk) -> Result<Opened> {
        let recovered = walk.recovered.clone();
        let mut opened = self.fresh(walk)?;
        opened.recovered.torn_bytes = recovered.torn_bytes;
        Ok(opened)
    }

    /// Removes what follows the last good record, unless it was durable once.
    fn cut_torn(&self, walk: &mut Walk, tail: &Tail<'_>) -> Result<()> {
        let survey = scan::survey(tail.file, tail.end)
            .map_err(|error| self.io("read", tail.name, &error))?;
        if survey.bytes.is_empty() {
            return Ok(());
        }
        if survey.strays.iter().any(|stray| stray.head.synced >= tail.next) {
            return Err(corrupt(tail.name, tail.end, tail.why));
        }
        self.may_cut(tail.name, survey.bytes.len())?;
        walk.recovered.torn_bytes = survey.bytes.len() as u64;
        walk.recovered.torn_records = survey.strays.len() as u64;
        walk.recovered.clean = false;
        self.set_aside(tail.next, &survey.bytes);
        tail.file.truncate(tail.end).map_err(|error| self.io("truncate", tail.name, &error))
    }

    /// An error if a torn end is to be left as it is.
    fn may_cut(&self, segment: &str, bytes: usize) -> Result<()> {
        match self.torn_end {
            TornEnd::SetAside => Ok(()),
            TornEnd::Refuse => {
                Err(JournalError::Torn { segment: segment.to_owned(), bytes: bytes as u64 })
            }
        }
    }

    /// Keeps torn bytes for a person to look at. Nothing depends on them, so a failure is only
    /// logged.
    fn set_aside(&self, next: u64, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        let at = self.env.now().seconds();
        let name = format!("{TORN}/{next:020}-{at}.bytes");
        let kept = self.medium.create(&name).and_then(|file| {
            file.write_at(0, bytes)?;
            file.sync()
        });
        tracing::warn!(
            record = next,
            bytes = bytes.len(),
            kept = kept.is_ok(),
            "the journal ended in a torn record, cut before it was ever acknowledged"
        );
    }

    /// Makes what was read durable for certain. After a sync that failed the kernel may hold pages
    /// that are not on the disk and call them clean: only writing them anew proves them.
    fn prove(&self, tail: &Tail<'_>, from: u64) -> Result<()> {
        let mut at = from;
        let mut buffer = vec![0; crate::limits::SCAN_BYTES];
        while at < tail.end {
            let part = usize::try_from(tail.end - at).unwrap_or(usize::MAX).min(buffer.len());
            let part = buffer.get_mut(..part).unwrap_or_default();
            let read =
                tail.file.read_at(at, part).map_err(|error| self.io("read", tail.name, &error))?;
            let part = part.get(..read).filter(|part| !part.is_empty());
            let Some(part) = part else {
                return Err(corrupt(tail.name, at, "the file became shorter while it was read"));
            };
            tail.file.write_at(at, part).map_err(|error| self.io("write", tail.name, &error))?;
            at += read as u64;
        }
        tail.file.sync().map_err(|error| self.io("sync", tail.name, &error))?;
        self.medium.sync_dir("").map_err(|error| self.io("sync", tail.name, &error))
    }
}

struct Tail<'a> {
    name: &'a str,
    file: &'a dyn MediumFile,
    end: u64,
    next: u64,
    why: &'static str,
}

impl Walk {
    fn count(&mut self, head: format::RecordHead, payload: &[u8]) {
        self.recovered.records += 1;
        self.recovered.clean = head.kind == MARK && payload == format::CLOSED_MARK;
        if head.kind != MARK {
            self.visible = head.sequence;
            self.account.add(head.sequence, (payload.len() + format::OVERHEAD) as u64);
        }
    }
}

fn corrupt(segment: &str, offset: u64, problem: impl Into<String>) -> JournalError {
    JournalError::Corrupt { segment: segment.to_owned(), offset, problem: problem.into() }
}
