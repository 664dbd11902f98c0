//! The helper process: one thread, frames in on standard input, programs out.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Arc;

use entrepot_nouns::Env;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process,
    kill_process_group, pidfd_open, prlimit, setrlimit,
};
use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, Interest};
use tokio::net::UnixStream;
use tokio::net::unix::pipe::Receiver;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::apart::{Apart, Started};
use crate::frame::{Frame, Start};
use crate::kin::{Kin, KinOfRun};
use crate::limits::{
    DRAIN_TIME, FRAMES, HELPER_DESCRIPTORS, KILL_TIME, MEMORY_LEAST, OUTPUT_KEPT, OUTPUT_MOST,
    PROGRAM_DESCRIPTORS, PROGRAM_FILE_BYTES, READ_BYTES, STACK_BYTES, THREAD_TIME,
};
use crate::program::{Descriptors, Ended, How, Output};

/// Is the helper until the server is gone: frames come and go on standard input.
pub fn serve_as_helper() -> ExitCode {
    let served = || -> io::Result<()> {
        // No program keeps a directory of the server's busy, or leaves its memory on the disk.
        rustix::process::chdir("/")?;
        // In a session of its own there is no terminal that programs could type into. It fails if
        // this is one already.
        let _ = rustix::process::setsid();
        // Programs of the same user may not look into this process.
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        let none = Rlimit { current: Some(0), maximum: Some(0) };
        setrlimit(Resource::Core, none)?;
        let files = getrlimit(Resource::Nofile);
        let current = files.current.map_or(HELPER_DESCRIPTORS, |now| now.min(HELPER_DESCRIPTORS));
        setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..files })?;
        let stdin = io::stdin().as_fd().try_clone_to_owned()?;
        // What a program gets is its own; the helper's end closes with the helper.
        let stream = std::os::unix::net::UnixStream::from(stdin);
        // One more thread removes what programs left in their folders. It begins now and stays:
        // where a program has filled the table of processes there are no new ones.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_all().max_blocking_threads(1).thread_stack_size(STACK_BYTES);
        let runtime = runtime.thread_keep_alive(THREAD_TIME).build()?;
        runtime.spawn_blocking(|| {});
        runtime.block_on(serve(stream, StartLimits::OfProcess))
    };
    match served() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("the helper that starts programs failed: {error}");
            ExitCode::FAILURE
        }
    }
}

/// How a program's memory and files are limited before it runs its first instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum StartLimits {
    /// By the limits of this process, which has them while it starts the program and does nothing
    /// else meanwhile.
    OfProcess,
    /// This process has other threads, so right after the start.
    AfterStart,
}

/// Serves one server until its end of `stream` closes.
pub(crate) async fn serve(
    stream: std::os::unix::net::UnixStream,
    limits: StartLimits,
) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    let (read, write) = UnixStream::from_std(stream)?.into_split();
    let (answers, waiting) = mpsc::channel(FRAMES);
    let mut tasks = JoinSet::new();
    tasks.spawn(answer(write, waiting));
    let env = Env::real();
    // A process with other children than programs may neither wait for them nor kill them.
    let kin = if limits == StartLimits::OfProcess { kin(&env) } else { None };
    let looks = kin.clone().map(|kin| tokio::spawn(async move { kin.keep_looking().await }));
    let running = HashMap::new();
    let mut programs =
        Running { limits, env, kin: kin.clone(), apart: None, answers, running, tasks };
    let served = programs.serve(&read).await;
    // The server is gone, or not to be understood: nobody waits, so all are killed, and seen to be
    // dead.
    programs.running.values().for_each(CancellationToken::cancel);
    drop(programs.answers);
    let ended = async { while programs.tasks.join_next().await.is_some() {} };
    let _ = timeout(2 * KILL_TIME + DRAIN_TIME, ended).await;
    if let Some(kin) = kin {
        kin.kill_strays().await;
    }
    if let Some(looks) = looks {
        looks.abort();
    }
    served
}

/// What finds the processes of programs; `None` where it cannot, and then a program is killed with
/// its process group.
fn kin(env: &Env) -> Option<Arc<Kin>> {
    let kin = Kin::new(env.clone()).inspect_err(|error| {
        eprintln!("what programs leave running in sessions of their own is not found: {error}");
    });
    kin.ok().map(Arc::new)
}

