//! Named limits of FTP sessions.

use std::time::Duration;

/// Bytes read of a control connection at once.
pub const CONTROL_BYTES: usize = 1024;
/// The data connection of a transfer must be there by then.
pub const CONNECT_TIME: Duration = Duration::from_secs(30);
/// A data connection that moves nothing for so long is cut.
pub const STALL_TIME: Duration = Duration::from_secs(120);
/// So long the end of the control connection is waited for when an upload in clear text has ended,
/// while its bytes are made durable. The two ends of a killed program were seen 16 µs apart on an
/// idle machine; on a busy one 0.1 ms was too short for up to 9 of 100, and 1 ms for none of 200.
pub const LAST_LOOK_TIME: Duration = Duration::from_millis(1);
/// A client that takes less from a reply to its next command is near, and neither it nor we are
/// busy.
pub const NEAR_TIME: Duration = Duration::from_millis(2);
/// As [`LAST_LOOK_TIME`], for such a client: the two ends of a killed program were 11 µs apart, and
/// never more than 64 µs of 400 with twenty programs at work on two processors (packet capture).
pub const NEAR_LOOK_TIME: Duration = Duration::from_micros(250);
/// An upload whose session does not get to saying by then whether its client is still there is cut:
/// nobody else may put a file under its name meanwhile.
pub const VERDICT_TIME: Duration = Duration::from_secs(5);
/// A client must have logged in by then.
pub const LOGIN_TIME: Duration = Duration::from_secs(60);
/// How often a client that waits for a digest or a tree gets a line, so that it keeps waiting.
pub const PATIENCE_INTERVAL: Duration = Duration::from_secs(5);
/// Bytes read of a file at once where sendfile cannot be used.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// Bytes that are compressed at once (MODE Z).
pub const DEFLATE_BYTES: usize = 16 * 1024;
/// Entries of a directory asked for at once.
pub const LISTING_PAGE: usize = 256;
/// Entries of a directory that are sorted before they are sent; of larger ones only so many.
pub const SORTED_ENTRIES: usize = 10_000;
/// Bytes of a listing that are gathered before they are sent.
pub const LISTING_BYTES: usize = 32 * 1024;
/// Directories below one another that `LIST -R`, RMDA and DSIZ go into.
pub const TREE_DEPTH: usize = 16;
/// Entries that RMDA and DSIZ look at.
pub const TREE_ENTRIES: usize = 100_000;
/// Names that STOU tries.
pub const UNIQUE_TRIES: usize = 16;
/// Bytes of a file that SIZE reads to count its form in ASCII.
pub const COUNTED_BYTES: u64 = 16 * 1024 * 1024;
/// What is left of the session when its connection is over must end by then.
pub const ENDING_TIME: Duration = Duration::from_secs(10);
/// The same where rules are to be informed of a file that is being published.
pub const TELLING_TIME: Duration = Duration::from_secs(600);

/// How much of an upload that was refused midway is still taken before the connection is reset.
pub const REFUSED_BYTES: usize = 16 * 1024 * 1024;
/// How long an upload that was refused midway is still taken before the connection is reset.
pub const REFUSED_TIME: Duration = Duration::from_secs(5);
