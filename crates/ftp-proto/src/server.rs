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

use crate::answer::{Answer, End};
use crate::limits::{KEPT_BUFFER_BYTES, KEPT_BYTES, OUTPUT_BYTES, REQUESTS};
use crate::path::NameFlaw;
use crate::reply;
use crate::request::Request;
use crate::settings::{Settings, TlsMode};
use crate::table::{self, During, Verb};

mod answers;
pub(crate) mod data;
pub(crate) mod digest;
mod dispatch;
mod hooks;
pub(crate) mod info;
mod last_reply;
pub(crate) mod login;
pub(crate) mod names;
pub(crate) mod parameters;
mod pending;
pub(crate) mod security;
mod session;
pub(crate) mod site;
pub(crate) mod state;
pub(crate) mod transfer;

use last_reply::LastReply;
use pending::{DigestForm, Pending, Then};
use session::{Secure, Session};
use state::{Input, Phase, ServerState, sentence};

/// The machine of one control connection.
#[derive(Debug)]
pub struct Server {
    state: ServerState,
    /// The line that is run; its memory is used again for the next.
    line: Vec<u8>,
}

impl Server {
    /// A session that begins: the 220 is in the output. `now` is any clock that only rises.
    pub fn new(settings: Settings, now: Duration) -> Server {
        let mut out = Vec::new();
        reply::write(&mut out, 220, &settings.greeting);
        let implicit = settings.tls == TlsMode::Implicit;
        let state = ServerState {
            session: Session::new(&settings),
            secure: if implicit { Secure::implicit() } else { Secure::default() },
            settings,
            input: Input::default(),
            out,
            requests: VecDeque::new(),
            pending: None,
            transfer: None,
            verb: table::FIRST.name,
            phase: Phase::Open,
            quitting: false,
            draining: None,
            wrong_passwords: 0,
            last_reply: LastReply::default(),
            started: now,
            active: now,
        };
        Server { state, line: Vec::new() }
    }

    /// Takes bytes of the control connection, cut anyhow; at most 8 KiB at a time, and only
    /// while [`Server::wants_input`].
    pub fn receive(&mut self, bytes: &[u8], now: Duration) {
        if self.state.phase == Phase::Open {
            self.state.active = now;
            self.state.input.lines.receive(bytes, &mut self.state.out);
        }
    }

    /// Whether the control connection is to be read now.
    pub fn wants_input(&self) -> bool {
        let ServerState { input, pending, transfer, phase, out, .. } = &self.state;
        let busy = pending.is_some() || transfer.is_some();
        *phase == Phase::Open
            && out.len() < OUTPUT_BYTES
            && !(busy && input.lines.buffered() + input.kept_bytes >= KEPT_BYTES)
    }

    /// What the adapter is to do next. Call until `None` after each `receive` and `answer`, and
    /// after `written`: what waited for room in the output goes on then.
    pub fn poll_request(&mut self) -> Option<Request> {
        loop {
            if let Some(request) = self.state.requests.pop_front() {
                return Some(request);
            }
            if !self.step() {
                // A line that is too long runs nothing and ends the session.
                return self.state.requests.pop_front();
            }
        }
    }

    /// Takes the answer to the open request, or to the transfer.
    pub fn answer(&mut self, answer: Answer, now: Duration) {
        let state = &mut self.state;
        if state.is_checking() {
            // How long that took is not the client's doing: its time to log in begins later.
            state.started = state.started.saturating_add(now.saturating_sub(state.active));
        }
        state.active = now;
        if state.phase == Phase::Closed {
            return;
        }
        match answer {
            Answer::TransferStarted { connected, size, name } => {
                transfer::started(state, transfer::Started { connected, size, name });
            }
            Answer::TransferEnded(end) => transfer::ended(state, end),
            // Nothing else is open: it can only mean the transfer.
            Answer::Refused(refusal) if state.pending.is_none() => {
                transfer::ended(state, End::Refused(refusal));
            }
            answer => {
                let Some(Pending { verb, then }) = state.pending.take() else { return };
                state.verb = verb;
                match (then, answer) {
                    (then, Answer::Refused(refusal)) => answers::refused(state, then, &refusal),
                    (Then::Run(argument), Answer::Proceed | Answer::Done) => {
                        if let Some(verb) = table::verb(verb.as_bytes()) {
                            dispatch::run(state, verb, &argument);
                        }
                    }
                    (then, answer) => answers::answered(state, then, answer),
                }
                if state.pending.is_none() && state.phase != Phase::Closed {
                    state.drain_if_idle();
                }
            }
        }
    }

