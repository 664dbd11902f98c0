//! The name of one request.

use std::fmt;

/// Names a request in the log and in problems: its connection, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RequestId {
    pub(crate) connection: u32,
    pub(crate) number: u32,
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{}", self.connection, self.number)
    }
}
