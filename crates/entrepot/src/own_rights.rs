//! What the server gives up before it serves, for itself and for all that it starts: it gains no
//! rights by `execve`, leaves no core file, keeps few capabilities, and Landlock keeps it from
//! changing the system's folders and from running anything that was not meant to be run. Rights
//! belong to threads, so this comes before the first thread that serves. Why so, and what is not
//! given up: docs/adr/0013-what-server-and-programs-give-up.md.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, BitFlags, CompatLevel, Compatible as _, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreatedAttr as _, RulesetError, RulesetStatus,
};
use rustix::process::{DumpableBehavior, Resource, Rlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

use crate::config::Config;

/// Folders of the system that no server writes to.
const PROTECTED: &[&str] =
    &["bin", "boot", "etc", "lib", "lib32", "lib64", "libx32", "sbin", "usr"];
/// Where programs, their interpreters and loaders lie.
const RUNNABLE: &[&str] =
    &["/bin", "/gnu/store", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/sbin", "/usr"];

/// What was given up, for the log.
#[derive(Clone, Debug)]
pub(crate) struct GivenUp {
    kept: CapabilitySet,
    landlock: Landlock,
}

/// Whether the server runs under Landlock.
#[derive(Clone, Debug)]
enum Landlock {
    Enforced,
    /// The process file says so.
    SwitchedOff,
    /// With what the kernel says about it.
    Not(String),
}

/// Gives up what can be given up.
///
/// # Errors
/// The system refuses what every kernel that is supported has.
pub(crate) fn give_up(config: &Config) -> std::io::Result<GivenUp> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    // Keys and passwords are in this process's memory: others of the same user may not read it.
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    rustix::thread::set_no_new_privs(true)?;
    let kept = keep_capabilities(needed(config))?;
    let landlock = if config.protect_system {
        match restrict(config) {
            Ok(RulesetStatus::NotEnforced) => {
                Landlock::Not("the kernel does not enforce it".into())
            }
            Ok(_) => Landlock::Enforced,
            Err(error) => Landlock::Not(error.to_string()),
        }
    } else {
        Landlock::SwitchedOff
    };
    Ok(GivenUp { kept, landlock })
}

impl GivenUp {
    /// Says in the log what the server may still do.
    pub(crate) fn log(&self) {
        let capabilities: Vec<&str> = self.kept.iter_names().map(|(name, _)| name).collect();
        let capabilities = capabilities.join(" ");
        match &self.landlock {
            Landlock::Enforced => tracing::info!(capabilities, "the server runs under Landlock"),
            Landlock::SwitchedOff => {
                tracing::info!(capabilities, "the server runs without Landlock, as configured");
            }
            Landlock::Not(why) => {
                tracing::info!(capabilities, why, "the server runs without Landlock");
            }
        }
    }
}

/// The capabilities that this server can need while it runs.
fn needed(config: &Config) -> CapabilitySet {
    // Listeners are opened while the server runs, on ports such as 22 too.
    let mut needed = CapabilitySet::NET_BIND_SERVICE;
    if config.exec.user.is_some() && !config.exec.allowed.is_empty() {
        // Its helpers start programs as another user, and kill them.
        needed |= CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    }
    if rustix::process::geteuid().is_root() {
        // Who runs the server as root does so for files of many owners.
        needed |= CapabilitySet::CHOWN
            | CapabilitySet::DAC_OVERRIDE
            | CapabilitySet::DAC_READ_SEARCH
            | CapabilitySet::FOWNER
            | CapabilitySet::FSETID;
    }
    needed
}

/// Gives up all capabilities but these, also for programs that root starts; says which are left.
fn keep_capabilities(needed: CapabilitySet) -> std::io::Result<CapabilitySet> {
    let mut sets = capabilities(None)?;
    if sets.effective.contains(CapabilitySet::SETPCAP) {
        for capability in CapabilitySet::all().difference(needed).iter() {
            // A kernel that does not know a capability has nothing to give up.
            let _ = rustix::thread::remove_capability_from_bounding_set(capability);
        }
    }
    sets.permitted &= needed;
    sets.effective = sets.permitted;
    sets.inheritable &= needed;
    set_capabilities(None, sets)?;
    Ok(sets.permitted)
}

/// Puts this thread, and all that it will start, under Landlock.
fn restrict(config: &Config) -> Result<RulesetStatus, RulesetError> {
    // Without the right to move files between folders, which came with Linux 5.19, Landlock would
    // refuse every such move.
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::Refer)?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(writing() | AccessFs::Execute)?;
    let mut ruleset = ruleset.create()?;
    for path in writable(config) {
        ruleset = permit(ruleset, &path, writing())?;
    }
    for path in runnable(config) {
        ruleset = permit(ruleset, &path, AccessFs::Execute.into())?;
    }
    Ok(ruleset.restrict_self()?.ruleset)
}

fn writing() -> BitFlags<AccessFs> {
    AccessFs::from_write(ABI::V3)
}

/// Permits this beneath a place; one that is not there needs no permission.
fn permit(
    ruleset: landlock::RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<landlock::RulesetCreated, RulesetError> {
    let (Ok(place), Ok(about)) = (PathFd::new(path), path.metadata()) else { return Ok(ruleset) };
    let folder = about.is_dir();
    let access = if folder { access } else { access & AccessFs::from_file(ABI::V3) };
    ruleset.add_rule(PathBeneath::new(place, access))
}

/// All folders of the root but those of the system, and what the process file names wherever it
/// lies.
fn writable(config: &Config) -> Vec<PathBuf> {
    let mut found = config.exec.write.clone();
    found.push(config.data.clone());
    found.extend(config.ops_socket.parent().map(Path::to_owned));
    let database = config.database.strip_prefix("sqlite://").map(Path::new);
    found.extend(database.and_then(Path::parent).map(Path::to_owned));
    for entry in std::fs::read_dir("/").into_iter().flatten().flatten() {
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        let is_protected = PROTECTED.iter().any(|name| entry.file_name() == *name);
        if !is_link && !is_protected {
            found.push(entry.path());
        }
    }
    found
}

/// What may be run at all: nothing, if no program is allowed.
fn runnable(config: &Config) -> Vec<PathBuf> {
    if config.exec.allowed.is_empty() {
        return Vec::new();
    }
    // The helper is this program, even when its file has been replaced.
    let mut found = vec![PathBuf::from("/proc/self/exe")];
    found.extend(RUNNABLE.iter().map(PathBuf::from));
    found.extend(config.exec.read.iter().cloned());
    for allowed in config.exec.allowed.entries() {
        // A program that is replaced is another file: what counts is its folder.
        let folder = if allowed.is_dir() { Some(allowed.as_path()) } else { allowed.parent() };
        found.extend(folder.map(Path::to_owned));
    }
    found
}
