//! Points at which a test may end the engine, as a crash would: between every two effects.

use std::sync::Arc;

/// Where a job stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pause {
    /// The job is claimed, nothing is done.
    Claimed,
    /// The source is open, nothing is written.
    SourceOpen,
    /// The staged file exists at the target, empty.
    Staged,
    /// One block is written.
    BlockWritten,
    /// All is written, not synced.
    Written,
    /// All is synced, not visible.
    Synced,
    /// The file is visible at the target, or a server has answered; nothing says so yet.
    Published,
    /// The delivery is in the journal; the job does not know.
    Recorded,
    /// A file was renamed or removed; the job does not know.
    Changed,
    /// The job knows that the step is done.
    Advanced,
    /// The end of the job is in the journal; the database does not know.
    EndRecorded,
}

impl Pause {
    /// All points, in the order a delivery passes them.
    pub const ALL: [Pause; 11] = [
        Pause::Claimed,
        Pause::SourceOpen,
        Pause::Staged,
        Pause::BlockWritten,
        Pause::Written,
        Pause::Synced,
        Pause::Published,
        Pause::Recorded,
        Pause::Changed,
        Pause::Advanced,
        Pause::EndRecorded,
    ];

    /// The word, lower case.
    pub fn as_str(self) -> &'static str {
        match self {
            Pause::Claimed => "claimed",
            Pause::SourceOpen => "source-open",
            Pause::Staged => "staged",
            Pause::BlockWritten => "block-written",
            Pause::Written => "written",
            Pause::Synced => "synced",
            Pause::Published => "published",
            Pause::Recorded => "recorded",
            Pause::Changed => "changed",
            Pause::Advanced => "advanced",
            Pause::EndRecorded => "end-recorded",
        }
    }
}

/// Asked at each point. It may end the process; if it returns true, the job is dropped on the
/// spot: nothing more is written for it and its lease is left to run out.
pub type Pauses = Arc<dyn Fn(Pause) -> bool + Send + Sync>;
