//! Text from one character set into another, with the line ends that its reader expects.
//!
//! The character sets are those of the Encoding Standard, by `encoding_rs`, and what it lacks: real
//! ISO-8859-1 (there it is windows-1252), UTF-16 as a target, and EBCDIC.

mod coding;
mod records;
mod tables;

use std::io::{Read, Write};

use crate::error::TransformError;
use crate::flow::{Bounds, Flow};
use crate::limits::BLOCK_BYTES;
use crate::records::{Blanks, Records};
use coding::{Decode, DecodeKind, Encode, EncodeKind, Stage};
use records::{RecordsIn, RecordsOut};

pub use coding::{BadText, Charset};

/// What becomes of line ends: CR LF, LF, and U+0085 (next line), which EBCDIC has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// They stay as they are.
    Kept,
    /// Each becomes LF, as Unix has it.
    Lf,
    /// Each becomes CR LF, as Windows has it.
    CrLf,
    /// Each becomes U+0085, which is 0x15 in EBCDIC.
    Nl,
}

/// What becomes of a text.
#[derive(Clone, Copy, Debug)]
pub struct Transcoding {
    /// What it is.
    pub from: Charset,
    /// What it shall be.
    pub to: Charset,
    /// Its line ends.
    pub line_end: LineEnd,
    /// It is records, each of which becomes a line that ends with LF before its line ends are
    /// changed.
    pub from_records: Option<Records>,
    /// What becomes of blanks at the end of records of a fixed length.
    pub blanks: Blanks,
    /// Each of its lines becomes a record.
    pub to_records: Option<Records>,
    /// What cannot be said in the target.
    pub bad: BadText,
}

/// Writes a text in another character set. A byte order mark is left out.
pub fn transcode(
    change: &Transcoding,
    reader: impl Read,
    writer: impl Write,
) -> Result<(), TransformError> {
    let flow = Flow::default();
    let mut input = flow.input(reader);
    let mut output = flow.output(writer, Bounds::none());
    let mut work = || {
        let mut pipeline = Pipeline::new(change);
        let mut block = vec![0; BLOCK_BYTES];
        loop {
            let read = match input.read(&mut block) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.map_err(TransformError::Read)?,
            };
            let bytes = block.get(..read).unwrap_or_default();
            let stage = if read == 0 { Stage::Last } else { Stage::More };
            let text = pipeline.push(bytes, stage)?;
            output.write_all(text).map_err(TransformError::Write)?;
            if read == 0 {
                return output.flush().map_err(TransformError::Write);
            }
        }
    };
    flow.ended(work())
}

enum Input {
    Text(Decode),
    Records(RecordsIn),
}

enum Output {
    Text(Encode),
    Records(RecordsOut),
}

/// The three changes that a block goes through, and what is between them.
struct Pipeline {
    input: Input,
    lines: Lines,
    output: Output,
    decoded: String,
    text: String,
    bytes: Vec<u8>,
}

impl Pipeline {
    fn new(change: &Transcoding) -> Pipeline {
        let bad = change.bad;
        let decode = || Decode { kind: DecodeKind::new(change.from), bad, read: 0 };
        let encode = || Encode { kind: EncodeKind::new(change.to), bad, lines: 0 };
        let line_end = if change.to_records.is_some() { LineEnd::Lf } else { change.line_end };
        Pipeline {
            input: match change.from_records {
                None => Input::Text(decode()),
                Some(form) => Input::Records(RecordsIn::new(form, change.from, bad, change.blanks)),
            },
            lines: Lines { end: line_end, is_cr_open: false },
            output: match change.to_records {
                None => Output::Text(encode()),
                Some(form) => Output::Records(RecordsOut::new(form, change.to, bad)),
            },
            decoded: String::new(),
            text: String::new(),
            bytes: Vec::new(),
        }
    }

    /// What comes of the next bytes.
    fn push(&mut self, bytes: &[u8], stage: Stage) -> Result<&[u8], TransformError> {
        self.decoded.clear();
        self.text.clear();
        self.bytes.clear();
        match &mut self.input {
            Input::Text(decode) => decode.push(bytes, stage, &mut self.decoded)?,
            Input::Records(records) => records.push(bytes, stage, &mut self.decoded)?,
        }
        self.lines.push(&self.decoded, stage, &mut self.text);
        match &mut self.output {
            Output::Text(encode) => encode.push(&self.text, stage, &mut self.bytes)?,
            Output::Records(records) => records.push(&self.text, stage, &mut self.bytes)?,
        }
        Ok(&self.bytes)
    }
}

struct Lines {
    end: LineEnd,
    /// A CR was the last character: an LF may follow.
    is_cr_open: bool,
}

impl Lines {
    fn push(&mut self, text: &str, stage: Stage, out: &mut String) {
        let end = match self.end {
            LineEnd::Kept => return out.push_str(text),
            LineEnd::Lf => "\n",
            LineEnd::CrLf => "\r\n",
            LineEnd::Nl => "\u{85}",
        };
        for character in text.chars() {
            let is_behind_cr = std::mem::replace(&mut self.is_cr_open, character == '\r');
            let is_end = matches!(character, '\n' | '\u{85}');
            if is_behind_cr && character != '\n' {
                // Alone it ends no line.
                out.push('\r');
            }
            if is_end {
                out.push_str(end);
            } else if character != '\r' {
                out.push(character);
            }
        }
        if stage == Stage::Last && std::mem::take(&mut self.is_cr_open) {
            out.push('\r');
        }
    }
}

#[cfg(test)]
mod tests;
