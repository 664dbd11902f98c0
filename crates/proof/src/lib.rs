//! Proofs of the audit log: signed heads of a node's journal, receipts of transfers, and the
//! comparison of journal, heads and table of events.
//!
//! Over the records of the journal stands a Merkle tree (RFC 9162 §2.1). A **head** is the root of
//! that tree at some length, signed by the node (C2SP `tlog-checkpoint`): a few lines of text that
//! commit to every record before. Heads are kept in the database and can be kept anywhere else. A
//! **receipt** is an event with the path that leads from it to the root of a signed head: it can be
//! verified without the node, its journal or its database.
//!
//! | what | code |
//! | --- | --- |
//! | hashes of the tree, in files | `tree.rs` |
//! | what a record is to the tree | `leaves.rs` |
//! | signs heads while the node runs | `heads.rs` |
//! | sends heads elsewhere | `sinks.rs` |
//! | makes and verifies receipts | `receipt.rs` |
//! | the evidence of a message of AS2 in one file | `as2_evidence.rs`, `as2_evidence/` |
//! | compares journal, heads and table | `comparison.rs` |
//! | what stays of what retention deleted | `stub.rs`, `archive.rs` |

mod archive;
mod as2_evidence;
mod comparison;
mod error;
mod heads;
mod leaves;
pub mod limits;
mod receipt;
mod sinks;
mod stub;
#[cfg(test)]
mod tests;
mod tree;

pub use archive::signers;
pub use as2_evidence::{As2Bundle, As2Check, As2Parts, SignedFile};
pub use comparison::{Compared, Comparison, Finding, compare};
pub use error::{ProofError, Result};
pub use heads::{HeadParts, Heads, SinkMeters, check_end, origin};
pub use receipt::{Receipt, VerifiedReceipt};
pub use sinks::{HeadSink, SentHead, SinkTask, read_heads};
pub use stub::{ArchiveStub, EventNumbers, EventsStub};