    /// A long digest goes on: keeps the client waiting. Call every 5 to 10 seconds.
    pub fn still_hashing(&mut self) {
        let then = self.state.pending.as_mut().map(|pending| &mut pending.then);
        let Some(Then::Digest { form: DigestForm::Hash, open, .. }) = then else { return };
        if std::mem::replace(open, true) {
            reply::write_between(&mut self.state.out, "Still at it.");
        } else {
            reply::write_first(&mut self.state.out, 213, "The digest is being made.");
        }
    }

    /// Puts this in the place of the reply that [`Request::After`] has just told of, as long as
    /// no part of it was written. A code that is no 4xx or 5xx becomes 451; 421 ends the session.
    pub fn instead(&mut self, code: u16, text: &str) {
        hooks::instead(&mut self.state, code, text);
    }

    /// Replies to be written, then [`Server::written`]. All of it goes out before `StartTls`,
    /// `ClearControl` and `Close` are done, and before anybody waits.
    pub fn output(&self) -> &[u8] {
        &self.state.out
    }

    /// So many bytes of the output went out.
    pub fn written(&mut self, count: usize) {
        let out = &mut self.state.out;
        out.drain(..count.min(out.len()));
        self.state.last_reply.written(count);
    }

    /// When [`Server::handle_timeout`] is due: the limit of the login or of idleness. None in a
    /// transfer and while a request is open; before the login while credentials are looked at.
    pub fn deadline(&self) -> Option<Duration> {
        let state = &self.state;
        match state.phase {
            Phase::Closed => None,
            _ if state.is_checking() => None,
            _ if !state.session.is_logged_in() => {
                state.started.checked_add(state.settings.login_limit)
            }
            _ if state.transfer.is_some() || state.pending.is_some() => None,
            _ => state.active.checked_add(state.settings.idle_limit),
        }
    }

    /// Ends the session with 421 if its time is over.
    pub fn handle_timeout(&mut self, now: Duration) {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            let login = self.state.session.is_logged_in();
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
        self.state.close(sentence);
    }

    /// Lets a running transfer or request end, refuses new transfers, then closes with 421.
    pub fn drain(&mut self, sentence: &str) {
        self.state.draining = Some(sentence.to_owned());
        self.state.drain_if_idle();
    }

    /// Gives back buffers that grew and are empty. Call when the session turned idle.
    pub fn shrink(&mut self) {
        self.state.input.lines.shrink();
        for buffer in [&mut self.state.out, &mut self.line] {
            if buffer.capacity() > KEPT_BUFFER_BYTES {
                buffer.shrink_to(KEPT_BUFFER_BYTES);
            }
        }
    }

    /// Bytes of memory held in buffers.
    pub fn buffered(&self) -> usize {
        let Input { lines, kept_bytes, .. } = &self.state.input;
        lines.capacity() + self.state.out.capacity() + self.line.capacity() + kept_bytes
    }

    /// QUIT came during the transfer that runs: the end of the connection is no cut.
    pub fn is_quitting(&self) -> bool {
        self.state.quitting
    }

    /// The name of the account that is logged in.
    pub fn user(&self) -> Option<&str> {
        self.state.session.user()
    }

    /// What HOST chose; the adapter has said that it is served here.
    pub fn host(&self) -> Option<&str> {
        self.state.session.host.as_deref()
    }

