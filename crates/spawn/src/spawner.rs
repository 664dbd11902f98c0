//! Starts programs through helpers: limits how many run and wait, starts helpers when they are
//! needed, and again when one died.

use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use entrepot_nouns::Env;
use parking_lot::Mutex;
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Sender;
use tokio::process::Command;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use zeroize::Zeroizing;

use crate::allow::Allowed;
use crate::error::SpawnError;
use crate::frame::{Settings, Start};
use crate::helper::{self, StartLimits};
use crate::isolation::Isolation;
use crate::limits::{
    ARGUMENT_BYTES, ARGUMENTS, CHILDREN, HELPERS, KILL_TIME, QUEUE, QUEUE_TIME, RESTART_PAUSE,
    TIME_MOST,
};
use crate::link::{Carrier, Link};
use crate::program::{Descriptors, Ended, Program, Stdin, Stdout, pipe};

/// What is run as the helper.
#[derive(Clone, Debug)]
pub enum Helper {
    /// A program that calls [`crate::serve_as_helper`] when it has these arguments.
    Program(PathBuf, Vec<OsString>),
    /// A thread of this very process, for tests of what uses a spawner.
    Thread,
}

impl Helper {
    /// The program that runs now, with the argument `spawner`; also when its file was replaced.
    pub fn own() -> Helper {
        Helper::Program("/proc/self/exe".into(), vec!["spawner".into()])
    }
}

/// How programs are started.
#[derive(Clone, Debug)]
pub struct SpawnerOptions {
    /// Which programs at all.
    pub allowed: Allowed,
    /// What is run as the helper.
    pub helper: Helper,
    /// Programs at the same time.
    pub children: usize,
    /// Programs that wait for their turn.
    pub queue: usize,
    /// What keeps programs apart from the server.
    pub isolation: Isolation,
    /// Where each program has a folder of its own while it runs; its user must be able to write
    /// there.
    pub temporary: PathBuf,
}

impl SpawnerOptions {
    /// With the usual limits, the own program as helper, and programs that run as the server's
    /// user without more.
    pub fn new(allowed: Allowed) -> SpawnerOptions {
        SpawnerOptions {
            allowed,
            helper: Helper::own(),
            children: CHILDREN,
            queue: QUEUE,
            isolation: Isolation::None,
            temporary: std::env::temp_dir(),
        }
    }
}

/// Starts programs. Cheap to clone; helpers start with the first program.
#[derive(Clone)]
pub struct Spawner(Arc<Inner>);

struct Inner {
    options: SpawnerOptions,
    env: Env,
    turns: Semaphore,
    waiting: AtomicUsize,
    next: AtomicUsize,
    slots: [Mutex<Slot>; HELPERS],
    carriers: TaskTracker,
    stop: CancellationToken,
}

#[derive(Default)]
struct Slot {
    link: Option<Arc<Link>>,
    /// When the last helper was started.
    started: Option<Duration>,
}

impl std::fmt::Debug for Spawner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Spawner").field("options", &self.0.options).finish_non_exhaustive()
    }
}

impl Spawner {
    /// A spawner that has started nothing yet.
    pub fn new(options: SpawnerOptions, env: Env) -> Spawner {
        let turns = Semaphore::new(options.children.clamp(1, Semaphore::MAX_PERMITS));
        Spawner(Arc::new(Inner {
            options,
            env,
            turns,
            waiting: AtomicUsize::new(0),
            next: AtomicUsize::new(0),
            slots: Default::default(),
            carriers: TaskTracker::new(),
            stop: CancellationToken::new(),
        }))
    }

    /// Whether the operator allows this program.
    ///
    /// # Errors
    /// [`SpawnError::NotAllowed`].
    pub fn permits(&self, program: &str) -> Result<(), SpawnError> {
        self.0.options.allowed.check(program)
    }

    /// Runs a program to its end. Must be called inside a tokio runtime. Dropping the future
    /// kills the program.
    ///
    /// # Errors
    /// The program did not run, or how it ended is unknown.
    pub async fn run(&self, program: Program) -> Result<Ended, SpawnError> {
        let path = program.argv.first().cloned().unwrap_or_default();
        self.permits(&path)?;
        let not_started = |why: String| SpawnError::NotStarted { program: path.clone(), why };
        check(&program).map_err(|why| not_started(why.to_owned()))?;
        let _turn = self.turn().await?;
        let link = self.link()?;
        let Program { argv, env, stdin, stdout, files, limit, memory_bytes, processes } = program;
        let limit = limit.min(TIME_MOST);
        let start = Start {
            id: 0,
            stdin: false,
            stdout: false,
            limit,
            memory_bytes,
            processes,
            argv,
            env,
            files,
        };
        let (pump, stdin) = prepare(stdin).map_err(|error| not_started(error.to_string()))?;
        let stdout = match stdout {
            Stdout::Kept => None,
            Stdout::Pipe(descriptor) => Some(descriptor),
        };
        let answer = feed(pump, link.run(start, Descriptors { stdin, stdout })).await;
        answer.map_err(|_| SpawnError::Lost)?.map_err(not_started)
    }

    /// Kills all that runs and ends the helpers.
    pub async fn stop(&self) {
        self.0.stop.cancel();
        self.0.carriers.close();
        if timeout(3 * KILL_TIME, self.0.carriers.wait()).await.is_err() {
            tracing::warn!("a helper that starts programs does not end");
        }
    }

