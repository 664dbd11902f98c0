//! Starts a program apart from the server. Rights belong to threads (credentials(7),
//! capabilities(7), landlock(7)), and a child has those of the thread that starts it: a thread is
//! made for each start, gives up its rights, starts the program and ends.

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;

use entrepot_nouns::Env;
use landlock::{
    ABI, Access as _, AccessFs, BitFlags, PathBeneath, PathFd, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetStatus, Scope,
};
use rustix::fs::{Access, access};
use rustix::process::{Gid, Pid, Resource, Rlimit, Uid, getrlimit, getuid, prlimit};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::frame::{Settings, Start};
use crate::isolation::{Isolation, ProgramUser};
use crate::limits::{
    FOLDER_NAMES, PROGRAM_DESCRIPTORS, PROGRAM_FILE_BYTES, PROGRAM_PROCESSES, SERVER_PROCESSES,
    STACK_BYTES,
};
use crate::proc;

/// The rights of Landlock that are ruled over; a kernel that knows fewer rules over those.
const KNOWN: ABI = ABI::V6;

/// What any program may read and write.
const DEVICES: &[&str] =
    &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"];

/// What holds for every program of one helper.
pub(crate) struct Apart {
    temporary: PathBuf,
    isolation: Isolation,
    /// What all programs may reach under Landlock, opened once.
    reached: Vec<Reached>,
    /// Processes and threads that the user of the programs may have. Root has no such limit.
    processes: Option<u64>,
    env: Env,
}

/// A folder or file, and what Landlock permits beneath it.
struct Reached {
    place: PathFd,
    access: BitFlags<AccessFs>,
}

/// What came of a start, and the folder that is to be removed whatever came.
pub(crate) struct Started {
    pub(crate) child: io::Result<Child>,
    pub(crate) folder: Option<PathBuf>,
}

impl Apart {
    /// Opens what programs may reach.
    pub(crate) fn new(settings: Settings, env: Env) -> Apart {
        let Settings { temporary, isolation } = settings;
        let mut reached = Vec::new();
        if let Isolation::Landlock(reach) = &isolation {
            // What does not exist, or not for the server, is for no program either.
            reached.extend(reach.read.iter().filter_map(|path| Reached::readable(path).ok()));
            reached.extend(reach.write.iter().filter_map(|path| Reached::writable(path).ok()));
            let devices = DEVICES.iter().map(Path::new);
            reached.extend(devices.filter_map(|path| Reached::writable(path).ok()));
        }
        // Counted by user: where it is the server's, the processes and threads that it has already
        // would count against programs.
        let processes = match &isolation {
            Isolation::User(_) => Some(PROGRAM_PROCESSES),
            _ if getuid().is_root() => None,
            _ => Some(proc::threads_of(getuid()).saturating_add(SERVER_PROCESSES)),
        };
        Apart { temporary, isolation, reached, processes, env }
    }

    /// Calls `begin`, which starts the program in the folder that it is given, with the rights that
    /// the program is to have.
    pub(crate) fn start(
        &self,
        start: &Start,
        begin: impl FnOnce(&Path) -> io::Result<Child> + Send,
    ) -> Started {
        let failed = |error| Started { child: Err(error), folder: None };
        let started = self.on_a_thread(|| {
            if let Isolation::User(user) = &self.isolation {
                become_user(user)?;
            }
            let folder = self.make_folder()?;
            let child = self.give_up_rights(start, &folder).and_then(|()| begin(&folder));
            if let Ok(child) = &child {
                self.limit(Pid::from_child(child));
            }
            Ok(Started { child, folder: Some(folder) })
        });
        started.and_then(|started| started).unwrap_or_else(failed)
    }

    /// Removes the folder of a program, with the rights that the program had.
    pub(crate) fn remove(&self, folder: &Path) -> io::Result<()> {
        self.as_programs(|| std::fs::remove_dir_all(folder))
    }

