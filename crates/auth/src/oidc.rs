//! Providers of OpenID Connect as the client of a site sees them (OpenID Connect Core 1.0,
//! OpenID Connect Discovery 1.0): what they publish, the code that they give for a person, and
//! what the ID token behind it says.
//!
//! What holds: a provider is asked by `net::http` only, under TLS unless it is of this machine, for
//! a limited time and answer. What it publishes is kept for an hour; its keys are read again when a
//! token names one that is not known, at most once a minute. A token counts if it is signed by such
//! a key with an algorithm of [`ALGORITHMS`], is of this issuer and for this client alone, carries
//! the nonce, and has not expired.

mod claims;
mod transport;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::DateTime;
use entrepot_nouns::{Env, HostName, Name, OidcProvider, Secret, SiteId, Timestamp};
use openidconnect::core::{
    CoreAuthPrompt, CoreAuthenticationFlow, CoreClient, CoreClientAuthMethod, CoreIdToken,
    CoreIdTokenVerifier, CoreJsonWebKeySet, CoreJwsSigningAlgorithm, CoreProviderMetadata,
};
use openidconnect::{
    AuthType, AuthorizationCode, ClaimsVerificationError, ClientId, ClientSecret, CsrfToken,
    EndpointMaybeSet, EndpointNotSet, EndpointSet, IssuerUrl, Nonce, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, RequestTokenError, Scope, SignatureVerificationError,
};
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::limits::{
    OIDC_AT_A_TIME, OIDC_CACHED, OIDC_FAILURE_KEPT, OIDC_FRESH, OIDC_KEYS_EVERY, OIDC_SKEW,
    OIDC_TIME,
};
use crate::webauthn::PageOrigin;
pub(crate) use claims::Person;
use transport::Transport;

/// How tokens may be signed; never by a secret that both sides know, and never not at all.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 3] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// A client whose addresses come from the provider's metadata.
type DiscoveredClient = CoreClient<
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// Why a provider said nothing that counts.
#[derive(Debug)]
pub(crate) enum ProviderFault {
    /// It cannot be reached, or its answer cannot be read.
    Unreachable(String),
    /// What it said proves nothing.
    Unproven(String),
}

/// What a site says of sign-ins by providers.
#[derive(Debug, Default)]
pub struct SiteOidc {
    /// By their names.
    pub providers: BTreeMap<Name, OidcProvider>,
    /// Host names of the site; empty: it is reached by any.
    pub(crate) hosts: Vec<HostName>,
}

impl SiteOidc {
    pub(crate) fn find(&self, name: &str) -> Option<(&Name, &OidcProvider)> {
        self.providers.get_key_value(&name.parse::<Name>().ok()?)
    }

    /// Name and label of those that may sign somebody in on a page, by their names.
    pub fn offered(&self, page: Option<&PageOrigin>) -> Vec<(&Name, &str)> {
        let is_offered = page.is_some_and(|page| self.is_at(page));
        let all = self.providers.iter().filter(|_| is_offered);
        all.map(|(name, provider)| (name, provider.label(name))).collect()
    }

    /// True if a page was loaded by a host name that is known to be of the site: what a request
    /// says of its host decides where a provider sends people.
    pub(crate) fn is_at(&self, page: &PageOrigin) -> bool {
        self.hosts.is_empty() || self.hosts.iter().any(|host| host.as_str() == page.host())
    }
}

/// A site as the client of a provider.
pub(crate) struct Registration<'a> {
    pub(crate) site: SiteId,
    pub(crate) name: &'a Name,
    pub(crate) provider: &'a OidcProvider,
    pub(crate) secret: Option<Secret>,
    /// Where the provider sends browsers back to.
    pub(crate) redirect: String,
}

/// Random texts of one sign-in.
pub(crate) struct Nonces<'a> {
    pub(crate) state: &'a str,
    pub(crate) nonce: &'a str,
    /// Of PKCE (RFC 7636).
    pub(crate) verifier: &'a str,
}

/// Whether the provider must ask the person anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asking {
    IfNeeded,
    Anew,
}

/// Which keys of a provider are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Keys {
    Known,
    /// A token names one that is not known.
    Newer,
}

/// What providers have published, and the limit on concurrent questions.
pub(crate) struct OidcProviders {
    env: Env,
    calls: Semaphore,
    entries: Mutex<HashMap<(SiteId, Name), Arc<Entry>>>,
}

/// One provider, as long as its configuration stays.
struct Entry {
    provider: OidcProvider,
    transport: Transport,
    /// Asked by one at a time.
    published: tokio::sync::Mutex<Published>,
}

#[derive(Default)]
struct Published {
    known: Option<Known>,
    /// When it failed last, by the monotonic clock, and why.
    failed: Option<(Duration, String)>,
}

struct Known {
    metadata: Arc<CoreProviderMetadata>,
    read_at: Duration,
    keys_read_at: Duration,
}

impl OidcProviders {
    pub(crate) fn new(env: Env) -> Self {
        OidcProviders { env, calls: Semaphore::new(OIDC_AT_A_TIME), entries: Mutex::default() }
    }