    async fn turn(&self) -> Result<SemaphorePermit<'_>, SpawnError> {
        let inner = &*self.0;
        if let Ok(turn) = inner.turns.try_acquire() {
            return Ok(turn);
        }
        let place = Place(&inner.waiting);
        if inner.waiting.fetch_add(1, Ordering::AcqRel) >= inner.options.queue {
            return Err(SpawnError::Busy);
        }
        let turn = timeout(QUEUE_TIME, inner.turns.acquire()).await;
        drop(place);
        turn.ok().and_then(Result::ok).ok_or(SpawnError::Busy)
    }

    /// The connection to a helper that is alive as far as is known; a new helper if need be.
    fn link(&self) -> Result<Arc<Link>, SpawnError> {
        let inner = &*self.0;
        if inner.stop.is_cancelled() {
            return Err(SpawnError::Unavailable("the server stops".to_owned()));
        }
        let first = inner.next.fetch_add(1, Ordering::Relaxed) % HELPERS;
        let (before, from) = inner.slots.split_at(first);
        let mut last = None;
        for slot in from.iter().chain(before) {
            match self.link_of(&mut slot.lock()) {
                Ok(link) => return Ok(link),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or(SpawnError::Busy))
    }

    fn link_of(&self, slot: &mut Slot) -> Result<Arc<Link>, SpawnError> {
        let inner = &*self.0;
        if let Some(link) = slot.link.as_ref().filter(|link| !link.is_gone()) {
            return Ok(link.clone());
        }
        let now = inner.env.elapsed();
        let proven = slot.link.as_ref().is_some_and(|link| link.is_proven());
        if !proven && slot.started.is_some_and(|at| now.saturating_sub(at) < RESTART_PAUSE) {
            return Err(SpawnError::Unavailable("it ended a moment ago".to_owned()));
        }
        (slot.started, slot.link) = (Some(now), None);
        let SpawnerOptions { temporary, isolation, .. } = inner.options.clone();
        let (link, carrier) = Link::new(Settings { temporary, isolation });
        self.start(carrier).map_err(|error| SpawnError::Unavailable(error.to_string()))?;
        slot.link = Some(link.clone());
        Ok(link)
    }

    /// Starts a helper, and the task that carries its frames.
    fn start(&self, carrier: Carrier) -> std::io::Result<()> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let ours = UnixStream::from_std(ours)?;
        let stop = self.0.stop.clone();
        match &self.0.options.helper {
            Helper::Program(program, arguments) => {
                let mut command = Command::new(program);
                command.args(arguments).arg0("entrepot").env_clear();
                // One pool of memory for all threads: the helper has a second one only while it
                // starts a program, and its address space counts under the program's limit then.
                command.env("MALLOC_ARENA_MAX", "1");
                command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null());
                let mut child = command.spawn()?;
                self.0.carriers.spawn(async move {
                    carrier.carry(ours, &stop).await;
                    // Its end of the line is closed: it kills what runs, then it ends.
                    match timeout(2 * KILL_TIME, child.wait()).await {
                        Ok(Ok(status)) if !stop.is_cancelled() => {
                            tracing::error!(code = "EP0822", %status, "a helper ended");
                        }
                        Ok(_) => {}
                        Err(_) => {
                            let _ = child.kill().await;
                        }
                    }
                });
            }
            Helper::Thread => {
                self.0.carriers.spawn(async move {
                    carrier.carry(ours, &stop).await;
                });
                let thread = std::thread::Builder::new().name("spawner".to_owned());
                thread.spawn(move || {
                    let mut runtime = tokio::runtime::Builder::new_current_thread();
                    let served = runtime.enable_all().build().and_then(|runtime| {
                        runtime.block_on(helper::serve(theirs, StartLimits::AfterStart))
                    });
                    if let Err(error) = served {
                        tracing::error!(code = "EP0822", %error, "a helper ended");
                    }
                })?;
            }
        }
        Ok(())
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

fn check(program: &Program) -> Result<(), &'static str> {
    let Program { argv, env, files, .. } = program;
    if [argv.len(), env.len(), files.len()].into_iter().any(|count| count > ARGUMENTS) {
        return Err("there are too many arguments, variables or files");
    }
    let variables = env.iter().flat_map(|(name, value)| [name, value]);
    let length: usize = argv.iter().chain(variables).map(|text| text.len() + 16).sum();
    let paths: usize = files.iter().map(|path| path.as_os_str().len() + 16).sum();
    if length + paths > ARGUMENT_BYTES {
        return Err("its arguments and variables are too long");
    }
    let no_name = |name: &str| name.is_empty() || name.contains(['=', '\0']);
    if argv.iter().any(|item| item.contains('\0'))
        || env.iter().any(|(name, value)| no_name(name) || value.contains('\0'))
    {
        return Err("an argument or variable has a byte that none can have");
    }
    Ok(())
}

type Pump = Option<(Sender, Zeroizing<Vec<u8>>)>;

fn prepare(stdin: Stdin) -> std::io::Result<(Pump, Option<OwnedFd>)> {
    match stdin {
        Stdin::Nothing => Ok((None, None)),
        Stdin::Pipe(descriptor) => Ok((None, Some(descriptor))),
        Stdin::Bytes(bytes) => match pipe()? {
            (sender, Stdin::Pipe(descriptor)) => Ok((Some((sender, bytes)), Some(descriptor))),
            _ => Ok((None, None)),
        },
    }
}

/// Gives the program its bytes while it runs; it need not take them.
async fn feed<T>(pump: Pump, answer: impl Future<Output = T>) -> T {
    let writing = async {
        if let Some((mut sender, bytes)) = pump {
            let _ = sender.write_all(&bytes).await;
        }
        std::future::pending::<std::convert::Infallible>().await
    };
    tokio::select! {
        biased;
        answer = answer => answer,
        never = writing => match never {},
    }
}
