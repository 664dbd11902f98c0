//! Named limits of the nouns.

use std::ops::RangeInclusive;

use crate::period::Period;

/// Longest [`crate::Name`], in bytes.
pub const NAME_BYTES: usize = 64;
/// Longest component of a path (`NAME_MAX` of every file system we serve).
pub const COMPONENT_BYTES: usize = 255;
/// Longest path in bytes, slashes included.
pub const PATH_BYTES: usize = 4096;
/// Most components of a path.
pub const PATH_COMPONENTS: usize = 256;
/// How deep events may cause each other before a rule is no longer started by them.
pub const CAUSE_DEPTH: u8 = 8;
/// Longest pattern of addresses.
pub const SOURCE_BYTES: usize = 64;
/// Most serial numbers and key ids that a certification key revokes, each.
pub const REVOKED: usize = 10_000;
/// Most characters of an AS2 name (RFC 4130 §6.2).
pub const AS2_NAME_CHARACTERS: usize = 128;
/// Most keys, and most certificates, of a partner of AS2.
pub const AS2_KEYS: usize = 16;
/// Most hosts that a partner of AS2 may have receipts sent to.
pub const AS2_RECEIPT_HOSTS: usize = 16;
/// Most triggers of a rule.
pub const TRIGGERS: usize = 16;
/// Most files that an `each` finds.
pub const EACH_FOUND: u32 = 10_000;
/// Most days of a calendar that belong to it, and most that do not, by their dates.
pub const CALENDAR_DATES: usize = 4096;
/// Most entries of a policy's `hours`.
pub const HOURS: usize = 64;
/// Most networks of a listener's `unauthenticated`.
pub const UNAUTHENTICATED_NETWORKS: usize = 64;
/// Most connections without a login that one of them may be given.
pub const UNAUTHENTICATED: u32 = 100_000;
/// Most names of a certificate that a listener asks an authority for: as many as public ones sign.
pub const ACME_NAMES: usize = 100;
/// Most mail addresses that an authority is given.
pub const ACME_CONTACTS: usize = 10;
/// Longest argument of a command kept in an event, in characters.
pub const COMMAND_ARGUMENT: usize = 1024;
/// Longest sentence of a rule that refuses a command, in bytes.
pub const REFUSE_TEXT: usize = 1000;
/// Most certificates of TLS of an account.
pub const CERTIFICATES: usize = 64;
/// Longest host name (RFC 1035 §2.3.4, without the root).
pub const HOST_BYTES: usize = 253;
/// Most host names of a site.
pub const SITE_HOSTS: usize = 256;
/// Most parameters of a rule that is started by hand.
pub const PARAMETERS: usize = 32;
/// Longest name of one of them, in bytes.
pub const PARAMETER_NAME_BYTES: usize = 64;
/// Longest text that one of them is given, in bytes.
pub const PARAMETER_BYTES: usize = 4096;
/// Longest pattern of one of them, in bytes.
pub const PATTERN_BYTES: usize = 1000;
/// Longest pattern of names of watched files, in bytes.
pub const FILE_PATTERN_BYTES: usize = 256;
/// Most patterns of one sort of a watched folder.
pub const FILE_PATTERNS: usize = 64;
/// Most files of a watched folder that are taken at one look.
pub const WATCH_LIMIT: u32 = 10_000;
/// Longest body of a web hook that starts a rule: the record of it in the journal holds twice that.
pub const HOOK_BYTES: u32 = 512 * 1024;
/// The same of a rule that does not say.
pub const HOOK_BYTES_USUAL: u32 = 256 * 1024;
/// Most keys that a rule on a web hook takes.
pub const HOOK_KEYS: usize = 4;
/// Most fields of requests that a rule on a web hook names.
pub const HOOK_FIELDS: usize = 16;
/// Most web hooks of one rule that a node may be told to take in a minute.
pub const HOOK_PER_MINUTE: u32 = 60_000;
/// Shortest and longest key of a web hook, in bytes.
pub const HOOK_KEY_BYTES: RangeInclusive<usize> = 16..=1024;
/// Longest URL of a login hook, in bytes.
pub const URL_BYTES: usize = 2048;
/// Most characters that a policy may ask of a password.
pub const PASSWORD_LENGTH: u32 = 256;
/// Most days that a policy may let API tokens be valid which are made without an end.
pub const API_TOKEN_DAYS: u32 = 3_650;
/// Minutes without a request after which a policy may sign a browser out: nodes learn of each
/// other's requests within one.
pub const SIGN_IN_MINUTES: RangeInclusive<u32> = 5..=7 * 24 * 60;
/// Hours after which a policy may sign a browser out.
pub const SIGN_IN_HOURS: RangeInclusive<u32> = 1..=90 * 24;
/// Longest time in seconds that the answer of a login hook is waited for.
pub const LOGIN_HOOK_SECONDS: u32 = 25;
/// Most accounts and groups that a login hook may let in by name.
pub const LOGIN_HOOK_ACCOUNTS: usize = 1000;
/// Most arguments of a program that decides logins.
pub const LOGIN_HOOK_ARGUMENTS: usize = 64;
/// Most providers of OpenID Connect that a site may trust.
pub const OIDC_PROVIDERS: usize = 8;
/// Most scopes, and domains of e-mail addresses, of one of them.
pub const OIDC_LIST: usize = 32;
/// Longest label, claim, value and client of one of them, in bytes.
pub const OIDC_TEXT_BYTES: usize = 512;
/// Most persons, as providers know them, that an account may be.
pub const OIDC_IDENTITIES: usize = 8;
/// Most bytes of a name, a filter or a base that a directory service is asked with.
pub const LDAP_TEXT_BYTES: usize = 4096;
/// Most days that a site may keep what it records, when it is not for ever.
pub const KEEP_DAYS: u32 = 36_500;
/// Fewest days that the archive of a journal is kept: a database that falls back is brought up to
/// date from it.
pub const ARCHIVE_KEEP_DAYS: u32 = 3;
/// Longest time limit of a listener of HTTP, in seconds.
pub const HTTP_SECONDS: u32 = 3600;
/// Longest body of a request of the API that a listener of HTTP may be given.
pub const HTTP_API_BODY_BYTES: u32 = 256 << 20;
/// Highest least rate of bodies that a listener of HTTP may be given.
pub const HTTP_LEAST_RATE: u32 = 1 << 20;
/// Most requests at once, and of one connection, that a listener of HTTP may be given.
pub const HTTP_REQUESTS: u32 = 1_000_000;
/// Most chosen files of a share link.
pub const LINK_FILES: usize = 100;
/// Longest title of a share link.
pub const LINK_TITLE_BYTES: usize = 400;
/// How deep steps of rules may stand in other steps.
pub const STEP_DEPTH: usize = 8;
/// Most lists of steps that a `parallel` step runs at the same time.
pub const PARALLEL_BRANCHES: usize = 16;
/// Most turns of an `each` at the same time.
pub const EACH_AT_ONCE: u32 = 16;

