//! When a certificate is valid.

use entrepot_nouns::Timestamp;

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
