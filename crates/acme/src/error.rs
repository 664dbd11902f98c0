//! Why there is no certificate. Each code has a page in `docs/errors`.

use std::time::Duration;

use entrepot_admin::AdminError;
use entrepot_crypto::seal::SealError;
use entrepot_db::DbError;
use entrepot_net::http::HttpError;
use entrepot_net::tls::TlsConfigError;
use entrepot_nouns::acme::AcmeChallenge;
use instant_acme::{Error, Problem};
use thiserror::Error;

use crate::limits::{ORDER_TIME, PROBLEM_LETTERS};

/// What errors of authorities begin with (RFC 8555 §6.7).
const ACME_ERROR: &str = "urn:ietf:params:acme:error:";

/// Why an authority gave no certificate, or why one that it gave cannot be used.
#[derive(Debug, Error)]
pub enum AcmeError {
    /// No connection, or no answer.
    #[error("the authority cannot be reached: {0}")]
    Unreachable(Box<HttpError>),
    /// A name does not lead here, as far as the authority sees.
    #[error(
        "the authority could not verify '{name}' by {}: {problem}",
        challenge.as_str()
    )]
    Unverified {
        /// The name that was checked.
        name: String,
        /// How it was checked.
        challenge: AcmeChallenge,
        /// What the authority says.
        problem: String,
    },
    /// The authority does not do what it was asked for.
    #[error("the authority refused: {0}")]
    Refused(String),
    /// It takes no nonce that it has given (RFC 8555 §6.5).
    #[error("the authority refused: {0}")]
    StaleNonce(String),
    /// It was asked too often.
    #[error("the authority was asked too often: {0}")]
    TooOften(String),
    /// What the authority says makes no sense.
    #[error("the authority gave an answer that cannot be used: {0}")]
    Answer(String),
    /// The authority took too long.
    #[error("the authority did not decide within {ORDER_TIME:?}")]
    Timeout,
    /// The account at the authority cannot be opened, or not be sealed.
    #[error("the account at the authority: {0}")]
    Account(SealError),
    /// The certificate that came cannot be used.
    #[error(transparent)]
    Certificate(#[from] TlsConfigError),
    /// The database is away, or failed.
    #[error(transparent)]
    Database(#[from] DbError),
    /// The certificate could not be kept.
    #[error(transparent)]
    Keep(Box<AdminError>),
}

impl AcmeError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            AcmeError::Unreachable(_) => "EP1130",
            AcmeError::Unverified { .. } => "EP1131",
            AcmeError::Refused(_) | AcmeError::StaleNonce(_) => "EP1132",
            AcmeError::TooOften(_) => "EP1133",
            AcmeError::Answer(_) => "EP1135",
            AcmeError::Timeout => "EP1136",
            AcmeError::Account(_) => "EP1137",
            AcmeError::Certificate(error) => error.code(),
            AcmeError::Database(error) => error.code(),
            AcmeError::Keep(error) => error.code(),
        }
    }

    /// What an authority says is wrong, in one line.
    pub(crate) fn said(problem: &Problem) -> String {
        let detail = problem.detail.as_deref().or(problem.r#type.as_deref());
        let detail = detail.unwrap_or("it gives no reason");
        let line = detail.split_whitespace().collect::<Vec<_>>().join(" ");
        line.chars().filter(|letter| !letter.is_control()).take(PROBLEM_LETTERS).collect()
    }
}

/// True if the authority does not know the account any more.
pub(crate) fn is_unknown_account(error: &Error) -> bool {
    matches!(error, Error::Api(problem) if kind_of(problem) == Some("accountDoesNotExist"))
}

fn kind_of(problem: &Problem) -> Option<&str> {
    problem.r#type.as_deref()?.strip_prefix(ACME_ERROR)
}

impl From<AdminError> for AcmeError {
    fn from(error: AdminError) -> Self {
        AcmeError::Keep(Box::new(error))
    }
}

impl From<Error> for AcmeError {
    fn from(error: Error) -> Self {
        match error {
            Error::Api(problem) => {
                let said = AcmeError::said(&problem);
                match kind_of(&problem) {
                    Some("rateLimited") => AcmeError::TooOften(said),
                    Some("badNonce") => AcmeError::StaleNonce(said),
                    _ => AcmeError::Refused(said),
                }
            }
            Error::Other(error) => match error.downcast::<HttpError>() {
                Ok(error) => AcmeError::Unreachable(error),
                Err(error) => AcmeError::Answer(error.to_string()),
            },
            error => AcmeError::Answer(error.to_string()),
        }
    }
}

/// How an order ended that gave no certificate.
#[derive(Debug)]
pub(crate) struct Failed {
    pub(crate) error: AcmeError,
    /// The authority wants to be left alone for so long.
    pub(crate) wait: Option<Duration>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(kind: &str, detail: &str) -> Error {
        let json = format!(r#"{{"type":"{ACME_ERROR}{kind}","detail":"{detail}"}}"#);
        Error::Api(serde_json::from_str(&json).unwrap())
    }

    #[test]
    fn what_authorities_say_has_a_code_and_one_line() {
        let long = "x".repeat(2 * PROBLEM_LETTERS);
        for (error, code, text) in [
            (problem("rateLimited", "too many\\nnew orders"), "EP1133", "too many new orders"),
            (problem("rejectedIdentifier", "no such domain"), "EP1132", "no such domain"),
            (problem("malformed", &long), "EP1132", "xxx"),
            (problem("badNonce", "unknown nonce"), "EP1132", "unknown nonce"),
            (Error::Str("no order URL found"), "EP1135", "no order URL found"),
            (Error::Other(Box::new(HttpError::TooLong(7))), "EP1130", "longer than 7 bytes"),
            (Error::Other("other".into()), "EP1135", "other"),
        ] {
            let error = AcmeError::from(error);
            assert_eq!(error.code(), code, "{error}");
            let shown = error.to_string();
            assert!(shown.contains(text) && shown.len() < 600 && !shown.contains('\n'), "{shown}");
        }
        let stale = AcmeError::from(problem("badNonce", ""));
        assert!(matches!(stale, AcmeError::StaleNonce(_)), "{stale:?}");
        assert!(is_unknown_account(&problem("accountDoesNotExist", "")));
        assert!(!is_unknown_account(&problem("malformed", "")));
    }
}
