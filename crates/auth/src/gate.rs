//! Every way to log in ends here, and only here is a [`Grant`] made. The methods are in the files
//! of this module; passwords and plain keys are in this one.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use entrepot_crypto::{HashCost, password};
use entrepot_journal::{Recorder, Scope};
use entrepot_nouns::login::LoginCheck;
use entrepot_nouns::{AuthMethod, Fact, Name, Protocol, Secret, SiteId};
use entrepot_spawn::Spawner;
use tokio::sync::mpsc;

use crate::account_key::AccountKey;
use crate::as2::As2Partner;
use crate::clients;
use crate::codes::Codes;
use crate::credential::{Credential, Proof};
use crate::directory::{Directory, TOO_MANY_SESSIONS};
use crate::error::{AuthError, Result};
use crate::limits::{KEYS_OFFERED, RECORDED_NAME, REFUSED_PER_CONNECTION, WRONG_PER_CONNECTION};
use crate::login_hook::LoginHooks;
use crate::login_key::check_blob;
use crate::minute_rates::Rates;
use crate::oidc::OidcProviders;
use crate::outdated::{OutdatedPassword, OutdatedPasswords};
use crate::passwords::{Compared, Passwords, Stored};
use crate::peer::Peer;
use crate::penalties::{Claimant, Origin, PasswordTry, Penalties, Penalty};
use crate::policy::{EffectivePolicy, ListenerPolicy, NOT_HERE};
use crate::principal::Principal;
use crate::signed_in::KnownSignIns;
use crate::ssh_key::{SIGNATURES, fingerprint, key_blob};
use crate::token_uses::TokenUses;
use crate::web_hooks::Hooks;

mod api_token;
mod as2;
mod grant;
mod host_names;
mod interactive;
mod link;
mod login_hook;
mod login_limits;
mod oidc;
mod passkey;
mod sharing;
mod sign_in;
mod ssh_certificate;
mod tls_certificate;
mod web_hook;

pub use as2::As2NotTold;
pub use grant::Grant;
pub use link::{LinkEnd, LinkPassword, LinkVerdict};
pub use login_limits::{LimitState, LoginLimit};
pub use oidc::{
    OidcError, OidcLeading, OidcLogin, OidcPurpose, OidcRefusal, OidcReturn, OidcStart,
};
pub use passkey::{Challenge, ChallengePurpose, PasskeyError, PasskeyLogin};
pub use sharing::PenaltySharing;
pub use web_hook::{HookMessage, HookReceipt, HookRefusal, RuleHook};

/// How the gate works.
#[derive(Clone, Debug, Default)]
pub struct GateOptions {
    /// Cost of the work done for names without a password, and below which the hash of a password
    /// is made anew; what comparing one costs stands in its hash.
    pub cost: HashCost,
}

/// Logins since the start, by result.
#[derive(Debug, Default)]
pub struct Meters {
    granted: AtomicU64,
    refused: AtomicU64,
    limited: AtomicU64,
}

impl Meters {
    /// Logins that succeeded.
    pub fn granted(&self) -> u64 {
        self.granted.load(Ordering::Relaxed)
    }
    /// Logins that were tried and refused.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
    /// Logins that were refused without a check, because of earlier wrong passwords.
    pub fn limited(&self) -> u64 {
        self.limited.load(Ordering::Relaxed)
    }
}

/// Admits or refuses. Cheap to clone.
#[derive(Clone)]
pub struct Gate(Arc<Inner>);

struct Inner {
    directory: Directory,
    recorder: Recorder,
    passwords: Passwords,
    /// What the hashes of new passwords cost.
    cost: HashCost,
    outdated: OutdatedPasswords,
    hooks: LoginHooks,
    oidc: OidcProviders,
    codes: Codes,
    penalties: Penalties,
    token_uses: TokenUses,
    sign_ins: KnownSignIns,
    web_hooks: Hooks,
    /// Messages of AS2 that were refused, by partner.
    as2_refusals: Rates,
    meters: Meters,
}

/// One connection's tries. A step counts only for the same name on the same connection.
pub struct Attempt {
    gate: Gate,
    pub(crate) peer: Peer,
    steps: Option<Steps>,
    wrong: u32,
    /// Tries of any kind that were refused.
    refused: u32,
    offered: u32,
    /// The policy of the listener, as it was at the last look at the account.
    listener: Option<Arc<ListenerPolicy>>,
    /// The login hook for accounts without a password of their own.
    check: Option<LoginCheck>,
}