/// Most addresses that one `mail` step has.
pub const MAIL_RECIPIENTS: usize = 50;

/// Most accounts and groups that one `approve` step asks.
pub const APPROVERS: usize = 20;
/// Most people who must say yes to one.
pub const APPROVALS: u32 = 20;
/// Longest text of one, in bytes.
pub const APPROVAL_TEXT_BYTES: usize = 1000;
/// How long people may take to answer one, if it does not say.
pub const APPROVE_WITHIN: Period = Period::from_seconds(24 * 3600);
/// The longest that they may take.
pub const APPROVE_LONGEST: Period = Period::from_seconds(30 * 24 * 3600);
/// How long a `wait` step waits for an event, if it does not say.
pub const WAIT_WITHIN: Period = Period::from_seconds(24 * 3600);
/// The longest that it may.
pub const WAIT_LONGEST: Period = Period::from_seconds(30 * 24 * 3600);
/// Longest reason that somebody gives with an answer, in bytes.
pub const APPROVAL_WHY_BYTES: usize = 1000;

/// Most accounts of which an `expect` counts the files.
pub const EXPECT_ACCOUNTS: usize = 100;
/// Most files that an `expect` waits for in one window.
pub const EXPECT_FILES: u32 = 1_000_000;

/// Size of the first parts of a file on an object store, in MiB: S3 takes no smaller ones.
pub const OBJECT_PART_MIB: RangeInclusive<u32> = 5..=OBJECT_PARTS_MIB;
/// Most MiB of the parts of one file that are in memory: with what the connections hold, a transfer
/// stays within 16.
pub const OBJECT_PARTS_MIB: u32 = 15;
/// Connections of a node to one object store.
pub const OBJECT_CONNECTIONS: RangeInclusive<u32> = 1..=1024;
/// Time limits of requests to an object store, in seconds.
pub const OBJECT_TIMEOUT_SECONDS: RangeInclusive<u32> = 1..=3600;
/// Tries of one request to an object store.
pub const OBJECT_ATTEMPTS: RangeInclusive<u32> = 1..=20;
/// Pause before the second of them, in seconds.
pub const OBJECT_BACKOFF_SECONDS: RangeInclusive<u32> = 0..=300;
/// Longest record of a mainframe's file, in bytes, with the word of its length.
pub const RECORD_BYTES: u32 = 32_760;
/// Longest text that parts of a file begin with.
pub const SPLIT_HEADER_BYTES: usize = 256;

/// Longest definition of a model, in bytes.
pub const MODEL_DEFINITION_BYTES: usize = 1 << 20;
/// Most accounts and groups that a model names as its callers.
pub const MODEL_CALLERS: usize = 1_000;
/// Most sessions that a model has values for.
pub const MODEL_USERS: usize = 20_000;

/// Names in the list of who may use a key, an endpoint or an account.
pub const NOUN_USERS: usize = 64;
