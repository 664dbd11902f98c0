//! The durable part of the journal, which readers follow.

use std::sync::Arc;

use tokio::sync::watch;

use crate::disk::Segments;
use crate::error::JournalError;
use crate::medium::Medium;

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