/// What the name that is being proved has proved so far.
#[derive(Clone)]
struct Steps {
    user: String,
    done: Vec<AuthMethod>,
    proofs: Vec<Proof>,
}

/// The answer to one try.
#[derive(Debug)]
pub enum Verdict {
    /// All that the account asks for was proved; the grant opens a session.
    Granted(Grant),
    /// Right so far; one of these must follow.
    Partial {
        /// Methods that may come next.
        next: Vec<AuthMethod>,
    },
    /// Not checked: too many passwords wait to be compared. The connection must end now; the client
    /// may try again in a moment.
    Busy,
    /// Refused; the peer learns no more than that.
    Refused {
        /// Methods that may be tried.
        next: Vec<AuthMethod>,
        /// The connection must end now.
        end: bool,
    },
}

impl Gate {
    /// Over a directory; refusals are recorded.
    pub fn new(directory: Directory, recorder: Recorder, options: GateOptions) -> Gate {
        let env = directory.env().clone();
        Gate(Arc::new(Inner {
            passwords: Passwords::new(env.clone(), options.cost),
            cost: options.cost,
            outdated: OutdatedPasswords::default(),
            hooks: LoginHooks::new(),
            oidc: OidcProviders::new(env.clone()),
            codes: Codes::default(),
            penalties: Penalties::new(env.clone()),
            web_hooks: Hooks::new(env.clone()),
            as2_refusals: Rates::new(env),
            token_uses: TokenUses::default(),
            sign_ins: KnownSignIns::default(),
            directory,
            recorder,
            meters: Meters::default(),
        }))
    }

    /// Login hooks that are programs are started by `spawner`; without one they decide nothing.
    pub fn start_programs_by(&self, spawner: Spawner) {
        self.0.hooks.start_programs_by(spawner);
    }

    /// Right passwords, from now on, whose hashes cost less than those of new ones; `None` if
    /// somebody has asked for them already.
    pub fn outdated_passwords(&self) -> Option<mpsc::Receiver<OutdatedPassword>> {
        self.0.outdated.subscribe()
    }

    /// Has the hash of a right password made anew, if it should be.
    fn renew_later(&self, principal: &Principal, hash: &str, password: &Secret) {
        if password::is_outdated(hash, self.0.cost) {
            self.0.outdated.hand_over(OutdatedPassword {
                site: principal.site,
                account: principal.account.name.clone(),
                hash: hash.to_owned(),
                password: password.clone(),
            });
        }
    }

    /// Begins the logins of a connection.
    pub fn attempt(&self, peer: Peer) -> Attempt {
        Attempt {
            gate: self.clone(),
            peer,
            steps: None,
            wrong: 0,
            refused: 0,
            offered: 0,
            listener: None,
            check: None,
        }
    }

    /// Admits a rule as an account, without credentials: the rule was written by an admin.
    ///
    /// # Errors
    /// There is no such account, it may not act, or the database is away.
    pub async fn internal(&self, site: SiteId, name: &Name, why: &str) -> Result<Grant> {
        let refused = |reason: &str| AuthError::Refused {
            account: name.to_string(),
            reason: reason.to_owned(),
        };
        let principal = self.0.directory.resolve(site, name).await?;
        let principal = principal.ok_or_else(|| refused("there is no such account"))?;
        if let Some(reason) = principal.barred_at(self.0.recorder.env().now()) {
            return Err(refused(reason));
        }
        let peer = Peer {
            site,
            home: site,
            protocol: Protocol::Internal,
            encrypted: true,
            listener: name.clone(),
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            client: why.to_owned(),
            algorithms: String::new(),
        };
        let credentials = Vec::new();
        Ok(Grant { principal, proof: why.to_owned(), credentials, peer, listener: None })
    }

    /// The partner of AS2 that an endpoint of a site is; `None`: it is none.
    ///
    /// # Errors
    /// The database is away, and it was not asked for before.
    pub async fn as2_partner_at(
        &self,
        site: SiteId,
        endpoint: &Name,
    ) -> Result<Option<Arc<As2Partner>>> {
        self.0.directory.as2_partner(site, endpoint).await
    }

