//! What a round costs: CPU time of a local server under test, and of the load generator itself.

use std::path::PathBuf;
use std::time::Duration;

use crate::process::{spent, spent_by_group, spent_here};

/// The server's CPU time cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum WatchError {
    /// No such process.
    #[error("there is no process {0} to watch")]
    NoProcess(u32),
    /// No such control group.
    #[error("'{}' is no control group that counts CPU time", .0.display())]
    NoGroup(PathBuf),
}

/// Where the server's CPU time is read: in its control group if it has one of its own, else in its
/// process tree, else nowhere.
pub(crate) struct Watch {
    pid: Option<u32>,
    group: Option<PathBuf>,
}

/// CPU time; `None` where it cannot be known.
#[derive(Clone, Copy)]
pub(crate) struct CpuTime {
    pub(crate) server: Option<Duration>,
    /// Of this process alone: it may have started the server.
    pub(crate) client: Option<Duration>,
}

impl Watch {
    pub(crate) fn new(pid: Option<u32>, group: Option<PathBuf>) -> Watch {
        Watch { pid, group }
    }

    /// CPU time so far.
    pub(crate) fn read(&self) -> Result<CpuTime, WatchError> {
        let server = match (&self.group, self.pid) {
            (Some(folder), _) => {
                let no_group = || WatchError::NoGroup(folder.clone());
                Some(spent_by_group(folder).ok_or_else(no_group)?)
            }
            (None, Some(pid)) => Some(spent(pid).ok_or(WatchError::NoProcess(pid))?.cpu),
            (None, None) => None,
        };
        Ok(CpuTime { server, client: spent_here() })
    }
}

impl CpuTime {
    /// What was spent since `before` was read.
    pub(crate) fn since(&self, before: &CpuTime) -> CpuTime {
        let difference = |after: Option<Duration>, before: Option<Duration>| {
            after.zip(before).map(|(after, before)| after.saturating_sub(before))
        };
        CpuTime {
            server: difference(self.server, before.server),
            client: difference(self.client, before.client),
        }
    }
}
