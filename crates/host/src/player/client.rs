//! One client of a player, without its connection: bytes go in; bytes, and what the driver has to
//! do besides, come out.

use std::sync::Arc;

use entrepot_tn3270_proto::codes::{Command, wcc};
use entrepot_tn3270_proto::enhanced::{
    DataType, Functions, Header, NEGATIVE_RESPONSE, NO_RESPONSE,
};
use entrepot_tn3270_proto::host::{Host, HostEvent, HostOptions, Session};

use super::matching::{Match, NoMatch, Received};
use super::recording::{
    Exchange, Expected, Recording, SentRecord, ends_line, is_automatic, line_of,
};
use crate::limits::LINE_BYTES;

/// What a recording does behind its last screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum AtEnd {
    /// The last screen stays; where the recording ends with a key, the connection is closed.
    #[default]
    Stay,
    /// The next key brings the first screen.
    BeginAnew,
}

/// How a client is treated.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Treatment {
    pub(crate) matching: Match,
    pub(crate) no_match: NoMatch,
    pub(crate) at_end: AtEnd,
}

/// What the driver has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A key was answered: the answer waits in the client until [`PlayedClient::release`].
    Answer(Answer),
    /// TLS begins when the output was sent.
    StartTls,
    /// The connection is closed when the output was sent.
    Close,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The screens that were recorded behind the key.
    Recorded,
    /// The key was not awaited: the screen is sent again.
    Again,
}

/// A client, and where in the recording it is.
#[derive(Debug)]
pub(crate) struct PlayedClient {
    host: Host,
    recording: Arc<Recording>,
    treatment: Treatment,
    /// Unset until the negotiation has ended.
    session: Option<Arc<Session>>,
    /// The exchange whose key is awaited.
    at: usize,
    sequence: u16,
    /// What was typed so far on a network virtual terminal.
    line: Vec<u8>,
    pending: Option<Pending>,
}

/// What a key leads to, before the answer is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pending {
    Show(usize),
    ShowAgain,
}

impl PlayedClient {
    pub(crate) fn new(
        recording: Arc<Recording>,
        treatment: Treatment,
        offered: HostOptions,
    ) -> Self {
        let functions = recording.functions().common(offered.functions);
        PlayedClient {
            host: Host::new(HostOptions { functions, ..offered }),
            recording,
            treatment,
            session: None,
            at: 0,
            sequence: 0,
            line: Vec::new(),
            pending: None,
        }
    }

    /// What is to be sent; whoever sends it empties it.
    pub(crate) fn output(&mut self) -> &mut Vec<u8> {
        self.host.output()
    }

    /// The stream is under TLS now: all is negotiated anew.
    pub(crate) fn tls_started(&mut self) {
        self.host.tls_started();
    }

