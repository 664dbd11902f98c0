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
    if now < shown.not_before || shown.not_after <= now {
        return Err("the certificate that it logged in with is not valid at this time");
    }
    let is_it = |wanted: &&CertificateName| match wanted {
        CertificateName::Fingerprint(print) => *print == shown.fingerprint,
        name => shown.certified && shown.names.contains(name),
    };
    let found = account.certificates.iter().find(is_it);
    found.ok_or("the certificate that it logged in with is not the account's any more")
}
