//! What a client tells its caller.

use super::answer::Answer;
use super::listing::NamedEntry;
use super::op::{Op, OpError};

/// What came of the bytes received.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// The version is agreed upon and the server's limits are known; once, first.
    Ready,
    /// Entries of a listing, `.` and `..` among them if the server sends them. The listing goes
    /// on after [`super::Client::list_more`].
    Names {
        /// Of which listing.
        op: Op,
        /// In the server's order.
        names: Vec<NamedEntry>,
    },
    /// Bytes of a file, at most once each, in the order the server sent them.
    Data {
        /// Of which [`super::Client::get`].
        op: Op,
        /// Where in the file.
        offset: u64,
        /// Lent from the input where they lay whole there.
        data: &'a [u8],
    },
    /// The operation is over; no event of it follows.
    Ended {
        /// The operation that is over.
        op: Op,
        /// What it brought, or why it failed.
        result: Result<Answer, OpError>,
    },
}
