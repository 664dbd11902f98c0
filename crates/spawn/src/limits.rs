//! Named limits of programs that are started.

use std::time::Duration;

/// Programs that run at the same time, unless told otherwise.
pub const CHILDREN: usize = 16;
/// Programs that wait for their turn, unless told otherwise.
pub const QUEUE: usize = 2048;
/// So long a program waits for its turn.
pub const QUEUE_TIME: Duration = Duration::from_secs(30);
/// Helper processes; each starts one program at a time.
pub const HELPERS: usize = 2;
/// Pause before a helper that could not be started, or ended at once, is started again.
pub const RESTART_PAUSE: Duration = Duration::from_millis(200);

/// Time limit of a program, unless told otherwise.
pub const TIME: Duration = Duration::from_secs(60);
/// Longest time limit there is.
pub const TIME_MOST: Duration = Duration::from_secs(24 * 3600);
/// Address space of a program, unless told otherwise.
pub const MEMORY_BYTES: u64 = 1 << 30;
/// Least such limit: below it nothing starts.
pub const MEMORY_LEAST: u64 = 64 << 20;
/// Kept of each of the two outputs of a program: the last bytes.
pub const OUTPUT_KEPT: usize = 64 * 1024;
/// A program that writes more than this to one output is ended.
pub const OUTPUT_MOST: u64 = 64 << 20;
/// Bytes of the arguments and of the environment of a program, together.
pub const ARGUMENT_BYTES: usize = 256 * 1024;
/// Arguments, and variables, of a program.
pub const ARGUMENTS: usize = 1024;

/// Files that a program may have open.
pub const PROGRAM_DESCRIPTORS: u64 = 1024;
/// Processes of a program; and processes and threads of all programs together, where they have a
/// user of their own.
pub const PROGRAM_PROCESSES: u64 = 1024;
/// Processes and threads that the server's user may have once a program runs, beyond those that it
/// had when the helper began. Programs that run as that user cannot start more.
pub const SERVER_PROCESSES: u64 = 8192;
/// Longest file that a program may write.
pub const PROGRAM_FILE_BYTES: u64 = 64 << 30;
/// Folders and files that programs may read, or write, under Landlock.
pub const REACHED: usize = 2048;
/// Files that a helper has open at most: what programs reach, and three for each that runs.
pub const HELPER_DESCRIPTORS: u64 = 4096;
/// The thread that removes the folders of programs stays for so long without work.
pub const THREAD_TIME: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
/// Stack of the threads that start a program and that remove its temporary folder, level by level.
pub const STACK_BYTES: usize = 4 << 20;
/// Names tried for the temporary folder of a program.
pub const FOLDER_NAMES: usize = 16;

/// Longest frame between server and helper.
pub const FRAME_BYTES: usize = 512 * 1024;
/// Frames that wait to be written to a helper.
pub const FRAMES: usize = 4096;
/// Bytes read from the other end at once.
pub const READ_BYTES: usize = 64 * 1024;
/// What a program that ended left in its outputs is read for so long.
pub const DRAIN_TIME: Duration = Duration::from_secs(1);
/// A program that was killed is waited for so long, and then so long for what it left behind.
pub const KILL_TIME: Duration = Duration::from_secs(5);
/// First pause before another look for what a program left behind; each is twice as long.
pub const KILL_PAUSE: Duration = Duration::from_millis(1);
/// Least pause between two looks at the processes of programs while they run.
pub const LOOK_PAUSE: Duration = Duration::from_millis(20);
/// The pause is so many times as long as the last look was, within these bounds.
pub const LOOK_SHARE: u32 = 10;
/// Longest pause between two looks, on a machine that is busy with very many processes.
pub const LOOK_PAUSE_MOST: Duration = Duration::from_millis(200);
/// Times that the helper looks for more to kill before it does anything else.
pub const SWEEPS: usize = 64;
/// The mark of a run is at most so much less than that of the run before.
pub const MARK_STEP: u64 = 1 << 20;
