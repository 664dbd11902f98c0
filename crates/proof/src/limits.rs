//! Named limits of this crate.

use std::time::Duration;

/// Files of the tree, eight levels each: enough for every record number there can be.
pub const TREE_LEVELS: u32 = 8;
/// Most leaves that are appended to the tree at a time.
pub const LEAVES: usize = 16_384;
/// Most numbers between two records of the journal that the tree is filled up for.
pub const GAP: u64 = 16 * 1024 * 1024;
/// How often the head of a journal that grows is signed. Between two heads the table of events is
/// the copy against which the journal is compared.
pub const HEAD_INTERVAL: Duration = Duration::from_secs(5);
/// How long a receipt waits for a head that covers its event.
pub const RECEIPT_WAIT: Duration = Duration::from_secs(20);
/// Rows of the table of events that are compared with the journal at a time.
pub const COMPARED_ROWS: u32 = 1_000;
/// Batches of records of that size that were read and not yet compared.
pub const COMPARED_BATCHES: usize = 4;
/// Most findings of one comparison that are kept; the rest is only counted.
pub const FINDINGS: usize = 100;
/// Largest receipt that is read.
pub const RECEIPT_BYTES: u64 = 4 * 1024 * 1024;
/// Largest evidence of a message of AS2 that is read.
pub const EVIDENCE_BYTES: u64 = 16 * 1024 * 1024;
/// Stubs of retention that are read at a time.
pub const STUB_PAGE: u32 = 1_000;
/// Events without a row, because retention deleted it, that are remembered: the same event may
/// stand in the journal again a little later, after a crash.
pub const PRUNED_REMEMBERED: usize = 200_000;
/// Most heads that are sent to a sink at a time.
pub const SINK_BATCH: u32 = 100;
/// How often it is looked whether there are heads to send.
pub const SINK_POLL: Duration = Duration::from_secs(5);
/// The first pause after a sink refused; each following one is twice as long.
pub const SINK_FIRST_PAUSE: Duration = Duration::from_secs(10);
/// The longest such pause.
pub const SINK_LONGEST_PAUSE: Duration = Duration::from_secs(300);
/// Largest file of heads that is compared.
pub const HEADS_FILE_BYTES: u64 = 1 << 30;
/// How often a comparison reads the stubs again because retention went on meanwhile.
pub const STUB_RELOADS: u32 = 100;
