//! What statements are made of: text that exists at compile time, values that are bound.
//!
//! A [`Sql`] can be made from a literal only, by [`statements!`]; the connections take nothing
//! else. So no code outside of a literal, and nothing that arrives at run time, can become SQL.

use entrepot_nouns::{Name, Timestamp};
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::error::{DbError, Result};

/// One static statement. Its parameters are `$1`, `$2`, … in the order of their first appearance,
/// so that PostgreSQL (by number) and SQLite (by place) read them the same.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql(&'static str);

impl Sql {
    /// For [`statements!`] only.
    pub(crate) const fn literal(text: &'static str) -> Self {
        Sql(text)
    }

    /// The statement as both databases parse it.
    pub(crate) fn text(self) -> &'static str {
        self.0
    }
}

/// A static statement from literals: `sql!("SELECT ", "1")`.
macro_rules! sql {
    ($($text:expr),+ $(,)?) => { $crate::sql::Sql::literal(concat!($($text),+)) };
}
pub(crate) use sql;

/// Declares the statements of a file, and the list of them (`ALL`) that the test prepares.
macro_rules! statements {
    ($($(#[$doc:meta])* $name:ident = $text:expr;)+) => {
        $($(#[$doc])* const $name: $crate::sql::Sql = $text;)+
        /// Every statement of this file.
        #[cfg(test)]
        pub(crate) const ALL: &[$crate::sql::Sql] = &[$($name),+];
    };
}
pub(crate) use statements;

/// A bound value. `None` is NULL of that type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    Text(Option<String>),
    Int(Option<i64>),
    Id(Option<Uuid>),
    Bool(bool),
}

impl Value {
    /// Text. U+0000, which PostgreSQL cannot store, becomes U+FFFD in both databases.
    pub(crate) fn text(text: impl Into<String>) -> Value {
        let text = text.into();
        Value::Text(Some(if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }))
    }

    /// Text or NULL.
    pub(crate) fn maybe_text<T: AsRef<str>>(text: Option<T>) -> Value {
        text.map_or(Value::Text(None), |text| Value::text(text.as_ref()))
    }

    /// An unsigned number; one above `i64::MAX` is stored as that.
    pub(crate) fn unsigned(number: u64) -> Value {
        Value::Int(Some(i64::try_from(number).unwrap_or(i64::MAX)))
    }
}

impl From<&Name> for Value {
    fn from(name: &Name) -> Value {
        Value::text(name.as_str())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Value {
        Value::text(text)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Int(Some(number))
    }
}

impl From<Timestamp> for Value {
    fn from(at: Timestamp) -> Value {
        Value::Int(Some(at.micros()))
    }
}

impl From<Option<Timestamp>> for Value {
    fn from(at: Option<Timestamp>) -> Value {
        Value::Int(at.map(Timestamp::micros))
    }
}

impl From<Uuid> for Value {
    fn from(id: Uuid) -> Value {
        Value::Id(Some(id))
    }
}

impl From<Option<Uuid>> for Value {
    fn from(id: Option<Uuid>) -> Value {
        Value::Id(id)
    }
}

/// A row of an answer; columns count from 0.
pub(crate) enum Row<'a> {
    Sqlite(&'a rusqlite::Row<'a>),
    Postgres(&'a tokio_postgres::Row),
}

/// Reads one row; a plain function, so that it can run on the thread of the connection.
pub(crate) type Reader<T> = fn(&Row<'_>) -> Result<T>;

fn column<E: std::fmt::Display>(index: usize) -> impl FnOnce(E) -> DbError {
    move |error| DbError::Corrupt(format!("column {index}: {error}"))
}

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $type:ty;)+) => { $(
        $(#[$doc])*
        pub(crate) fn $name(&self, index: usize) -> Result<$type> {
            match self {
                Row::Sqlite(row) => row.get(index).map_err(column(index)),
                Row::Postgres(row) => row.try_get(index).map_err(column(index)),
            }
        }
    )+ };
}

impl Row<'_> {
    columns! {
        /// A number.
        int: i64;
        /// A number or NULL.
        maybe_int: Option<i64>;
        /// Text.
        text: String;
        /// Text or NULL.
        maybe_text: Option<String>;
        /// An identifier.
        id: Uuid;
        /// An identifier or NULL.
        maybe_id: Option<Uuid>;
        /// A truth value.
        bool: bool;
    }

    /// A number that is never negative.
    pub(crate) fn unsigned(&self, index: usize) -> Result<u64> {
        u64::try_from(self.int(index)?).map_err(column(index))
    }

    /// A small number that is never negative.
    pub(crate) fn small(&self, index: usize) -> Result<u32> {
        u32::try_from(self.int(index)?).map_err(column(index))
    }

    /// A point in time.
    pub(crate) fn time(&self, index: usize) -> Result<Timestamp> {
        Ok(Timestamp(self.int(index)?))
    }

    /// A name of a noun; text that is no valid name is [`DbError::Corrupt`].
    pub(crate) fn name(&self, index: usize) -> Result<Name> {
        self.text(index)?.parse().map_err(column(index))
    }

    /// A name or NULL.
    pub(crate) fn maybe_name(&self, index: usize) -> Result<Option<Name>> {
        self.maybe_text(index)?.map(|text| text.parse().map_err(column(index))).transpose()
    }

    /// A JSON document.
    pub(crate) fn json<T: DeserializeOwned>(&self, index: usize) -> Result<T> {
        serde_json::from_str(&self.text(index)?).map_err(column(index))
    }

    /// A word of an enum, spelt as in JSON.
    pub(crate) fn word<T: DeserializeOwned>(&self, index: usize) -> Result<T> {
        let word = serde_json::Value::String(self.text(index)?);
        serde_json::from_value(word).map_err(column(index))
    }
}

/// The JSON form of what is stored as a body.
pub(crate) fn to_json<T: serde::Serialize>(body: &T) -> Result<String> {
    serde_json::to_string(body).map_err(|e| DbError::Sql(format!("a body has no JSON form: {e}")))
}
