//! Named limits of the administration.

use std::time::Duration;

/// Most bytes of all documents of one request.
pub const DOCUMENT_BYTES: usize = 16 * 1024 * 1024;
/// Most nouns in the documents of one request.
pub const DOCUMENT_NOUNS: usize = 100_000;
/// Most rows of one query.
pub const QUERY_ROWS: u32 = 10_000;
/// Rows of a query that names no limit.
pub const QUERY_ROWS_DEFAULT: u32 = 100;
/// Nouns of a list request that names no limit.
pub const LIST_ROWS_DEFAULT: u32 = 1_000;
/// A change of more nouns than this loads the whole site: reading one by one is then slower.
pub const TOUCHED_NOUNS: usize = 64;
/// Most nouns that a change loads because they refer to what it changes or deletes.
pub const TOUCHED_USERS: u32 = 32;
/// How often a change is computed because others came between; at the last time it keeps them out.
pub const CHANGE_ATTEMPTS: usize = 3;
/// Events sealed at a time.
pub const SEAL_BATCH: usize = 1_000;
/// How long a password of an applied document is known, as a keyed hash in memory, to be the stored
/// one: documents that are applied every hour hash each password once a day.
pub const KNOWN_PASSWORDS_FOR: Duration = Duration::from_secs(86_400);
/// Passwords known so; above it the oldest is forgotten.
pub const KNOWN_PASSWORDS: usize = 100_000;
/// Characters of a password at least, unless a policy says otherwise (NIST SP 800-63B §5.1.1.2).
pub const PASSWORD_LENGTH: u32 = 8;
/// Rates of live sessions are measured over this time.
pub const RATE_TIME: Duration = Duration::from_millis(500);
