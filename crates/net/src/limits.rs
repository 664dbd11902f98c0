//! Named limits of connections.

use std::time::Duration;

// Listening, and proxies in front.

/// Connections the kernel keeps for us until they are accepted.
pub const LISTEN_BACKLOG: u32 = 4096;
/// Pause after `accept` failed for want of descriptors or memory.
pub const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// Of so many such failures in a row the log has one: about a minute's.
pub const ACCEPT_FAILURES_LOGGED: u32 = 1200;
/// Connections of proxies whose header has not come.
pub const PROXIES_WAITING: usize = 512;
/// A listed proxy must have sent its PROXY header by then.
pub const PROXY_TIME: Duration = Duration::from_secs(10);
/// Longest rest of a PROXY header behind its fixed part.
pub const PROXY_HEADER_BYTES: usize = 4096;

// Connections that have not logged in.

/// Connections that have not logged in, in all.
pub const UNAUTHENTICATED: usize = 512;
/// Connections that have not logged in, of one address (IPv6: one /64): a company behind NAT logs
/// in at once when it has lost its connections.
pub const UNAUTHENTICATED_PER_ADDRESS: usize = 256;
/// Connections whose credentials are being checked, and which therefore do not count among those
/// that have not logged in; more of them count all the same.
pub const CHECKED: usize = 512;
/// A connection that has got no further for so long before its login gives way to a newcomer.
pub const STALLED_TIME: Duration = Duration::from_secs(3);
/// Addresses that are remembered because somebody logged in from there.
pub const KNOWN_ADDRESSES: usize = 10_000;
/// Bytes received before login.
pub const UNAUTHENTICATED_BYTES: u64 = 256 * 1024;
/// How exactly the time to log in is measured.
pub const LOGIN_TICK: Duration = Duration::from_secs(1);
/// Connections that gave way and are being told so; one more is cut without a word.
pub const FAREWELLS: usize = 64;
/// Refused newcomers whose end is waited for, so that they can read why; one more is closed.
pub const REFUSALS_TOLD: usize = 64;
/// A refused newcomer must have closed its side by then.
pub const REFUSAL_TIME: Duration = Duration::from_secs(2);
/// Bytes that a refused newcomer may send before its connection is closed all the same.
pub const REFUSAL_BYTES: usize = 64 * 1024;
/// The log says at most so often that newcomers are refused.
pub const REFUSAL_LOG_INTERVAL: Duration = Duration::from_secs(60);

// Sessions: pace, end and drain.

/// Between telling the client why its connection ends and cutting it.
pub const FAREWELL_TIME: Duration = Duration::from_millis(500);
/// A transfer may be slower than the least rate for so long.
pub const PACE_TIME: Duration = Duration::from_secs(60);
/// How often its pace is looked at.
pub const PACE_INTERVAL: Duration = Duration::from_secs(10);
/// How often a draining server looks whether a connection has become idle.
pub const DRAIN_INTERVAL: Duration = Duration::from_millis(100);

// Reading in bulk.

/// A peer that has sent so much is believed to send in bulk: beside it the wait behind its end is
/// short.
pub const BULK_BYTES: u64 = 32 << 20;
/// The same, for one that has done so before and paused.
pub const BULK_AGAIN_BYTES: u64 = 2 << 20;
/// The same, on a connection that carries a file and nothing else.
pub const BULK_ONE_WAY_BYTES: u64 = 1 << 20;
/// The same, for one that turned out to send in answer to us.
pub const BULK_MOST_BYTES: u64 = 1 << 30;
/// The reader of bulk is woken when so much is there: less than clients have under way (lftp 512
/// KiB, OpenSSH 2 MiB). Twice as much saved no more.
pub const GATHER_BYTES: u32 = 128 * 1024;
/// And after so long in any case. Clients that share a processor pause for 2 ms all the time.
pub const GATHER_TIME: Duration = Duration::from_millis(5);

// Bandwidth.

/// Least rate of a throttle, bytes a second.
pub const LEAST_RATE: u64 = 1024;
/// Most bytes that a throttled session moves before others have their turn.
pub const TURN_BYTES: usize = 64 * 1024;
/// Longest wait of a throttled stream before it looks at the rate again.
pub const THROTTLE_SLICE: Duration = Duration::from_millis(250);

// Dialling.

/// Addresses of one name that are tried.
pub const DIAL_ADDRESSES: usize = 8;

// TLS.

/// Time from the start of a request of HTTP to the head of its response, unless the request says.
pub const HTTP_HEAD_TIME: Duration = Duration::from_secs(60);
/// How long a mail server may take for each reply, and to read each part of what it is sent.
pub const SMTP_TIME: Duration = Duration::from_secs(120);
/// The parts in which a mail server gets a message.
pub const SMTP_PART_BYTES: usize = 64 * 1024;
/// How long the answer to QUIT is waited for: by then the server has the message. And how long for
/// why a server closed the connection.
pub const SMTP_QUIT_TIME: Duration = Duration::from_secs(5);
/// Longest reply of a mail server.
pub const SMTP_REPLY_BYTES: usize = 16 * 1024;
/// Longest wait for a connection to a mail server or a scanner.
pub const DIAL_TIME: Duration = Duration::from_secs(30);
/// Time for each further part of the body of a response, unless the request says.
pub const HTTP_BODY_TIME: Duration = Duration::from_secs(60);
/// Longest head of a response, and most bytes of its body that wait to be read.
pub const HTTP_HEAD_BYTES: usize = 64 * 1024;
/// Most fields in the head of a response.
pub const HTTP_FIELDS: usize = 100;

