//! Accounts as they are now, and the sessions that live by them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use entrepot_crypto::{MasterKey, TokenHash};
use entrepot_db::Db;
use entrepot_net::meter::{Lane, Throttles};
use entrepot_nouns::login::LoginCheck;
use entrepot_nouns::{
    Env, HostName, Name, PerDirection, Protocol, SessionId, Site, SiteId, Stored, Timestamp,
    TokenScope,
};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::account_key::AccountKey;
use crate::as2::{self, As2Partner, As2Partners};
use crate::authority::Authority;
use crate::digests::DigestBudgets;
use crate::error::{AuthError, Result};
use crate::gate::Grant;
use crate::limits::{CACHED_ABSENT, CACHED_ACCOUNTS, CACHED_TOKENS, REFRESH_EVERY};
use crate::oidc::SiteOidc;
use crate::policy::{EffectivePolicy, ListenerPolicy};
use crate::principal::Principal;
use crate::rates::{Buckets, NodeBuckets, SharedBuckets, SharedRates, Sharers};
use crate::resolve;

/// Why one more session of an account is refused.
pub(crate) const TOO_MANY_SESSIONS: &str = "it has too many sessions open";

/// Resolves accounts, remembers them until the configuration changes, and keeps live sessions up
/// to date. Cheap to clone.
#[derive(Clone)]
pub struct Directory(Arc<Inner>);

struct Inner {
    db: Db,
    env: Env,
    master: MasterKey,
    revision: AtomicI64,
    /// The database did not answer when it was last looked for a change.
    away: AtomicBool,
    changed: watch::Sender<i64>,
    cache: RwLock<Cache>,
    /// Names of sites never change: they are not read again.
    site_names: RwLock<HashMap<SiteId, Name>>,
    live: Mutex<Roll>,
    /// One pair of buckets for all who share it: an account, a group, a listener, a site.
    rates: Mutex<HashMap<(SiteId, Sharers), SharedBuckets>>,
    /// Those that all sessions go through.
    node: Mutex<NodeBuckets>,
    /// What accounts have had digested.
    digests: DigestBudgets,
    /// One refresh at a time.
    refreshing: tokio::sync::Mutex<()>,
}

/// What was read since the configuration last changed.
#[derive(Default)]
struct Cache {
    accounts: HashMap<AccountKey, Arc<Principal>>,
    /// Names that no account has: clients that guess must not make the database work.
    absent: HashSet<AccountKey>,
    /// Accounts by their API tokens, and hashes that are of no token.
    tokens: HashMap<TokenKey, Name>,
    absent_tokens: HashSet<TokenKey>,
    sites: HashMap<SiteId, Arc<EffectivePolicy>>,
    listeners: HashMap<(SiteId, Name), Arc<ListenerPolicy>>,
    authorities: HashMap<SiteId, Arc<Vec<Authority>>>,
    checks: HashMap<SiteId, Option<LoginCheck>>,
    oidc: HashMap<SiteId, Arc<SiteOidc>>,
    as2: HashMap<SiteId, Arc<As2Partners>>,
    hosts: Option<Hosts>,
    /// As they were before the change: what holds while they cannot be read again.
    hosts_before: Option<Hosts>,
}

/// An API token of a site, or a text of which no token is known there.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct TokenKey {
    site: SiteId,
    hash: TokenHash,
}

/// A site that clients reach by a host name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachedSite {
    /// The site in which the accounts of these clients are looked up.
    pub id: SiteId,
    /// Its name, for people.
    pub name: Name,
}

/// Which site is reached by which host name.
type Hosts = Arc<HashMap<HostName, ReachedSite>>;

impl Cache {
    /// Everything is read again.
    fn forget(&mut self) {
        let known = self.hosts.take().or_else(|| self.hosts_before.take());
        *self = Cache { hosts_before: known, ..Cache::default() };
    }

    /// Remembers an account, or that there is none.
    fn keep(&mut self, key: AccountKey, principal: Option<Arc<Principal>>) {
        if self.accounts.len() >= CACHED_ACCOUNTS {
            self.accounts.clear();
        }
        if self.absent.len() >= CACHED_ABSENT {
            self.absent.clear();
        }
        match principal {
            Some(principal) => drop(self.accounts.insert(key, principal)),
            None => drop(self.absent.insert(key)),
        }
    }

