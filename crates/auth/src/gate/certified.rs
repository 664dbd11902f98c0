//! Logins with a certificate.

use entrepot_nouns::AuthMethod;
use entrepot_ssh::Certificate;

use super::{Attempt, Fault, Verdict};
use crate::authority::Authority;
use crate::certificate;
use crate::credential::{Credential, Proof};

impl Attempt {
    /// Hears a signature by the key of a certificate; that signature, and the one on the
    /// certificate by the key that it names, were verified by the caller.
    pub async fn certificate(&mut self, user: &str, shown: &Certificate) -> Verdict {
        if let Some(verdict) = self.begin(user) {
            return verdict;
        }
        let principal = self.principal(user).await;
        let (now, address) = (self.gate.0.recorder.env().now(), self.peer.address.ip());
        let fault = match self.admit(&principal, AuthMethod::PublicKey) {
            Err(fault) => fault,
            Ok(principal) => match certificate::check(&principal, shown, address, now) {
                Ok(_) => {
                    let credential = Credential::Certificate(shown.clone().into());
                    let proof = Proof { text: certificate::proof(shown), credential };
                    return self.passed(user, principal, AuthMethod::PublicKey, proof).await;
                }
                Err(reason) => Fault::Barred(reason.to_owned()),
            },
        };
        self.refuse(user, &principal, fault).await
    }

    /// Whether a certificate may let `user` in, by a key of the whole site (the same for names
    /// that exist and for those that do not), by a key of the account: then any key may be the
    /// one that it certifies.
    pub(super) async fn may_be_certified(&self, user: &str) -> (bool, bool) {
        let directory = &self.gate.0.directory;
        let (now, address) = (self.gate.0.recorder.env().now(), self.peer.address.ip());
        let counts = |signer: &Authority| signer.key.counts(address, now);
        let site = directory.site_authorities(self.peer.site).await.unwrap_or_default();
        let by_site = site.iter().any(counts);
        let Ok(name) = user.parse() else { return (by_site, false) };
        let principal = directory.resolve(self.peer.site, &name).await.ok().flatten();
        let by_account =
            principal.is_some_and(|principal| principal.authorities.iter().any(counts));
        (by_site, by_account)
    }
}
