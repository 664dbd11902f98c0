//! Steps for files that are text.

use std::num::NonZeroU64;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::Existing;
use crate::document::is_default;

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
    /// What becomes of bytes that are no text, and of characters that `to` does not have.
    #[serde(default, skip_serializing_if = "is_default")]
    pub bad: BadCharacters,
    /// What the new file is called; placeholders as in `deliver`. Unset: `{name}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// Write the file in parts into the account's view; later steps work on the whole file. One after
/// the other the parts are the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SplitSpec {
    /// Lines of a part; either this or `bytes`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<NonZeroU64>,
    /// Bytes of a part; either this or `lines`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<NonZeroU64>,
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
