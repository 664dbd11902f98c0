//! The client machine: one operation at a time against any server. For `storage::ftp` and the
//! load generator.
//!
//! The adapter begins an operation, writes [`Client::output`], feeds [`Client::receive`] and does
//! what [`Client::poll_event`] tells. The first operation is the login and begins by itself.

use std::net::SocketAddr;

use crate::hostport::{eprt_argument, parse_227, parse_229, port_argument};
use crate::limits::{COMPONENT_BYTES, PATH_BYTES, PRELIMINARY_REPLIES};
use crate::reply::Reply;
use crate::request::Secret;
use crate::time::Time;

pub mod listing;
mod login;
mod replies;
mod transfer;

pub use listing::{Form, Parser, RemoteEntry, RemoteKind};
pub use replies::Fault;

use login::LoginStep;
use replies::Replies;
use transfer::TransferStep;

/// When TLS begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tls {
    /// Never.
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
    /// Of USER.
    pub user: String,
    /// Of PASS.
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
    /// SIZE.
    pub size: bool,
    /// MDTM.
    pub mdtm: bool,
    /// MFMT.
    pub mfmt: bool,
    /// REST in stream mode.
    pub rest: bool,
    /// OPTS UTF8 ON.
    pub utf8: bool,
}

/// An operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// RETR, with REST if `offset` is above 0.
    Retrieve {
        /// The name as the server is told it.
        path: String,
        /// The first byte.
        offset: u64,
    },
    /// STOR.
    Store {
        /// The name.
        path: String,
        /// Above 0: REST before it.
        offset: u64,
    },
    /// APPE.
    Append {
        /// The name.
        path: String,
    },
    /// MLSD, or CWD and LIST where the server has none.
    List {
        /// The directory.
        path: String,
    },
    /// MLST.
    Entry(String),
    /// SIZE.
    Size(String),
    /// MDTM.
    Modified(String),
    /// MFMT.
    SetModified(String, Time),
    /// RNFR and RNTO.
    Rename {
        /// What there is.
        from: String,
        /// What it is to be called.
        to: String,
    },
    /// DELE.
    Delete(String),
    /// MKD.
    MakeDir(String),
    /// RMD.
    RemoveDir(String),
    /// CWD.
    ChangeDir(String),
    /// PWD.
    WorkingDir,
    /// NOOP.
    Noop,
    /// QUIT.
    Quit,
}

impl Op {
    fn paths(&self) -> (&str, &str) {
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
    /// Lines for [`Form::Facts`].
    Facts,
    /// Lines for [`Form::Long`].
    Long,
}

/// What the adapter is to do, or to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Write the output, make TLS stand (and check the certificate), then [`Client::tls_stands`].
    StartTls,
    /// Connect for data (TLS, as its client, if `protected`), while the rest goes on.
    Connect {
        /// The control connection's peer, and the port it named.
        address: SocketAddr,
        /// TLS on it.
        protected: bool,
    },
    /// Listen on the control connection's address, then [`Client::listening`].
    Listen {
        /// TLS on what is accepted, as its client.
        protected: bool,
    },
    /// The data connection of before is of no use.
    DropData,
    /// Move bytes on the data connection, then [`Client::data_ended`].
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
    /// Of SIZE.
    Size(u64),
    /// Of MDTM.
    Modified(Time),
    /// Of MLST.
    Entry(RemoteEntry),
    /// Of PWD.
    WorkingDir(String),
    /// All else.
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
    /// By [`Client::abort`].
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

/// Where the machine is.
#[derive(Debug)]
enum State {
    Idle,
    Login(LoginStep),
    /// A command whose one reply decides.
    Simple(Op),
    /// RNFR was said.
    Renaming(String),
    Transfer(TransferStep),
    Quitting,
    Ended,
}

/// The machine of one control connection.
#[derive(Debug)]
pub struct Client {
    account: Account,
    peer: SocketAddr,
    replies: Replies,
    out: Vec<u8>,
    events: std::collections::VecDeque<Event>,
    state: State,
    features: Features,
    /// TYPE I was said.
    binary: bool,
    /// EPSV or EPRT was refused.
    old_commands: bool,
    /// REST was said and no transfer has begun since: the server may keep the offset for the next.
    offset_waits: bool,
    preliminary: usize,
}

impl Client {
    /// A connection to `peer` that waits for its 220, then logs in.
    pub fn new(account: Account, peer: SocketAddr) -> Client {
        Client {
            account,
            peer,
            replies: Replies::default(),
            out: Vec::new(),
            events: std::collections::VecDeque::new(),
            state: State::Login(LoginStep::Greeting),
            features: Features {
                mlst: true,
                size: true,
                mdtm: true,
                mfmt: true,
                rest: true,
                utf8: false,
            },
            binary: false,
            old_commands: false,
            offset_waits: false,
            preliminary: 0,
        }
    }

