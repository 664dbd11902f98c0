//! Certificates of a listener from a certification authority that speaks ACME (RFC 8555).

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::limits::{ACME_CONTACTS, ACME_NAMES};
use crate::noun::FieldError;
use crate::site::HostName;
use crate::time::Timestamp;

/// Where the certificate of a listener comes from, and how the authority sees that the names in it
/// are ours. Who sets this agrees to the terms of service of the authority.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Acme {
    /// The directory of the authority (RFC 8555 §7.1.1), such as
    /// `https://acme-v02.api.letsencrypt.org/directory`.
    pub directory: String,
    /// Mail addresses at which the authority may reach the operator.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub contact: Vec<String>,
    /// The names of the certificate.
    pub names: Vec<HostName>,
    /// How the authority checks that the names lead here.
    #[serde(default, skip_serializing_if = "is_default")]
    pub challenge: AcmeChallenge,
    /// Authorities (PEM) that sign the certificate of the directory's own server; unset: those
    /// this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// Allow private addresses, for an authority inside one's own network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_private: bool,
}

/// How an authority checks that a name leads here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug, Serialize, Deserialize, JsonSchema)]
pub enum AcmeChallenge {
    /// It fetches a file from port 80 of the name (RFC 8555 §8.3), where a listener of protocol
    /// `http` must answer.
    #[default]
    #[serde(rename = "http-01")]
    Http01,
    /// It opens a connection under TLS to port 443 of the name (RFC 8737), where this listener
    /// must answer.
    #[serde(rename = "tls-alpn-01")]
    TlsAlpn01,
}

impl AcmeChallenge {
    /// The word in documents and of the protocol.
    pub fn as_str(self) -> &'static str {
        match self {
            AcmeChallenge::Http01 => "http-01",
            AcmeChallenge::TlsAlpn01 => "tls-alpn-01",
        }
    }
}

impl Acme {
    /// What the certificate is asked for with: it is renewed at once when this changes.
    pub fn subject(&self) -> AcmeSubject {
        let names = self.names.iter().cloned().collect();
        AcmeSubject { directory: self.directory.clone(), names }
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let host = self.directory.strip_prefix("https://").unwrap_or_default();
        let host = host.split('/').next().unwrap_or_default();
        let is_plain = !self.directory.contains(|it: char| it.is_whitespace() || it.is_control());
        if host.is_empty() || host.contains('@') || !is_plain {
            let problem = "use the https URL of the authority's directory, such as \
                           https://acme-v02.api.letsencrypt.org/directory";
            return Err(FieldError::new("tls.acme.directory", problem));
        }
        let different: BTreeSet<&HostName> = self.names.iter().collect();
        if self.names.is_empty() || self.names.len() > ACME_NAMES {
            let problem = format!("name 1 to {ACME_NAMES} host names of the certificate");
            return Err(FieldError::new("tls.acme.names", problem));
        }
        if different.len() != self.names.len() {
            let problem = "a name stands there twice, remove one";
            return Err(FieldError::new("tls.acme.names", problem));
        }
        let is_mail = |contact: &String| {
            contact.split_once('@').is_some_and(|(user, host)| {
                !user.is_empty() && !user.contains(':') && host.parse::<HostName>().is_ok()
            }) && !contact.contains(|it: char| it.is_whitespace() || it.is_control())
        };
        if self.contact.len() > ACME_CONTACTS || !self.contact.iter().all(is_mail) {
            let problem =
                format!("use up to {ACME_CONTACTS} mail addresses such as ops@files.example");
            return Err(FieldError::new("tls.acme.contact", problem));
        }
        let pem = self.authorities.as_deref();
        if pem.is_some_and(|pem| !pem.contains("-----BEGIN CERTIFICATE-----")) {
            return Err(FieldError::new("tls.acme.authorities", "they are certificates as PEM"));
        }
        Ok(())
    }
}

/// When a certificate that is valid between two times is renewed: at two thirds of that time, so
/// that an authority that is away for long does no harm.
pub fn renewal_time(not_before: Timestamp, not_after: Timestamp) -> Timestamp {
    not_before.plus(not_after.since(not_before) / 3 * 2)
}

/// What a certificate is asked for with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcmeSubject {
    /// The directory of the authority.
    pub directory: String,
    /// The names in it, in order.
    pub names: BTreeSet<HostName>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem(document: &str) -> Option<String> {
        let acme: Acme = match serde_json::from_str(document) {
            Ok(acme) => acme,
            Err(error) => return Some(error.to_string()),
        };
        acme.check().err().map(|error| error.field)
    }

    #[test]
    fn names_are_of_dns_and_the_directory_is_under_tls() {
        let with = |names: &str, directory: &str, rest: &str| {
            problem(&format!(r#"{{"directory":"{directory}","names":[{names}]{rest}}}"#))
        };
        let directory = "https://ca.example/dir";
        assert_eq!(with(r#""Files.example", "localhost""#, directory, ""), None);
        let contact = r#","contact":["ops@files.example"],"challenge":"tls-alpn-01""#;
        assert_eq!(with(r#""files.example""#, directory, contact), None);
        for name in [r#""*.files.example""#, r#""192.0.2.1""#, r#""a b""#, r#""""#] {
            let refused = with(name, directory, "").unwrap();
            assert!(refused.contains("is not a host name"), "{name}: {refused}");
        }
        let names = Some("tls.acme.names".to_owned());
        assert_eq!(with("", directory, ""), names);
        assert_eq!(with(r#""a.example","A.example""#, directory, ""), names);
        for directory in ["http://ca.example/", "https://", "https:///x", "https://a@b/", "ca"] {
            let refused = with(r#""a.example""#, directory, "");
            assert_eq!(refused, Some("tls.acme.directory".to_owned()), "{directory}");
        }
        for contact in ["ops", "mailto:ops@a.example", "@a.example", "a b@a.example"] {
            let rest = format!(r#","contact":["{contact}"]"#);
            let refused = with(r#""a.example""#, directory, &rest);
            assert_eq!(refused, Some("tls.acme.contact".to_owned()), "{contact}");
        }
        let refused = with(r#""a.example""#, directory, r#","authorities":"/etc/ca.pem""#);
        assert_eq!(refused, Some("tls.acme.authorities".to_owned()));
    }

    #[test]
    fn the_order_of_names_does_not_ask_for_another_certificate() {
        let acme = |names: &str| -> Acme {
            let document = format!(r#"{{"directory":"https://ca.example/","names":[{names}]}}"#);
            serde_json::from_str(&document).unwrap()
        };
        let (one, other) = (acme(r#""a.example","b.example""#), acme(r#""B.example","a.example""#));
        assert_eq!(one.subject(), other.subject());
        assert_ne!(one.subject(), acme(r#""a.example""#).subject());
    }
}
