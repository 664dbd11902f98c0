//! What keeps programs apart from the server, and what of it this process can have.

use std::path::PathBuf;

use landlock::{
    ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
};
use rustix::thread::{CapabilitySet, capabilities};

/// What keeps programs from the server's files: the master key, the database, the journal, the
/// process file, the ops socket. Whatever it is, a program gains no rights by `execve`
/// (`PR_SET_NO_NEW_PRIVS`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// Nothing: a program may do what the server may.
    #[default]
    None,
    /// It runs as another user; permissions of files decide.
    User(ProgramUser),
    /// It runs as the server's user under Landlock, without capabilities, and reaches only what is
    /// listed, its own temporary folder and the files that it is started for.
    Landlock(Reach),
}

/// The user whom programs run as. They are in its group and no other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramUser {
    /// As the system knows it, for messages.
    pub name: String,
    /// Not the server's, and not root's.
    pub uid: u32,
    /// Its group, not root's.
    pub gid: u32,
}

/// Folders with all that is in them, and files. What does not exist is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reach {
    /// May be listed, read and run.
    pub read: Vec<PathBuf>,
    /// May be listed, read, written, made and removed.
    pub write: Vec<PathBuf>,
}

/// Whether this thread, and a helper that it starts, can start programs as another user and kill
/// them.
pub fn can_switch_user() -> bool {
    let needed = CapabilitySet::SETUID | CapabilitySet::SETGID | CapabilitySet::KILL;
    capabilities(None).is_ok_and(|sets| sets.effective.contains(needed))
}

/// Whether the kernel has Landlock and it is switched on.
pub fn has_landlock() -> bool {
    let ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(ABI::V1));
    ruleset.and_then(Ruleset::create).is_ok()
}
