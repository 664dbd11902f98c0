//! Reads from the database what holds now for an account, a listener, a site or the node, with
//! everything that it inherits.

use std::collections::HashSet;
use std::sync::Arc;

use entrepot_db::Db;
use entrepot_nouns::login::LoginCheck;
use entrepot_nouns::{
    Account, AccountId, AccountType, Endpoint, Key, KeyType, Listener, Mount, Name, Policy, Site,
    SiteId, Stored,
};

use crate::api_token::ApiToken;
use crate::authority::Authority;
use crate::error::{AuthError, Result};
use crate::limits::{GROUP_DEPTH, GROUPS};
use crate::link;
use crate::link_secret::LinkSecret;
use crate::oidc::SiteOidc;
use crate::passkey::Passkey;
use crate::policy::{EffectivePolicy, ListenerPolicy};
use crate::principal::{EffectiveMount, Principal};
use crate::rates::{SharedRates, Sharers, TimedRates};
use crate::ssh_key::UserKey;

/// What all accounts of a site have in common.
#[derive(Default)]
pub(crate) struct Shared {
    /// Keys that sign certificates for every account.
    pub(crate) authorities: Arc<Vec<Authority>>,
    /// Providers that the site trusts.
    pub(crate) oidc: Arc<SiteOidc>,
}

/// Reads an account and everything it inherits; `None` if there is no such account. `resolved_at`
/// is the revision of the configuration that was known before the first of it was read.
pub(crate) async fn account(
    db: &Db,
    site: SiteId,
    name: &Name,
    resolved_at: i64,
    of_site: &Shared,
) -> Result<Option<Principal>> {
    let Some(stored) = db.find::<Account>(site, name).await? else {
        return Ok(None);
    };
    if stored.noun.link.is_some() {
        return Box::pin(share_link(db, site, stored, resolved_at)).await.map(Some);
    }
    let ancestors = ancestors(db, site, &stored.noun).await?;
    let mut lineage = vec![name.clone()];
    lineage.extend(ancestors.iter().map(|group| group.name.clone()));
    let mounts = mounts(db, site, &stored.noun, &lineage).await?;
    let (policy, shared) = policy(db, site, &stored.noun, &ancestors).await?;
    let mut asked = std::iter::once(&stored.noun).chain(&ancestors).map(|account| &account.login);
    let login = asked.find(|login| !login.is_empty()).cloned().unwrap_or_default();
    let mut named = std::iter::once(&stored.noun).chain(&ancestors).map(|it| &it.protocols);
    let protocols = named.find(|protocols| !protocols.is_empty()).cloned().unwrap_or_default();
    let keys = db.keys_of(site, name).await?;
    let (signers, keys): (Vec<Key>, Vec<Key>) =
        keys.into_iter().map(|key| key.noun).partition(|key| key.key_type == KeyType::SshUserCa);
    let own = signers.into_iter().filter_map(Authority::of);
    let authorities = own.chain(of_site.authorities.iter().cloned()).collect();
    let api_tokens = keys.iter().filter_map(ApiToken::of).collect();
    let passkeys = keys.iter().filter_map(Passkey::of).collect();
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
        protocols,
        user_keys,
        api_tokens,
        passkeys,
        oidc: of_site.oidc.clone(),
        link_secrets: Vec::new(),
        owner: None,
        authorities,
        group_disabled: ancestors.iter().any(|group| !group.enabled),
        group_expires_at: ancestors.iter().filter_map(|group| group.expires_at).min(),
        resolved_at,
    }))
}

/// Reads a share link: its owner as that is now, and what of it the link shows.
async fn share_link(
    db: &Db,
    site: SiteId,
    stored: Stored<Account>,
    resolved_at: i64,
) -> Result<Principal> {
    let owner = match &stored.noun.link {
        Some(terms) => account(db, site, &terms.owner, resolved_at, &Shared::default()).await?,
        None => None,
    };
    let follows = owner.as_ref().map(|owner| owner.account.clone());
    let mut followed: Vec<Account> = follows.into_iter().collect();
    if let Some(owner) = &followed.first().cloned() {
        followed.extend(ancestors(db, site, owner).await?);
    }
    let (policy, shared) = policy(db, site, &stored.noun, &followed).await?;
    let keys = db.keys_of(site, &stored.noun.name).await?;
    let link_secrets = keys.iter().filter_map(|key| LinkSecret::of(&key.noun)).collect();
    Ok(Principal {
        site,
        id: AccountId(stored.id),
        revision: stored.revision,
        lineage: vec![stored.noun.name.clone()],
        mounts: link::mounts(&stored.noun, owner.as_ref()),
        policy,
        shared,
        login: Vec::new(),
        protocols: owner.as_ref().map(|owner| owner.protocols.clone()).unwrap_or_default(),
        user_keys: Vec::new(),
        api_tokens: Vec::new(),
        passkeys: Vec::new(),
        oidc: Arc::default(),
        link_secrets,
        owner: owner.map(Arc::new),
        authorities: Vec::new(),
        group_disabled: false,
        group_expires_at: None,
        account: stored.noun,
        resolved_at,
    })
}

/// The names of the groups that an account is in, directly or through others, the nearest first.
///
/// # Errors
/// The database is away, or the groups are not what groups can be.
pub async fn groups_of(db: &Db, site: SiteId, account: &Account) -> Result<Vec<Name>> {
    let groups = ancestors(db, site, account).await?;
    Ok(groups.into_iter().map(|group| group.name).collect())
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
            counted: prefix.clone(),
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

/// The login hook of the site, for names without a password here.
pub(crate) async fn site_check(db: &Db, site: SiteId) -> Result<Option<LoginCheck>> {
    Ok(site_noun(db, site).await?.and_then(|site| site.login))
}

/// The providers that the site trusts, and its host names.
pub(crate) async fn site_oidc(db: &Db, site: SiteId) -> Result<SiteOidc> {
    let own = site_noun(db, site).await?;
    let of = |own: Site| SiteOidc { providers: own.oidc, hosts: own.hosts };
    Ok(own.map(of).unwrap_or_default())
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
