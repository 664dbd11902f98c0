//! What can go wrong with the journal.

/// Result of the journal.
pub type Result<T> = std::result::Result<T, JournalError>;

/// Why the journal refused or failed. Each has a page in `docs/errors`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JournalError {
    /// Too much waits to be projected into the database. Goes away when the database is back.
    #[error(
        "the journal is full: {used} of {limit} bytes wait for the database; \
         bring the database back, or raise the limit"
    )]
    Full {
        /// Bytes not yet released.
        used: u64,
        /// The configured limit in bytes.
        limit: u64,
    },
    /// More waits in memory than the disk takes. Goes away when the disk keeps up again.
    #[error(
        "the disk of the journal does not keep up, {pending} bytes wait to be written; \
         look at the disk's health and load"
    )]
    Behind {
        /// Bytes in memory.
        pending: u64,
    },
    /// A sync failed: what lies on the disk is unknown until the journal is opened again.
    #[error(
        "the journal is suspect since a sync failed ({problem}); nothing waiting was acknowledged; \
         check the disk, then restart this node"
    )]
    Suspect {
        /// What the system said.
        problem: String,
    },
    /// Another process has this journal open.
    #[error("the journal in '{dir}' is in use by another process; stop that one first")]
    Locked {
        /// The directory of the journal.
        dir: String,
    },
    /// Reading or writing failed. A failed write is tried again.
    #[error("the journal cannot {action} '{file}': {problem}")]
    Io {
        /// What was tried, such as `write`.
        action: &'static str,
        /// Path of the file, or what else could not be used.
        file: String,
        /// What the system said.
        problem: String,
    },
    /// Something that was durable has changed.
    #[error(
        "the journal is damaged: {problem} in '{segment}' at byte {offset}; \
         run 'entrepot journal verify' and restore the segment from a copy"
    )]
    Corrupt {
        /// File name of the segment.
        segment: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        problem: String,
    },
    /// The end was not written whole and was not to be changed, see [`crate::TornEnd`].
    #[error(
        "the journal ends in {bytes} torn bytes in '{segment}', cut before they were \
         acknowledged; nothing was changed; run 'entrepot migrate', or start the server"
    )]
    Torn {
        /// File name of the segment.
        segment: String,
        /// How many bytes follow the last whole record.
        bytes: u64,
    },
    /// The caller asked for a record that is no longer, or not yet, there.
    #[error("the journal begins at record {first}, record {wanted} was asked for")]
    Gone {
        /// First record that is there.
        first: u64,
        /// First record that was asked for.
        wanted: u64,
    },
    /// The payload is longer than any fact may be.
    #[error("a record of {size} bytes is longer than the journal takes ({limit})")]
    TooLong {
        /// Its size in bytes.
        size: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// There is nothing to verify: not one segment. Of a journal whose segments were all removed
    /// nothing else is left to see.
    #[error(
        "there is no journal in '{dir}'; give the folder 'journal' of a data directory, or a copy \
         of it"
    )]
    NoJournal {
        /// The folder that was asked about.
        dir: String,
    },
    /// The journal was closed.
    #[error("the journal is closed, the node is stopping")]
    Closed,
}

impl JournalError {
    /// The code of its page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            JournalError::Full { .. } => "EP0601",
            JournalError::Suspect { .. } => "EP0602",
            JournalError::Locked { .. } => "EP0603",
            JournalError::Io { .. } => "EP0604",
            JournalError::Corrupt { .. } => "EP0605",
            JournalError::Behind { .. } => "EP0606",
            JournalError::Gone { .. } => "EP0607",
            JournalError::TooLong { .. } => "EP0608",
            JournalError::Closed => "EP0609",
            JournalError::NoJournal { .. } => "EP0610",
            JournalError::Torn { .. } => "EP0291",
        }
    }

    /// True if the same call may succeed later without anyone restarting the node.
    pub fn is_temporary(&self) -> bool {
        matches!(
            self,
            JournalError::Full { .. } | JournalError::Behind { .. } | JournalError::Io { .. }
        )
    }

    pub(crate) fn io(action: &'static str, file: &str, error: &std::io::Error) -> Self {
        JournalError::Io { action, file: file.to_owned(), problem: error.to_string() }
    }
}
