//! Named limits of the FTP machines.

/// Longest line on the control connection, without its end.
pub const LINE_BYTES: usize = 8192;
/// Commands kept during a transfer, in bytes; then the control connection is not read.
pub const KEPT_BYTES: usize = 8192;
/// Replies that wait to be written; above it no further command runs and none is read.
pub const OUTPUT_BYTES: usize = 65_536;
/// A buffer larger than this is given back by `Server::shrink` when it is empty.
pub const KEPT_BUFFER_BYTES: usize = 512;
/// Most lines of one reply to `STAT path`.
pub const STAT_LINES: usize = 1000;
/// Longest path in bytes (`PATH_MAX`).
pub const PATH_BYTES: usize = 4096;
/// Longest component of a path in bytes (`NAME_MAX`).
pub const COMPONENT_BYTES: usize = 255;
/// Most parts of one COMB.
pub const COMB_PARTS: usize = 256;
/// Longest name of a user, password or account in bytes.
pub const CREDENTIAL_BYTES: usize = 1024;
/// Steps a pattern may take for one name.
pub const PATTERN_STEPS: usize = 65_536;
/// Notices that wait for the adapter; above it no further command runs.
pub const REQUESTS: usize = 64;
/// Most lines of one reply a client takes.
pub const REPLY_LINES: usize = 1024;
/// Most `1yz` replies to one command a client takes.
pub const PRELIMINARY_REPLIES: usize = 16;
/// Bytes that a compressed upload gives at once.
pub const INFLATE_BYTES: usize = 64 * 1024;
/// Bytes that a compressed upload gives at most for each byte that came.
pub const INFLATE_RATIO: u64 = 200;
/// A compressed upload up to so many bytes may be of any ratio.
pub const INFLATE_FREE_BYTES: u64 = 16 * 1024 * 1024;