    /// Bytes to be written, then [`Client::written`].
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// So many bytes of the output went out.
    pub fn written(&mut self, count: usize) {
        self.out.drain(..count.min(self.out.len()));
    }

    /// Takes bytes of the control connection, cut anyhow.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.replies.receive(bytes);
    }

    /// What to do next; call until `None` after each other call.
    ///
    /// # Errors
    /// What ends the connection: close it.
    pub fn poll_event(&mut self) -> Result<Option<Event>, Fault> {
        loop {
            if let Some(event) = self.events.pop_front() {
                return Ok(Some(event));
            }
            if matches!(self.state, State::Ended | State::Login(LoginStep::Handshake)) {
                return Ok(None);
            }
            let reply = match self.replies.next() {
                Ok(Some(reply)) => reply,
                Ok(None) => return Ok(None),
                Err(fault) => {
                    self.state = State::Ended;
                    return Err(fault);
                }
            };
            if let Err(fault) = self.take(reply) {
                self.state = State::Ended;
                return Err(fault);
            }
        }
    }

    /// What FEAT said; before it, everything but UTF-8 is hoped for.
    pub fn features(&self) -> Features {
        self.features
    }

    /// Whether an operation may begin.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// Begins an operation.
    ///
    /// # Errors
    /// Why it does not begin.
    pub fn begin(&mut self, op: Op) -> Result<(), NotBegun> {
        match self.state {
            State::Idle => {}
            State::Ended => return Err(NotBegun::Ended),
            _ => return Err(NotBegun::Busy),
        }
        let (path, other) = op.paths();
        if !is_sendable(path) || !is_sendable(other) {
            return Err(NotBegun::Name);
        }
        match op {
            Op::Retrieve { .. } | Op::Store { .. } | Op::Append { .. } | Op::List { .. } => {
                self.begin_transfer(op);
            }
            // The size of TYPE A is another one.
            Op::Size(_) if !self.binary => self.begin_transfer(op),
            op => self.begin_simple(op),
        }
        Ok(())
    }

    fn begin_simple(&mut self, op: Op) {
        match &op {
            Op::Entry(path) => self.send("MLST", path),
            Op::Size(path) => self.send("SIZE", path),
            Op::Modified(path) => self.send("MDTM", path),
            Op::SetModified(path, time) => {
                self.send("MFMT", &format!("{} {path}", time.digits_14()));
            }
            Op::Rename { from, to } => {
                self.send("RNFR", from);
                self.state = State::Renaming(to.clone());
                return;
            }
            Op::Delete(path) => self.send("DELE", path),
            Op::MakeDir(path) => self.send("MKD", path),
            Op::RemoveDir(path) => self.send("RMD", path),
            Op::ChangeDir(path) => self.send("CWD", path),
            Op::WorkingDir => self.send("PWD", ""),
            Op::Quit => {
                self.send("QUIT", "");
                self.state = State::Quitting;
                return;
            }
            _ => self.send("NOOP", ""),
        }
        self.state = State::Simple(op);
    }

    fn send(&mut self, verb: &str, argument: &str) {
        self.out.extend_from_slice(verb.as_bytes());
        if !argument.is_empty() {
            self.out.push(b' ');
            self.out.extend_from_slice(argument.as_bytes());
        }
        self.out.extend_from_slice(b"\r\n");
        self.preliminary = 0;
    }

