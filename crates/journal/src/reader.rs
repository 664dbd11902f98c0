//! Reading durable records in order, across segments, from any place.

use std::sync::Arc;

use tokio::sync::watch;

use crate::error::{JournalError, Result};
use crate::format::{self, RecordKind};
use crate::limits;
use crate::scan::{Scanner, Segment, Step};
use crate::written::{Progress, Written};

/// A durable record as its writer appended it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its place in the journal; numbers between records belong to the journal itself.
    pub sequence: u64,
    /// What it holds.
    pub kind: RecordKind,
    /// The bytes that were appended.
    pub payload: Vec<u8>,
}

/// Reads durable records behind a place, in order, each once. The chain is checked on the way.
pub struct Reader {
    written: Arc<Written>,
    progress: watch::Receiver<Progress>,
    /// The last record that was read, or was to be skipped.
    position: u64,
    open: Option<(Segment, Scanner)>,
}

impl Reader {
    pub(crate) fn new(written: Arc<Written>, after: u64) -> Self {
        let progress = written.progress.subscribe();
        Reader { written, progress, position: after, open: None }
    }

    /// The last record that was read.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Up to `max` records; waits until there is one. Reads from the page cache mostly, and from
    /// the disk when it lags far behind.
    ///
    /// # Errors
    /// [`JournalError::Gone`] if the archive no longer reaches back so far,
    /// [`JournalError::Corrupt`], [`JournalError::Io`]; [`JournalError::Closed`] or
    /// [`JournalError::Suspect`] when everything durable is read and nothing can follow.
    pub async fn next_batch(&mut self, max: usize) -> Result<Vec<Record>> {
        loop {
            let ended = self.progress.borrow_and_update().ended.clone();
            let batch = self.read_now(max)?;
            if !batch.is_empty() {
                return Ok(batch);
            }
            if let Some(error) = ended {
                return Err(error);
            }
            self.progress.changed().await.map_err(|_| JournalError::Closed)?;
        }
    }

    /// Up to `max` records that are durable now; none is no error.
    ///
    /// # Errors
    /// As [`Reader::next_batch`].
    pub fn read_now(&mut self, max: usize) -> Result<Vec<Record>> {
        let durable = self.progress.borrow().durable;
        let max = max.min(limits::BATCH_RECORDS);
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while self.position < durable && batch.len() < max && bytes < limits::BATCH_BYTES {
            if let Some(record) = self.read_one()? {
                bytes += record.payload.len();
                batch.push(record);
            }
        }
        Ok(batch)
    }

    /// Goes one record on, if need be over the end of a segment. `None`: it was not one to show.
    fn read_one(&mut self) -> Result<Option<Record>> {
        let (segment, scanner) = match &mut self.open {
            Some(open) => open,
            none => none.insert(find(&self.written, self.position + 1)?),
        };
        let sequence = scanner.next_sequence();
        if ends_before(&self.written, segment, sequence) {
            self.open = None;
            return Ok(None);
        }
        for again in [false, true] {
            let offset = scanner.offset();
            let name = segment.path();
            if again {
                // What was read ahead is older than what has become durable since.
                scanner.refresh();
            }
            let step = scanner.step().map_err(|error| JournalError::io("read", &name, &error))?;
            let problem = match step {
                Step::Record { head, payload, .. } => {
                    let kind = RecordKind::from_byte(head.kind);
                    let sequence = head.sequence;
                    let kind = kind.filter(|_| sequence > self.position);
                    self.position = self.position.max(sequence);
                    return Ok(kind.map(|kind| Record {
                        sequence,
                        kind,
                        payload: payload.to_vec(),
                    }));
                }
                Step::Blank | Step::Torn(_) if !again => continue,
                Step::Blank => format!("record {sequence} is missing"),
                Step::Torn(why) => why.to_owned(),
                Step::Broken(why) => why,
            };
            self.open = None;
            return Err(JournalError::Corrupt { segment: name, offset, problem });
        }
        Ok(None)
    }
}

/// True if `sequence` lies behind the end of the segment.
fn ends_before(written: &Written, segment: &mut Segment, sequence: u64) -> bool {
    if segment.end.is_none() {
        let segments = written.segments.lock();
        segment.end =
            segments.iter().find(|known| known.first == segment.first).and_then(|known| known.end);
    }
    segment.end.is_some_and(|end| sequence > end.last)
}

/// Opens the segment that holds `wanted`, at its beginning.
fn find(written: &Written, wanted: u64) -> Result<(Segment, Scanner)> {
    let segments = written.segments.lock();
    let first = segments.first().map_or(1, |segment| segment.first);
    let segment = segments
        .iter()
        .rev()
        .find(|segment| segment.first <= wanted)
        .ok_or(JournalError::Gone { first, wanted })?
        .clone();
    let path = segment.path();
    // Under the lock, so that the segment cannot move to the archive in between.
    let file =
        written.medium.open(&path).map_err(|error| JournalError::io("open", &path, &error))?;
    drop(segments);
    match Scanner::open(file) {
        Ok((scanner, header)) if header.first == segment.first => Ok((segment, scanner)),
        Ok(_) => Err(damaged(&segment, "its name and its header do not agree")),
        Err(Ok(why)) => Err(damaged(&segment, why)),
        Err(Err(error)) => Err(JournalError::io("read", &path, &error)),
    }
}

fn damaged(segment: &Segment, why: &str) -> JournalError {
    JournalError::Corrupt {
        segment: format::segment_name(segment.first),
        offset: 0,
        problem: why.to_owned(),
    }
}
