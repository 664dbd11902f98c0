//! An account as it is now: its groups, mounts, policy and keys resolved.

use std::collections::HashSet;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use entrepot_db::Db;
use entrepot_model::ftp::TlsReuse;
use entrepot_model::login::LoginCheck;
use entrepot_model::{
    Account, AccountId, AccountType, AlgorithmPreset, AuthMethod, Endpoint, Key, KeyType,
    LegacyAlgorithm, Listener, Mount, Name, Policy, Rights, Site, SiteId, Source, StorePath,
    Stored, Timestamp, VPath,
};
use ipnet::IpNet;

use crate::certificate::Authority;
use crate::directory::ListenerPolicy;
use crate::error::{AuthError, Result};
use crate::limits::{DIGEST_BYTES_PER_HOUR, GROUP_DEPTH, GROUPS};
use crate::rates::{SharedRates, Sharers, TimedRates};

/// An account with everything it inherits.
#[derive(Clone, Debug)]
pub struct Principal {
    /// Its site.
    pub site: SiteId,
    /// Its id.
    pub id: AccountId,
    /// Revision of the account's row.
    pub revision: i64,
    /// The account itself.
    pub account: Account,
    /// Its own name, then its groups, nearest first.
    pub lineage: Vec<Name>,
    /// What it sees, deepest path first.
    pub mounts: Vec<EffectiveMount>,
    /// Its limits.
    pub policy: EffectivePolicy,
    /// Rates that it shares with others: those of its groups, then those of the site.
    pub(crate) shared: Vec<SharedRates>,
    /// Alternatives of methods that must all succeed, in order: its own, else those of the nearest
    /// group that asks for any. Empty: any single method it has credentials for.
    pub login: Vec<Vec<AuthMethod>>,
    /// SSH keys that may log in as it, whatever their dates.
    pub user_keys: Vec<UserKey>,
    /// Keys that sign certificates for it: its own, and those of the whole site.
    pub(crate) authorities: Vec<Authority>,
    /// One of its groups, or theirs, is disabled.
    pub(crate) group_disabled: bool,
    /// When the first of them expires.
    pub(crate) group_expires_at: Option<Timestamp>,
    /// The revision of the configuration that was known when it was read.
    pub(crate) resolved_at: i64,
}

/// A mount as this account sees it.
#[derive(Clone, Debug)]
pub struct EffectiveMount {
    /// The noun.
    pub mount: Mount,
    /// Where it appears.
    pub path: VPath,
    /// Directory of the endpoint that appears there.
    pub prefix: StorePath,
    /// What may be done: the mount's rights that the account does not lack.
    pub rights: Rights,
    /// Where the files lie.
    pub endpoint: Arc<Stored<Endpoint>>,
}

/// Limits with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectivePolicy {
    /// Networks that may connect; empty: all.
    pub allow: Vec<IpNet>,
    /// Networks that may not.
    pub deny: Vec<IpNet>,
    /// Most sessions at a time.
    pub sessions: u32,
    /// Seconds without a request before the end.
    pub idle_seconds: u32,
    /// Most transfers at a time.
    pub transfers: u32,
    /// Bytes a second that running transfers must move; none: no limit.
    pub least_bytes_per_second: Option<u64>,
    /// How fast one session may go.
    pub session_rates: TimedRates,
    /// How fast all sessions of the account may go together.
    pub account_rates: TimedRates,
    /// Wrong passwords of an address within an hour.
    pub address_failures: u32,
    /// Wrong passwords for the account within a day, from addresses it never came from.
    pub account_failures: u32,
    /// Days that an unfinished upload is kept.
    pub partial_days: u32,
    /// Name endings of files still being written.
    pub temporary_names: Vec<String>,
    /// Whether data connections must resume TLS; none: what the listener says.
    pub tls_reuse: Option<TlsReuse>,
    /// Uploads over FTP are as long as announced, or refused.
    pub strict_size: bool,
    /// Bytes that may be digested within an hour.
    pub digest_bytes_per_hour: u64,
    /// SSH algorithms of a listener.
    pub algorithms: AlgorithmPreset,
    /// Weak ones besides.
    pub legacy_algorithms: Vec<LegacyAlgorithm>,
    /// Oldest clients.
    pub least_clients: Vec<String>,
}

