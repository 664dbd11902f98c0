//! The client machine: one operation at a time against any server. For `storage::ftp` and the
//! load generator.
//!
//! The adapter begins an operation, writes [`Client::output`], feeds [`Client::receive`] and does
//! what [`Client::poll_event`] tells. The first operation is the login and begins by itself.

use std::net::SocketAddr;

use crate::limits::{COMPONENT_BYTES, PATH_BYTES, PRELIMINARY_REPLIES};
use crate::reply::Reply;
use crate::time::Time;

mod link;
pub mod listing;
mod login;
mod op;
mod replies;
mod transfer;

pub use listing::{Form, Parser, RemoteEntry, RemoteKind};
pub use op::{Account, Event, Features, Mode, Moves, NotBegun, Op, OpError, Outcome, Tls};
pub use replies::Fault;

use link::{Link, is_plain};
use login::{LoginNext, LoginStep};
use transfer::{DataEnd, TransferNext, TransferStep};

/// What the next reply belongs to.
#[derive(Debug)]
enum State {
    Idle,
    Login(LoginStep),
    /// A command whose one reply decides.
    Simple(Op),
    /// RNFR was sent; this is the new name.
    Renaming(String),
    Transfer(TransferStep),
    Quitting,
    Ended,
}

impl From<LoginNext> for State {
    fn from(next: LoginNext) -> State {
        match next {
            LoginNext::Await(step) => State::Login(step),
            LoginNext::LoggedIn => State::Idle,
            // A refused login may not be followed by other operations.
            LoginNext::Failed => State::Ended,
        }
    }
}

/// The machine of one control connection.
#[derive(Debug)]
pub struct Client {
    link: Link,
    state: State,
}

impl Client {
    /// A connection to `peer` that waits for its 220, then logs in.
    pub fn new(account: Account, peer: SocketAddr) -> Client {
        Client { link: Link::new(account, peer), state: State::Login(LoginStep::Greeting) }
    }

    /// Bytes to be written, then [`Client::written`].
    pub fn output(&self) -> &[u8] {
        &self.link.out
    }

    /// So many bytes of the output went out.
    pub fn written(&mut self, count: usize) {
        let out = &mut self.link.out;
        out.drain(..count.min(out.len()));
    }

    /// Takes bytes of the control connection, cut anyhow.
    pub fn receive(&mut self, bytes: &[u8]) {
        self.link.replies.receive(bytes);
    }

