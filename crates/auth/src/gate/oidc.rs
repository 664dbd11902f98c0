//! Logins by what a provider of OpenID Connect says of a person (authorization code flow with PKCE,
//! OpenID Connect Core 1.0 §3.1, RFC 7636).
//!
//! The browser that was led to the provider keeps, sealed in a cookie, what its return must match,
//! so that any node can answer it: once, for some minutes. The account is the one that names the
//! person as its own, else the one that a claim names, if its `login` takes it and it is no
//! administrator.

use std::sync::Arc;

use entrepot_crypto::passkey::sha256;
use entrepot_crypto::{SealingContext, constant_time_eq};
use entrepot_nouns::{
    AuthMethod, Name, OidcIdentity, OidcProvider, Sealed, Secret, SiteId, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::{Attempt, Fault, Gate, Verdict};
use crate::credential::{Credential, Proof};
use crate::error::AuthError;
use crate::limits::{OIDC_BEGUN_TIME, OIDC_SAID, OIDC_TARGET_BYTES};
use crate::oidc::{
    Asking, Nonces, Person, ProviderFault, Registration, SiteOidc, is_asked_since, random_text,
};
use crate::principal::Principal;
use crate::webauthn::PageOrigin;

/// What is sealed for a browser that was led to a provider.
const SEALED_FOR: &str = "oidc";

/// What a browser is led to a provider for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OidcPurpose {
    /// To sign in.
    SignIn,
    /// To prove once more who is signed in; the provider asks the person anew.
    Prove,
}

/// A browser that wants to go to a provider.
pub struct OidcStart<'a> {
    /// The site that it signs in at.
    pub site: SiteId,
    /// The name of the provider there.
    pub provider: &'a str,
    /// The page that it comes from, to whose host it will return.
    pub page: &'a PageOrigin,
    /// What the browser goes there for.
    pub purpose: OidcPurpose,
    /// Where it goes when it is signed in.
    pub to: &'a str,
}

/// Where a browser is led.
#[derive(Debug)]
pub struct OidcLeading {
    /// The address at the provider.
    pub url: String,
    /// What it must bring back, sealed, for a cookie.
    pub cookie: Secret,
}

/// What a browser brings back from a provider.
pub struct OidcReturn<'a> {
    /// The provider, by the address that it returned to.
    pub provider: &'a str,
    /// The page that it returned to.
    pub page: &'a PageOrigin,
    /// As its cookie has it.
    pub cookie: &'a Secret,
    /// As it was sent.
    pub state: &'a str,
    /// What the provider gave it; empty: nothing.
    pub code: &'a str,
    /// Who the provider says it is (RFC 9207); empty: it does not say.
    pub issuer: &'a str,
    /// Why the provider gave nothing; empty: it did.
    pub error: &'a str,
}

/// A login by a provider that was right.
#[derive(Debug)]
pub struct OidcLogin {
    /// Granted, or a code must follow.
    pub verdict: Verdict,
    /// The account that it is a login of.
    pub user: String,
    /// What the browser was led there for.
    pub purpose: OidcPurpose,
    /// Where it goes now.
    pub to: String,
}

/// A login by a provider that was refused.
#[derive(Debug)]
pub struct OidcRefusal {
    /// What the browser is told.
    pub error: OidcError,
    /// The connection must end now.
    pub end: bool,
}

/// Why a provider lets nobody in now, as the browser is told.
#[derive(Debug, thiserror::Error)]
pub enum OidcError {
    /// The site trusts no provider of this name.
    #[error("no provider of this name signs anybody in here")]
    NoProvider,
    /// It does not answer, or not as it should.
    #[error("the provider cannot be asked now; try again later, or sign in otherwise")]
    Unreachable,
    /// Not begun by this browser, over, or answered before.
    #[error("this sign-in was not begun by this browser, took too long or is over; begin again")]
    BeginAgain,
    /// The provider has refused, or the person has.
    #[error("the provider did not let you in; it says: {0}")]
    Declined(String),
    /// What it says of the person cannot be trusted.
    #[error("what the provider said of you could not be verified")]
    Unproven,
    /// Which account it would be, and why it may not, only the audit log says.
    #[error("no account here signs in by what the provider says of you; ask who runs this server")]
    NoAccount,
    /// The page was loaded from a host that is not of the site.
    #[error("load the page by a host name of this site to sign in by a provider")]
    Host,
    /// It cannot be decided now.
    #[error(transparent)]
    Later(#[from] AuthError),
}

impl OidcError {
    /// The code of the page in `docs/errors`.
    pub fn code(&self) -> &'static str {
        match self {
            OidcError::NoProvider => "EP1023",
            OidcError::Unreachable => "EP1024",
            OidcError::BeginAgain => "EP1025",
            OidcError::Declined(_) => "EP1026",
            OidcError::Unproven => "EP1027",
            OidcError::NoAccount => "EP1028",
            OidcError::Host => "EP1029",
            OidcError::Later(error) => error.code(),
        }
    }
}

