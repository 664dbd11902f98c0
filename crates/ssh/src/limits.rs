//! Named limits of SSH connections. Those of all connections before login are `net`'s.

use std::time::Duration;

// Before login.

/// A client must have sent its identification line by then.
pub const IDENTIFICATION_TIME: Duration = Duration::from_secs(10);
/// Longest identification line (RFC 4253 §4.2), CR LF included.
pub const IDENTIFICATION_BYTES: usize = 255;
/// A client's KEXINIT is waited for so long behind its identification line before ours is sent.
pub const KEXINIT_PATIENCE: Duration = Duration::from_millis(200);
/// Longest `packet_length` before NEWKEYS (RFC 4253 §6.1 asks for 35,000 to be accepted).
pub const CLEAR_PACKET_BYTES: u32 = 35_000;
/// A client must have logged in by then; the time in which its credentials are checked is ours.
pub const LOGIN_TIME: Duration = Duration::from_secs(30);
/// Wrong passwords on one connection.
pub const WRONG_PASSWORDS: u32 = 3;
/// Rounds of keyboard-interactive without a right answer.
pub const INTERACTIVE_ROUNDS: u32 = 3;
/// Keys a client may have accepted without signing with one (accepted probes count no attempt).
pub const ACCEPTED_PROBES: u32 = 20;
/// Refused attempts of any method on one connection.
pub const LOGIN_ATTEMPTS: usize = 10;

// Channels and keys.

/// Channels of one connection at once (`MaxSessions` of OpenSSH).
pub const CHANNELS: usize = 10;
/// Channels of one connection in its life: russh keeps 3.3 KiB of each until the end.
pub const CHANNELS_EVER: u32 = 10_000;
/// Receive window of a channel, both roles.
pub const WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Largest packet a channel takes, both roles.
pub const PACKET_BYTES: u32 = 65_536;
/// Messages of tasks waiting for the session loop.
pub const EVENT_QUEUE: usize = 16;
/// Bytes under one key and one direction; never more, for tiny packets could repeat a nonce.
pub const REKEY_BYTES: usize = 1 << 30;
/// Longest use of one key.
pub const REKEY_TIME: Duration = Duration::from_secs(3600);

// Silence.

/// A silent connection is asked whether it still lives.
pub const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// Questions without an answer before it is given up.
pub const KEEPALIVE_COUNT: usize = 3;
/// Nothing read and a write stuck for so long: the connection is given up.
pub const INACTIVITY_TIME: Duration = Duration::from_secs(300);

// Buffers.

/// Read buffer of a connection, held only while bytes are in it.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Empty read buffers kept by each thread.
pub const POOLED_BUFFERS: usize = 16;

// As a client.

/// Time to shake hands and log in as a client, each.
pub const CLIENT_TIME: Duration = Duration::from_secs(30);
/// Our own keepalive as a client.
pub const CLIENT_KEEPALIVE_TIME: Duration = Duration::from_secs(15);
