//! Records in place of lines, on either side of a change of character sets. Each is text by itself:
//! a shift of one does not reach into the next.

use super::coding::{BadText, Charset, Decode, DecodeKind, Encode, EncodeKind, Stage};
use crate::error::TransformError;
use crate::limits::{LINE_BYTES, RECORD_BYTES, RECORD_WORD_BYTES};
use crate::records::{Blanks, Record, RecordCursor, Records};

/// What ends a line, and so cannot stand in one.
const ENDS: [char; 3] = ['\n', '\r', '\u{85}'];

/// Makes lines of records.
pub(super) struct RecordsIn {
    form: Records,
    cursor: RecordCursor,
    charset: Charset,
    bad: BadText,
    blanks: Blanks,
    /// The present record, as far as it has come.
    held: Vec<u8>,
    line: String,
}

impl RecordsIn {
    pub(super) fn new(form: Records, charset: Charset, bad: BadText, blanks: Blanks) -> RecordsIn {
        let blanks = if form == Records::Rdw { Blanks::Kept } else { blanks };
        let (cursor, held, line) = (RecordCursor::new(form), Vec::new(), String::new());
        RecordsIn { form, cursor, charset, bad, blanks, held, line }
    }

    /// Appends the lines that end with these bytes, each with LF.
    pub(super) fn push(
        &mut self,
        mut bytes: &[u8],
        stage: Stage,
        text: &mut String,
    ) -> Result<(), TransformError> {
        while !bytes.is_empty() {
            let number = self.cursor.number();
            let (taken, record) = self.cursor.advance(bytes)?;
            let (more, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, &[]));
            self.held.extend_from_slice(more);
            bytes = rest;
            if record == Record::Ended {
                self.take(number, text)?;
            }
        }
        match stage {
            Stage::More => Ok(()),
            Stage::Last => self.cursor.finish(),
        }
    }

    fn take(&mut self, number: u64, text: &mut String) -> Result<(), TransformError> {
        let content = self.held.get(self.form.word_len()..).unwrap_or_default();
        let mut decode = Decode { kind: DecodeKind::bare(self.charset), bad: self.bad, read: 0 };
        self.line.clear();
        decode.push(content, Stage::Last, &mut self.line).map_err(|error| match error {
            TransformError::BadText(why) => {
                TransformError::BadText(format!("in record {number} {why}"))
            }
            other => other,
        })?;
        self.held.clear();
        let line = match self.blanks {
            Blanks::Stripped => self.line.trim_end_matches(' '),
            Blanks::Kept => &self.line,
        };
        match (line.find(ENDS), self.bad) {
            (Some(_), BadText::Fails) => {
                let why = format!("record {number} has the end of a line in it");
                return Err(TransformError::BadText(why));
            }
            (Some(_), BadText::Replaced) => text.push_str(&line.replace(ENDS, "?")),
            (None, _) => text.push_str(line),
        }
        text.push('\n');
        Ok(())
    }
}

/// Makes records of lines.
pub(super) struct RecordsOut {
    form: Records,
    encode: Encode,
    /// The present line, as far as it has come.
    line: String,
    /// Lines so far.
    lines: u64,
    record: Vec<u8>,
    /// A blank in the target.
    blank: Vec<u8>,
}

impl RecordsOut {
    pub(super) fn new(form: Records, charset: Charset, bad: BadText) -> RecordsOut {
        let mut blank = Vec::new();
        EncodeKind::new(charset).push(" ", Stage::Last, &mut blank);
        let encode = Encode { kind: EncodeKind::new(charset), bad, lines: 0 };
        RecordsOut { form, encode, line: String::new(), lines: 0, record: Vec::new(), blank }
    }

    /// Appends the records of lines that end with this text, by LF or with the file.
    pub(super) fn push(
        &mut self,
        text: &str,
        stage: Stage,
        out: &mut Vec<u8>,
    ) -> Result<(), TransformError> {
        for piece in text.split_inclusive('\n') {
            let line = piece.strip_suffix('\n');
            self.line.push_str(line.unwrap_or(piece));
            if self.line.len() > LINE_BYTES {
                let number = self.lines + 1;
                let why = format!("line {number} has more than {LINE_BYTES} bytes");
                return Err(TransformError::BadText(why));
            }
            if line.is_some() {
                self.take(out)?;
            }
        }
        if stage == Stage::Last && !self.line.is_empty() {
            self.take(out)?;
        }
        Ok(())
    }

    fn take(&mut self, out: &mut Vec<u8>) -> Result<(), TransformError> {
        self.record.clear();
        self.encode.lines = self.lines;
        self.encode.kind.again();
        self.encode.push(&self.line, Stage::Last, &mut self.record)?;
        self.line.clear();
        self.lines += 1;
        let (number, has) = (self.lines, self.record.len());
        let too_long = |most: usize| {
            let why = format!("line {number} has {has} bytes, and a record has {most} at most");
            Err(TransformError::BadText(why))
        };
        match self.form {
            Records::Fixed(bytes) if has > bytes => return too_long(bytes),
            Records::Fixed(bytes) => {
                let blanks = self.blank.iter().cycle();
                let lacks = bytes - has;
                if !lacks.is_multiple_of(self.blank.len()) {
                    let why = format!("no blanks fill a record of {bytes} bytes behind {has}");
                    return Err(TransformError::BadText(why));
                }
                self.record.extend(blanks.take(lacks));
            }
            Records::Rdw => {
                let most = RECORD_BYTES - RECORD_WORD_BYTES;
                let length = u16::try_from(has + RECORD_WORD_BYTES);
                let Some(length) = length.ok().filter(|_| has <= most) else {
                    return too_long(most);
                };
                out.extend_from_slice(&length.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
            }
        }
        out.extend_from_slice(&self.record);
        Ok(())
    }
}
