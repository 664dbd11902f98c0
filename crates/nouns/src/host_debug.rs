//! Which sessions with a host application are recorded to find out what went wrong in them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::noun::FieldError;

/// What is recorded of the sessions of a model, and how much of it is kept on each node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct HostDebug {
    /// When a file is written.
    pub level: DebugLevel,
    /// The last messages of a session that are kept in memory: screens, keys and what was done.
    pub messages: u32,
    /// So many files are kept on each node; the oldest are removed.
    pub files: u32,
}

/// When what is recorded of a session is written to a file.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum DebugLevel {
    /// Never; nothing is recorded.
    #[default]
    Nothing,
    /// At each error: what led to it.
    Errors,
    /// At the end of a session in which there was an error.
    ErrorSessions,
    /// At the end of each session.
    Everything,
}

impl Default for HostDebug {
    fn default() -> Self {
        HostDebug { level: DebugLevel::Nothing, messages: 200, files: 100 }
    }
}

impl HostDebug {
    /// Most messages of a session.
    pub const MOST_MESSAGES: u32 = 2_000;
    /// Most files on a node.
    pub const MOST_FILES: u32 = 10_000;

    /// Checks the numbers; `front` is the field that they are in.
    ///
    /// # Errors
    /// One of them is nothing, or too large.
    pub fn check(&self, front: &str) -> Result<(), FieldError> {
        let limits = [
            ("messages", self.messages, Self::MOST_MESSAGES),
            ("files", self.files, Self::MOST_FILES),
        ];
        match limits.into_iter().find(|(_, number, most)| !(1..=*most).contains(number)) {
            None => Ok(()),
            Some((field, _, most)) => {
                let what = format!("give a number from 1 to {most}");
                Err(FieldError::new(format!("{front}.{field}"), what))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_limits() {
        let usual = HostDebug::default();
        assert_eq!(usual.check("debug"), Ok(()));
        for (field, debug) in [
            ("messages", HostDebug { messages: 0, ..usual }),
            ("messages", HostDebug { messages: 2_001, ..usual }),
            ("files", HostDebug { files: 0, ..usual }),
        ] {
            assert_eq!(debug.check("debug").unwrap_err().field, format!("debug.{field}"));
        }
        let written = serde_json::json!({"level": "error-sessions"});
        let read: HostDebug = serde_json::from_value(written).unwrap();
        assert_eq!(read, HostDebug { level: DebugLevel::ErrorSessions, ..usual });
    }
}
