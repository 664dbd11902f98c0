//! Facts that a newer program recorded.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::Fact;

/// A fact of a kind that this program does not know: JSON as a newer one wrote it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Map<String, Value>", into = "Map<String, Value>")]
pub struct UnknownFact {
    kind: String,
    fields: Map<String, Value>,
}

impl UnknownFact {
    /// The word that the newer program uses for it.
    pub fn kind(&self) -> &str {
        &self.kind
    }

    /// All other fields.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }
}

impl TryFrom<Map<String, Value>> for UnknownFact {
    type Error = String;

    /// A kind that this program knows, with fields that it does not understand, is no fact of a
    /// newer program but a damaged one.
    fn try_from(mut fields: Map<String, Value>) -> Result<Self, String> {
        let Some(Value::String(kind)) = fields.remove("kind") else {
            return Err("an event has no kind".to_owned());
        };
        if Fact::KINDS.contains(&kind.as_str()) {
            return Err(format!("an event of kind '{kind}' has fields that cannot be read"));
        }
        Ok(UnknownFact { kind, fields })
    }
}

impl From<UnknownFact> for Map<String, Value> {
    fn from(UnknownFact { kind, mut fields }: UnknownFact) -> Self {
        fields.insert("kind".to_owned(), Value::String(kind));
        fields
    }
}
