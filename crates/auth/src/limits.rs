//! Named limits of authentication.

use std::time::Duration;

/// How many groups deep inheritance goes.
pub const GROUP_DEPTH: usize = 8;
/// Most groups of one account, all levels together.
pub const GROUPS: usize = 64;
/// Accounts kept resolved; above it the cache begins anew.
pub const CACHED_ACCOUNTS: usize = 100_000;
/// Names without an account kept in memory; above it they are forgotten.
pub const CACHED_ABSENT: usize = 4_096;
/// API tokens whose account is kept in memory; above it they are forgotten.
pub const CACHED_TOKENS: usize = 100_000;
/// API tokens whose last use waits for the database; above it others are left out.
pub const TOKEN_USES: usize = 100_000;
/// Uses of API tokens that are written at a time.
pub const TOKEN_USES_AT_A_TIME: usize = 500;
/// How often the last use of API tokens is written.
pub const TOKEN_USES_EVERY: Duration = Duration::from_secs(60);
/// Browsers that are signed in as one account; of more, the one that was idle longest is signed
/// out.
pub const SIGN_INS_OF_ACCOUNT: usize = 50;
/// Sign-ins that a list shows at most.
pub const LISTED_SIGN_INS: u32 = 1_000;
/// Sign-ins kept in memory; above it those that were not asked for lately go.
pub const CACHED_SIGN_INS: usize = 10_000;
/// How long a sign-in is known to be in the database: another node may have ended it.
pub const SIGN_IN_FRESH: Duration = Duration::from_secs(2);
/// How often the database learns that a browser which is signed in was seen, and how often those
/// are looked for that were not.
pub const SIGN_IN_SEEN_EVERY: Duration = Duration::from_secs(60);
/// A browser must have answered by then with a passkey.
pub const CHALLENGE_TIME: Duration = Duration::from_secs(300);
/// Longest part of what a browser says of a passkey, in letters of base64url.
pub const CLIENT_DATA_BYTES: usize = 4_096;
/// Longest part of what an authenticator says, in letters of base64url: an identifier of 1,023
/// bytes and a public key of RSA fit.
pub const AUTHENTICATOR_BYTES: usize = 4_096;
/// Longest name of a browser that is kept, in characters.
pub const USER_AGENT: usize = 256;
/// Refused logins of one address that are recorded in an hour; more are only counted.
pub const RECORDED_REFUSALS: u32 = 60;
/// How often the configuration's revision is read.
pub const REFRESH_EVERY: Duration = Duration::from_millis(500);
/// Password hashes computed concurrently, within [`HASHES_KIB`].
pub const HASHES_AT_A_TIME: usize = 2;
/// Memory budget of concurrent Argon2 hashes, in KiB; each takes 64 MiB unless the stored hash
/// names another cost. A hash that needs more than the whole budget is computed alone.
pub const HASHES_KIB: u32 = 256 * 1024;
/// How much nicer than the other threads of the server those are that hash passwords. Beside a
/// thread that never waits, one of them gets a quarter of a core: transfers come first, and logins
/// go on.
pub const HASHING_NICENESS: i32 = 5;
/// Logins in the queue for hashing: what two cores hash in the time that a login may take.
/// Above it a login is asked to come back.
pub const HASHES_WAITING: usize = 512;
/// Login hooks that are asked at a time.
pub const HOOKS_AT_A_TIME: usize = 32;
/// Those of one site: a service that is down delays the logins of its site alone.
pub const HOOKS_OF_A_SITE: usize = 8;
/// Logins that wait for the answer of a hook, those being asked included; above it a login is asked
/// to come back.
pub const HOOKS_WAITING: usize = 512;
/// Those of one site.
pub const HOOKS_WAITING_OF_A_SITE: usize = 128;
/// A directory service must take a connection within this; its answer has the time of the hook.
pub const LDAP_DIAL_TIME: Duration = Duration::from_secs(5);
/// Providers of OpenID Connect that are asked at a time.
pub const OIDC_AT_A_TIME: usize = 32;
/// A provider must have answered a question by then, the wait in the queue included.
pub const OIDC_TIME: Duration = Duration::from_secs(10);
/// Longest answer of a provider.
pub const OIDC_ANSWER_BYTES: usize = 256 * 1024;
/// How long is known what a provider publishes.
pub const OIDC_FRESH: Duration = Duration::from_secs(3600);
/// How often a token with an unknown key has the keys of its provider read anew.
pub const OIDC_KEYS_EVERY: Duration = Duration::from_secs(60);
/// How long a provider is not asked again that could not be.
pub const OIDC_FAILURE_KEPT: Duration = Duration::from_secs(5);
/// Providers whose publications are kept in memory; above it they are forgotten.
pub const OIDC_CACHED: usize = 1_000;
/// A browser must have come back from a provider by then.
pub const OIDC_BEGUN_TIME: Duration = Duration::from_secs(600);
/// How much the clock of a provider may be behind where it says when it asked the person.
pub const OIDC_SKEW: Duration = Duration::from_secs(60);
/// Longest address that a browser is led to when it has come back; instead of a longer one the
/// usual.
pub const OIDC_TARGET_BYTES: usize = 256;
/// Longest text of a provider's refusal that is shown and recorded, in characters.
pub const OIDC_SAID: usize = 64;
/// Longest answer of a hook.
pub const HOOK_ANSWER_BYTES: usize = 16 * 1024;
/// Right passwords with outdated hashes that wait for a new one; others get it at another login.
pub const OUTDATED_WAITING: usize = 64;
/// How long a verified password is remembered as a keyed hash, however often it is used.
pub const REMEMBERED_FOR: Duration = Duration::from_secs(600);
/// Passwords remembered; above it the oldest is forgotten.
pub const REMEMBERED: usize = 100_000;
/// Wrong passwords and codes on one connection before it is ended.
pub const WRONG_PER_CONNECTION: u32 = 3;
/// Refused tries of any kind on one connection before it is ended.
pub const REFUSED_PER_CONNECTION: u32 = 10;
/// Keys that one connection may ask about.
pub const KEYS_OFFERED: u32 = 20;
/// Window of an address's failures.
pub const ADDRESS_WINDOW: Duration = Duration::from_secs(3600);
/// Window of an account's failures.
pub const ACCOUNT_WINDOW: Duration = Duration::from_secs(86_400);
/// Delayed and locked addresses and accounts that an operator is shown at a time.
pub const LISTED: usize = 1_000;
/// Addresses and accounts whose failures are remembered; above it the oldest go.
pub const PENALTIES: usize = 100_000;
/// Wrong passwords of an account from an address that it logged in from lately, within
/// [`ADDRESS_WINDOW`], before it is refused while that address is locked; fewer where the address
/// itself may have fewer.
pub const KNOWN_FAILURES: u32 = 5;
/// All accounts that are let try from a locked address may be wrong so many times as often as the
/// address itself, within [`ADDRESS_WINDOW`]: guesses spread over many accounts are guesses.
pub const SPARED_FACTOR: u32 = 4;
/// How long an account is known at an address after a login from there.
pub const KNOWN_FOR: Duration = Duration::from_secs(30 * 86_400);
/// Addresses that an account is known to log in from.
pub const KNOWN_ADDRESSES: usize = 32;
/// How long before the start of a process what counts for it may have happened: longer than any
/// window.
pub const REMEMBERED_BEFORE_START: Duration = Duration::from_secs(40 * 86_400);
/// How often nodes tell each other of wrong passwords.
pub const SHARE_EVERY: Duration = Duration::from_millis(250);
/// Entries told at a time.
pub const SHARED_AT_A_TIME: usize = 500;
/// Entries read at a time.
pub const SHARED_READ: u32 = 1_000;
/// Entries that wait for the database; above it the oldest go, and count on this node alone.
pub const UNSHARED: usize = 100_000;
/// How often what has expired is deleted from the database.
pub const SHARED_SWEPT_EVERY: Duration = Duration::from_secs(600);
/// How long the end of a node waits for the database to take its last entries.
pub const LAST_SHARING: Duration = Duration::from_secs(2);
/// A login from an address where the account is known already is told to other nodes so often.
pub const LOGIN_SHARED_EVERY: Duration = Duration::from_secs(86_400);
/// First delay of the answer to a wrong password; doubles up to [`LONGEST_DELAY`].
pub const FIRST_DELAY: Duration = Duration::from_millis(100);
/// Longest delay of an answer.
pub const LONGEST_DELAY: Duration = Duration::from_secs(3);
/// Failures of an address before answers are delayed: a person mistypes.
pub const UNDELAYED: u32 = 2;
/// Bytes of files whose digests an account may ask for within an hour, unless its policy says.
pub const DIGEST_BYTES_PER_HOUR: u64 = 1 << 40;
/// Accounts whose digests are counted; above it those that have paid are forgotten.
pub const DIGESTS_REMEMBERED: usize = 100_000;
/// Shortest RSA modulus taken, in bits.
pub const RSA_BITS: usize = 2048;
/// Longest login name that is recorded.
pub const RECORDED_NAME: usize = 64;
/// Accounts whose last code is remembered; above it those whose code has grown too old go.
pub const CODES_REMEMBERED: usize = 100_000;
/// By so much the time of a web hook may differ from ours, either way.
pub const HOOK_AGE: Duration = Duration::from_secs(300);
/// A web hook that comes again within this time leads to the same event.
pub const HOOK_SEEN: Duration = Duration::from_secs(72 * 3600);
/// Web hooks of late whose events a node knows without the database.
pub const HOOKS_REMEMBERED: usize = 10_000;
/// How deep the JSON of a web hook may nest.
pub const HOOK_DEPTH: usize = 32;
/// Most values in the JSON of a web hook: conditions may look at each.
pub const HOOK_VALUES: usize = 10_000;
/// Longest body of a web hook as it stands in its event; a record of the journal has 1 MiB.
pub const HOOK_RECORD_BYTES: usize = 960 * 1024;
/// Longest id of a web hook, and longest kept part of a field of its request.
pub const HOOK_FIELD_BYTES: usize = 1024;
/// Messages of a partner of AS2 that are refused within a minute and told so, on one node.
pub const AS2_REFUSALS: u32 = 10;
