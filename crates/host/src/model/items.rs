//! What a model writes in one line: places, fields, columns, patterns.

use std::borrow::Cow;
use std::fmt;

use entrepot_tn3270_proto::Key;
use regex::{Regex, RegexBuilder};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::action::Place;
use crate::limits::REGEX_BYTES;

/// A test of a screen. All tests of an entity must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pattern {
    /// `"LB100 @ 1,72"`: the screen shows a text at a place.
    Text {
        /// What it shows.
        text: String,
        /// Where the text begins.
        at: Place,
    },
    /// `{field: "14,40", hidden: true}`: the field that a position is in has these properties.
    Field {
        /// A position in the field.
        at: Place,
        /// Whether what is in it is shown.
        hidden: Option<bool>,
        /// Whether nothing can be typed into it.
        protected: Option<bool>,
    },
    /// `{cursor: "20,15"}`: the cursor is there.
    Cursor(Place),
    /// `{match: "/LB1[0-9]0/", at: "1,72"}`: what stands there fits a regular expression.
    Match(Matching),
    /// `{not: PATTERN}`: it does not hold.
    Not(Box<Pattern>),
    /// `{any: [PATTERN, …]}`: one of them holds.
    Any(Vec<Pattern>),
}

/// A regular expression, and where it is looked for.
#[derive(Clone, Debug)]
pub struct Matching {
    regex: Regex,
    /// From there to the end of its row; unset: in any row.
    pub at: Option<Place>,
}

impl PartialEq for Matching {
    fn eq(&self, other: &Matching) -> bool {
        self.regex.as_str() == other.regex.as_str() && self.at == other.at
    }
}

impl Eq for Matching {}

impl Matching {
    /// Reads `/LB1[0-9]0/`; the strokes may be left out.
    fn parse(text: &str, at: Option<Place>) -> Result<Matching, String> {
        let inner = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let inner = inner.unwrap_or(text);
        if inner.is_empty() {
            return Err("an empty regular expression fits everything".to_owned());
        }
        let regex = RegexBuilder::new(inner).size_limit(REGEX_BYTES).build();
        let regex = regex.map_err(|error| {
            let error = error.to_string();
            let why = error.lines().last().unwrap_or_default().trim_start_matches("error: ");
            format!("'{inner}' is no regular expression: {why}")
        })?;
        Ok(Matching { regex, at })
    }

    /// Whether a text of the screen fits.
    pub(crate) fn fits(&self, text: &str) -> bool {
        self.regex.is_match(text)
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    Text(String),
    Match(WrittenMatch),
    Field(WrittenField),
    Cursor(WrittenCursor),
    Not(WrittenNot),
    Any(WrittenAny),
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenMatch {
    #[serde(rename = "match")]
    regex: String,
    at: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenField {
    field: String,
    hidden: Option<bool>,
    protected: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenCursor {
    cursor: String,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenNot {
    not: Box<Pattern>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WrittenAny {
    any: Vec<Pattern>,
}

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Written::deserialize(deserializer)?;
        Pattern::of(written).map_err(D::Error::custom)
    }
}

impl JsonSchema for Pattern {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = Written::json_schema(generator);
        let about = "A test of a screen: `LB100 @ 1,72` is a text at a row and a column.";
        schema.insert("description".to_owned(), about.into());
        schema
    }
}

/// The schema of a text of one line that we read by ourselves.
fn line_schema(about: &str, pattern: &str) -> Schema {
    json_schema!({ "type": "string", "description": about, "pattern": pattern })
}

impl JsonSchema for ModelField {
    fn schema_name() -> Cow<'static, str> {
        "ModelField".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "An area in a row, as `24,1 len 20`: row, column and length, then `out` (only \
                     read), `secret`, `integer`, `decimal`, `number` or \
                     `date(DD.MM.YYYY)`.";
        line_schema(about, &format!(r"^\s*{PLACE}\s+{LENGTH_AND_WORDS}\s*$"))
    }
}

impl JsonSchema for ModelColumn {
    fn schema_name() -> Cow<'static, str> {
        "ModelColumn".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let about = "An area of each record, as `17 len 34 out`: column and length, then the words \
                     of a field, and of records of several rows `row 2`, or `row 2-` for all from \
                     there on.";
        let words = LENGTH_AND_WORDS.replace("(out|", r"(row\s+[1-9][0-9]*-?|out|");
        line_schema(about, &format!(r"^\s*[0-9]*[1-9][0-9]*\s+{words}\s*$"))
    }
}

impl JsonSchema for Rows {
    fn schema_name() -> Cow<'static, str> {
        "Rows".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        line_schema("Rows of the screen, as `8-20`.", r"^\s*[0-9]+\s*-\s*[0-9]+\s*$")
    }
}

