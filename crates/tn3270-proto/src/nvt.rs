//! A network virtual terminal (RFC 854) with the control sequences of ECMA-48 that hosts use in
//! front of their 3270 applications. Characters are kept in EBCDIC, as the rest of the screen.

use crate::code_page::CodePage;
use crate::codes::format;
use crate::limits::NVT_PARAMETERS;
use crate::screen::{Screen, Style};

const BACKSPACE: u8 = 8;
const TAB: u8 = 9;
const LINE_FEED: u8 = 10;
const FORM_FEED: u8 = 12;
const RETURN: u8 = 13;
const ESCAPE: u8 = 27;
const TAB_COLUMNS: usize = 8;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    Escape,
    Sequence(Vec<usize>),
    /// Bytes of a character in UTF-8, and how many are still to come.
    Character {
        value: u32,
        missing: u8,
    },
}

/// What is between the bytes of the host and the screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Nvt {
    state: State,
    /// The last column was written: the next character goes to the next row.
    wraps: bool,
}

impl Nvt {
    pub(crate) fn write(&mut self, screen: &mut Screen, page: &CodePage, bytes: &[u8]) {
        for byte in bytes {
            self.byte(screen, page, *byte);
        }
    }

    fn byte(&mut self, screen: &mut Screen, page: &CodePage, byte: u8) {
        match std::mem::take(&mut self.state) {
            State::Text => self.text(screen, page, byte),
            State::Escape => {
                if byte == b'[' {
                    self.state = State::Sequence(vec![0]);
                }
            }
            State::Sequence(parameters) => self.sequence(screen, parameters, byte),
            State::Character { value, missing } if byte & 0xc0 == 0x80 => {
                let value = value << 6 | u32::from(byte & 0x3f);
                if missing > 1 {
                    self.state = State::Character { value, missing: missing - 1 };
                } else {
                    self.put(screen, page, char::from_u32(value).unwrap_or('?'));
                }
            }
            State::Character { .. } => self.text(screen, page, byte),
        }
    }

    fn text(&mut self, screen: &mut Screen, page: &CodePage, byte: u8) {
        let at = screen.cursor();
        let columns = screen.size().columns;
        match byte {
            RETURN => self.go(screen, at - at % columns),
            LINE_FEED | 11 => self.line_feed(screen),
            FORM_FEED => screen.clear(),
            BACKSPACE if !at.is_multiple_of(columns) => self.go(screen, at - 1),
            TAB => {
                let column = (at % columns / TAB_COLUMNS + 1) * TAB_COLUMNS;
                self.go(screen, at - at % columns + column.min(columns - 1));
            }
            ESCAPE => self.state = State::Escape,
            0x20..=0x7e => self.put(screen, page, char::from(byte)),
            0xc2..=0xdf => self.begin(byte & 0x1f, 1),
            0xe0..=0xef => self.begin(byte & 0x0f, 2),
            0xf0..=0xf4 => self.begin(byte & 0x07, 3),
            _ => {}
        }
    }

    fn begin(&mut self, first: u8, missing: u8) {
        self.state = State::Character { value: u32::from(first), missing };
    }

    fn go(&mut self, screen: &mut Screen, to: usize) {
        self.wraps = false;
        screen.move_cursor(to);
    }

    fn put(&mut self, screen: &mut Screen, page: &CodePage, character: char) {
        let columns = screen.size().columns;
        if self.wraps {
            let at = screen.cursor();
            self.go(screen, at - at % columns);
            self.line_feed(screen);
        }
        let at = screen.cursor();
        let code = page.code(character).unwrap_or(format::SUBSTITUTE);
        screen.set_code(at, code, Style::default());
        if at % columns == columns - 1 {
            self.wraps = true;
        } else {
            screen.move_cursor(at + 1);
        }
    }

    fn line_feed(&mut self, screen: &mut Screen) {
        self.wraps = false;
        let (at, columns) = (screen.cursor(), screen.size().columns);
        if at + columns < screen.cells() {
            screen.move_cursor(at + columns);
            return;
        }
        for to in 0..screen.cells() {
            let from = to + columns;
            let code = if from < screen.cells() { screen.code(from) } else { format::NULL };
            screen.set_code(to, code, Style::default());
        }
    }

    fn sequence(&mut self, screen: &mut Screen, mut parameters: Vec<usize>, byte: u8) {
        match byte {
            b'0'..=b'9' => {
                if let Some(last) = parameters.last_mut() {
                    *last = last.saturating_mul(10).saturating_add(usize::from(byte - b'0'));
                }
                self.state = State::Sequence(parameters);
            }
            b';' => {
                if parameters.len() < NVT_PARAMETERS {
                    parameters.push(0);
                }
                self.state = State::Sequence(parameters);
            }
            b'?' | b' ' => self.state = State::Sequence(parameters),
            _ => self.control(screen, &parameters, byte),
        }
    }

    fn control(&mut self, screen: &mut Screen, parameters: &[usize], byte: u8) {
        let number = |at: usize| parameters.get(at).copied().unwrap_or(0);
        let count = number(0).max(1);
        let size = screen.size();
        let (row, column) = (screen.cursor() / size.columns, screen.cursor() % size.columns);
        let place = |row: usize, column: usize| {
            row.min(size.rows - 1) * size.columns + column.min(size.columns - 1)
        };
        match byte {
            b'A' => self.go(screen, place(row.saturating_sub(count), column)),
            b'B' => self.go(screen, place(row.saturating_add(count), column)),
            b'C' => self.go(screen, place(row, column.saturating_add(count))),
            b'D' => self.go(screen, place(row, column.saturating_sub(count))),
            b'H' | b'f' => {
                let to = place(count - 1, number(1).max(1) - 1);
                self.go(screen, to);
            }
            b'J' | b'K' => {
                let line = row * size.columns..(row + 1) * size.columns;
                let area = if byte == b'K' { line } else { 0..screen.cells() };
                let at = screen.cursor();
                for here in area {
                    let meant = match number(0) {
                        0 => here >= at,
                        1 => here <= at,
                        _ => true,
                    };
                    if meant {
                        screen.set_code(here, format::NULL, Style::default());
                    }
                }
            }
            _ => {}
        }
    }
}
