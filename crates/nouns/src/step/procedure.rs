//! The step that calls a procedure of a host application.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepFlaw;
use crate::document::is_default;
use crate::name::Name;

/// Call a procedure of a host application. Later steps work on a file of what it gives.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProcedureSpec {
    /// The model of the application.
    pub model: Name,
    /// The procedure of it.
    pub call: String,
    /// Its parameters; placeholders as in `deliver`.
    #[serde(rename = "in", default, skip_serializing_if = "BTreeMap::is_empty")]
    pub input: BTreeMap<String, String>,
    /// What the file is.
    #[serde(default, skip_serializing_if = "is_default")]
    pub format: ProcedureFormat,
    /// Of CSV: the recordset that is written. Unset: the only one that the procedure gives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<String>,
    /// What the file is called; placeholders as in `deliver`.
    pub name: String,
}

/// What the file of a procedure is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProcedureFormat {
    /// One recordset, as CSV with a line of column names (RFC 4180).
    #[default]
    Csv,
    /// All that the procedure gives, as one object of JSON.
    Json,
}

impl ProcedureSpec {
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        if self.call.trim().is_empty() {
            return Err(("procedure.call", "name a procedure of the model"));
        }
        if self.format == ProcedureFormat::Json && self.rows.is_some() {
            return Err(("procedure.rows", "is for CSV: JSON has all that the procedure gives"));
        }
        if self.name.trim().is_empty() {
            return Err(("procedure.name", "say what the file is called"));
        }
        Ok(())
    }
}
