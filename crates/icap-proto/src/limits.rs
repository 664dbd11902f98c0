//! Named limits of ICAP.

/// Longest head of an answer, the heads of the message inside it included.
pub const HEAD_BYTES: usize = 64 * 1024;
/// Most content that is taken at a time, as one chunk.
pub const CHUNK_BYTES: usize = 64 * 1024;
/// Longest preview that is sent, whatever a service asks for.
pub const PREVIEW_BYTES: u64 = 1024 * 1024;
/// Longest name of a threat that is kept, in characters.
pub const THREAT_CHARACTERS: usize = 200;
