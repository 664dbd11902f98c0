//! Named limits of the database layer.

use std::time::Duration;

/// Most rows one query returns; a filter that asks for more gets this many.
pub const PAGE_ROWS: u32 = 10_000;
/// Most jobs one claim takes.
pub const CLAIM_JOBS: usize = 1_000;
/// Most lanes that one look at the queue finds.
pub const LANES: usize = 1_000;
/// Prepared statements kept by each SQLite connection.
pub const STATEMENTS: usize = 128;
/// SQLite connections that read at the same time.
pub const SQLITE_READERS: usize = 4;
/// How long SQLite waits for another process that writes.
pub const SQLITE_BUSY: Duration = Duration::from_secs(10);
/// How often a new SQLite file is asked for its write-ahead log while others make it.
pub const WRITE_AHEAD_ATTEMPTS: u32 = 100;
/// The pause between.
pub const WRITE_AHEAD_PAUSE: Duration = Duration::from_millis(20);
/// Size to which SQLite cuts its write-ahead log back after a checkpoint, bytes.
pub const SQLITE_LOG_BYTES: i64 = 64 << 20;
/// Pages (4 KiB) in the write-ahead log at which SQLite copies them into the file. Index pages
/// that change in every batch are then copied once for many: a tenth of the CPU time saved.
pub const SQLITE_CHECKPOINT_PAGES: i64 = 4_000;
/// Page cache of each SQLite connection, KiB.
pub const SQLITE_CACHE_KIB: i64 = 16 << 10;
/// PostgreSQL connections of a node.
pub const POSTGRES_CONNECTIONS: usize = 16;
/// How long a new PostgreSQL connection may take, TLS and login included.
pub const POSTGRES_CONNECT: Duration = Duration::from_secs(5);
/// How long one of several PostgreSQL hosts may take for a connection before the next is tried.
pub const POSTGRES_HOST: Duration = Duration::from_secs(1);
/// What a connection to one of several hosts may take beyond the time of each.
pub const POSTGRES_HOSTS_SPARE: Duration = Duration::from_secs(3);
/// How long a query waits for a free connection of the pool.
pub const POSTGRES_WAIT: Duration = Duration::from_secs(10);
/// After this long without an answer to sent bytes a PostgreSQL connection counts as dead.
pub const POSTGRES_SILENCE: Duration = Duration::from_secs(15);
/// How often opening a new database is tried while another process migrates the same one.
pub const MIGRATION_ATTEMPTS: u32 = 5;
/// A node without a heartbeat for this long, by the database's clock, counts as dead. Nodes write
/// one each second.
pub const NODE_DEAD_AFTER: Duration = Duration::from_secs(4);
/// Revisions of the configuration that are left out after the database fell back: more than
/// changes are ever lost.
pub const REVISIONS_SKIPPED: i64 = 1_000_000;
/// By so much a clock may be ahead of one that is asked later: of several nodes, no two agree.
pub const CLOCK_AHEAD: Duration = Duration::from_secs(10);
/// How often the configuration is read again because it changed meanwhile.
pub const CONFIGURATION_READS: u32 = 5;
/// Revisions of a copy of the configuration lie below the negative of this: whoever has read none
/// yet may say so by -1.
pub const KNOWN_REVISIONS_BELOW: i64 = 2;
/// Events whose times are noted together, so that a search by time finds its part of the table.
pub const STRETCH_ROWS: u32 = 1_024;
/// Rows that one page of a search looks at in a part of the table: it takes as long for what is
/// rare as for what is common, and the next page goes on from there.
pub const SEARCHED_ROWS: u32 = 1_000;

/// How often it is noted, while jobs are made of a document of a rule, that they are. It stands in
/// microseconds in the statement of `job_steps.rs` that does so.
pub const VERSION_USED: Duration = Duration::from_secs(3600);
/// How often the id of a message of AS2 is claimed that others claim and give back meanwhile.
pub const CLAIM_TRIES: u32 = 4;
