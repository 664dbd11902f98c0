//! Partners of AS2: whose files a message becomes.
//!
//! What holds: a partner signs in with nothing but its names, for each message proves itself by its
//! signature. So the grant lets files be staged; that a message may be published decides who has
//! checked it. AS2 names choose keys and an account that an administrator has put together, and
//! nothing else.

use std::sync::Arc;
use std::time::Duration;

use entrepot_crypto::derived_id;
use entrepot_db::As2SentMessage;
use entrepot_journal::Scope;
use entrepot_nouns::event::{As2ReceivedReceipt, As2Refusal};
use entrepot_nouns::{EventId, Fact, JobId, SiteId};

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

    /// The job that has sent a partner a message with this id, for which a receipt comes by itself;
    /// `None`: none has. The id is without its angle brackets.
    ///
    /// # Errors
    /// The database is away.
    pub async fn sender_of_as2(
        &self,
        site: SiteId,
        partner: &As2Partner,
        message_id: &str,
    ) -> Result<Option<JobId>> {
        let message = As2SentMessage { site, partner: &partner.endpoint, message_id };
        Ok(self.0.directory.db().sender_of_as2(&message).await?)
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
    pub fn as2_unknown(&self, refusal: As2Refusal) {
        if self.gate.0.penalties.may_record(self.origin()) {
            self.write(Fact::As2Refused { refusal });
        }
    }

    /// Records that a message or a receipt of a partner was refused, unless too many of them were
    /// within this minute: then its sender is not told why. Who changes messages that others have
    /// encrypted, and sees what is told of each, must not have many tries. A receipt to be sent is
    /// on stable storage when this returns.
    ///
    /// # Errors
    /// It is not recorded.
    pub async fn as2_refused(
        &self,
        partner: &As2Partner,
        refusal: As2Refusal,
    ) -> std::result::Result<(), As2NotTold> {
        let (endpoint, _) = partner.version;
        let counted = self.gate.0.as2_refusals.count(*endpoint.as_bytes(), AS2_REFUSALS);
        counted.map_err(As2NotTold::TooMany)?;
        // A receipt that is the answer is given from what is at hand.
        if refusal.receipt.as_ref().is_none_or(|receipt| receipt.url.is_none()) {
            self.write(Fact::As2Refused { refusal });
            return Ok(());
        }
        let (scope, fact) = (Scope::site(self.peer.site), Fact::As2Refused { refusal });
        let recorded = self.gate.0.recorder.record_durable(&scope, fact).await;
        recorded.map(drop).map_err(|error| As2NotTold::NotRecorded(error.into()))
    }

    /// Records a receipt that a partner has sent, of the job that waits for it; on stable storage
    /// when this returns. One that comes again is the same event.
    ///
    /// # Errors
    /// The journal cannot take it.
    pub async fn as2_receipt(
        &self,
        received: As2ReceivedReceipt,
        job: Option<JobId>,
    ) -> Result<()> {
        let scope = Scope { job, ..Scope::site(self.peer.site) };
        let parts = [received.partner.as_str(), &received.message_id, &received.receipt.body];
        let id = EventId(derived_id("as2-receipt", &parts.map(str::as_bytes)));
        let mut event = self.gate.0.recorder.event(&scope, Fact::As2ReceiptReceived { received });
        event.id = id;
        self.gate.0.recorder.seal(&event).await?;
        Ok(())
    }
}

/// Why a refusal is not recorded, and not told to whoever was refused.
#[derive(Debug)]
pub enum As2NotTold {
    /// Too many were refused within this minute: this long is to wait.
    TooMany(Duration),
    /// The journal cannot take it.
    NotRecorded(AuthError),
}
