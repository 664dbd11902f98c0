//! The server machine of one control connection.
//!
//! The adapter feeds it bytes ([`Server::receive`]), asks what to do ([`Server::poll_request`]),
//! answers ([`Server::answer`]) and writes [`Server::output`]. A transfer (`Retrieve`, `Store`,
//! `List`) is answered twice: `TransferStarted` when nothing stands against it any more, and
//! `TransferEnded` when it is over; a refusal is `TransferEnded` alone. Between the two the
//! machine goes on with ABOR, STAT, NOOP and QUIT and keeps the rest.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::time::Duration;

use zeroize::{Zeroize as _, Zeroizing};

use crate::limits::{KEPT_BUFFER_BYTES, KEPT_BYTES, OUTPUT_BYTES, REQUESTS};
use crate::lines::Lines;
use crate::path::{self, NameFlaw};
use crate::reply;
use crate::request::Request;
use crate::settings::{Encoding, Settings, TlsMode};
use crate::table::{self, During, Form, Verb};

mod answers;
pub(crate) mod data;
pub(crate) mod digest;
mod hooks;
pub(crate) mod info;
pub(crate) mod login;
pub(crate) mod names;
pub(crate) mod parameters;
pub(crate) mod security;
mod session;
pub(crate) mod site;
pub(crate) mod transfer;

use answers::{Pending, Then};
use hooks::LastReply;
use session::{Secure, Session};
use transfer::Transfer;

/// Whether commands run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    /// TLS begins or ends: what comes meanwhile is not a command.
    Turning,
    Closed,
}

/// The machine of one control connection.
#[derive(Debug)]
pub struct Server {
    settings: Settings,
    lines: Lines,
    line: Vec<u8>,
    kept: VecDeque<Zeroizing<Vec<u8>>>,
    kept_bytes: usize,
    out: Vec<u8>,
    requests: VecDeque<Request>,
    pending: Option<Pending>,
    transfer: Option<Transfer>,
    /// The verb whose reply is next.
    verb: &'static Verb,
    session: Session,
    secure: Secure,
    phase: Phase,
    /// QUIT was seen during a transfer.
    quitting: bool,
    /// Once idle, 421 with this sentence.
    draining: Option<String>,
    wrong_passwords: u32,
    /// For hooks.
    last_reply: LastReply,
    started: Duration,
    active: Duration,
}

impl Server {
    /// A session that begins: the 220 is in the output. `now` is any clock that only rises.
    pub fn new(settings: Settings, now: Duration) -> Server {
        let mut out = Vec::new();
        reply::write(&mut out, 220, &settings.greeting);
        let implicit = settings.tls == TlsMode::Implicit;
        Server {
            session: Session::new(&settings),
            secure: if implicit { Secure::implicit() } else { Secure::default() },
            settings,
            lines: Lines::default(),
            line: Vec::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            out,
            requests: VecDeque::new(),
            pending: None,
            transfer: None,
            verb: table::FIRST,
            phase: Phase::Open,
            quitting: false,
            draining: None,
            wrong_passwords: 0,
            last_reply: LastReply::default(),
            started: now,
            active: now,
        }
    }

    /// Takes bytes of the control connection, cut anyhow; at most 8 KiB at a time, and only
    /// while [`Server::wants_input`].
    pub fn receive(&mut self, bytes: &[u8], now: Duration) {
        if self.phase == Phase::Open {
            self.active = now;
            self.lines.receive(bytes, &mut self.out);
        }
    }

    /// Whether the control connection is to be read now.
    pub fn wants_input(&self) -> bool {
        let busy = self.pending.is_some() || self.transfer.is_some();
        self.phase == Phase::Open
            && self.out.len() < OUTPUT_BYTES
            && !(busy && self.lines.buffered() + self.kept_bytes >= KEPT_BYTES)
    }

