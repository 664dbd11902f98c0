//! Logins with an SSH certificate (OpenSSH `PROTOCOL.certkeys`).

use entrepot_nouns::AuthMethod;
use entrepot_ssh::Certificate;

use super::{Attempt, Fault, Verdict};
use crate::authority::Authority;
use crate::certificate;
use crate::credential::{Credential, Proof};

/// Whether a certificate may let a name in. If so, any key may be the one that it certifies.
pub(super) struct CertifyingAuthorities {
    /// By an authority of the whole site: the same for names that exist and for those that do not.
    pub(super) of_site: bool,
    /// By an authority of the account or its groups.
    pub(super) of_account: bool,
}

impl Attempt {
    /// Logs in by a signature of the certificate's key. The caller has verified that signature,
    /// and the one on the certificate by the key that it names.
    pub async fn ssh_certificate(&mut self, user: &str, shown: &Certificate) -> Verdict {
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

    /// Which authorities may certify a key of `user` now.
    pub(super) async fn certifying_authorities(&self, user: &str) -> CertifyingAuthorities {
        let directory = &self.gate.0.directory;
        let (now, address) = (self.gate.0.recorder.env().now(), self.peer.address.ip());
        let counts = |signer: &Authority| signer.key.counts(address, now);
        let site = directory.site_authorities(self.peer.site).await.unwrap_or_default();
        let of_site = site.iter().any(counts);
        let Ok(name) = user.parse() else {
            return CertifyingAuthorities { of_site, of_account: false };
        };
        let principal = directory.resolve(self.peer.site, &name).await.ok().flatten();
        let of_account =
            principal.is_some_and(|principal| principal.authorities.iter().any(counts));
        CertifyingAuthorities { of_site, of_account }
    }
}
