//! What can go wrong while finding out who someone is. A peer learns less: that it is refused.

use entrepot_db::DbError;
use entrepot_journal::JournalError;

/// Result of this crate.
pub type Result<T> = std::result::Result<T, AuthError>;

/// Why an account could not be resolved or admitted.
#[derive(Debug, thiserror::Error)]
pub enum AuthError {
    /// The database cannot be asked now.
    #[error("accounts cannot be looked up now: {0}")]
    Unavailable(#[from] DbError),
    /// Groups refer to each other in a circle, too deep, or to something that is no group.
    #[error("the groups of account '{account}' cannot be used: {problem}")]
    Groups {
        /// Name of the account whose groups they are, directly or by other groups.
        account: String,
        /// What is wrong, and what to do.
        problem: String,
    },
    /// A mount's prefix does not give a path for this account.
    #[error("the mount '{mount}' gives account '{account}' no path: {problem}")]
    Mount {
        /// Name of the mount, which may belong to a group of the account.
        mount: String,
        /// Name of the account that should see it.
        account: String,
        /// What is wrong with its prefix or its endpoint.
        problem: String,
    },
    /// The account is refused.
    #[error("account '{account}' is refused: {reason}")]
    Refused {
        /// The name that was asked for, whether or not an account has it.
        account: String,
        /// Why, for operators.
        reason: String,
    },
    /// The refusal or login could not be recorded.
    #[error("the audit record cannot be written: {0}")]
    Journal(#[from] JournalError),
}

impl AuthError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            AuthError::Unavailable(_) => "EP0301",
            AuthError::Groups { .. } => "EP0302",
            AuthError::Mount { .. } => "EP0303",
            AuthError::Refused { .. } => "EP0304",
            AuthError::Journal(_) => "EP0305",
        }
    }
}