    /// Remembers whose API token it is, or that it is nobody's.
    fn keep_token(&mut self, key: TokenKey, account: Option<Name>) {
        if self.tokens.len() >= CACHED_TOKENS {
            self.tokens.clear();
        }
        if self.absent_tokens.len() >= CACHED_ABSENT {
            self.absent_tokens.clear();
        }
        match account {
            Some(account) => drop(self.tokens.insert(key, account)),
            None => drop(self.absent_tokens.insert(key)),
        }
    }
}

/// Live sessions, and how many each account has.
#[derive(Default)]
struct Roll {
    sessions: HashMap<SessionId, Arc<Live>>,
    counts: HashMap<AccountKey, Use>,
}

/// What an account uses now.
#[derive(Default)]
struct Use {
    sessions: u32,
    transfers: Arc<AtomicU32>,
}

/// A transfer counted towards its account's limit, until it is dropped.
pub struct TransferPlace(Option<Arc<AtomicU32>>);

impl Drop for TransferPlace {
    fn drop(&mut self) {
        if let Some(transfers) = &self.0 {
            transfers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

struct Live {
    account: AccountKey,
    grant: Grant,
    throttles: Throttles,
    /// Its own buckets, and what an administrator has set them to.
    own: Buckets,
    ordered: Mutex<Option<PerDirection>>,
    /// Those of all sessions of the account; those of rules do not count towards its limits.
    transfers: Option<Arc<AtomicU32>>,
    principal: ArcSwap<Principal>,
    generation: AtomicU64,
    ended: CancellationToken,
    reason: Mutex<Option<String>>,
}

impl Roll {
    /// One more session of an account.
    fn count(&mut self, key: &AccountKey, principal: &Principal) -> Result<Arc<AtomicU32>> {
        let used = self.counts.entry(key.clone()).or_default();
        if used.sessions >= principal.policy.sessions {
            let account = principal.account.name.to_string();
            return Err(AuthError::Refused { account, reason: TOO_MANY_SESSIONS.to_owned() });
        }
        used.sessions += 1;
        Ok(used.transfers.clone())
    }
}

impl Live {
    /// Its own buckets fill as an administrator has ordered, else as the policy says for this hour.
    fn set_own(&self, policy: &EffectivePolicy, now: Timestamp) {
        let ordered = *self.ordered.lock();
        self.own.set(ordered.unwrap_or_else(|| policy.session_rates.at(now)));
    }

    /// Its way leads through its own buckets and those that it shares.
    fn lead_through(&self, shared: Vec<Buckets>, policy: &EffectivePolicy, now: Timestamp) {
        self.set_own(policy, now);
        let (mut upload, mut download) =
            (vec![self.own.upload.clone()], vec![self.own.download.clone()]);
        for buckets in shared {
            upload.push(buckets.upload);
            download.push(buckets.download);
        }
        self.throttles.upload.lead_through(upload);
        self.throttles.download.lead_through(download);
    }

    fn end(&self, reason: &str) {
        self.reason.lock().get_or_insert_with(|| reason.to_owned());
        self.ended.cancel();
    }
}

/// A session's place among the live ones; dropping it leaves.
pub struct LiveSession {
    directory: Directory,
    session: SessionId,
    live: Arc<Live>,
}

impl Directory {
    /// Over a database; nothing is read yet.
    pub fn new(db: Db, env: Env, master: MasterKey) -> Self {
        let node = NodeBuckets::new(&env);
        let digests = DigestBudgets::new(env.clone());
        Directory(Arc::new(Inner {
            db,
            env,
            master,
            revision: AtomicI64::new(-1),
            away: AtomicBool::new(false),
            changed: watch::Sender::new(-1),
            cache: RwLock::default(),
            site_names: RwLock::default(),
            live: Mutex::default(),
            rates: Mutex::default(),
            node: Mutex::new(node),
            digests,
            refreshing: tokio::sync::Mutex::default(),
        }))
    }

    /// The database behind it.
    pub fn db(&self) -> &Db {
        &self.0.db
    }

    /// The key that opens secrets of endpoints.
    pub fn master(&self) -> &MasterKey {
        &self.0.master
    }

    /// Clock and randomness.
    pub(crate) fn env(&self) -> &Env {
        &self.0.env
    }

    /// The account of this name with all it inherits; `None` if there is none. While the database
    /// is away, accounts resolved before are still known.
    ///
    /// # Errors
    /// The database is away, or groups or mounts cannot be resolved.
    pub async fn resolve(&self, site: SiteId, name: &Name) -> Result<Option<Arc<Principal>>> {
        let key = AccountKey { site, name: name.clone() };
        let find = |cache: &Cache| match cache.accounts.get(&key) {
            Some(known) => Some(Some(known.clone())),
            None => cache.absent.contains(&key).then_some(None),
        };
        let read = |revision| async move {
            // A site that is deleted at this moment has no accounts any more.
            let Some(_) = self.site_name(site).await? else { return Ok(None) };
            let of_site = resolve::Shared {
                authorities: self.site_authorities(site).await?,
                oidc: self.site_oidc(site).await?,
            };
            let found = resolve::account(&self.0.db, site, name, revision, &of_site).await?;
            Ok(found.map(Arc::new))
        };
        self.cached(find, read, |cache, principal| cache.keep(key.clone(), principal)).await
    }

    /// The account that an API token of a site belongs to, by the hash of the token.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn account_of_token(
        &self,
        site: SiteId,
        hash: TokenHash,
    ) -> Result<Option<Name>> {
        let key = TokenKey { site, hash };
        let find = |cache: &Cache| match cache.tokens.get(&key) {
            Some(known) => Some(Some(known.clone())),
            None => cache.absent_tokens.contains(&key).then_some(None),
        };
        let read = |_| async move {
            let hash = hash.to_string();
            Ok(self.0.db.account_of_token(site, &hash).await?)
        };
        self.cached(find, read, |cache, account| cache.keep_token(key, account)).await
    }

    /// The name of a site, for which its secrets are sealed; `None` if there is no such site. That
    /// of a site of which an account was resolved is known also while the database is away.
    ///
    /// # Errors
    /// The database is away.
    pub async fn site_name(&self, site: SiteId) -> Result<Option<Name>> {
        if let Some(name) = self.0.site_names.read().get(&site) {
            return Ok(Some(name.clone()));
        }
        let found = self.0.db.site_name(site).await?;
        if let Some(name) = &found {
            self.0.site_names.write().insert(site, name.clone());
        }
        Ok(found)
    }

    /// The policy of a site: what holds for a name whether or not an account has it.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn site_policy(&self, site: SiteId) -> Result<Arc<EffectivePolicy>> {
        self.cached(
            |cache| cache.sites.get(&site).cloned(),
            |_| async move { Ok(Arc::new(resolve::site_policy(&self.0.db, site).await?)) },
            |cache, policy| drop(cache.sites.insert(site, policy)),
        )
        .await
    }

    /// The keys that sign certificates for every account of a site.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn site_authorities(&self, site: SiteId) -> Result<Arc<Vec<Authority>>> {
        self.cached(
            |cache| cache.authorities.get(&site).cloned(),
            |_| async move { Ok(Arc::new(resolve::site_authorities(&self.0.db, site).await?)) },
            |cache, authorities| drop(cache.authorities.insert(site, authorities)),
        )
        .await
    }