/// Row and column, as a regular expression.
const PLACE: &str = "[0-9]*[1-9][0-9]*,[0-9]*[1-9][0-9]*";
/// What stands behind the place of a field.
const LENGTH_AND_WORDS: &str =
    r"len\s+[0-9]*[1-9][0-9]*(\s+(out|secret|integer|decimal|number|date\(\S+\)))*";

impl Pattern {
    fn of(written: Written) -> Result<Self, String> {
        Ok(match written {
            Written::Text(line) => {
                let wrong = || format!("'{line}' is no test: write it as in 'LB100 @ 1,72'");
                let (text, at) = line.rsplit_once('@').ok_or_else(wrong)?;
                // A blank on either side of the sign belongs to neither.
                let text = text.strip_suffix(' ').unwrap_or(text);
                if text.trim().is_empty() {
                    return Err(wrong());
                }
                Pattern::Text { text: text.to_owned(), at: place(at)? }
            }
            Written::Match(WrittenMatch { regex, at }) => {
                let at = at.map(|at| place(&at)).transpose()?;
                Pattern::Match(Matching::parse(&regex, at)?)
            }
            Written::Field(WrittenField { field, hidden, protected }) => {
                if hidden.is_none() && protected.is_none() {
                    return Err("say 'hidden' or 'protected' of a field".to_owned());
                }
                Pattern::Field { at: place(&field)?, hidden, protected }
            }
            Written::Cursor(written) => Pattern::Cursor(place(&written.cursor)?),
            Written::Not(written) => Pattern::Not(written.not),
            Written::Any(written) => Pattern::Any(written.any),
        })
    }
}

fn place(text: &str) -> Result<Place, String> {
    Place::parse(text.trim())
        .ok_or_else(|| format!("'{}' is no place: write row and column as in 5,12", text.trim()))
}

/// `"24,1 len 20 secret out"`: an area of a screen. `out`: it is only read; `secret`: it is never
/// shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelField {
    /// Its first position.
    pub at: Place,
    /// So many positions, in the same row.
    pub length: usize,
    /// Nothing of it is shown or logged.
    pub secret: bool,
    /// It is only read.
    pub out: bool,
    /// How what it shows is understood.
    pub kind: ColumnKind,
}

/// `"17 len 34 out"`: an area of each row of a recordset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelColumn {
    /// Its first column of the screen.
    pub column: usize,
    /// So many positions.
    pub length: usize,
    /// In which rows of a record it stands.
    pub rows: RecordRows,
    /// It is only read.
    pub out: bool,
    /// How what it shows is understood.
    pub kind: ColumnKind,
}

/// Rows of a record, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordRows {
    /// `row 2`: this one.
    One(usize),
    /// `row 2-`: from there to the last row of the record, one below the other.
    From(usize),
}

impl RecordRows {
    /// The first of them.
    pub(crate) fn first(self) -> usize {
        match self {
            RecordRows::One(row) | RecordRows::From(row) => row,
        }
    }

    /// Reads `2` or `2-`.
    fn parse(text: &str) -> Option<RecordRows> {
        let number = |text: &str| text.parse().ok().filter(|row| *row > 0);
        match text.strip_suffix('-') {
            Some(first) => number(first).map(RecordRows::From),
            None => number(text).map(RecordRows::One),
        }
    }
}

/// How what a field shows is understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ColumnKind {
    /// As it is, without blanks at the end.
    #[default]
    Text,
    /// A whole number.
    Integer,
    /// A number with a fraction, given as text: commas become points.
    Decimal,
    /// A number with a fraction, given as a number of JSON.
    Number,
    /// A day, written as `date(DD.MM.YYYY)` says; given as `YYYY-MM-DD`.
    Date(String),
}

impl ColumnKind {
    /// Reads a word for one: `integer`, `decimal`, `number` or `date(DD.MM.YYYY)`.
    fn of_word(word: &str) -> Option<ColumnKind> {
        match word {
            "integer" => Some(ColumnKind::Integer),
            "decimal" => Some(ColumnKind::Decimal),
            "number" => Some(ColumnKind::Number),
            word => {
                let date = word.strip_prefix("date(")?.strip_suffix(')')?;
                let has_all = ["DD", "MM", "YYYY"].iter().all(|part| date.contains(part));
                has_all.then(|| ColumnKind::Date(date.to_owned()))
            }
        }
    }