/// What a browser keeps while it is at a provider.
#[derive(Serialize, Deserialize)]
struct Begun {
    provider: Name,
    state: String,
    nonce: String,
    verifier: String,
    purpose: OidcPurpose,
    to: String,
    at: Timestamp,
}

impl Begun {
    fn nonces(&self) -> Nonces<'_> {
        Nonces { state: &self.state, nonce: &self.nonce, verifier: &self.verifier }
    }
}

/// Why a return is refused: what the browser is told, and what the audit log says.
struct Refused {
    error: OidcError,
    /// Empty: the audit log says nothing.
    reason: String,
}

impl Refused {
    fn new(error: OidcError, reason: impl Into<String>) -> Self {
        Refused { error, reason: reason.into() }
    }

    fn unrecorded(error: OidcError) -> Self {
        Refused::new(error, String::new())
    }
}

impl From<AuthError> for Refused {
    fn from(error: AuthError) -> Self {
        let reason = error.to_string();
        Refused { error: OidcError::Later(error), reason }
    }
}

impl From<ProviderFault> for Refused {
    fn from(fault: ProviderFault) -> Self {
        let reason = fault.to_string();
        match fault {
            ProviderFault::Unreachable(_) => Refused::new(OidcError::Unreachable, reason),
            ProviderFault::Unproven(_) => Refused::new(OidcError::Unproven, reason),
        }
    }
}

/// A person whom a provider has named, and its account.
struct Shown {
    account: Name,
    principal: Arc<Principal>,
    identity: OidcIdentity,
    purpose: OidcPurpose,
    to: String,
}

impl Gate {
    /// The providers that a site trusts.
    ///
    /// # Errors
    /// The database is away.
    pub async fn oidc_providers(&self, site: SiteId) -> Result<Arc<SiteOidc>, AuthError> {
        self.0.directory.site_oidc(site).await
    }

    /// Leads a browser to a provider.
    ///
    /// # Errors
    /// There is no such provider, it cannot be reached, the page is of no host of the site, or the
    /// database is away.
    pub async fn begin_oidc(&self, start: &OidcStart<'_>) -> Result<OidcLeading, OidcError> {
        let OidcStart { site, provider, page, purpose, to } = start;
        let of_site = self.0.directory.site_oidc(*site).await?;
        let (name, provider) = of_site.find(provider).ok_or(OidcError::NoProvider)?;
        if !of_site.is_at(page) {
            return Err(OidcError::Host);
        }
        let env = self.0.recorder.env();
        let begun = Begun {
            provider: name.clone(),
            state: random_text(env),
            nonce: random_text(env),
            verifier: random_text(env),
            purpose: *purpose,
            to: if to.len() <= OIDC_TARGET_BYTES { (*to).to_owned() } else { String::new() },
            at: env.now(),
        };
        let registration = self.registration(*site, name, provider, page).await?;
        let asking = match purpose {
            OidcPurpose::SignIn => Asking::IfNeeded,
            OidcPurpose::Prove => Asking::Anew,
        };
        let url = self.0.oidc.authorize(&registration, &begun.nonces(), asking).await;
        let url = url.map_err(|fault| unreachable(name, &fault))?;
        let refused = |reason: String| AuthError::Refused { account: String::new(), reason };
        let text = serde_json::to_vec(&begun).map_err(|error| refused(error.to_string()))?;
        let context = SealingContext::browser(&self.site_name(*site).await?, SEALED_FOR);
        let sealed = self.0.directory.master().seal(env, &context, &Secret::new(text));
        let sealed = sealed.map_err(|error| refused(error.to_string()))?;
        Ok(OidcLeading { url, cookie: Secret::new(sealed.0) })
    }

