//! Named limits of changes of files.

/// Bytes that one step makes at most of a file, unless told otherwise.
pub const OUTPUT_BYTES: u64 = 10 << 30;
/// How many times the size of its source a file may have, unless told otherwise.
pub const RATIO: u64 = 200;
/// A file up to this size may have any ratio: small files compress well.
pub const RATIO_FREE_BYTES: u64 = 1 << 20;
/// Bytes that a decoder may read without writing any: what it reads so may have to be kept.
pub const SILENT_BYTES: u64 = 8 << 20;
/// One block of a copy.
pub const BLOCK_BYTES: usize = 64 * 1024;

/// Largest window of a file compressed by Zstandard, as a power of two: 128 MiB.
pub const ZSTD_WINDOW_LOG: u32 = 27;

/// Most entries of an archive, unless told otherwise.
pub const ENTRIES: usize = 10_000;
/// Longest path of an entry, in bytes.
pub const ENTRY_NAME_BYTES: usize = 1_024;
/// Longest component of it, in bytes.
pub const ENTRY_COMPONENT_BYTES: usize = 255;
/// Most components of it.
pub const ENTRY_DEPTH: usize = 32;
/// Bytes between two entries of a tar archive: headers, long names, extensions.
pub const TAR_HEADER_BYTES: u64 = 256 * 1024;
/// Bytes of the directory of a zip archive for each entry that it may have.
pub const ZIP_DIRECTORY_BYTES_EACH: u64 = 1_024;
/// Longest comment of a zip archive.
pub const ZIP_COMMENT_BYTES: u64 = 65_535;

/// Bytes of an OpenPGP message, at each of its layers, that may pass without content: packets are
/// kept in memory.
pub const OPENPGP_SILENT_BYTES: u64 = 2 << 20;
/// Deepest layers of compression in an OpenPGP message.
pub const OPENPGP_COMPRESSED_LAYERS: usize = 2;
/// Deepest layers of an OpenPGP message.
pub const OPENPGP_LAYERS: usize = 8;
/// Most signatures on one message.
pub const OPENPGP_SIGNATURES: usize = 32;
/// Longest OpenPGP key as a file, in bytes.
pub const OPENPGP_KEY_BYTES: usize = 256 * 1024;
/// Longest detached signature, in bytes.
pub const OPENPGP_SIGNATURE_BYTES: usize = 64 * 1024;
/// How far the clock of a signer may be ahead, in seconds.
pub const OPENPGP_CLOCK_SECONDS: u32 = 300;

/// Longest checksum file, in bytes.
pub const CHECKSUM_FILE_BYTES: usize = 1 << 20;

/// Longest line or record that is padded, cut into parts or compared, in bytes.
pub const LINE_BYTES: usize = 1 << 20;
/// The word in front of a record that says how long it is.
pub const RECORD_WORD_BYTES: usize = 4;
/// Longest record that has such a word, which counts.
pub const RECORD_BYTES: usize = 32_760;
/// Most parts of a file.
pub const PARTS: u32 = 10_000;
