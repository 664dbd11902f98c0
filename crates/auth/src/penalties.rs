//! Limits on guessing: failures by address and by account, and the tries that stay allowed for
//! accounts which are known at their address.
//!
//! 1. An address with too many failures is locked: no password from there is checked.
//! 2. After too many failures of an account from addresses that it never logged in from, its
//!    passwords are checked only if they come from addresses that it did log in from.
//! 3. An account that logged in lately from an address that others have locked may still try from
//!    there. It has a limit of its own then, and all such accounts have one together: guesses
//!    that are spread over the accounts of a company are guesses.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use entrepot_db::{Penalty as SharedPenalty, PenaltyKind};
use entrepot_nouns::{Env, SiteId, Timestamp};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::account_key::AccountKey;
use crate::ledger::{Ledger, Room, Span};
use crate::limits::{
    ACCOUNT_WINDOW, ADDRESS_WINDOW, FIRST_DELAY, KNOWN_ADDRESSES, KNOWN_FAILURES, KNOWN_FOR,
    LOGIN_SHARED_EVERY, LONGEST_DELAY, PENALTIES, RECORDED_REFUSALS, REMEMBERED_BEFORE_START,
    SPARED_FACTOR, UNDELAYED,
};

mod shared;

/// Where someone comes from: an IPv4 address, or the /64 of an IPv6 address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Origin(IpAddr);

impl Origin {
    pub(crate) fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Origin(IpAddr::V4(v4)),
            IpAddr::V6(v6) => {
                let prefix = u128::from(v6) & !u128::from(u64::MAX);
                Origin(IpAddr::V6(Ipv6Addr::from(prefix)))
            }
        }
    }
}

impl std::str::FromStr for Origin {
    type Err = std::net::AddrParseError;

    /// Reads what `Display` writes.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_suffix("/64").unwrap_or(text).parse().map(Origin::of)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            IpAddr::V4(v4) => write!(f, "{v4}"),
            IpAddr::V6(v6) => write!(f, "{v6}/64"),
        }
    }
}

/// Who wants to be an account, and from where.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Claimant {
    pub(crate) origin: Origin,
    pub(crate) account: AccountKey,
}

/// What a login must wait for, or that it is refused without a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Penalty {
    /// The answer is given at once.
    None,
    /// The answer to a wrong password is given after this time.
    Delay(Duration),
    /// Address or account is locked: no password is compared, and the connection ends.
    Limited,
}

/// What has had too many failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Locked {
    /// The address, for accounts that did not log in from there lately.
    Address,
    /// The account, from addresses where it is not known.
    Account,
    /// The account at an address that others have locked.
    AccountHere,
}

/// Why a login is refused without a check, and until when, on the monotonic clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub(crate) locked: Locked,
    pub(crate) until: Duration,
}

/// What a failure counts against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tally {
    /// Address and account: it never logged in from there.
    Unknown,
    /// The address, and the account at it.
    Known,
    /// The account at the address, which is locked, and all accounts like it together.
    Spared,
}

/// What a try meets.
enum Way {
    Open(Tally),
    /// Tries that are being checked now decide.
    Undecided,
    Closed(Limit),
}

/// All penalties of a node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Penalties(Arc<Shared>);

struct Shared {
    env: Env,
    books: Mutex<Books>,
    /// A guess that was being checked has ended.
    settled: Notify,
}

/// A password that is being checked. It holds one of the tries of its address and account until it
/// is known how it ended; a login that is cut meanwhile was wrong.
#[must_use]
pub(crate) struct PasswordTry {
    penalties: Penalties,
    claimant: Claimant,
    tally: Tally,
    allowed: Allowed,
    right: bool,
}

impl PasswordTry {
    /// It was right, or nothing was compared: the try is given back.
    pub(crate) fn give_back(mut self) {
        self.right = true;
    }
}

impl Drop for PasswordTry {
    fn drop(&mut self) {
        self.penalties.settle(self);
    }
}