/// A public key that may log in.
#[derive(Clone, Debug, PartialEq)]
pub struct UserKey {
    /// The key's noun.
    pub name: Name,
    /// The wire form of the key (RFC 4253 §6.6): what is compared.
    pub blob: Vec<u8>,
    /// Not valid before.
    pub not_before: Option<Timestamp>,
    /// Not valid from then on.
    pub not_after: Option<Timestamp>,
    /// Where a login with it may come from; empty: anywhere.
    pub from: Vec<Source>,
    /// Who logs in with it may list and read only.
    pub read_only: bool,
    /// False: it counts for nothing.
    pub enabled: bool,
}

impl UserKey {
    /// The key of a noun; `None` if it cannot be read.
    pub(crate) fn of(key: Key) -> Option<UserKey> {
        Some(UserKey {
            blob: key_blob(&key.public)?,
            name: key.name,
            not_before: key.not_before,
            not_after: key.not_after,
            from: key.from,
            read_only: key.read_only,
            enabled: key.enabled,
        })
    }

    /// True if it counts for who comes from `address` at `now`.
    pub fn counts(&self, address: IpAddr, now: Timestamp) -> bool {
        let begun = self.not_before.is_none_or(|from| from <= now);
        let ended = self.not_after.is_some_and(|to| to <= now);
        self.enabled && begun && !ended && Source::admit(&self.from, address)
    }
}

impl Default for EffectivePolicy {
    fn default() -> Self {
        EffectivePolicy {
            allow: Vec::new(),
            deny: Vec::new(),
            sessions: 1000,
            idle_seconds: 900,
            transfers: 10_000,
            least_bytes_per_second: None,
            session_rates: TimedRates::default(),
            account_rates: TimedRates::default(),
            address_failures: 20,
            account_failures: 100,
            partial_days: 7,
            temporary_names: [".filepart", ".partial", ".part", ".tmp"].map(str::to_owned).to_vec(),
            tls_reuse: None,
            strict_size: false,
            digest_bytes_per_hour: DIGEST_BYTES_PER_HOUR,
            algorithms: AlgorithmPreset::default(),
            legacy_algorithms: Vec::new(),
            least_clients: Vec::new(),
        }
    }
}

/// The first list that is not empty.
fn first_set<T: Clone>(policies: &[Policy], pick: fn(&Policy) -> &Vec<T>) -> Vec<T> {
    policies.iter().map(pick).find(|list| !list.is_empty()).cloned().unwrap_or_default()
}

impl EffectivePolicy {
    /// Field by field the first of `policies` that sets it, else the default.
    pub fn resolve(policies: &[Policy]) -> Self {
        let default = EffectivePolicy::default();
        let number = |pick: fn(&Policy) -> Option<u32>| policies.iter().find_map(pick);
        EffectivePolicy {
            allow: first_set(policies, |policy| &policy.allow),
            deny: first_set(policies, |policy| &policy.deny),
            sessions: number(|policy| policy.sessions).unwrap_or(default.sessions),
            idle_seconds: number(|policy| policy.idle_seconds).unwrap_or(default.idle_seconds),
            transfers: number(|policy| policy.transfers).unwrap_or(default.transfers),
            least_bytes_per_second: policies
                .iter()
                .find_map(|policy| policy.least_bytes_per_second),
            session_rates: TimedRates::of(policies, |rates| rates.session),
            account_rates: TimedRates::of(policies, |rates| rates.account),
            address_failures: number(|policy| policy.address_failures)
                .unwrap_or(default.address_failures),
            account_failures: number(|policy| policy.account_failures)
                .unwrap_or(default.account_failures),
            partial_days: number(|policy| policy.partial_days).unwrap_or(default.partial_days),
            temporary_names: policies
                .iter()
                .find_map(|policy| policy.temporary_names.clone())
                .unwrap_or(default.temporary_names),
            tls_reuse: policies.iter().find_map(|policy| policy.tls_reuse),
            strict_size: policies.iter().find_map(|policy| policy.strict_size).unwrap_or_default(),
            digest_bytes_per_hour: policies
                .iter()
                .find_map(|policy| policy.digest_bytes_per_hour)
                .unwrap_or(default.digest_bytes_per_hour),
            algorithms: policies.iter().find_map(|policy| policy.algorithms).unwrap_or_default(),
            legacy_algorithms: first_set(policies, |policy| &policy.legacy_algorithms),
            least_clients: first_set(policies, |policy| &policy.least_clients),
        }
    }

