//! Named limits of this crate.

/// Longest password that is hashed; longer ones are refused before any work.
pub const PASSWORD_BYTES: usize = 1024;
/// Longest PHC string that is read.
pub const PHC_BYTES: usize = 512;
/// Most memory that a stored hash may ask for, in KiB: a hash from elsewhere must not be able to
/// take the machine down.
pub const HASH_MEMORY_KIB: u32 = 1 << 20;
/// Most passes over its memory that a stored hash may ask for: only so many run at a time, and one
/// that takes minutes would keep all other logins waiting.
pub const HASH_PASSES: u32 = 64;
/// Most lanes that a stored hash may ask for.
pub const HASH_LANES: u32 = 64;
/// Most memory times passes, in KiB: a few seconds of one processor. The strongest of the usual
/// parameters, libsodium's `sensitive`, are 1 GiB and 4 passes.
pub const HASH_WORK_KIB: u64 = 4 << 20;
/// Least memory of the hashes of new passwords, in KiB: that of the cheapest hash which OWASP's
/// cheat sheet on storing passwords takes, 7 MiB and 5 passes.
pub const NEW_HASH_MEMORY_KIB: u32 = 7 << 10;
/// Least memory times passes of such hashes, in KiB.
pub const NEW_HASH_WORK_KIB: u64 = 35 << 10;
/// Longest secret that is sealed.
pub const SEALED_BYTES: usize = 1 << 20;
/// Largest file that is read as a master key.
pub const MASTER_KEY_FILE_BYTES: u64 = 4096;
/// Seconds that one code of a generator stands for (RFC 6238 §4.1).
pub const TOTP_STEP_SECONDS: i64 = 30;
/// Steps before and after the present one whose codes are taken too: clocks differ (§5.2).
pub const TOTP_DRIFT: i64 = 1;
/// Bytes of a generator's secret that we make (RFC 4226 §4 R6).
pub const TOTP_SECRET_BYTES: usize = 20;
/// Bytes of a generator's secret that we take.
pub const TOTP_SECRET_LEAST: usize = 10;
/// Longest signed note that is read.
pub const NOTE_BYTES: usize = 64 * 1024;
/// Most signatures of one note.
pub const NOTE_SIGNATURES: usize = 100;
/// Most signatures of one web hook that are looked at.
pub const SIGNATURES: usize = 16;

/// Largest file with certificates and keys that is read, bytes.
pub const CONTAINER_BYTES: usize = 1 << 20;

/// Most certificates of such a file.
pub const CONTAINER_CERTIFICATES: usize = 64;
