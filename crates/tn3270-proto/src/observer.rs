//! Both directions of a connection, as somebody beside it sees them: what a recorder masks, and
//! what a recording says. Nothing is answered here.

use std::sync::Arc;

use crate::client::{ClientOptions, Wish};
use crate::code_page::CodePage;
use crate::codes::Aid;
use crate::enhanced::{self, DataType, Header};
use crate::keyboard::NumericFields;
use crate::model::{Device, Model};
use crate::screen::Screen;
use crate::telnet::{self, Decoder, Options, Piece, is_record_mode, option};
use crate::terminal::{Terminal, TerminalOptions};
use crate::trace::Origin;

/// What one side sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Seen {
    /// A record with its header; none without TN3270E.
    Record {
        /// What TN3270E says of it.
        header: Option<Header>,
        /// All behind the header.
        data: Vec<u8>,
    },
    /// Bytes of a network virtual terminal.
    Text(Vec<u8>),
    /// DO, DONT, WILL or WONT of an option, by their numbers.
    Negotiation {
        /// From 251 to 254.
        verb: u8,
        /// The number of the option.
        option: u8,
    },
    /// A subnegotiation, the number of its option first.
    Subnegotiation(Vec<u8>),
    /// The terminal asks for the attention of the application.
    Attention,
    /// The terminal asks for the system services.
    SystemRequest,
    /// Another command of telnet, by its number.
    Command(u8),
    /// A record without an end: nothing behind it can be understood.
    Overlong,
}

impl Seen {
    /// Appends it as it was on the connection.
    pub fn put(&self, out: &mut Vec<u8>) {
        match self {
            Seen::Record { header: Some(header), data } => enhanced::put_record(out, header, data),
            Seen::Record { header: None, data } => {
                telnet::put_data(out, data);
                telnet::put_end_of_record(out);
            }
            Seen::Text(text) => telnet::put_data(out, text),
            Seen::Negotiation { verb, option } => telnet::put_negotiation(out, *verb, *option),
            Seen::Subnegotiation(body) => {
                if let Some((option, body)) = body.split_first() {
                    telnet::put_subnegotiation(out, *option, body);
                }
            }
            Seen::Attention => out.extend([telnet::IAC, telnet::IP]),
            Seen::SystemRequest => out.extend([telnet::IAC, telnet::AO]),
            Seen::Command(command) => out.extend([telnet::IAC, *command]),
            Seen::Overlong => {}
        }
    }

    /// Masks the values of the environment (RFC 1572) that a terminal tells its host: names of
    /// users and passwords are among them.
    pub fn mask_environment(&mut self) {
        const VAR: u8 = 0;
        const VALUE: u8 = 1;
        const USERVAR: u8 = 3;
        let Seen::Subnegotiation(body) = self else { return };
        let [option::NEW_ENVIRON, telnet::IS, variables @ ..] = body.as_mut_slice() else { return };
        let mut is_value = false;
        for byte in variables {
            match *byte {
                VALUE => is_value = true,
                VAR | USERVAR => is_value = false,
                _ if is_value => *byte = b'*',
                _ => {}
            }
        }
    }
}

/// Whether records have headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Enhanced {
    Off,
    Negotiated,
    On,
}

/// Takes what both sides send, in the order in which it was sent.
#[derive(Debug)]
pub struct Observer {
    host: Decoder,
    terminal: Decoder,
    /// What the host has asked for: it sends records as soon as it has.
    asked: Options,
    enhanced: Enhanced,
    page: Arc<CodePage>,
    shown: Terminal,
    device_type: Option<String>,
}

impl Observer {
    /// An observer of a connection from its first byte on.
    pub fn new(page: Arc<CodePage>) -> Self {
        // Positions of a smaller terminal are on this screen, too.
        let device = Device { model: Model::Four, ..Device::default() };
        Observer {
            host: Decoder::default(),
            terminal: Decoder::default(),
            asked: Options::default(),
            enhanced: Enhanced::Off,
            shown: terminal(device, &page),
            page,
            device_type: None,
        }
    }