struct Books {
    origins: Ledger<Origin>,
    /// From addresses that the account never logged in from.
    accounts: Ledger<AccountKey>,
    /// Of accounts at addresses that they are known at.
    known: Ledger<Claimant>,
    /// Of all accounts that could try although the address was locked.
    spared: Ledger<Origin>,
    logins: HashMap<AccountKey, VecDeque<LastLogin>>,
    /// Refusals that were recorded, and limits that were reported.
    recorded: Ledger<Origin>,
    reported: Ledger<Origin>,
    /// What other nodes, and this one after a restart, should know; `None`: nobody asks for it.
    unshared: Option<VecDeque<SharedPenalty>>,
}

/// When an account last logged in from an address.
struct LastLogin {
    origin: Origin,
    at: Duration,
    /// When the others were last informed of it.
    shared_at: Duration,
}

/// What an entry is about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    account: Option<&'a AccountKey>,
    origin: Option<Origin>,
}

impl<'a> Subject<'a> {
    fn origin(origin: Origin) -> Self {
        Subject { account: None, origin: Some(origin) }
    }

    fn account(account: &'a AccountKey) -> Self {
        Subject { account: Some(account), origin: None }
    }

    fn claimant(claimant: &'a Claimant) -> Self {
        Subject { account: Some(&claimant.account), origin: Some(claimant.origin) }
    }
}

/// One reading of the two clocks.
#[derive(Clone, Copy)]
struct Moment {
    /// On the monotonic clock, by which everything is counted here.
    at: Duration,
    /// The time of day, by which nodes tell each other.
    now: Timestamp,
}

impl Moment {
    /// The same moment on the monotonic clock. One that seems to come is now: clocks differ.
    fn of_this_clock(self, other: Timestamp) -> Duration {
        self.at.saturating_sub(self.now.since(other))
    }
}

/// The limits that a policy sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    pub(crate) address: u32,
    pub(crate) account: u32,
}

impl Allowed {
    /// Failures of an account that may try from an address although it is locked.
    fn known(self) -> u32 {
        known_failures(self.address)
    }

    /// Failures of all accounts together that may try from an address although it is locked.
    fn spared(self) -> u32 {
        self.address.saturating_mul(SPARED_FACTOR)
    }
}

/// Where an address may fail seldom, those who are known there may not fail more often.
fn known_failures(address_failures: u32) -> u32 {
    KNOWN_FAILURES.min(address_failures)
}

/// An address, an account or an account at an address that is delayed or locked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub(crate) origin: Option<Origin>,
    pub(crate) account: Option<AccountKey>,
    pub(crate) failures: u32,
    /// `None`: answers to wrong passwords are delayed, and that is all.
    pub(crate) locked: Option<Span>,
    pub(crate) delayed: Option<Span>,
}

impl Penalties {
    pub(crate) fn new(env: Env) -> Self {
        Penalties(Arc::new(Shared {
            env,
            settled: Notify::new(),
            books: Mutex::new(Books {
                origins: Ledger::new(ADDRESS_WINDOW),
                accounts: Ledger::new(ACCOUNT_WINDOW),
                known: Ledger::new(ADDRESS_WINDOW),
                spared: Ledger::new(ADDRESS_WINDOW),
                logins: HashMap::new(),
                recorded: Ledger::new(ADDRESS_WINDOW),
                reported: Ledger::new(ADDRESS_WINDOW),
                unshared: None,
            }),
        }))
    }

    /// The monotonic clock by which penalties are counted. It begins far enough before the start
    /// of the process for what counted before it.
    pub(crate) fn elapsed(&self) -> Duration {
        self.0.env.elapsed().saturating_add(REMEMBERED_BEFORE_START)
    }

    fn moment(&self) -> Moment {
        Moment { at: self.elapsed(), now: self.0.env.now() }
    }

