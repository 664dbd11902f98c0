//! The terminal's side of telnet, TN3270 (RFC 1576) and TN3270E (RFC 2355): options are answered
//! here; records and bytes of a network virtual terminal come out.

use crate::enhanced::{self, Functions, Header};
use crate::limits::LU_NAMES;
use crate::model::Device;
use crate::telnet::{self, Decoder, Options, Piece, is_record_mode, option};

/// Whether something that both sides must want is wanted here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is agreed to when the host asks.
    Accept,
    /// The host is told that it is not there.
    Refuse,
}

/// A variable of the environment that the host may ask for (RFC 1572), such as `USER`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name, in ASCII capitals by custom.
    pub name: String,
    /// Its value, which goes to the host as it is.
    pub value: String,
}

/// What this side of a connection wants.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The terminal, whose names the host is told.
    pub device: Device,
    /// Names of logical units, tried one after another until the host takes one; none: it chooses.
    pub lus: Vec<String>,
    /// TN3270E; without it plain TN3270 is spoken.
    pub enhanced: Wish,
    /// The functions of TN3270E that are asked for.
    pub functions: Functions,
    /// TLS on a connection that began without (option STARTTLS).
    pub start_tls: Wish,
    /// What the host is told about the environment.
    pub environment: Vec<Variable>,
}

impl Default for ClientOptions {
    fn default() -> Self {
        ClientOptions {
            device: Device::default(),
            lus: Vec::new(),
            enhanced: Wish::Accept,
            functions: Functions::DISPLAY,
            start_tls: Wish::Accept,
            environment: Vec::new(),
        }
    }
}

/// What is spoken on the connection now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Mode {
    /// Bytes are text of a network virtual terminal; so begins every connection.
    #[default]
    Nvt,
    /// Records without headers.
    Plain,
    /// TN3270E is agreed to, and its device and functions are still negotiated.
    Negotiating,
    /// Records with headers.
    Enhanced,
}

/// What came from the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// A record; its data is [`Client::data`]. Without TN3270E the header is the default one.
    Record(Header),
    /// Bytes for a network virtual terminal are in [`Client::data`].
    Nvt,
    /// The mode changed to this one.
    Mode(Mode),
    /// The host takes no logical unit that was asked for, for the reason with this number of
    /// RFC 2355 §7.1.6; the connection goes on without TN3270E if the host likes to.
    Refused(u8),
    /// TLS begins after what [`Client::output`] holds was sent: nothing that is left of the input
    /// is telnet. Then [`Client::tls_started`] is called.
    StartTls,
    /// A record had no end; the connection is of no use any more.
    Overlong,
}

/// The machine. Bytes go in by [`Client::next`]; what is to be sent gathers in its output.
#[derive(Debug)]
pub struct Client {
    wanted: ClientOptions,
    decoder: Decoder,
    options: Options,
    mode: Mode,
    /// Agreed functions, once they are.
    functions: Option<Functions>,
    device_name: Option<String>,
    next_lu: usize,
    sequence: u16,
    output: Vec<u8>,
}

impl Client {
    /// A client on a connection that has just been made.
    pub fn new(mut wanted: ClientOptions) -> Self {
        wanted.lus.truncate(LU_NAMES);
        Client {
            wanted,
            decoder: Decoder::default(),
            options: Options::default(),
            mode: Mode::Nvt,
            functions: None,
            device_name: None,
            next_lu: 0,
            sequence: 0,
            output: Vec::new(),
        }
    }