    /// Runs `work` as the user of the programs.
    pub(crate) fn as_programs<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let Isolation::User(user) = &self.isolation else { return work() };
        self.on_a_thread(|| {
            become_user(user)?;
            work()
        })?
    }

    /// Runs `work` on a thread of its own and waits for its end.
    fn on_a_thread<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().name("start".to_owned());
            let thread = thread.stack_size(STACK_BYTES).spawn_scoped(scope, work)?;
            thread.join().map_err(|_| io::Error::other("the thread that starts programs failed"))
        })
    }

    fn make_folder(&self) -> io::Result<PathBuf> {
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..FOLDER_NAMES {
            let mut number = [0; 8];
            self.env.fill_random(&mut number);
            let number = u64::from_le_bytes(number);
            let folder = self.temporary.join(format!("entrepot-program-{number:016x}"));
            match std::fs::DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(folder),
                Err(error) => last = error,
            }
        }
        let place = self.temporary.display();
        Err(io::Error::new(last.kind(), format!("no temporary folder in '{place}': {last}")))
    }

    fn give_up_rights(&self, start: &Start, folder: &Path) -> io::Result<()> {
        rustix::thread::set_no_new_privs(true)?;
        match &self.isolation {
            // As root a program without capabilities could do less than its user.
            Isolation::None if getuid().is_root() => Ok(()),
            Isolation::None => give_up_capabilities(),
            Isolation::User(user) => {
                give_up_capabilities()?;
                start.files.iter().try_for_each(|file| is_readable(user, file))
            }
            Isolation::Landlock(_) => {
                give_up_capabilities()?;
                self.restrict(start, folder)
            }
        }
    }

    /// Puts this thread under Landlock, for ever.
    fn restrict(&self, start: &Start, folder: &Path) -> io::Result<()> {
        let mut own = vec![Reached::writable(folder)?];
        for file in &start.files {
            own.push(Reached::writable(file)?);
        }
        // The program's own file may have been replaced since the helper began.
        if let Some(program) = start.argv.first() {
            own.push(Reached::readable(Path::new(program))?);
        }
        let restricted = || {
            let ruleset = Ruleset::default().handle_access(AccessFs::from_all(KNOWN))?;
            let mut ruleset = ruleset.scope(Scope::from_all(KNOWN))?.create()?;
            for Reached { place, access } in self.reached.iter().chain(&own) {
                ruleset = ruleset.add_rule(PathBeneath::new(place, *access))?;
            }
            ruleset.restrict_self()
        };
        let status = restricted().map_err(|error: landlock::RulesetError| {
            io::Error::other(format!("it cannot be put under Landlock: {error}"))
        })?;
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err(io::Error::other("the kernel does not enforce Landlock"));
        }
        Ok(())
    }

    /// Limits that are counted from now on. Those that have been exceeded already, or that the
    /// program has lowered itself, stay as they are.
    fn limit(&self, child: Pid) {
        let mut limits =
            vec![(Resource::Nofile, PROGRAM_DESCRIPTORS), (Resource::Fsize, PROGRAM_FILE_BYTES)];
        limits.extend(self.processes.map(|most| (Resource::Nproc, most)));
        for (resource, most) in limits {
            let most = getrlimit(resource).maximum.map_or(most, |maximum| maximum.min(most));
            let both = Rlimit { current: Some(most), maximum: Some(most) };
            // If it is over already there is nothing to limit.
            let _ = prlimit(Some(child), resource, both);
        }
    }
}

impl Reached {
    fn readable(path: &Path) -> io::Result<Reached> {
        Reached::open(path, AccessFs::from_read(KNOWN))
    }

    fn writable(path: &Path) -> io::Result<Reached> {
        Reached::open(path, AccessFs::from_all(KNOWN))
    }

    fn open(path: &Path, access: BitFlags<AccessFs>) -> io::Result<Reached> {
        let place = PathFd::new(path).map_err(|error| {
            io::Error::other(format!("'{}' cannot be used: {error}", path.display()))
        })?;
        let folder = path.metadata()?.is_dir();
        let access = if folder { access } else { access & AccessFs::from_file(KNOWN) };
        Ok(Reached { place, access })
    }
}

/// Makes this thread another user's. Its capabilities stay only if it was not root's before.
fn become_user(user: &ProgramUser) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
    let switch = || {
        rustix::thread::set_thread_groups(&[])?;
        rustix::thread::set_thread_res_gid(gid, gid, gid)?;
        rustix::thread::set_thread_res_uid(uid, uid, uid)
    };
    switch().map_err(|error: rustix::io::Errno| {
        let error = io::Error::from(error);
        io::Error::new(error.kind(), format!("it cannot run as '{}': {error}", user.name))
    })
}

fn give_up_capabilities() -> io::Result<()> {
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

fn is_readable(user: &ProgramUser, file: &Path) -> io::Result<()> {
    access(file, Access::READ_OK).map_err(|error| {
        let error = io::Error::from(error);
        let text = format!(
            "the user '{}' may not read '{}': {error}; give it the right to, or use 'stdin: file'",
            user.name,
            file.display()
        );
        io::Error::new(error.kind(), text)
    })
}
