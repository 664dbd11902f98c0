//! Where a page of a list begins, as a text that clients hand back unread.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_db::RowPosition;
use entrepot_nouns::{Name, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::error::{AdminError, Result};
use crate::limits;

/// Where a page begins. Its text means something to the list that gave it only.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Cursor(String);

impl Cursor {
    /// A cursor as a client hands it back; it is read with the list.
    pub fn new(text: impl Into<String>) -> Self {
        Cursor(text.into())
    }

    /// The text for the client.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a cursor says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Position {
    /// Behind the noun of this name, by name.
    Name(Name),
    /// Behind a noun of a list in another order.
    Sorted {
        /// The order, as the request names it.
        sort: String,
        /// What the noun had in the field.
        value: Value,
        /// The name of the noun.
        name: Name,
    },
    /// Behind a row of a list that is ordered by a time.
    Row {
        /// The time by which the list is ordered.
        at: Timestamp,
        /// The id of the row.
        id: Uuid,
    },
}

impl Position {
    /// The cursor that says this.
    pub(crate) fn cursor(&self) -> Result<Cursor> {
        let text = serde_json::to_vec(self).map_err(|error| AdminError::Internal {
            what: "writing a cursor",
            problem: error.to_string(),
        })?;
        Ok(Cursor(URL_SAFE_NO_PAD.encode(text)))
    }

    pub(crate) fn of(cursor: &Cursor) -> Result<Self> {
        let unreadable = |problem: &str| AdminError::Cursor { problem: problem.to_owned() };
        if cursor.0.len() > limits::CURSOR_BYTES {
            return Err(unreadable("it is too long"));
        }
        let text = URL_SAFE_NO_PAD.decode(&cursor.0);
        let text = text.map_err(|_| unreadable("it was changed on its way"))?;
        serde_json::from_slice(&text).map_err(|_| unreadable("it says nothing"))
    }

    /// The row behind which a list by time goes on.
    pub(crate) fn row(cursor: &Cursor) -> Result<RowPosition> {
        match Position::of(cursor)? {
            Position::Row { at, id } => Ok(RowPosition { at, id }),
            Position::Name(_) | Position::Sorted { .. } => Err(of_another_list()),
        }
    }
}

/// A cursor of one list was given to another.
pub(crate) fn of_another_list() -> AdminError {
    AdminError::Cursor { problem: "it is of another list".to_owned() }
}
