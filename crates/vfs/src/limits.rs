//! Named limits of this crate.

use std::time::Duration;

/// Bytes that nearly every record of the journal fits in.
pub const RECORD_BYTES: usize = 1_024;
/// Descriptors of sessions and their files, where the node does not say how many there are.
pub const DESCRIPTORS: u64 = 65_536;
/// Sessions of peers that are open at a time, where the node does not say how many may be.
pub const SESSIONS: u64 = 20_000;
/// Memory for what waits in it for all sessions together, where the node does not say how much. One
/// account alone gets half of it.
pub const MEMORY_BYTES: u64 = 256 * 1024 * 1024;
/// This part of descriptors and of sessions is kept for administrators.
pub const KEPT_PART: u64 = 16;
/// And at most so many of them.
pub const KEPT_MOST: u64 = 32;
/// Descriptors of a session of FTP: its control connection, a data connection, the port that this
/// one comes to, and the last data connection, which its client may not have closed yet.
pub const FTP_SESSION_DESCRIPTORS: u64 = 4;
/// Bytes of the longest file that system calls can address (`off_t`).
pub const FILE_BYTES: u64 = i64::MAX.unsigned_abs();
/// Most separate ranges of one upload that are written and not yet connected.
pub const RANGES: usize = 16_384;
/// Most bytes that a store which takes bytes only in order keeps in memory for one upload while
/// it waits for what comes before them.
pub const REORDER_BYTES: u64 = 16 * 1024 * 1024;
/// Most writes that wait so in one upload.
pub const REORDER_WRITES: usize = 16_384;
/// What such a write takes of memory besides its bytes.
pub const REORDER_WRITE_BYTES: u64 = 256;
/// How long the finish of an upload waits for memory in which the parts of an object are made.
pub const MEMORY_WAIT: Duration = Duration::from_secs(60);
/// Most bytes that uploads to stores which take bytes only in order may have on the local disk, all
/// together, because their clients write in another order.
pub const SPOOL_BYTES: u64 = 32 * 1024 * 1024 * 1024;
/// Most changes of the trash that a node remembers until the database has them. Beyond them the
/// trash is shown as the database has it.
pub const TRASH_REMEMBERED: usize = 10_000;
/// Things in the trash that are deleted for good in one batch.
pub const TRASH_BATCH: u32 = 50;
/// Directories above something that is put back, made again at most.
pub const RESTORED_PARENTS: usize = 64;
/// Bytes read back or copied at a time, at the finish of an upload and in recovery.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// Most unwritten bytes that an upload may have at its finish where no older file lies below them:
/// they are hashed as zeros, and a client makes them with one short request.
pub const HOLE_BYTES: u64 = 16 * 1024 * 1024 * 1024;
/// Bytes of a spooled upload that are sent to its store at a time.
pub const SPOOL_BLOCK_BYTES: usize = 1024 * 1024;
/// Zeros of it that are hashed before others have their turn.
pub const ZEROS_AT_ONCE: u64 = 8 * 1024 * 1024;
/// One write hashes at most this much of what came before it out of order.
pub const CATCH_UP_BYTES: u64 = 1024 * 1024;
/// An upload notes in the journal how far it is whenever it has grown by so much, so that it can
/// be resumed after the process was killed.
pub const MARK_BYTES: u64 = 64 * 1024 * 1024;
/// An upload reserves room in its quota in steps of at most this much.
pub const RESERVE_BYTES: u64 = 4 * 1024 * 1024;
/// A step is also at most this part of what is left.
pub const RESERVE_PART: u64 = 16;
/// Recovery reads back the digest of files up to this size; of larger ones identity and size
/// decide.
pub const RECOVERY_DIGEST_BYTES: u64 = 64 * 1024 * 1024;
/// Records of the journal's end that recovery looks at first.
pub const RECOVERY_WINDOW: u64 = 131_072;
/// Pending intents and partials are noted again in the journal after so many records.
pub const CHECKPOINT_RECORDS: u64 = 32_768;
/// How often the background task looks for work.
pub const TICK: Duration = Duration::from_secs(1);
/// How often it is tried whether a sick store works again.
pub const PROBE_EVERY: Duration = Duration::from_secs(5);
/// How long such a try may take before it counts as failed.
pub const PROBE_TIME: Duration = Duration::from_secs(10);
/// How often partials whose time is over are looked for.
pub const SWEEP_EVERY: Duration = Duration::from_secs(300);
/// How often the files below a mount with a quota are counted anew, in the background.
pub const RECOUNT_EVERY: Duration = Duration::from_secs(600);
/// Fillings of a quota that are told, in percent.
pub const QUOTA_PERCENT: [u32; 3] = [80, 90, 100];
/// A filling is told again once so much less of the quota was taken, in percent.
pub const QUOTA_PERCENT_LESS: u64 = 5;
/// A directory that changes while it is counted is listed so often before its count is taken as it
/// is.
pub const RELISTED: u32 = 4;
/// How long an operation waits for the first count of a mount with a quota.
pub const COUNT_WAIT: Duration = Duration::from_secs(30);
/// Staging of other nodes on a shared endpoint is left alone for this long.
pub const FOREIGN_STAGING: Duration = Duration::from_secs(60 * 24 * 3600);
/// Most uploads under temporary names whose digest is remembered until the rename.
pub const TEMPORARIES: usize = 65_536;
/// Most partials kept for one account; the oldest goes when another comes.
pub const PARTIALS_PER_ACCOUNT: usize = 1_000;
/// Most uploads of one account that are continued by id and have not ended; another one is refused.
pub const UPLOADS_BY_ID: usize = 1_000;
/// How long a request that continues an upload waits until one that does so already gives way.
pub const DISPLACE_TIME: Duration = Duration::from_secs(5);
/// Longest metadata that a client may have kept with such an upload.
pub const UPLOAD_METADATA_BYTES: usize = 4 * 1024;
/// Most separate ranges of parts of one such upload: each is noted in the journal with every part.
pub const PART_RANGES: usize = 1_024;
/// Least bytes of a part.
pub const PART_BYTES_LEAST: u64 = 64 * 1024;
/// Most parts of one upload.
pub const PARTS_MOST: u64 = 65_536;
/// Published uploads whose clients are answered again when they lost the answer.
pub const FINISHED_UPLOADS: usize = 4_096;
/// An upload ticket that was not used for so long is good for nothing any more.
pub const TICKET_IDLE: Duration = Duration::from_secs(24 * 3600);
/// Most names tried for a file that is to be kept beside what has its name.
pub const KEEP_BOTH_NAMES: u32 = 1_000;
/// How often the finish looks for another such name when somebody else took the one it had found.
pub const KEEP_BOTH_TRIES: u32 = 16;
/// Most entries asked of a store at a time.
pub const PAGE: usize = 1_000;
/// Deepest directory that a quota count goes down to.
pub const COUNT_DEPTH: usize = 256;
/// Most symbolic links that lead from a name to its file, as on Linux.
pub const LINKS: usize = 40;
/// Most names looked at on such a way.
pub const LINK_STEPS: usize = 1_024;
/// How long a whole upload is kept that a crash left unpublished.
pub const UNPUBLISHED_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
/// Bytes read and hashed at a time for a client that asks for hashes.
pub const HASH_BLOCK_BYTES: usize = 1024 * 1024;
/// Longest text of a search by name.
pub const QUERY_BYTES: usize = 255;
/// A page of a search ends when it has looked at so many entries.
pub const SEARCH_ENTRIES: u64 = 50_000;
/// A page of a search ends when it has taken so long.
pub const SEARCH_TIME: Duration = Duration::from_secs(2);
/// Deepest directory that a search goes down to.
pub const SEARCH_DEPTH: usize = 256;
/// Most entries of one directory that a search keeps in memory; the directory is listed again for
/// more.
pub const SEARCH_NAMES: usize = 1_000;
/// Bytes that a step of a copy copies at most.
pub const COPY_PIECE_BYTES: u64 = 8 * 1024 * 1024;
/// Most directories that wait to be copied.
pub const COPY_DIRECTORIES: usize = 100_000;
/// Most entries of an archive of a folder: about 100 bytes of memory each.
pub const ZIP_ENTRIES: usize = 200_000;
/// Most bytes of an archive that are read at a time.
pub const ZIP_READ_BYTES: usize = 256 * 1024;
/// Files whose checksum for archives, and files whose SHA-256 is remembered, each twice: in a young
/// and an old generation.
pub const REMEMBERED_VERSIONS: usize = 65_536;
/// Questions about commands that wait for rules to be asked.
pub const HOOK_QUEUE: usize = 4_096;
/// Messages of AS2 of which this process remembers that it has published them.
pub const AS2_PUBLISHED: usize = 10_000;
/// For how long the id of a message of AS2 is known: a copy that comes later is a new message.
pub const AS2_REMEMBERED: Duration = Duration::from_secs(30 * 86_400);
