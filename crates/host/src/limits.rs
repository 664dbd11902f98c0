//! Named limits of a session with a host.

/// Bytes that are read at a time.
pub const READ_BYTES: usize = 16 * 1024;
/// Longest action of a script, in bytes.
pub const ACTION_BYTES: usize = 4096;
