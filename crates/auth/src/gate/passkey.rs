//! Logins with a passkey, and the challenges that browsers are given before.
//!
//! A challenge is good for one answer, for some minutes, and for the browser that asked for it:
//! that one keeps it, sealed, in a cookie, so that any node can check the answer. Of answered ones
//! the database remembers a hash until they would be too old.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use entrepot_crypto::SealingContext;
use entrepot_crypto::passkey::sha256;
use entrepot_db::PasskeyUse;
use entrepot_nouns::{
    AccountId, AuthMethod, Name, PasskeyPublic, Sealed, Secret, SiteId, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{Attempt, Fault, Gate, Verdict};
use crate::credential::{Credential, Proof};
use crate::error::{AuthError, Result};
use crate::limits::CHALLENGE_TIME;
use crate::principal::Principal;
use crate::webauthn::{Asked, NewPasskey, PageOrigin, PasskeyAnswer};

/// What a sealed challenge is sealed for.
const SEALED_FOR: &str = "challenge";
/// Why a challenge is refused that is too old, was answered, or is none of ours.
const BEGIN_AGAIN: &str = "the challenge is over or was answered, begin again";

/// What a browser is asked to answer.
#[derive(Debug)]
pub struct Challenge {
    /// Random; the browser shows it to the authenticator.
    pub challenge: String,
    /// The same, sealed, for a cookie.
    pub cookie: Secret,
}

/// What an answer is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ChallengePurpose {
    /// To log in.
    LogIn,
    /// To add a passkey to this account.
    Add(AccountId),
}

/// A challenge as a cookie has it.
#[derive(Serialize, Deserialize)]
struct SealedChallenge {
    challenge: [u8; 32],
    purpose: ChallengePurpose,
    ends_at: Timestamp,
}

/// Why a passkey is not added.
#[derive(Debug, thiserror::Error)]
pub enum PasskeyError {
    /// What the browser answered proves nothing.
    #[error("{0}")]
    Refused(&'static str),
    /// It cannot be decided now.
    #[error(transparent)]
    Later(#[from] AuthError),
}

impl Gate {
    /// A challenge for a browser at a site.
    ///
    /// # Errors
    /// There is no such site any more, or the database is away.
    pub async fn challenge(&self, site: SiteId, purpose: ChallengePurpose) -> Result<Challenge> {
        let env = self.0.recorder.env();
        let mut challenge = [0; 32];
        env.fill_random(&mut challenge);
        let ends_at = env.now().plus(CHALLENGE_TIME);
        let refused = |reason: String| AuthError::Refused { account: String::new(), reason };
        let text = serde_json::to_vec(&SealedChallenge { challenge, purpose, ends_at });
        let text = Secret::new(text.map_err(|error| refused(error.to_string()))?);
        let name = self.0.directory.site_name(site).await?;
        let name = name.ok_or_else(|| refused("there is no such site".to_owned()))?;
        let context = SealingContext::browser(&name, SEALED_FOR);
        let sealed = self.0.directory.master().seal(env, &context, &text);
        let sealed = sealed.map_err(|error| refused(error.to_string()))?;
        let challenge = URL_SAFE_NO_PAD.encode(challenge);
        Ok(Challenge { challenge, cookie: Secret::new(sealed.0) })
    }

    /// The challenge of a cookie, if it is for this purpose and not too old.
    async fn opened_challenge(
        &self,
        site: SiteId,
        cookie: &Secret,
        purpose: ChallengePurpose,
    ) -> Result<Option<SealedChallenge>> {
        let Some(name) = self.0.directory.site_name(site).await? else { return Ok(None) };
        let sealed = Sealed(String::from_utf8_lossy(cookie.expose()).into_owned());
        let context = SealingContext::browser(&name, SEALED_FOR);
        let Ok(opened) = self.0.directory.master().open(&context, &sealed) else {
            return Ok(None);
        };
        let known: Option<SealedChallenge> = serde_json::from_slice(opened.expose()).ok();
        let now = self.0.recorder.env().now();
        Ok(known.filter(|known| known.purpose == purpose && now < known.ends_at))
    }

    /// Takes a challenge for good; false if it was answered before.
    async fn take_challenge(&self, challenge: &SealedChallenge) -> Result<bool> {
        let hash = entrepot_nouns::transfer::hex(&sha256(&challenge.challenge));
        Ok(self.0.directory.db().answer_challenge(&hash, challenge.ends_at).await?)
    }

    /// The public half of a passkey that a browser has made for an account.
    ///
    /// # Errors
    /// It is none, is no answer to the challenge of the cookie, or the database is away.
    pub async fn new_passkey(
        &self,
        owner: &Principal,
        cookie: &Secret,
        page: &PageOrigin,
        new: &NewPasskey,
    ) -> std::result::Result<PasskeyPublic, PasskeyError> {
        let purpose = ChallengePurpose::Add(owner.id);
        let known = self.opened_challenge(owner.site, cookie, purpose).await?;
        let known = known.ok_or(PasskeyError::Refused(BEGIN_AGAIN))?;
        let asked = Asked { challenge: &known.challenge, origin: page };
        let public = asked.verify_new(new).map_err(PasskeyError::Refused)?;
        if !self.take_challenge(&known).await? {
            return Err(PasskeyError::Refused(BEGIN_AGAIN));
        }
        Ok(public)
    }
}

/// What a passkey is used with.
pub struct PasskeyLogin<'a> {
    /// The sealed challenge, as the browser's cookie has it.
    pub cookie: &'a Secret,
    /// The page that asked.
    pub page: &'a PageOrigin,
    /// What the browser answered.
    pub answer: &'a PasskeyAnswer,
}

/// A passkey whose answer was right.
struct Shown {
    account: Name,
    principal: std::sync::Arc<Principal>,
    passkey: Name,
}

impl Attempt {
    /// Logs in by a passkey, which names its account. It is two factors, for the authenticator has
    /// verified the person. Penalties do not hold a right one up, for nobody guesses a signature;
    /// wrong ones count like wrong passwords.
    pub async fn passkey(&mut self, login: &PasskeyLogin<'_>) -> Verdict {
        let site = self.peer.site;
        let db = self.gate.0.directory.db();
        let known = db.account_of_passkey(site, &login.answer.credential).await;
        let account = match known {
            Ok(Some(account)) => account,
            Ok(None) => return self.refuse_shown(None, Fault::Wrong("no such passkey")).await,
            Err(error) => return self.refuse_shown(None, Fault::Later(error.to_string())).await,
        };
        if let Some(verdict) = self.begin(account.as_str()) {
            return verdict;
        }
        match self.check_passkey(account.clone(), login).await {
            Ok(Shown { account, principal, passkey }) => {
                let credential = Credential::Passkey(login.answer.credential.clone());
                let proof = Proof { text: format!("passkey {passkey}"), credential };
                self.admit_as(account.as_str(), principal, vec![proof]).await
            }
            Err(fault) => self.refuse_shown(Some(&account), fault).await,
        }
    }

