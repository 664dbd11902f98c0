//! What a local server spends: CPU time and memory of its process and all its descendants, from
//! `/proc`.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// CPU time and memory of a process tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// User and system time of the process, its descendants, and those of them that were reaped.
    pub cpu: Duration,
    /// Proportional set size of all of them, in bytes: shared pages are counted once.
    pub memory_bytes: u64,
    /// Open files and connections of all of them.
    pub handles: u64,
    /// Threads of all of them.
    pub threads: u64,
}

/// Reads what the tree below `pid` has spent so far; `None` if there is no such process.
pub fn spent(pid: u32) -> Option<Spent> {
    let stats = all_stats();
    stats.get(&pid)?;
    let tree = tree(&stats, pid);
    let ticks: u64 = tree.iter().filter_map(|pid| stats.get(pid)).map(|stat| stat.ticks).sum();
    let memory_bytes = tree.iter().filter_map(|pid| memory(*pid)).sum();
    let handles = tree.iter().filter_map(|pid| handles(*pid)).sum();
    let threads = tree.iter().filter_map(|pid| stats.get(pid)).map(|stat| stat.threads).sum();
    Some(Spent { cpu: ticks_to_time(ticks), memory_bytes, handles, threads })
}

/// The most memory that was resident in the tree below `pid`: the peaks of its processes, added up.
/// Pages that they share count for each.
pub fn peak_resident_bytes(pid: u32) -> Option<u64> {
    let stats = all_stats();
    stats.get(&pid)?;
    Some(tree(&stats, pid).into_iter().filter_map(peak).sum())
}

/// CPU time of this process, without that of programs that it has started.
pub fn spent_here() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    Some(ticks_to_time(parse(&text)?.own_ticks))
}

/// CPU time of a control group, to the nanosecond and with all that ever ran in it; version 1
/// (`cpuacct`) or 2. `None` if the folder is none.
pub fn spent_by_group(folder: &Path) -> Option<Duration> {
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).ok();
    if let Some(text) = read("cpuacct.usage") {
        return text.trim().parse().ok().map(Duration::from_nanos);
    }
    let text = read("cpu.stat")?;
    let line = text.lines().find_map(|line| line.strip_prefix("usage_usec "))?;
    line.trim().parse().ok().map(Duration::from_micros)
}

/// A process and all its descendants.
fn tree(stats: &BTreeMap<u32, Stat>, pid: u32) -> Vec<u32> {
    let mut tree = vec![pid];
    let mut at = 0;
    while let Some(parent) = tree.get(at).copied() {
        tree.extend(stats.iter().filter(|(_, stat)| stat.parent == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    tree
}

struct Stat {
    parent: u32,
    ticks: u64,
    /// Without those of reaped children.
    own_ticks: u64,
    threads: u64,
}

fn all_stats() -> BTreeMap<u32, Stat> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let text = std::fs::read_to_string(entry.path().join("stat")).ok()?;
            Some((pid, parse(&text)?))
        })
        .collect()
}

/// proc_pid_stat(5): the fields behind the name in parentheses, which may hold anything. Reaped
/// children count for the process that reaped them.
fn parse(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<u64>().ok());
    let own_ticks = number(11)? + number(12)?;
    let ticks = own_ticks + number(13)? + number(14)?;
    let parent = u32::try_from(number(1)?).ok()?;
    Some(Stat { parent, ticks, own_ticks, threads: number(17)? })
}

fn ticks_to_time(ticks: u64) -> Duration {
    let a_second = rustix::param::clock_ticks_per_second().max(1);
    Duration::from_micros(ticks.saturating_mul(1_000_000) / a_second)
}

fn memory(pid: u32) -> Option<u64> {
    kibibytes(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn peak(pid: u32) -> Option<u64> {
    kibibytes(&format!("/proc/{pid}/status"), "VmHWM:")
}

/// The line of a file that begins so, in bytes.
fn kibibytes(file: &str, name: &str) -> Option<u64> {
    let text = std::fs::read_to_string(file).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

fn handles(pid: u32) -> Option<u64> {
    Some(std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_proc_is_read() {
        let line = "42 (odd) name)) S 7 42 42 0 -1 4194304 1 2 3 4 100 20 3 1 20 0 9 0 5 6 7";
        let stat = parse(line).unwrap();
        assert_eq!((stat.parent, stat.ticks, stat.own_ticks), (7, 124, 120));
        assert_eq!(stat.threads, 9);
        assert!(parse("42 (x) S").is_none());
    }

    #[test]
    fn this_process_spends_something() {
        let found = spent(std::process::id()).unwrap();
        assert!(found.memory_bytes > 100_000 && found.handles > 3, "{found:?}");
        assert!(spent(u32::MAX).is_none());
        let peak = peak_resident_bytes(std::process::id()).unwrap();
        assert!(peak > 100_000, "{peak}");
        assert!(peak_resident_bytes(u32::MAX).is_none());
        assert!(spent_here().unwrap() <= spent(std::process::id()).unwrap().cpu);
    }
}