    /// The address at the provider that a browser is led to.
    pub(crate) async fn authorize(
        &self,
        registration: &Registration<'_>,
        nonces: &Nonces<'_>,
        asking: Asking,
    ) -> Result<String, ProviderFault> {
        let metadata = self.metadata(registration, Keys::Known).await?;
        let endpoint = metadata.authorization_endpoint().url();
        if !registration.allows(endpoint.scheme()) {
            return Err(ProviderFault::Unreachable(format!("'{endpoint}' is no https")));
        }
        let client = registration.client(&metadata)?;
        let verifier = PkceCodeVerifier::new(nonces.verifier.to_owned());
        let (state, nonce) = (nonces.state.to_owned(), nonces.nonce.to_owned());
        let mut request = client
            .authorize_url(
                CoreAuthenticationFlow::AuthorizationCode,
                || CsrfToken::new(state),
                || Nonce::new(nonce),
            )
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        for scope in registration.provider.scopes() {
            request = request.add_scope(Scope::new(scope.to_owned()));
        }
        if asking == Asking::Anew {
            request = request.add_prompt(CoreAuthPrompt::Login).set_max_age(Duration::ZERO);
        }
        Ok(request.url().0.to_string())
    }

    /// Whom the code of a provider stands for.
    pub(crate) async fn person(
        &self,
        registration: &Registration<'_>,
        nonces: &Nonces<'_>,
        code: &str,
    ) -> Result<Person, ProviderFault> {
        let metadata = self.metadata(registration, Keys::Known).await?;
        let token = self.exchange(registration, &metadata, nonces, code).await?;
        let verified = match self.verify(registration, &metadata, &token, nonces) {
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey,
            )) => {
                let newer = self.metadata(registration, Keys::Newer).await?;
                self.verify(registration, &newer, &token, nonces)
            }
            verified => verified,
        };
        verified.map_err(|error| ProviderFault::Unproven(with_source(&error)))?;
        let person = Person::of(&token.to_string()).ok_or_else(|| {
            ProviderFault::Unproven("the ID token holds no claims that can be read".to_owned())
        })?;
        match person.authorized_party() {
            Some(party) if party != registration.provider.client_id => {
                Err(ProviderFault::Unproven(format!("the ID token was given to '{party}'")))
            }
            _ => Ok(person),
        }
    }

    async fn exchange(
        &self,
        registration: &Registration<'_>,
        metadata: &CoreProviderMetadata,
        nonces: &Nonces<'_>,
        code: &str,
    ) -> Result<CoreIdToken, ProviderFault> {
        let client = registration.client(metadata)?;
        let request = client.exchange_code(AuthorizationCode::new(code.to_owned()));
        let request = request.map_err(|error| ProviderFault::Unreachable(error.to_string()))?;
        let request = request.set_pkce_verifier(PkceCodeVerifier::new(nonces.verifier.to_owned()));
        let entry = self.entry(registration);
        let answered = self.in_time(request.request_async(&entry.transport)).await?;
        let answer = answered.map_err(|error| match error {
            RequestTokenError::ServerResponse(said) => {
                ProviderFault::Unproven(format!("the provider did not take the code: {said}"))
            }
            // Not what it holds: that may be tokens.
            RequestTokenError::Parse(error, _) => {
                ProviderFault::Unreachable(format!("its answer to the code is unreadable: {error}"))
            }
            other => ProviderFault::Unreachable(with_source(&other)),
        })?;
        let token = answer.extra_fields().id_token().cloned();
        token.ok_or_else(|| ProviderFault::Unproven("it gave no ID token".to_owned()))
    }

    fn verify(
        &self,
        registration: &Registration<'_>,
        metadata: &CoreProviderMetadata,
        token: &CoreIdToken,
        nonces: &Nonces<'_>,
    ) -> Result<(), ClaimsVerificationError> {
        let now = self.env.now();
        // Of a public client: a secret that it shares with the provider proves nothing here.
        let verifier = CoreIdTokenVerifier::new_public_client(
            ClientId::new(registration.provider.client_id.clone()),
            metadata.issuer().clone(),
            metadata.jwks().clone(),
        );
        let verifier = verifier
            .set_allowed_algs(ALGORITHMS)
            .set_time_fn(move || DateTime::from_timestamp_micros(now.micros()).unwrap_or_default());
        token.claims(&verifier, &Nonce::new(nonces.nonce.to_owned())).map(|_| ())
    }

    /// What a provider publishes, with its keys.
    async fn metadata(
        &self,
        registration: &Registration<'_>,
        keys: Keys,
    ) -> Result<Arc<CoreProviderMetadata>, ProviderFault> {
        let entry = self.entry(registration);
        let mut published = entry.published.lock().await;
        let now = self.env.elapsed();
        let since = |at: Duration| now.saturating_sub(at);
        if let Some((at, why)) = &published.failed
            && since(*at) < OIDC_FAILURE_KEPT
        {
            return Err(ProviderFault::Unreachable(why.clone()));
        }
        let known = published.known.take().filter(|known| since(known.read_at) < OIDC_FRESH);
        let read = match known {
            Some(known) if keys == Keys::Known || since(known.keys_read_at) < OIDC_KEYS_EVERY => {
                Ok(known)
            }
            Some(known) => self.read_keys(&entry, known, now).await,
            None => self.discover(&entry, now).await,
        };
        match read {
            Ok(known) => {
                let metadata = known.metadata.clone();
                *published = Published { known: Some(known), failed: None };
                Ok(metadata)
            }
            Err(why) => {
                *published = Published { known: None, failed: Some((now, why.clone())) };
                Err(ProviderFault::Unreachable(why))
            }
        }
    }

    async fn discover(&self, entry: &Entry, now: Duration) -> Result<Known, String> {
        let issuer = IssuerUrl::new(entry.provider.issuer.as_str().to_owned());
        let issuer = issuer.map_err(|error| error.to_string())?;
        let asked = CoreProviderMetadata::discover_async(issuer, &entry.transport);
        let metadata = self.in_time(asked).await.map_err(|fault| fault.to_string())?;
        let metadata = Arc::new(metadata.map_err(|error| with_source(&error))?);
        Ok(Known { metadata, read_at: now, keys_read_at: now })
    }

    async fn read_keys(&self, entry: &Entry, known: Known, now: Duration) -> Result<Known, String> {
        let asked = CoreJsonWebKeySet::fetch_async(known.metadata.jwks_uri(), &entry.transport);
        let keys = self.in_time(asked).await.map_err(|fault| fault.to_string())?;
        let keys = keys.map_err(|error| with_source(&error))?;
        let metadata = Arc::new((*known.metadata).clone().set_jwks(keys));
        Ok(Known { metadata, keys_read_at: now, ..known })
    }

    /// Waits for a provider, in the queue too, no longer than it may take.
    async fn in_time<T>(&self, asking: impl Future<Output = T>) -> Result<T, ProviderFault> {
        let asking = async {
            // The semaphore is never closed.
            let _permit = self.calls.acquire().await.ok()?;
            Some(asking.await)
        };
        let answered = tokio::time::timeout(OIDC_TIME, asking).await.ok().flatten();
        let late = || ProviderFault::Unreachable(format!("no answer within {OIDC_TIME:?}"));
        answered.ok_or_else(late)
    }

    fn entry(&self, registration: &Registration<'_>) -> Arc<Entry> {
        let Registration { site, name, provider, .. } = registration;
        let mut entries = self.entries.lock();
        let key = (*site, (*name).clone());
        if let Some(entry) = entries.get(&key).filter(|entry| entry.provider == **provider) {
            return entry.clone();
        }
        if entries.len() >= OIDC_CACHED {
            entries.clear();
        }
        let entry = Arc::new(Entry {
            provider: (*provider).clone(),
            transport: Transport::new(provider),
            published: tokio::sync::Mutex::default(),
        });
        entries.insert(key, entry.clone());
        entry
    }
}