    fn take(&mut self, reply: Reply) -> Result<(), Fault> {
        if reply.code == 421 {
            return Err(Fault::Closing(reply.text));
        }
        if reply.code < 200 {
            self.preliminary += 1;
            if self.preliminary > PRELIMINARY_REPLIES {
                return Err(Fault::Unexpected(reply.code));
            }
        }
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Login(step) => self.take_login(step, reply),
            State::Transfer(step) => self.take_transfer(step, reply),
            // 1yz before the end says nothing here.
            state if reply.code < 200 && !matches!(state, State::Idle | State::Ended) => {
                self.state = state;
                Ok(())
            }
            State::Simple(op) => {
                self.take_simple(&op, reply);
                Ok(())
            }
            State::Renaming(to) if (300..400).contains(&reply.code) => {
                self.send("RNTO", &to);
                self.state = State::Simple(Op::Noop);
                Ok(())
            }
            State::Renaming(_) => {
                self.fail(OpError::Refused(reply));
                Ok(())
            }
            State::Quitting => {
                self.done(Outcome::Done);
                self.state = State::Ended;
                Ok(())
            }
            State::Idle | State::Ended => Err(Fault::Unexpected(reply.code)),
        }
    }

    fn take_simple(&mut self, op: &Op, reply: Reply) {
        if !(200..300).contains(&reply.code) {
            return self.fail(OpError::Refused(reply));
        }
        let outcome = match op {
            Op::Size(_) => reply.text.trim().parse().ok().map(Outcome::Size),
            Op::Modified(_) => Time::parse(reply.text.trim()).map(Outcome::Modified),
            Op::Entry(_) => entry(&reply.text).map(Outcome::Entry),
            Op::WorkingDir => working_directory(&reply.text).map(Outcome::WorkingDir),
            _ => Some(Outcome::Done),
        };
        match outcome {
            Some(outcome) => self.done(outcome),
            None => self.fail(OpError::NotUnderstood(reply)),
        }
    }

    fn done(&mut self, outcome: Outcome) {
        self.events.push_back(Event::Done(outcome));
    }

    fn fail(&mut self, error: OpError) {
        self.events.push_back(Event::Failed(error));
    }

    fn is_protected(&self) -> bool {
        self.account.tls != Tls::Off
    }
}

/// Nothing in it ends the line.
fn is_plain(text: &str) -> bool {
    !text.bytes().any(|byte| matches!(byte, 0 | b'\r' | b'\n'))
}

fn is_sendable(path: &str) -> bool {
    is_plain(path)
        && path.len() <= PATH_BYTES
        && path.split('/').all(|name| name.len() <= COMPONENT_BYTES)
}

/// The line of an MLST between its first and last.
fn entry(text: &str) -> Option<RemoteEntry> {
    let line = text.split('\n').nth(1)?;
    let (facts, path) = line.trim_start_matches(' ').split_once(' ')?;
    listing::described(facts, path)
}

/// The name between the first quotes of a 257, where two stand for one (RFC 959, appendix II).
fn working_directory(text: &str) -> Option<String> {
    let mut rest = text.split_once('"')?.1;
    let mut path = String::new();
    loop {
        let (piece, behind) = rest.split_once('"')?;
        path.push_str(piece);
        match behind.strip_prefix('"') {
            Some(more) => {
                path.push('"');
                rest = more;
            }
            None => return (path.starts_with('/') && is_plain(&path)).then_some(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn working_directories_of_servers() {
        for (text, want) in [
            ("\"/\" is the current directory", Some("/")),
            ("\"/a \"\"b\"\"\" here", Some("/a \"b\"")),
            ("\"/a\"", Some("/a")),
            ("'USER.' is it", None),
            ("\"C:\\a\"", None),
            ("\"/a", None),
            ("\"\"", None),
        ] {
            assert_eq!(working_directory(text).as_deref(), want, "{text}");
        }
    }

    #[test]
    fn a_directory_tells_of_itself() {
        for kind in ["dir", "cdir", "pdir"] {
            let told = entry(&format!("x\n type={kind};modify=20260101000000; /a\nEnd")).unwrap();
            assert_eq!((told.kind, told.name.as_str()), (RemoteKind::Directory, "/a"));
        }
    }
}