    /// The weak SSH algorithms that are offered at `now`.
    pub fn legacy_at(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let valid = self.legacy_algorithms.iter().filter(move |legacy| now < legacy.until);
        valid.map(|legacy| legacy.name.as_str())
    }

    /// True if `address` may connect.
    pub fn admits(&self, address: std::net::IpAddr) -> bool {
        let address = address.to_canonical();
        let allowed = self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&address));
        allowed && !self.deny.iter().any(|net| net.contains(&address))
    }
}

impl Principal {
    /// Its keys of this wire form that count for who comes from `address` at `now`.
    pub(crate) fn counting_keys<'a>(
        &'a self,
        blob: &'a [u8],
        address: IpAddr,
        now: Timestamp,
    ) -> impl Iterator<Item = &'a UserKey> {
        self.user_keys.iter().filter(move |key| key.blob == blob && key.counts(address, now))
    }

    /// The same account with the rights to list and read at most.
    pub(crate) fn read_only(&self) -> Principal {
        let mut narrowed = self.clone();
        for mount in &mut narrowed.mounts {
            mount.rights = mount.rights.and(Rights::read_only());
        }
        narrowed
    }

    /// Why the account may not act at `now`; `None` if it may.
    pub fn barred_at(&self, now: Timestamp) -> Option<&'static str> {
        if self.account.account_type == AccountType::Group {
            Some("a group cannot log in")
        } else if !self.account.enabled {
            Some("the account is disabled")
        } else if self.account.expires_at.is_some_and(|at| at <= now) {
            Some("the account has expired")
        } else if self.group_disabled {
            Some("a group of the account is disabled")
        } else if self.group_expires_at.is_some_and(|at| at <= now) {
            Some("a group of the account has expired")
        } else {
            None
        }
    }
}

/// Reads an account and everything it inherits; `None` if there is no such account.
pub(crate) async fn load(
    db: &Db,
    site: SiteId,
    name: &Name,
    (resolved_at, site_authorities): (i64, &[Authority]),
) -> Result<Option<Principal>> {
    let Some(stored) = db.find::<Account>(site, name).await? else {
        return Ok(None);
    };
    let ancestors = ancestors(db, site, &stored.noun).await?;
    let mut lineage = vec![name.clone()];
    lineage.extend(ancestors.iter().map(|group| group.name.clone()));
    let mounts = mounts(db, site, &stored.noun, &lineage).await?;
    let (policy, shared) = policy(db, site, &stored.noun, &ancestors).await?;
    let mut asked = std::iter::once(&stored.noun).chain(&ancestors).map(|account| &account.login);
    let login = asked.find(|login| !login.is_empty()).cloned().unwrap_or_default();
    let keys = db.keys_of(site, name).await?;
    let (signers, keys): (Vec<Key>, Vec<Key>) =
        keys.into_iter().map(|key| key.noun).partition(|key| key.key_type == KeyType::SshUserCa);
    let own = signers.into_iter().filter_map(Authority::of);
    let authorities = own.chain(site_authorities.iter().cloned()).collect();
    let user_keys = keys.into_iter().filter_map(user_key).collect();
    Ok(Some(Principal {
        site,
        id: AccountId(stored.id),
        revision: stored.revision,
        account: stored.noun,
        lineage,
        mounts,
        policy,
        shared,
        login,
        user_keys,
        authorities,
        group_disabled: ancestors.iter().any(|group| !group.enabled),
        group_expires_at: ancestors.iter().filter_map(|group| group.expires_at).min(),
        resolved_at,
    }))
}

