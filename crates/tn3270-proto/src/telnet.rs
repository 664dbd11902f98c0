//! Telnet (RFC 854, RFC 855): bytes of a connection become data, ends of records, commands and
//! options. What the options mean is the business of `client` and `host`.

use crate::limits::{RECORD_BYTES, SUBNEGOTIATION_BYTES};

pub(crate) const IAC: u8 = 255;
pub(crate) const DONT: u8 = 254;
pub(crate) const DO: u8 = 253;
pub(crate) const WONT: u8 = 252;
pub(crate) const WILL: u8 = 251;
pub(crate) const SB: u8 = 250;
pub(crate) const AO: u8 = 245;
pub(crate) const IP: u8 = 244;
pub(crate) const BREAK: u8 = 243;
pub(crate) const SE: u8 = 240;
pub(crate) const EOR: u8 = 239;

/// Options of telnet that this crate knows, by their numbers.
pub(crate) mod option {
    pub(crate) const BINARY: u8 = 0;
    pub(crate) const ECHO: u8 = 1;
    pub(crate) const SUPPRESS_GO_AHEAD: u8 = 3;
    pub(crate) const TIMING_MARK: u8 = 6;
    pub(crate) const TERMINAL_TYPE: u8 = 24;
    pub(crate) const END_OF_RECORD: u8 = 25;
    pub(crate) const NEW_ENVIRON: u8 = 39;
    pub(crate) const TN3270E: u8 = 40;
    pub(crate) const STARTTLS: u8 = 46;
}

/// IS and SEND of the terminal type (RFC 1091) and of the environment (RFC 1572).
pub(crate) const IS: u8 = 0;
pub(crate) const SEND: u8 = 1;
/// FOLLOWS of STARTTLS.
pub(crate) const FOLLOWS: u8 = 1;

/// What came next on the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    /// More bytes are in [`Decoder::data`].
    Data,
    /// [`Decoder::data`] is a whole record.
    EndOfRecord,
    /// A command without an option, such as IP.
    Command(u8),
    /// DO, DONT, WILL or WONT of an option.
    Negotiation { verb: u8, option: u8 },
    /// What [`Decoder::subnegotiation`] holds, its option first.
    Subnegotiation,
    /// A record is longer than any terminal sends.
    TooLong,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Data,
    Iac,
    Verb(u8),
    Sub,
    SubIac,
}

/// Splits a stream of bytes; every cut of the stream gives the same pieces.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    state: State,
    data: Vec<u8>,
    /// Of the data so much is not told of: a header that was read.
    skipped: usize,
    /// The data was handed out, and goes when more is read.
    spent: bool,
    sub: Vec<u8>,
}

impl Decoder {
    /// The next piece; takes what it read off `input`. `None`: all of it is read.
    pub(crate) fn next(&mut self, input: &mut &[u8]) -> Option<Piece> {
        if std::mem::take(&mut self.spent) {
            self.data.clear();
            self.skipped = 0;
        }
        while let Some((&byte, rest)) = input.split_first() {
            if self.state == State::Data && byte != IAC {
                return Some(self.run(input));
            }
            *input = rest;
            if let Some(piece) = self.byte(byte) {
                return Some(piece);
            }
        }
        None
    }

    /// Bytes of data up to the next IAC, all at once.
    fn run(&mut self, input: &mut &[u8]) -> Piece {
        let end = first_iac(input).unwrap_or(input.len());
        let (run, rest) = input.split_at(end);
        *input = rest;
        self.push(run)
    }

    fn push(&mut self, bytes: &[u8]) -> Piece {
        if self.data.len() + bytes.len() > RECORD_BYTES {
            return Piece::TooLong;
        }
        self.data.extend_from_slice(bytes);
        Piece::Data
    }

