//! TLS of a listener: its certificate, and what it asks of clients.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::acme::Acme;
use crate::name::Name;

/// TLS of a listener, whatever its protocol; when TLS begins is the protocol's own matter.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ListenerTls {
    /// The key of type `tls`. Unset: one is made at first start and named `<listener>-tls`, signed
    /// by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Name>,
    /// The certificate comes from an authority, is renewed in time, and is kept in the key
    /// `<listener>-tls`. Unset: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub acme: Option<Acme>,
    /// Whether clients are asked for a certificate.
    #[serde(default, skip_serializing_if = "ClientCertificates::is_off")]
    pub client_certificates: ClientCertificates,
    /// Certificates (PEM) of the authorities that must have signed a client's. Unset: any is taken
    /// from a client that has its key, and counts for accounts that list its fingerprint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_authorities: Option<String>,
    /// The oldest version that is spoken.
    #[serde(default, skip_serializing_if = "LeastVersion::is_default")]
    pub least_version: LeastVersion,
}

/// Whether clients are asked for a certificate.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCertificates {
    /// They are not.
    #[default]
    Off,
    /// They may show one.
    Ask,
    /// A handshake without one fails, and without TLS there is no login.
    Require,
}

impl ClientCertificates {
    // The signature is what serde's `skip_serializing_if` asks for.
    fn is_off(&self) -> bool {
        *self == ClientCertificates::Off
    }
}

/// The oldest version of TLS that a listener speaks; none speaks versions before 1.2.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub enum LeastVersion {
    /// TLS 1.2 (RFC 5246).
    #[default]
    #[serde(rename = "tls1.2")]
    Tls12,
    /// TLS 1.3 (RFC 8446).
    #[serde(rename = "tls1.3")]
    Tls13,
}

impl LeastVersion {
    // The signature is what serde's `skip_serializing_if` asks for.
    fn is_default(&self) -> bool {
        *self == LeastVersion::default()
    }
}

impl ListenerTls {
    /// True if nothing differs from a listener that says nothing about TLS.
    pub fn is_default(&self) -> bool {
        *self == ListenerTls::default()
    }
}
