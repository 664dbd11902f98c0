//! A recording as a player needs it: what the host shows, and what the terminal sends then.

use std::ops::Range;
use std::sync::Arc;

use entrepot_tn3270_proto::address::Addressing;
use entrepot_tn3270_proto::codes::{Aid, Command, wcc};
use entrepot_tn3270_proto::enhanced::{DataType, Functions, Header};
use entrepot_tn3270_proto::host::Session;
use entrepot_tn3270_proto::observer::{Observer, Seen};
use entrepot_tn3270_proto::trace::{self, Origin};
use entrepot_tn3270_proto::typed::Typed;
use entrepot_tn3270_proto::{CodePage, Screen};

/// A text is no recording of a terminal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordingError {
    /// It has no record of a host at all.
    #[error("'{name}' is no trace of a 3270 terminal: it has no record of a host")]
    Empty {
        /// What the recording is called.
        name: String,
    },
}

impl RecordingError {
    /// The error catalogue's code.
    pub fn code(&self) -> &'static str {
        "EP1304"
    }
}

/// A session with a host, compiled from a trace of x3270 and shared by all clients.
#[derive(Debug)]
pub struct Recording {
    name: String,
    device_type: Option<String>,
    /// All that the host sent, in order.
    sent: Vec<SentRecord>,
    exchanges: Vec<Exchange>,
}

/// A record of the host.
#[derive(Debug)]
pub(crate) struct SentRecord {
    pub(crate) header: Header,
    pub(crate) data: Vec<u8>,
    kind: SentKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SentKind {
    /// Clears the screen and writes it anew.
    Erase,
    Write,
    /// Structured fields: questions about the terminal among them.
    Structured,
    /// The terminal answers it by itself.
    Read,
    /// No 3270 data stream.
    Other,
}

/// What the host shows, and what the terminal sends then.
#[derive(Debug)]
pub(crate) struct Exchange {
    shown: Range<usize>,
    /// From here on the records make the whole screen.
    screen_from: usize,
    /// `None`: the recording ends with the screen.
    pub(crate) expected: Option<Expected>,
}

/// What the terminal has sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// A key with what was typed.
    Key(ExpectedKey),
    /// A line to the system services, or of a network virtual terminal.
    Line(ExpectedLine),
    /// An answer that a terminal gives by itself: what it is able to do, what is on the screen.
    Automatic,
    Attention,
    SystemRequest,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedKey {
    /// All of the record.
    pub(crate) data: Vec<u8>,
    pub(crate) fields: Vec<ExpectedField>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedField {
    pub(crate) at: Option<usize>,
    /// `None`: the field is hidden, and its content compared with nothing.
    pub(crate) codes: Option<Vec<u8>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ExpectedLine {
    pub(crate) data_type: DataType,
    pub(crate) text: Vec<u8>,
}

impl Recording {
    /// Compiles the text of a trace.
    ///
    /// # Errors
    /// There is no record of a host in it.
    pub fn compile(name: &str, text: &str, page: Arc<CodePage>) -> Result<Self, RecordingError> {
        let mut compiler = Compiler {
            observer: Observer::new(page),
            sent: Vec::new(),
            exchanges: Vec::new(),
            begun: 0,
            line: Vec::new(),
            has_records: false,
        };
        for block in trace::read(text) {
            let mut input = block.bytes.as_slice();
            while let Some(seen) = compiler.observer.next(block.origin, &mut input) {
                match block.origin {
                    Origin::Host => compiler.host(seen),
                    Origin::Terminal => compiler.terminal(seen),
                }
            }
        }
        compiler.end(None);
        let Compiler { observer, sent, mut exchanges, has_records, .. } = compiler;
        let is_shown = |exchange: &Exchange| !exchange.shown.is_empty();
        if exchanges.last().is_some_and(|last| last.expected.is_none() && !is_shown(last)) {
            exchanges.pop();
        }
        if !has_records {
            return Err(RecordingError::Empty { name: name.to_owned() });
        }
        let device_type = observer.device_type().map(str::to_owned);
        Ok(Recording { name: name.to_owned(), device_type, sent, exchanges })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The terminal that was recorded; another one may be too small for its screens.
    pub fn device_type(&self) -> Option<&str> {
        self.device_type.as_deref()
    }

    /// How many times the terminal is waited for.
    pub fn keys(&self) -> usize {
        self.exchanges.iter().filter(|exchange| exchange.is_key()).count()
    }

    /// The functions of TN3270E that a host with this recording can grant: a terminal that was
    /// promised a BIND takes nothing before it.
    pub(crate) fn functions(&self) -> Functions {
        let binds = self.sent.iter().any(|record| record.header.data_type == DataType::BindImage);
        if binds { Functions::DISPLAY } else { Functions::RESPONSES.with(Functions::SYSREQ) }
    }

    pub(crate) fn exchange(&self, at: usize) -> Option<&Exchange> {
        self.exchanges.get(at)
    }

    pub(crate) fn exchanges(&self) -> &[Exchange] {
        &self.exchanges
    }

    /// What is sent to a client when an exchange begins.
    pub(crate) fn shown<'a>(
        &'a self,
        exchange: &Exchange,
        session: &'a Session,
    ) -> impl Iterator<Item = &'a SentRecord> {
        let records = self.sent.get(exchange.shown.clone()).unwrap_or_default();
        records.iter().filter(|record| record.can_go_to(session))
    }

    /// What makes the screen of an exchange once more; nothing of it is answered by a terminal on
    /// its own.
    pub(crate) fn screen<'a>(
        &'a self,
        exchange: &Exchange,
        session: &'a Session,
    ) -> impl Iterator<Item = &'a SentRecord> {
        let records = self.sent.get(exchange.screen_from..exchange.shown.end).unwrap_or_default();
        let writes = records.iter().filter(|record| {
            let is_text = matches!(record.header.data_type, DataType::SscpLu | DataType::Nvt);
            is_text || matches!(record.kind, SentKind::Erase | SentKind::Write)
        });
        writes.filter(|record| record.can_go_to(session))
    }

