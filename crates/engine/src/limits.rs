//! Named limits of the engine.

use std::ops::RangeInclusive;
use std::time::Duration;

use entrepot_nouns::rule::Retry;

/// Most journal records in one projection.
pub const BATCH_RECORDS: usize = 512;
/// Most bytes of payload in one projection.
pub const BATCH_BYTES: usize = 4 * 1024 * 1024;
/// How long a small batch waits for company, so that a busy node commits many records at once.
pub const BATCH_LINGER: Duration = Duration::from_millis(20);
/// A batch of this many records does not wait for more.
pub const BATCH_ENOUGH: usize = 256;
/// First pause after the database, or the journal, could not be used.
pub const AWAY_FIRST: Duration = Duration::from_millis(100);
/// Longest such pause.
pub const AWAY_LONGEST: Duration = Duration::from_secs(5);
/// How often the database may refuse one record before it is set aside as poison.
pub const POISON_ATTEMPTS: u32 = 3;

/// Longest source of a condition, in bytes.
pub const CONDITION_BYTES: usize = 2048;
/// Deepest nesting of a condition: brackets in the source, nodes in the tree.
pub const CONDITION_DEPTH: usize = 48;
/// Stack of the thread that parses a condition; the longest source there is needs a part of it.
pub const CONDITION_STACK_BYTES: usize = 64 * 1024 * 1024;
/// Most work one evaluation may cost, estimated before it ever runs: bytes looked at or made.
pub const CONDITION_COST: u64 = 4 * 1024 * 1024;
/// What the estimate takes one variable to be, in bytes: a path is at most 4,096.
pub const CONDITION_INPUT_BYTES: u64 = 8 * 1024;
/// What the estimate takes one use of a regular expression to cost on top.
pub const CONDITION_REGEX_COST: u64 = 64 * 1024;
/// How many entries the estimate takes a variable to have.
pub const CONDITION_INPUT_ENTRIES: u64 = 64;
/// Longest sentence kept about an error, in characters.
pub const ERROR_CHARACTERS: usize = 500;

/// Most items of the list of an `each` step.
pub const EACH_ITEMS: usize = 10_000;

/// Most bytes of it as JSON: it stands in the record of the step.
pub const EACH_BYTES: usize = 1024 * 1024;

/// An event that a `wait` step waited for is left for later steps if it has no more bytes as JSON;
/// of a larger one its id, kind and time are.
pub const AWAITED_BYTES: usize = 32 * 1024;

/// So long what a program has written is read when it has ended: behind that something that it left
/// running still has its output.
pub const OUTPUT_DRAIN: Duration = Duration::from_secs(5);

/// Most parts that a `join` step puts together.
pub const JOIN_PARTS: u32 = 10_000;

/// Turns of an `each` step that a dry run shows.
pub const EACH_FORESEEN: usize = 20;

/// Bytes of the variables that the steps of one job may set, as JSON.
pub const NOTED_BYTES: usize = 64 * 1024;

/// Most bytes of the answer to an `http` step that are kept for later steps.
pub const HTTP_ANSWER_BYTES: usize = 32 * 1024;
/// Most bytes of an answer that are quoted where a server refuses.
pub const HTTP_QUOTED_BYTES: usize = 4 * 1024;
/// How long the words of a server that refuses are listened to.
pub const HTTP_QUOTED_TIME: Duration = Duration::from_secs(5);
/// Most characters of it.
pub const HTTP_QUOTED_CHARACTERS: usize = 200;
/// Most bytes of a receipt of AS2.
pub const AS2_RECEIPT_BYTES: usize = 256 * 1024;
/// How often receipts of AS2 that other nodes have queued are looked for.
pub const AS2_RECEIPT_LOOK: Duration = Duration::from_secs(2);
/// Receipts of AS2 that a look takes.
pub const AS2_RECEIPTS_A_LOOK: u32 = 32;
/// Receipts of AS2 that are sent to one partner at the same time, of those that one look took.
pub const AS2_RECEIPTS_AT_ONCE: usize = 8;
/// Partners of AS2 to which a node sends receipts at the same time.
pub const AS2_RECEIPT_SENDERS: usize = 32;
/// How long an attempt to send a receipt of AS2 may take.
pub const AS2_RECEIPT_TIME: Duration = Duration::from_secs(30);
/// For how long nobody else takes a receipt of AS2 that was taken: longer than all of a look may
/// need.
pub const AS2_RECEIPT_LEASE: Duration = Duration::from_secs(180);
/// How long it is tried to send a receipt of AS2.
pub const AS2_RECEIPT_AGE: Duration = Duration::from_secs(24 * 3600);
/// The pauses between these attempts.
pub const AS2_RECEIPT_RETRY: Retry =
    Retry { attempts: 0, first_delay_seconds: 30, longest_delay_seconds: 3600 };
