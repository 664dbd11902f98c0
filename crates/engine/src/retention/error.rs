//! What can keep retention from deleting.

use entrepot_db::DbError;
use entrepot_journal::JournalError;
use entrepot_nouns::Name;
use entrepot_proof::ProofError;

/// Result of retention.
pub(crate) type Result<T> = std::result::Result<T, RetentionError>;

/// Why something old is still there. Each but the end has a page in `docs/errors`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RetentionError {
    /// The node ends, or another one deletes.
    #[error("the node ends, or another one deletes")]
    Stopped,
    /// Events could not be exported, so they stay.
    #[error("events cannot be exported to the endpoint '{endpoint}': {problem}")]
    Export {
        /// Where they were to go.
        endpoint: Name,
        /// What it said.
        problem: String,
    },
    /// A row is not what was recorded: it stays as evidence, and all behind it.
    #[error(
        "the event of record {record} was changed in the database since it was recorded, nothing \
         from there on is deleted; run 'entrepot journal verify' and keep everything"
    )]
    Changed {
        /// Its record in the journal of this node.
        record: u64,
    },
    /// The trash cannot be looked up.
    #[error("the trash cannot be emptied of what is old: {0}")]
    Trash(String),
    /// Heads, tree or archive.
    #[error(transparent)]
    Proof(#[from] ProofError),
    /// The journal refused, or cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The database refused, or is away.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl RetentionError {
    /// The code under which `docs/errors` explains it; the end has none.
    pub(crate) fn code(&self) -> Option<&'static str> {
        Some(match self {
            RetentionError::Stopped => return None,
            RetentionError::Export { .. } => "EP0709",
            RetentionError::Changed { .. } => "EP0628",
            RetentionError::Trash(_) => "EP1092",
            RetentionError::Proof(error) => error.code(),
            RetentionError::Journal(error) => error.code(),
            RetentionError::Db(error) => error.code(),
        })
    }
}
