//! Accounts as they are now, and the sessions that live by them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use arc_swap::ArcSwap;
use entrepot_crypto::MasterKey;
use entrepot_db::Db;
use entrepot_model::{Env, Name, Protocol, SessionId, SiteId};
use entrepot_net::meter::{Throttle, Throttles};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::certificate::Authority;
use crate::error::{AuthError, Result};
use crate::gate::{Grant, TOO_MANY_SESSIONS};
use crate::limits::{CACHED_ABSENT, CACHED_ACCOUNTS, REFRESH_EVERY};
use crate::principal::{
    EffectivePolicy, Principal, listener_policy, load, site_authorities, site_policy,
};

type Place = (SiteId, Name);

/// Resolves accounts, remembers them until the configuration changes, and keeps live sessions up
/// to date. Cheap to clone.
#[derive(Clone)]
pub struct Directory(Arc<Inner>);

struct Inner {
    db: Db,
    env: Env,
    master: MasterKey,
    revision: AtomicI64,
    changed: watch::Sender<i64>,
    cache: RwLock<Cache>,
    live: Mutex<Roll>,
    /// One pair of buckets for all sessions of an account.
    throttles: Mutex<HashMap<Place, Throttles>>,
    /// One refresh at a time.
    refreshing: tokio::sync::Mutex<()>,
}

/// What was read since the configuration last changed.
#[derive(Default)]
struct Cache {
    accounts: HashMap<Place, Arc<Principal>>,
    /// Names that no account has: strangers must not make the database work.
    absent: HashSet<Place>,
    sites: HashMap<SiteId, Arc<EffectivePolicy>>,
    listeners: HashMap<Place, Arc<EffectivePolicy>>,
    authorities: HashMap<SiteId, Arc<Vec<Authority>>>,
}

/// Live sessions, and how many each account has.
#[derive(Default)]
struct Roll {
    sessions: HashMap<SessionId, Arc<Live>>,
    counts: HashMap<Place, u32>,
}

struct Live {
    place: Place,
    grant: Grant,
    /// Sessions of rules do not count towards the account's limit.
    counts: bool,
    principal: ArcSwap<Principal>,
    generation: AtomicU64,
    ended: CancellationToken,
    reason: Mutex<Option<String>>,
}

impl Live {
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
        Directory(Arc::new(Inner {
            db,
            env,
            master,
            revision: AtomicI64::new(-1),
            changed: watch::Sender::new(-1),
            cache: RwLock::default(),
            live: Mutex::default(),
            throttles: Mutex::default(),
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
        let place = (site, name.clone());
        {
            let cache = self.0.cache.read();
            if let Some(known) = cache.accounts.get(&place) {
                return Ok(Some(known.clone()));
            }
            if cache.absent.contains(&place) {
                return Ok(None);
            }
        }
        let before = self.0.revision.load(Ordering::Acquire);
        let authorities = self.site_authorities(site).await?;
        let principal = load(&self.0.db, site, name, (before, &authorities)).await?.map(Arc::new);
        let mut cache = self.0.cache.write();
        // What was read while the configuration changed may be old already: not remembered.
        if self.0.revision.load(Ordering::Acquire) == before {
            if cache.accounts.len() >= CACHED_ACCOUNTS {
                cache.accounts.clear();
            }
            if cache.absent.len() >= CACHED_ABSENT {
                cache.absent.clear();
            }
            match &principal {
                Some(principal) => drop(cache.accounts.insert(place, principal.clone())),
                None => drop(cache.absent.insert(place)),
            }
        }
        Ok(principal)
    }

    /// The policy of a site: what holds for a name whether or not an account has it.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn site_policy(&self, site: SiteId) -> Result<Arc<EffectivePolicy>> {
        if let Some(known) = self.0.cache.read().sites.get(&site) {
            return Ok(known.clone());
        }
        let before = self.0.revision.load(Ordering::Acquire);
        let policy = Arc::new(site_policy(&self.0.db, site).await?);
        let mut cache = self.0.cache.write();
        if self.0.revision.load(Ordering::Acquire) == before {
            cache.sites.insert(site, policy.clone());
        }
        Ok(policy)
    }

    /// The keys that sign certificates for every account of a site.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn site_authorities(&self, site: SiteId) -> Result<Arc<Vec<Authority>>> {
        if let Some(known) = self.0.cache.read().authorities.get(&site) {
            return Ok(known.clone());
        }
        let before = self.0.revision.load(Ordering::Acquire);
        let authorities = Arc::new(site_authorities(&self.0.db, site).await?);
        let mut cache = self.0.cache.write();
        if self.0.revision.load(Ordering::Acquire) == before {
            cache.authorities.insert(site, authorities.clone());
        }
        Ok(authorities)
    }

