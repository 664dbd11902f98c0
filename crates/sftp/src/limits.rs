//! Named limits of SFTP sessions.

use std::time::Duration;

/// Runs of READs that wait for the client's window on one channel.
pub const PARKED_RUNS: usize = 4096;
/// Bytes of answers made in one call of the session task.
pub const ANSWER_BYTES: u64 = 8 * 1024 * 1024;
/// The same for a client that is throttled as far as can be.
pub const LEAST_ANSWER_BYTES: u64 = 64 * 1024;
/// Bytes of answers that are not READs kept for a client that takes none.
pub const OWED_BYTES: u64 = 8 * 1024 * 1024;
/// Bytes of a channel that wait for its own task.
pub const QUEUE_BYTES: usize = 8 * 1024 * 1024;
/// Bytes of answers waiting to be sent before a channel's own task makes no more of READs.
pub const OUTBOX_BYTES: u64 = 1024 * 1024;
/// Entries of a directory asked of the vfs at a time.
pub const LISTING_PAGE: usize = 128;
/// At the end of a session, its tasks get so long to end by themselves.
pub const ENDING_TIME: Duration = Duration::from_secs(10);
/// A throttled client is given no more answers at once than it takes in this time.
pub const THROTTLED_ANSWER_TIME: Duration = Duration::from_secs(8);
/// Block size told by `statvfs@openssh.com`.
pub const STATVFS_BLOCK_BYTES: u64 = 4096;
/// Pieces of a channel that wait for its own task.
pub const QUEUE_PIECES: usize = 1024;
/// Files named in one hash command.
pub const HASH_PATHS: usize = 1000;
/// Names that a pattern of `scp -f` may stand for.
pub const GLOB_NAMES: usize = 10_000;
/// Directories within each other that SCP carries.
pub const SCP_DEPTH: usize = 128;
/// Links to directories that one copy of SCP goes into.
pub const SCP_LINKED: usize = 1_000;
/// Bytes of a file that SCP sends at a time.
pub const SCP_BLOCK_BYTES: usize = 128 * 1024;
/// Blocks of SCP that are used in turn: more than wait at a time, see [`OUTBOX_BYTES`].
pub const SCP_BLOCKS: usize = 16;
/// Bytes that a client may send a source before they are asked for.
pub const EARLY_BYTES: usize = 64 * 1024;
/// Bytes of hashes in one answer.
pub const HASH_ANSWER_BYTES: u64 = 240_000;