    async fn check_passkey(
        &mut self,
        account: Name,
        login: &PasskeyLogin<'_>,
    ) -> std::result::Result<Shown, Fault> {
        let later = |error: AuthError| Fault::Later(error.to_string());
        let PasskeyLogin { cookie, page, answer } = login;
        let (now, address) = (self.gate.0.recorder.env().now(), self.peer.address.ip());
        let gate = self.gate.clone();
        let purpose = ChallengePurpose::LogIn;
        let challenge = gate.opened_challenge(self.peer.site, cookie, purpose).await;
        let challenge = challenge.map_err(later)?;
        let challenge = challenge.ok_or_else(|| Fault::Barred(BEGIN_AGAIN.to_owned()))?;
        let principal = self.principal(account.as_str()).await.map_err(later)?;
        let principal = principal.ok_or(Fault::Wrong("no such passkey"))?;
        let passkey = principal.passkey(&answer.credential);
        let passkey = passkey.ok_or(Fault::Wrong("no such passkey"))?.clone();
        let barred = |reason: &str| Fault::Barred(reason.to_owned());
        let asked = Asked { challenge: &challenge.challenge, origin: page };
        let verified = asked.verify(&passkey.public, principal.id, answer);
        let signatures = verified.map_err(Fault::Wrong)?;
        if let Some(reason) = passkey.why_not(address, now) {
            return Err(barred(reason));
        }
        if let Some(reason) = principal.why_barred(&self.peer, self.here(), now) {
            return Err(barred(reason));
        }
        if !takes_passkeys(&principal) {
            return Err(barred("the account asks for something else than a passkey"));
        }
        if !gate.take_challenge(&challenge).await.map_err(later)? {
            return Err(barred(BEGIN_AGAIN));
        }
        let used = PasskeyUse {
            site: self.peer.site,
            credential: answer.credential.clone(),
            signatures,
            at: now,
            address: address.to_canonical().to_string(),
        };
        match gate.0.directory.db().note_passkey_use(&used).await {
            Ok(true) => Ok(Shown { account, principal, passkey: passkey.name }),
            Ok(false) => Err(Fault::Wrong(
                "the counter of the passkey went back: somebody may have copied it",
            )),
            Err(error) => Err(Fault::Later(error.to_string())),
        }
    }
}

/// True unless the account asks for more, or for something else, than what a passkey stands for:
/// something that its owner has, and a second factor.
fn takes_passkeys(principal: &Principal) -> bool {
    use AuthMethod::{Passkey, Password, Totp};
    let covered = |method: &AuthMethod| matches!(method, Passkey | Password | Totp);
    principal.login.is_empty() || principal.login.iter().any(|chain| chain.iter().all(covered))
}
