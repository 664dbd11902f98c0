//! What a plan of the configuration says.

use entrepot_nouns::{Kind, Name};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One noun that a plan touches.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedChange {
    /// What happens to it.
    pub action: Action,
    /// Of which kind it is.
    pub kind: Kind,
    /// The name of the noun.
    pub name: Name,
    /// What changes inside it; secrets are shown as `***`.
    pub fields: Vec<FieldChange>,
}

/// What happens to a noun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Action {
    /// It does not exist yet.
    Create,
    /// It differs in some field.
    Change,
    /// It is the same already.
    Unchanged,
    /// Only of a plan: nothing else differs, but a password is given in clear text, and whether it
    /// is the stored one is seen when it is applied.
    Compare,
    /// The documents do not name it, and pruning was asked for.
    Delete,
}

/// One field that changes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FieldChange {
    /// Path of the field, such as `quota.files`.
    pub field: String,
    /// The old value, absent if there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<Value>,
    /// The new value, absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<Value>,
}