    /// Why the policy of the listener refuses a client before it tries to log in, by its address or
    /// its version, in a sentence for the client. `None`: it may try.
    pub async fn why_unwelcome(&self, peer: &Peer) -> Option<String> {
        let policy = self.0.directory.listener_policy(peer.home, &peer.listener).await;
        // The database is away: accounts that are known may log in.
        let policy = policy.ok()?;
        if !policy.own.admits(peer.address.ip()) {
            return Some(NOT_HERE.to_owned());
        }
        let least = clients::too_old(&peer.client, &policy.own.least_clients)?;
        let sentence = format!("this server asks for {least} or newer, please update your client");
        let attempt = self.attempt(peer.clone());
        attempt.record("", &format!("the client is older than {least}"));
        Some(sentence)
    }

    /// False if it is known already that a listener does not admit `address`.
    pub fn may_admit(&self, site: SiteId, listener: &Name, address: IpAddr) -> bool {
        let known = self.0.directory.known_listener_policy(site, listener);
        known.is_none_or(|policy| policy.own.admits(address))
    }

    /// What the policy of a listener says, with that of the site behind it.
    ///
    /// # Errors
    /// The database is away.
    pub async fn listener_policy(&self, site: SiteId, listener: &Name) -> Result<EffectivePolicy> {
        let policy = self.0.directory.listener_policy(site, listener).await?;
        Ok(policy.own.clone())
    }

    /// Logins so far.
    pub fn meters(&self) -> &Meters {
        &self.0.meters
    }

    /// Argon2id computations so far.
    pub fn hashes(&self) -> u64 {
        self.0.passwords.hashed()
    }

    #[cfg(test)]
    pub(crate) fn known_sign_ins(&self) -> usize {
        self.0.sign_ins.count()
    }

    #[cfg(test)]
    pub(crate) fn penalties(&self) -> &Penalties {
        &self.0.penalties
    }

    #[cfg(test)]
    pub(crate) fn hash_queue(&self) -> &crate::hash_queue::HashQueue {
        &self.0.passwords.queue
    }
}

/// Why a try fails.
enum Fault {
    /// A wrong secret: counts against address and account.
    Wrong(&'static str),
    /// Refused whatever the secret.
    Barred(String),
    /// It could not be decided, such as while the database is away: it counts against neither
    /// address nor account.
    Later(String),
}

impl Attempt {
    /// Begins again with another peer or name, for protocols that let the client change its name at
    /// any time. Proofs so far no longer count; wrong tries still do.
    pub fn begin_again(&mut self, peer: Peer) {
        self.peer = peer;
        self.steps = None;
    }

    /// The name that has proved something and must prove more.
    pub fn proving(&self) -> Option<&str> {
        self.steps.as_ref().map(|steps| steps.user.as_str())
    }

    /// Methods offered to a name that nothing is known of.
    pub fn methods(&self) -> Vec<AuthMethod> {
        vec![AuthMethod::PublicKey, AuthMethod::Password]
    }

    /// True if a signature by this key may log `user` in. Proves nothing, and grants nothing.
    pub async fn offered(&mut self, user: &str, key: &str) -> bool {
        self.offered += 1;
        if self.offered > KEYS_OFFERED || self.is_other(user) {
            return false;
        }
        let certifies = self.certifying_authorities(user).await;
        let Some(principal) = self.principal(user).await.ok().flatten() else {
            return certifies.of_site && self.here().admits(self.peer.address.ip());
        };
        let certified = certifies.of_site || certifies.of_account;
        let next = next_methods(&principal, self.done());
        self.here().admits(self.peer.address.ip())
            && next.contains(&AuthMethod::PublicKey)
            && (certified || self.knows_key(&principal, key))
    }

    /// Checks a password, here or by the login hook.
    pub async fn password(&mut self, user: &str, password: &Secret) -> Verdict {
        let method = AuthMethod::Password;
        let pending = match self.begin_try(user).await {
            Ok(pending) => pending,
            Err(verdict) => return verdict,
        };
        let principal = self.principal(user).await;
        if let Some(check) = self.hook_for(&principal) {
            return self.password_by_hook(user, password, &check, pending).await;
        }
        let admitted = self.admit(&principal, method);
        // Unknown, barred or not asked for: the same work, then the same answer.
        let stored = admitted.as_ref().ok().and_then(|principal| {
            let phc = principal.account.password_hash.as_deref()?;
            Some(Stored { account: principal.id, revision: principal.revision, phc })
        });
        let compared = self.gate.0.passwords.compare(self.origin(), password, stored).await;
        // It may have waited in the queue: what holds is the account as it is now.
        let (before, principal) = (admitted, self.principal(user).await);
        let admitted = match (before, self.admit(&principal, method)) {
            (Ok(old), Ok(new)) if !has_same_password(&old, &new) => {
                Err(Fault::Wrong("the password was changed meanwhile"))
            }
            (Err(fault), _) | (Ok(_), Err(fault)) => Err(fault),
            (Ok(_), Ok(new)) => Ok(new),
        };
        let fault = match (compared, admitted) {
            (Compared::Right, Ok(principal)) => {
                pending.give_back();
                let hash = principal.account.password_hash.clone().unwrap_or_default();
                self.gate.renew_later(&principal, &hash, password);
                let credential = Credential::Password(hash);
                let proof = Proof { text: "password".to_owned(), credential };
                return self.passed(user, principal, method, proof).await;
            }
            (Compared::Busy, _) => return self.busy(user, pending),
            (_, Err(fault)) => fault,
            (Compared::Wrong, Ok(_)) => Fault::Wrong("wrong password"),
        };
        self.fail(user, &principal, pending, fault).await
    }