    /// The same, where `string` is one too.
    pub(super) fn of_type(word: &str) -> Option<ColumnKind> {
        if word == "string" { Some(ColumnKind::Text) } else { ColumnKind::of_word(word) }
    }
}

impl fmt::Display for ColumnKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ColumnKind::Text => f.write_str("text"),
            ColumnKind::Integer => f.write_str("whole number"),
            ColumnKind::Decimal | ColumnKind::Number => f.write_str("number"),
            ColumnKind::Date(form) => write!(f, "day as {form}"),
        }
    }
}

/// The words behind the place of a field or column.
struct Words {
    length: usize,
    secret: bool,
    out: bool,
    kind: ColumnKind,
}

impl Words {
    fn parse<'a>(mut words: impl Iterator<Item = &'a str>, whole: &str) -> Result<Self, String> {
        let wrong = || {
            format!("'{whole}' has no length: write it as in '13,40 len 8', or '3 len 1' in rows")
        };
        if words.next() != Some("len") {
            return Err(wrong());
        }
        let length = words.next().and_then(|word| word.parse().ok()).filter(|length| *length > 0);
        let length = length.ok_or_else(wrong)?;
        let mut found = Words { length, secret: false, out: false, kind: ColumnKind::Text };
        for word in words {
            match word {
                "secret" => found.secret = true,
                "out" => found.out = true,
                word => {
                    found.kind = ColumnKind::of_word(word).ok_or_else(|| {
                        let known = "out, secret, integer, decimal, number and date(DD.MM.YYYY)";
                        format!("'{word}' says nothing of a field: there are {known}")
                    })?;
                }
            }
        }
        Ok(found)
    }
}

impl<'de> Deserialize<'de> for ModelField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut words = text.split_ascii_whitespace();
        let at = place(words.next().unwrap_or_default()).map_err(D::Error::custom)?;
        let Words { length, secret, out, kind } =
            Words::parse(words, &text).map_err(D::Error::custom)?;
        Ok(ModelField { at, length, secret, out, kind })
    }
}

impl<'de> Deserialize<'de> for ModelColumn {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let mut words = text.split_ascii_whitespace();
        let column = words.next().and_then(|word| word.parse().ok()).filter(|column| *column > 0);
        let column = column.ok_or_else(|| {
            D::Error::custom(format!("'{text}' is no column: write it as in '17 len 34 out'"))
        })?;
        let mut words: Vec<&str> = words.collect();
        let mut rows = RecordRows::One(1);
        if let Some(at) = words.iter().position(|word| *word == "row") {
            let said = words.get(at + 1).and_then(|word| RecordRows::parse(word));
            rows = said.ok_or_else(|| {
                D::Error::custom(format!("'{text}' has no row: write it as in 'row 2' or 'row 2-'"))
            })?;
            words.drain(at..at + 2);
        }
        let Words { length, out, kind, .. } =
            Words::parse(words.into_iter(), &text).map_err(D::Error::custom)?;
        Ok(ModelColumn { column, length, rows, out, kind })
    }
}

/// A key that goes to the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, JsonSchema)]
pub struct HostKey(#[schemars(with = "String", regex(pattern = HOST_KEYS))] pub Key);

/// As [`Key::named`] reads those that go to a host.
const HOST_KEYS: &str =
    "^ *([eE][nN][tT][eE][rR]|[cC][lL][eE][aA][rR]|[pP][fF]([1-9]|1[0-9]|2[0-4])|[pP][aA][1-3]) *$";

impl<'de> Deserialize<'de> for HostKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        let key = Key::named(&name).filter(|key| matches!(key, Key::Aid(_)));
        key.map(HostKey).ok_or_else(|| {
            let keys = "ENTER, CLEAR, PF1 to PF24 and PA1 to PA3";
            D::Error::custom(format!("'{name}' is no key that goes to a host: there are {keys}"))
        })
    }
}

/// `8-20`: the rows of the screen that a recordset has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// The first one, from 1.
    pub first: usize,
    /// The last one, included.
    pub last: usize,
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let rows = text.split_once('-').and_then(|(first, last)| {
            Some(Rows { first: first.trim().parse().ok()?, last: last.trim().parse().ok()? })
        });
        rows.filter(|rows| rows.first > 0 && rows.first <= rows.last)
            .ok_or_else(|| D::Error::custom(format!("'{text}' are no rows: write them as in 8-20")))
    }
}
