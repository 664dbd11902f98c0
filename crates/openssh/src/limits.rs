//! Named limits of what is read.

/// Most lines of one file that are looked at.
pub const LINES: usize = 100_000;
/// Most bytes of a line; longer ones are not read.
pub const LINE_BYTES: usize = 16 * 1024;
/// How deep configurations include each other (sshd's own limit).
pub const INCLUDE_DEPTH: usize = 16;
/// Most settings of a configuration, all its files together.
pub const SETTINGS: usize = 10_000;