    async fn site_name(&self, site: SiteId) -> Result<Name, AuthError> {
        let gone = || AuthError::Refused {
            account: String::new(),
            reason: "there is no such site".to_owned(),
        };
        self.0.directory.site_name(site).await?.ok_or_else(gone)
    }

    /// The site as the client of a provider, with its secret opened.
    async fn registration<'a>(
        &self,
        site: SiteId,
        name: &'a Name,
        provider: &'a OidcProvider,
        page: &PageOrigin,
    ) -> Result<Registration<'a>, AuthError> {
        let secret = match &provider.client_secret_sealed {
            None => None,
            Some(sealed) => {
                let context = SealingContext::oidc_client(&self.site_name(site).await?, name);
                let opened = self.0.directory.master().open(&context, sealed);
                Some(opened.map_err(|error| AuthError::Refused {
                    account: String::new(),
                    reason: format!("the secret of provider '{name}' does not open: {error}"),
                })?)
            }
        };
        let redirect = format!("{page}/sign-in/oidc/{name}/callback");
        Ok(Registration { site, name, provider, secret, redirect })
    }

    /// What a browser was led to a provider with, if that was not too long ago.
    async fn begun(&self, site: SiteId, cookie: &Secret) -> Result<Option<Begun>, AuthError> {
        let sealed = Sealed(String::from_utf8_lossy(cookie.expose()).into_owned());
        let context = SealingContext::browser(&self.site_name(site).await?, SEALED_FOR);
        let Ok(opened) = self.0.directory.master().open(&context, &sealed) else {
            return Ok(None);
        };
        let begun: Option<Begun> = serde_json::from_slice(opened.expose()).ok();
        let now = self.0.recorder.env().now();
        Ok(begun.filter(|begun| now < begun.at.plus(OIDC_BEGUN_TIME)))
    }
}

impl Attempt {
    /// Logs in by what a provider says of the person whose browser has returned from it. Penalties
    /// do not hold a right one up, for nobody guesses a signature; wrong ones count like wrong
    /// passwords.
    ///
    /// # Errors
    /// It is refused, or cannot be decided now.
    pub async fn oidc(&mut self, back: &OidcReturn<'_>) -> Result<OidcLogin, OidcRefusal> {
        // It comes first: what the connection has proved before is not of this browser's person.
        self.steps = None;
        match self.check_oidc(back).await {
            Ok(shown) => self.shown_by_provider(shown).await,
            Err(Refused { error, reason }) if reason.is_empty() => {
                Err(OidcRefusal { error, end: false })
            }
            Err(Refused { error, reason }) => {
                let provider: String = back.provider.chars().take(OIDC_SAID).collect();
                let reason = format!("provider '{}': {reason}", plain(&provider));
                let fault = match error {
                    OidcError::Unreachable => {
                        tracing::warn!(code = "EP1024", provider, "a provider failed: {reason}");
                        Fault::Later(reason)
                    }
                    OidcError::Later(_) => Fault::Later(reason),
                    _ => Fault::Barred(reason),
                };
                let verdict = self.refuse_shown(None, fault).await;
                Err(OidcRefusal {
                    error,
                    end: matches!(verdict, Verdict::Refused { end: true, .. }),
                })
            }
        }
    }

    async fn shown_by_provider(&mut self, shown: Shown) -> Result<OidcLogin, OidcRefusal> {
        let Shown { account, principal, identity, purpose, to } = shown;
        let text = format!("oidc {} {}", identity.provider, plain(&identity.subject));
        let proof = Proof { text, credential: Credential::Oidc(identity) };
        let user = account.to_string();
        match self.passed(&user, principal, AuthMethod::Oidc, proof).await {
            Verdict::Refused { end, .. } => Err(OidcRefusal { error: OidcError::NoAccount, end }),
            verdict => Ok(OidcLogin { verdict, user, purpose, to }),
        }
    }

