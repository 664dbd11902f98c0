//! Operations of a client: what they need, what the adapter does for them, and how they end.

use std::net::SocketAddr;

use super::listing::RemoteEntry;
use crate::reply::Reply;
use crate::request::Secret;
use crate::time::Time;

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tls {
    /// Never: logins and data go in clear text.
    #[default]
    Off,
    /// By AUTH TLS; a server without it is refused.
    Explicit,
    /// Before the first byte: the adapter has made it stand.
    Implicit,
}

/// Who connects for data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// EPSV, then PASV where that is refused.
    #[default]
    Passive,
    /// EPRT, then PORT where that is refused.
    Active,
}

/// Whom to be, and how.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// The argument of USER.
    pub user: String,
    /// The argument of PASS.
    pub password: Secret,
    /// Of ACCT, where the server asks.
    pub account: Option<Secret>,
    /// When TLS begins. With TLS data is always protected.
    pub tls: Tls,
    /// Who connects for data.
    pub mode: Mode,
    /// Asks FEAT and says OPTS UTF8 ON at the login. Off, a login is USER and PASS alone.
    pub negotiate: bool,
}

impl Account {
    /// In clear, passive.
    pub fn new(user: &str, password: &str) -> Account {
        Account {
            user: user.to_owned(),
            password: Secret::new(password),
            account: None,
            tls: Tls::Off,
            mode: Mode::Passive,
            negotiate: true,
        }
    }

    /// With an account for ACCT.
    pub fn with_account(self, account: &str) -> Account {
        Account { account: Some(Secret::new(account)), ..self }
    }
}

/// What FEAT said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// MLSD and MLST.
    pub mlst: bool,
    /// SIZE, without which the size of a file is not known before it came.
    pub size: bool,
    /// MDTM for the time of a file.
    pub mdtm: bool,
    /// MFMT, which sets the time of a file.
    pub mfmt: bool,
    /// REST in stream mode.
    pub rest: bool,
    /// OPTS UTF8 ON.
    pub utf8: bool,
}

/// One operation: a command, or those that belong to a transfer or rename.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// RETR, with REST if `offset` is above 0.
    Retrieve {
        /// The name as it is sent.
        path: String,
        /// The first byte.
        offset: u64,
    },
    /// STOR, with REST if `offset` is above 0.
    Store {
        /// The name as it is sent.
        path: String,
        /// The first byte that is sent.
        offset: u64,
    },
    /// APPE: behind the end of a file, or a new one.
    Append {
        /// The name as it is sent.
        path: String,
    },
    /// MLSD, or CWD and LIST where the server has none.
    List {
        /// The directory; empty: the current one.
        path: String,
    },
    /// MLST of one name, answered by [`Outcome::Entry`].
    Entry(String),
    /// SIZE in TYPE I, answered by [`Outcome::Size`].
    Size(String),
    /// MDTM of a file, answered by [`Outcome::Modified`].
    Modified(String),
    /// MFMT with this time.
    SetModified(String, Time),
    /// RNFR and RNTO.
    Rename {
        /// What there is.
        from: String,
        /// What it is to be called.
        to: String,
    },
    /// DELE of a file.
    Delete(String),
    /// MKD; directories above it must exist.
    MakeDir(String),
    /// RMD of an empty directory.
    RemoveDir(String),
    /// CWD, for names without a slash in front.
    ChangeDir(String),
    /// PWD, answered by [`Outcome::WorkingDir`].
    WorkingDir,
    /// NOOP, which keeps the connection open.
    Noop,
    /// QUIT; the connection is over behind it.
    Quit,
}

impl Op {
    pub(super) fn paths(&self) -> (&str, &str) {
        match self {
            Op::Retrieve { path, .. } | Op::Store { path, .. } => (path, ""),
            Op::Append { path } | Op::List { path } => (path, ""),
            Op::Entry(path) | Op::Size(path) | Op::Modified(path) => (path, ""),
            Op::SetModified(path, _) | Op::Delete(path) | Op::MakeDir(path) => (path, ""),
            Op::RemoveDir(path) | Op::ChangeDir(path) => (path, ""),
            Op::Rename { from, to } => (from, to),
            Op::Noop | Op::Quit | Op::WorkingDir => ("", ""),
        }
    }
}

/// Why an operation does not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotBegun {
    /// Another one runs.
    #[error("another operation runs on this connection")]
    Busy,
    /// The name has a line break or NUL, or is too long.
    #[error("a name cannot be sent: it has a line break or is too long")]
    Name,
    /// The connection is over.
    #[error("the connection has ended")]
    Ended,
}

/// What the bytes of a data connection are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// A file, to us.
    Download,
    /// A file, to the server.
    Upload,
    /// Lines for [`super::Form::Facts`].
    Facts,
    /// Lines for [`super::Form::Long`].
    Long,
}

/// What the adapter is to do, or to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Write the output, make TLS stand (and check the certificate), then
    /// [`super::Client::tls_stands`].
    StartTls,
    /// Connect for data (TLS, as its client, if `protected`), while the rest goes on.
    Connect {
        /// The control connection's peer, and the port it named.
        address: SocketAddr,
        /// TLS on it.
        protected: bool,
    },
    /// Listen on the control connection's address, then [`super::Client::listening`].
    Listen {
        /// TLS on what is accepted, as its client.
        protected: bool,
    },
    /// The data connection of before is of no use.
    DropData,
    /// Move bytes on the data connection and close it, then [`super::Client::data_moved`] or
    /// [`super::Client::data_failed`].
    Transfer(Moves),
    /// The operation is over.
    Done(Outcome),
    /// The operation failed; the connection goes on.
    Failed(OpError),
}

/// What came of an operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The login stands.
    LoggedIn(Features),
    /// The bytes are moved, and the server said so.
    Transferred,
    /// Bytes, as SIZE answers.
    Size(u64),
    /// The last change, as MDTM answers.
    Modified(Time),
    /// Facts, as MLST answers.
    Entry(RemoteEntry),
    /// The directory, as PWD answers.
    WorkingDir(String),
    /// The server has done anything else.
    Done,
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpError {
    /// The server said no.
    #[error("the server answered {} {}", .0.code, .0.text)]
    Refused(Reply),
    /// The server said yes in words that mean nothing.
    #[error("the server's answer '{}' is not understood", .0.text)]
    NotUnderstood(Reply),
    /// The data connection failed on our side.
    #[error("the data connection failed")]
    Data,
    /// [`super::Client::abort`] stopped it.
    #[error("the transfer was aborted")]
    Aborted,
    /// A name, password or account has a line break and would be a command of its own.
    #[error("a name, password or account with a line break cannot be sent")]
    Credential,
    /// The server wants ACCT and there is none.
    #[error("the server asks for an account")]
    AccountNeeded,
}

impl OpError {
    /// Whether trying again later may help.
    pub fn is_temporary(&self) -> bool {
        match self {
            OpError::Refused(reply) => (400..500).contains(&reply.code),
            OpError::Data => true,
            _ => false,
        }
    }
}
