//! Named limits of the journal.

use std::time::Duration;

/// Longest payload of one record.
pub const PAYLOAD_BYTES: usize = 1024 * 1024;
/// Most bytes of records that wait in memory for the disk; beyond, appending is refused.
pub const PENDING_BYTES: usize = 32 * 1024 * 1024;
/// Most bytes that a caller writes and syncs itself; more is left to the flusher.
pub const INLINE_BYTES: usize = 256 * 1024;
/// A segment file grows by this much at a time, so that most syncs change no file size.
pub const RESERVE_BYTES: u64 = 4 * 1024 * 1024;
/// How long the flusher waits after a failed write before it tries that write again.
pub const WRITE_RETRY: Duration = Duration::from_millis(250);
/// Facts about what has already happened may pass the limit by this part of it; intents not.
pub const HEADROOM_PART: u64 = 8;
/// What was appended and not released is counted in steps of at least this many bytes.
pub const ACCOUNT_BYTES: u64 = 64 * 1024;
/// Bytes a scan reads at a time.
pub const SCAN_BYTES: usize = 64 * 1024;
/// Most findings of one verification; the rest is only counted.
pub const FINDINGS: usize = 100;
/// Most records of one batch of a reader.
pub const BATCH_RECORDS: usize = 65_536;
/// Most payload bytes of one batch of a reader; always at least one record.
pub const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Archived segments are kept at least this long after their newest record: a database that is
/// restored from a backup, or that falls back at a failover, gets from them what it misses.
pub const ARCHIVE_KEEP_LEAST: Duration = Duration::from_secs(72 * 3600);
