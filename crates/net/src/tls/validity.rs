//! When a certificate is valid.

use entrepot_nouns::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use x509_cert::der::Decode as _;

/// When the first certificate of a chain ends, which is that of the key's owner; `None` if the text
/// is no chain as PEM.
pub fn certificate_end(pem: &str) -> Option<Timestamp> {
    let first = CertificateDer::from_pem_slice(pem.as_bytes()).ok()?;
    let certificate = x509_cert::Certificate::from_der(&first).ok()?;
    Some(validity(&certificate).to)
}

/// The moments between which a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validity {
    pub(super) from: Timestamp,
    pub(super) to: Timestamp,
}

pub(super) fn validity(certificate: &x509_cert::Certificate) -> Validity {
    let stated = certificate.tbs_certificate.validity;
    let at = |time: x509_cert::time::Time| {
        let seconds = time.to_unix_duration().as_secs();
        Timestamp::from_seconds(i64::try_from(seconds).unwrap_or(i64::MAX))
    };
    Validity { from: at(stated.not_before), to: at(stated.not_after) }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};

    use super::*;

    #[test]
    fn a_chain_ends_with_its_first_certificate() {
        let made = |year| {
            let mut params = CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, 3, 1);
            params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
        };
        let end = certificate_end(&(made(2031) + &made(2029))).unwrap();
        assert_eq!(end.to_string(), "2031-03-01T00:00:00.000000Z");
        for text in ["", "ssh-ed25519 AAAA", "-----BEGIN CERTIFICATE-----\nAA==\n-----END"] {
            assert_eq!(certificate_end(text), None, "{text}");
        }
    }
}