    async fn check_oidc(&mut self, back: &OidcReturn<'_>) -> Result<Shown, Refused> {
        let (gate, site) = (self.gate.clone(), self.peer.site);
        let of_site = gate.0.directory.site_oidc(site).await?;
        let found = of_site.find(back.provider);
        let (name, provider) = found.ok_or_else(|| Refused::unrecorded(OidcError::NoProvider))?;
        let begin_again = |reason: &str| Refused::new(OidcError::BeginAgain, reason);
        let begun = gate.begun(site, back.cookie).await?;
        let begun = begun.filter(|begun| begun.provider == *name);
        // Nothing was guessed: anybody may load the address.
        let begun = begun.ok_or_else(|| Refused::unrecorded(OidcError::BeginAgain))?;
        if !constant_time_eq(begun.state.as_bytes(), back.state.as_bytes()) {
            return Err(begin_again("the state is another one"));
        }
        if !back.issuer.is_empty() && back.issuer != provider.issuer.as_str() {
            return Err(Refused::new(OidcError::Unproven, "another issuer has answered"));
        }
        if !back.error.is_empty() || back.code.is_empty() {
            let said: String = back.error.chars().take(OIDC_SAID).collect();
            let said = if said.is_empty() { "nothing".to_owned() } else { plain(&said) };
            return Err(Refused::new(OidcError::Declined(said.clone()), format!("it says {said}")));
        }
        let hash = entrepot_nouns::transfer::hex(&sha256(begun.state.as_bytes()));
        let ends_at = begun.at.plus(OIDC_BEGUN_TIME);
        let db = gate.0.directory.db();
        if !db.answer_challenge(&hash, ends_at).await.map_err(AuthError::from)? {
            return Err(begin_again("it was answered before"));
        }
        let registration = gate.registration(site, name, provider, back.page).await?;
        let person = gate.0.oidc.person(&registration, &begun.nonces(), back.code).await?;
        if begun.purpose == OidcPurpose::Prove && !is_asked_since(&person, begun.at) {
            return Err(Refused::new(OidcError::Unproven, "it did not ask the person anew"));
        }
        let admitted = self.account_of(name, provider, &person).await;
        let (account, principal, identity) = admitted.map_err(|refused| Refused {
            reason: format!("subject '{}': {}", plain(person.subject()), refused.reason),
            ..refused
        })?;
        Ok(Shown { account, principal, identity, purpose: begun.purpose, to: begun.to })
    }

    /// The account that a person may log in as.
    async fn account_of(
        &mut self,
        name: &Name,
        provider: &OidcProvider,
        person: &Person,
    ) -> Result<(Name, Arc<Principal>, OidcIdentity), Refused> {
        let refused = |reason: String| Refused::new(OidcError::NoAccount, reason);
        if let Some(reason) = person.why_unwanted(provider) {
            return Err(refused(reason));
        }
        let site = self.peer.site;
        let db = self.gate.0.directory.db();
        let bound = db.account_of_oidc(site, name, person.subject()).await;
        let account = match bound.map_err(AuthError::from)? {
            Some(account) => account,
            None => {
                let named = person.account_name(provider).map_err(refused)?;
                let no_name = |_| refused(format!("'{}' is no name of an account", plain(named)));
                named.parse().map_err(no_name)?
            }
        };
        let of_account = |reason: &str| refused(format!("account '{account}': {reason}"));
        let principal = self.principal(account.as_str()).await?;
        let principal = principal.ok_or_else(|| of_account("there is none"))?;
        let now = self.gate.0.recorder.env().now();
        let subject = person.subject().to_owned();
        let identity = OidcIdentity { provider: name.clone(), subject };
        let barred = principal
            .why_barred(&self.peer, self.here(), now)
            .or_else(|| principal.why_not_oidc(&identity));
        match barred {
            Some(reason) => Err(of_account(reason)),
            None => Ok((account, principal, identity)),
        }
    }
}

fn unreachable(name: &Name, fault: &ProviderFault) -> OidcError {
    tracing::warn!(code = "EP1024", provider = %name, "a provider failed: {fault}");
    OidcError::Unreachable
}

/// A text of others with what steers terminals or the order of letters escaped.
fn plain(text: &str) -> String {
    let is_plain = |letter: char| matches!(letter, ' '..='~');
    let escaped = text.chars().map(|letter| {
        if is_plain(letter) { letter.to_string() } else { letter.escape_unicode().to_string() }
    });
    escaped.collect()
}