impl Registration<'_> {
    /// True if the provider may name an address with this scheme.
    fn allows(&self, scheme: &str) -> bool {
        scheme == "https" || (scheme == "http" && self.provider.issuer.is_clear())
    }

    fn client(&self, metadata: &CoreProviderMetadata) -> Result<DiscoveredClient, ProviderFault> {
        let id = ClientId::new(self.provider.client_id.clone());
        let secret = self.secret.as_ref();
        let secret = secret.map(|secret| String::from_utf8_lossy(secret.expose()).into_owned());
        let redirect = RedirectUrl::new(self.redirect.clone());
        let redirect = redirect.map_err(|error| ProviderFault::Unreachable(error.to_string()))?;
        // Unless it says otherwise, a provider takes the secret by HTTP Basic (Discovery §3).
        let methods = metadata.token_endpoint_auth_methods_supported();
        let takes = |method| methods.is_some_and(|all| all.contains(&method));
        let in_body = takes(CoreClientAuthMethod::ClientSecretPost)
            && !takes(CoreClientAuthMethod::ClientSecretBasic);
        let how = if in_body { AuthType::RequestBody } else { AuthType::BasicAuth };
        let metadata = metadata.clone();
        let client =
            CoreClient::from_provider_metadata(metadata, id, secret.map(ClientSecret::new));
        Ok(client.set_redirect_uri(redirect).set_auth_type(how))
    }
}

impl std::fmt::Display for ProviderFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ProviderFault::Unreachable(why) | ProviderFault::Unproven(why) => f.write_str(why),
        }
    }
}

/// An error of the library with what is behind it.
fn with_source(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}

/// A random text of 43 letters, as PKCE asks for at least (RFC 7636 §4.1).
pub(crate) fn random_text(env: &Env) -> String {
    let mut bytes = [0; 32];
    env.fill_random(&mut bytes);
    URL_SAFE_NO_PAD.encode(bytes)
}

/// True if the provider has asked the person itself since `begun`; its clock may differ a little.
pub(crate) fn is_asked_since(person: &Person, begun: Timestamp) -> bool {
    let asked_at = person.number("auth_time").map(Timestamp::from_seconds);
    asked_at.is_some_and(|at| at.plus(OIDC_SKEW) >= begun)
}
