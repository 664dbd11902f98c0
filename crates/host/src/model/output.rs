//! What a procedure gives, as its model says it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::entries::{Entries, Entry, Scalar};
use super::items::ColumnKind;

/// One part of what a procedure gives.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(try_from = "Written")]
#[schemars(with = "Written")]
pub enum Output {
    /// `integer`: the field of this name that was read, in this type in place of its own. An
    /// integer `count`, where no field has this name: how many records the list has.
    Field(ColumnKind),
    /// `Loan`: the fields of an entity, as an object.
    Entity(String),
    /// `[Loans.rows, {detail: Loan}]`: the records of a recordset.
    Rows(OutputRows),
}

/// Records that a procedure gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputRows {
    /// The entity that has the recordset.
    pub entity: String,
    /// The recordset, or `rows`: an entity has one.
    pub rows: String,
    /// What each record has besides its columns: the fields of an entity, as an object. They are
    /// read by what an `each` does.
    pub parts: Vec<(String, String)>,
}

/// `integer`, `string`, `decimal`, `number` or `date(DD.MM.YYYY)`; an entity; or a list of records.
#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum Written {
    /// A type, or an entity whose fields become an object.
    One(String),
    /// The records of a recordset, `Loans.rows`, and what stands in each besides.
    List(Vec<WrittenPart>),
}

#[derive(Deserialize, JsonSchema)]
#[serde(untagged)]
enum WrittenPart {
    /// The recordset: `Loans.rows`.
    Rows(String),
    /// Entities whose fields are read in each record: `{detail: Loan}`.
    Parts(Entries<Scalar>),
}

impl TryFrom<Written> for Output {
    type Error = String;

    fn try_from(written: Written) -> Result<Output, String> {
        let list = match written {
            Written::One(word) => {
                let kind = ColumnKind::of_type(&word);
                return Ok(kind.map_or(Output::Entity(word), Output::Field));
            }
            Written::List(list) => list,
        };
        let wrong = || "a list is written as in '[Loans.rows, {detail: Loan}]'".to_owned();
        let mut list = list.into_iter();
        let Some(WrittenPart::Rows(name)) = list.next() else { return Err(wrong()) };
        let (entity, rows) = name.split_once('.').ok_or_else(wrong)?;
        let mut parts = Vec::new();
        for part in list {
            let WrittenPart::Parts(entries) = part else { return Err(wrong()) };
            parts.extend(entries.0.into_iter().map(|it| (it.key.name, it.value.0)));
        }
        let (entity, rows) = (entity.to_owned(), rows.to_owned());
        Ok(Output::Rows(OutputRows { entity, rows, parts }))
    }
}

/// The name of an output that counts records.
const COUNT: &str = "count";

/// True for an output that counts records, where nothing is read under its name.
pub(crate) fn is_count(output: &Entry<Output>) -> bool {
    output.key.name == COUNT && output.value == Output::Field(ColumnKind::Integer)
}

impl Entries<Output> {
    /// In which type a field is given, if it is said.
    pub(crate) fn kind_of(&self, field: &str) -> Option<&ColumnKind> {
        match self.value(field)? {
            Output::Field(kind) => Some(kind),
            _ => None,
        }
    }

    /// The lists that are given.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (&str, &OutputRows)> {
        self.iter().filter_map(|Entry { key, value }| match value {
            Output::Rows(rows) => Some((key.name.as_str(), rows)),
            _ => None,
        })
    }

    /// The list of an entity's records.
    pub(crate) fn list_of(&self, entity: &str) -> Option<&OutputRows> {
        self.lists().map(|(_, rows)| rows).find(|rows| rows.entity == entity)
    }
}