    /// What to do next; call until `None` after each other call.
    ///
    /// # Errors
    /// What ends the connection: close it.
    pub fn poll_event(&mut self) -> Result<Option<Event>, Fault> {
        loop {
            if let Some(event) = self.link.events.pop_front() {
                return Ok(Some(event));
            }
            if matches!(self.state, State::Ended | State::Login(LoginStep::Handshake)) {
                return Ok(None);
            }
            let reply = match self.link.replies.next() {
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

    /// The answer to FEAT; before it, everything but UTF-8 is hoped for.
    pub fn features(&self) -> Features {
        self.link.features
    }

    /// Whether an operation may begin.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    /// TLS stands on the control connection.
    pub fn tls_stands(&mut self) {
        if matches!(self.state, State::Login(LoginStep::Handshake)) {
            self.state = login::begin(&mut self.link).into();
        }
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
        let transfers = matches!(
            op,
            Op::Retrieve { .. } | Op::Store { .. } | Op::Append { .. } | Op::List { .. }
        );
        // The size of TYPE A is another one.
        let needs_type = matches!(op, Op::Size(_)) && !self.link.binary;
        self.state = if transfers || needs_type {
            State::Transfer(TransferStep::begin(&mut self.link, op))
        } else {
            self.simple(op)
        };
        Ok(())
    }

    /// Sends the command of an operation without a data connection.
    fn simple(&mut self, op: Op) -> State {
        let link = &mut self.link;
        match &op {
            Op::Entry(path) => link.send("MLST", path),
            Op::Size(path) => link.send("SIZE", path),
            Op::Modified(path) => link.send("MDTM", path),
            Op::SetModified(path, time) => {
                link.send("MFMT", &format!("{} {path}", time.digits_14()));
            }
            Op::Rename { from, to } => {
                link.send("RNFR", from);
                return State::Renaming(to.clone());
            }
            Op::Delete(path) => link.send("DELE", path),
            Op::MakeDir(path) => link.send("MKD", path),
            Op::RemoveDir(path) => link.send("RMD", path),
            Op::ChangeDir(path) => link.send("CWD", path),
            Op::WorkingDir => link.send("PWD", ""),
            Op::Quit => {
                link.send("QUIT", "");
                return State::Quitting;
            }
            _ => link.send("NOOP", ""),
        }
        State::Simple(op)
    }

    /// The adapter listens at this address, as [`Event::Listen`] asked.
    pub fn listening(&mut self, address: SocketAddr) {
        if let State::Transfer(step) = &mut self.state {
            step.listening(&mut self.link, address);
        }
    }

    /// The bytes are moved and the data connection is closed, as [`Event::Transfer`] asked.
    pub fn data_moved(&mut self) {
        self.data_ended(DataEnd::Whole);
    }

    /// The data connection was not made or did not carry all bytes.
    pub fn data_failed(&mut self) {
        self.data_ended(DataEnd::Failed);
    }

    fn data_ended(&mut self, end: DataEnd) {
        if let State::Transfer(step) = &mut self.state
            && step.data_ended(&mut self.link, end)
        {
            self.state = State::Idle;
        }
    }

    /// Stops a transfer by ABOR; what the server says to it comes as [`OpError::Aborted`].
    /// Nothing happens if none was begun on the server.
    pub fn abort(&mut self) {
        if let State::Transfer(step) = &mut self.state {
            step.abort(&mut self.link);
        }
    }

    fn take(&mut self, reply: Reply) -> Result<(), Fault> {
        if reply.code == 421 {
            return Err(Fault::Closing(reply.text));
        }
        if reply.code < 200 {
            self.link.preliminary += 1;
            if self.link.preliminary > PRELIMINARY_REPLIES {
                return Err(Fault::Unexpected(reply.code));
            }
        }
        let state = std::mem::replace(&mut self.state, State::Idle);
        self.state = match state {
            State::Login(step) => step.take(&mut self.link, reply)?.into(),
            State::Transfer(step) => match step.take(&mut self.link, reply)? {
                TransferNext::Await(step) => State::Transfer(step),
                TransferNext::Simple(op) => self.simple(op),
                TransferNext::Over => State::Idle,
            },
            // 1yz before the end says nothing here.
            state if reply.code < 200 && !matches!(state, State::Idle | State::Ended) => state,
            State::Simple(op) => {
                self.take_simple(&op, reply);
                State::Idle
            }
            State::Renaming(to) if (300..400).contains(&reply.code) => {
                self.link.send("RNTO", &to);
                State::Simple(Op::Noop)
            }
            State::Renaming(_) => {
                self.link.fail(OpError::Refused(reply));
                State::Idle
            }
            State::Quitting => {
                self.link.done(Outcome::Done);
                State::Ended
            }
            State::Idle | State::Ended => return Err(Fault::Unexpected(reply.code)),
        };
        Ok(())
    }

    fn take_simple(&mut self, op: &Op, reply: Reply) {
        if !(200..300).contains(&reply.code) {
            return self.link.fail(OpError::Refused(reply));
        }
        let outcome = match op {
            Op::Size(_) => reply.text.trim().parse().ok().map(Outcome::Size),
            Op::Modified(_) => Time::parse(reply.text.trim()).map(Outcome::Modified),
            Op::Entry(_) => entry(&reply.text).map(Outcome::Entry),
            Op::WorkingDir => working_directory(&reply.text).map(Outcome::WorkingDir),
            _ => Some(Outcome::Done),
        };
        match outcome {
            Some(outcome) => self.link.done(outcome),
            None => self.link.fail(OpError::NotUnderstood(reply)),
        }
    }
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