    /// The hook that checks the password: the account has none of its own, or does not exist.
    fn hook_for(&self, principal: &Result<Option<Arc<Principal>>>) -> Option<LoginCheck> {
        let check = self.check.as_ref()?;
        let own = match principal {
            Ok(Some(principal)) => {
                principal.account.password_hash.is_some() || principal.link_terms().is_some()
            }
            Ok(None) => false,
            Err(_) => true,
        };
        // After another method the account's own password must follow.
        (!own && self.done().is_empty()).then(|| check.clone())
    }

    /// Logs in by a signature that the caller has verified: `key` (one line of OpenSSH form) made
    /// it, `algorithm` is the signature's.
    pub async fn public_key(&mut self, user: &str, key: &str, algorithm: &str) -> Verdict {
        let method = AuthMethod::PublicKey;
        // Penalties are for guessed passwords: a key cannot be guessed, and its owner is let in.
        if let Some(verdict) = self.begin(user) {
            return verdict;
        }
        let principal = self.principal(user).await;
        let fault = match self.admit(&principal, method) {
            Err(fault) => fault,
            Ok(_) if !self.takes_signature(algorithm) => {
                Fault::Barred(format!("signatures of '{algorithm}' are too weak"))
            }
            Ok(principal) if self.knows_key(&principal, key) => {
                let blob = key_blob(key).unwrap_or_default();
                let text = format!("public-key {}", fingerprint(&blob));
                let proof = Proof { text, credential: Credential::Key(blob) };
                return self.passed(user, principal, method, proof).await;
            }
            Ok(_) => Fault::Barred("unknown key".to_owned()),
        };
        self.refuse(user, &principal, fault).await
    }

    /// What the policy of the listener says, as far as it is known.
    fn here(&self) -> &EffectivePolicy {
        static ANYWHERE: LazyLock<EffectivePolicy> = LazyLock::new(EffectivePolicy::default);
        self.listener.as_deref().map_or(&ANYWHERE, |listener| &listener.own)
    }

    /// Weak ones are taken where the policy of the listener names them.
    fn takes_signature(&self, algorithm: &str) -> bool {
        let now = self.gate.0.recorder.env().now();
        SIGNATURES.contains(&algorithm)
            || self.here().legacy_at(now).any(|legacy| legacy == algorithm)
    }

    fn done(&self) -> &[AuthMethod] {
        self.steps.as_ref().map_or(&[], |steps| &steps.done)
    }

    /// True if another name has proved something on this connection already.
    fn is_other(&self, user: &str) -> bool {
        self.steps.as_ref().is_some_and(|steps| steps.user != user)
    }

    async fn principal(&mut self, user: &str) -> Result<Option<Arc<Principal>>> {
        let directory = &self.gate.0.directory;
        let policy = directory.listener_policy(self.peer.home, &self.peer.listener).await?;
        self.check = if self.peer.site == self.peer.home {
            policy.check.clone()
        } else {
            directory.site_check(self.peer.site).await?
        };
        self.listener = Some(policy);
        // What is no name is no account: nothing is looked up.
        let Ok(name) = user.parse::<Name>() else {
            return Ok(None);
        };
        self.gate.0.directory.resolve(self.peer.site, &name).await
    }

    /// Checks that it is the same name as before.
    fn begin(&mut self, user: &str) -> Option<Verdict> {
        if !self.is_other(user) {
            return None;
        }
        self.record(user, "the name changed between two steps");
        Some(Verdict::Refused { next: Vec::new(), end: true })
    }

