//! How an account says which certificates of TLS are its own.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of a fingerprint (SHA-256).
pub const FINGERPRINT_BYTES: usize = 32;

/// A certificate by its fingerprint, or by a name in it that an authority has vouched for. As text
/// `SHA256:` and hexadecimal digits, with or without colons; `email:ops@partner.example`,
/// `dns:node1.partner.example` and `uri:…` of its subject alternative names (RFC 5280 §4.2.1.6);
/// `cn:…` of its subject.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub enum CertificateName {
    /// SHA-256 of the whole certificate.
    Fingerprint([u8; FINGERPRINT_BYTES]),
    /// An address of mail, in small letters.
    Email(String),
    /// A host name, in small letters.
    Dns(String),
    /// A URI, as written.
    Uri(String),
    /// The common name of the subject, as written; counts where there is exactly one.
    CommonName(String),
}

/// Why a text is no [`CertificateName`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error(
    "'{text}' names no certificate: write SHA256: and 64 hexadecimal digits, or email:, dns:, uri: \
     or cn: and a name"
)]
pub struct CertificateNameError {
    /// What was given, cut to 80 characters.
    pub text: String,
}

fn fingerprint(text: &str) -> Option<[u8; FINGERPRINT_BYTES]> {
    let hex: Vec<u8> = text.bytes().filter(|byte| *byte != b':').collect();
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let byte = |pair: &[u8]| match *pair {
        [high, low] => Some(digit(high)? << 4 | digit(low)?),
        _ => None,
    };
    let bytes: Option<Vec<u8>> = hex.chunks(2).map(byte).collect();
    bytes?.try_into().ok()
}

impl FromStr for CertificateName {
    type Err = CertificateNameError;

    fn from_str(text: &str) -> Result<Self, CertificateNameError> {
        let refused = || CertificateNameError { text: text.chars().take(80).collect() };
        let (kind, name) = text.split_once(':').ok_or_else(refused)?;
        let (name, small) = (name.to_owned(), name.to_ascii_lowercase());
        if name.trim().is_empty() {
            return Err(refused());
        }
        match kind {
            "SHA256" => fingerprint(&name).map(CertificateName::Fingerprint).ok_or_else(refused),
            "email" => Ok(CertificateName::Email(small)),
            "dns" => Ok(CertificateName::Dns(small)),
            "uri" => Ok(CertificateName::Uri(name)),
            "cn" => Ok(CertificateName::CommonName(name)),
            _ => Err(refused()),
        }
    }
}

impl TryFrom<String> for CertificateName {
    type Error = CertificateNameError;

    fn try_from(text: String) -> Result<Self, CertificateNameError> {
        text.parse()
    }
}

impl From<CertificateName> for String {
    fn from(name: CertificateName) -> String {
        name.to_string()
    }
}

impl fmt::Display for CertificateName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CertificateName::Fingerprint(bytes) => {
                f.write_str("SHA256:")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            CertificateName::Email(name) => write!(f, "email:{name}"),
            CertificateName::Dns(name) => write!(f, "dns:{name}"),
            CertificateName::Uri(name) => write!(f, "uri:{name}"),
            CertificateName::CommonName(name) => write!(f, "cn:{name}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_written_as_they_are_read() {
        let name = |text: &str| text.parse::<CertificateName>().map(|name| name.to_string());
        let digits = "ab".repeat(32);
        let with_colons = format!("SHA256:{}", vec!["AB"; 32].join(":"));
        assert_eq!(name(&with_colons), Ok(format!("SHA256:{digits}")));
        assert_eq!(name(&format!("SHA256:{digits}")), Ok(format!("SHA256:{digits}")));
        assert_eq!(name("email:Ops@Example.com").as_deref(), Ok("email:ops@example.com"));
        assert_eq!(name("dns:A.example").as_deref(), Ok("dns:a.example"));
        assert_eq!(name("uri:urn:x:Y").as_deref(), Ok("uri:urn:x:Y"));
        assert_eq!(name("cn:Acme Ltd").as_deref(), Ok("cn:Acme Ltd"));
        for bad in ["", "acme", "cn:", "cn: ", "SHA256:ab", "SHA256:zz", "md5:ab", &digits] {
            assert!(name(bad).is_err(), "{bad}");
        }
    }
}