    /// True if the recording ends with the end of the session, after which no key is taken.
    pub(crate) fn unbinds(&self, exchange: &Exchange) -> bool {
        let last = self.sent.get(exchange.shown.clone()).and_then(<[_]>::last);
        exchange.expected.is_none()
            && last.is_some_and(|last| last.header.data_type == DataType::Unbind)
    }

    /// Whether a client can send what an exchange awaits.
    pub(crate) fn can_come(&self, exchange: &Exchange, session: &Session) -> bool {
        let functions = session.functions.unwrap_or(Functions::NONE);
        match &exchange.expected {
            None | Some(Expected::Key(_) | Expected::Attention | Expected::SystemRequest) => true,
            Some(Expected::Line(line)) if line.data_type == DataType::Nvt => {
                session.functions.is_some()
            }
            Some(Expected::Line(_)) => functions.has(Functions::BIND_IMAGE),
            Some(Expected::Automatic) => self
                .shown(exchange, session)
                .any(|record| matches!(record.kind, SentKind::Structured | SentKind::Read)),
        }
    }
}

impl Exchange {
    /// True if a person, or a program in place of one, does something.
    pub(crate) fn is_key(&self) -> bool {
        !matches!(self.expected, None | Some(Expected::Automatic))
    }
}

impl SentRecord {
    fn new(header: Header, data: Vec<u8>) -> Self {
        let code = data.first().filter(|_| header.data_type == DataType::Data3270);
        let kind = match code.and_then(|code| Command::of(*code)) {
            Some(Command::EraseWrite | Command::EraseWriteAlternate) => SentKind::Erase,
            Some(Command::Write | Command::EraseAllUnprotected | Command::NoOperation) => {
                SentKind::Write
            }
            Some(Command::WriteStructuredField) => SentKind::Structured,
            Some(Command::ReadBuffer | Command::ReadModified | Command::ReadModifiedAll) => {
                SentKind::Read
            }
            None => SentKind::Other,
        };
        SentRecord { header, data, kind }
    }

    /// True if the keyboard is free behind it.
    pub(crate) fn frees_keyboard(&self) -> bool {
        match self.kind {
            SentKind::Erase | SentKind::Write => {
                let control = self.data.get(1).copied().unwrap_or_default();
                control & wcc::RESTORE != 0
            }
            SentKind::Structured | SentKind::Read => false,
            SentKind::Other => self.header.data_type != DataType::Data3270,
        }
    }

    /// Whether the client has agreed to take such a record.
    fn can_go_to(&self, session: &Session) -> bool {
        let has = |function| session.functions.is_some_and(|agreed| agreed.has(function));
        match self.header.data_type {
            DataType::Data3270 => self.kind != SentKind::Structured || session.is_extended(),
            DataType::BindImage | DataType::Unbind | DataType::SscpLu => has(Functions::BIND_IMAGE),
            DataType::Nvt => session.functions.is_some(),
            _ => false,
        }
    }
}

