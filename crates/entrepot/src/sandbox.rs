//! What keeps the programs of rules and login hooks apart from the server.

use std::fmt;
use std::path::{Path, PathBuf};

use entrepot_spawn::{Isolation, ProgramUser, Reach, can_switch_user, has_landlock};

use crate::config::{Config, ExecLimits, IsolationNeed};
use crate::failure::{Exit, Failure};

/// What most programs need to run at all. `/etc` is read but for our own files in it; of `/proc`
/// Landlock keeps a program from what belongs to other processes.
const SYSTEM: &[&str] = &[
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/etc",
    "/proc",
    "/sys/devices/system",
    "/run/systemd/resolve",
];

/// How programs are kept apart on this machine, with this process file.
pub(crate) enum Apart {
    /// The process file allows no program.
    Nothing,
    /// By another user, or by Landlock.
    By(Isolation),
    /// Not at all: there is neither another user nor Landlock.
    Not,
}

impl fmt::Display for Apart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Apart::Nothing => f.write_str("none may be started"),
            Apart::By(Isolation::User(user)) => write!(f, "run as the user '{}'", user.name),
            Apart::By(Isolation::Landlock(_)) => f.write_str("run under Landlock"),
            Apart::By(Isolation::None) | Apart::Not => f.write_str("run with the server's rights"),
        }
    }
}

/// Finds out how programs are kept apart.
///
/// # Errors
/// The process file names a user that cannot be used, or asks for what gives the server's own
/// files away.
pub(crate) fn found(config: &Config) -> Result<Apart, Failure> {
    let exec = &config.exec;
    if exec.allowed.is_empty() {
        return Ok(Apart::Nothing);
    }
    if let Some(name) = &exec.user {
        return Ok(Apart::By(Isolation::User(user(name)?)));
    }
    if has_landlock() {
        return Ok(Apart::By(Isolation::Landlock(reach(exec, &config.own_files())?)));
    }
    Ok(Apart::Not)
}

/// What the spawner is to do, for a server that starts now. Says in the log what it is.
///
/// # Errors
/// As [`found`], or programs cannot be kept apart and must be.
pub(crate) fn of_programs(config: &Config) -> Result<Isolation, Failure> {
    let apart = found(config)?;
    let programs = apart.to_string();
    match apart {
        Apart::Nothing => Ok(Isolation::None),
        Apart::By(isolation) => {
            tracing::info!(programs, "programs are kept apart");
            Ok(isolation)
        }
        Apart::Not if config.exec.isolation == IsolationNeed::Required => {
            Err(Failure::new("EP0430", Exit::Failed, NOT_APART))
        }
        Apart::Not => {
            tracing::warn!(code = "EP0430", "{NOT_APART}");
            Ok(Isolation::None)
        }
    }
}

/// The sentence of [`Apart::Not`].
pub(crate) const NOT_APART: &str = "programs would run with the server's rights: this kernel has \
     no Landlock, and exec.user names no other user";

/// The user of the process file, if the server may become it.
fn user(name: &str) -> Result<ProgramUser, Failure> {
    let refuse = |why: &str| Failure::new("EP0431", Exit::Invalid, format!("exec.user: {why}"));
    let user = numbers(name).or_else(|| account(name));
    let user = user.ok_or_else(|| refuse(&format!("there is no user '{name}'")))?;
    if user.uid == 0 || user.gid == 0 {
        return Err(refuse("programs must not run as root"));
    }
    // Which to the system means to stay what one is.
    if user.uid == u32::MAX || user.gid == u32::MAX {
        return Err(refuse(&format!("'{name}' is no user")));
    }
    if user.uid == rustix::process::getuid().as_raw() {
        return Err(refuse(&format!("'{name}' is the server's own user")));
    }
    if !can_switch_user() {
        return Err(refuse(&format!(
            "the server may not start programs as '{name}': it needs CAP_SETUID, CAP_SETGID and \
             CAP_KILL"
        )));
    }
    Ok(user)
}

