//! The step that sends a message of AS2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StepFlaw;
use crate::name::Name;

/// Sends the file that the steps work on to a partner of AS2, and waits for its receipt.
///
/// Each attempt has the same Message-ID, by which the partner knows a message that comes again. It
/// leaves `message_id`, `disposition`, `mic` and `verified`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct As2Spec {
    /// An endpoint of kind `as2` that has a `url`; its `send` says how the message is made.
    pub endpoint: Name,
    /// What the file is called there: a name without directories; placeholders as in paths.
    #[serde(default = "name_pattern", skip_serializing_if = "is_name_pattern")]
    pub name: String,
    /// The media type of the file, such as `application/edi-x12`; placeholders as in paths. Unset:
    /// by the extension of its name, `application/octet-stream` if that says nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// One line for people; placeholders as in paths.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
}

fn name_pattern() -> String {
    "{name}".to_owned()
}

fn is_name_pattern(pattern: &str) -> bool {
    pattern == "{name}"
}

impl As2Spec {
    pub(crate) fn check(&self) -> Result<(), StepFlaw> {
        if self.name.trim().is_empty() {
            return Err(("as2.name", "say what the file is called there"));
        }
        if self.content_type.as_ref().is_some_and(|it| !it.contains(['/', '{'])) {
            return Err(("as2.content_type", "is a media type such as application/edi-x12"));
        }
        Ok(())
    }
}
