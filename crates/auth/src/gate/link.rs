//! Share links: who shows the secret of one, and its password if it has one, uses the files that it
//! opens.
//!
//! What holds: only hashes of secrets are stored, and a secret is never in an event or a log. Wrong
//! secrets and wrong passwords count towards the penalties of their address. A link opens nothing
//! that its owner may not use at that moment.

use entrepot_crypto::{BearerKind, TokenHash, bearer_token, constant_time_eq};
use entrepot_db::{LinkAllowance, LinkPlace, LinkUse, LinkUses};
use entrepot_nouns::{Secret, Timestamp};

use super::{Attempt, Fault, Gate, Grant, Verdict};
use crate::credential::{Credential, Proof};
use crate::error::Result;
use crate::passwords::{Compared, Stored};
use crate::principal::Principal;

/// What is shown of the password of a link.
#[derive(Clone, Copy, Debug)]
pub enum LinkPassword<'a> {
    /// Nothing was shown, which is enough for a link without one.
    Unshown,
    /// The password itself.
    Typed(&'a Secret),
    /// What a browser was given that had shown it: [`Gate::link_cookie`].
    Remembered(&'a Secret),
}

/// Why a link opens nothing any more. Only who shows its secret learns that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkEnd {
    /// Its end is past.
    Expired,
    /// It was revoked, or its owner may not act any more.
    Revoked,
}

/// The answer to one try to open a link.
#[derive(Debug)]
pub enum LinkVerdict {
    /// It opens, with the rights that its owner still has.
    Granted(Box<Grant>),
    /// The secret is right, and the password must be shown with it.
    AsksPassword,
    /// The secret is right, and the password is wrong.
    WrongPassword,
    /// The secret was right once.
    Ended(LinkEnd),
    /// No link has this secret.
    Unknown,
    /// Not checked: the address has shown too much that was wrong. The connection must end now.
    Limited,
    /// It could not be decided now; the client may try again in a moment.
    Later,
    /// Refused for another reason, such as the address that the client comes from.
    Refused,
}

impl Attempt {
    /// Opens a link by its secret. Penalties do not hold a right secret up, for nobody guesses 256
    /// bits; passwords are compared as those of logins are.
    pub async fn link(&mut self, secret: &Secret, password: LinkPassword<'_>) -> LinkVerdict {
        let Ok(hash) = bearer_token::hash(BearerKind::Link, secret) else {
            return self.unknown_link().await;
        };
        let known = self.gate.0.directory.account_of_token(self.peer.site, hash).await;
        let name = match known {
            Ok(Some(name)) => name,
            Ok(None) => return self.unknown_link().await,
            Err(_) => return LinkVerdict::Later,
        };
        let user = name.as_str();
        if self.begin(user).is_some() {
            return LinkVerdict::Refused;
        }
        let principal = match self.principal(user).await {
            Ok(Some(principal)) if principal.link_terms().is_some() => principal,
            Ok(_) => return self.unknown_link().await,
            Err(_) => return LinkVerdict::Later,
        };
        let now = self.gate.0.recorder.env().now();
        let Some(shown) = principal.link_secret(hash).cloned() else {
            return self.unknown_link().await;
        };
        if let Some(end) = why_ended(&principal, hash, now) {
            self.record(user, "the link has ended");
            return LinkVerdict::Ended(end);
        }
        if let Some(reason) = principal.why_barred(&self.peer, self.here(), now) {
            self.record(user, reason);
            return LinkVerdict::Refused;
        }
        let person = if shown.person.is_empty() { "" } else { " for " };
        let text = format!("link {}{person}{}", shown.name, shown.person);
        let mut proofs = vec![Proof { text, credential: Credential::Link(hash) }];
        if let Some(phc) = principal.account.password_hash.clone() {
            match self.link_password(&principal, hash, &phc, password).await {
                None => {}
                Some(verdict) => return verdict,
            }
            let text = "password".to_owned();
            proofs.push(Proof { text, credential: Credential::Password(phc) });
        }
        let address = self.peer.address.ip();
        self.gate.0.token_uses.note(self.peer.site, hash, now, address);
        match self.admit_as(user, principal.clone(), proofs).await {
            Verdict::Granted(grant) => LinkVerdict::Granted(Box::new(grant)),
            _ => LinkVerdict::Later,
        }
    }