    /// Waits until a password of `claimant` may be checked, and takes one try: guesses at the same
    /// time share what is left.
    ///
    /// # Errors
    /// Refused without a check.
    pub(crate) async fn begin_try(
        &self,
        claimant: &Claimant,
        allowed: Allowed,
    ) -> Result<PasswordTry, Limit> {
        // Most need not wait.
        if let Some(checked) = self.try_begin(claimant, allowed) {
            return checked;
        }
        loop {
            let mut settled = std::pin::pin!(self.0.settled.notified());
            settled.as_mut().enable();
            if let Some(checked) = self.try_begin(claimant, allowed) {
                return checked;
            }
            settled.await;
        }
    }

    /// `None`: guesses that are being checked now decide whether there is a try left.
    fn try_begin(
        &self,
        claimant: &Claimant,
        allowed: Allowed,
    ) -> Option<Result<PasswordTry, Limit>> {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        let tally = match books.way(claimant, allowed, now) {
            Way::Undecided => return None,
            Way::Closed(limit) => return Some(Err(limit)),
            Way::Open(tally) => tally,
        };
        books.begin(claimant, tally);
        let (penalties, claimant) = (self.clone(), claimant.clone());
        Some(Ok(PasswordTry { penalties, claimant, tally, allowed, right: false }))
    }

    fn settle(&self, pending: &PasswordTry) {
        let moment = self.moment();
        let mut books = self.0.books.lock();
        if !pending.right {
            books.add(pending, moment);
        }
        books.end(&pending.claimant, pending.tally);
        drop(books);
        self.0.settled.notify_waiters();
    }

    /// True if a refusal from `origin` should be recorded: a flood must not fill the journal.
    pub(crate) fn may_record(&self, origin: Origin) -> bool {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        let may = books.recorded.count(&origin, now) < RECORDED_REFUSALS;
        if may {
            books.recorded.add(origin, now, RECORDED_REFUSALS);
        }
        may
    }

    /// True once in the window of an address: that it is limited is news then.
    pub(crate) fn may_tell(&self, origin: Origin) -> bool {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        let may = books.reported.count(&origin, now) == 0;
        if may {
            books.reported.add(origin, now, 1);
        }
        may
    }

    /// What a try of `claimant` meets now.
    pub(crate) fn look(&self, claimant: &Claimant, allowed: Allowed) -> Penalty {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        if matches!(books.way(claimant, allowed, now), Way::Closed(_)) {
            return Penalty::Limited;
        }
        let failures = books.origins.count(&claimant.origin, now);
        match failures.saturating_sub(UNDELAYED) {
            0 => Penalty::None,
            over => {
                let doubled = FIRST_DELAY.saturating_mul(1 << over.min(10));
                Penalty::Delay(doubled.min(LONGEST_DELAY))
            }
        }
    }

    /// A login succeeded: the account is known at the address from now on. What was wrong before
    /// still counts, else a guesser would gain tries by the logins of others.
    pub(crate) fn succeeded(&self, claimant: &Claimant) {
        let moment = self.moment();
        let mut books = self.0.books.lock();
        let shared_at = books.shared_at(claimant);
        let is_news = shared_at
            .is_none_or(|shared_at| moment.at.saturating_sub(shared_at) >= LOGIN_SHARED_EVERY);
        let shared_at = shared_at.filter(|_| !is_news).unwrap_or(moment.at);
        books.know(claimant, LastLogin { origin: claimant.origin, at: moment.at, shared_at });
        if is_news {
            books.share(PenaltyKind::Login, Subject::claimant(claimant), moment, 1);
        }
    }

    /// Addresses that are delayed or locked, and accounts that are locked at such addresses, at
    /// most `limit` of each, where an address may fail so many times.
    pub(crate) fn addresses(&self, may_fail: u32, limit: usize) -> Vec<Listed> {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        let mut listed = Vec::new();
        for (origin, failures) in books.origins.worst(UNDELAYED, limit, now) {
            let locked = books.origins.span(&origin, may_fail, now);
            let delayed = books.origins.span(&origin, UNDELAYED + 1, now);
            let account = None;
            listed.push(Listed { origin: Some(origin), account, failures, locked, delayed });
        }
        let known_may_fail = known_failures(may_fail);
        for (claimant, failures) in books.known.worst(0, limit, now) {
            let of_address = books.origins.span(&claimant.origin, may_fail, now);
            let own = books.known.span(&claimant, known_may_fail, now);
            let (Some(of_address), Some(own)) = (of_address, own) else { continue };
            let since = of_address.since.max(own.since);
            let until = of_address.until.min(own.until);
            listed.push(Listed {
                origin: Some(claimant.origin),
                account: Some(claimant.account),
                failures,
                locked: Some(Span { since, until }),
                delayed: None,
            });
        }
        listed
    }