/// Random bytes of what separates the parts of a message of AS2.
pub const AS2_BOUNDARY_BYTES: usize = 24;
/// Most characters of what a partner of AS2 says that are quoted.
pub const AS2_QUOTED_CHARACTERS: usize = 300;
/// How long a receiver of web hooks may take.
pub const WEBHOOK_TIME: Duration = Duration::from_secs(15);

/// Largest file that is attached to a message: in memory it is there twice.
pub const MAIL_ATTACHED_BYTES: u64 = 10 * 1024 * 1024;

/// How long a scanner may be silent, before it has read the file and after.
pub const SCAN_TIME: Duration = Duration::from_secs(120);
/// For how long it is believed what a service of ICAP can, whatever it says.
pub const SCAN_OPTIONS_TIME: Duration = Duration::from_secs(3600);

/// Longest value that is shown of a part of a condition, in characters.
pub const TRACED_CHARACTERS: usize = 200;

/// Steps that run at the same time in each pool of a node, unless told otherwise.
pub const PLACES: usize = 25;
/// Most places of a pool.
pub const POOL_PLACES: usize = 1_000;
/// A job records the steps behind it that touch nothing when they are so many, at the latest.
pub const UNRECORDED_STEPS: usize = 64;
/// Most jobs that one look at the queue takes.
pub const CLAIM_JOBS: usize = 64;
/// Most jobs that one look claims beside them, for which there is no place yet.
pub const CLAIM_AHEAD: usize = 64;
/// The jobs of a lane are quick if their steps take so long on average.
pub const QUICK_JOB: Duration = Duration::from_millis(20);
/// A job that was claimed ahead and finds no place for so long is given back.
pub const AHEAD_TIME: Duration = Duration::from_secs(1);
/// While jobs that were claimed ahead wait, the queue is looked at so often.
pub const AHEAD_LOOK: Duration = Duration::from_millis(10);
/// The pace of the jobs of so many partners is known.
pub const KNOWN_PACES: usize = 4_096;
/// Most lanes of a pool that one look at the queue finds: of those whose partner may have no more
/// places it finds others behind them.
pub const CLAIM_LANES: usize = 256;
/// A look at the queue that takes longer finds more than there is: entries of jobs that have ended,
/// which somebody's transaction still sees.
pub const LOOK_SLOW: Duration = Duration::from_millis(5);
/// Between slow looks at the whole queue there are others at the lanes that are known, for twenty
/// times as long as the last slow one took, within these limits.
pub const LOOK_BETWEEN: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(2);
/// Jobs of which only the end is to be written down, for which no place is needed: with so many no
/// more are claimed.
pub const JOBS_ENDING: usize = 256;
/// Most writes of jobs in one transaction.
pub const JOB_WRITES: usize = 256;
/// Writes of jobs that wait for it; more wait where they are made.
pub const JOB_WRITES_WAITING: usize = 1_024;
/// How long a claimed job stays ours without a sign of life, unless told otherwise.
pub const LEASE: Duration = Duration::from_secs(30);
/// How often the table of jobs is looked at when nothing wakes us, unless told otherwise.
pub const POLL: Duration = Duration::from_secs(1);
/// How long a stopping engine waits for jobs that were told to end, beyond its limit.
pub const STOP_GRACE: Duration = Duration::from_secs(2);

/// One block of a delivery; two are in flight.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// How many leases beyond its attempts a job may use up without an answer, such as by crashes of
/// its node or stops in the middle of it, before it is taken to be their cause.
pub const LEASES_OVER: u32 = 20;
/// How many earlier leases of a job are searched for staging files that they left behind.
pub const LEASES_SEARCHED: usize = 64;