/// The programs of one server that run now.
struct Running {
    limits: StartLimits,
    env: Env,
    kin: Option<Arc<Kin>>,
    /// The settings of the server come before the first program.
    apart: Option<Arc<Apart>>,
    answers: mpsc::Sender<Frame>,
    running: HashMap<u64, CancellationToken>,
    tasks: JoinSet<()>,
}

impl Running {
    /// Does what the server says until it is gone.
    async fn serve(&mut self, stream: &OwnedReadHalf) -> io::Result<()> {
        let mut input = Vec::new();
        let mut descriptors = VecDeque::new();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let count = match receive(stream, &mut buffer, &mut descriptors).await {
                Ok(count) => count,
                // It went with answers unread.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                Err(error) => return Err(error),
            };
            if count == 0 {
                return Ok(());
            }
            input.extend_from_slice(buffer.get(..count).unwrap_or_default());
            let mut at = 0;
            let broken = |_| io::Error::new(io::ErrorKind::InvalidData, "not a frame");
            while let Some((frame, length)) =
                Frame::read(input.get(at..).unwrap_or_default()).map_err(broken)?
            {
                at += length;
                self.take(frame, &mut descriptors)?;
            }
            input.drain(..at);
        }
    }

    fn take(&mut self, frame: Frame, descriptors: &mut VecDeque<OwnedFd>) -> io::Result<()> {
        while self.tasks.try_join_next().is_some() {}
        match frame {
            Frame::Start(start) => {
                let mut next = |is_sent: bool| if is_sent { descriptors.pop_front() } else { None };
                let ends = Descriptors { stdin: next(start.stdin), stdout: next(start.stdout) };
                if start.stdin != ends.stdin.is_some() || start.stdout != ends.stdout.is_some() {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "no descriptor came"));
                }
                let Some(apart) = self.apart.clone() else {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "no settings came"));
                };
                self.running.retain(|_, cancel| !cancel.is_cancelled());
                let cancel = CancellationToken::new();
                self.running.insert(start.id, cancel.clone());
                let (answers, env, limits) = (self.answers.clone(), self.env.clone(), self.limits);
                let kin = self.kin.clone();
                self.tasks.spawn(async move {
                    let id = start.id;
                    let mark = kin.as_ref().map(|kin| kin.mark()).transpose();
                    let Started { child, folder } = apart.start(&start, |folder| {
                        mark.as_ref().map_err(|error| io::Error::other(error.to_string()))?;
                        begin(&start, ends, limits, folder)
                    });
                    let ended = match child {
                        Ok(child) => {
                            let mark = mark.ok().flatten();
                            let first = Pid::from_child(&child);
                            let began = |(kin, mark)| Kin::began(kin, mark, first, start.processes);
                            let kin = kin.as_ref().zip(mark).map(began);
                            watch(child, &start, &env, &cancel, kin).await
                        }
                        Err(error) => Err(error),
                    };
                    if let Some(folder) = folder {
                        remove(apart, folder).await;
                    }
                    cancel.cancel();
                    let frame = match ended {
                        Ok(ended) => Frame::Ended(id, ended),
                        Err(error) => Frame::NotStarted(id, error.to_string()),
                    };
                    // Without a server there is nobody to tell.
                    let _ = answers.send(frame).await;
                });
            }
            Frame::Settings(settings) => {
                let apart = Arc::new(Apart::new(settings, self.env.clone()));
                if let Some(kin) = &self.kin {
                    kin.start_by(apart.clone());
                }
                self.apart = Some(apart);
            }
            Frame::Cancel(id) => {
                if let Some(cancel) = self.running.remove(&id) {
                    cancel.cancel();
                }
            }
            Frame::Ended(..) | Frame::NotStarted(..) => {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "a frame of a helper"));
            }
        }
        Ok(())
    }
}

