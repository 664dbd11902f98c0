//! A certificate of a listener from an authority (ACME), as answers show it.

use entrepot_nouns::acme::AcmeChallenge;
use entrepot_nouns::site::HostName;
use entrepot_nouns::{Name, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A certificate that a listener has, or is to have, from an authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateRow {
    /// The listener that shows it.
    pub listener: Name,
    /// How it stands.
    pub state: CertificateState,
    /// The names in it.
    pub names: Vec<HostName>,
    /// The directory of the authority.
    pub directory: String,
    /// How the authority checks that the names lead here.
    pub challenge: AcmeChallenge,
    /// The one that is shown counts until then; unset: none has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_after: Option<Timestamp>,
    /// The authority is asked for the next one then; unset: now, or when `failure` says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub renews_at: Option<Timestamp>,
    /// Why the authority did not give one when it was asked last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<CertificateFailure>,
}

/// How a certificate from an authority stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CertificateState {
    /// It came, and the next one is asked for in time.
    Valid,
    /// The authority is about to be asked for it, or for the next one.
    Waiting,
    /// The authority did not give it, or the next one; it is asked again.
    Failed,
}

impl CertificateState {
    /// The word in lists.
    pub fn as_str(self) -> &'static str {
        match self {
            CertificateState::Valid => "valid",
            CertificateState::Waiting => "waiting",
            CertificateState::Failed => "failed",
        }
    }
}

/// Why an authority gave no certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CertificateFailure {
    /// The code of the page that says what to do.
    pub code: String,
    /// What was wrong at the last try.
    pub problem: String,
    /// How often it has failed in a row.
    pub failures: u64,
    /// It is tried again then.
    pub retry_at: Timestamp,
}
