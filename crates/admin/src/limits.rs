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
/// Most nouns that one request of a filtered list looks at.
pub const LIST_SCANNED: usize = 10_000;
/// Nouns of a filtered list that are read at a time.
pub const LIST_SCAN_PAGE: u32 = 1_000;
/// Most nouns of a kind that are listed in another order than by name: all are read for a page.
pub const LIST_SORTED: usize = 20_000;
/// Most conditions of a filtered list.
pub const LIST_FILTERS: usize = 16;
/// Most bytes of a cursor.
pub const CURSOR_BYTES: usize = 4_096;
/// How long an answer is given again to a request that is repeated under its key.
pub const ANSWERS_FOR: Duration = Duration::from_secs(86_400);
/// Most bytes of such a key.
pub const KEY_BYTES: usize = 255;
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
/// Most API tokens of an account, revoked and expired ones included.
pub const TOKENS_OF_ACCOUNT: usize = 100;
/// Most passkeys of an account.
pub const PASSKEYS_OF_ACCOUNT: usize = 20;
/// Random letters in the name of an API token that is given none, and of a passkey.
pub const TOKEN_NAME_LETTERS: usize = 8;
/// Recovery codes that an account is given at a time.
pub const RECOVERY_CODES: usize = 10;
/// How long the token counts by which the first administrator is made.
pub const SET_UP_TIME: Duration = Duration::from_secs(86_400);
/// Most events that are explained about a path.
pub const EXPLAINED_EVENTS: usize = 10;
/// Most other files that are looked at for why a path has no event.
pub const EXPLAINED_SIMILAR: usize = 5;
/// Pages of the audit log that are searched for a path, each of so many events as the database
/// looks at in one search.
pub const EXPLAIN_PAGES: u32 = 100;
/// The same at each other site.
pub const EXPLAIN_PAGES_ELSEWHERE: u32 = 3;
/// Events that one part of a replay looks at, the pages of the database made whole.
pub const REPLAYED_EVENTS: usize = 1_000;
/// With more rules than that, a rule that is stored is looked at for flaws by `rule lint` only.
pub const LINTED_RULES: usize = 1_000;
/// Newest events on which a document and a stored rule are compared, for each of the two.
pub const DIFFED_EVENTS: u32 = 1_000;
/// Most events of the chain of a file that are shown.
pub const TRACED_ROWS: usize = 500;
/// Most events that are followed back to the first of a chain.
pub const TRACED_DEPTH: u32 = 64;
/// Rates of live sessions are measured over this time.
pub const RATE_TIME: Duration = Duration::from_millis(500);
/// Most share links of an account, ended ones included; also what refers to it besides counts.
pub const LINKS_OF_ACCOUNT: u32 = 1_000;
/// Most people that a share link is made for.
pub const LINK_PEOPLE: usize = 100;
/// Longest mail address (RFC 5321 §4.5.3.1.3).
pub const MAIL_BYTES: usize = 254;
/// Days after which a share link ends that names no end.
pub const LINK_DAYS: u32 = 14;
/// Random letters in the name of a share link that is given none.
pub const LINK_NAME_LETTERS: usize = 8;
/// Passwords that are hashed at the same time for one change: each takes 64 MiB and more.
pub const PASSWORDS_AT_ONCE: usize = 8;

/// Transfers among which a trace by name or digest looks for the one to begin with.
pub const TRACED_TRANSFERS: u32 = 64;

/// Messages of AS2 with one Message-ID, or receipts of one, that are looked through.
pub const AS2_RECEIPTS: u32 = 100;
