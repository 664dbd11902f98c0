//! What a client says of an upload before its first byte.

use crate::error::{Result, VfsError};

/// How a file is opened to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateIntent {
    /// From nothing; what has the name is replaced when the new one is whole.
    New,
    /// From nothing; the name must be free, now and at the publish.
    Exclusive,
    /// On top of one's own unfinished upload of that name, else of what has the name.
    Continue,
    /// On top of one's own unfinished upload, also if something has the name: see
    /// [`Vfs::unfinished`](crate::Vfs::unfinished).
    Resume,
}

/// What is going to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Create {
    /// Which bytes the upload begins with.
    pub intent: CreateIntent,
    /// The size that the client announced for the whole file. Room for it is reserved at once, a
    /// write beyond it is refused, and a shorter file is not published.
    pub expected_size: Option<u64>,
    /// Recorded in the event; the caller chooses the offsets.
    pub append: bool,
}

/// The sizes at which an upload may be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExpectedSize {
    Any,
    Exactly(u64),
    /// The client announced bytes without saying whether they are the whole file or what it adds.
    WholeOrAdded {
        whole: u64,
        /// Size of the file with the announced bytes added.
        added: u64,
    },
}

impl ExpectedSize {
    pub(super) fn of(announced: Option<u64>) -> ExpectedSize {
        announced.map_or(ExpectedSize::Any, ExpectedSize::Exactly)
    }

    /// Fails if a file that reaches to `end` is longer than was announced.
    pub(super) fn check_end(self, end: u64) -> Result<()> {
        let most = match self {
            ExpectedSize::Any => return Ok(()),
            ExpectedSize::Exactly(size) => size,
            ExpectedSize::WholeOrAdded { added, .. } => added,
        };
        if end <= most { Ok(()) } else { Err(VfsError::Incomplete { size: end, expected: most }) }
    }

    /// Fails unless a file of `size` bytes is as long as was announced.
    pub(super) fn check_whole(self, size: u64) -> Result<()> {
        let expected = match self {
            ExpectedSize::Any => return Ok(()),
            ExpectedSize::Exactly(expected) => expected,
            ExpectedSize::WholeOrAdded { whole, .. } if whole == size => return Ok(()),
            ExpectedSize::WholeOrAdded { added, .. } => added,
        };
        if size == expected { Ok(()) } else { Err(VfsError::Incomplete { size, expected }) }
    }
}