    /// TLS stands on the control connection, as far as the machine knows.
    pub fn is_secure(&self) -> bool {
        self.state.secure.tls
    }

    /// What the client calls itself (CLNT, CSID), for logs: escape it.
    pub fn client(&self) -> Option<&str> {
        self.state.session.client.as_deref()
    }

    /// What the session offers. FEAT and dispatch follow at once.
    pub fn settings_mut(&mut self) -> &mut Settings {
        &mut self.state.settings
    }

    /// What the session offers at present.
    pub fn settings(&self) -> &Settings {
        &self.state.settings
    }

    /// Runs one line if one may run.
    fn step(&mut self) -> bool {
        let state = &self.state;
        let may = state.phase == Phase::Open
            && state.pending.is_none()
            && state.out.len() < OUTPUT_BYTES
            && state.requests.len() < REQUESTS;
        if !may {
            return false;
        }
        let mut line = std::mem::take(&mut self.line);
        let found = take_line(&mut self.state, &mut line);
        if found {
            dispatch(&mut self.state, &line);
        }
        line.zeroize();
        self.line = line;
        found
    }
}

/// The next line that runs now; in a transfer all others are kept.
fn take_line(state: &mut ServerState, line: &mut Vec<u8>) -> bool {
    let input = &mut state.input;
    let kept = if state.transfer.is_none() { input.kept.pop_front() } else { None };
    if let Some(kept) = kept {
        input.kept_bytes -= kept.len() + END_BYTES;
        line.extend_from_slice(&kept);
        return true;
    }
    while !state.quitting || state.transfer.is_none() {
        match state.input.lines.next(line) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(_) => {
                reply::write(&mut state.out, 500, "That line is too long: at most 8192 bytes.");
                state.end();
                return false;
            }
        }
        if state.transfer.is_none() || is_at_once(line) {
            return true;
        }
        keep(state, line);
        if state.input.kept_bytes >= KEPT_BYTES {
            return false;
        }
    }
    false
}

fn keep(state: &mut ServerState, line: &[u8]) {
    let verb = table::verb(split_word(line).0);
    state.quitting |= verb.is_some_and(|verb| verb.during == During::Noticed);
    state.input.kept_bytes += line.len() + END_BYTES;
    state.input.kept.push_back(Zeroizing::new(line.to_vec()));
}

fn dispatch(state: &mut ServerState, line: &[u8]) {
    let (word, argument) = split_word(line);
    let verb = table::verb(word);
    if !verb.is_some_and(|verb| matches!(verb.name, "RNTO" | "SITE")) {
        state.session.forget_next_only();
    }
    let Some(verb) = verb else {
        reply::write(&mut state.out, 500, "That command is not known: HELP shows all.");
        return;
    };
    state.verb = verb.name;
    state.quitting &= verb.during != During::Noticed;
    let argument = match decode(verb, argument) {
        Ok(argument) => argument,
        Err(flaw) => {
            return state.reply(if verb.path { 553 } else { 501 }, &sentence(flaw));
        }
    };
    if !dispatch::may_run(state, verb, &argument) {
        return;
    }
    if state.settings.hooked {
        let command = hooks::shown(state, verb, &argument);
        state.requests.push_back(Request::Before(command));
        let argument = Zeroizing::new(argument.into_owned());
        return state.wait(Then::Run(argument));
    }
    dispatch::run(state, verb, &argument);
}

/// The argument as text: names are UTF-8, and passwords that are not are taken for ISO 8859-1.
fn decode<'a>(verb: &Verb, bytes: &'a [u8]) -> Result<Cow<'a, str>, NameFlaw> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(Cow::Borrowed(text)),
        Err(_) if verb.name == "PASS" => {
            Ok(Cow::Owned(bytes.iter().map(|byte| char::from(*byte)).collect()))
        }
        Err(_) => Err(NameFlaw::Encoding),
    }
}

/// What the end of a kept line counts: an empty one costs as well.
const END_BYTES: usize = 2;

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
