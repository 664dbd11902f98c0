//! Logins with a certificate of TLS.

use std::sync::Arc;

use entrepot_net::tls::ClientCertificate;
use entrepot_nouns::AuthMethod;

use super::{Attempt, Verdict};
use crate::credential::{Credential, Proof};
use crate::identity;
use crate::limits::KEYS_OFFERED;
use crate::peer::Peer;

impl Attempt {
    /// Begins anew, as a protocol does that lets its client say another name at any time. What was
    /// proved counts no longer; what was wrong still does.
    pub fn begin_again(&mut self, peer: Peer) {
        self.peer = peer;
        self.steps = None;
    }

    /// The name that has proved something and must prove more.
    pub fn proving(&self) -> Option<&str> {
        self.steps.as_ref().map(|steps| steps.user.as_str())
    }

    /// Looks at the certificate of the connection; that the client has its key, and that it is of
    /// an authority if it says so, was verified by the caller. It is shown with every name: one
    /// that is not the account's is held against nobody, and what else the account asks for
    /// may follow.
    pub async fn tls_certificate(&mut self, user: &str, shown: &ClientCertificate) -> Verdict {
        let refused = Verdict::Refused { next: self.methods(), end: false };
        // Anybody can make a certificate: names are not looked up for it without an end.
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
