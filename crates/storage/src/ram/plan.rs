//! Which calls of a simulated disk fail, lie, or are counted.

use std::collections::BTreeMap;

use rustix::io::Errno;

/// Kinds of calls a simulated disk counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Call {
    /// Opening a file or directory, also making a file.
    Open,
    /// Asking what a name is.
    Stat,
    /// Reading bytes of a file.
    Read,
    /// Writing bytes or setting a length.
    Write,
    /// `fdatasync` of a file.
    SyncFile,
    /// `fsync` of a directory.
    SyncDir,
    /// Renaming or linking.
    Rename,
    /// Removing a name.
    Unlink,
    /// Making a directory.
    MakeDir,
    /// Setting times of a file or directory.
    SetTimes,
    /// Setting permission bits.
    SetMode,
}

/// Which calls fail or lie.
#[derive(Default)]
pub(crate) struct Plan {
    pub(crate) calls: u64,
    pub(crate) by_kind: BTreeMap<Call, u64>,
    pub(crate) log: Option<Vec<Call>>,
    /// From this call on nothing works any more.
    pub(crate) off_at: Option<u64>,
    /// This call (of this kind, or of any) fails once.
    pub(crate) fail: Vec<(Option<Call>, u64, Errno)>,
    /// These calls succeed without effect.
    pub(crate) lies: Vec<Call>,
    /// The file system knows no flags of `renameat2`.
    pub(crate) lacks_flags: bool,
}

impl Plan {
    /// Counts a call. `Ok(false)`: it must have no effect.
    pub(crate) fn enter(&mut self, call: Call) -> Result<bool, Errno> {
        self.calls += 1;
        let of_kind = self.by_kind.entry(call).or_default();
        *of_kind += 1;
        let (all, of_kind) = (self.calls, *of_kind);
        if let Some(log) = &mut self.log {
            log.push(call);
        }
        if self.off_at.is_some_and(|at| all >= at) {
            return Err(Errno::IO);
        }
        let due = self.fail.iter().position(|(kind, at, _)| match kind {
            None => *at == all,
            Some(kind) => *kind == call && *at == of_kind,
        });
        if let Some(due) = due {
            return Err(self.fail.swap_remove(due).2);
        }
        Ok(!self.lies.contains(&call))
    }
}
