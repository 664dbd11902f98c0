//! Logins with the client certificate of a TLS connection.

use std::sync::Arc;

use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::AuthMethod;

use super::{Attempt, Verdict};
use crate::credential::{Credential, Proof};
use crate::identity;
use crate::limits::KEYS_OFFERED;

impl Attempt {
    /// Logs in by the certificate of the connection. The caller has verified that the client has
    /// its key, and that an authority signed it if it says so. A client shows it with every name:
    /// a certificate that is not the account's does not count as a wrong try, and the other
    /// methods that the account asks for may follow.
    pub async fn tls_certificate(&mut self, user: &str, shown: &ClientCertificate) -> Verdict {
        let refused = Verdict::Refused { next: self.methods(), end: false };
        // Anyone can make certificates: the number of names looked up for them is limited.
        self.offered += 1;
        if self.offered > KEYS_OFFERED || self.is_other(user) {
            return refused;
        }
        let principal = self.principal(user).await;
        let Ok(principal) = self.admit(&principal, AuthMethod::Certificate) else {
            return refused;
        };
        let now = self.gate.0.recorder.env().now();
        // The authorities of a listener vouch for names of its own site.
        let certified = shown.certified && self.peer.site == self.peer.home;
        let shown = ClientCertificate { certified, ..shown.clone() };
        let Ok(by) = identity::check(&principal.account, &shown, now) else { return refused };
        let text = format!("certificate {by}");
        let proof = Proof { text, credential: Credential::Tls(Arc::new(shown)) };
        self.passed(user, principal, AuthMethod::Certificate, proof).await
    }
}