    /// Accounts of a site with failures, at most `limit`, those with most first.
    pub(crate) fn accounts(&self, site: SiteId, limit: usize) -> Vec<AccountKey> {
        let now = self.elapsed();
        let worst = self.0.books.lock().accounts.worst(0, usize::MAX, now);
        let accounts = worst.into_iter().map(|(account, _)| account);
        accounts.filter(|account| account.site == site).take(limit).collect()
    }

    /// The account if it has failed as often as it may.
    pub(crate) fn account(&self, account: AccountKey, may_fail: u32) -> Option<Listed> {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        let locked = Some(books.accounts.span(&account, may_fail, now)?);
        let failures = books.accounts.count(&account, now);
        Some(Listed { origin: None, account: Some(account), failures, locked, delayed: None })
    }

    /// Failures that count against an address, those of tries while it was locked included.
    pub(crate) fn failures_of_address(&self, origin: Origin) -> u32 {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        books.origins.count(&origin, now).saturating_add(books.spared.count(&origin, now))
    }

    /// Failures that count against an account, wherever they came from.
    pub(crate) fn failures_of_account(&self, account: &AccountKey) -> u32 {
        let now = self.elapsed();
        let mut books = self.0.books.lock();
        let known = books.known.sum(|claimant| claimant.account == *account, now);
        books.accounts.count(account, now).saturating_add(known)
    }

    /// Forgets the failures of an address, here and on the other nodes.
    pub(crate) fn unlock_address(&self, origin: Origin) {
        let moment = self.moment();
        let mut books = self.0.books.lock();
        books.unlock_address(origin);
        books.share(PenaltyKind::Unlocked, Subject::origin(origin), moment, 1);
        drop(books);
        self.0.settled.notify_waiters();
    }

    /// Forgets the failures of an account, here and on the other nodes.
    pub(crate) fn unlock_account(&self, account: &AccountKey) {
        let moment = self.moment();
        let mut books = self.0.books.lock();
        books.unlock_account(account);
        books.share(PenaltyKind::Unlocked, Subject::account(account), moment, 1);
        drop(books);
        self.0.settled.notify_waiters();
    }
}

impl Books {
    /// True if the account logged in from there lately.
    fn is_known(&self, claimant: &Claimant, now: Duration) -> bool {
        let lately = |login: &LastLogin| {
            login.origin == claimant.origin && now.saturating_sub(login.at) <= KNOWN_FOR
        };
        self.logins.get(&claimant.account).is_some_and(|logins| logins.iter().any(lately))
    }

    fn way(&mut self, claimant: &Claimant, allowed: Allowed, now: Duration) -> Way {
        let Claimant { origin, account } = claimant;
        let address = self.origins.room(origin, allowed.address, now);
        let closed = |locked, until| Way::Closed(Limit { locked, until });
        if !self.is_known(claimant, now) {
            return match (address, self.accounts.room(account, allowed.account, now)) {
                (Room::Full { until }, _) => closed(Locked::Address, until),
                (_, Room::Full { until }) => closed(Locked::Account, until),
                (Room::Free, Room::Free) => Way::Open(Tally::Unknown),
                (Room::Undecided, _) | (_, Room::Undecided) => Way::Undecided,
            };
        }
        if address == Room::Free {
            return Way::Open(Tally::Known);
        }
        let own = self.known.room(claimant, allowed.known(), now);
        match (own, self.spared.room(origin, allowed.spared(), now)) {
            (Room::Full { until }, _) | (_, Room::Full { until }) => match address {
                Room::Full { until: address } => closed(Locked::AccountHere, until.min(address)),
                Room::Free | Room::Undecided => Way::Undecided,
            },
            (Room::Free, Room::Free) => Way::Open(Tally::Spared),
            (Room::Undecided, _) | (_, Room::Undecided) => Way::Undecided,
        }
    }

