//! Steps for files that are text.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::{Existing, StepFlaw};
use crate::document::{OnByDefault, is_default};
use crate::limits::{RECORD_BYTES, SPLIT_HEADER_BYTES};

/// The character sets that a text can be in.
pub const CHARSETS: [&str; 40] = [
    "utf-8",
    "utf-16le",
    "utf-16be",
    "iso-8859-1",
    "iso-8859-2",
    "iso-8859-3",
    "iso-8859-4",
    "iso-8859-5",
    "iso-8859-6",
    "iso-8859-7",
    "iso-8859-8",
    "iso-8859-10",
    "iso-8859-13",
    "iso-8859-14",
    "iso-8859-15",
    "iso-8859-16",
    "windows-874",
    "windows-1250",
    "windows-1251",
    "windows-1252",
    "windows-1253",
    "windows-1254",
    "windows-1255",
    "windows-1256",
    "windows-1257",
    "windows-1258",
    "macintosh",
    "koi8-r",
    "koi8-u",
    "ibm866",
    "ibm037",
    "ibm1047",
    "shift_jis",
    "euc-jp",
    "iso-2022-jp",
    "euc-kr",
    "gbk",
    "gb18030",
    "big5",
    "x-mac-cyrillic",
];

/// Write the text in the file in another character set, or with other line ends. Later steps work
/// on the new file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TranscodeSpec {
    /// The character set of the file, such as `windows-1252` or `ibm1047`.
    pub from: String,
    /// The character set of the new file.
    #[serde(default = "utf8", skip_serializing_if = "is_utf8")]
    pub to: String,
    /// What its lines end with.
    #[serde(default, skip_serializing_if = "is_default")]
    pub newline: Newline,
    /// The file is records, as mainframes have them, and no lines. Each becomes a line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from_records: Option<RecordForm>,
    /// Each line becomes a record without its end. One of a fixed length is filled with blanks; a
    /// line that is longer fails the step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to_records: Option<RecordForm>,
    /// Whether blanks at the end of records of a fixed length are left out.
    #[serde(default = "bool::on", skip_serializing_if = "OnByDefault::is_on")]
    pub strip: bool,
    /// What becomes of bytes that are no text, and of characters that `to` does not have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bad: BadCharacters,
    /// What the new file is called; placeholders as in `deliver`. Unset: `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// How a file is divided into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RecordForm {
    /// Each has so many bytes, from 1 to 32760.
    Fixed(u32),
    /// In front of each stands a record descriptor word: two bytes that are its length with the
    /// four of the word, the higher one first, and two that are zero.
    Rdw,
}

impl RecordForm {
    fn check(self, field: &'static str) -> Result<(), StepFlaw> {
        match self {
            RecordForm::Fixed(bytes) if !(1..=RECORD_BYTES).contains(&bytes) => {
                Err((field, "a record has from 1 to 32760 bytes"))
            }
            _ => Ok(()),
        }
    }
}

const UNKNOWN_CHARSET: &str =
    "is no character set that we know; say 'windows-1252', 'iso-8859-15', 'ibm1047' and the like";

impl TranscodeSpec {
    /// The field that cannot be so, if one cannot, and why.
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        for (field, name) in [("transcode.from", &self.from), ("transcode.to", &self.to)] {
            if !CHARSETS.contains(&name.as_str()) {
                return Err((field, UNKNOWN_CHARSET));
            }
        }
        self.from_records.map_or(Ok(()), |form| form.check("transcode.from_records"))?;
        self.to_records.map_or(Ok(()), |form| form.check("transcode.to_records"))?;
        if self.to_records.is_some() && self.newline != Newline::Keep {
            return Err(("transcode.newline", "records of 'to_records' have no ends of lines"));
        }
        if !self.strip && !matches!(self.from_records, Some(RecordForm::Fixed(_))) {
            return Err(("transcode.strip", "goes with 'from_records: {fixed: LENGTH}'"));
        }
        Ok(())
    }
}

/// Write the file in parts into the account's view; later steps work on the whole file. One after
/// the other the parts are the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitSpec {
    /// Lines of a part; one of `lines`, `bytes`, `records` and `header`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<NonZeroU64>,
    /// Bytes of a part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<NonZeroU64>,
    /// Records of a part; `of` says what they are like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub records: Option<NonZeroU64>,
    /// With `records`: what they are like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<RecordForm>,
    /// A part begins at each line that begins with this text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// The paths of the parts, as the account sees them; placeholders as in `deliver`, and `{part}`
    /// for the number of the part, from 1, or `{part:04}` for four digits of it.
    pub to: String,
    /// What if a file of that name is there.
    #[serde(default, skip_serializing_if = "is_default")]
    pub existing: Existing,
    /// Most parts; more fail the step before the first one is published.
    #[serde(default = "parts", skip_serializing_if = "is_parts")]
    pub parts: u32,
}

impl SplitSpec {
    /// The field that cannot be so, if one cannot, and why.
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        let counts = [self.lines, self.bytes, self.records].into_iter().flatten().count();
        if counts + usize::from(self.header.is_some()) != 1 {
            return Err((
                "split",
                "say how large a part is, by 'lines', 'bytes' or 'records', or at which 'header' \
                 one begins",
            ));
        }
        if self.records.is_some() != self.of.is_some() {
            return Err(("split.of", "says of 'records' what they are like, and goes with them"));
        }
        self.of.map_or(Ok(()), |form| form.check("split.of"))?;
        let is_right =
            |text: &String| (1..=SPLIT_HEADER_BYTES).contains(&text.len()) && !text.contains('\n');
        if !self.header.as_ref().is_none_or(is_right) {
            return Err(("split.header", "has from 1 to 256 bytes, and no end of line"));
        }
        if !self.to.contains("{part") {
            return Err(("split.to", "tells the parts apart by '{part}', or '{part:04}'"));
        }
        Ok(())
    }
}

/// Put the parts of a file together, in the order of their numbers. Later steps work on the whole
/// file; the parts stay where they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JoinSpec {
    /// The paths of the parts, as the account sees them; placeholders as in `deliver`, and in the
    /// name `{part}` for the number of the part, from 1, or `{part:04}` for four digits of it.
    pub from: String,
    /// How many there must be: a number, or a CEL expression that gives one, such as
    /// `hook.body.parts`. Unset: as many as are there. No number may be missing, whatever this
    /// says.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "count")]
    #[schemars(with = "Option<Count>")]
    pub count: Option<String>,
    /// What the whole file is called; placeholders as in `deliver`. Unset: `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A number of parts, as a document has it.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Count {
    Number(u32),
    Expression(String),
}

fn count<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    let count = Option::<Count>::deserialize(from)?;
    Ok(count.map(|count| match count {
        Count::Number(number) => number.to_string(),
        Count::Expression(text) => text,
    }))
}

fn parts() -> u32 {
    10_000
}

// The signature is what serde's `skip_serializing_if` asks for.
fn is_parts(count: &u32) -> bool {
    *count == parts()
}

fn utf8() -> String {
    "utf-8".to_owned()
}

fn is_utf8(name: &str) -> bool {
    name == "utf-8"
}

/// What lines end with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Newline {
    /// What they ended with before.
    #[default]
    Keep,
    /// With LF, as Unix has it.
    Lf,
    /// With CR LF, as Windows has it.
    CrLf,
    /// With NEL, U+0085, which is 0x15 on mainframes.
    Nl,
}

/// What becomes of what cannot be said in another character set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BadCharacters {
    /// The step fails, and says where it is.
    #[default]
    Fail,
    /// A question mark stands for it.
    Replace,
}
