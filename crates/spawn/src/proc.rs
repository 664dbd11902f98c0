//! What the kernel says of processes, as files of proc(5). Nothing here changes a process.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use rustix::process::{Pid, Uid, getpid};

/// Finds the children of processes.
#[derive(Clone, Debug)]
pub(crate) enum Families {
    /// The kernel lists the children of each thread (`CONFIG_PROC_CHILDREN`): a process is looked
    /// at only when somebody asks for its children.
    Listed,
    /// All processes of the machine were looked at once for their parents.
    Gathered(HashMap<Pid, Vec<Pid>>),
}

impl Families {
    /// How the children of this process can be found.
    ///
    /// # Errors
    /// `/proc` is not there, or is that of other processes than ours.
    pub(crate) fn new() -> io::Result<Families> {
        let own = getpid();
        // With the numbers of another namespace a stranger would be taken for a program.
        let shown = fs::read_link("/proc/self")?;
        if shown != Path::new(&own.to_string()) {
            return Err(io::Error::other("/proc shows the processes of another namespace"));
        }
        let listed = fs::exists(format!("/proc/{own}/task/{own}/children"))?;
        Ok(if listed { Families::Listed } else { Families::gathered()? })
    }

    /// As it is now.
    pub(crate) fn again(&self) -> io::Result<Families> {
        match self {
            Families::Listed => Ok(Families::Listed),
            Families::Gathered(_) => Families::gathered(),
        }
    }

    fn gathered() -> io::Result<Families> {
        let mut families: HashMap<Pid, Vec<Pid>> = HashMap::new();
        for pid in processes()? {
            if let Some(parent) = parent(pid) {
                families.entry(parent).or_default().push(pid);
            }
        }
        Ok(Families::Gathered(families))
    }

    /// The children of a process, those that have ended and nobody waited for among them; none of
    /// a process that has ended or may not be seen.
    pub(crate) fn children(&self, of: Pid) -> Vec<Pid> {
        match self {
            Families::Listed => listed(of).unwrap_or_default(),
            Families::Gathered(families) => families.get(&of).cloned().unwrap_or_default(),
        }
    }
}

/// The children of all threads of a process. The first thread, which inherits those of a thread
/// that ends, is read last: none is overlooked that changes from one to the other meanwhile.
fn listed(of: Pid) -> io::Result<Vec<Pid>> {
    let mut threads = numbers(Path::new(&format!("/proc/{of}/task")))?;
    threads.retain(|thread| *thread != of);
    threads.push(of);
    let mut children = Vec::new();
    for thread in threads {
        // A thread may have ended by now.
        let Ok(text) = fs::read(format!("/proc/{of}/task/{thread}/children")) else { continue };
        let numbers = text.split(|byte| *byte == b' ').filter_map(number);
        children.extend(numbers);
    }
    children.sort_unstable_by_key(|child| child.as_raw_pid());
    children.dedup();
    Ok(children)
}

/// All processes that this one may see.
fn processes() -> io::Result<Vec<Pid>> {
    numbers(Path::new("/proc"))
}

/// The entries of a folder that are numbers.
fn numbers(folder: &Path) -> io::Result<Vec<Pid>> {
    let entries = fs::read_dir(folder)?.filter_map(Result::ok);
    Ok(entries.filter_map(|entry| number(entry.file_name().as_encoded_bytes())).collect())
}

fn number(text: &[u8]) -> Option<Pid> {
    Pid::from_raw(std::str::from_utf8(text).ok()?.parse().ok()?)
}

/// The parent of a process; `None` if it has ended, may not be seen or is that of none we see.
pub(crate) fn parent(of: Pid) -> Option<Pid> {
    let text = fs::read(format!("/proc/{of}/stat")).ok()?;
    // The name, in brackets, may have any byte in it, so brackets too.
    let name = text.iter().rposition(|byte| *byte == b')')?;
    let mut fields = text.get(name + 1..)?.split(|byte| *byte == b' ').skip(2);
    number(fields.next()?)
}

/// The hard limit of a process on file locks (`RLIMIT_LOCKS`); `None` if it has none.
///
/// # Errors
/// It has ended, or may not be seen.
pub(crate) fn lock_limit(of: Pid) -> io::Result<Option<u64>> {
    let text = fs::read_to_string(format!("/proc/{of}/limits"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max file locks"));
    let hard = line.and_then(|line| line.split_whitespace().nth(1));
    Ok(hard.and_then(|hard| hard.parse().ok()))
}

/// Threads on the whole machine, so at least as many as there are processes.
pub(crate) fn threads() -> Option<u64> {
    let text = fs::read_to_string("/proc/loadavg").ok()?;
    text.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Processes and threads that a user has now, as far as they may be seen.
pub(crate) fn threads_of(user: Uid) -> u64 {
    let field = |text: &str, name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse::<u64>().ok()
    };
    let threads = |pid: Pid| {
        let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
        let is_of_user = field(&text, "Uid:") == Some(u64::from(user.as_raw()));
        if is_of_user { field(&text, "Threads:") } else { None }
    };
    processes().unwrap_or_default().into_iter().filter_map(threads).sum()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rustix::process::getuid;

    use super::*;

    #[test]
    fn children_parents_and_limits_are_those_of_the_process() {
        let own = getpid();
        let mut child = Command::new("/bin/cat");
        let mut child = child.stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        for families in [Families::new().unwrap(), Families::gathered().unwrap()] {
            let families = families.again().unwrap();
            assert!(families.children(own).contains(&pid), "{families:?}");
            assert!(families.children(pid).is_empty());
        }
        assert_eq!(parent(pid), Some(own));
        let limit = rustix::process::getrlimit(rustix::process::Resource::Locks).maximum;
        assert_eq!(lock_limit(pid).unwrap(), limit);
        assert!(threads().unwrap() >= 2);
        assert!(threads_of(getuid()) >= 2);
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!Families::new().unwrap().children(own).contains(&pid));
        assert!(parent(pid) != Some(own) && lock_limit(pid).is_err());
    }
}
