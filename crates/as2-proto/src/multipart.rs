//! Finds the parts of a multipart body (RFC 2046 §5.1) that comes in pieces.

use memchr::memmem::Finder;

use crate::limits;
use crate::mime::MimeError;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PartEvent {
    /// So many bytes at the start of the buffer belong to the part, or lie before the first or
    /// behind the last one.
    Bytes(usize),
    /// A part begins; the one before it, if any, is over.
    PartBegins,
    /// The last part is over.
    LastPartEnds,
}

/// Where the scanner is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Preamble,
    Part,
    Epilogue,
}

/// Scans for one boundary. The caller holds the buffer that is scanned, and drops what an event
/// took from its start.
pub(crate) struct Scanner {
    delimiter: Finder<'static>,
    section: Section,
    /// Bytes of a delimiter that was found at the start of the buffer.
    found: Option<Delimiter>,
}

#[derive(Clone, Copy)]
struct Delimiter {
    bytes: usize,
    last: bool,
}

impl Scanner {
    /// The buffer has to begin with a line end that stands for the start of the body.
    pub(crate) fn new(boundary: &str) -> Result<Self, MimeError> {
        let allowed = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
        let length = boundary.len();
        if length == 0 || length > limits::BOUNDARY_CHARACTERS || !boundary.bytes().all(allowed) {
            return Err(MimeError);
        }
        let delimiter = Finder::new(format!("\n--{boundary}").as_bytes()).into_owned();
        Ok(Scanner { delimiter, section: Section::Preamble, found: None })
    }

    pub(crate) fn section(&self) -> Section {
        self.section
    }

    /// The next event and how many bytes it takes from the start of `buffer`; `None` when more is
    /// needed.
    pub(crate) fn event(&mut self, buffer: &[u8]) -> Result<Option<Step>, MimeError> {
        if let Some(delimiter) = self.found.take() {
            let taken = delimiter.bytes;
            self.section = if delimiter.last { Section::Epilogue } else { Section::Part };
            let event =
                if delimiter.last { PartEvent::LastPartEnds } else { PartEvent::PartBegins };
            return Ok(Some(Step { event, taken }));
        }
        if self.section == Section::Epilogue {
            return Ok(bytes(buffer.len()));
        }
        let length = self.delimiter.needle().len();
        let mut from = 0;
        while let Some(at) = self.delimiter.find(buffer.get(from..).unwrap_or_default()) {
            let at = from + at;
            let behind = buffer.get(at + length..).unwrap_or_default();
            let before_line_end =
                at.checked_sub(1).filter(|before| buffer.get(*before) == Some(&b'\r'));
            let start = before_line_end.unwrap_or(at);
            match delimiter_line(behind)? {
                Line::Unfinished if start == 0 => return Ok(None),
                Line::Unfinished => return Ok(bytes(start)),
                Line::Other => from = at + 1,
                Line::Whole(line) => {
                    let bytes_before =
                        Delimiter { bytes: at - start + length + line.bytes, ..line };
                    self.found = Some(bytes_before);
                    if start == 0 {
                        return self.event(buffer);
                    }
                    return Ok(bytes(start));
                }
            }
        }
        // A delimiter may have begun: as many bytes stay as its line end, CR and all of it.
        Ok(bytes(buffer.len().saturating_sub(length + 1)))
    }
}

/// An event and the bytes it takes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) event: PartEvent,
    pub(crate) taken: usize,
}

fn bytes(count: usize) -> Option<Step> {
    (count > 0).then_some(Step { event: PartEvent::Bytes(count), taken: count })
}

enum Line {
    Whole(Delimiter),
    /// More bytes have to come.
    Unfinished,
    /// The line goes on: another boundary that begins alike.
    Other,
}