    /// The policy of a listener itself: which addresses may come in by it, whoever they are.
    ///
    /// # Errors
    /// The database is away.
    pub(crate) async fn listener_policy(
        &self,
        site: SiteId,
        listener: &Name,
    ) -> Result<Arc<EffectivePolicy>> {
        let place = (site, listener.clone());
        if let Some(known) = self.0.cache.read().listeners.get(&place) {
            return Ok(known.clone());
        }
        let before = self.0.revision.load(Ordering::Acquire);
        let policy = Arc::new(listener_policy(&self.0.db, site, listener).await?);
        let mut cache = self.0.cache.write();
        if self.0.revision.load(Ordering::Acquire) == before {
            cache.listeners.insert(place, policy.clone());
        }
        Ok(policy)
    }

    /// Looks at the configuration's revision; if it has changed, forgets what was resolved, brings
    /// live sessions up to date and ends those whose account may not go on. Says whether it had.
    ///
    /// # Errors
    /// The database is away: everybody known goes on as before.
    pub async fn refresh(&self) -> Result<bool> {
        let _one_at_a_time = self.0.refreshing.lock().await;
        let revision = self.0.db.config_revision().await?;
        let changed = self.0.revision.swap(revision, Ordering::AcqRel) != revision;
        if changed {
            *self.0.cache.write() = Cache::default();
        }
        self.settle_live(revision).await;
        if changed {
            self.0.changed.send_replace(revision);
        }
        Ok(changed)
    }

    /// Refreshes twice a second until `until`.
    pub async fn run(self, until: CancellationToken) {
        let mut ticks = tokio::time::interval(REFRESH_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut away = false;
        loop {
            tokio::select! {
                () = until.cancelled() => return,
                _ = ticks.tick() => {}
            }
            match self.refresh().await {
                Ok(_) if away => {
                    away = false;
                    tracing::info!("the database is back");
                }
                Err(error) if !away => {
                    away = true;
                    tracing::warn!(code = error.code(), %error, "known accounts go on");
                }
                _ => {}
            }
        }
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
        let place = (principal.site, principal.account.name.clone());
        let counts = grant.peer().protocol != Protocol::Internal;
        let live = Arc::new(Live {
            place: place.clone(),
            grant: grant.clone(),
            counts,
            principal: ArcSwap::new(principal.clone()),
            generation: AtomicU64::new(0),
            ended: CancellationToken::new(),
            reason: Mutex::default(),
        });
        let mut roll = self.0.live.lock();
        if counts {
            let count = roll.counts.entry(place).or_insert(0);
            if *count >= principal.policy.sessions {
                let account = principal.account.name.to_string();
                return Err(AuthError::Refused { account, reason: TOO_MANY_SESSIONS.to_owned() });
            }
            *count += 1;
        }
        roll.sessions.insert(session, live.clone());
        drop(roll);
        Ok(LiveSession { directory: self.clone(), session, live })
    }

    /// Live sessions of an account's clients.
    pub fn sessions_of(&self, site: SiteId, name: &Name) -> u32 {
        self.0.live.lock().counts.get(&(site, name.clone())).copied().unwrap_or(0)
    }

    /// The throttles that all sessions of the account share, at the rates of its policy now.
    pub(crate) fn throttles(&self, principal: &Principal) -> Throttles {
        let place = (principal.site, principal.account.name.clone());
        let mut all = self.0.throttles.lock();
        let throttles = all.entry(place).or_insert_with(|| Throttles {
            upload: Throttle::new(self.0.env.clone(), None),
            download: Throttle::new(self.0.env.clone(), None),
        });
        throttles.upload.set(principal.policy.upload_bytes_per_second);
        throttles.download.set(principal.policy.download_bytes_per_second);
        throttles.clone()
    }

    /// Sessions whose account was read before `revision` are brought up to date: those that were
    /// there at the change, those that were being admitted meanwhile, and those for which the
    /// database was away the last time.
    async fn settle_live(&self, revision: i64) {
        let live: Vec<Arc<Live>> = self.0.live.lock().sessions.values().cloned().collect();
        for session in live {
            let old = session.principal.load_full();
            if old.resolved_at != revision {
                match self.resolve(old.site, &old.account.name).await {
                    Ok(Some(new)) if new.id == old.id => {
                        self.throttles(&new);
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
            let here = self.listener_policy(peer.site, &peer.listener).await.unwrap_or_default();
            let gone = session.grant.why_gone(&session.principal.load(), &here, now);
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

    /// Ends the session, such as by an administrator.
    pub fn end(&self, reason: &str) {
        self.live.end(reason);
    }
}

impl Drop for LiveSession {
    fn drop(&mut self) {
        let mut roll = self.directory.0.live.lock();
        if roll.sessions.remove(&self.session).is_none() || !self.live.counts {
            return;
        }
        if let Some(count) = roll.counts.get_mut(&self.live.place) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                roll.counts.remove(&self.live.place);
                self.directory.0.throttles.lock().remove(&self.live.place);
            }
        }
    }
}