/// A user as `UID:GID`, which need not be in any list of users.
fn numbers(text: &str) -> Option<ProgramUser> {
    let (uid, gid) = text.split_once(':')?;
    Some(ProgramUser { name: text.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()? })
}

/// A user of `/etc/passwd`: name, password, uid, gid, and what else there is (passwd(5)).
fn account(name: &str) -> Option<ProgramUser> {
    let text = std::fs::read_to_string("/etc/passwd").ok()?;
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let found = fields.next() == Some(name);
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        found.then(|| ProgramUser { name: name.to_owned(), uid, gid })
    })
}

/// What programs reach under Landlock: nothing of `own`, which is the server's.
fn reach(exec: &ExecLimits, own: &[PathBuf]) -> Result<Reach, Failure> {
    let own: Vec<PathBuf> = own.iter().map(|path| real(path)).collect();
    let mut read = Vec::new();
    let system = SYSTEM.iter().map(PathBuf::from);
    for path in system.chain(exec.allowed.entries().iter().cloned()) {
        around(&real(&path), &own, &mut read);
    }
    for (key, paths) in [("read", &exec.read), ("write", &exec.write)] {
        let holds = |path: &&PathBuf| {
            let path = real(path);
            own.iter().any(|own| own.starts_with(&path) || path.starts_with(own))
        };
        if let Some(path) = paths.iter().find(holds) {
            let path = path.display();
            return Err(Failure::config(format!(
                "exec.{key}: '{path}' would open the server's own files to programs"
            )));
        }
    }
    read.extend(exec.read.iter().cloned());
    Ok(Reach { read, write: exec.write.clone() })
}

/// The path without symbolic links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Adds `place` to `found`, or, if it holds what is the server's own, what else is in it. Symbolic
/// links in it are left out: they lead to places that are reached by their own names or not.
fn around(place: &Path, own: &[PathBuf], found: &mut Vec<PathBuf>) {
    if own.iter().any(|own| place.starts_with(own)) {
        return;
    }
    if !own.iter().any(|own| own.starts_with(place)) {
        found.push(place.to_owned());
        return;
    }
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            around(&entry.path(), own, found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_around_the_servers_own_files_is_reached_and_they_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        for made in ["etc/ssl", "etc/entrepot/programs", "srv/data/files"] {
            std::fs::create_dir_all(base.join(made)).unwrap();
        }
        for made in ["etc/hosts", "etc/entrepot/entrepot.toml"] {
            std::fs::write(base.join(made), "").unwrap();
        }
        std::os::unix::fs::symlink("/", base.join("etc/all")).unwrap();
        let own = ["etc/entrepot/entrepot.toml", "srv/data"].map(|path| base.join(path));
        let reached = |place: &str| {
            let mut found = Vec::new();
            around(&base.join(place), &own, &mut found);
            found.sort();
            found
        };
        let wanted = ["etc/entrepot/programs", "etc/hosts", "etc/ssl"].map(|path| base.join(path));
        assert_eq!(reached("etc"), wanted);
        assert_eq!(reached("etc/ssl"), [base.join("etc/ssl")]);
        assert!(reached("srv").is_empty() && reached("srv/data/files").is_empty());
    }

    #[test]
    fn a_user_is_found_by_name_or_by_numbers_and_is_never_root() {
        let said = |name: &str| user(name).map_err(|failure| failure.to_string());
        for (name, want) in [
            ("root", "programs must not run as root"),
            ("0:0", "programs must not run as root"),
            ("7:0", "programs must not run as root"),
            ("4294967295:7", "'4294967295:7' is no user"),
            ("entrepot-has-no-such", "there is no user 'entrepot-has-no-such'"),
            ("7:x", "there is no user '7:x'"),
        ] {
            let said = said(name).unwrap_err();
            assert!(said.contains(want) && said.contains("EP0431"), "{name}: {said}");
        }
        assert_eq!(account("daemon").map(|user| (user.uid, user.gid)), Some((1, 1)));
        assert_eq!(numbers("990:991").map(|user| (user.uid, user.gid)), Some((990, 991)));
    }
}
