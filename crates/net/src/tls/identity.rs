//! What the certificate of a client says of it.

use aws_lc_rs::digest;
use entrepot_nouns::{CertificateName, Timestamp};
use x509_cert::Certificate;
use x509_cert::der::Decode as _;
use x509_cert::der::asn1::{
    Any, Ia5StringRef, ObjectIdentifier, PrintableStringRef, Utf8StringRef,
};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

use super::validity::{Validity, validity};

/// The attribute common name (RFC 4519 §2.3).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// A certificate whose key the client has proved to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// SHA-256 of the whole certificate.
    pub fingerprint: [u8; 32],
    /// Names in it: mail addresses, host names and URIs of its subject alternative names, and the
    /// common name of its subject if there is exactly one. Worth nothing unless `certified`.
    pub names: Vec<CertificateName>,
    /// Not valid before.
    pub not_before: Timestamp,
    /// Not valid from this moment on.
    pub not_after: Timestamp,
    /// An authority that the listener trusts has signed it.
    pub certified: bool,
}

impl ClientCertificate {
    /// Reads DER; `None` if that cannot be done. The handshake knows whether an authority has
    /// signed it: until its caller says so, it is not certified.
    pub(super) fn read(der: &[u8]) -> Option<ClientCertificate> {
        let certificate = Certificate::from_der(der).ok()?;
        let Validity { from, to } = validity(&certificate);
        let fingerprint = digest::digest(&digest::SHA256, der).as_ref().try_into().ok()?;
        let names = names(&certificate)?;
        let (not_before, not_after) = (from, to);
        Some(ClientCertificate { fingerprint, names, not_before, not_after, certified: false })
    }
}

/// `None`: an extension cannot be read.
pub(super) fn names(certificate: &Certificate) -> Option<Vec<CertificateName>> {
    let tbs = &certificate.tbs_certificate;
    let stated = tbs.get::<SubjectAltName>().ok()?.map(|(_, names)| names.0).unwrap_or_default();
    let named = |name: &GeneralName| match name {
        GeneralName::Rfc822Name(name) => {
            Some(CertificateName::Email(name.as_str().to_ascii_lowercase()))
        }
        GeneralName::DnsName(name) => {
            Some(CertificateName::Dns(name.as_str().to_ascii_lowercase()))
        }
        GeneralName::UniformResourceIdentifier(name) => {
            Some(CertificateName::Uri(name.as_str().to_owned()))
        }
        _ => None,
    };
    let parts = tbs.subject.0.iter().flat_map(|part| part.0.iter());
    let mut common = parts.filter(|part| part.oid == COMMON_NAME);
    let own = match (common.next(), common.next()) {
        (Some(only), None) => text(&only.value).map(CertificateName::CommonName),
        _ => None,
    };
    Some(stated.iter().filter_map(named).chain(own).collect())
}

fn text(value: &Any) -> Option<String> {
    let utf8 = value.decode_as::<Utf8StringRef<'_>>().map(|text| text.as_str().to_owned());
    let printable = || value.decode_as::<PrintableStringRef<'_>>().map(|it| it.as_str().to_owned());
    let ia5 = || value.decode_as::<Ia5StringRef<'_>>().map(|text| text.as_str().to_owned());
    utf8.ok().or_else(|| printable().ok()).or_else(|| ia5().ok())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    use super::*;

    fn read(change: impl FnOnce(&mut CertificateParams)) -> ClientCertificate {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["Node1.Example".to_owned()]).unwrap();
        change(&mut params);
        let der = params.self_signed(&key).unwrap().der().to_vec();
        ClientCertificate::read(&der).unwrap()
    }

    #[test]
    fn names_are_those_of_subject_and_alternative_names() {
        let mail = SanType::Rfc822Name("Ops@Example.com".try_into().unwrap());
        let uri = SanType::URI("urn:partner:7".try_into().unwrap());
        let shown = read(|params| {
            params.subject_alt_names.extend([mail, uri]);
            params.distinguished_name.push(DnType::CommonName, "Acmé Ltd");
            params.distinguished_name.push(DnType::OrganizationName, "root");
        });
        let named = |text: &str| shown.names.contains(&text.parse().unwrap());
        for name in ["dns:node1.example", "email:ops@example.com", "uri:urn:partner:7"] {
            assert!(named(name), "{name} {shown:?}");
        }
        assert!(named("cn:Acmé Ltd"), "{shown:?}");
        assert!(!named("cn:root") && shown.names.len() == 4, "{shown:?}");
    }

    #[test]
    fn what_is_no_certificate_is_nobody() {
        assert_eq!(ClientCertificate::read(b""), None);
        assert_eq!(ClientCertificate::read(&[0x30, 0x00]), None);
    }
}
