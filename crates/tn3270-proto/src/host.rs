//! The host's side of telnet, TN3270 and TN3270E: it asks for TLS, for TN3270E and, where the
//! client has none, for the options of plain TN3270, until records can be exchanged.

use crate::client::Wish;
use crate::enhanced::{self, Functions, Header};
use crate::telnet::{self, Decoder, Options, Piece, is_record_mode, option};

/// What this side offers.
#[derive(Clone, Debug)]
pub struct HostOptions {
    /// TN3270E; a client without it gets plain TN3270.
    pub enhanced: Wish,
    /// The functions of TN3270E that are granted where a client asks for them.
    pub functions: Functions,
    /// TLS on the connection that began without.
    pub start_tls: Wish,
    /// The name of a client that asks for none.
    pub device_name: String,
}

/// What came from the client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// Records can be exchanged from now on.
    Ready(Session),
    /// A record; its data is [`Host::data`]. Without TN3270E the header is the default one.
    Record(Header),
    /// The client asks for the attention of the application.
    Attention,
    /// The client asks for the system services.
    SystemRequest,
    /// TLS begins after what [`Host::output`] holds was sent: nothing that is left of the input is
    /// telnet. Then [`Host::tls_started`] is called.
    StartTls,
    /// The client is no 3270 terminal, or a record had no end.
    Unusable,
}

/// What was agreed with a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    /// The terminal as the client calls it.
    pub device_type: String,
    /// The name of its logical unit, with TN3270E.
    pub device_name: Option<String>,
    /// The functions of TN3270E; `None`: plain TN3270.
    pub functions: Option<Functions>,
}

impl Session {
    /// True if the terminal answers questions about itself (structured fields).
    pub fn is_extended(&self) -> bool {
        let name = self.device_type.to_ascii_uppercase();
        // A name of a logical unit may stand behind it (RFC 1646).
        let name = name.split('@').next().unwrap_or_default();
        name.ends_with("-E") || name == "IBM-DYNAMIC"
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Whether the client takes STARTTLS is not known.
    AskedTls,
    /// Whether the client speaks TN3270E is not known.
    AskedEnhanced,
    /// Device and functions are negotiated.
    Enhanced,
    /// Terminal type, records and binary are negotiated.
    Plain,
    Ready,
}

/// The machine. Bytes go in by [`Host::next`]; what is to be sent gathers in its output.
#[derive(Debug)]
pub struct Host {
    offered: HostOptions,
    decoder: Decoder,
    options: Options,
    state: State,
    session: Session,
    output: Vec<u8>,
}

impl Host {
    /// A host on a connection that has just been accepted; its first words are in the output.
    pub fn new(offered: HostOptions) -> Self {
        let session = Session { device_type: String::new(), device_name: None, functions: None };
        let mut host = Host {
            offered,
            decoder: Decoder::default(),
            options: Options::default(),
            state: State::Plain,
            session,
            output: Vec::new(),
        };
        host.begin();
        host
    }

    fn begin(&mut self) {
        if self.offered.start_tls == Wish::Accept {
            self.state = State::AskedTls;
            self.ask(telnet::DO, option::STARTTLS);
        } else if self.offered.enhanced == Wish::Accept {
            self.state = State::AskedEnhanced;
            self.ask(telnet::DO, option::TN3270E);
        } else {
            self.begin_plain();
        }
    }

    fn begin_plain(&mut self) {
        self.state = State::Plain;
        self.ask(telnet::DO, option::TERMINAL_TYPE);
    }

    fn ask(&mut self, verb: u8, option: u8) {
        telnet::put_negotiation(&mut self.output, verb, option);
    }

    /// The next event; takes what it read off `input`. `None`: all of it is read.
    pub fn next(&mut self, input: &mut &[u8]) -> Option<HostEvent> {
        loop {
            let piece = self.decoder.next(input)?;
            if let Some(event) = self.take(piece) {
                return Some(event);
            }
        }
    }

    fn take(&mut self, piece: Piece) -> Option<HostEvent> {
        match piece {
            Piece::Data => {
                // Without records there is no terminal yet that could say anything.
                if self.state != State::Ready {
                    self.decoder.hand_out();
                }
                None
            }
            Piece::EndOfRecord => {
                self.decoder.hand_out();
                self.record()
            }
            Piece::Command(telnet::AO) => Some(HostEvent::SystemRequest),
            Piece::Command(telnet::IP | telnet::BREAK) => Some(HostEvent::Attention),
            Piece::Command(_) => None,
            Piece::Negotiation { verb, option } => self.negotiate(verb, option),
            Piece::Subnegotiation => self.subnegotiation(),
            Piece::TooLong => Some(HostEvent::Unusable),
        }
    }

    fn record(&mut self) -> Option<HostEvent> {
        if self.state != State::Ready {
            return None;
        }
        if self.session.functions.is_none() {
            return Some(HostEvent::Record(Header::default()));
        }
        let header = Header::split(self.decoder.data())?.header;
        self.decoder.skip(enhanced::HEADER_BYTES);
        Some(HostEvent::Record(header))
    }

    /// The data of the last record, until [`Host::next`] is called again.
    pub fn data(&self) -> &[u8] {
        self.decoder.data()
    }

    /// What is to be sent to the client; whoever sends it empties it.
    pub fn output(&mut self) -> &mut Vec<u8> {
        &mut self.output
    }

