//! An account as it is now: its groups, mounts, policy and keys resolved.

use std::net::IpAddr;
use std::sync::Arc;

use entrepot_nouns::{
    Account, AccountId, AccountType, AuthMethod, Endpoint, LoginProtocol, Mount, Name, Rights,
    SiteId, StorePath, Stored, Timestamp, VPath,
};

use crate::authority::Authority;
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