/// Reads what there is, with the descriptors that came along; 0 at the end.
async fn receive(
    stream: &OwnedReadHalf,
    buffer: &mut [u8],
    descriptors: &mut VecDeque<OwnedFd>,
) -> io::Result<usize> {
    let stream: &UnixStream = stream.as_ref();
    stream
        .async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut slices = [IoSliceMut::new(buffer)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let message = rustix::net::recvmsg(stream, &mut slices, &mut control, flags)?;
            for item in control.drain() {
                if let RecvAncillaryMessage::ScmRights(rights) = item {
                    descriptors.extend(rights);
                }
            }
            Ok(message.bytes)
        })
        .await
}

/// Writes answers, as many at once as there are.
async fn answer(mut stream: OwnedWriteHalf, mut waiting: mpsc::Receiver<Frame>) {
    let mut output = Vec::new();
    while let Some(frame) = waiting.recv().await {
        frame.write(&mut output);
        while output.len() < READ_BYTES
            && let Ok(frame) = waiting.try_recv()
        {
            frame.write(&mut output);
        }
        if stream.write_all(&output).await.is_err() {
            return;
        }
        output.clear();
    }
}

/// Why a program is not waited for any more.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Why {
    Exited,
    TimeLimit,
    OutputLimit,
    ProcessLimit,
    Cancelled,
}

/// Removes the folder of a program that has ended. What it left there can be much.
async fn remove(apart: Arc<Apart>, folder: PathBuf) {
    let place = folder.display().to_string();
    let removed = tokio::task::spawn_blocking(move || apart.remove(&folder)).await;
    if let Ok(Err(error)) = removed {
        eprintln!("the temporary folder '{place}' of a program stays: {error}");
    }
}

/// Waits for the end of a program that was started now, and for that of all that it started.
async fn watch(
    mut child: Child,
    start: &Start,
    env: &Env,
    cancel: &CancellationToken,
    kin: Option<KinOfRun>,
) -> io::Result<Ended> {
    let began = env.elapsed();
    let pid = Pid::from_child(&child);
    let kill = || {
        // All of the group may be gone already, and the program may have gone to another one.
        let _ = kill_process_group(pid, Signal::KILL);
        let _ = kill_process(pid, Signal::KILL);
    };
    let (stdout, stderr) = (take(child.stdout.take()), take(child.stderr.take()));
    let end = match end_of(pid) {
        Ok(end) => end,
        Err(error) => {
            kill();
            child.wait()?;
            return Err(error);
        }
    };
    let flooded = CancellationToken::new();
    let (mut said, mut cried) = (Kept::default(), Kept::default());
    let (why, ended) = {
        let mut reading =
            pin!(async { tokio::join!(said.fill(stdout, &flooded), cried.fill(stderr, &flooded)) });
        let mut time = pin!(sleep(start.limit));
        let mut read = false;
        let why = loop {
            tokio::select! {
                biased;
                _ = end.readable() => break Why::Exited,
                () = flooded.cancelled() => break Why::OutputLimit,
                () = crowded(kin.as_ref()) => break Why::ProcessLimit,
                () = cancel.cancelled() => break Why::Cancelled,
                () = &mut time => break Why::TimeLimit,
                _ = &mut reading, if !read => read = true,
            }
        };
        // Until it is waited for, no other process or group can have its number.
        kill();
        let ended = match timeout(KILL_TIME, end.readable()).await {
            Ok(_) => child.try_wait()?,
            Err(_) => None,
        };
        if let Some(kin) = kin {
            kin.end().await;
        }
        if !read {
            // Only what does not end, or was not found, can still hold the outputs open.
            let _ = timeout(DRAIN_TIME, reading).await;
        }
        (why, ended)
    };
    let how = match (why, ended) {
        (Why::OutputLimit, _) => How::OutputLimit,
        (Why::ProcessLimit, _) => How::ProcessLimit,
        (Why::Exited, Some(status)) => how(status),
        _ => How::TimeLimit,
    };
    let duration = env.elapsed().saturating_sub(began);
    Ok(Ended { how, duration, stdout: said.into(), stderr: cried.into() })
}

/// Waits until a run has more processes than it may.
async fn crowded(kin: Option<&KinOfRun>) {
    match kin {
        Some(kin) => kin.crowded().await,
        None => std::future::pending().await,
    }
}

/// Readable when the process has ended, before anybody waited for it.
fn end_of(pid: Pid) -> io::Result<AsyncFd<OwnedFd>> {
    let end = pidfd_open(pid, PidfdFlags::empty())?;
    // Deprecated for types that may close their descriptor behind its back: this one owns it.
    #[allow(deprecated)]
    AsyncFd::with_interest(end, Interest::READABLE)
}

