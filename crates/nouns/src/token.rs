//! What API tokens may be used for.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::mount::{Right, Rights};

/// One use that an API token is made for. What it allows never exceeds what its account may do.
#[derive(
    Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize, JsonSchema,
)]
pub enum TokenScope {
    /// List and read files.
    #[serde(rename = "files:read")]
    FilesRead,
    /// Create, replace, rename and remove files and directories; it lists and reads nothing.
    #[serde(rename = "files:write")]
    FilesWrite,
    /// Read the audit log.
    #[serde(rename = "audit:read")]
    AuditRead,
    /// Read the configuration and the state of the server.
    #[serde(rename = "admin:read")]
    AdminRead,
    /// Change what the role of the account may change.
    #[serde(rename = "admin:write")]
    AdminWrite,
}

/// A scope and all that follows from it for files.
struct ScopeRow {
    word: &'static str,
    rights: &'static [Right],
}

impl TokenScope {
    /// Every scope, in the order in which documents list them.
    pub const ALL: [TokenScope; 5] = [
        TokenScope::FilesRead,
        TokenScope::FilesWrite,
        TokenScope::AuditRead,
        TokenScope::AdminRead,
        TokenScope::AdminWrite,
    ];

    fn row(self) -> ScopeRow {
        let (word, rights): (_, &[Right]) = match self {
            TokenScope::FilesRead => ("files:read", &[Right::List, Right::Read]),
            TokenScope::FilesWrite => (
                "files:write",
                &[Right::Write, Right::Overwrite, Right::Delete, Right::Rename, Right::Directories],
            ),
            TokenScope::AuditRead => ("audit:read", &[]),
            TokenScope::AdminRead => ("admin:read", &[]),
            TokenScope::AdminWrite => ("admin:write", &[]),
        };
        ScopeRow { word, rights }
    }

    /// The word in documents.
    pub fn as_str(self) -> &'static str {
        self.row().word
    }

    /// Rights on files that a token of these scopes leaves to its account.
    pub fn rights_of(scopes: &[TokenScope]) -> Rights {
        scopes.iter().flat_map(|scope| scope.row().rights).copied().collect()
    }
}

impl fmt::Display for TokenScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for TokenScope {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = TokenScope::ALL.into_iter().find(|scope| scope.as_str() == text);
        found.ok_or_else(|| {
            let all = TokenScope::ALL.map(TokenScope::as_str).join(", ");
            format!("'{text}' is no scope; use one of {all}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_of_files_divide_the_rights() {
        use TokenScope::{AdminRead, AdminWrite, AuditRead, FilesRead, FilesWrite};
        assert_eq!(TokenScope::rights_of(&[]), Rights::none());
        assert_eq!(TokenScope::rights_of(&[FilesRead]), Rights::read_only());
        assert!(TokenScope::rights_of(&[FilesRead, FilesWrite]).is_all());
        assert!(!TokenScope::rights_of(&[FilesWrite]).has(Right::Read));
        let others = [AuditRead, AdminRead, AdminWrite];
        assert_eq!(TokenScope::rights_of(&others), Rights::none());
    }

    #[test]
    fn the_words_are_those_of_documents() {
        for scope in TokenScope::ALL {
            assert_eq!(serde_json::to_value(scope).unwrap(), scope.as_str());
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        assert!("files".parse::<TokenScope>().unwrap_err().contains("files:read"));
    }
}
