//! Named limits of this crate.

use std::time::Duration;

use entrepot_nouns::limits::OBJECT_PARTS_MIB;

/// The hidden directory at the root of a directory endpoint (and of each file system mounted
/// below it) that holds staged files. No path reaches it.
pub const STAGING_NAME: &str = ".entrepot-staging";

/// The hidden object that holds an otherwise empty directory of an object store.
pub const DIRECTORY_MARKER: &str = ".entrepot-directory";

/// Most entries of one page of a listing.
pub const LIST_PAGE: usize = 1000;

/// Most blocking calls of one store at work at a time; the others wait in order.
pub const POOL_TASKS: usize = 48;

/// Largest write that is done inline by a plain buffered `pwrite`, where the file system knows no
/// `RWF_NOWAIT`: about 100 µs of copying.
pub const INLINE_WRITE_BYTES: usize = 256 * 1024;

/// An inline write that took longer met the kernel's write-back throttle: the store goes to the
/// blocking pool for the next [`INLINE_PAUSE_WRITES`] writes.
pub const INLINE_WRITE_SLOW: Duration = Duration::from_millis(4);

/// Writes that go to the blocking pool after a slow inline one.
pub const INLINE_PAUSE_WRITES: u32 = 256;

/// Syncs this fast are done inline: only file systems in memory are.
pub const SYNC_FAST: Duration = Duration::from_micros(20);

/// Inline syncs slower than this, [`SYNC_SLOW_RUN`] in a row, send the store's syncs to the
/// blocking pool. One alone may be a thread that lost its CPU.
pub const SYNC_SLOW: Duration = Duration::from_millis(1);

/// How many syncs slower than [`SYNC_SLOW`] in a row send them there.
pub const SYNC_SLOW_RUN: u32 = 4;

/// One inline sync slower than this is enough to send the store's syncs to the blocking pool.
pub const SYNC_STALLED: Duration = Duration::from_millis(50);

/// Fast syncs in a row that bring the store's syncs back inline.
pub const SYNC_FAST_RUN: u32 = 32;

/// Tries of a publish or rename against others who change the same name.
pub const NAME_RACE_TRIES: u32 = 64;

/// Size of a memory endpoint that names none.
pub const MEMORY_BYTES: u64 = 64 * 1024 * 1024;

/// Smallest part of a multipart upload (the least S3 takes but for the last part), and the usual
/// size of the first ones.
pub const PART_BYTES: usize = 5 * 1024 * 1024;

/// Parts after which the part size doubles, and doubles again as far as it may, so that no object
/// needs 10,000 parts (S3's most).
pub const PARTS_A_SIZE: usize = 1000;

/// Most bytes of parts of one upload that are in memory, so that a transfer stays within 16 MiB
/// with what connections hold. Only where an object has more than [`PARTS_SMALL`] parts, of more
/// than 43 GiB at least, a part is larger.
pub const PARTS_BYTES: usize = OBJECT_PARTS_MIB as usize * 1024 * 1024;

/// Parts that are no larger than [`PARTS_BYTES`].
pub const PARTS_SMALL: usize = 4000;

/// Largest part, and so the memory of one upload of such an object. With it one object may have
/// more than 400 GiB.
pub const PART_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Where parts are sent side by side all are waited for after so many: an upload that is cut can
/// be gone on with behind them.
pub const PARTS_TO_REST: usize = 8;

/// Most bytes copied from file to file by one call.
pub const COPY_BYTES: u64 = 16 * 1024 * 1024;

/// Most parts of one object (S3's limit).
pub const PARTS_MOST: usize = 10_000;

/// Bytes one read from an object store asks for at least, so that small reads in a row share a
/// request.
pub const OBJECT_READ_AHEAD: usize = 4 * 1024 * 1024;

/// Bytes that it asks for at least while there is little memory; with none at all it asks for what
/// is wanted.
pub const OBJECT_READ_LEAST: usize = 64 * 1024;

/// How long a request to an object store is tried again: its signature is good for 15 minutes.
pub const OBJECT_TRIED_FOR: Duration = Duration::from_secs(600);

/// Longest pause between two tries of a request, where the endpoint names no longer first one.
pub const OBJECT_BACKOFF_MOST: Duration = Duration::from_secs(30);

/// Shortest pause: what stands for none.
pub const OBJECT_BACKOFF_LEAST: Duration = Duration::from_millis(1);

/// Longest pause that a server gets by naming it (`Retry-After`).
pub const OBJECT_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Largest object that S3 copies by one request, as a rename needs it.
pub const OBJECT_COPY_BYTES: u64 = 5 * 1024 * 1024 * 1024;