    fn byte(&mut self, byte: u8) -> Option<Piece> {
        match self.state {
            State::Data => {
                self.state = State::Iac;
                None
            }
            State::Iac => self.after_iac(byte),
            State::Verb(verb) => {
                self.state = State::Data;
                Some(Piece::Negotiation { verb, option: byte })
            }
            State::Sub => {
                match byte {
                    IAC => self.state = State::SubIac,
                    byte => self.sub_byte(byte),
                }
                None
            }
            State::SubIac => self.sub_after_iac(byte),
        }
    }

    fn after_iac(&mut self, byte: u8) -> Option<Piece> {
        self.state = State::Data;
        match byte {
            IAC => Some(self.push(&[IAC])),
            EOR => Some(Piece::EndOfRecord),
            DO | DONT | WILL | WONT => {
                self.state = State::Verb(byte);
                None
            }
            SB => {
                self.state = State::Sub;
                self.sub.clear();
                None
            }
            command => Some(Piece::Command(command)),
        }
    }

    fn sub_after_iac(&mut self, byte: u8) -> Option<Piece> {
        match byte {
            SE => {
                self.state = State::Data;
                Some(Piece::Subnegotiation)
            }
            // Doubled, or out of place and then taken as it is.
            byte => {
                self.state = State::Sub;
                self.sub_byte(byte);
                None
            }
        }
    }

    fn sub_byte(&mut self, byte: u8) {
        if self.sub.len() < SUBNEGOTIATION_BYTES {
            self.sub.push(byte);
        }
    }

    /// What came since the last record, or what was handed out last.
    pub(crate) fn data(&self) -> &[u8] {
        self.data.get(self.skipped..).unwrap_or(&[])
    }

    /// The data is of use until [`Decoder::next`] is called again.
    pub(crate) fn hand_out(&mut self) {
        self.spent = true;
    }

    /// The first bytes of what is handed out are a header of this length.
    pub(crate) fn skip(&mut self, header_bytes: usize) {
        self.skipped = header_bytes;
    }

    pub(crate) fn subnegotiation(&self) -> &[u8] {
        &self.sub
    }
}

/// Where the first IAC stands. There are few of them, so many bytes are looked at together.
fn first_iac(bytes: &[u8]) -> Option<usize> {
    /// The machine compares so many in a few operations.
    const AT_ONCE: usize = 64;
    let is_without = |bytes: &&[u8]| !bytes.iter().fold(false, |any, byte| any | (*byte == IAC));
    let without: usize = bytes.chunks(AT_ONCE).take_while(is_without).map(<[u8]>::len).sum();
    let found = bytes.get(without..)?.iter().position(|byte| *byte == IAC)?;
    Some(without + found)
}

/// Appends data with each IAC doubled.
pub(crate) fn put_data(out: &mut Vec<u8>, data: &[u8]) {
    let mut rest = data;
    while let Some(at) = first_iac(rest) {
        let (run, after) = rest.split_at(at + 1);
        out.extend_from_slice(run);
        out.push(IAC);
        rest = after;
    }
    out.extend_from_slice(rest);
}

pub(crate) fn put_end_of_record(out: &mut Vec<u8>) {
    out.extend_from_slice(&[IAC, EOR]);
}

pub(crate) fn put_negotiation(out: &mut Vec<u8>, verb: u8, option: u8) {
    out.extend_from_slice(&[IAC, verb, option]);
}

/// Appends `IAC SB option … IAC SE`.
pub(crate) fn put_subnegotiation(out: &mut Vec<u8>, option: u8, body: &[u8]) {
    out.extend_from_slice(&[IAC, SB, option]);
    put_data(out, body);
    out.extend_from_slice(&[IAC, SE]);
}

/// Which options are on, on our side and on the peer's, and how often they changed.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    ours: [bool; 256],
    theirs: [bool; 256],
    changes: [u8; 256],
}

impl Default for Options {
    fn default() -> Self {
        Options { ours: [false; 256], theirs: [false; 256], changes: [0; 256] }
    }
}

