//! Certificates that listeners have from authorities (ACME): how each stands, a renewal that an
//! administrator asks for, and what is answered to an authority that checks a name.

use std::collections::HashMap;

use entrepot_db::{AcmeOrder, ListenerPlace};
use entrepot_journal::Scope;
use entrepot_nouns::acme::{Acme, renewal_time};
use entrepot_nouns::{Fact, Kind, Listener, Name, Timestamp};

use crate::actor::Actor;
use crate::admin::Admin;
use crate::certificate_row::{CertificateFailure, CertificateRow, CertificateState};
use crate::error::{AdminError, Result};
use crate::parts::AdminParts;
use crate::request::Response;

/// How the certificate of a listener stands.
fn row(listener: Name, acme: Acme, known: Option<AcmeOrder>, now: Timestamp) -> CertificateRow {
    let known = known.unwrap_or_default();
    let subject = acme.subject();
    let issued = known.issued.filter(|issued| issued.subject == subject);
    let renews_at = issued.as_ref().map(|it| renewal_time(it.not_before, it.not_after));
    let failure = known.failure.map(|failure| CertificateFailure {
        code: failure.code,
        problem: failure.problem,
        failures: failure.count,
        retry_at: failure.retry_at,
    });
    let state = match renews_at {
        _ if failure.is_some() => CertificateState::Failed,
        Some(at) if now < at && !known.asked => CertificateState::Valid,
        _ => CertificateState::Waiting,
    };
    CertificateRow {
        listener,
        state,
        names: acme.names,
        directory: acme.directory,
        challenge: acme.challenge,
        not_after: issued.map(|issued| issued.not_after),
        renews_at: renews_at.filter(|_| state == CertificateState::Valid),
        failure,
    }
}

/// The certificates of the site of the actor.
async fn list(parts: &AdminParts, actor: &Actor) -> Result<Response> {
    let orders = parts.db.acme_orders().await?.into_iter();
    let mut orders: HashMap<Name, AcmeOrder> = orders
        .filter(|(place, _)| place.site == actor.site)
        .map(|(place, order)| (place.listener, order))
        .collect();
    let now = parts.env.now();
    let mut certificates = Vec::new();
    for listener in parts.db.list::<Listener>(actor.site).await? {
        let Listener { name, tls, .. } = listener.noun;
        if let Some(acme) = tls.acme {
            let known = orders.remove(&name);
            certificates.push(row(name, acme, known, now));
        }
    }
    Ok(Response::Certificates { certificates })
}

/// Asks for a certificate to be renewed now; `None`: there is no such listener.
async fn renew(parts: &AdminParts, actor: &Actor, listener: &Name) -> Result<Option<Response>> {
    let found = parts.db.find::<Listener>(actor.site, listener).await?;
    let Some(found) = found else { return Ok(None) };
    if found.noun.tls.acme.is_none() {
        return Err(AdminError::NoAuthority { listener: listener.clone() });
    }
    let fact = Fact::CertificateRequested { listener: listener.clone(), by: actor.name.clone() };
    let scope = Scope { account: actor.account(), ..Scope::site(actor.site) };
    parts.recorder.record_durable(&scope, fact).await?;
    let place = ListenerPlace { site: actor.site, listener: listener.clone() };
    parts.db.ask_for_acme_renewal(&place).await?;
    Ok(Some(Response::Done))
}

impl Admin {
    pub(crate) async fn list_certificates(&self, actor: &Actor) -> Result<Response> {
        list(self.parts(), actor).await
    }

    pub(crate) async fn renew_certificate(&self, actor: &Actor, of: Name) -> Result<Response> {
        match renew(self.parts(), actor, &of).await? {
            Some(answer) => Ok(answer),
            None => Err(self.missing_noun(actor, Kind::Listener, &of).await),
        }
    }

    /// What is answered to an authority that asks over HTTP by this token (RFC 8555 §8.3), on
    /// whichever node it asks.
    ///
    /// # Errors
    /// [`AdminError::Database`].
    pub async fn acme_answer_to(&self, token: &str) -> Result<Option<String>> {
        Ok(self.parts().db.acme_answer_to(token).await?)
    }

    /// What is answered to an authority that asks for this name under TLS (RFC 8737).
    ///
    /// # Errors
    /// [`AdminError::Database`].
    pub async fn acme_answer_for(&self, name: &str) -> Result<Option<String>> {
        Ok(self.parts().db.acme_answer_for(&name.to_ascii_lowercase()).await?)
    }
}
