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

/// What somebody else does between two calls.
pub(crate) type Others = Box<dyn FnOnce() + Send>;

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
    /// This call of a kind is done, and answers with an error.
    pub(crate) lost: Vec<(Call, u64, Errno)>,
    /// The error that the call being done is to answer with.
    pub(crate) answer: Option<Errno>,
    /// What somebody else does just before this call of a kind.
    pub(crate) before: Vec<(Call, u64, Others)>,
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
        let lost = self.lost.iter().position(|(kind, at, _)| *kind == call && *at == of_kind);
        self.answer = lost.map(|lost| self.lost.swap_remove(lost).2);
        Ok(!self.lies.contains(&call))
    }

    /// What somebody else does before the next call of this kind.
    pub(crate) fn take_before(&mut self, call: Call) -> Option<Others> {
        let next = self.count_of(call) + 1;
        let due = self.before.iter().position(|(kind, at, _)| *kind == call && *at == next)?;
        Some(self.before.swap_remove(due).2)
    }

    /// Calls of this kind so far.
    pub(crate) fn count_of(&self, call: Call) -> u64 {
        self.by_kind.get(&call).copied().unwrap_or_default()
    }
}