impl Options {
    pub(crate) fn ours(&self, option: u8) -> bool {
        self.ours.get(usize::from(option)).copied().unwrap_or(false)
    }

    pub(crate) fn theirs(&self, option: u8) -> bool {
        self.theirs.get(usize::from(option)).copied().unwrap_or(false)
    }

    /// Notes what the verb of a peer says, if it says something new: DO and DONT are about our
    /// side, WILL and WONT about the peer's. Answers whether it did.
    pub(crate) fn note(&mut self, verb: u8, option: u8) -> bool {
        let on = matches!(verb, DO | WILL);
        let side = if matches!(verb, DO | DONT) { &mut self.ours } else { &mut self.theirs };
        let Some(known) = side.get_mut(usize::from(option)) else { return false };
        let new = *known != on;
        *known = on;
        new
    }

    /// True as long as a peer has not changed its mind about an option too often.
    pub(crate) fn may_answer(&mut self, option: u8) -> bool {
        let Some(count) = self.changes.get_mut(usize::from(option)) else { return false };
        *count = count.saturating_add(1);
        *count <= crate::limits::OPTION_CHANGES
    }
}

/// True if records are marked and binary both ways: what is not so is the mode of an NVT.
pub(crate) fn is_record_mode(options: &Options) -> bool {
    [option::BINARY, option::END_OF_RECORD]
        .iter()
        .all(|option| options.ours(*option) && options.theirs(*option))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(stream: &[u8], step: usize) -> Vec<(Piece, Vec<u8>)> {
        let mut decoder = Decoder::default();
        let mut found = Vec::new();
        for mut input in stream.chunks(step) {
            while let Some(piece) = decoder.next(&mut input) {
                match piece {
                    Piece::Data => {}
                    Piece::EndOfRecord => {
                        found.push((piece, decoder.data().to_vec()));
                        decoder.hand_out();
                    }
                    Piece::Subnegotiation => {
                        found.push((piece, decoder.subnegotiation().to_vec()));
                    }
                    other => found.push((other, Vec::new())),
                }
            }
        }
        found
    }

    #[test]
    fn every_cut_gives_the_same_pieces() {
        let stream = b"ab\xff\xffc\xff\xef\xff\xfd\x28\xff\xfa\x18\x01\xff\xff\xff\xf0\xff\xf4d";
        let whole = pieces(stream, stream.len());
        assert_eq!(whole[0], (Piece::EndOfRecord, b"ab\xffc".to_vec()));
        assert_eq!(whole[1].0, Piece::Negotiation { verb: DO, option: 0x28 });
        assert_eq!(whole[2], (Piece::Subnegotiation, b"\x18\x01\xff".to_vec()));
        assert_eq!(whole[3].0, Piece::Command(IP));
        for step in 1..stream.len() {
            assert_eq!(pieces(stream, step), whole, "{step}");
        }
    }

    #[test]
    fn a_record_without_end_is_cut_off() {
        let mut decoder = Decoder::default();
        let block = vec![b'x'; 1 << 16];
        let mut last = None;
        for _ in 0..=RECORD_BYTES >> 16 {
            last = decoder.next(&mut &block[..]);
        }
        assert_eq!(last, Some(Piece::TooLong));
    }

    #[test]
    fn the_first_iac_is_found_wherever_it_stands() {
        for length in [0, 1, 63, 64, 65, 200] {
            let mut bytes = vec![0xfe; length];
            assert_eq!(first_iac(&bytes), None);
            for at in (0..length).rev() {
                bytes[at] = IAC;
                assert_eq!(first_iac(&bytes), Some(at));
            }
        }
    }

    #[test]
    fn data_is_put_with_each_iac_doubled() {
        let mut out = Vec::new();
        put_data(&mut out, b"\xff\xffa\xff");
        assert_eq!(out, b"\xff\xff\xff\xffa\xff\xff");
    }
}
