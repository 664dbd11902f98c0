//! Named limits of connections.

use std::time::Duration;

/// Connections the kernel keeps for us until they are accepted.
pub const LISTEN_BACKLOG: u32 = 1024;
/// Pause after `accept` failed for want of descriptors or memory.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A listed proxy must have sent its PROXY header by then.
pub const PROXY_TIME: Duration = Duration::from_secs(10);
/// Longest rest of a PROXY header behind its fixed part.
pub const PROXY_HEADER_BYTES: usize = 4096;
/// Connections of proxies whose header has not come.
pub const PROXIES_WAITING: usize = 512;
/// Connections that have not logged in, in all.
pub const STRANGERS: usize = 512;
/// Connections that have not logged in, of one address (IPv6: one /64).
pub const STRANGERS_PER_ADDRESS: usize = 64;
/// Addresses that are remembered because somebody logged in from there.
pub const KNOWN_ADDRESSES: usize = 10_000;
/// A client must have sent its identification line by then.
pub const IDENTIFICATION_TIME: Duration = Duration::from_secs(10);
/// A client's KEXINIT is waited for so long behind its identification line before ours is sent.
pub const KEXINIT_PATIENCE: Duration = Duration::from_millis(200);
/// A client must have logged in by then.
pub const LOGIN_TIME: Duration = Duration::from_secs(30);
/// Bytes received before login.
pub const STRANGER_BYTES: u64 = 256 * 1024;
/// Longest `packet_length` before NEWKEYS (RFC 4253 §6.1 asks for 35,000 to be accepted).
pub const CLEAR_PACKET_BYTES: u32 = 35_000;
/// Longest identification line (RFC 4253 §4.2), CR LF included.
pub const IDENTIFICATION_BYTES: usize = 255;
/// Wrong passwords on one connection.
pub const WRONG_PASSWORDS: u32 = 3;
/// Rounds of keyboard-interactive without a right answer.
pub const INTERACTIVE_ROUNDS: u32 = 3;
/// Keys a client may have accepted without signing with one (accepted probes count no attempt).
pub const ACCEPTED_PROBES: u32 = 20;
/// Refused attempts of any method on one connection.
pub const LOGIN_ATTEMPTS: usize = 10;

/// Channels of one connection at once (`MaxSessions` of OpenSSH).
pub const CHANNELS: usize = 10;
/// Channels of one connection in its life: russh keeps 3.3 KiB of each until the end.
pub const CHANNELS_EVER: u32 = 10_000;
/// Receive window of a channel, both roles.
pub const WINDOW_BYTES: u32 = 16 * 1024 * 1024;
/// Largest packet a channel takes, both roles.
pub const PACKET_BYTES: u32 = 65_536;
/// Bytes under one key and one direction; never more, for tiny packets could repeat a nonce.
pub const REKEY_BYTES: usize = 1 << 30;
/// Longest use of one key.
pub const REKEY_TIME: Duration = Duration::from_secs(3600);
/// A silent connection is asked whether it still lives.
pub const KEEPALIVE_TIME: Duration = Duration::from_secs(60);
/// Questions without an answer before it is given up.
pub const KEEPALIVE_COUNT: usize = 3;
/// Nothing read and a write stuck for so long: the connection is given up.
pub const INACTIVITY_TIME: Duration = Duration::from_secs(300);
/// Between telling the client why its connection ends and cutting it.
pub const FAREWELL_TIME: Duration = Duration::from_millis(500);
/// A transfer may be slower than the least rate for so long.
pub const PACE_TIME: Duration = Duration::from_secs(60);
/// How often its pace is looked at.
pub const PACE_INTERVAL: Duration = Duration::from_secs(10);
/// How often a draining server looks whether a connection has become idle.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);
/// Messages of tasks waiting for the session loop.
pub const EVENT_QUEUE: usize = 16;

/// Read buffer of a connection, held only while bytes are in it.
pub const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Empty read buffers kept by each thread.
pub const POOLED_BUFFERS: usize = 16;
/// Least rate of a throttle, bytes a second.
pub const LEAST_RATE: u64 = 1024;
/// Most bytes that a throttled session moves before others have their turn.
pub const TURN_BYTES: usize = 64 * 1024;
/// Longest wait of a throttled stream before it looks at the rate again.
pub const THROTTLE_SLICE: Duration = Duration::from_millis(250);

/// Time to reach a peer.
pub const DIAL_TIME: Duration = Duration::from_secs(15);
/// Time to shake hands and log in as a client, each.
pub const CLIENT_TIME: Duration = Duration::from_secs(30);
/// Addresses of one name that are tried.
pub const DIAL_ADDRESSES: usize = 8;
/// Our own keepalive as a client.
pub const CLIENT_KEEPALIVE_TIME: Duration = Duration::from_secs(15);