    /// Takes one try for a secret that could be guessed, or refuses while penalties forbid it.
    async fn begin_try(&mut self, user: &str) -> std::result::Result<PasswordTry, Verdict> {
        if let Some(verdict) = self.begin(user) {
            return Err(verdict);
        }
        let claimant = self.claimant(user);
        let allowed = self.gate.allowed(&claimant.account).await;
        let pending = self.gate.0.penalties.begin_try(&claimant, allowed).await;
        pending.map_err(|limit| self.refuse_unchecked(user, limit))
    }

    /// Ends a try that failed.
    async fn fail(
        &mut self,
        user: &str,
        principal: &Result<Option<Arc<Principal>>>,
        pending: PasswordTry,
        fault: Fault,
    ) -> Verdict {
        // Every fault counts alike, so that an unknown name is not told from a known one by it.
        match &fault {
            Fault::Later(_) => pending.give_back(),
            Fault::Wrong(_) | Fault::Barred(_) => drop(pending),
        }
        self.wrong += 1;
        self.refuse(user, principal, fault).await
    }

    /// Nothing was compared, so the try does not count as wrong.
    fn busy(&mut self, user: &str, pending: PasswordTry) -> Verdict {
        pending.give_back();
        self.gate.0.meters.limited.fetch_add(1, Ordering::Relaxed);
        self.record(user, "too many passwords wait to be compared");
        Verdict::Busy
    }

    fn origin(&self) -> Origin {
        Origin::of(self.peer.address.ip())
    }

    /// The account's state, re-read at each step; and whether `method` is asked for now.
    fn admit(
        &self,
        principal: &Result<Option<Arc<Principal>>>,
        method: AuthMethod,
    ) -> std::result::Result<Arc<Principal>, Fault> {
        let principal = match principal {
            Ok(Some(principal)) => principal,
            Ok(None) => return Err(Fault::Wrong("no such account")),
            Err(error) => return Err(Fault::Later(error.to_string())),
        };
        let now = self.gate.0.recorder.env().now();
        if let Some(reason) = principal.why_barred(&self.peer, self.here(), now) {
            return Err(Fault::Barred(reason.to_owned()));
        }
        if !next_methods(principal, self.done()).contains(&method) {
            return Err(Fault::Wrong("this method is not asked for"));
        }
        Ok(principal.clone())
    }

    fn knows_key(&self, principal: &Principal, key: &str) -> bool {
        let now = self.gate.0.recorder.env().now();
        let Some(blob) = key_blob(key) else {
            return false;
        };
        let address = self.peer.address.ip();
        principal.counting_keys(&blob, address, now).next().is_some() && check_blob(&blob).is_ok()
    }

    /// A method succeeded: the end of an alternative grants, else another must follow.
    async fn passed(
        &mut self,
        user: &str,
        principal: Arc<Principal>,
        method: AuthMethod,
        proof: Proof,
    ) -> Verdict {
        let steps = self.steps.get_or_insert_with(|| Steps {
            user: user.to_owned(),
            done: Vec::new(),
            proofs: Vec::new(),
        });
        steps.done.push(method);
        steps.proofs.push(proof);
        if !completes(&principal, &steps.done) {
            return Verdict::Partial { next: next_methods(&principal, &steps.done) };
        }
        let proofs = steps.proofs.clone();
        self.admit_as(user, principal, proofs).await
    }

    /// Everything is proved: lets `user` in as this account.
    async fn admit_as(
        &mut self,
        user: &str,
        principal: Arc<Principal>,
        proofs: Vec<Proof>,
    ) -> Verdict {
        let name = &principal.account.name;
        // Counted for good when the session begins: `Directory::enlist`.
        if self.gate.0.directory.sessions_of(self.peer.site, name) >= principal.policy.sessions {
            let fault = Fault::Barred(TOO_MANY_SESSIONS.to_owned());
            return self.refuse(user, &Ok(Some(principal.clone())), fault).await;
        }
        let account = AccountKey { site: self.peer.site, name: name.clone() };
        self.gate.0.penalties.succeeded(&Claimant { origin: self.origin(), account });
        self.gate.0.meters.granted.fetch_add(1, Ordering::Relaxed);
        let peer = self.peer.clone();
        let listener = self.listener.clone();
        let (texts, credentials): (Vec<String>, Vec<Credential>) =
            proofs.into_iter().map(|proof| (proof.text, proof.credential)).unzip();
        let proof = texts.join(" + ");
        let mut grant = Grant { principal, proof, credentials, peer, listener };
        grant.principal = grant.narrowed(grant.principal.clone(), self.gate.0.recorder.env().now());
        Verdict::Granted(grant)
    }