    /// The login hook of a site, for listeners without one of their own.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn site_check(&self, site: SiteId) -> Result<Option<LoginCheck>> {
        self.cached(
            |cache| cache.checks.get(&site).cloned(),
            |_| resolve::site_check(&self.0.db, site),
            |cache, check| drop(cache.checks.insert(site, check)),
        )
        .await
    }

    /// What a site says of sign-ins by providers of OpenID Connect.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn site_oidc(&self, site: SiteId) -> Result<Arc<SiteOidc>> {
        self.cached(
            |cache| cache.oidc.get(&site).cloned(),
            |_| async move { Ok(Arc::new(resolve::site_oidc(&self.0.db, site).await?)) },
            |cache, oidc| drop(cache.oidc.insert(site, oidc)),
        )
        .await
    }

    /// The partners of AS2 of a site.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn as2_partners(&self, site: SiteId) -> Result<Arc<As2Partners>> {
        let read =
            |_| async move { Ok(Arc::new(as2::partners(&self.0.db, &self.0.master, site).await?)) };
        let find = |cache: &Cache| cache.as2.get(&site).cloned();
        self.cached(find, read, |cache, partners| drop(cache.as2.insert(site, partners))).await
    }

    /// The partner of AS2 that an endpoint is; `None`: it is none.
    ///
    /// # Errors
    /// The database is away.
    pub async fn as2_partner(
        &self,
        site: SiteId,
        endpoint: &Name,
    ) -> Result<Option<Arc<As2Partner>>> {
        Ok(self.as2_partners(site).await?.of_endpoint(endpoint))
    }

    /// Which site is reached by which host name. While the database is away, what was known last.
    ///
    /// # Errors
    /// The database is away, and was never asked before.
    pub(crate) async fn hosts(&self) -> Result<Hosts> {
        let read = |_| async move {
            let sites = self.0.db.sites().await?.into_iter();
            let of = |site: Stored<Site>| {
                let reached = ReachedSite { id: SiteId(site.id), name: site.noun.name };
                site.noun.hosts.into_iter().map(move |host| (host, reached.clone()))
            };
            Ok(Arc::new(sites.flat_map(of).collect()))
        };
        let find = |cache: &Cache| cache.hosts.clone();
        let found = self.cached(find, read, |cache, hosts| cache.hosts = Some(hosts)).await;
        found.or_else(|error| self.0.cache.read().hosts_before.clone().ok_or(error))
    }

    /// The policy of a listener itself: which addresses may come in by it, for every account.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn listener_policy(
        &self,
        site: SiteId,
        listener: &Name,
    ) -> Result<Arc<ListenerPolicy>> {
        let place = (site, listener.clone());
        let read = |_| async move {
            Ok(Arc::new(resolve::listener_policy(&self.0.db, site, listener).await?))
        };
        self.cached(
            |cache| cache.listeners.get(&place).cloned(),
            read,
            |cache, policy| drop(cache.listeners.insert(place.clone(), policy)),
        )
        .await
    }

    /// What `find` sees in the cache, else what `read` makes of the database at the revision that
    /// it is given; `keep` puts that into the cache.
    async fn cached<T: Clone, R: Future<Output = Result<T>>>(
        &self,
        find: impl FnOnce(&Cache) -> Option<T>,
        read: impl FnOnce(i64) -> R,
        keep: impl FnOnce(&mut Cache, T),
    ) -> Result<T> {
        if let Some(known) = find(&self.0.cache.read()) {
            return Ok(known);
        }
        let before = self.0.revision.load(Ordering::Acquire);
        let found = read(before).await?;
        let mut cache = self.0.cache.write();
        // What was read while the configuration changed may be old already: not remembered.
        if self.0.revision.load(Ordering::Acquire) == before {
            keep(&mut cache, found.clone());
        }
        Ok(found)
    }

    /// The same if it was asked for before.
    pub(crate) fn known_listener_policy(
        &self,
        site: SiteId,
        listener: &Name,
    ) -> Option<Arc<ListenerPolicy>> {
        self.0.cache.read().listeners.get(&(site, listener.clone())).cloned()
    }

    #[cfg(test)]
    pub(crate) fn forget_for_tests(&self) {
        self.0.cache.write().forget();
    }

    /// Looks at the configuration's revision; if it has changed, forgets what was resolved, brings
    /// live sessions up to date and ends those whose account may not go on. Says whether it had.
    ///
    /// # Errors
    /// The database is away: everybody known goes on as before.
    pub async fn refresh(&self) -> Result<bool> {
        let _one_at_a_time = self.0.refreshing.lock().await;
        self.keep_hours();
        let revision = self.0.db.config_revision().await?;
        if self.0.revision.load(Ordering::Acquire) != revision {
            let said = resolve::node_rates(&self.0.db).await?;
            let mut node = self.0.node.lock();
            node.said = said;
            node.keep(self.0.env.now());
        }
        let changed = self.0.revision.swap(revision, Ordering::AcqRel) != revision;
        if changed {
            self.0.cache.write().forget();
        }
        self.settle_live(revision).await;
        if changed {
            self.forget_rates();
            self.0.changed.send_replace(revision);
        }
        Ok(changed)
    }

    /// Refreshes twice a second until `until`.
    pub async fn run(self, until: CancellationToken) {
        tokio::join!(self.follow_hours(&until), self.follow_changes(&until));
    }

    /// Hours come and go also while the database keeps everybody waiting.
    async fn follow_hours(&self, until: &CancellationToken) {
        let mut ticks = tokio::time::interval(REFRESH_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while until.run_until_cancelled(ticks.tick()).await.is_some() {
            self.keep_hours();
        }
    }

    async fn follow_changes(&self, until: &CancellationToken) {
        let mut ticks = tokio::time::interval(REFRESH_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = until.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match self.refresh().await {
                // A copy that answers for the database does not bring it back.
                Ok(_) if self.0.db.answers_from_copy() => {}
                Ok(_) if self.0.away.swap(false, Ordering::AcqRel) => {
                    tracing::info!("the database is back");
                }
                Ok(_) => {}
                Err(error) => {
                    if !self.0.away.swap(true, Ordering::AcqRel) {
                        tracing::warn!(code = error.code(), %error, "known accounts go on");
                    }
                }
            }
        }
    }

    /// True since the database did not answer, until it does again; a copy that answers for it does
    /// not count.
    pub fn is_away(&self) -> bool {
        self.0.away.load(Ordering::Acquire)
    }

    /// Tells each new revision of the configuration.
    pub fn watch(&self) -> watch::Receiver<i64> {
        self.0.changed.subscribe()
    }

    /// Adds a session that lives by `grant`: it ends when that would no longer be given.
    ///
    /// # Errors
    /// [`AuthError::Refused`]: the account has as many sessions as its policy allows.
    pub fn enlist(&self, grant: &Grant, session: SessionId) -> Result<LiveSession> {
        let principal = grant.principal();
        let account = AccountKey { site: principal.site, name: principal.account.name.clone() };
        let counts = grant.peer().protocol != Protocol::Internal;
        let mut roll = self.0.live.lock();
        let transfers = if counts { Some(roll.count(&account, principal)?) } else { None };
        let lane = || Lane::new(self.0.env.clone(), Vec::new());
        let live = Arc::new(Live {
            account,
            grant: grant.clone(),
            throttles: Throttles { upload: lane(), download: lane() },
            own: Buckets::new(&self.0.env),
            ordered: Mutex::default(),
            transfers,
            principal: ArcSwap::new(principal.clone()),
            generation: AtomicU64::new(0),
            ended: CancellationToken::new(),
            reason: Mutex::default(),
        });
        roll.sessions.insert(session, live.clone());
        drop(roll);
        let now = self.0.env.now();
        let listener = grant.listener_rates().map(|rates| (grant.peer().home, rates));
        let shared = self.shared_buckets(principal, listener, now);
        live.lead_through(shared, &principal.policy, now);
        Ok(LiveSession { directory: self.clone(), session, live })
    }

    /// Live sessions of an account's clients.
    pub fn sessions_of(&self, site: SiteId, name: &Name) -> u32 {
        let roll = self.0.live.lock();
        let account = AccountKey { site, name: name.clone() };
        roll.counts.get(&account).map_or(0, |used| used.sessions)
    }

    /// The buckets of all who share rates with a session of the account that came in by
    /// `listener`, at the rates of their policies now. Those that never have a limit are left out.
    fn shared_buckets(
        &self,
        principal: &Principal,
        listener: Option<(SiteId, &SharedRates)>,
        now: Timestamp,
    ) -> Vec<Buckets> {
        let mut found = vec![self.0.node.lock().buckets.clone()];
        let own = principal.shared.iter().map(|said| (principal.site, said));
        for (site, said) in own.chain(listener).filter(|(_, said)| !said.is_none()) {
            let mut all = self.0.rates.lock();
            let shared = all.entry((site, said.of.clone()));
            let shared = shared.or_insert_with(|| SharedBuckets::new(&self.0.env, said));
            found.push(shared.follow(said, now));
        }
        found
    }

    /// Everybody's rates become those of this hour.
    pub(crate) fn keep_hours(&self) {
        let now = self.0.env.now();
        self.0.node.lock().keep(now);
        for shared in self.0.rates.lock().values() {
            shared.keep(now);
        }
        for session in self.0.live.lock().sessions.values() {
            session.set_own(&session.principal.load().policy, now);
        }
    }

    /// Sets the rates of everything together on this node, whatever the policy of the site `main`
    /// says, until the node ends; `None`: as it says again. Answers what was ordered before.
    pub fn order_node_rates(&self, rates: Option<PerDirection>) -> Option<PerDirection> {
        let mut node = self.0.node.lock();
        let before = std::mem::replace(&mut node.ordered, rates);
        node.keep(self.0.env.now());
        before
    }

    /// Bytes a second of everything together on this node, at this moment.
    pub fn node_rates(&self) -> PerDirection {
        let node = self.0.node.lock();
        PerDirection { upload: node.buckets.upload.rate(), download: node.buckets.download.rate() }
    }

    /// Lets go of buckets that no session uses.
    fn forget_rates(&self) {
        self.0.rates.lock().retain(|_, shared| !shared.buckets.upload.is_unused());
    }

    /// Sessions whose account was read before `revision` are brought up to date: those that were
    /// there at the change, those that were being admitted meanwhile, and those for which the
    /// database was away the last time.
    async fn settle_live(&self, revision: i64) {
        let live: Vec<Arc<Live>> = self.0.live.lock().sessions.values().cloned().collect();
        let anywhere = EffectivePolicy::default();
        for session in live {
            let old = session.principal.load_full();
            if old.resolved_at != revision {
                match self.resolve(old.site, &old.account.name).await {
                    Ok(Some(new)) if new.id == old.id => {
                        session.principal.store(session.grant.narrowed(new, self.0.env.now()));
                        session.generation.fetch_add(1, Ordering::AcqRel);
                    }
                    Ok(_) => session.end("the account was deleted"),
                    // The database is away again: the session goes on as it was.
                    Err(AuthError::Unavailable(_)) => {}
                    Err(error) => session.end(&error.to_string()),
                }
            }
            let now = self.0.env.now();
            let peer = session.grant.peer();
            // The database is away: the session goes on as it was.
            let here = match peer.protocol {
                Protocol::Internal => None,
                _ => self.listener_policy(peer.home, &peer.listener).await.ok(),
            };
            let principal = session.principal.load_full();
            if old.resolved_at != revision {
                let listener = here.as_deref().map(|here| (peer.home, &here.shared));
                let shared = self.shared_buckets(&principal, listener, now);
                session.lead_through(shared, &principal.policy, now);
            }
            let here = here.as_deref().map_or(&anywhere, |here| &here.own);
            let gone = session.grant.why_gone(&principal, here, now);
            if let Some(reason) = gone {
                session.end(reason);
            }
        }
    }
}