/// Longest form of a time in a condition, in bytes.
pub(crate) const FORMAT_BYTES: usize = 64;
/// What a time is at most in such a form, in bytes: each two letters of it may have a width of 255.
pub(crate) const FORMAT_SIZE: u64 = 255 * 32;
/// Longest expression of a schedule, in bytes.
pub const CRON_BYTES: usize = 256;
/// A schedule must have an instant within so many years.
pub const CRON_YEARS: u32 = 10;
/// How often schedules are compared with the clock of the machine, which may jump, and with the
/// configuration.
pub const CRON_LOOK: Duration = Duration::from_secs(1);
/// A run begun within this time after its instant was not missed.
pub const CRON_ON_TIME: Duration = Duration::from_secs(10);
/// Most instants of one schedule that are made up for.
pub const CRON_MISSED: usize = 100;
/// Most schedules that are decided in one transaction.
pub const CRON_BATCH: usize = 256;
/// How often runs that wait for another one are looked at, at the least.
pub const CRON_WAIT: Duration = Duration::from_millis(250);
/// Each run that waits for another one makes that time so much longer.
pub const CRON_WAIT_EACH: Duration = Duration::from_millis(1);
/// After this time without its event, any node tells of a decision.
pub const CRON_UNTOLD: Duration = Duration::from_secs(10);

/// How often it is looked whether watched folders changed in the configuration.
pub const WATCH_TICK: Duration = Duration::from_secs(1);
/// How long a node lists a watched folder without a sign of life.
pub const WATCH_LEASE: Duration = Duration::from_secs(30);
/// Between two looks at a watched folder that web hooks ask for.
pub const WATCH_HINT_PAUSE: Duration = Duration::from_secs(2);
/// Folders that a node lists at the same time.
pub const WATCH_AT_ONCE: usize = 25;
/// A listing that takes longer is given up.
pub const WATCH_LOOK_TIME: Duration = Duration::from_secs(600);
/// A folder that cannot be listed is looked at again after this time at the latest, or after its
/// own.
pub const WATCH_PAUSE: Duration = Duration::from_secs(300);
/// How deep folders of a watched folder are looked into.
pub const WATCH_DEPTH: usize = 32;
/// Entries of a folder that are asked for at a time.
pub const WATCH_PAGE: usize = 1_000;
/// How long a file that is gone is remembered.
pub const WATCH_FORGET: Duration = Duration::from_secs(30 * 86_400);

/// How often it is looked whether something is due about files that rules expect.
pub const EXPECT_LOOK: Duration = Duration::from_secs(1);
/// A window that ended longer ago is not judged any more.
pub const EXPECT_BACK: Duration = Duration::from_secs(3 * 86_400);
/// How long a window is remembered after its end, and files are counted that came in it or after
/// it.
pub const EXPECT_KEPT: Duration = Duration::from_secs(10 * 86_400);
/// How long a node that is silent is waited for before it is said that files have not come.
pub const EXPECT_DEAD_WAIT: Duration = Duration::from_secs(300);
/// An event is in the journal within this time after its own.
pub const EXPECT_MARGIN: Duration = Duration::from_secs(5);
/// Most rules that are decided about in one transaction.
pub const EXPECT_BATCH: usize = 256;
/// After this time without its event, any node tells of a decision.
pub const EXPECT_UNTOLD: Duration = Duration::from_secs(10);
/// How often old windows are forgotten.
pub const EXPECT_SWEEP: Duration = Duration::from_secs(3600);

/// How often it is looked whether the rules before and after commands changed.
pub const HOOKS_POLL: Duration = Duration::from_millis(300);
/// A look at the rules that takes longer is given up, and begun anew.
pub const HOOKS_READ: Duration = Duration::from_secs(10);
/// Commands that wait for rules at the same time; more are not asked about and refused.
pub const HOOKS_AT_ONCE: usize = 2_048;
/// What the answer about a command may take beyond the time limits of its steps.
pub const HOOK_TIME: Duration = Duration::from_secs(40);
/// How long a client waits for a `scan` step without a `timeout`.
pub const WAITED_SCAN_TIME: Duration = Duration::from_secs(60);
/// The last words of a program that are kept, in characters.
pub const PROGRAM_WORDS: usize = 300;

/// How often a node says in the database that it lives.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// The same on SQLite, which has one node.
pub const HEARTBEAT_ALONE: Duration = Duration::from_secs(3);
/// How many of its own last heartbeats a node looks at before it judges others.
pub const BEATS_REMEMBERED: usize = 3;
/// A heartbeat that is answered within this is fast. While one of the last was not, the database
/// is slow, nobody's heartbeat is in time, and nobody is judged dead.
pub const BEAT_FAST: Duration = Duration::from_millis(500);
/// How long the end of a node waits for the database to take down that it ended.
pub const BEAT_LAST: Duration = Duration::from_secs(2);
/// A clock that differs from the database's by more is warned of.
pub const CLOCK_WARN: Duration = Duration::from_secs(2);
/// After the database fell back no job is claimed for so long: by then every node that lives has
/// noticed, and says if it brings back what was lost.
pub const SETTLE: Duration = Duration::from_secs(3);
/// How often an idle projector looks whether the database fell back.
pub const CURSOR_POLL: Duration = Duration::from_secs(1);

