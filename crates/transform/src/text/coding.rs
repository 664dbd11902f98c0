//! Bytes of a character set as text, and text as bytes of one.

use encoding_rs::{Decoder, DecoderResult, Encoder, EncoderResult, Encoding};

use super::tables;
use crate::error::TransformError;

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

/// What becomes of bytes that are no text, and of characters that the target does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadText {
    /// The change fails.
    Fails,
    /// Bytes become U+FFFD, characters become `?`.
    Replaced,
}

/// Whether more bytes follow.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    More,
    Last,
}

pub(super) struct Decode {
    pub(super) kind: DecodeKind,
    pub(super) bad: BadText,
    /// Bytes so far.
    pub(super) read: u64,
}

pub(super) enum DecodeKind {
    Standard(Decoder),
    Latin1(&'static [u8; 256]),
}

impl DecodeKind {
    pub(super) fn new(charset: Charset) -> DecodeKind {
        match charset.0 {
            Kind::Standard(encoding) | Kind::Utf16 { decoder: encoding, .. } => {
                DecodeKind::Standard(encoding.new_decoder_with_bom_removal())
            }
            Kind::Latin1(table) => DecodeKind::Latin1(table),
        }
    }

    /// For a part of a text: what would be a byte order mark in front of a text is none.
    pub(super) fn bare(charset: Charset) -> DecodeKind {
        match charset.0 {
            Kind::Standard(encoding) | Kind::Utf16 { decoder: encoding, .. } => {
                DecodeKind::Standard(encoding.new_decoder_without_bom_handling())
            }
            Kind::Latin1(table) => DecodeKind::Latin1(table),
        }
    }
}

impl Decode {
    pub(super) fn push(
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

pub(super) struct Encode {
    pub(super) kind: EncodeKind,
    pub(super) bad: BadText,
    /// Ends of lines so far.
    pub(super) lines: u64,
}

pub(super) enum EncodeKind {
    Standard(Encoder),
    Utf16(fn(u16) -> [u8; 2]),
    /// The byte of each character of Latin-1.
    Latin1(Box<[u8; 256]>),
}

impl EncodeKind {
    pub(super) fn new(charset: Charset) -> EncodeKind {
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

    /// Begins a text of its own.
    pub(super) fn again(&mut self) {
        if let EncodeKind::Standard(encoder) = self {
            *encoder = encoder.encoding().new_encoder();
        }
    }

    /// Appends as much of `text` as the target has, and answers how many bytes of it that is and
    /// the character that follows, which the target does not have.
    pub(super) fn push(
        &mut self,
        text: &str,
        stage: Stage,
        out: &mut Vec<u8>,
    ) -> (usize, Option<char>) {
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
    pub(super) fn push(
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
