//! A list on a screen: which rows a record has, what stands where in it, and how pages are turned.

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::entries::{Entries, Named};
use super::items::{HostKey, ModelColumn, Pattern, RecordRows, Rows};

/// A list of records on a screen.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub struct Recordset {
    /// What it is called.
    pub name: Named,
    /// The rows of the screen that it has.
    pub area: Rows,
    /// Which of those rows a record has.
    pub size: RecordSize,
    /// What a record has.
    pub columns: Entries<ModelColumn>,
    /// A record in which this column is blank is none: `blank id`.
    pub skip: Option<SkipBlank>,
    /// How the next page comes; unset: there is one page.
    pub next: Option<Next>,
    /// How the page before comes.
    pub previous: Option<Next>,
    /// What says that there is no next page, besides a page that shows the same again.
    pub end: Vec<Pattern>,
}

/// Which rows a record has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RecordSize {
    /// Each has so many.
    Rows(usize),
    /// From one for which this holds until the next one; it may go on with the next page.
    Start(RowTest),
    /// Those between rows for which this holds, or the ends of the page.
    Delimiter(RowTest),
}

impl RecordSize {
    /// False where a record may go on with the next page.
    pub(crate) fn ends_with_its_page(&self) -> bool {
        !matches!(self, RecordSize::Start(_))
    }
}

/// A test of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowTest {
    /// `blank`: nothing stands in it.
    Blank,
    /// `ORDER @ 2`: a text begins at a column of the screen.
    Shows {
        /// What the row shows.
        text: String,
        /// Where it begins, from 1.
        column: usize,
    },
    /// `text id`: anything stands in a column of the recordset.
    AnyText(Named),
    /// `number id`: a number stands there.
    Number(Named),
}

impl RowTest {
    fn parse(Named { name, line, column: at }: &Named) -> Option<RowTest> {
        if let Some((text, column)) = name.rsplit_once('@') {
            let text = text.strip_suffix(' ').unwrap_or(text).to_owned();
            let column = column.trim().parse().ok().filter(|column| *column > 0)?;
            return (!text.trim().is_empty()).then_some(RowTest::Shows { text, column });
        }
        let column = |name: &str| Named { name: name.to_owned(), line: *line, column: *at };
        match name.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["blank"] => Some(RowTest::Blank),
            ["text", name] => Some(RowTest::AnyText(column(name))),
            ["number", name] => Some(RowTest::Number(column(name))),
            _ => None,
        }
    }

    /// The column that it looks at.
    pub(super) fn column(&self) -> Option<&Named> {
        match self {
            RowTest::AnyText(name) | RowTest::Number(name) => Some(name),
            RowTest::Blank | RowTest::Shows { .. } => None,
        }
    }
}

/// `text id`, `number id` or `ORDER @ 2`: a record begins with such a row.
#[derive(JsonSchema)]
struct StartWhen(
    #[schemars(with = "String", regex(pattern = r"^(text|number) +\S+$|\S *@ *[1-9][0-9]*$"))]
    RowTest,
);

impl<'de> Deserialize<'de> for StartWhen {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Named::deserialize(deserializer)?;
        let test = RowTest::parse(&written).filter(|test| *test != RowTest::Blank);
        test.map(StartWhen).ok_or_else(|| {
            let how = "'text id', 'number id' or 'ORDER @ 2'";
            D::Error::custom(format!("'{}' begins no record: write it as in {how}", written.name))
        })
    }
}

/// `blank` or `---- @ 2`: records stand between such rows.
#[derive(JsonSchema)]
struct Delimiter(
    #[schemars(with = "String", regex(pattern = r"^blank$|\S *@ *[1-9][0-9]*$"))] RowTest,
);

impl<'de> Deserialize<'de> for Delimiter {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let written = Named::deserialize(deserializer)?;
        let test = RowTest::parse(&written).filter(|test| test.column().is_none());
        test.map(Delimiter).ok_or_else(|| {
            let how = "'blank' or '---- @ 2'";
            D::Error::custom(format!("'{}' stands between no records: write {how}", written.name))
        })
    }
}

/// What stands in the file.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Written {
    /// What it is called.
    name: Named,
    /// The rows of the screen that it has.
    area: Rows,
    /// Rows of each record; unset: 1.
    height: Option<usize>,
    /// In place of that: what the first row of a record shows, `text id`, `number id` or
    /// `ORDER @ 2`.
    start_when: Option<StartWhen>,
    /// In place of that: the rows between records, `blank` or `---- @ 2`.
    delimiter: Option<Delimiter>,
    /// What a record has.
    columns: Entries<ModelColumn>,
    /// A record in which this column is blank is none: `blank id`.
    skip: Option<SkipBlank>,
    /// How the next page comes; unset: there is one page.
    next: Option<Next>,
    /// How the page before comes.
    previous: Option<Next>,
    /// What says that there is no next page, besides a page that shows the same again.
    #[serde(default)]
    end: Vec<Pattern>,
}

impl TryFrom<Written> for Recordset {
    type Error = String;

    fn try_from(written: Written) -> Result<Recordset, String> {
        let Written { name, area, height, start_when, delimiter, columns, .. } = written;
        let size = match (height, start_when, delimiter) {
            (height, None, None) => RecordSize::Rows(height.unwrap_or(1)),
            (None, Some(StartWhen(test)), None) => RecordSize::Start(test),
            (None, None, Some(Delimiter(test))) => RecordSize::Delimiter(test),
            _ => {
                let name = name.name;
                return Err(format!("'{name}' has one of 'height', 'start_when' and 'delimiter'"));
            }
        };
        if let RecordSize::Rows(height) = size {
            let rows = area.last - area.first + 1;
            if height == 0 || !rows.is_multiple_of(height) {
                let what = format!("the {rows} rows of '{}' are no records", name.name);
                return Err(format!("{what} of {height} rows"));
            }
            let is_within = |rows: RecordRows| rows.first() <= height;
            if let Some(column) = columns.iter().find(|it| !is_within(it.value.rows)) {
                let column = &column.key.name;
                return Err(format!("'{column}' stands in a row that the record has not"));
            }
        }
        let Written { skip, next, previous, end, .. } = written;
        Ok(Recordset { name, area, size, columns, skip, next, previous, end })
    }
}

/// How a recordset goes on.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Next {
    /// The key for the page.
    pub key: HostKey,
}

/// `blank id`: records without it are left out.
#[derive(Clone, Debug, PartialEq, Eq, JsonSchema)]
pub struct SkipBlank(#[schemars(with = "String", regex(pattern = r"^blank +\S"))] pub Named);

impl<'de> Deserialize<'de> for SkipBlank {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Named { name, line, column } = Named::deserialize(deserializer)?;
        let column_name = name.strip_prefix("blank ").map(str::trim).ok_or_else(|| {
            D::Error::custom(format!("'{name}' skips nothing: write it as in 'blank id'"))
        })?;
        Ok(SkipBlank(Named { name: column_name.to_owned(), line, column }))
    }
}