    /// A text that is the secret of no link counts as a wrong password does.
    async fn unknown_link(&mut self) -> LinkVerdict {
        match self.begin_try("").await {
            Ok(pending) => {
                let nobody = Ok(None);
                let fault = Fault::Wrong("no link has this secret");
                match self.fail("", &nobody, pending, fault).await {
                    Verdict::Refused { end: true, .. } => LinkVerdict::Limited,
                    _ => LinkVerdict::Unknown,
                }
            }
            Err(_) => LinkVerdict::Limited,
        }
    }

    /// Compares what is shown of the password; `None`: it is right.
    async fn link_password(
        &mut self,
        principal: &Principal,
        hash: TokenHash,
        phc: &str,
        shown: LinkPassword<'_>,
    ) -> Option<LinkVerdict> {
        let password = match shown {
            LinkPassword::Unshown => return Some(LinkVerdict::AsksPassword),
            LinkPassword::Remembered(cookie) => {
                let right = bearer_token::password_cookie(hash, phc);
                let is_right = constant_time_eq(right.expose(), cookie.expose());
                return (!is_right).then_some(LinkVerdict::AsksPassword);
            }
            LinkPassword::Typed(password) => password,
        };
        let user = principal.account.name.as_str();
        let pending = match self.begin_try(user).await {
            Ok(pending) => pending,
            Err(_) => return Some(LinkVerdict::Limited),
        };
        let stored = Stored { account: principal.id, revision: principal.revision, phc };
        let compared = self.gate.0.passwords.compare(self.origin(), password, Some(stored)).await;
        match compared {
            Compared::Right => {
                pending.give_back();
                None
            }
            Compared::Busy => {
                self.busy(user, pending);
                Some(LinkVerdict::Later)
            }
            Compared::Wrong => {
                let fault = Fault::Wrong("wrong password of the link");
                let nobody = Ok(None);
                Some(match self.fail(user, &nobody, pending, fault).await {
                    Verdict::Refused { end: true, .. } => LinkVerdict::Limited,
                    _ => LinkVerdict::WrongPassword,
                })
            }
        }
    }
}

fn why_ended(link: &Principal, hash: TokenHash, now: Timestamp) -> Option<LinkEnd> {
    let secret = link.link_secret(hash)?;
    if link.account.enabled && link.account.expires_at.is_some_and(|end| end <= now) {
        return Some(LinkEnd::Expired);
    }
    let barred = link.barred_at(now).or_else(|| secret.why_not(now));
    barred.map(|_| LinkEnd::Revoked)
}

impl Gate {
    /// What a browser may show instead of the password of a link that this session has opened;
    /// `None`: the link has none.
    pub fn link_cookie(&self, link: &Principal, secret: &Secret) -> Option<Secret> {
        let hash = bearer_token::hash(BearerKind::Link, secret).ok()?;
        let phc = link.account.password_hash.as_deref()?;
        Some(bearer_token::password_cookie(hash, phc))
    }

    /// How often a link was used.
    ///
    /// # Errors
    /// The database is away.
    pub async fn link_uses(&self, link: &Principal) -> Result<LinkUses> {
        Ok(self.0.directory.db().link_uses(link.id).await?)
    }

    /// Takes one use of a link; false: it was used as often as it may be. Counted in the database,
    /// so that the nodes let no more through together.
    ///
    /// # Errors
    /// The database is away: nothing is used then.
    pub async fn take_link_use(&self, link: &Principal, used: LinkUse) -> Result<bool> {
        let Some(terms) = link.link_terms() else { return Ok(false) };
        let place = LinkPlace { site: link.site, account: link.id };
        let most = LinkAllowance {
            downloads: terms.downloads,
            uploads: terms.uploads,
            upload_bytes: terms.upload_bytes,
        };
        let now = self.0.recorder.env().now();
        Ok(self.0.directory.db().take_link_use(place, used, most, now).await?)
    }

    /// Gives back a use that came to nothing. While the database is away it stays taken.
    pub async fn give_back_link_use(&self, link: &Principal, used: LinkUse) {
        if let Err(error) = self.0.directory.db().give_back_link_use(link.id, used).await {
            tracing::warn!(%error, link = %link.account.name, "a use of a link stays counted");
        }
    }
}
