//! The durable part of the journal, which readers follow.

use std::sync::Arc;

use entrepot_nouns::Timestamp;
use tokio::sync::watch;

use crate::disk::Segments;
use crate::error::{JournalError, Result};
use crate::medium::Medium;

/// A segment that was moved to the archive: all of its records are projected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedSegment {
    /// Its first record.
    pub first: u64,
    /// Its last record.
    pub last: u64,
    /// Size of its file.
    pub bytes: u64,
    /// Its newest record is no newer than this.
    pub newest: Timestamp,
}

/// How far records are durable.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    pub(crate) durable: u64,
    /// Why nothing more will become durable.
    pub(crate) ended: Option<JournalError>,
}

/// The segments, and how far they are durable.
pub(crate) struct Written {
    pub(crate) medium: Arc<dyn Medium>,
    pub(crate) segments: Segments,
    pub(crate) progress: watch::Sender<Progress>,
}

impl Written {
    /// The segments of the archive, oldest first, with the sizes of their files.
    pub(crate) fn archived(&self) -> Result<Vec<ArchivedSegment>> {
        let segments = self.segments.lock().clone();
        let pairs = segments.iter().zip(segments.iter().skip(1));
        let archived = pairs.filter(|(segment, _)| segment.archived);
        archived
            .map(|(segment, next)| {
                let path = segment.path();
                let size = self.medium.open(&path).and_then(|file| file.size());
                let bytes = size.map_err(|error| JournalError::io("read", &path, &error))?;
                Ok(ArchivedSegment {
                    first: segment.first,
                    last: next.first - 1,
                    bytes,
                    newest: Timestamp(next.created_us),
                })
            })
            .collect()
    }
}