    fn begin(&mut self, claimant: &Claimant, tally: Tally) {
        match tally {
            Tally::Unknown => {
                self.origins.begin(&claimant.origin);
                self.accounts.begin(&claimant.account);
            }
            Tally::Known => {
                self.origins.begin(&claimant.origin);
                self.known.begin(claimant);
            }
            Tally::Spared => {
                self.spared.begin(&claimant.origin);
                self.known.begin(claimant);
            }
        }
    }

    fn end(&mut self, claimant: &Claimant, tally: Tally) {
        match tally {
            Tally::Unknown => {
                self.origins.end(&claimant.origin);
                self.accounts.end(&claimant.account);
            }
            Tally::Known => {
                self.origins.end(&claimant.origin);
                self.known.end(claimant);
            }
            Tally::Spared => {
                self.spared.end(&claimant.origin);
                self.known.end(claimant);
            }
        }
    }

    /// Notes that it failed.
    fn add(&mut self, pending: &PasswordTry, moment: Moment) {
        let (Claimant { origin, account }, allowed) = (&pending.claimant, pending.allowed);
        let at = moment.at;
        match pending.tally {
            Tally::Unknown | Tally::Known => {
                self.origins.add(*origin, at, allowed.address);
                let subject = Subject::origin(*origin);
                self.share(PenaltyKind::Address, subject, moment, allowed.address);
            }
            // The address stays locked for no longer: it is others who locked it.
            Tally::Spared => {
                self.spared.add(*origin, at, allowed.spared());
                let subject = Subject::origin(*origin);
                self.share(PenaltyKind::Spared, subject, moment, allowed.spared());
            }
        }
        match pending.tally {
            Tally::Unknown => {
                self.accounts.add(account.clone(), at, allowed.account);
                let subject = Subject::account(account);
                self.share(PenaltyKind::Account, subject, moment, allowed.account);
            }
            Tally::Known | Tally::Spared => {
                let (known, most) = (pending.claimant.clone(), allowed.known());
                self.known.add(known, at, most);
                let subject = Subject::claimant(&pending.claimant);
                self.share(PenaltyKind::Known, subject, moment, most);
            }
        }
    }

    /// When the other nodes were last informed of a login of the account from there.
    fn shared_at(&self, claimant: &Claimant) -> Option<Duration> {
        let logins = self.logins.get(&claimant.account)?;
        let login = logins.iter().find(|login| login.origin == claimant.origin)?;
        Some(login.shared_at)
    }

    /// The account is known at the address, unless it is known there by a later login.
    fn know(&mut self, claimant: &Claimant, login: LastLogin) {
        if self.logins.len() >= PENALTIES && !self.logins.contains_key(&claimant.account) {
            self.logins.clear();
        }
        let logins = self.logins.entry(claimant.account.clone()).or_default();
        if logins.iter().any(|old| old.origin == login.origin && old.at > login.at) {
            return;
        }
        logins.retain(|old| old.origin != login.origin);
        let place = logins.partition_point(|old| old.at <= login.at);
        logins.insert(place, login);
        if logins.len() > KNOWN_ADDRESSES {
            logins.pop_front();
        }
    }

    fn unlock_address(&mut self, origin: Origin) {
        self.origins.forget(|other| *other == origin);
        self.known.forget(|claimant| claimant.origin == origin);
        self.spared.forget(|other| *other == origin);
        // If it is locked again, that is news.
        self.recorded.forget(|other| *other == origin);
        self.reported.forget(|other| *other == origin);
    }

