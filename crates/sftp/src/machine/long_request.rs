//! A request that may take long, kept until the channel's own task carries it out.

use entrepot_sftp_proto::request::{CheckDialect, CheckTarget};
use entrepot_sftp_proto::{Handle, Request};
use entrepot_vfs::RunningCommand;

/// A long request that waits for the channel's own task.
pub(super) struct Long {
    pub(super) id: u32,
    /// As rules have let it pass; `None`: none looks at it.
    pub(super) command: Option<RunningCommand>,
    pub(super) what: What,
}

pub(super) enum What {
    Check(Check),
    Copy(Copy),
}

pub(super) struct Check {
    pub(super) target: Target,
    pub(super) algorithms: String,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) block: u32,
    pub(super) dialect: CheckDialect,
}

pub(super) enum Target {
    Path(String),
    Handle(Handle),
}

pub(super) struct Copy {
    pub(super) from: Handle,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) to: Handle,
    pub(super) to_offset: u64,
}

impl Long {
    /// The request, if it is a long one.
    pub(super) fn of(
        id: u32,
        command: Option<RunningCommand>,
        request: &Request<'_>,
    ) -> Option<Long> {
        let what = match *request {
            Request::CheckFile { target, algorithms, offset, len, block, dialect } => {
                let target = match target {
                    CheckTarget::Path(path) => Target::Path(path.to_owned()),
                    CheckTarget::Handle(handle) => Target::Handle(handle),
                };
                let algorithms = algorithms.to_owned();
                What::Check(Check { target, algorithms, offset, len, block, dialect })
            }
            Request::CopyData { from, offset, len, to, to_offset } => {
                What::Copy(Copy { from, offset, len, to, to_offset })
            }
            _ => return None,
        };
        Some(Long { id, command, what })
    }
}