    /// Appends a record to the output, with the header where there is one.
    pub fn send(&mut self, header: Header, data: &[u8]) {
        if self.session.functions.is_some() {
            enhanced::put_record(&mut self.output, &header, data);
        } else {
            telnet::put_data(&mut self.output, data);
            telnet::put_end_of_record(&mut self.output);
        }
    }

    /// The stream is under TLS now: all is negotiated anew.
    pub fn tls_started(&mut self) {
        let mut offered = self.offered.clone();
        offered.start_tls = Wish::Refuse;
        *self = Host::new(offered);
    }

    fn negotiate(&mut self, verb: u8, option: u8) -> Option<HostEvent> {
        let new = self.options.note(verb, option);
        match (self.state, verb, option) {
            (State::AskedTls, telnet::WILL, option::STARTTLS) => {
                telnet::put_subnegotiation(&mut self.output, option, &[telnet::FOLLOWS]);
                None
            }
            (State::AskedTls, telnet::WONT, option::STARTTLS) => {
                self.offered.start_tls = Wish::Refuse;
                self.begin();
                None
            }
            (State::AskedEnhanced, telnet::WILL, option::TN3270E) => {
                self.state = State::Enhanced;
                let body = [enhanced::SEND, enhanced::DEVICE_TYPE];
                telnet::put_subnegotiation(&mut self.output, option, &body);
                None
            }
            (State::AskedEnhanced | State::Enhanced, telnet::WONT, option::TN3270E) => {
                self.begin_plain();
                None
            }
            (State::Plain, telnet::WILL, option::TERMINAL_TYPE) => {
                telnet::put_subnegotiation(&mut self.output, option, &[telnet::SEND]);
                None
            }
            (State::Plain, telnet::WONT, option::TERMINAL_TYPE) => Some(HostEvent::Unusable),
            (State::Plain, _, option::BINARY | option::END_OF_RECORD) => {
                // A second DO for what was asked for needs no answer.
                let refused = matches!(verb, telnet::DONT | telnet::WONT);
                if refused {
                    return Some(HostEvent::Unusable);
                }
                let agreed = is_record_mode(&self.options);
                let known = !self.session.device_type.is_empty();
                (agreed && known).then(|| self.ready())
            }
            (_, telnet::DO, _) if new && !is_ours(option) => {
                self.options.note(telnet::DONT, option);
                if self.options.may_answer(option) {
                    self.ask(telnet::WONT, option);
                }
                None
            }
            (_, telnet::WILL, _) if new && !is_theirs(option) => {
                self.options.note(telnet::WONT, option);
                if self.options.may_answer(option) {
                    self.ask(telnet::DONT, option);
                }
                None
            }
            _ => None,
        }
    }

    fn ready(&mut self) -> HostEvent {
        self.state = State::Ready;
        HostEvent::Ready(self.session.clone())
    }

    fn subnegotiation(&mut self) -> Option<HostEvent> {
        let body = self.decoder.subnegotiation().to_vec();
        match (self.state, body.as_slice()) {
            (State::AskedTls, [option::STARTTLS, telnet::FOLLOWS, ..])
                if self.options.theirs(option::STARTTLS) =>
            {
                Some(HostEvent::StartTls)
            }
            (State::Plain, [option::TERMINAL_TYPE, telnet::IS, name @ ..])
                if self.session.device_type.is_empty() =>
            {
                self.session.device_type = String::from_utf8_lossy(name).into_owned();
                for option in [option::END_OF_RECORD, option::BINARY] {
                    self.ask(telnet::DO, option);
                    self.ask(telnet::WILL, option);
                }
                None
            }
            (State::Enhanced | State::Ready, [option::TN3270E, body @ ..]) => self.enhanced(body),
            _ => None,
        }
    }

    fn enhanced(&mut self, body: &[u8]) -> Option<HostEvent> {
        use enhanced::{ASSOCIATE, CONNECT, DEVICE_TYPE, FUNCTIONS, IS, REQUEST};
        match *body {
            [DEVICE_TYPE, REQUEST, ref rest @ ..] if self.state == State::Enhanced => {
                let mut parts = rest.split(|byte| matches!(*byte, CONNECT | ASSOCIATE));
                let name = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                self.session.device_type = parts.next().map(name).unwrap_or_default();
                let asked = parts.next().map(name).filter(|name| !name.is_empty());
                let given = asked.unwrap_or_else(|| self.offered.device_name.clone());
                let mut body = vec![DEVICE_TYPE, IS];
                body.extend(self.session.device_type.bytes());
                body.push(CONNECT);
                body.extend(given.bytes());
                self.session.device_name = Some(given);
                telnet::put_subnegotiation(&mut self.output, option::TN3270E, &body);
                None
            }
            [FUNCTIONS, verb @ (REQUEST | IS), ref list @ ..] => {
                self.session.device_name.as_ref()?;
                let asked = Functions::parse(list);
                let common = asked.functions.common(self.offered.functions);
                if !asked.all_known || common != asked.functions {
                    enhanced::put_functions(&mut self.output, REQUEST, common);
                    return None;
                }
                if verb == REQUEST {
                    enhanced::put_functions(&mut self.output, IS, common);
                }
                self.session.functions = Some(common);
                Some(self.ready())
            }
            _ => None,
        }
    }
}

fn is_ours(option: u8) -> bool {
    matches!(option, option::BINARY | option::END_OF_RECORD)
}

fn is_theirs(option: u8) -> bool {
    is_ours(option) || matches!(option, option::TERMINAL_TYPE | option::TN3270E | option::STARTTLS)
}
