//! Logins that are refused without a check after too many wrong passwords: what the log and the
//! audit log say of them, what an operator sees, and how an operator unlocks them.

use std::cmp::Reverse;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use entrepot_journal::Scope;
use entrepot_nouns::{Fact, Name, SiteId, Timestamp};

use super::{Attempt, Gate, Verdict};
use crate::account_key::AccountKey;
use crate::error::Result;
use crate::limits::LISTED;
use crate::penalties::{Allowed, Claimant, Limit, Listed, Locked, Origin};

/// An address, an account, or an account at an address that has had too many wrong passwords.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoginLimit {
    /// The address, of IPv6 its /64; `None`: addresses that the account never logged in from.
    pub address: Option<String>,
    /// The account; `None`: all that are not known at the address.
    pub account: Option<Name>,
    /// What it means.
    pub state: LimitState,
    /// Wrong passwords that count.
    pub failures: u32,
    /// When the wrong password came that was one too many.
    pub since: Timestamp,
    /// Until when, if no more come.
    pub until: Timestamp,
}

/// What wrong passwords have led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitState {
    /// No password is checked.
    Locked,
    /// Answers to wrong passwords are delayed.
    Delayed,
}

impl LimitState {
    /// The word for it in answers of the control plane.
    pub fn as_str(self) -> &'static str {
        match self {
            LimitState::Locked => "locked",
            LimitState::Delayed => "delayed",
        }
    }
}

/// One reading of the monotonic clock and of the time of day.
#[derive(Clone, Copy)]
struct Clock {
    now: Timestamp,
    elapsed: Duration,
}

impl Clock {
    /// A moment of the monotonic clock as a time of day.
    fn time_of_day(self, at: Duration) -> Timestamp {
        match at.checked_sub(self.elapsed) {
            Some(later) => self.now.plus(later),
            None => self.now.minus(self.elapsed.saturating_sub(at)),
        }
    }
}

/// The row as an operator sees it, unless it is neither locked nor delayed.
fn shown(row: Listed, clock: Clock) -> Option<LoginLimit> {
    let (state, span) = match (row.locked, row.delayed) {
        (Some(span), _) => (LimitState::Locked, span),
        (None, Some(span)) => (LimitState::Delayed, span),
        (None, None) => return None,
    };
    Some(LoginLimit {
        address: row.origin.map(|origin| origin.to_string()),
        account: row.account.map(|account| account.name),
        state,
        failures: row.failures,
        since: clock.time_of_day(span.since),
        until: clock.time_of_day(span.until),
    })
}

impl Gate {
    /// Addresses, and accounts of a site, that are delayed or locked, as far as this node has
    /// heard: locked ones first, of these the longest first, and of equals a whole address before
    /// its accounts. At most [`LISTED`].
    pub async fn login_limits(&self, site: SiteId) -> Vec<LoginLimit> {
        let policy = self.0.directory.site_policy(site).await.unwrap_or_default();
        let mut listed = self.0.penalties.addresses(policy.address_failures, LISTED);
        // Addresses are the node's, accounts their site's.
        listed.retain(|row| row.account.as_ref().is_none_or(|account| account.site == site));
        for account in self.0.penalties.accounts(site, LISTED) {
            let allowed = self.allowed(&account).await;
            listed.extend(self.0.penalties.account(account, allowed.account));
        }
        let clock = self.clock();
        let mut limits: Vec<LoginLimit> =
            listed.into_iter().filter_map(|row| shown(row, clock)).collect();
        limits.sort_by(|one, other| {
            let key = |limit: &LoginLimit| (limit.state, Reverse(limit.until));
            let same = |limit: &LoginLimit| (limit.account.clone(), limit.address.clone());
            key(one).cmp(&key(other)).then_with(|| same(one).cmp(&same(other)))
        });
        limits.truncate(LISTED);
        limits
    }

    /// The monotonic clock and the time of day, read once.
    fn clock(&self) -> Clock {
        let env = self.0.recorder.env();
        Clock { now: env.now(), elapsed: self.0.penalties.elapsed() }
    }

    /// Forgets the wrong passwords of an address (IPv6: of its /64), also those of accounts that
    /// are known there; gives their number. `None`: there were none. `by`: the operator.
    ///
    /// # Errors
    /// It cannot be recorded; nothing was forgotten then.
    pub fn unlock_address(&self, site: SiteId, address: IpAddr, by: &str) -> Result<Option<u32>> {
        let origin = Origin::of(address);
        let failures = self.0.penalties.failures_of_address(origin);
        if failures == 0 {
            return Ok(None);
        }
        let (address, by) = (origin.to_string(), by.to_owned());
        let fact = Fact::AddressUnlocked { address, failures, by };
        self.0.recorder.record(&Scope::site(site), fact)?;
        self.0.penalties.unlock_address(origin);
        Ok(Some(failures))
    }

    /// The same for an account, wherever the wrong passwords came from.
    ///
    /// # Errors
    /// It cannot be recorded; nothing was forgotten then.
    pub fn unlock_account(&self, site: SiteId, name: &Name, by: &str) -> Result<Option<u32>> {
        let account = AccountKey { site, name: name.clone() };
        let failures = self.0.penalties.failures_of_account(&account);
        if failures == 0 {
            return Ok(None);
        }
        let fact = Fact::AccountUnlocked { name: name.clone(), failures, by: by.to_owned() };
        self.0.recorder.record(&Scope::site(site), fact)?;
        self.0.penalties.unlock_account(&account);
        Ok(Some(failures))
    }

    pub(super) async fn allowed(&self, account: &AccountKey) -> Allowed {
        // The limit of an address is the site's, for names that exist and for those that do not.
        let directory = &self.0.directory;
        let site = directory.site_policy(account.site).await.unwrap_or_default();
        let known = directory.resolve(account.site, &account.name).await.ok().flatten();
        let of_account = known.map_or(site.account_failures, |known| known.policy.account_failures);
        Allowed { address: site.address_failures, account: of_account }
    }
}

impl Attempt {
    /// The key of penalties for this name and address; names that cannot exist share one.
    pub(super) fn claimant(&self, user: &str) -> Claimant {
        let name = user.parse::<Name>().unwrap_or_else(|_| self.peer.listener.clone());
        Claimant { origin: self.origin(), account: AccountKey { site: self.peer.site, name } }
    }

    pub(super) fn refuse_unchecked(&mut self, user: &str, limit: Limit) -> Verdict {
        self.gate.0.meters.limited.fetch_add(1, Ordering::Relaxed);
        self.record_limit(user, limit);
        Verdict::Refused { next: self.methods(), end: true }
    }

    /// Once an hour and address: a flood must not fill the journal.
    fn record_limit(&self, user: &str, limit: Limit) {
        if !self.gate.0.penalties.may_tell(self.origin()) {
            return;
        }
        let address = self.peer.address.ip();
        let clock = self.gate.clock();
        let until = clock.time_of_day(limit.until);
        let why = match limit.locked {
            Locked::Address => "too many wrong passwords came from its address",
            Locked::Account => "its account, which never logged in from there, had too many",
            Locked::AccountHere => "its address is locked, and its account was wrong too often too",
        };
        let code = "EP0307";
        tracing::warn!(code, %address, user, %until, "a login was refused unheard: {why}");
        let seconds = limit.until.saturating_sub(clock.elapsed).as_secs();
        self.write(Fact::LoginLimited { address: address.to_string(), seconds });
    }
}