struct Compiler {
    observer: Observer,
    sent: Vec<SentRecord>,
    exchanges: Vec<Exchange>,
    /// The first record of the exchange that is being read.
    begun: usize,
    /// What was typed so far on a network virtual terminal.
    line: Vec<u8>,
    /// The host has sent more than text.
    has_records: bool,
}

impl Compiler {
    fn host(&mut self, seen: Seen) {
        match seen {
            Seen::Record { header, data } => {
                self.has_records = true;
                self.sent.push(SentRecord::new(header.unwrap_or_default(), data));
            }
            Seen::Text(text) => {
                let header = Header { data_type: DataType::Nvt, ..Header::default() };
                match self.sent.get_mut(self.begun..).and_then(<[_]>::last_mut) {
                    // One write of the host may come in pieces.
                    Some(last) if last.header.data_type == DataType::Nvt => last.data.extend(text),
                    _ => self.sent.push(SentRecord::new(header, text)),
                }
            }
            _ => {}
        }
    }

    fn terminal(&mut self, seen: Seen) {
        match seen {
            Seen::Record { header, data } => self.record(header.unwrap_or_default(), data),
            Seen::Text(text) => self.text(&text),
            Seen::Attention => self.end(Some(Expected::Attention)),
            Seen::SystemRequest => self.end(Some(Expected::SystemRequest)),
            _ => {}
        }
    }

    fn record(&mut self, header: Header, data: Vec<u8>) {
        match header.data_type {
            DataType::Data3270 => {
                let last = self.sent.get(self.begun..).and_then(<[_]>::last);
                let was_asked = last.is_some_and(|last| last.kind == SentKind::Read);
                if was_asked || is_automatic(&data) {
                    return self.end(Some(Expected::Automatic));
                }
                let fields = expected_fields(&data, self.observer.screen());
                self.end(Some(Expected::Key(ExpectedKey { data, fields })));
            }
            DataType::Nvt => self.text(&data),
            DataType::SscpLu => {
                let line = ExpectedLine { data_type: DataType::SscpLu, text: data };
                self.end(Some(Expected::Line(line)));
            }
            // That a record was taken is said for each client anew.
            _ => {}
        }
    }

    /// A network virtual terminal sends letters as they are typed, or a line at once.
    fn text(&mut self, text: &[u8]) {
        self.line.extend_from_slice(text);
        if ends_line(&self.line) {
            let text = line_of(&std::mem::take(&mut self.line)).to_vec();
            let line = ExpectedLine { data_type: DataType::Nvt, text };
            self.end(Some(Expected::Line(line)));
        }
    }

    fn end(&mut self, expected: Option<Expected>) {
        let shown = self.begun..self.sent.len();
        let upto = self.sent.get(..shown.end).unwrap_or_default();
        let screen_from = upto.iter().rposition(|record| record.kind == SentKind::Erase);
        // Without one the screen is what was written since the begin.
        let screen_from = screen_from.unwrap_or(0);
        self.exchanges.push(Exchange { shown, screen_from, expected });
        self.begun = self.sent.len();
    }
}

/// True if a terminal sends it without a person: what it is able to do, or what is on its screen.
pub(crate) fn is_automatic(data: &[u8]) -> bool {
    let aid = data.first().and_then(|code| Aid::of(*code));
    matches!(aid, None | Some(Aid::None | Aid::StructuredField | Aid::ReadPartition))
}

pub(crate) fn ends_line(text: &[u8]) -> bool {
    matches!(text.last(), Some(b'\r' | b'\n' | 0))
}

pub(crate) fn line_of(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|byte| !matches!(byte, b'\r' | b'\n' | 0));
    text.get(..end.map_or(0, |end| end + 1)).unwrap_or_default()
}

fn expected_fields(data: &[u8], screen: &Screen) -> Vec<ExpectedField> {
    let typed = Typed::parse(data, Addressing::of_screen(screen.cells()));
    let fields = typed.map(|typed| typed.fields).unwrap_or_default();
    let expected = fields.iter().map(|field| {
        let is_hidden = field.at.is_some_and(|at| screen.ruling(at).is_hidden());
        ExpectedField { at: field.at, codes: (!is_hidden).then(|| field.codes.to_vec()) }
    });
    expected.collect()
}
