//! Named limits of a session with a host.

use std::time::Duration;

/// Bytes that are read at a time.
pub const READ_BYTES: usize = 16 * 1024;
/// Pieces of what a host has sent that are taken in without waiting for more.
pub const READS_WITHOUT_WAITING: usize = 64;
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
/// Places of screens at which entities are looked up; the others are compared one by one.
pub const TELLING_PLACES: usize = 8;
/// Most findings that a check lists.
pub const FINDINGS: usize = 200;
/// Most records that one reading of a recordset gives.
pub const RECORDS: usize = 100_000;
/// Most operations on the way from one entity to another.
pub const WAYS: usize = 64;
/// The pause behind the first attempt to open a session that failed; each further one doubles it.
pub const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest pause between attempts to open a session.
pub const LONGEST_BACKOFF: Duration = Duration::from_secs(60);
/// Longest time for opening a session, in times of the patience for one wait.
pub const OPENING_WAITS: u32 = 5;
/// Requests to a pool that it has not looked at yet.
pub const ORDERS: usize = 1_024;
/// Sessions that a call is given in a row and finds ended.
pub const STALE_SESSIONS: usize = 1_000;
/// When a pool stops, its sessions have so long to come back and to be logged off.
pub const STOP_TIME: Duration = Duration::from_secs(10);
/// Longest time for which a client may wait for a screen.
pub const SCREEN_WAIT: Duration = Duration::from_secs(300);
/// Most memory of a regular expression of a model, compiled.
pub const REGEX_BYTES: usize = 256 * 1024;
/// What is recorded of one session takes no more memory, in bytes.
pub const DEBUG_BYTES: usize = 128 * 1024;
/// Records of sessions that wait until they are written.
pub const DEBUG_QUEUE: usize = 256;
/// Texts that are known as secrets of one session, besides those that it was given.
pub const DEBUG_SECRETS: usize = 100;