    /// What the adapter is to do next. Call until `None` after each `receive` and `answer`, and
    /// after `written`: what waited for room in the output goes on then.
    pub fn poll_request(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.requests.pop_front() {
                return Some(request);
            }
            if !self.step() {
                // A line that is too long runs nothing and ends the session.
                return self.requests.pop_front();
            }
        }
    }

    /// Replies to be written, then [`Server::written`]. All of it goes out before `StartTls`,
    /// `ClearControl` and `Close` are done, and before anybody waits.
    pub fn output(&self) -> &[u8] {
        &self.out
    }

    /// So many bytes of the output went out.
    pub fn written(&mut self, count: usize) {
        self.out.drain(..count.min(self.out.len()));
        self.last_reply.written(count);
    }

    /// When [`Server::handle_timeout`] is due: the limit of the login or of idleness. None in a
    /// transfer and while a request is open; before the login while credentials are looked at.
    pub fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Closed => None,
            _ if self.is_checking() => None,
            _ if !self.session.is_logged_in() => {
                self.started.checked_add(self.settings.login_limit)
            }
            _ if self.transfer.is_some() || self.pending.is_some() => None,
            _ => self.active.checked_add(self.settings.idle_limit),
        }
    }

    /// Before the login, and what the client gave to log in waits for its answer.
    fn is_checking(&self) -> bool {
        let credentials =
            |pending: &Pending| matches!(pending.then, Then::User(_) | Then::Password(_));
        !self.session.is_logged_in() && self.pending.as_ref().is_some_and(credentials)
    }

    /// Ends the session with 421 if its time is over.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            let login = self.session.is_logged_in();
            let idle = "You were idle for too long: the session is closed.";
            self.close(if login {
                idle
            } else {
                "The login took too long: the session is closed."
            });
        }
    }

    /// Ends the session with 421, whatever runs.
    pub fn close(&mut self, sentence: &str) {
        if self.phase != Phase::Closed {
            reply::write(&mut self.out, 421, sentence);
            self.end();
        }
    }

    /// Lets a running transfer or request end, refuses new transfers, then closes with 421.
    pub fn drain(&mut self, sentence: &str) {
        self.draining = Some(sentence.to_owned());
        self.drain_if_idle();
    }

    /// Gives back buffers that grew and are empty. Call when the session turned idle.
    pub fn shrink(&mut self) {
        self.lines.shrink();
        for buffer in [&mut self.out, &mut self.line] {
            if buffer.capacity() > KEPT_BUFFER_BYTES {
                buffer.shrink_to(KEPT_BUFFER_BYTES);
            }
        }
    }

    /// Bytes of memory held in buffers.
    pub fn buffered(&self) -> usize {
        self.lines.capacity() + self.out.capacity() + self.line.capacity() + self.kept_bytes
    }

    /// QUIT came during the transfer that runs: the end of the connection is no cut.
    pub fn is_quitting(&self) -> bool {
        self.quitting
    }

    /// Who is logged in.
    pub fn user(&self) -> Option<&str> {
        self.session.user()
    }

    /// What HOST chose; the adapter has said that it is served here.
    pub fn host(&self) -> Option<&str> {
        self.session.host.as_deref()
    }

    /// TLS stands on the control connection, as far as the machine knows.
    pub fn is_secure(&self) -> bool {
        self.secure.tls
    }

    /// What the client calls itself (CLNT, CSID), for logs: escape it.
    pub fn client(&self) -> Option<&str> {
        self.session.client.as_deref()
    }

    /// What the session offers. FEAT and dispatch follow at once.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// The same, to look at.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    fn end(&mut self) {
        self.phase = Phase::Closed;
        self.pending = None;
        self.kept.clear();
        self.lines.clear();
        self.requests.push_back(Request::Close);
    }

    fn drain_if_idle(&mut self) {
        if self.transfer.is_some() || self.pending.is_some() {
            return;
        }
        if let Some(sentence) = self.draining.take() {
            self.close(&sentence);
        }
    }

    /// Runs one line if one may run.
    fn step(&mut self) -> bool {
        let may = self.phase == Phase::Open
            && self.pending.is_none()
            && self.out.len() < OUTPUT_BYTES
            && self.requests.len() < REQUESTS;
        if !may {
            return false;
        }
        let mut line = std::mem::take(&mut self.line);
        let found = self.take_line(&mut line);
        if found {
            self.dispatch(&line);
        }
        line.zeroize();
        self.line = line;
        found
    }

    fn take_line(&mut self, line: &mut Vec<u8>) -> bool {
        let kept = if self.transfer.is_none() { self.kept.pop_front() } else { None };
        if let Some(kept) = kept {
            self.kept_bytes -= kept.len() + END_BYTES;
            line.extend_from_slice(&kept);
            return true;
        }
        while !self.quitting || self.transfer.is_none() {
            match self.lines.next(line) {
                Ok(true) => {}
                Ok(false) => return false,
                Err(_) => {
                    reply::write(&mut self.out, 500, "That line is too long: at most 8192 bytes.");
                    self.end();
                    return false;
                }
            }
            if self.transfer.is_none() || is_at_once(line) {
                return true;
            }
            self.keep(line);
            if self.kept_bytes >= KEPT_BYTES {
                return false;
            }
        }
        false
    }

    fn keep(&mut self, line: &[u8]) {
        let verb = table::verb(split_word(line).0);
        self.quitting |= verb.is_some_and(|verb| verb.during == During::Noticed);
        self.kept_bytes += line.len() + END_BYTES;
        self.kept.push_back(Zeroizing::new(line.to_vec()));
    }

    fn dispatch(&mut self, line: &[u8]) {
        let (word, argument) = split_word(line);
        let verb = table::verb(word);
        if !verb.is_some_and(|verb| matches!(verb.name, "RNTO" | "SITE")) {
            self.session.forget_next_only();
        }
        let Some(verb) = verb else {
            reply::write(&mut self.out, 500, "That command is not known: HELP shows all.");
            return;
        };
        self.verb = verb;
        self.quitting &= verb.during != During::Noticed;
        let argument = match self.decode(verb, argument) {
            Ok(argument) => argument,
            Err(flaw) => {
                return self.reply(if verb.path { 553 } else { 501 }, &sentence(flaw));
            }
        };
        if !self.may_run(&argument) {
            return;
        }
        if self.settings.hooked {
            self.requests.push_back(Request::Before(self.shown(verb, &argument)));
            let argument = Zeroizing::new(argument.into_owned());
            return self.wait(Then::Run(argument));
        }
        (verb.run)(self, &argument);
    }

    fn decode<'a>(&self, verb: &Verb, bytes: &'a [u8]) -> Result<Cow<'a, str>, NameFlaw> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Cow::Borrowed(text)),
            Err(_) if verb.name == "PASS" || self.settings.encoding == Encoding::Latin1 => {
                Ok(Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()))
            }
            Err(_) => Err(NameFlaw::Encoding),
        }
    }

    /// Whether the command can run at all; else why not is said. Hooks are not asked about what
    /// would be refused anyway, so a stranger can start nothing by them.
    fn may_run(&mut self, argument: &str) -> bool {
        let verb = self.verb;
        let blank = argument.trim().is_empty();
        if !verb.is_offered(&self.settings) {
            self.reply(502, "That command is not implemented here.");
        } else if verb.login && !self.session.is_logged_in() {
            self.reply(530, "Log in first with USER and PASS.");
        } else if verb.form == Form::None && !blank {
            self.reply(501, "That command has no argument.");
        } else if verb.form == Form::Required && blank {
            self.reply(501, &format!("Syntax: {} {}", verb.name, verb.syntax));
        } else {
            return !verb.write || self.may_write();
        }
        false
    }

    /// Whether the account may write; else 550 is said.
    fn may_write(&mut self) -> bool {
        let may = self.session.login().is_some_and(|login| login.may_write);
        if !may {
            self.reply(550, "This account may only read.");
        }
        may
    }

    /// The last reply of the verb that runs. 421 closes.
    fn reply(&mut self, code: u16, text: &str) {
        self.last_reply.begins(self.out.len());
        reply::write(&mut self.out, code, text);
        if self.settings.hooked {
            self.requests.push_back(Request::After { verb: self.verb.name, code });
        }
        if code == 421 {
            self.end();
        }
    }

    /// A reply that another one follows.
    fn say(&mut self, code: u16, text: &str) {
        reply::write(&mut self.out, code, text);
    }

    fn notice(&mut self, request: Request) {
        self.requests.push_back(request);
    }

    /// Asks, and remembers what the answer is for.
    fn ask(&mut self, request: Request, then: Then) {
        self.requests.push_back(request);
        self.wait(then);
    }

    fn wait(&mut self, then: Then) {
        self.pending = Some(Pending { verb: self.verb, then });
    }

    /// The path of an existing thing, or 550 is said.
    fn path(&mut self, argument: &str) -> Option<String> {
        match path::resolve(&self.session.directory, argument) {
            Ok(path) => Some(path),
            Err(flaw) => {
                self.reply(550, &sentence(flaw));
                None
            }
        }
    }

    /// The path of a new thing, or 553 is said.
    fn new_path(&mut self, argument: &str) -> Option<String> {
        match path::resolve_new(&self.session.directory, argument) {
            Ok(path) => Some(path),
            Err(flaw) => {
                self.reply(553, &sentence(flaw));
                None
            }
        }
    }
}

/// What the end of a kept line counts: an empty one costs as well.
const END_BYTES: usize = 2;

fn sentence(flaw: impl std::fmt::Display) -> String {
    let text = flaw.to_string();
    let mut letters = text.chars();
    match letters.next() {
        Some(first) => format!("{}{}.", first.to_ascii_uppercase(), letters.as_str()),
        None => text,
    }
}

/// The word and what stands behind one blank.
fn split_word(line: &[u8]) -> (&[u8], &[u8]) {
    match line.iter().position(|byte| *byte == b' ') {
        Some(at) => (line.get(..at).unwrap_or(line), line.get(at + 1..).unwrap_or(&[])),
        None => (line, &[]),
    }
}

fn is_at_once(line: &[u8]) -> bool {
    let (word, argument) = split_word(line);
    match table::verb(word).map(|verb| verb.during) {
        Some(During::AtOnce) => true,
        Some(During::AtOnceAlone) => argument.is_empty(),
        _ => false,
    }
}