/// What follows a boundary on its line.
fn delimiter_line(behind: &[u8]) -> Result<Line, MimeError> {
    match behind {
        [b'-', b'-', ..] => return Ok(Line::Whole(Delimiter { bytes: 2, last: true })),
        [b'-'] | [] => return Ok(Line::Unfinished),
        _ => {}
    }
    for (at, byte) in behind.iter().enumerate() {
        match byte {
            b'\n' => return Ok(Line::Whole(Delimiter { bytes: at + 1, last: false })),
            b' ' | b'\t' | b'\r' if at < limits::BOUNDARY_PADDING => {}
            b' ' | b'\t' | b'\r' => return Err(MimeError),
            _ => return Ok(Line::Other),
        }
    }
    Ok(Line::Unfinished)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Parts, and whether the last one ended.
    fn parts(body: &str, boundary: &str, piece: usize) -> (Vec<String>, bool) {
        let mut scanner = Scanner::new(boundary).unwrap();
        let mut buffer = b"\r\n".to_vec();
        let (mut parts, mut ended) = (Vec::new(), false);
        for more in body.as_bytes().chunks(piece) {
            buffer.extend_from_slice(more);
            while let Some(step) = scanner.event(&buffer).unwrap() {
                let taken: Vec<u8> = buffer.drain(..step.taken).collect();
                match step.event {
                    PartEvent::PartBegins => parts.push(Vec::new()),
                    PartEvent::LastPartEnds => ended = true,
                    PartEvent::Bytes(count) => {
                        assert_eq!(count, taken.len());
                        if scanner.section() == Section::Part {
                            parts.last_mut().unwrap().extend(taken);
                        }
                    }
                }
            }
            assert!(buffer.len() <= piece + boundary.len() + 8 + limits::BOUNDARY_PADDING);
        }
        (parts.into_iter().map(|part| String::from_utf8(part).unwrap()).collect(), ended)
    }

    #[test]
    fn parts_are_found_at_every_cut() {
        let table: [(&str, &[&str]); 8] = [
            ("--b\r\none\r\n--b\r\ntwo\r\n--b--\r\n", &["one", "two"]),
            ("pre\r\n--b\r\none\r\n--b\r\ntwo\r\n--b--epilogue\r\n--b\r\n", &["one", "two"]),
            // Blank lines at the end belong to the part, but for the last one.
            ("--b\r\none\r\n\r\n\r\n--b\r\n\r\n--b--", &["one\r\n\r\n", ""]),
            // White space behind a boundary; a longer boundary is content.
            ("--b  \r\none\r\n--bb\r\nx\r\n--b\t\r\ntwo\r\n--b--", &["one\r\n--bb\r\nx", "two"]),
            // Line ends of Unix.
            ("--b\none\n--b\ntwo\n--b--\n", &["one", "two"]),
            // A boundary in the middle of a line is content.
            ("--b\r\none --b\r\n--b\r\ntwo\r\n--b--", &["one --b", "two"]),
            // An empty part.
            ("--b\r\n\r\n--b\r\ntwo\r\n--b--", &["", "two"]),
            ("--b\r\none\r\r\n--b\r\n\r\r\n--b--", &["one\r", "\r"]),
        ];
        for (body, expected) in table {
            for piece in 1..body.len() + 1 {
                let (found, ended) = parts(body, "b", piece);
                assert_eq!((&found[..], ended), (&expected.map_owned()[..], true), "{body:?}");
            }
        }
    }

    trait MapOwned {
        fn map_owned(&self) -> Vec<String>;
    }

    impl MapOwned for &[&str] {
        fn map_owned(&self) -> Vec<String> {
            self.iter().map(|part| (*part).to_owned()).collect()
        }
    }

    #[test]
    fn a_body_that_is_cut_does_not_end() {
        for body in ["", "--b", "--b\r\none", "--b\r\none\r\n--b", "--b\r\none\r\n--b-"] {
            assert!(!parts(body, "b", 2).1, "{body:?}");
        }
    }

    #[test]
    fn boundaries_are_checked() {
        for bad in ["", "a\n", "ü", &"x".repeat(71)] {
            assert!(Scanner::new(bad).is_err(), "{bad:?}");
        }
    }
}
