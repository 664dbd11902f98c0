//! Named limits of HTTP. What an operator may change is in `nouns::http::HttpLimits`.

use std::time::Duration;

// Connections.

/// A client must have signed in by then, else its connection is closed.
pub const LOGIN_TIME: Duration = Duration::from_secs(60);
/// Bytes received on a connection before a sign-in. While a password is checked nothing is read,
/// so this is what a connection may send, and never what waits in memory.
pub const UNAUTHENTICATED_BYTES: u64 = 16 << 20;
/// How often a connection is looked at whether its client is slow or idle.
pub const WATCH_INTERVAL: Duration = Duration::from_secs(1);
/// Longest token by which an authority (ACME) asks for an answer.
pub const CHALLENGE_LETTERS: usize = 128;
/// Read buffer and longest head of a request of HTTP/1.1.
pub const HEAD_BYTES: usize = 64 * 1024;
/// Most fields in the head of a request of HTTP/1.1.
pub const HEAD_FIELDS: usize = 100;

// HTTP/2 (RFC 9113).

/// Requests at once on a connection.
pub const STREAMS: u32 = 100;
/// Bytes that a client may send ahead in one request; a client 50 ms away needs them for 300 MB/s.
pub const STREAM_WINDOW: u32 = 16 << 20;
/// The same for all requests of a connection.
pub const CONNECTION_WINDOW: u32 = 64 << 20;
/// Largest frame that we take.
pub const FRAME_BYTES: u32 = 1 << 20;
/// Longest list of fields of a request, as HTTP/2 counts it.
pub const FIELD_LIST_BYTES: u32 = 32 * 1024;
/// Bytes of answers of one request that wait for the client.
pub const SEND_BYTES: usize = 512 * 1024;
/// Requests that a client has reset and that were not looked at yet: more of them end the
/// connection (rapid reset, CVE-2023-44487).
pub const RESET_STREAMS: usize = 50;
/// Requests that we reset because they broke the protocol: more of them end the connection.
pub const FAULTY_STREAMS: usize = 100;
/// A client from which nothing comes is asked for a sign of life so often, and must give it within
/// the same time.
pub const PING_TIME: Duration = Duration::from_secs(30);

// Requests.

/// Over so long, spent waiting for the client, the rate of a body is looked at.
pub const BODY_RATE_WINDOW: Duration = Duration::from_secs(30);
/// What a client sends behind a refused request, or behind an error that ends its connection, is
/// read on for so long, so that it reads the reason.
pub const REFUSED_TIME: Duration = Duration::from_secs(5);
/// And at most so many bytes of it.
pub const REFUSED_BYTES: u64 = 16 << 20;
/// What a client is asked to wait for after a 503, in seconds.
pub const RETRY_AFTER_SECONDS: u32 = 2;
/// Longest host name with port.
pub const HOST_BYTES: usize = 300;
/// Longest name of a client program that is kept, in characters.
pub const CLIENT_LETTERS: usize = 200;
/// Longest user name, and longest password, of HTTP Basic.
pub const CREDENTIAL_BYTES: usize = 1024;

// Sessions.

/// A session without a request is closed after so long. Within this time the password of a request
/// is not compared anew.
pub const SESSION_REST: Duration = Duration::from_secs(300);
/// How often sessions without requests are looked for.
pub const SESSION_SWEEP: Duration = Duration::from_secs(5);
/// Sessions of a listener; the node's own budget of sessions is mostly less.
pub const SESSIONS: usize = 20_000;

// Browsers.

/// Longest form of a page, such as that of signing in.
pub const PAGE_FORM_BYTES: usize = 16 * 1024;
/// A password that was right waits so long for the code that must follow.
pub const PENDING_TIME: Duration = Duration::from_secs(300);
/// Passwords that wait for codes, of a listener; of more the oldest are forgotten.
pub const PENDING_SIGN_INS: usize = 1_000;
/// A browser that has shown its password within this time is not asked again before a dangerous
/// change.
pub const PROOF_TIME: Duration = Duration::from_secs(15 * 60);

// Files.