    /// What came next from one side; takes what it read off `input`. `None`: all of it is read.
    pub fn next(&mut self, origin: Origin, input: &mut &[u8]) -> Option<Seen> {
        loop {
            let decoder = match origin {
                Origin::Host => &mut self.host,
                Origin::Terminal => &mut self.terminal,
            };
            let piece = decoder.next(input)?;
            let has_records = self.enhanced != Enhanced::Off || is_record_mode(&self.asked);
            let seen = match piece {
                Piece::Data if has_records => continue,
                Piece::Data => {
                    decoder.hand_out();
                    Seen::Text(decoder.data().to_vec())
                }
                Piece::EndOfRecord => {
                    decoder.hand_out();
                    record(decoder.data(), self.enhanced)
                }
                Piece::Command(telnet::IP | telnet::BREAK) if origin == Origin::Terminal => {
                    Seen::Attention
                }
                Piece::Command(telnet::AO) if origin == Origin::Terminal => Seen::SystemRequest,
                Piece::Command(command) => Seen::Command(command),
                Piece::Negotiation { verb, option } => Seen::Negotiation { verb, option },
                Piece::Subnegotiation => Seen::Subnegotiation(decoder.subnegotiation().to_vec()),
                Piece::TooLong => Seen::Overlong,
            };
            self.note(origin, &seen);
            return Some(seen);
        }
    }

    fn note(&mut self, origin: Origin, seen: &Seen) {
        match seen {
            Seen::Negotiation { verb, option } => self.negotiated(origin, *verb, *option),
            Seen::Subnegotiation(body) => self.subnegotiated(body),
            Seen::Record { header, data } if origin == Origin::Host => {
                let data_type = header.map_or(DataType::Data3270, |header| header.data_type);
                if data_type == DataType::Data3270 {
                    self.show(data);
                }
            }
            // The key has cleared the screen, and the host need not do it again.
            Seen::Record { data, .. } if data.first() == Some(&Aid::Clear.code()) => {
                self.shown.clear();
            }
            _ => {}
        }
    }

    fn negotiated(&mut self, origin: Origin, verb: u8, option: u8) {
        if origin == Origin::Host {
            self.asked.note(verb, option);
        }
        if option != option::TN3270E {
            return;
        }
        match (origin, verb) {
            (Origin::Host, telnet::DO) => self.enhanced = Enhanced::Negotiated,
            (Origin::Host, telnet::DONT) | (Origin::Terminal, telnet::WONT) => {
                self.enhanced = Enhanced::Off;
            }
            _ => {}
        }
    }

    fn subnegotiated(&mut self, body: &[u8]) {
        use enhanced::{ASSOCIATE, CONNECT, DEVICE_TYPE, FUNCTIONS, IS, REQUEST};
        match *body {
            [option::TERMINAL_TYPE, telnet::IS, ref name @ ..] => {
                self.is_device(name.split(|byte| *byte == b'@').next().unwrap_or(name));
            }
            [option::TN3270E, DEVICE_TYPE, REQUEST | IS, ref rest @ ..] => {
                let mut parts = rest.split(|byte| matches!(*byte, CONNECT | ASSOCIATE));
                self.is_device(parts.next().unwrap_or(rest));
            }
            [option::TN3270E, FUNCTIONS, IS, ..] => self.enhanced = Enhanced::On,
            _ => {}
        }
    }

    fn is_device(&mut self, name: &[u8]) {
        let name = String::from_utf8_lossy(name).into_owned();
        if self.device_type.as_ref() != Some(&name)
            && let Some(device) = Device::named(&name)
        {
            self.shown = terminal(device, &self.page);
        }
        self.device_type = Some(name);
    }

    /// Lets the screen follow; what a terminal would answer goes nowhere.
    fn show(&mut self, data: &[u8]) {
        let mut stream = Vec::with_capacity(data.len() + 2);
        telnet::put_data(&mut stream, data);
        telnet::put_end_of_record(&mut stream);
        feed(&mut self.shown, &stream);
    }

    /// The screen as the host has written it, without what was typed since.
    pub fn screen(&self) -> &Screen {
        self.shown.screen()
    }