    /// The next event; takes what it read off `input`. `None`: all of it is read.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<ClientEvent> {
        loop {
            let piece = self.decoder.next(input)?;
            if let Some(event) = self.take(piece) {
                return Some(event);
            }
        }
    }

    fn take(&mut self, piece: Piece) -> Option<ClientEvent> {
        match piece {
            Piece::Data if self.mode == Mode::Nvt => {
                self.decoder.hand_out();
                Some(ClientEvent::Nvt)
            }
            Piece::Data => None,
            Piece::EndOfRecord => {
                self.decoder.hand_out();
                self.record()
            }
            Piece::Command(_) => None,
            Piece::Negotiation { verb, option } => {
                self.negotiate(verb, option);
                self.changed_mode()
            }
            Piece::Subnegotiation => self.subnegotiation().or_else(|| self.changed_mode()),
            Piece::TooLong => Some(ClientEvent::Overlong),
        }
    }

    fn record(&mut self) -> Option<ClientEvent> {
        match self.mode {
            Mode::Plain => Some(ClientEvent::Record(Header::default())),
            Mode::Enhanced => {
                let header = Header::split(self.decoder.data())?.header;
                self.decoder.skip(enhanced::HEADER_BYTES);
                Some(ClientEvent::Record(header))
            }
            Mode::Nvt | Mode::Negotiating => None,
        }
    }

    /// The data of the last event, until [`Client::next`] is called again.
    pub fn data(&self) -> &[u8] {
        self.decoder.data()
    }

    /// What is to be sent to the host; whoever sends it empties it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// What is spoken now.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The functions of TN3270E that are agreed; none without it.
    pub fn functions(&self) -> Functions {
        self.functions.unwrap_or(Functions::NONE)
    }

    /// The name of the logical unit that the host gave.
    pub fn device_name(&self) -> Option<&str> {
        self.device_name.as_deref()
    }

    /// True if the host echoes what is typed in NVT mode.
    pub fn host_echoes(&self) -> bool {
        self.options.theirs(option::ECHO)
    }

    /// The stream is under TLS now: all is negotiated anew.
    pub fn tls_started(&mut self) {
        let mut wanted = self.wanted.clone();
        wanted.start_tls = Wish::Refuse;
        *self = Client::new(wanted);
    }

    /// Appends a record to the output, with a header where there is one.
    pub fn send(&mut self, header: Header, data: &[u8]) {
        match self.mode {
            Mode::Enhanced => enhanced::put_record(&mut self.output, &header, data),
            Mode::Plain | Mode::Nvt | Mode::Negotiating => {
                telnet::put_data(&mut self.output, data);
                telnet::put_end_of_record(&mut self.output);
            }
        }
    }

    /// The number of the next record that is no answer; it counts where responses are agreed.
    pub(crate) fn next_sequence(&mut self) -> u16 {
        if !self.functions().has(Functions::RESPONSES) {
            return 0;
        }
        let sequence = self.sequence;
        self.sequence = (self.sequence + 1) & 0x7fff;
        sequence
    }

    /// Appends bytes of a network virtual terminal to the output.
    pub(crate) fn send_nvt(&mut self, bytes: &[u8]) {
        telnet::put_data(&mut self.output, bytes);
    }

    /// Appends a telnet command to the output.
    pub(crate) fn send_command(&mut self, command: u8) {
        self.output.extend([telnet::IAC, command]);
    }

    fn negotiate(&mut self, verb: u8, option: u8) {
        let wanted = self.wants(verb, option);
        let answer = match verb {
            telnet::DO if wanted => telnet::WILL,
            telnet::DO | telnet::DONT => telnet::WONT,
            telnet::WILL if wanted => telnet::DO,
            _ => telnet::DONT,
        };
        // What is refused was never on, and what is on already is answered no more.
        let known = !wanted && matches!(verb, telnet::DO | telnet::WILL);
        let new = known || self.options.note(verb, option);
        let once = option == option::TIMING_MARK;
        if (new || once) && self.options.may_answer(option) {
            telnet::put_negotiation(&mut self.output, answer, option);
        }
        if once {
            self.options.note(telnet::DONT, option);
        }
        if new && option == option::STARTTLS && answer == telnet::WILL {
            telnet::put_subnegotiation(&mut self.output, option, &[telnet::FOLLOWS]);
        }
    }

    fn wants(&self, verb: u8, option: u8) -> bool {
        match (verb, option) {
            (telnet::DO, option::TN3270E) => self.wanted.enhanced == Wish::Accept,
            (telnet::DO, option::STARTTLS) => self.wanted.start_tls == Wish::Accept,
            (
                telnet::DO,
                option::BINARY
                | option::END_OF_RECORD
                | option::TERMINAL_TYPE
                | option::NEW_ENVIRON
                | option::SUPPRESS_GO_AHEAD
                | option::TIMING_MARK,
            ) => true,
            (
                telnet::WILL,
                option::BINARY | option::END_OF_RECORD | option::ECHO | option::SUPPRESS_GO_AHEAD,
            ) => true,
            _ => false,
        }
    }

    fn changed_mode(&mut self) -> Option<ClientEvent> {
        let mode = if self.options.ours(option::TN3270E) {
            match self.functions {
                Some(_) => Mode::Enhanced,
                None => Mode::Negotiating,
            }
        } else if is_record_mode(&self.options) {
            Mode::Plain
        } else {
            Mode::Nvt
        };
        if !self.options.ours(option::TN3270E) {
            self.functions = None;
        }
        let changed = mode != self.mode;
        self.mode = mode;
        changed.then_some(ClientEvent::Mode(mode))
    }

    fn subnegotiation(&mut self) -> Option<ClientEvent> {
        let body = self.decoder.subnegotiation().to_vec();
        match *body.as_slice() {
            [option::TERMINAL_TYPE, telnet::SEND, ..] => self.send_terminal_type(),
            [option::NEW_ENVIRON, telnet::SEND, ref asked @ ..] => self.send_environment(asked),
            [option::STARTTLS, telnet::FOLLOWS, ..] if self.options.ours(option::STARTTLS) => {
                return Some(ClientEvent::StartTls);
            }
            [option::TN3270E, ref body @ ..] if self.options.ours(option::TN3270E) => {
                return self.enhanced(body);
            }
            _ => {}
        }
        None
    }

    /// The terminal type, with the next name of a logical unit behind an `@` (RFC 1646).
    fn send_terminal_type(&mut self) {
        let mut body = vec![telnet::IS];
        body.extend(self.wanted.device.terminal_type().bytes());
        if let Some(lu) = self.wanted.lus.get(self.next_lu) {
            body.push(b'@');
            body.extend(lu.bytes());
            self.next_lu = (self.next_lu + 1) % self.wanted.lus.len();
        }
        telnet::put_subnegotiation(&mut self.output, option::TERMINAL_TYPE, &body);
    }

    fn send_environment(&mut self, asked: &[u8]) {
        const VAR: u8 = 0;
        const VALUE: u8 = 1;
        const USERVAR: u8 = 3;
        let mut body = vec![telnet::IS];
        let starts = asked.iter().enumerate().filter(|(_, byte)| matches!(**byte, VAR | USERVAR));
        let starts: Vec<usize> = starts.map(|(at, _)| at).collect();
        for (number, start) in starts.iter().enumerate() {
            let end = starts.get(number + 1).copied().unwrap_or(asked.len());
            let part = asked.get(*start..end).unwrap_or(&[]);
            body.extend_from_slice(part);
            let name = part.get(1..).unwrap_or(&[]);
            let known = self.wanted.environment.iter().find(|it| it.name.as_bytes() == name);
            if let Some(known) = known {
                body.push(VALUE);
                body.extend(known.value.bytes());
            }
        }
        if starts.is_empty() {
            for known in &self.wanted.environment {
                body.push(VAR);
                body.extend(known.name.bytes());
                body.push(VALUE);
                body.extend(known.value.bytes());
            }
        }
        telnet::put_subnegotiation(&mut self.output, option::NEW_ENVIRON, &body);
    }

    fn enhanced(&mut self, body: &[u8]) -> Option<ClientEvent> {
        use enhanced::{DEVICE_TYPE, FUNCTIONS, IS, REASON, REJECT, REQUEST, SEND};
        match *body {
            [SEND, DEVICE_TYPE, ..] => self.request_device(),
            [DEVICE_TYPE, IS, ref rest @ ..] => {
                let mut parts = rest.splitn(2, |byte| *byte == enhanced::CONNECT);
                let name = parts.nth(1).map(|name| String::from_utf8_lossy(name).into_owned());
                self.device_name = name;
                self.functions = None;
                let wanted = self.wanted.functions;
                enhanced::put_functions(&mut self.output, REQUEST, wanted);
            }
            [DEVICE_TYPE, REJECT, REASON, reason, ..] => return self.next_device(reason),
            [DEVICE_TYPE, REJECT, ..] => return self.next_device(0),
            [FUNCTIONS, REQUEST, ref list @ ..] => {
                let asked = enhanced::Functions::parse(list);
                let common = asked.functions.common(self.wanted.functions);
                if asked.all_known && common == asked.functions {
                    self.functions = Some(common);
                    enhanced::put_functions(&mut self.output, IS, common);
                } else {
                    enhanced::put_functions(&mut self.output, REQUEST, common);
                }
            }
            [FUNCTIONS, IS, ref list @ ..] => {
                let agreed = enhanced::Functions::parse(list);
                if agreed.all_known && self.wanted.functions.has(agreed.functions) {
                    self.functions = Some(agreed.functions);
                } else {
                    // The host added what was never asked for.
                    self.leave_enhanced();
                }
            }
            _ => {}
        }
        None
    }

    fn request_device(&mut self) {
        let mut body = vec![enhanced::DEVICE_TYPE, enhanced::REQUEST];
        body.extend(self.wanted.device.device_type().bytes());
        if let Some(lu) = self.wanted.lus.get(self.next_lu) {
            body.push(enhanced::CONNECT);
            body.extend(lu.bytes());
        }
        telnet::put_subnegotiation(&mut self.output, option::TN3270E, &body);
    }

    /// After a refusal the next logical unit is asked for; after the last one TN3270E is left.
    fn next_device(&mut self, reason: u8) -> Option<ClientEvent> {
        self.next_lu += 1;
        if self.next_lu < self.wanted.lus.len() {
            self.request_device();
            return None;
        }
        self.next_lu = 0;
        self.leave_enhanced();
        Some(ClientEvent::Refused(reason))
    }

    fn leave_enhanced(&mut self) {
        self.options.note(telnet::DONT, option::TN3270E);
        self.functions = None;
        telnet::put_negotiation(&mut self.output, telnet::WONT, option::TN3270E);
    }
}
