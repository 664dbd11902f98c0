//! Text from one character set into another, with the line ends that its reader expects.
//!
//! The character sets are those of the Encoding Standard, by `encoding_rs`, and what it lacks: real
//! ISO-8859-1 (there it is windows-1252), UTF-16 as a target, and EBCDIC.

mod tables;

use std::io::{Read, Write};

use encoding_rs::{Decoder, DecoderResult, Encoder, EncoderResult, Encoding};

use crate::error::TransformError;
use crate::flow::{Bounds, Flow};
use crate::limits::BLOCK_BYTES;

/// A character set.
#[derive(Clone, Copy, Debug)]
pub struct Charset(Kind);

#[derive(Clone, Copy, Debug)]
enum Kind {
    Standard(&'static Encoding),
    /// The only target that the standard has no encoder for.
    Utf16 {
        decoder: &'static Encoding,
        unit: fn(u16) -> [u8; 2],
    },
    /// One byte for each of the characters of Latin-1.
    Latin1(&'static [u8; 256]),
}

impl Charset {
    /// The character set of this name, in small letters: as the Encoding Standard calls it (not its
    /// labels, of which `latin1` means another one), or `iso-8859-1`, `ibm037`, `ibm1047`.
    pub fn named(name: &str) -> Option<Charset> {
        let utf16 = |decoder, unit| Some(Charset(Kind::Utf16 { decoder, unit }));
        match name {
            "iso-8859-1" => Some(Charset(Kind::Latin1(&tables::LATIN1))),
            "ibm037" => Some(Charset(Kind::Latin1(&tables::IBM037))),
            "ibm1047" => Some(Charset(Kind::Latin1(&tables::IBM1047))),
            "utf-16le" => utf16(encoding_rs::UTF_16LE, u16::to_le_bytes),
            "utf-16be" => utf16(encoding_rs::UTF_16BE, u16::to_be_bytes),
            name => {
                let found = Encoding::for_label_no_replacement(name.as_bytes())?;
                let is_name = found.name().to_ascii_lowercase() == name;
                is_name.then_some(Charset(Kind::Standard(found)))
            }
        }
    }
}

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

/// What becomes of bytes that are no text, and of characters that the target does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadText {
    /// The change fails.
    Fails,
    /// Bytes become U+FFFD, characters become `?`.
    Replaced,
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

/// Whether more bytes follow.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    More,
    Last,
}

/// The three changes that a block goes through, and what is between them.
struct Pipeline {
    decode: Decode,
    lines: Lines,
    encode: Encode,
    decoded: String,
    text: String,
    bytes: Vec<u8>,
}

impl Pipeline {
    fn new(change: &Transcoding) -> Pipeline {
        Pipeline {
            decode: Decode { kind: DecodeKind::new(change.from), bad: change.bad, read: 0 },
            lines: Lines { end: change.line_end, is_cr_open: false },
            encode: Encode { kind: EncodeKind::new(change.to), bad: change.bad, lines: 0 },
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
        self.decode.push(bytes, stage, &mut self.decoded)?;
        self.lines.push(&self.decoded, stage, &mut self.text);
        self.encode.push(&self.text, stage, &mut self.bytes)?;
        Ok(&self.bytes)
    }
}

struct Decode {
    kind: DecodeKind,
    bad: BadText,
    /// Bytes so far.
    read: u64,
}

enum DecodeKind {
    Standard(Decoder),
    Latin1(&'static [u8; 256]),
}

impl DecodeKind {
    fn new(charset: Charset) -> DecodeKind {
        match charset.0 {
            Kind::Standard(encoding) | Kind::Utf16 { decoder: encoding, .. } => {
                DecodeKind::Standard(encoding.new_decoder_with_bom_removal())
            }
            Kind::Latin1(table) => DecodeKind::Latin1(table),
        }
    }
}

impl Decode {
    fn push(
        &mut self,
        mut bytes: &[u8],
        stage: Stage,
        text: &mut String,
    ) -> Result<(), TransformError> {
        let decoder = match &mut self.kind {
            DecodeKind::Standard(decoder) => decoder,
            DecodeKind::Latin1(table) => {
                let of = |byte: &u8| table.get(usize::from(*byte)).copied().unwrap_or_default();
                text.extend(bytes.iter().map(|byte| char::from(of(byte))));
                return Ok(());
            }
        };
        loop {
            // What may come of the rest, and of bytes that the decoder still has.
            text.reserve(3 * bytes.len() + 16);
            let last = stage == Stage::Last;
            let (result, read) = decoder.decode_to_string_without_replacement(bytes, text, last);
            self.read += read as u64;
            bytes = bytes.get(read..).unwrap_or_default();
            match (result, self.bad) {
                (DecoderResult::InputEmpty, _) => return Ok(()),
                (DecoderResult::OutputFull, _) => {}
                (DecoderResult::Malformed(..), BadText::Replaced) => text.push('\u{fffd}'),
                (DecoderResult::Malformed(bad, behind), BadText::Fails) => {
                    let at = self.read.saturating_sub(u64::from(bad) + u64::from(behind));
                    let name = decoder.encoding().name().to_ascii_lowercase();
                    let error = format!("what stands at byte {at} is not {name}");
                    return Err(TransformError::BadText(error));
                }
            }
        }
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

struct Encode {
    kind: EncodeKind,
    bad: BadText,
    /// Ends of lines so far.
    lines: u64,
}

enum EncodeKind {
    Standard(Encoder),
    Utf16(fn(u16) -> [u8; 2]),
    /// The byte of each character of Latin-1.
    Latin1(Box<[u8; 256]>),
}

impl EncodeKind {
    fn new(charset: Charset) -> EncodeKind {
        match charset.0 {
            Kind::Standard(encoding) => EncodeKind::Standard(encoding.new_encoder()),
            Kind::Utf16 { unit, .. } => EncodeKind::Utf16(unit),
            Kind::Latin1(table) => {
                let mut bytes = Box::new([0; 256]);
                for (byte, character) in (0..=u8::MAX).zip(table) {
                    if let Some(place) = bytes.get_mut(usize::from(*character)) {
                        *place = byte;
                    }
                }
                EncodeKind::Latin1(bytes)
            }
        }
    }

    /// Appends as much of `text` as the target has, and answers how many bytes of it that is and
    /// the character that follows, which the target does not have.
    fn push(&mut self, text: &str, stage: Stage, out: &mut Vec<u8>) -> (usize, Option<char>) {
        match self {
            EncodeKind::Utf16(unit) => {
                out.extend(text.encode_utf16().flat_map(*unit));
                (text.len(), None)
            }
            EncodeKind::Latin1(bytes) => {
                for (at, character) in text.char_indices() {
                    let byte = bytes.get(character as usize);
                    let Some(byte) = byte else { return (at, Some(character)) };
                    out.push(*byte);
                }
                (text.len(), None)
            }
            EncodeKind::Standard(encoder) => {
                let mut taken = 0;
                loop {
                    out.reserve(4 * (text.len() - taken) + 16);
                    let rest = text.get(taken..).unwrap_or_default();
                    let last = stage == Stage::Last;
                    let (result, read) =
                        encoder.encode_from_utf8_to_vec_without_replacement(rest, out, last);
                    taken += read;
                    match result {
                        EncoderResult::InputEmpty => return (taken, None),
                        EncoderResult::OutputFull => {}
                        EncoderResult::Unmappable(character) => {
                            return (taken - character.len_utf8(), Some(character));
                        }
                    }
                }
            }
        }
    }
}

impl Encode {
    fn push(
        &mut self,
        mut text: &str,
        stage: Stage,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        loop {
            let (taken, lacks) = self.kind.push(text, stage, out);
            let ends = text.get(..taken).unwrap_or_default().matches(['\n', '\u{85}']);
            self.lines += ends.count() as u64;
            let Some(character) = lacks else { return Ok(()) };
            if self.bad == BadText::Fails {
                let (line, code) = (self.lines + 1, u32::from(character));
                return Err(TransformError::BadText(format!(
                    "line {line} has the character U+{code:04X}, which the target does not have"
                )));
            }
            self.kind.push("?", Stage::More, out);
            text = text.get(taken + character.len_utf8()..).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests;
