//! Lines of the control connection: cut, cleaned of Telnet (RFC 854, RFC 1123 §4.1.2.12).

use zeroize::Zeroize as _;

use crate::limits::{KEPT_BUFFER_BYTES, LINE_BYTES};

const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WONT: u8 = 252;
const WILL: u8 = 251;
const SB: u8 = 250;
const SE: u8 = 240;

/// The peer sent a line above [`LINE_BYTES`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooLong;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Telnet {
    #[default]
    Data,
    /// Behind IAC: the next byte is a command of Telnet.
    Command,
    /// Behind IAC WILL, WONT, DO or DONT.
    Option(u8),
    /// Between IAC SB and IAC SE.
    Sub,
    SubCommand,
}

/// Bytes in, lines out. The buffer holds what was not taken yet.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    buffer: Vec<u8>,
    /// Where the next line begins.
    start: usize,
    /// Up to where no line feed was found.
    searched: usize,
    telnet: Telnet,
    /// The last byte was a CR: a NUL behind it is dropped (RFC 854).
    cr: bool,
}

impl Lines {
    /// Takes bytes as they came. Telnet requests are refused into `out`.
    pub(crate) fn receive(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let plain = self.telnet == Telnet::Data
            && !(self.cr && bytes.first() == Some(&0))
            && !bytes.iter().any(|byte| *byte == IAC || *byte == 0);
        if plain {
            self.buffer.extend_from_slice(bytes);
            self.cr = bytes.last().map_or(self.cr, |byte| *byte == b'\r');
            return;
        }
        bytes.iter().for_each(|byte| self.byte(*byte, out));
    }

    fn byte(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.telnet = match (self.telnet, byte) {
            (Telnet::Data, IAC) => Telnet::Command,
            (Telnet::Data, byte) => {
                self.data(byte);
                Telnet::Data
            }
            (Telnet::Command, IAC) => {
                self.data(IAC);
                Telnet::Data
            }
            (Telnet::Command, WILL..=DONT) => Telnet::Option(byte),
            (Telnet::Command, SB) => Telnet::Sub,
            // IP, DM and all the rest mean nothing here: ABOR follows as a line.
            (Telnet::Command, _) => Telnet::Data,
            (Telnet::Option(asked), option) => {
                match asked {
                    WILL => out.extend_from_slice(&[IAC, DONT, option]),
                    DO => out.extend_from_slice(&[IAC, WONT, option]),
                    // WONT and DONT need no answer.
                    WONT | DONT => {}
                    _ => {}
                }
                Telnet::Data
            }
            (Telnet::Sub, IAC) => Telnet::SubCommand,
            (Telnet::Sub, _) => Telnet::Sub,
            (Telnet::SubCommand, SE) => Telnet::Data,
            (Telnet::SubCommand, _) => Telnet::Sub,
        };
    }

    fn data(&mut self, byte: u8) {
        if !(self.cr && byte == 0) {
            self.buffer.push(byte);
        }
        self.cr = byte == b'\r';
    }

    /// The next line without its end, written over what `line` held. CR LF or LF end it.
    pub(crate) fn next(&mut self, line: &mut Vec<u8>) -> Result<bool, TooLong> {
        let from = self.searched.max(self.start);
        let found = self.buffer.get(from..).unwrap_or(&[]).iter().position(|byte| *byte == b'\n');
        let Some(end) = found.map(|at| from + at) else {
            self.searched = self.buffer.len();
            // One byte more: a CR that waits for its LF.
            return if self.buffered() > LINE_BYTES + 1 { Err(TooLong) } else { Ok(false) };
        };
        let start = self.start;
        let whole = self.buffer.get(start..end).unwrap_or(&[]);
        let whole = whole.strip_suffix(b"\r").unwrap_or(whole);
        if whole.len() > LINE_BYTES {
            return Err(TooLong);
        }
        line.zeroize();
        line.extend_from_slice(whole);
        self.start = end + 1;
        self.searched = self.start;
        self.tidy(start);
        Ok(true)
    }

    /// Overwrites what was taken (it may have been a password) and moves the rest to the front.
    fn tidy(&mut self, from: usize) {
        if let Some(taken) = self.buffer.get_mut(from..self.start) {
            taken.zeroize();
        }
        if self.start == self.buffer.len() {
            self.buffer.clear();
            (self.start, self.searched) = (0, 0);
        } else if self.start >= LINE_BYTES {
            self.buffer.drain(..self.start);
            (self.start, self.searched) = (0, 0);
        }
    }

    /// Throws away what was not taken, and any Telnet sequence begun.
    pub(crate) fn clear(&mut self) {
        self.buffer.zeroize();
        *self = Lines { buffer: std::mem::take(&mut self.buffer), ..Lines::default() };
    }

    /// Gives a large buffer back if all of it was taken.
    pub(crate) fn shrink(&mut self) {
        if self.buffer.is_empty() && self.buffer.capacity() > KEPT_BUFFER_BYTES {
            self.buffer = Vec::new();
        }
    }

    /// Bytes of memory held.
    pub(crate) fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Bytes that were not taken yet.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len().saturating_sub(self.start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pieces: &[&[u8]]) -> (Vec<Vec<u8>>, Vec<u8>) {
        let (mut machine, mut out, mut found) = (Lines::default(), Vec::new(), Vec::new());
        let mut line = Vec::new();
        for piece in pieces {
            machine.receive(piece, &mut out);
            while machine.next(&mut line).unwrap() {
                found.push(line.clone());
            }
        }
        (found, out)
    }

    #[test]
    fn lines_in_any_pieces() {
        let stream: &[u8] = b"NOOP\r\nPWD\nCWD a\r\0b\r\n\xff\xf4\xff\xf2ABOR\r\n\xff\xfd\x06\
            \xff\xfb\x01\xff\xfc\x01\xff\xfe\x01SIZE \xff\xff\r\n\xff\xfa\x18x\xff\xffy\xff\xf0Q\n";
        let whole = lines(&[stream]);
        let want: [&[u8]; 6] = [b"NOOP", b"PWD", b"CWD a\rb", b"ABOR", b"SIZE \xff", b"Q"];
        assert_eq!(whole.0, want);
        assert_eq!(whole.1, [255, 252, 6, 255, 254, 1]);
        for cut in 0..stream.len() {
            assert_eq!(lines(&[&stream[..cut], &stream[cut..]]), whole, "cut at {cut}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(lines(&bytes), whole);
    }

    #[test]
    fn a_line_may_be_as_long_as_the_limit_and_no_longer() {
        let (mut machine, mut out, mut line) = (Lines::default(), Vec::new(), Vec::new());
        machine.receive(&vec![b'a'; LINE_BYTES], &mut out);
        assert_eq!(machine.next(&mut line), Ok(false));
        machine.receive(b"\r", &mut out);
        assert_eq!(machine.next(&mut line), Ok(false));
        machine.receive(b"\n", &mut out);
        assert_eq!(machine.next(&mut line), Ok(true));
        assert_eq!(line.len(), LINE_BYTES);
        machine.receive(&vec![b'a'; LINE_BYTES + 2], &mut out);
        assert_eq!(machine.next(&mut line), Err(TooLong));
    }
}