    /// Counts, records, waits, answers.
    async fn refuse(
        &mut self,
        user: &str,
        principal: &Result<Option<Arc<Principal>>>,
        fault: Fault,
    ) -> Verdict {
        self.gate.0.meters.refused.fetch_add(1, Ordering::Relaxed);
        let claimant = self.claimant(user);
        let allowed = self.gate.allowed(&claimant.account).await;
        let reason = match fault {
            Fault::Wrong(reason) => reason.to_owned(),
            Fault::Barred(reason) | Fault::Later(reason) => reason,
        };
        self.record(user, &reason);
        let penalty = self.gate.0.penalties.look(&claimant, allowed);
        if let Penalty::Delay(time) = penalty {
            tokio::time::sleep(time).await;
        }
        let next = self.next_told(principal);
        // A client may have many keys, and where certificates count it must sign with each.
        self.refused += 1;
        let too_many = self.wrong >= WRONG_PER_CONNECTION || self.refused >= REFUSED_PER_CONNECTION;
        let end = too_many || penalty == Penalty::Limited;
        Verdict::Refused { next, end }
    }

    /// What may be tried next must not tell a known name from an unknown one, unless it has
    /// proved something already.
    fn next_told(&self, principal: &Result<Option<Arc<Principal>>>) -> Vec<AuthMethod> {
        match principal {
            Ok(Some(principal)) if !self.done().is_empty() => next_methods(principal, self.done()),
            _ => self.methods(),
        }
    }

    fn record(&self, user: &str, reason: &str) {
        if !self.gate.0.penalties.may_record(self.origin()) {
            return;
        }
        let fact = Fact::LoginRefused {
            protocol: self.peer.protocol,
            address: self.peer.address.ip().to_string(),
            name: user.chars().take(RECORDED_NAME).collect(),
            reason: reason.to_owned(),
        };
        self.write(fact);
    }

    fn write(&self, fact: Fact) {
        if let Err(error) = self.gate.0.recorder.record(&Scope::site(self.peer.site), fact) {
            tracing::error!(code = error.code(), %error, "a refused login was not recorded");
        }
    }
}

/// True unless the password was changed between the two; its hash may have been made anew.
fn has_same_password(old: &Principal, new: &Principal) -> bool {
    match (&old.account.password_hash, &new.account.password_hash) {
        (Some(old), Some(new)) => password::is_same_made_anew(old, new),
        (old, new) => old == new,
    }
}

/// The chains of methods that admit the account.
fn alternatives(principal: &Principal) -> Vec<Vec<AuthMethod>> {
    if principal.link_terms().is_some() {
        // A link is opened by its secret: [`Attempt::link`].
        return Vec::new();
    }
    if !principal.login.is_empty() {
        return principal.login.clone();
    }
    let has_key = !principal.user_keys.is_empty() || !principal.authorities.is_empty();
    let key = has_key.then_some(AuthMethod::PublicKey);
    let has_certificate = !principal.account.certificates.is_empty();
    let certificate = has_certificate.then_some(AuthMethod::Certificate);
    let password = principal.account.password_hash.as_ref().map(|_| AuthMethod::Password);
    // Who has a code generator is asked for its code.
    let code = principal.account.totp_sealed.as_ref().map(|_| AuthMethod::Totp);
    let oidc = (!principal.account.oidc.is_empty()).then_some(AuthMethod::Oidc);
    let chain = |first: AuthMethod| std::iter::once(first).chain(code).collect();
    key.into_iter().chain(password).chain(certificate).chain(oidc).map(chain).collect()
}

/// True if those done admit the account.
fn completes(principal: &Principal, done: &[AuthMethod]) -> bool {
    alternatives(principal).iter().any(|chain| chain == done)
}

/// Methods that may follow those done, in the order in which the account lists them.
fn next_methods(principal: &Principal, done: &[AuthMethod]) -> Vec<AuthMethod> {
    let mut next = Vec::new();
    for chain in alternatives(principal) {
        let follows = chain.strip_prefix(done).and_then(|rest| rest.first().copied());
        if let Some(method) = follows.filter(|method| !next.contains(method)) {
            next.push(method);
        }
    }
    next
}
