//! The matrix of real clients: one task each, byte for byte, or a reason why a client cannot.

use std::path::Path;

use anyhow::Result;

use super::{Login, text};
use crate::server::Node;

/// How a file or a folder is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A file up, from its first byte to its last.
    Put,
    /// A file down, from its first byte to its last.
    Get,
    /// Up, behind what the server has.
    ResumeUp,
    /// Down, behind what lies here.
    ResumeDown,
    /// A folder up.
    PutTree,
    /// A folder down.
    GetTree,
    /// Up, with its times.
    PutTimes,
    /// Down, with its times.
    GetTimes,
}

impl How {
    /// As the programs beside this file name it.
    fn verb(self) -> &'static str {
        match self {
            How::Put => "put",
            How::Get => "get",
            How::ResumeUp => "resume_up",
            How::ResumeDown => "resume_down",
            How::PutTree => "put_tree",
            How::GetTree => "get_tree",
            How::PutTimes => "put_times",
            How::GetTimes => "get_times",
        }
    }
}

/// One thing for a client to do. Remote paths are relative to the home.
#[derive(Clone, Copy, Debug)]
pub enum Task<'a> {
    /// Copy a file or a folder between the client and the server.
    Move {
        /// The direction, and what is moved.
        how: How,
        /// The path on the side of the client.
        local: &'a Path,
        /// The path on the server.
        remote: &'a str,
    },
    /// Rename onto a name that exists.
    RenameOver {
        /// The old name.
        from: &'a str,
        /// The name that is replaced.
        to: &'a str,
    },
    /// Print the names in a folder, one a line.
    List {
        /// The path on the server.
        remote: &'a str,
    },
    /// Print the digest of a file as hexadecimal digits.
    Hash {
        /// The path on the server.
        remote: &'a str,
    },
}

impl Task<'_> {
    /// The verb and its arguments, as the programs beside this file take them.
    ///
    /// # Errors
    /// A local path that is no text.
    pub fn words(&self) -> Result<Vec<&str>> {
        Ok(match *self {
            Task::Move { how, local, remote } => vec![how.verb(), text(local)?, remote],
            Task::RenameOver { from, to } => vec!["rename", from, to],
            Task::List { remote } => vec!["list", remote],
            Task::Hash { remote } => vec!["hash", remote],
        })
    }
}

/// What came of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Did {
    /// Done; what the client printed.
    Done(String),
    /// The client has no way to do it, and why.
    Cannot(&'static str),
}

/// A node and who logs in to it.
#[derive(Clone, Copy)]
pub struct Seat<'a> {
    /// The server that the client connects to.
    pub node: &'a Node,
    /// The account that the client logs in to.
    pub login: &'a Login,
}

/// A real client.
pub trait Client {
    /// Its name, as the first column of `docs/clients/README.md` has it.
    fn name(&self) -> &'static str;

    /// Does one task.
    ///
    /// # Errors
    /// What the client said when it failed.
    fn run(&self, seat: Seat<'_>, task: &Task<'_>) -> Result<Did>;
}
