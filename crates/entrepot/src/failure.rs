//! How the command line fails: a code with a page, one sentence, and an exit code for scripts.

use std::fmt;

/// Exit codes; `docs/cli.md` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Something else went wrong.
    Failed = 1,
    /// What was asked for does not exist.
    NotFound = 3,
    /// A document, a field or the process file cannot be taken as it is.
    Invalid = 4,
    /// The server or its database cannot be reached now.
    Unavailable = 5,
    /// The answer is no: findings of `doctor`, a broken chain in `journal verify`.
    Findings = 6,
    /// The tables are older than the program, or the journal has a torn end: `entrepot migrate`
    /// comes first.
    Outdated = 7,
    /// The server ended because a write to its journal's disk failed: start it again.
    Journal = 8,
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) code: String,
    pub(crate) message: String,
    pub(crate) exit: Exit,
}

impl Failure {
    pub(crate) fn new(code: &str, exit: Exit, message: impl Into<String>) -> Self {
        Failure { code: code.to_owned(), message: message.into(), exit }
    }

    /// The process file is wrong.
    pub(crate) fn config(message: impl Into<String>) -> Self {
        Failure::new("EP0201", Exit::Invalid, message)
    }

    /// The server could not start.
    pub(crate) fn start(message: impl Into<String>) -> Self {
        Failure::new("EP0202", Exit::Failed, message)
    }

    /// The running server cannot be spoken to.
    pub(crate) fn ops(message: impl Into<String>) -> Self {
        Failure::new("EP0203", Exit::Unavailable, message)
    }

    /// A local file or folder cannot be used.
    pub(crate) fn file(message: impl Into<String>) -> Self {
        Failure::new("EP0204", Exit::Failed, message)
    }

    /// The arguments do not fit together.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Failure::new("EP0205", Exit::Invalid, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} [{}]", self.message, self.code)
    }
}

impl std::error::Error for Failure {}