/// A TLS handshake must be done by then.
pub const HANDSHAKE_TIME: Duration = Duration::from_secs(10);
/// The peer must have answered our close_notify by then, where its own is waited for.
pub const CLOSE_NOTIFY_TIME: Duration = Duration::from_secs(10);
/// A ticket key makes tickets for so long, and opens them for as long again: the longest time from
/// the last handshake of a session to the next one that resumes it is between the two.
pub const TICKET_KEY_TIME: Duration = Duration::from_secs(24 * 3600);
/// Tickets of TLS 1.3 that a connection of HTTP is given: browsers use one for each connection.
pub const TICKETS: usize = 2;
/// Handshakes of one session in TLS 1.2 that its data connections may resume by their ids.
pub const KNOWN_SESSIONS: usize = 64;
/// Largest one of these: the chain of the client's certificate is in each.
pub const KNOWN_SESSION_BYTES: usize = 8 * 1024;
/// Bytes that TLS keeps while the socket takes no more.
pub const TLS_SEND_BYTES: usize = 128 * 1024;
/// Read buffer of a control connection under TLS.
pub const TLS_CONTROL_BYTES: usize = 4 * 1024;
/// A certificate that ends within so long is warned about.
pub const CERTIFICATE_WARNING_TIME: Duration = Duration::from_secs(14 * 24 * 3600);
/// Servers whose TLS sessions a load generator's client remembers (rustls keeps 8 tickets of each).
pub const CLIENT_TLS_SESSIONS: usize = 4;
/// Tickets of TLS 1.3 that the control connection of a client and its data connections keep.
pub const CLIENT_TLS_TICKETS: usize = 16;

// Data connections of FTP: ports and their leases.

/// Data ports are taken from here where no range is set: dynamic ports (RFC 6335 §6) above those
/// that Linux gives to outgoing connections, 32768 to 60999. Who goes on calling a server that was
/// on such a port before would else be taken for the client, as far as addresses can tell.
pub const DATA_PORTS: (u16, u16) = (61_000, 65_535);
/// Ports that are tried in a row before a lease is refused.
pub const DATA_PORT_TRIES: usize = 1_000;
/// A data port that nobody leases is given back after so long.
pub const DATA_PORT_IDLE_TIME: Duration = Duration::from_secs(600);
/// A lease whose client does not connect ends after so long.
pub const DATA_LEASE_TIME: Duration = Duration::from_secs(60);
/// How often leases and ports are looked through.
pub const DATA_SWEEP_INTERVAL: Duration = Duration::from_secs(5);
/// So long a connection that no session waits for may stay with the kernel, if another came to the
/// same port just before.
pub const DATA_ACCEPT_REST: Duration = Duration::from_millis(5);
/// Connections of one expectation: under TLS each is a candidate until it resumes the session.
pub const DATA_CANDIDATES: usize = 8;
/// Under TLS one of them must have resumed the session by then.
pub const DATA_CANDIDATE_TIME: Duration = Duration::from_secs(30);
/// When a handshake has failed and no other is going on, the next candidate is awaited so long: the
/// client itself has connected before it sent its command, so only one whose SYN was lost is later.
pub const DATA_CANDIDATE_GRACE: Duration = Duration::from_millis(200);
/// A listed proxy must have sent the PROXY header of a data connection by then.
pub const DATA_PROXY_TIME: Duration = Duration::from_secs(5);
/// Refused data connections that wait to be told.
pub const DATA_REFUSALS: usize = 64;
/// Least port that an active data connection goes to (RFC 2577 §3).
pub const LEAST_ACTIVE_PORT: u16 = 1024;

// Data connections of FTP: bytes.

/// Bytes that sendfile moves before others have their turn.
pub const DATA_STEP_BYTES: usize = 1024 * 1024;
/// A large buffer.
pub const POOLED_BUFFER_BYTES: usize = 256 * 1024;
/// Empty large buffers kept by each thread.
pub const POOLED_BUFFERS: usize = 8;
/// Bytes read at once where the other side sends files under TLS: eight records.
pub const TLS_READ_BYTES: usize = 128 * 1024;
/// A download's connection is held so long for the peer to take the rest and close.
pub const LINGER_TIME: Duration = Duration::from_secs(30);
/// Bytes that a peer may send behind the end of its download.
pub const LINGER_BYTES: usize = 64 * 1024;
/// Connections that linger at once; one more ends the way the kernel ends it.
pub const LINGERING: usize = 1024;
/// Of those so many are not looked at before others follow.
pub const LINGERING_UNSEEN: usize = 128;
/// And all of them after this time.
pub const LINGER_LOOK_TIME: Duration = Duration::from_millis(50);

// Fine timers.

/// Timers for parts of a millisecond that run at once, of one listener; each has a descriptor.
pub const FINE_TIMERS: usize = 16;
