//! The node's append-only, hash-chained, group-committed record of facts: written before anyone
//! is told.
//!
//! What it guarantees:
//! 1. A record that [`Journal::append_durable`] or [`Journal::sync`] answered for is found, whole
//!    and in its place, after any crash or power cut.
//! 2. A sync that failed is never repeated into a success: nothing waiting is acknowledged, and
//!    the journal takes nothing more until it is opened, and proven, anew.
//! 3. Each record carries the hash of all before it; [`verify`] finds any that was changed,
//!    dropped or swapped.
//! 4. What cannot be read is cut only at the very end, only if no sync ever covered it, and is
//!    kept in `torn/`. Anything else is damage: the journal does not open.
//!
//! It knows payloads as bytes only. Format: `format.rs`; recovery: `recover.rs`; who syncs:
//! `journal.rs`.

mod account;
mod copy;
mod disk;
mod error;
mod format;
mod journal;
pub mod limits;
mod medium;
mod meters;
mod reader;
mod recorder;
mod recover;
mod scan;
mod state;
mod verify;
mod written;

pub use copy::{CopiedFile, copy};
pub use error::{JournalError, Result};
pub use format::{RecordKind, skipped_after};
pub use journal::{Journal, Options, Usage};
pub use medium::{FsMedium, Medium, MediumFile};
pub use meters::{Meters, SYNC_BUCKETS_US};
pub use reader::{Reader, Record};
pub use recorder::{Recorder, Scope};
pub use recover::{Recovered, TornEnd};
pub use verify::{Finding, Head, Report, Visited, verify, verify_on};
pub use written::ArchivedSegment;
