//! The state of one control connection, and the replies and requests that commands make of it.

use std::collections::VecDeque;
use std::time::Duration;

use zeroize::Zeroizing;

use super::last_reply::LastReply;
use super::pending::{Pending, Then};
use super::session::{Secure, Session};
use crate::lines::Lines;
use crate::path;
use crate::reply;
use crate::request::{Data, Request};
use crate::settings::Settings;

/// Whether commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Open,
    /// TLS begins or ends: what comes meanwhile is not a command.
    Turning,
    Closed,
}

/// The transfer that runs, or is about to.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) verb: &'static str,
    /// As the client called it.
    pub(super) name: String,
    /// The 150 is in the output.
    pub(super) started: bool,
    /// ABORs that wait for the end.
    pub(super) aborts: u32,
    /// The name STOU chose.
    pub(super) chosen: Option<String>,
}

/// Lines of the client that have not run yet.
#[derive(Debug, Default)]
pub(super) struct Input {
    pub(super) lines: Lines,
    /// Those that came during a transfer and run after it.
    pub(super) kept: VecDeque<Zeroizing<Vec<u8>>>,
    /// Bytes of them, each with its end.
    pub(super) kept_bytes: usize,
}

impl Input {
    pub(super) fn clear(&mut self) {
        self.lines.clear();
        self.kept.clear();
        self.kept_bytes = 0;
    }
}

/// All that commands and answers change.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(super) settings: Settings,
    pub(super) input: Input,
    pub(super) out: Vec<u8>,
    pub(super) requests: VecDeque<Request>,
    pub(super) pending: Option<Pending>,
    pub(super) transfer: Option<Transfer>,
    /// The verb whose reply is next.
    pub(super) verb: &'static str,
    pub(super) session: Session,
    pub(super) secure: Secure,
    pub(super) phase: Phase,
    /// QUIT came during a transfer.
    pub(super) quitting: bool,
    /// Once idle, 421 with this sentence.
    pub(super) draining: Option<String>,
    pub(super) wrong_passwords: u32,
    /// For hooks, which may replace it.
    pub(super) last_reply: LastReply,
    /// Since when the client may log in.
    pub(super) started: Duration,
    /// When the client or the adapter was last active.
    pub(super) active: Duration,
}

impl ServerState {
    /// Ends the session with 421, whatever runs.
    pub(super) fn close(&mut self, sentence: &str) {
        if self.phase != Phase::Closed {
            reply::write(&mut self.out, 421, sentence);
            self.end();
        }
    }

    /// Ends the session; the reply that says so is in the output.
    pub(super) fn end(&mut self) {
        self.phase = Phase::Closed;
        self.pending = None;
        self.input.kept.clear();
        self.input.lines.clear();
        self.requests.push_back(Request::Close);
    }

    /// Closes a session that drains and has nothing left to wait for.
    pub(super) fn drain_if_idle(&mut self) {
        if self.transfer.is_some() || self.pending.is_some() {
            return;
        }
        if let Some(sentence) = self.draining.take() {
            self.close(&sentence);
        }
    }

    /// Before the login, and what the client gave to log in waits for its answer.
    pub(super) fn is_checking(&self) -> bool {
        let credentials =
            |pending: &Pending| matches!(pending.then, Then::User(_) | Then::Password(_));
        !self.session.is_logged_in() && self.pending.as_ref().is_some_and(credentials)
    }

    /// Whether the account may write; else it gets a 550.
    pub(super) fn may_write(&mut self) -> bool {
        let may = self.session.login().is_some_and(|login| login.may_write);
        if !may {
            self.reply(550, "This account may only read.");
        }
        may
    }

    /// Whether transfers need PROT P.
    pub(super) fn must_protect(&self) -> bool {
        let login = self.session.login().is_some_and(|login| login.protect_data);
        self.settings.protect_data || login
    }

    /// The last reply of the verb that runs. 421 closes.
    pub(super) fn reply(&mut self, code: u16, text: &str) {
        self.last_reply.begins(self.out.len());
        reply::write(&mut self.out, code, text);
        if self.settings.hooked {
            self.requests.push_back(Request::After { verb: self.verb, code });
        }
        if code == 421 {
            self.end();
        }
    }

    /// A reply that another one follows.
    pub(super) fn say(&mut self, code: u16, text: &str) {
        reply::write(&mut self.out, code, text);
    }

    /// Asks the adapter for something that takes no answer.
    pub(super) fn notice(&mut self, request: Request) {
        self.requests.push_back(request);
    }

    /// Asks, and remembers what the answer is for.
    pub(super) fn ask(&mut self, request: Request, then: Then) {
        self.requests.push_back(request);
        self.wait(then);
    }

    pub(super) fn wait(&mut self, then: Then) {
        self.pending = Some(Pending { verb: self.verb, then });
    }

    /// Ends what PASV or PORT expects.
    pub(super) fn drop_data(&mut self) {
        if self.session.data.take() == Some(Data::Passive) {
            self.notice(Request::DropData);
        }
    }

    /// The path of an existing thing; else the client gets a 550.
    pub(super) fn path(&mut self, argument: &str) -> Option<String> {
        match path::resolve(&self.session.directory, argument) {
            Ok(path) => Some(path),
            Err(flaw) => {
                self.reply(550, &sentence(flaw));
                None
            }
        }
    }

    /// The path of a new thing; else the client gets a 553.
    pub(super) fn new_path(&mut self, argument: &str) -> Option<String> {
        match path::resolve_new(&self.session.directory, argument) {
            Ok(path) => Some(path),
            Err(flaw) => {
                self.reply(553, &sentence(flaw));
                None
            }
        }
    }
}

/// With a capital letter and a full stop, as replies are.
pub(super) fn sentence(flaw: impl std::fmt::Display) -> String {
    let text = flaw.to_string();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_ascii_uppercase(), letters.as_str()),
        None => text,
    }
}
