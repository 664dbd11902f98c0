//! Partners of AS2: whose files a message becomes.
//!
//! What holds: a partner signs in with nothing but its names, for each message proves itself by its
//! signature. So the grant lets files be staged; that a message may be published decides who has
//! checked it. AS2 names choose keys and an account that an administrator has put together, and
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use entrepot_nouns::event::As2Refusal;
use entrepot_nouns::{Fact, SiteId};

use super::{Attempt, Gate, Grant};
use crate::as2::As2Partner;
use crate::error::{AuthError, Result};
use crate::limits::AS2_REFUSALS;

impl Gate {
    /// The partner of these AS2 names at a site; `None`: none has them.
    ///
    /// # Errors
    /// The database is away, and they were not asked for before.
    pub async fn as2_partner(
        &self,
        site: SiteId,
        partner: &str,
        station: &str,
    ) -> Result<Option<Arc<As2Partner>>> {
        let partners = self.0.directory.as2_partners(site).await?;
        Ok(partners.of_names(partner, station))
    }
}

impl Attempt {
    /// Admits the messages of a partner as the account that they are for.
    ///
    /// # Errors
    /// Nothing is received from it, the account may not act or not from here, or the database is
    /// away.
    pub async fn as2(&mut self, partner: &As2Partner) -> Result<Grant> {
        let refused = |reason: &str| AuthError::Refused {
            account: partner.target.account.as_ref().map(ToString::to_string).unwrap_or_default(),
            reason: reason.to_owned(),
        };
        let Some(name) = &partner.target.account else {
            return Err(refused("nothing is received from this partner"));
        };
        let principal = self.principal(name.as_str()).await?;
        let principal = principal.ok_or_else(|| refused("there is no such account"))?;
        let now = self.gate.0.recorder.env().now();
        if let Some(reason) = principal.why_barred(&self.peer, self.here(), now) {
            self.record(name.as_str(), reason);
            return Err(refused(reason));
        }
        let proof = format!("as2 {}: by each message", partner.endpoint);
        let (peer, listener) = (self.peer.clone(), self.listener.clone());
        Ok(Grant { principal, proof, credentials: Vec::new(), peer, listener })
    }

    /// Records that a message came under two names that no partner has, unless too much of that
    /// kind came from its address.
    pub fn as2_unknown(&self, from: &str, to: &str) {
        self.record(&format!("AS2 {from} to {to}"), "no partner has these AS2 names");
    }

    /// Records that a message of a partner was refused. How long its sender has to wait if too
    /// many of them were within this minute: then it is not told why, nor is that recorded. Who
    /// changes messages that others have encrypted, and sees what is told of each, must not have
    /// many tries.
    ///
    /// # Errors
    /// The time to wait.
    pub fn as2_refused(
        &self,
        partner: &As2Partner,
        refusal: As2Refusal,
    ) -> std::result::Result<(), Duration> {
        let (endpoint, _) = partner.version;
        self.gate.0.as2_refusals.count(*endpoint.as_bytes(), AS2_REFUSALS)?;
        self.write(Fact::As2Refused { refusal });
        Ok(())
    }
}