/// How long after its start a node first deletes what is old.
pub const RETENTION_FIRST: Duration = Duration::from_secs(60);
/// How often it does so.
pub const RETENTION_INTERVAL: Duration = Duration::from_secs(600);
/// How long the lease of the node that deletes lasts without a renewal.
pub const RETENTION_LEASE: Duration = Duration::from_secs(60);
/// Most rows that one transaction deletes. On SQLite nobody else writes meanwhile, so it decides
/// for how long a projection may have to wait.
pub const RETENTION_ROWS: u32 = 200;
/// The pause behind such a transaction, in which others write.
pub const RETENTION_PAUSE: Duration = Duration::from_millis(40);
/// Records of a journal whose events are looked at in one query.
pub const RETENTION_WINDOW: u64 = 4_000;
/// Events from which on no more are deleted under the same stub, and exported to the same file.
pub const RETENTION_CHUNK: u64 = 250_000;
/// With so many jobs that wait or run, no event is deleted: one of them may need it.
pub const RETENTION_OPEN_JOBS: u32 = 10_000;
/// A transfer that has not ended counts as under way for so long after its last change: no
/// unfinished upload is kept longer.
pub const RETENTION_OPEN_TRANSFER: Duration = Duration::from_secs(60 * 86_400);
/// How strongly exported events are compressed.
pub const RETENTION_ZSTD_LEVEL: i32 = 6;
/// Heads that are younger are all kept; of older ones the last of each hour.
pub const THIN_HEADS_AFTER: Duration = Duration::from_secs(30 * 86_400);

/// Documents of rules that are kept in memory for the jobs that run them.
pub const VERSIONS_KEPT: usize = 1_000;

/// Most bytes of the files that steps make, unless the process file says otherwise.
pub const WORK_BYTES: u64 = 64 << 30;
/// How often files of jobs that are over are looked for.
pub const WORK_SWEEP: Duration = Duration::from_secs(600);
/// How long files of a failed job are kept.
pub const WORK_KEPT: Duration = Duration::from_secs(86_400);
/// Names of files that are read at once.
pub const WORK_PAGE: usize = 1_000;

/// How long a dry run waits to see what is at a path.
pub const LOOK: Duration = Duration::from_secs(10);

/// How often it is looked which keys end soon.
pub const KEYS_LOOK: Duration = Duration::from_secs(3600);
/// How often it is looked how full the journal is.
pub const JOURNAL_LOOK: Duration = Duration::from_secs(5);
/// Days before the end of a key at which it is told.
pub const KEY_DAYS: [u32; 5] = [60, 30, 7, 1, 0];
/// Fillings of the journal that are told, in percent.
pub const JOURNAL_PERCENT: [u32; 3] = [50, 75, 90];
/// A filling is told again once the journal held so much less, in percent of its bound.
pub const JOURNAL_PERCENT_LESS: u32 = 10;

/// A job that rests until something has happened looks first after this time whether it has.
pub(crate) const REST_FIRST: Duration = Duration::from_secs(60);
/// The longest time between two such looks.
pub(crate) const REST_LONGEST: Duration = Duration::from_secs(3600);
/// Longest text of a question of an `approve` step, with its placeholders replaced.
pub(crate) const APPROVAL_CHARACTERS: usize = 4_000;
/// Longest answer of a server that gives tokens, in bytes.
pub const TOKEN_ANSWER_BYTES: usize = 64 * 1024;
/// Most tokens that a node remembers.
pub const TOKENS: usize = 1_000;
/// How long a token is used of which nobody says how long it is good.
pub const TOKEN_TIME: Duration = Duration::from_secs(300);
/// No token is used longer.
pub const TOKEN_TIME_MOST: Duration = Duration::from_secs(86_400);
/// A token is used until so long before its end.
pub const TOKEN_MARGIN: Duration = Duration::from_secs(30);
/// How long an answer with a token may take.
pub const TOKEN_WAIT: Duration = Duration::from_secs(30);

/// How many jobs a minute a node makes of a rule for the same path, unless the rule says otherwise:
/// the next one pauses the rule.
pub(crate) const LOOP_JOBS: u32 = 100;
/// The time in which those are counted.
pub(crate) const LOOP_TIME: Duration = Duration::from_secs(60);
/// Paths, each with a rule, whose jobs a node counts in that time: 12 bytes each. Those that come
/// first count.
pub(crate) const LOOP_PATHS: usize = 100_000;