/// The groups of an account, breadth first, each once.
async fn ancestors(db: &Db, site: SiteId, account: &Account) -> Result<Vec<Account>> {
    let broken = |problem: String| AuthError::Groups { account: account.name.to_string(), problem };
    let mut found: Vec<Account> = Vec::new();
    let mut seen: HashSet<Name> = HashSet::from([account.name.clone()]);
    let mut level: Vec<Name> = account.groups.clone();
    for _ in 0..GROUP_DEPTH {
        let mut next = Vec::new();
        for name in level {
            if name == account.name {
                return Err(broken("it is its own group, remove it from its groups".to_owned()));
            }
            if !seen.insert(name.clone()) {
                continue;
            }
            let group = db.find::<Account>(site, &name).await?;
            let group = group.ok_or_else(|| broken(format!("group '{name}' does not exist")))?.noun;
            if group.account_type != AccountType::Group {
                return Err(broken(format!("'{name}' is no group, set its type to group")));
            }
            next.extend(group.groups.iter().cloned());
            found.push(group);
        }
        if found.len() > GROUPS {
            return Err(broken(format!("there are more than {GROUPS}")));
        }
        if next.is_empty() {
            return Ok(found);
        }
        level = next;
    }
    Err(broken(format!("they are nested deeper than {GROUP_DEPTH}")))
}

/// Mounts of the account and its groups; of two at one path the nearer wins.
async fn mounts(
    db: &Db,
    site: SiteId,
    account: &Account,
    lineage: &[Name],
) -> Result<Vec<EffectiveMount>> {
    let mut stored = db.mounts_of(site, lineage).await?;
    let distance = |mount: &Mount| lineage.iter().position(|name| *name == mount.account);
    stored.sort_by_key(|stored| distance(&stored.noun));
    let mut mounts: Vec<EffectiveMount> = Vec::new();
    for mount in stored.into_iter().map(|stored| stored.noun) {
        if mounts.iter().any(|nearer| nearer.path == mount.path) {
            continue;
        }
        let problem = |problem: String| AuthError::Mount {
            mount: mount.name.to_string(),
            account: account.name.to_string(),
            problem,
        };
        let prefix = mount.prefix_for(&account.name).map_err(|error| problem(error.to_string()))?;
        let endpoint = db.find::<Endpoint>(site, &mount.endpoint).await?;
        let endpoint =
            endpoint.ok_or_else(|| problem(format!("no endpoint '{}'", mount.endpoint)))?;
        mounts.push(EffectiveMount {
            path: mount.path.clone(),
            prefix,
            rights: mount.rights.and(account.rights),
            endpoint: Arc::new(endpoint),
            mount,
        });
    }
    mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.components().count()));
    Ok(mounts)
}

/// Policies in the order in which they are asked, account, groups, site; and what is shared.
async fn policy(
    db: &Db,
    site: SiteId,
    account: &Account,
    groups: &[Account],
) -> Result<(EffectivePolicy, Vec<SharedRates>)> {
    let (mut policies, mut shared) = (Vec::new(), Vec::new());
    for asked in std::iter::once(account).chain(groups) {
        let policy = find_policy(db, site, asked.policy.as_ref()).await?;
        let of = match asked.account_type {
            AccountType::Group => Sharers::Group(asked.name.clone()),
            _ => Sharers::Account(asked.name.clone()),
        };
        shared.push(SharedRates::new(of, policy.as_ref()));
        policies.extend(policy);
    }
    let of_site = policy_of_site(db, site).await?;
    shared.push(SharedRates::new(Sharers::Site, of_site.as_ref()));
    policies.extend(of_site);
    let resolved = EffectivePolicy::resolve(&policies);
    // The account itself is asked first; what holds for all its sessions may be inherited.
    if let Some(own) = shared.first_mut() {
        *own = own.clone().and(&resolved.account_rates);
    }
    Ok((resolved, shared))
}

/// What the policy of the site `main` says of all sites together.
pub(crate) async fn node_rates(db: &Db) -> Result<TimedRates> {
    let policy = policy_of_site(db, SiteId::MAIN).await?;
    Ok(TimedRates::of(policy.as_slice(), |rates| rates.global))
}