/// Bytes of an upload that are gathered for one write. Each request has two such batches.
pub const BATCH_BYTES: usize = 1 << 20;
/// Bytes of a download that are read at once.
pub const PIECE_BYTES: usize = 256 * 1024;
/// Entries of a listing, if the client says nothing.
pub const LISTED: usize = 1_000;
/// Most entries of a listing.
pub const LISTED_MOST: usize = 10_000;
/// Entries of a directory that are looked through for a page of a listing.
pub const LISTING_READ: usize = 256;
/// How deep the directories of a tree may lie in each other that WebDAV copies or removes.
pub const TREE_DEPTH: usize = 100;
/// Entries of a directory that can be chosen for an archive.
pub const ARCHIVE_NAMES: usize = 10_000;
/// Files in one form.
pub const FORM_FILES: usize = 1_000;
/// Bytes of a document that begins an upload, or that names files for an archive.
pub const DOCUMENT_BYTES: usize = 512 * 1024;
/// Bytes of a field of a form that is no file.
pub const FORM_FIELD_BYTES: u64 = 64 * 1024;

// The API.

/// Rows of a page of a list that names no limit.
pub const API_ROWS: u32 = 100;
/// Most rows of a page of a list.
pub const API_ROWS_MOST: u32 = 1_000;
/// Clients of a node that follow events at the same time.
pub const STREAMS_OF_EVENTS: usize = 4_000;
/// Events that a client which follows may be behind: one that is further behind is cut.
pub const FEED_EVENTS: usize = 1_024;
/// Events that are read for those who follow at a time.
pub const FEED_PAGE: u32 = 500;
/// How often the feed looks for what other nodes have recorded.
pub const FEED_INTERVAL: Duration = Duration::from_millis(500);
/// Messages that a client may be behind which follows sessions, transfers or throughput.
pub const LIVE_MESSAGES: usize = 256;
/// Transfers in one such message.
pub const LIVE_ROWS: usize = 100;
/// How often numbers are looked at that move all the time.
pub const LIVE_TICK: Duration = Duration::from_secs(1);
/// What begins and ends within such a time is seen together.
pub const LIVE_PAUSE: Duration = Duration::from_millis(100);
/// A stream in which nothing happens gets a comment so often.
pub const STREAM_SIGN_OF_LIFE: Duration = Duration::from_secs(15);

// Share links.

/// Bytes of the body in which a browser sends the password of a link.
pub const LINK_PASSWORD_BYTES: usize = 4 * 1024;
/// A download of a link may be resumed for so long without being counted again.
pub const LINK_RESUME_TIME: Duration = Duration::from_secs(24 * 3600);
/// Downloads of links that may be resumed; of more, those that were begun first are counted again.
pub const LINK_RESUMES: usize = 10_000;
/// How often a whole file may be sent in parts for one counted download.
pub const LINK_RESUME_SIZES: u64 = 2;

// Web hooks.

/// Web hooks of a listener that are read at a time: nobody has proved anything before a body is
/// there.
pub const HOOKS: usize = 256;
/// The whole body of a web hook must be there so long after its head.
pub const HOOK_BODY_TIME: Duration = Duration::from_secs(30);
/// Longest payload of a message of AS2, in bytes.
pub const AS2_PAYLOAD_BYTES: u64 = 1 << 40;
/// How many times its compressed size the content of a message of AS2 may have.
pub const AS2_INFLATE_RATIO: u64 = 100;
/// Most bytes of a receipt of AS2.
pub const AS2_RECEIPT_BYTES: usize = 256 * 1024;
/// Bytes of a message of AS2 that are unwrapped at a time.
pub const AS2_PIECE_BYTES: usize = 64 * 1024;
/// Random bytes of a boundary.
pub const AS2_BOUNDARY_BYTES: usize = 16;
/// Characters that an event keeps of the subject and of the media type of a message of AS2.
pub const AS2_SUBJECT_CHARACTERS: usize = 1_000;

/// Heads of requests that are kept as they came, until their requests are answered. Where more came
/// none are kept any more.
pub const HEADS_KEPT: usize = 8;
