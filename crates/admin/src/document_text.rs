//! Documents as they come: texts that nobody has read yet.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A text with nouns in it.
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Document {
    /// Named in errors.
    pub file: String,
    /// Any number of YAML documents, separated by `---`.
    pub text: String,
}

impl fmt::Debug for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {} bytes", self.file, self.text.len())
    }
}