/// What holds for names of which nothing is known: the site's policy.
pub(crate) async fn site_policy(db: &Db, site: SiteId) -> Result<EffectivePolicy> {
    let policy = policy_of_site(db, site).await?;
    Ok(EffectivePolicy::resolve(policy.as_slice()))
}

/// What the policy of a listener says, and what its sessions share. Only what concerns SSH is
/// inherited from the site, for accounts have policies of their own.
pub(crate) async fn listener_policy(
    db: &Db,
    site: SiteId,
    listener: &Name,
) -> Result<ListenerPolicy> {
    let noun = db.find::<Listener>(site, listener).await?.map(|stored| stored.noun);
    let (name, check) = noun.map_or((None, None), |noun| (noun.policy, noun.login));
    let policy = find_policy(db, site, name.as_ref()).await?;
    let of_site = site_noun(db, site).await?;
    let check = check.or_else(|| of_site.as_ref().and_then(|site| site.login.clone()));
    let shared = SharedRates::new(Sharers::Listener(listener.clone()), policy.as_ref());
    let own = EffectivePolicy::resolve(policy.as_slice());
    let of_site = find_policy(db, site, of_site.and_then(|site| site.policy).as_ref()).await?;
    let chain: Vec<Policy> = policy.into_iter().chain(of_site).collect();
    let EffectivePolicy { algorithms, legacy_algorithms, least_clients, .. } =
        EffectivePolicy::resolve(&chain);
    let own = EffectivePolicy { algorithms, legacy_algorithms, least_clients, ..own };
    Ok(ListenerPolicy { own, shared, check })
}

/// Who is asked about passwords of names that the site does not have.
pub(crate) async fn site_check(db: &Db, site: SiteId) -> Result<Option<LoginCheck>> {
    Ok(site_noun(db, site).await?.and_then(|site| site.login))
}

async fn policy_of_site(db: &Db, site: SiteId) -> Result<Option<Policy>> {
    let own = site_noun(db, site).await?;
    find_policy(db, site, own.and_then(|site| site.policy).as_ref()).await
}

async fn site_noun(db: &Db, site: SiteId) -> Result<Option<Site>> {
    let sites = db.sites().await?;
    let own = sites.into_iter().find(|stored| SiteId(stored.id) == site);
    Ok(own.map(|stored| stored.noun))
}

async fn find_policy(db: &Db, site: SiteId, name: Option<&Name>) -> Result<Option<Policy>> {
    match name {
        Some(name) => Ok(db.find::<Policy>(site, name).await?.map(|stored| stored.noun)),
        None => Ok(None),
    }
}

/// The wire form of a login key; keys of other types and unreadable ones are left out.
fn user_key(key: Key) -> Option<UserKey> {
    if key.key_type != KeyType::SshUser {
        return None;
    }
    UserKey::of(key)
}

/// The keys that sign certificates for every account of a site.
pub(crate) async fn site_authorities(db: &Db, site: SiteId) -> Result<Vec<Authority>> {
    let keys = db.keys_of_nobody(site).await?;
    Ok(keys.into_iter().filter_map(|key| Authority::of(key.noun)).collect())
}

/// The wire form inside one line of OpenSSH form.
pub(crate) fn key_blob(line: &str) -> Option<Vec<u8>> {
    STANDARD.decode(line.split_whitespace().nth(1)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_policy_that_sets_a_field_wins() {
        let mut own = Policy::new("own".parse().unwrap());
        own.sessions = Some(3);
        let mut group = Policy::new("group".parse().unwrap());
        group.sessions = Some(9);
        group.idle_seconds = Some(60);
        group.deny = vec!["10.0.0.0/8".parse().unwrap()];
        let resolved = EffectivePolicy::resolve(&[own, group]);
        assert_eq!((resolved.sessions, resolved.idle_seconds), (3, 60));
        assert_eq!(resolved.partial_days, 7);
        assert!(!resolved.admits("10.1.2.3".parse().unwrap()));
        assert!(!resolved.admits("::ffff:10.1.2.3".parse().unwrap()));
        assert!(resolved.admits("192.0.2.1".parse().unwrap()));
    }
}