/// Most objects below a directory of an object store that is renamed: each is copied and deleted.
pub const OBJECT_RENAME_OBJECTS: usize = 10_000;

/// Copies, or deletes, of one such rename at a time.
pub const OBJECT_RENAME_AT_ONCE: usize = 16;

/// Old names of such a rename that are removed while nothing else is published.
pub const OBJECT_RENAME_PAGE: usize = 100;

/// Tries to remove such a page before the rename is given up, each behind the client's own tries.
pub const OBJECT_RENAME_TRIES: u32 = 5;

/// Most file systems mounted below the root of one directory endpoint that are staged on.
pub const MOUNT_MARKERS: usize = 1024;

/// A second name that kept a replaced file is dropped by a sweep when it is older.
pub const KEPT_FOR: Duration = Duration::from_secs(3600);

/// How long dialling an SFTP server may take; SSH has its own limits behind it.
pub const SFTP_CONNECT: Duration = Duration::from_secs(15);

/// An SFTP server that owes an answer and is silent for so long is given up.
pub const SFTP_ANSWER: Duration = Duration::from_secs(60);

/// Files of one SFTP endpoint that may be open at a time, each on a connection of its own.
pub const SFTP_CONNECTIONS: usize = 32;

/// Of fewer places at a server one account may have all.
pub const SHARED_PLACES: usize = 4;

/// Sessions of an FTP server that files never have, so that names can be asked for at any time.
pub const FTP_REQUEST_PLACES: usize = 1;

/// Connections to one SFTP server that are kept for the next file.
pub const SFTP_IDLE_CONNECTIONS: usize = 4;

/// Pages of a listing that may have come and not been taken.
pub const SFTP_LIST_PAGES: usize = 4;

/// Bytes asked ahead of a reader that goes straight on.
pub const SFTP_READ_AHEAD: u64 = 16 * 1024 * 1024;

/// KiB of one staged file on their way to an SFTP server.
pub const SFTP_WRITE_WINDOW_KIB: usize = 16 * 1024;

/// Directories of an SFTP server that are searched for files staged by an earlier process.
pub const SFTP_WALK_DIRECTORIES: usize = 4096;

/// A write that failed on a server with less room than this failed for want of it.
pub const SFTP_FULL_BYTES: u64 = 1024 * 1024;

/// How long it may take to reach an FTP server, for control and for data.
pub const FTP_CONNECT: Duration = Duration::from_secs(15);

/// An FTP server that owes an answer, or bytes of a file, and is silent for so long is given up.
pub const FTP_ANSWER: Duration = Duration::from_secs(60);

/// The answer that ends an upload may take so long: the server may look through the file first.
pub const FTP_FINISH: Duration = Duration::from_secs(300);

/// Sessions of one FTP endpoint where it names no number. Many servers take eight of one client.
pub const FTP_CONNECTIONS: u16 = 8;

/// A connection to an FTP server that rested longer is asked whether it still lives.
pub const FTP_RESTED: Duration = Duration::from_secs(5);

/// Bytes read at a time from the control connection of an FTP server.
pub const FTP_CONTROL_BYTES: usize = 4096;

/// Bytes of a listing read at a time from an FTP server.
pub const FTP_LIST_BYTES: usize = 64 * 1024;

/// Downloads of one open file that are begun again where they were cut.
pub const FTP_RESTARTS: u32 = 8;

/// Directories of an FTP server that are searched for files staged by an earlier process.
pub const FTP_WALK_DIRECTORIES: usize = 4096;

/// Largest file of a database endpoint: a row is read and written whole.
pub const SQL_FILE_BYTES: u64 = 64 * 1024 * 1024;

/// Memory for files on their way into one database endpoint.
pub const SQL_STAGED_BYTES: u64 = 256 * 1024 * 1024;

/// Connections to one database at a time.
pub const SQL_CONNECTIONS: usize = 8;

/// How long reaching a database may take, and waiting for its locks.
pub const SQL_CONNECT: Duration = Duration::from_secs(10);

/// How long the server may take for one statement of a database endpoint.
pub const SQL_STATEMENT: Duration = Duration::from_secs(60);

/// How long one read or change of a database may take, and waiting for its turn: behind what the
/// server itself allows a statement. A connection that took longer is given up.
pub const SQL_OPERATION: Duration = Duration::from_secs(90);

/// Tries of a transaction that met another one.
pub const SQL_TRIES: u32 = 10;
