//! The one writer: batches into segments, syncs, rotation, archive. Its holder flushes for all.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use entrepot_nouns::{Env, Name, NodeId, crash};
use parking_lot::Mutex;

use crate::error::JournalError;
use crate::format::{self, SEGMENT_HEADER, SegmentHeader};
use crate::limits;
use crate::medium::{ARCHIVE, Medium, MediumFile};
use crate::meters::Meters;
use crate::recover;
use crate::scan::{Segment, SegmentEnd};
use crate::state::{Batch, Cut};

/// What stopped a batch.
pub(crate) enum Failure {
    /// It may be tried again as it is.
    Write(JournalError),
    /// What is on the disk is unknown.
    Sync(String),
}

/// Segments in order, also those of the archive. Readers find their way by it.
pub(crate) type Segments = Arc<Mutex<Vec<Segment>>>;

/// How long a sync takes of late.
#[derive(Debug, Default)]
pub(crate) struct Pace(AtomicU64);

impl Pace {
    /// Exponentially weighted, an eighth each; one that takes ten times as long as before counts
    /// whole, so that a disk that stalls is not trusted by average.
    pub(crate) fn add(&self, took: Duration) {
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let before = self.0.load(Ordering::Relaxed);
        let jump = before == 0 || nanos / 10 > before;
        let after = if jump { nanos } else { before - before / 8 + nanos / 8 };
        self.0.store(after, Ordering::Relaxed);
    }

    pub(crate) fn is_below(&self, bound: Duration) -> bool {
        u128::from(self.0.load(Ordering::Relaxed)) < bound.as_nanos()
    }
}

pub(crate) struct Disk {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) file: Arc<dyn MediumFile>,
    /// First record of the segment that is written.
    pub(crate) first: u64,
    /// Where its next record goes.
    pub(crate) offset: u64,
    /// How long the file is known to be.
    pub(crate) reserved: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) node: Name,
    pub(crate) node_id: NodeId,
    pub(crate) env: Env,
    pub(crate) segments: Segments,
    pub(crate) meters: Arc<Meters>,
    pub(crate) pace: Arc<Pace>,
    /// A batch that the disk refused.
    pub(crate) stuck: Option<Batch>,
    /// Keeps other processes out.
    pub(crate) lock: Option<Box<dyn Send + Sync>>,
}

impl Disk {
    fn write_failure(&self, action: &'static str, error: &std::io::Error) -> Failure {
        let name = format::segment_name(self.first);
        let path = format!("{}/{name}", self.medium.describe());
        Failure::Write(JournalError::io(action, &path, error))
    }

    fn sync(&self) -> Result<(), Failure> {
        let started = self.env.elapsed();
        let result = match crash::fault("journal.sync") {
            None => self.file.sync(),
            Some(error) => Err(error),
        };
        let took = self.env.elapsed().saturating_sub(started);
        self.meters.count_sync(took);
        self.pace.add(took);
        result.map_err(|error| Failure::Sync(error.to_string()))
    }

    /// Writes and syncs a batch, segment by segment. After `Failure::Write` the same batch may be
    /// given again: it goes on where it stopped.
    pub(crate) fn write(&mut self, batch: &mut Batch) -> Result<(), Failure> {
        loop {
            let end = batch.cuts.front().map_or(batch.bytes.len(), |cut| cut.at);
            let piece = batch.bytes.get(batch.done..end).unwrap_or_default();
            if !piece.is_empty() {
                let after = self.offset + piece.len() as u64;
                self.reserve(after)?;
                self.file
                    .write_at(self.offset, piece)
                    .map_err(|error| self.write_failure("write", &error))?;
                self.sync()?;
                self.offset = after;
                batch.done = end;
            }
            let Some(cut) = batch.cuts.front() else { return Ok(()) };
            self.rotate(cut)?;
            batch.cuts.pop_front();
        }
    }

    fn reserve(&mut self, wanted: u64) -> Result<(), Failure> {
        if wanted <= self.reserved {
            return Ok(());
        }
        let step = limits::RESERVE_BYTES.min(self.segment_bytes);
        let size = wanted.max((self.reserved + step).min(self.segment_bytes));
        self.file.reserve(size).map_err(|error| self.write_failure("enlarge", &error))?;
        self.reserved = size;
        Ok(())
    }

    /// Ends the present segment, which is durable as far as it is written, and begins the next.
    fn rotate(&mut self, cut: &Cut) -> Result<(), Failure> {
        self.file.truncate(self.offset).map_err(|error| self.write_failure("truncate", &error))?;
        self.reserved = self.offset;
        self.sync()?;
        let header = SegmentHeader {
            first: cut.first,
            created_us: self.env.now().micros(),
            node: self.node.to_string(),
            node_id: self.node_id,
            chain: cut.chain,
        };
        let file = recover::create_segment(&*self.medium, &header).map_err(|(action, error)| {
            if action == "sync" {
                Failure::Sync(error.to_string())
            } else {
                self.write_failure(action, &error)
            }
        })?;
        let mut segments = self.segments.lock();
        if let Some(segment) = segments.last_mut() {
            segment.end = Some(SegmentEnd { last: cut.first - 1, visible: cut.visible });
        }
        segments.push(Segment {
            first: cut.first,
            created_us: header.created_us,
            end: None,
            archived: false,
        });
        self.file = file;
        self.first = cut.first;
        self.offset = SEGMENT_HEADER as u64;
        self.reserved = self.offset;
        self.meters.count_rotation();
        Ok(())
    }

    /// Gives back what was reserved and not used. Only tidy: zeros behind the end do no harm.
    pub(crate) fn trim(&mut self) {
        if self.stuck.is_none() && self.file.truncate(self.offset).is_ok() {
            self.reserved = self.offset;
        }
    }

    /// Moves closed segments whose records are all released into the archive.
    pub(crate) fn archive(&self, released: u64) -> std::io::Result<()> {
        let due: Vec<Segment> = self
            .segments
            .lock()
            .iter()
            .filter(|segment| !segment.archived)
            .take_while(|segment| segment.end.is_some_and(|end| end.visible <= released))
            .cloned()
            .collect();
        for segment in &due {
            let name = format::segment_name(segment.first);
            let mut segments = self.segments.lock();
            self.medium.rename(&name, &format!("{ARCHIVE}/{name}"))?;
            for known in segments.iter_mut().filter(|known| known.first == segment.first) {
                known.archived = true;
            }
        }
        if !due.is_empty() {
            self.medium.sync_dir(ARCHIVE)?;
            self.medium.sync_dir("")?;
        }
        Ok(())
    }

    /// Archived segments whose newest record is older than `keep`, oldest first.
    pub(crate) fn expired(&self, keep: Duration) -> Vec<Segment> {
        let before = self.env.now().minus(keep).micros();
        let segments = self.segments.lock();
        // A segment's newest record is no newer than the segment after it.
        let pairs = segments.iter().zip(segments.iter().skip(1));
        pairs
            .take_while(|(segment, next)| segment.archived && next.created_us < before)
            .map(|(segment, _)| segment.clone())
            .collect()
    }

    /// Removes archived segments. Their going must be in the journal already.
    pub(crate) fn prune(&self, expired: &[Segment]) -> std::io::Result<()> {
        for segment in expired {
            self.medium.remove(&segment.path())?;
            self.segments.lock().retain(|known| known.first != segment.first);
        }
        self.medium.sync_dir(ARCHIVE)
    }
}
