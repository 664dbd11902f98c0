//! Named limits of the load generator.

use std::time::Duration;

/// Longest wait for one answer of the server under test.
pub const ANSWER_TIME: Duration = Duration::from_secs(120);
/// Most streams, sessions or logins at a time.
pub const CONCURRENCY: usize = 10_000;
/// How long idle sessions rest before the server's memory is read.
pub const IDLE_REST: Duration = Duration::from_secs(2);
/// Bytes of the pattern that uploads repeat.
pub const PATTERN_BYTES: usize = 1 << 20;
/// Time to reach the server under test.
pub const CONNECT_TIME: Duration = Duration::from_secs(30);
/// Bytes the WAN relay reads at a time.
pub const RELAY_READ_BYTES: usize = 128 * 1024;
/// What may wait for the relay's line, besides what is on its way.
pub const QUEUE_TIME: Duration = Duration::from_millis(20);
/// Bytes on their way in one direction, at most.
pub const QUEUE_BYTES: u64 = 64 * 1024 * 1024;
/// Least size of a mixed file before it is divided.
pub const MIXED_LEAST_MB: u64 = 10;
/// Largest size of a mixed file before it is divided.
pub const MIXED_MOST_MB: u64 = 950;
/// Groups of the mixed table, upper bounds excluded.
pub const MIXED_GROUPS_MB: [(u64, u64); 4] = [(10, 100), (100, 250), (250, 500), (500, 951)];
/// Concurrent logins where many connections are opened: servers refuse many unauthenticated
/// connections of one address.
pub const CONNECTING: usize = 16;
/// What a large file may take besides the time of any other transfer: bytes a second at least.
pub const LEAST_RATE: u64 = 8 << 20;
/// Failures in a row after which a user gives up. Who hangs gives up at once.
pub const FAILURES_IN_A_ROW: u64 = 3;
/// Sentences about failures in a report.
pub const FAILURES_TOLD: usize = 5;
/// Read buffer of an FTP control connection.
pub const CONTROL_BYTES: usize = 2048;
/// Bytes of one piece of the body of a request of HTTP, and of what the bare server of FTP reads.
pub const BODY_PIECE_BYTES: usize = 256 * 1024;
/// Bytes that a server of HTTP/2 may send ahead in one answer.
pub const STREAM_WINDOW: u32 = 16 << 20;
/// The same for all answers of a connection.
pub const CONNECTION_WINDOW: u32 = 64 << 20;
/// Largest frame of HTTP/2 that is taken.
pub const FRAME_BYTES: u32 = 1 << 20;
/// Bytes of a request of HTTP/2 that wait for the connection.
pub const SEND_BYTES: usize = 2 << 20;
/// Sizes that the uploads of a crowd have, in megabytes, each as often as the others.
pub const CROWD_MB: [u64; 4] = [10, 25, 50, 100];
/// How long is waited before a server is asked again for an upload that it still holds locked.
pub const LOCKED_PAUSE: Duration = Duration::from_millis(50);
/// How often the end of an upload that was cut is sent before it counts as failed.
pub const TUS_TRIES: u32 = 5;
/// Bytes of a block of a file that a bare server holds.
pub const BLOCK_BYTES: usize = 1 << 20;
/// Largest file that a bare server takes.
pub const BARE_FILE_BYTES: u64 = 16 << 30;
/// Bytes of files that the bare server of SFTP makes ready to send at a time.
pub const BARE_ANSWER_BYTES: usize = 8 << 20;
/// READs that wait there until the client takes more; one that asks for still more is cut off.
pub const BARE_READS_WAITING: usize = 65_536;
/// Largest message of AS2: it is held in memory.
pub const AS2_MESSAGE_BYTES: usize = 1 << 30;
/// Bytes of a payload that are worked on at a time.
pub const AS2_PIECE_BYTES: usize = 64 * 1024;
/// Bytes of the largest receipt that is read.
pub const AS2_RECEIPT_BYTES: usize = 256 * 1024;
/// Random characters of a boundary between parts.
pub const AS2_BOUNDARY_CHARACTERS: usize = 24;
/// Windows that a soak is divided into, or more: the first sixth is not looked at, the last third
/// is held against the third that follows on it.
pub const SOAK_WINDOWS: u32 = 12;
/// Longest window of a soak: what a loopback has received is removed after each, so that it does
/// not fill the disk.
pub const SOAK_WINDOW: Duration = Duration::from_secs(30);
/// How many times as much memory the server may have at the end of a soak.
pub const DRIFT_MEMORY: f64 = 1.25;
/// Growth of memory that is no drift.
pub const DRIFT_MEMORY_BYTES: u64 = 32 << 20;
/// How many times as long half of the messages may take at the end of a soak.
pub const DRIFT_LATENCY: f64 = 1.5;
/// Growth of that time that is no drift, in milliseconds.
pub const DRIFT_LATENCY_MS: f64 = 5.0;
/// How many times as many handles the server may have at the end of a soak.
pub const DRIFT_HANDLES: f64 = 1.1;
/// Growth of handles that is no drift.
pub const DRIFT_HANDLES_COUNT: u64 = 32;
