//! Records, into which files of mainframes are divided in place of lines.

use crate::error::TransformError;
use crate::limits::RECORD_WORD_BYTES;

/// How a file is divided into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Records {
    /// Each has so many bytes, at least one.
    Fixed(usize),
    /// A record descriptor word stands in front of each (z/OS DFSMS Using Data Sets, "Format-V
    /// Records"): its length with that of the word, 16 bits with the higher ones first, and 16 bits
    /// that are zero unless a record goes on in another one.
    Rdw,
}

/// What becomes of blanks at the end of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blanks {
    /// They are left out.
    Stripped,
    /// They are part of its text.
    Kept,
}

impl Records {
    /// How many bytes stand in front of the content of a record.
    pub(crate) fn word_len(self) -> usize {
        match self {
            Records::Fixed(_) => 0,
            Records::Rdw => RECORD_WORD_BYTES,
        }
    }
}

/// Whether a record is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Open,
    Ended,
}

/// Finds where records end, in whatever blocks their bytes come.
pub(crate) struct RecordCursor {
    form: Records,
    /// Records so far.
    ended: u64,
    /// The word in front of the present one, as far as it has come.
    word: Vec<u8>,
    /// What lacks of the content of the present one; `None`: its word does not say so yet.
    left: Option<usize>,
    is_begun: bool,
}

impl RecordCursor {
    pub(crate) fn new(form: Records) -> RecordCursor {
        let mut cursor = RecordCursor {
            form,
            ended: 0,
            word: Vec::with_capacity(RECORD_WORD_BYTES),
            left: None,
            is_begun: false,
        };
        cursor.begin();
        cursor
    }

    fn begin(&mut self) {
        self.word.clear();
        self.is_begun = false;
        self.left = match self.form {
            Records::Fixed(bytes) => Some(bytes),
            Records::Rdw => None,
        };
    }

    /// The number of the present record, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.ended + 1
    }

    /// How many of these bytes belong to the present record, its word among them, and whether it is
    /// over with them. The next call is about the bytes behind those.
    pub(crate) fn advance(&mut self, bytes: &[u8]) -> Result<(usize, Record), TransformError> {
        let mut taken = 0;
        if self.left.is_none() {
            taken = bytes.len().min(RECORD_WORD_BYTES - self.word.len());
            self.word.extend(bytes.iter().take(taken));
            self.left = self.length()?;
        }
        self.is_begun |= !bytes.is_empty();
        let Some(left) = &mut self.left else { return Ok((taken, Record::Open)) };
        let content = (bytes.len() - taken).min(*left);
        *left -= content;
        if *left > 0 {
            return Ok((taken + content, Record::Open));
        }
        self.ended += 1;
        self.begin();
        Ok((taken + content, Record::Ended))
    }

    /// What the word says, if it is whole.
    fn length(&self) -> Result<Option<usize>, TransformError> {
        let &[high, low, third, fourth] = self.word.as_slice() else { return Ok(None) };
        let number = self.number();
        if (third, fourth) != (0, 0) {
            return Err(TransformError::bad(format!(
                "what stands in front of record {number} is no length: bytes 3 and 4 are not zero, \
                 as they are in parts of records and in files without lengths"
            )));
        }
        let length = usize::from(u16::from_be_bytes([high, low]));
        let content = length.checked_sub(RECORD_WORD_BYTES).ok_or_else(|| {
            TransformError::bad(format!(
                "record {number} says that it has {length} bytes, and the length alone has \
                 {RECORD_WORD_BYTES}"
            ))
        })?;
        Ok(Some(content))
    }

    /// Fails if the file ends in a record.
    pub(crate) fn finish(&self) -> Result<(), TransformError> {
        if !self.is_begun {
            return Ok(());
        }
        let number = self.number();
        Err(TransformError::bad(format!("the file ends within record {number}")))
    }
}