impl LiveSession {
    /// The account as it is now.
    pub fn principal(&self) -> Arc<Principal> {
        self.live.principal.load_full()
    }

    /// What the API token that it logged in with may be used for now; `None`: no token did.
    pub fn scopes(&self) -> Option<Vec<TokenScope>> {
        let principal = self.live.principal.load();
        self.live.grant.scopes_in(&principal).map(<[TokenScope]>::to_vec)
    }

    /// One more whenever [`LiveSession::principal`] changed: a cheap look before each operation.
    pub fn generation(&self) -> u64 {
        self.live.generation.load(Ordering::Acquire)
    }

    /// Returns when the account may not go on, with the reason.
    pub async fn ended(&self) -> String {
        self.live.ended.cancelled().await;
        self.end_reason().unwrap_or_default()
    }

    /// Cancelled when the account may not go on.
    pub fn end_token(&self) -> CancellationToken {
        self.live.ended.clone()
    }

    /// Why the account may not go on; `None` while it may.
    pub fn end_reason(&self) -> Option<String> {
        if !self.live.ended.is_cancelled() {
            return None;
        }
        self.live.reason.lock().clone()
    }

    /// A place for one more transfer; `None`: the account has as many as its policy allows.
    pub fn begin_transfer(&self) -> Option<TransferPlace> {
        let Some(transfers) = &self.live.transfers else { return Some(TransferPlace(None)) };
        let place = TransferPlace(Some(transfers.clone()));
        let before = transfers.fetch_add(1, Ordering::Relaxed);
        (before < self.live.principal.load().policy.transfers).then_some(place)
    }