    /// The next thing to do; takes what it read off `input`. `None`: all of it is read. While an
    /// answer waits, nothing is read.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Option<Action> {
        loop {
            let action = match self.host.next(input)? {
                HostEvent::Ready(session) => self.ready(session),
                HostEvent::Record(header) => self.record(header),
                HostEvent::Attention => self.answer(self.found(Received::Attention)),
                HostEvent::SystemRequest => self.answer(self.found(Received::SystemRequest)),
                HostEvent::StartTls => Some(Action::StartTls),
                HostEvent::Unusable => Some(Action::Close),
            };
            if action.is_some() {
                return action;
            }
        }
    }

    /// Puts the answer that waits into the output.
    pub(crate) fn release(&mut self) -> Option<Action> {
        match self.pending.take()? {
            Pending::Show(at) => self.show(at),
            Pending::ShowAgain => {
                self.show_again();
                None
            }
        }
    }

    fn ready(&mut self, session: Session) -> Option<Action> {
        // A terminal may negotiate its functions anew at any time: it goes on where it is.
        let is_first = self.session.is_none();
        self.session = Some(Arc::new(session));
        if is_first { self.show(0) } else { None }
    }

    fn record(&mut self, header: Header) -> Option<Action> {
        let data = self.host.data();
        match header.data_type {
            DataType::Data3270 if is_automatic(data) => self.answered_by_itself(),
            DataType::Data3270 => self.answer(self.found(Received::Key(data))),
            DataType::SscpLu => {
                let received = Received::Line { data_type: DataType::SscpLu, text: data };
                self.answer(self.found(received))
            }
            DataType::Nvt => self.text(),
            DataType::Response if header.response == NEGATIVE_RESPONSE => self.answered_by_itself(),
            _ => None,
        }
    }

    fn text(&mut self) -> Option<Action> {
        let data = self.host.data();
        let room = LINE_BYTES.saturating_sub(self.line.len());
        self.line.extend(data.iter().take(room));
        if !ends_line(data) {
            return None;
        }
        let line = std::mem::take(&mut self.line);
        let received = Received::Line { data_type: DataType::Nvt, text: line_of(&line) };
        self.answer(self.found(received))
    }

    /// The terminal has answered what the host asked it; a refusal is an answer, too.
    fn answered_by_itself(&mut self) -> Option<Action> {
        let exchange = self.recording.exchange(self.at)?;
        if exchange.expected != Some(Expected::Automatic) || self.session.is_none() {
            return None;
        }
        self.go_on(self.at)
    }

    /// What stands behind an exchange that has ended.
    fn go_on(&mut self, at: usize) -> Option<Action> {
        match self.after(at) {
            Some(next) => self.show(next),
            None => Some(Action::Close),
        }
    }

    fn after(&self, at: usize) -> Option<usize> {
        let next = at + 1;
        if self.recording.exchange(next).is_some() {
            return Some(next);
        }
        (self.treatment.at_end == AtEnd::BeginAnew).then_some(0)
    }

    fn answer(&mut self, found: Found) -> Option<Action> {
        self.session.as_ref()?;
        let (pending, answer) = match found {
            Found::At(at) => match self.after(at) {
                Some(next) => (Pending::Show(next), Answer::Recorded),
                None => return Some(Action::Close),
            },
            Found::Begin => (Pending::Show(0), Answer::Recorded),
            Found::Nowhere if self.treatment.no_match == NoMatch::Drop => {
                return Some(Action::Close);
            }
            Found::Nowhere => (Pending::ShowAgain, Answer::Again),
        };
        self.pending = Some(pending);
        Some(Action::Answer(answer))
    }

    fn found(&self, received: Received<'_>) -> Found {
        let Treatment { matching, no_match, at_end } = self.treatment;
        let is_awaited = |exchange: &Exchange| {
            exchange.expected.as_ref().is_some_and(|expected| matching.holds(expected, received))
        };
        let all = self.recording.exchanges();
        let (before, rest) = all.split_at(self.at.min(all.len()));
        match rest.split_first() {
            Some((current, _)) if is_awaited(current) => return Found::At(self.at),
            Some((current, _)) if current.expected.is_none() && at_end == AtEnd::BeginAnew => {
                return Found::Begin;
            }
            _ => {}
        }
        let ahead = || rest.iter().position(is_awaited).map(|found| self.at + found);
        let found = match no_match {
            NoMatch::Repeat | NoMatch::Drop => None,
            NoMatch::Forward => ahead(),
            NoMatch::Search => ahead().or_else(|| before.iter().position(is_awaited)),
        };
        found.map_or(Found::Nowhere, Found::At)
    }

    /// Sends what an exchange shows, and what stands behind it as long as the client has nothing to
    /// say to it.
    fn show(&mut self, first: usize) -> Option<Action> {
        let recording = Arc::clone(&self.recording);
        let session = self.session.clone()?;
        let mut at = first;
        // A whole round without a key would never end.
        for _ in recording.exchanges() {
            self.at = at;
            let exchange = recording.exchange(at)?;
            let free = self.send_all(recording.shown(exchange, &session));
            if exchange.is_key() {
                self.free_keyboard(free);
            }
            if recording.can_come(exchange, &session) && !recording.unbinds(exchange) {
                return None;
            }
            match self.after(at) {
                Some(next) => at = next,
                None => return Some(Action::Close),
            }
        }
        Some(Action::Close)
    }

    fn show_again(&mut self) {
        let recording = Arc::clone(&self.recording);
        let Some((exchange, session)) = recording.exchange(self.at).zip(self.session.clone())
        else {
            return;
        };
        let free = self.send_all(recording.screen(exchange, &session));
        self.free_keyboard(free);
    }

    fn send_all<'r>(&mut self, records: impl Iterator<Item = &'r SentRecord>) -> Keyboard {
        let mut keyboard = Keyboard::Locked;
        for record in records {
            if record.frees_keyboard() {
                keyboard = Keyboard::Free;
            }
            self.put(record.header, &record.data);
        }
        keyboard
    }

    /// Where a key was pressed the keyboard was free, whatever the recording has of it.
    fn free_keyboard(&mut self, keyboard: Keyboard) {
        if keyboard == Keyboard::Locked {
            self.put(Header::default(), &[Command::Write.code(), wcc::RESTORE]);
        }
    }

    /// The number of the header is this client's, and what was not agreed on is not asked for.
    fn put(&mut self, recorded: Header, data: &[u8]) {
        let functions = self.session.as_ref().and_then(|session| session.functions);
        let responds = functions.is_some_and(|agreed| agreed.has(Functions::RESPONSES));
        let mut header = Header { sequence: 0, ..recorded };
        if responds {
            header.sequence = self.sequence;
            self.sequence = (self.sequence + 1) & 0x7fff;
        } else {
            header.response = NO_RESPONSE;
        }
        self.host.send(header, data);
    }
}

/// What records leave behind, of a client that has pressed a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keyboard {
    Free,
    Locked,
}

enum Found {
    /// The key is the one of this exchange.
    At(usize),
    /// The recording had ended, and begins anew with any key.
    Begin,
    Nowhere,
}

/// Plays a recording to a client that sends these bytes, with and without TN3270E, and whatever it
/// sends wrongly.
pub(crate) fn fuzz_client(recording: Arc<Recording>, bytes: &[u8]) {
    use entrepot_tn3270_proto::client::Wish;
    let plain = b"\xff\xfb\x18\xff\xfa\x18\x00IBM-3278-2-E\xff\xf0\
        \xff\xfb\x19\xff\xfd\x19\xff\xfb\x00\xff\xfd\x00";
    let choices = [
        (Wish::Accept, NoMatch::Repeat, AtEnd::Stay),
        (Wish::Refuse, NoMatch::Search, AtEnd::BeginAnew),
        (Wish::Refuse, NoMatch::Forward, AtEnd::Stay),
    ];
    for (enhanced, no_match, at_end) in choices {
        let offered = HostOptions {
            enhanced,
            functions: Functions::DISPLAY,
            start_tls: Wish::Refuse,
            device_name: "PLAY0000".to_owned(),
        };
        let treatment = Treatment { matching: Match::Fields, no_match, at_end };
        let mut client = PlayedClient::new(Arc::clone(&recording), treatment, offered);
        let begin: &[u8] = if enhanced == Wish::Refuse { plain } else { &[] };
        'client: for mut piece in begin.chunks(13).chain(bytes.chunks(13)) {
            while let Some(mut action) = client.next(&mut piece) {
                if let Action::Answer(_) = action
                    && let Some(next) = client.release()
                {
                    action = next;
                }
                if action == Action::Close {
                    break 'client;
                }
            }
            client.output().clear();
        }
    }
}

#[cfg(test)]
mod tests;
