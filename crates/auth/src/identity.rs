//! Certificates of TLS: whether one is an account's.

use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::{Account, CertificateName, Timestamp};

/// By which entry of its list the account takes `shown` for its own. A name counts only in what an
/// authority of a listener of its site has signed; dates count for all.
///
/// # Errors
/// Why it does not.
pub(crate) fn check<'a>(
    account: &'a Account,
    shown: &ClientCertificate,
    now: Timestamp,
) -> Result<&'a CertificateName, &'static str> {
    if !is_valid(shown, now) {
        return Err("the certificate that it logged in with is not valid at this time");
    }
    let found = named(&account.certificates, shown);
    found.ok_or("the certificate that it logged in with is not the account's any more")
}

/// Whether `shown` counts at this time.
pub(crate) fn is_valid(shown: &ClientCertificate, now: Timestamp) -> bool {
    shown.not_before <= now && now < shown.not_after
}

/// By which entry of a list `shown` is known.
pub(crate) fn named<'l>(
    list: &'l [CertificateName],
    shown: &ClientCertificate,
) -> Option<&'l CertificateName> {
    list.iter().find(|wanted| match wanted {
        CertificateName::Fingerprint(print) => *print == shown.fingerprint,
        name => shown.certified && shown.names.contains(name),
    })
}