    /// Takes so many bytes of what the account may have digested within the hour; false: they do
    /// not fit. Rules may have digested what they like.
    pub fn may_digest(&self, bytes: u64) -> bool {
        let budget = self.live.principal.load().policy.digest_bytes_per_hour;
        let digests = &self.directory.0.digests;
        self.live.transfers.is_none() || digests.take(&self.live.account, bytes, budget)
    }

    /// The bandwidth limits that hold for this session; changed live.
    pub fn throttles(&self) -> Throttles {
        self.live.throttles.clone()
    }

    /// Sets rates of this session alone, whatever policies say of single sessions; `None`: as they
    /// say again.
    pub fn order_rates(&self, rates: Option<PerDirection>) {
        *self.live.ordered.lock() = rates;
        self.live.set_own(&self.live.principal.load().policy, self.directory.0.env.now());
    }

    /// Ends the session, such as by an administrator.
    pub fn end(&self, reason: &str) {
        self.live.end(reason);
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        let mut roll = self.directory.0.live.lock();
        if roll.sessions.remove(&self.session).is_none() || self.live.transfers.is_none() {
            return;
        }
        if let Some(used) = roll.counts.get_mut(&self.live.account) {
            used.sessions = used.sessions.saturating_sub(1);
            if used.sessions == 0 {
                roll.counts.remove(&self.live.account);
            }
        }
    }
}
