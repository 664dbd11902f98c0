//! What can go wrong with heads and receipts.

use entrepot_crypto::NoteError;
use entrepot_db::DbError;
use entrepot_journal::JournalError;
use entrepot_nouns::{Name, TransferId};
use uuid::Uuid;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, ProofError>;

/// Why a head or a receipt cannot be made, or is not taken. Each has a page in `docs/errors`.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The files of the tree cannot be used.
    #[error("the hash tree in '{folder}' cannot be used: {problem}")]
    Tree {
        /// The folder that holds them.
        folder: String,
        /// What the system said.
        problem: String,
    },
    /// A head says that the journal was longer than the tree is.
    #[error("the hash tree has {size} records, a head covers {wanted}")]
    TreeTooShort {
        /// The last record that the head covers.
        wanted: u64,
        /// The last record of the tree.
        size: u64,
    },
    /// The journal is not the one of the last signed head.
    #[error(
        "the journal does not agree with the head that this node signed at record {size}: its \
         records were changed, cut or replaced; run 'entrepot journal verify' and keep everything"
    )]
    Forked {
        /// The last record that the head covers.
        size: u64,
    },
    /// The journal skipped more numbers than the tree is filled up for.
    #[error("the journal skips from record {after} to {up_to}, too far for its tree")]
    Gap {
        /// The last record before the gap.
        after: u64,
        /// The record behind it.
        up_to: u64,
    },
    /// No event of the transfer says that a file arrived or left.
    #[error("the transfer {0} has no event that a receipt could be made of")]
    NoFact(TransferId),
    /// The event is not covered by a signed head yet.
    #[error("no signed head covers the transfer {0} yet; try again in a few seconds")]
    NotCovered(TransferId),
    /// Another node has the journal with the event.
    #[error("the transfer {transfer} was recorded by the node '{node}'; ask that node")]
    Elsewhere {
        /// What a receipt was asked for.
        transfer: TransferId,
        /// The node that has its event.
        node: Name,
    },
    /// What is about to be deleted does not agree with what was signed, or with the table.
    #[error("record {record} of the archive must stay as evidence: {problem}")]
    Evidence {
        /// Where they differ.
        record: u64,
        /// What is wrong.
        problem: String,
    },
    /// A stub of retention is not what it should be.
    #[error("a stub of retention is not valid: {0}")]
    Stub(String),
    /// A sink did not take heads, or a file of heads cannot be read.
    #[error("the sink '{sink}': {problem}")]
    Sink {
        /// What it is called.
        sink: String,
        /// What it said.
        problem: String,
    },
    /// A receipt is not what it should be.
    #[error("this receipt is not valid: {0}")]
    Receipt(String),
    /// Nothing is known of a message of AS2 that evidence could be made of.
    #[error(
        "the message {0} has no event that evidence could be made of: it is on its way, or its \
         event was deleted"
    )]
    NoMessage(Uuid),
    /// Evidence of a message of AS2 is not what it should be.
    #[error("this evidence cannot be read: {0}")]
    Bundle(String),
    /// A note or key is not what it should be.
    #[error(transparent)]
    Note(#[from] NoteError),
    /// The journal refused, or cannot be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The database refused, or is away.
    #[error(transparent)]
    Db(#[from] DbError),
}

impl ProofError {
    pub(crate) fn tree(folder: &str, error: &std::io::Error) -> Self {
        ProofError::Tree { folder: folder.to_owned(), problem: error.to_string() }
    }

    /// The code under which `docs/errors` explains it.
    pub fn code(&self) -> &'static str {
        match self {
            ProofError::Tree { .. } | ProofError::TreeTooShort { .. } | ProofError::Gap { .. } => {
                "EP0620"
            }
            ProofError::Forked { .. } => "EP0621",
            ProofError::NoFact(_) => "EP0622",
            ProofError::NotCovered(_) => "EP0623",
            ProofError::Elsewhere { .. } => "EP0624",
            ProofError::Receipt(_) | ProofError::Note(_) => "EP0625",
            ProofError::NoMessage(_) => "EP1219",
            ProofError::Bundle(_) => "EP1220",
            ProofError::Evidence { .. } => "EP0628",
            ProofError::Stub(_) => "EP0629",
            ProofError::Sink { .. } => "EP0630",
            ProofError::Journal(error) => error.code(),
            ProofError::Db(error) => error.code(),
        }
    }
}
