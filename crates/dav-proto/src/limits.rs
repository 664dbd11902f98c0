//! Named limits of WebDAV.

use std::time::Duration;

/// Longest XML body of a request, bytes.
pub const BODY_BYTES: usize = 256 << 10;
/// How deep its elements may lie in each other.
pub const DEPTH: usize = 32;
/// Most elements of one body.
pub const ELEMENTS: usize = 4_096;
/// Longest If header, bytes.
pub const IF_BYTES: usize = 16 << 10;
/// Most conditions in one.
pub const IF_CONDITIONS: usize = 256;
/// Longest time for which a lock is given; its owner refreshes it.
pub const LOCK_TIME: Duration = Duration::from_secs(3_600);
/// The time of a lock whose owner asks for none.
pub const LOCK_TIME_DEFAULT: Duration = Duration::from_secs(600);
/// Most locks at a time.
pub const LOCKS: usize = 10_000;
/// Longest text of what a client says about itself in a lock, bytes.
pub const OWNER_BYTES: usize = 4 << 10;
