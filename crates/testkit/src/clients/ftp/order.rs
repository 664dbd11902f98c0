//! What the matrix gives to a program beside its task: the server, the account, how to connect.

use super::Line;
use crate::clients::matrix::Seat;

/// How bytes are moved: TYPE I or TYPE A.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::clients) enum Form {
    Binary,
    Text,
}

/// How one program is to connect and transfer.
#[derive(Clone, Copy)]
pub(in crate::clients) struct Order<'a> {
    pub(in crate::clients) line: Line,
    pub(in crate::clients) seat: Seat<'a>,
    pub(in crate::clients) form: Form,
}
