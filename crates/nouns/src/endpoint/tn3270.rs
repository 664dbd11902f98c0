//! Hosts whose applications are screens of the 3270 family.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::noun::FieldError;
use crate::period::Period;

/// A mainframe host, as models of its applications reach it over TN3270 or TN3270E.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tn3270Target {
    /// Host name or address.
    pub host: String,
    /// TCP port; unset: 23, with implicit TLS 992.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// When TLS begins.
    #[serde(default, skip_serializing_if = "is_default")]
    pub tls: Tn3270Tls,
    /// Pinned certificates of the host, as SHA-256 fingerprints; unset: its certificate is checked
    /// by `authorities`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<String>,
    /// Authorities that sign its certificate, PEM; unset: those this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// The terminal that we are, such as `IBM-3278-2-E`; unset: as the model says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<String>,
    /// The code page of the host, such as 37 or 1047; unset: as the model says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub codepage: Option<u16>,
    /// Names of logical units, tried one after another; none: as the model says, or the host
    /// chooses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lu: Vec<String>,
    /// Longest time for connecting, and for each answer of the host.
    #[serde(default = "patience", skip_serializing_if = "is_patience")]
    pub patience: Period,
}

/// When TLS begins on a connection to a host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Tn3270Tls {
    /// When the host asks for it by the option STARTTLS; never, if it does not.
    #[default]
    WhenAsked,
    /// With the first byte.
    Implicit,
}

const fn patience() -> Period {
    Period::from_seconds(30)
}

fn is_patience(period: &Period) -> bool {
    *period == patience()
}

impl Tn3270Target {
    /// A host, with all else as where a document leaves it away.
    pub fn new(host: &str) -> Tn3270Target {
        Tn3270Target {
            host: host.to_owned(),
            port: None,
            tls: Tn3270Tls::default(),
            certificates: Vec::new(),
            authorities: None,
            terminal: None,
            codepage: None,
            lu: Vec::new(),
            patience: patience(),
        }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port.unwrap_or(match self.tls {
            Tn3270Tls::WhenAsked => 23,
            Tn3270Tls::Implicit => 992,
        })
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        let flaw =
            |field: &str, text: &str| Err(FieldError::new(format!("target.tn3270.{field}"), text));
        let is_host = |letter: char| letter.is_alphanumeric() || "-._:".contains(letter);
        if self.host.is_empty() || !self.host.chars().all(is_host) {
            return flaw("host", "name the host: a name or an address, without a port");
        }
        if self.port == Some(0) {
            return flaw("port", "give a port from 1 to 65535");
        }
        if self.patience == Period::from_seconds(0) {
            return flaw("patience", "give at least 1s");
        }
        Ok(())
    }
}
