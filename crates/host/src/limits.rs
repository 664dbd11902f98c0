//! Named limits of a session with a host.

/// Bytes that are read at a time.
pub const READ_BYTES: usize = 16 * 1024;
/// Longest action of a script, in bytes.
pub const ACTION_BYTES: usize = 4096;
/// Longest line that is typed on a network virtual terminal of a player, in bytes.
pub const LINE_BYTES: usize = 1024;
/// How many clients a player takes at once, unless it is told otherwise.
pub const CLIENTS: usize = 20_000;
/// What a client of a player may send while its answer is held back, in bytes.
pub const WAITING_BYTES: usize = 64 * 1024;
/// Longest file of a model, in bytes.
pub const MODEL_BYTES: usize = 1 << 20;
/// Most findings that a check lists.
pub const FINDINGS: usize = 200;
/// Most records that one reading of a recordset gives.
pub const RECORDS: usize = 100_000;
/// Most operations on the way from one entity to another.
pub const WAYS: usize = 64;
