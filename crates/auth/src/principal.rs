//! An account as it is now: its groups, mounts, policy and keys resolved.

use std::net::IpAddr;
use std::sync::Arc;

use entrepot_crypto::TokenHash;
use entrepot_nouns::{
    Account, AccountId, AccountType, AuthMethod, Endpoint, LinkTerms, LoginProtocol, Mount, Name,
    OidcIdentity, Rights, SiteId, StorePath, Stored, Timestamp, VPath,
};

use crate::api_token::ApiToken;
use crate::authority::Authority;
use crate::link_secret::LinkSecret;
use crate::oidc::SiteOidc;
use crate::passkey::Passkey;
use crate::peer::Peer;
use crate::policy::{EffectivePolicy, NOT_HERE};
use crate::rates::SharedRates;
use crate::ssh_key::UserKey;

/// Why an address is refused by the policy of an account.
const ADDRESS_BARRED: &str = "its policy does not admit this address";

/// Why a protocol is refused that the account does not list.
const PROTOCOL_BARRED: &str = "the account may not log in over this protocol";

/// An account with everything it inherits.
#[derive(Clone, Debug)]
pub struct Principal {
    /// The site that owns the account.
    pub site: SiteId,
    /// An account that is deleted and made anew under the same name has another id.
    pub id: AccountId,
    /// Revision of the account's row.
    pub revision: i64,
    /// The account itself.
    pub account: Account,
    /// Its own name, then its groups, nearest first.
    pub lineage: Vec<Name>,
    /// What it sees, deepest path first.
    pub mounts: Vec<EffectiveMount>,
    /// Its limits: each as its own policy sets it, else those of its groups, else that of the site.
    pub policy: EffectivePolicy,
    /// Rates that it shares with others: those of its groups, then those of the site.
    pub(crate) shared: Vec<SharedRates>,
    /// Alternatives of methods that must all succeed, in order: its own, else those of the nearest
    /// group that asks for any. Empty: any single method it has credentials for.
    pub login: Vec<Vec<AuthMethod>>,
    /// Protocols that it may log in over: its own, else those of the nearest group that names any.
    /// Empty: all.
    pub protocols: Vec<LoginProtocol>,
    /// SSH keys that may log in as it, whatever their dates.
    pub user_keys: Vec<UserKey>,
    /// Tokens that may log in as it, whatever their dates.
    pub api_tokens: Vec<ApiToken>,
    /// Passkeys that sign it in, whatever their dates.
    pub passkeys: Vec<Passkey>,
    /// Providers that may say who logs in as it: those of its site.
    pub(crate) oidc: Arc<SiteOidc>,
    /// Of a share link: its secrets, whatever their dates.
    pub(crate) link_secrets: Vec<LinkSecret>,
    /// Of a share link: the account whose files it opens.
    pub(crate) owner: Option<Arc<Principal>>,
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
    /// The mount as it is configured; the fields below are what it means for this account.
    pub mount: Mount,
    /// Where it appears.
    pub path: VPath,
    /// Directory of the endpoint that appears there.
    pub prefix: StorePath,
    /// Directory of the endpoint whose files the quota counts: the prefix, but that a share link
    /// counts towards the quota of its owner's mount.
    pub counted: StorePath,
    /// What may be done: the mount's rights that the account does not lack.
    pub rights: Rights,
    /// Where the files lie.
    pub endpoint: Arc<Stored<Endpoint>>,
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

    /// Its API token of this hash, whether or not it counts now.
    pub(crate) fn api_token(&self, hash: TokenHash) -> Option<&ApiToken> {
        self.api_tokens.iter().find(|token| token.hash == hash)
    }

    /// Its passkey that an authenticator knows by this, whether or not it counts now.
    pub(crate) fn passkey(&self, credential: &str) -> Option<&Passkey> {
        self.passkeys.iter().find(|passkey| passkey.public.credential == credential)
    }

    /// True if it signs in by what some provider says of its person.
    pub fn takes_oidc(&self) -> bool {
        let takes = |chain: &Vec<AuthMethod>| chain.first() == Some(&AuthMethod::Oidc);
        if self.login.is_empty() {
            !self.account.oidc.is_empty()
        } else {
            self.login.iter().any(takes)
        }
    }

    /// Why what a provider says of this person lets nobody in as the account; `None`: it does.
    pub(crate) fn why_not_oidc(&self, identity: &OidcIdentity) -> Option<&'static str> {
        let own = &self.account.oidc;
        let is_bound = own.contains(identity);
        let has_other = own.iter().any(|other| other.provider == identity.provider);
        let Some(provider) = self.oidc.providers.get(&identity.provider) else {
            return Some("the provider that it logged in by is trusted no more");
        };
        if self.account.link.is_some() || !self.takes_oidc() {
            Some("the account does not sign in by a provider")
        } else if !is_bound && has_other {
            Some("the account is another person at the provider")
        } else if !is_bound && self.login.is_empty() {
            Some("the account names no subject of the provider, and its login does not take it")
        } else if !is_bound && self.account.account_type == AccountType::Admin {
            Some("an administrator must name the subject of the provider")
        } else if !provider.may_admit(&self.lineage) {
            Some("the provider may not let anybody in as this account")
        } else {
            None
        }
    }

    /// Its secret of this hash, if it is a link, whether or not that counts now.
    pub(crate) fn link_secret(&self, hash: TokenHash) -> Option<&LinkSecret> {
        self.link_secrets.iter().find(|secret| secret.hash == hash)
    }

    /// What it opens, if it is a share link.
    pub fn link_terms(&self) -> Option<&LinkTerms> {
        self.account.link.as_ref()
    }

    /// Of a share link: why its owner may not act, so that the link opens nothing.
    fn why_owner_barred(&self, now: Timestamp) -> Option<&'static str> {
        match &self.owner {
            None => Some("the account that the link is of was deleted"),
            Some(owner) => {
                owner.barred_at(now).map(|_| "the account that the link is of may not act")
            }
        }
    }

    /// The same account with these rights at most.
    pub(crate) fn with_at_most(&self, rights: Rights) -> Principal {
        let mut narrowed = self.clone();
        for mount in &mut narrowed.mounts {
            mount.rights = mount.rights.and(rights);
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
            self.account.link.as_ref().and_then(|_| self.why_owner_barred(now))
        }
    }

    /// True if it may log in over this protocol.
    pub fn may_use(&self, protocol: LoginProtocol) -> bool {
        self.protocols.is_empty() || self.protocols.contains(&protocol)
    }

    /// Why nobody may act as the account at `now` who comes as `peer`, whatever proves the login;
    /// `listener` is the policy of the listener. `None` if it may be used.
    pub(crate) fn why_barred(
        &self,
        peer: &Peer,
        listener: &EffectivePolicy,
        now: Timestamp,
    ) -> Option<&'static str> {
        let address = peer.address.ip();
        let listed = peer.login_protocol().is_none_or(|protocol| self.may_use(protocol));
        self.barred_at(now)
            .or_else(|| (!listener.admits(address)).then_some(NOT_HERE))
            .or_else(|| (!self.policy.admits(address)).then_some(ADDRESS_BARRED))
            .or_else(|| (!listed).then_some(PROTOCOL_BARRED))
    }
}