    fn unlock_account(&mut self, account: &AccountKey) {
        self.accounts.forget(|other| other == account);
        self.known.forget(|claimant| claimant.account == *account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowed = Allowed { address: 20, account: 100 };

    fn from(text: &str) -> Origin {
        Origin::of(text.parse().unwrap())
    }

    fn acme_from(origin: Origin) -> Claimant {
        let account = AccountKey { site: SiteId::MAIN, name: "acme".parse().unwrap() };
        Claimant { origin, account }
    }

    /// A wrong password; false: it was not checked.
    fn guess(penalties: &Penalties, claimant: &Claimant) -> bool {
        penalties.try_begin(claimant, ALLOWED).is_some_and(|checked| checked.is_ok())
    }

    #[test]
    fn an_address_may_guess_twenty_times_an_hour() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        let acme = acme_from(from("192.0.2.1"));
        let mut checked = 0;
        for _ in 0..500 {
            checked += u32::from(guess(&penalties, &acme));
            env.advance(Duration::from_secs(7));
        }
        assert!(checked <= 20, "{checked} guesses were checked in {} s", 500 * 7);
        env.advance(Duration::from_secs(3601));
        assert_eq!(penalties.look(&acme, ALLOWED), Penalty::None, "the penalty never ends");
    }

    #[test]
    fn a_crowd_is_heard_a_hundred_times_a_day_and_the_owner_is_let_in() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        let owner = acme_from(from("198.51.100.7"));
        penalties.succeeded(&owner);
        let origins = (0..1000u32).map(|at| Origin::of(IpAddr::from(at.to_be_bytes())));
        let checked = origins.filter(|origin| guess(&penalties, &acme_from(*origin))).count();
        assert_eq!(checked, 100);
        assert_eq!(penalties.look(&owner, ALLOWED), Penalty::None);
    }

    #[test]
    fn a_clock_that_jumps_changes_nothing() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        let acme = acme_from(from("192.0.2.1"));
        (0..20).for_each(|_| assert!(guess(&penalties, &acme)));
        for years in [-30i64, 30] {
            env.set_now(entrepot_nouns::Timestamp(env.now().micros() + years * 31_536_000_000_000));
            assert_eq!(penalties.look(&acme, ALLOWED), Penalty::Limited);
        }
    }

    #[test]
    fn an_ipv6_network_is_one_origin() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
        assert_eq!(from("2001:db8::1").to_string(), "2001:db8::/64");
        assert_eq!(from("192.0.2.1").to_string(), "192.0.2.1");
    }

    #[test]
    fn a_locked_address_is_locked_no_longer_for_those_who_are_let_try() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        let (acme, mut other) = (acme_from(from("192.0.2.1")), acme_from(from("192.0.2.1")));
        other.account.name = "other".parse().unwrap();
        penalties.succeeded(&acme);
        (0..20).for_each(|_| assert!(guess(&penalties, &other)));
        let until = penalties.addresses(20, 9)[0].locked.unwrap().until;
        env.advance(Duration::from_secs(60));
        (0..5).for_each(|_| assert!(guess(&penalties, &acme)));
        assert!(!guess(&penalties, &acme));
        let listed = penalties.addresses(20, 9);
        assert_eq!(listed.len(), 2, "the address, and the account there: {listed:?}");
        assert!(listed.iter().all(|row| row.locked.unwrap().until == until));
        env.advance(until - penalties.elapsed() + Duration::from_secs(1));
        assert_eq!((0..50).filter(|_| guess(&penalties, &other)).count(), 20);
    }

    #[test]
    fn a_login_that_is_cut_was_wrong_and_one_that_was_not_compared_gives_its_try_back() {
        let penalties = Penalties::new(Env::simulated(1));
        let acme = acme_from(from("192.0.2.1"));
        for _ in 0..50 {
            penalties.try_begin(&acme, ALLOWED).unwrap().ok().unwrap().give_back();
        }
        let checked: Vec<_> = (0..20).map(|_| penalties.try_begin(&acme, ALLOWED)).collect();
        assert!(penalties.try_begin(&acme, ALLOWED).is_none(), "those that are checked decide");
        drop(checked);
        assert!(!guess(&penalties, &acme));
    }
}