    /// The terminal, as it is called in the negotiation.
    pub fn device_type(&self) -> Option<&str> {
        self.device_type.as_deref()
    }
}

fn record(record: &[u8], enhanced: Enhanced) -> Seen {
    match Header::split(record).filter(|_| enhanced != Enhanced::Off) {
        Some(framed) => Seen::Record { header: Some(framed.header), data: framed.data.to_vec() },
        None => Seen::Record { header: None, data: record.to_vec() },
    }
}

/// A terminal that takes records without headers, whatever the connection has.
fn terminal(device: Device, page: &Arc<CodePage>) -> Terminal {
    let mut terminal = Terminal::new(TerminalOptions {
        client: ClientOptions { device, enhanced: Wish::Refuse, ..ClientOptions::default() },
        page: Arc::clone(page),
        numeric: NumericFields::default(),
    });
    let mut stream = Vec::new();
    for option in [option::END_OF_RECORD, option::BINARY] {
        telnet::put_negotiation(&mut stream, telnet::DO, option);
        telnet::put_negotiation(&mut stream, telnet::WILL, option);
    }
    feed(&mut terminal, &stream);
    terminal
}

fn feed(terminal: &mut Terminal, mut stream: &[u8]) {
    while terminal.next(&mut stream).is_some() {}
    terminal.output().clear();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observer() -> Observer {
        Observer::new(Arc::new(CodePage::new(37).unwrap()))
    }

    fn all(observer: &mut Observer, origin: Origin, mut bytes: &[u8]) -> Vec<Seen> {
        std::iter::from_fn(|| observer.next(origin, &mut bytes)).collect()
    }

    #[test]
    fn a_host_that_waits_for_no_answer_sends_records() {
        let mut observer = observer();
        let stream = b"hi\xff\xfd\x19\xff\xfb\x19\xff\xfd\x00\xff\xfb\x00\xf5\xc3\x1d";
        let seen = all(&mut observer, Origin::Host, stream);
        assert_eq!(seen[0], Seen::Text(b"hi".to_vec()));
        assert_eq!(seen.len(), 5);
        all(&mut observer, Origin::Terminal, b"\xff\xfb\x19\xff\xfd\x19");
        let seen = all(&mut observer, Origin::Host, b"\x4c\xff\xef");
        assert_eq!(seen, [Seen::Record { header: None, data: vec![0xf5, 0xc3, 0x1d, 0x4c] }]);
        assert!(observer.screen().ruling(5).is_hidden());
        all(&mut observer, Origin::Terminal, b"\x6d\xff\xef");
        assert!(!observer.screen().ruling(5).is_hidden());
    }

    #[test]
    fn records_have_headers_once_functions_are_agreed() {
        let mut observer = observer();
        all(&mut observer, Origin::Host, b"\xff\xfd\x28");
        let device = b"\xff\xfa\x28\x02\x07IBM-3278-2-E\x01LU1\xff\xf0\xff\xfa\x28\x03\x04\xff\xf0";
        all(&mut observer, Origin::Terminal, device);
        assert_eq!(observer.device_type(), Some("IBM-3278-2-E"));
        let seen = all(&mut observer, Origin::Terminal, b"\x00\x00\x00\x00\x07\x6d\xff\xef");
        let header = Header { sequence: 7, ..Header::default() };
        assert_eq!(seen, [Seen::Record { header: Some(header), data: vec![0x6d] }]);
        all(&mut observer, Origin::Terminal, b"\xff\xfc\x28");
        assert!(matches!(all(&mut observer, Origin::Host, b"x")[..], [Seen::Text(_)]));
    }

    #[test]
    fn values_of_the_environment_are_masked() {
        let mut seen =
            Seen::Subnegotiation(b"\x27\x00\x00USER\x01root\x03IBMSUBSPW\x01pw".to_vec());
        seen.mask_environment();
        let masked = b"\x27\x00\x00USER\x01****\x03IBMSUBSPW\x01**";
        assert_eq!(seen, Seen::Subnegotiation(masked.to_vec()));
    }
}
