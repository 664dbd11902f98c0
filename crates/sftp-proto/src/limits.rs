//! Named limits of the SFTP machines.

/// The protocol version we speak (draft-ietf-secsh-filexfer-02 §4).
pub const VERSION: u32 = 3;
/// Longest frame taken or sent, without its four length bytes (OpenSSH takes the same).
pub const FRAME_BYTES: usize = 262_144;
/// Most bytes of one READ or WRITE, announced by `limits@openssh.com` (255 KiB).
pub const DATA_BYTES: u32 = 261_120;
/// Longest path in bytes (`PATH_MAX`).
pub const PATH_BYTES: usize = 4096;
/// Longest component of a path in bytes (`NAME_MAX`).
pub const COMPONENT_BYTES: usize = 255;
/// Most open handles of a session.
pub const HANDLES: usize = 1024;
/// Longest handle a client machine keeps (draft-ietf-secsh-filexfer-02 §6.3).
pub const HANDLE_BYTES: usize = 256;
/// A NAME answer is filled up to this many bytes.
pub const NAME_REPLY_BYTES: usize = 32_768;
/// An assembly buffer larger than this is given back as soon as no WRITE needs it.
pub const KEPT_BUFFER_BYTES: usize = 4096;
/// Most identifiers in one `users-groups-by-id@openssh.com` request of either kind.
pub const IDS_PER_LOOKUP: usize = 1024;
/// Smallest block of `check-file` apart from 0 (draft-ietf-secsh-filexfer-extensions-00 §3).
pub const CHECK_FILE_BLOCK_BYTES: u32 = 256;

/// Most requests a client machine keeps unanswered.
pub const REQUESTS_IN_FLIGHT: usize = 64;
/// Most bytes of READ and WRITE data a client machine keeps unanswered.
pub const BYTES_IN_FLIGHT: u64 = 16 * 1024 * 1024;
/// Bytes of one READ or WRITE towards a server that announces no limits.
pub const DATA_BYTES_UNANNOUNCED: u32 = 32_768;
/// Most requests of a client that wait for a place in flight.
pub const REQUESTS_WAITING: usize = 4096;
/// READDIRs of one listing a client machine keeps in flight.
pub const READDIRS_IN_FLIGHT: usize = 2;
/// WRITE data shorter than this shares the buffer of its header instead of following it.
pub const JOINED_WRITE_BYTES: usize = 16_384;

/// Longest command line of a channel that is read.
pub const COMMAND_LINE_BYTES: usize = 32_768;
/// Longest record or answer of SCP.
pub const SCP_LINE_BYTES: usize = 8192;