fn how(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Code(code),
        (None, signal) => How::Signal(signal.unwrap_or_default()),
    }
}

/// Starts it: in a group of its own, with nothing of ours but what it is given.
fn begin(
    start: &Start,
    ends: Descriptors,
    limits: StartLimits,
    folder: &Path,
) -> io::Result<Child> {
    let Some((program, arguments)) = start.argv.split_first() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no program"));
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear();
    command.env("PATH", "/usr/local/bin:/usr/bin:/bin").env("LANG", "C.UTF-8");
    command.env("TMPDIR", folder).current_dir(folder);
    command.envs(start.env.iter().map(|(name, value)| (name, value)));
    command.stdin(ends.stdin.map_or_else(Stdio::null, Stdio::from));
    command.stdout(ends.stdout.map_or_else(Stdio::piped, Stdio::from));
    command.stderr(Stdio::piped()).process_group(0);
    let bytes = start.memory_bytes.max(MEMORY_LEAST);
    let most = getrlimit(Resource::As).maximum.map_or(bytes, |most| most.min(bytes));
    let child = match limits {
        StartLimits::OfProcess => {
            let (memory, size) = ((Resource::As, most), (Resource::Fsize, PROGRAM_FILE_BYTES));
            let files = (Resource::Nofile, PROGRAM_DESCRIPTORS);
            match spawn_under(&[memory, size, files], &mut command) {
                // This process itself has more of them open.
                Err(error) if error.raw_os_error() == Some(Errno::MFILE.raw_os_error()) => {
                    spawn_under(&[memory, size], &mut command)?
                }
                spawned => spawned?,
            }
        }
        StartLimits::AfterStart => command.spawn()?,
    };
    // It may not raise its limit again. If it is over already there is nothing to limit.
    let both = Rlimit { current: Some(most), maximum: Some(most) };
    let _ = prlimit(Some(Pid::from_child(&child)), Resource::As, both);
    Ok(child)
}

fn take(output: Option<impl Into<OwnedFd>>) -> Option<Receiver> {
    output.and_then(|output| Receiver::from_owned_fd(output.into()).ok())
}

/// The last bytes of an output.
#[derive(Default)]
struct Kept {
    bytes: Vec<u8>,
    total: u64,
}

impl Kept {
    /// Reads to the end, or until it is too much.
    async fn fill(&mut self, from: Option<Receiver>, flooded: &CancellationToken) {
        let Some(mut from) = from else { return };
        loop {
            // Twice what is kept, so that what is dropped is moved seldom.
            if self.bytes.len() >= 2 * OUTPUT_KEPT {
                self.cut();
            }
            self.bytes.reserve(READ_LEAST);
            match from.read_buf(&mut self.bytes).await {
                Ok(0) | Err(_) => return,
                Ok(count) => self.total = self.total.saturating_add(count as u64),
            }
            if self.total > OUTPUT_MOST {
                return flooded.cancel();
            }
        }
    }

    fn cut(&mut self) {
        let over = self.bytes.len().saturating_sub(OUTPUT_KEPT);
        self.bytes.drain(..over);
    }
}

/// Room for one read of an output.
const READ_LEAST: usize = 4096;

impl From<Kept> for Output {
    fn from(mut kept: Kept) -> Output {
        kept.cut();
        Output { dropped: kept.total.saturating_sub(kept.bytes.len() as u64), bytes: kept.bytes }
    }
}

/// Starts it under limits that hold from its first moment; this process has its own again then.
fn spawn_under(limits: &[(Resource, u64)], command: &mut Command) -> io::Result<Child> {
    let own: Vec<Rlimit> = limits.iter().map(|(resource, _)| getrlimit(*resource)).collect();
    for ((resource, most), own) in limits.iter().zip(&own) {
        let current = own.current.map_or(*most, |current| current.min(*most));
        setrlimit(*resource, Rlimit { current: Some(current), ..*own })?;
    }
    let child = command.spawn();
    for ((resource, _), own) in limits.iter().zip(own) {
        setrlimit(*resource, own)?;
    }
    child
}
