//! Who guesses: failures by address and by account, on the monotonic clock, so that a clock that
//! jumps neither lifts a penalty nor makes it last.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::Duration;

use entrepot_model::{Env, Name, SiteId};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::limits::{
    ACCOUNT_WINDOW, ADDRESS_WINDOW, FIRST_DELAY, KNOWN_ADDRESSES, LONGEST_DELAY, PENALTIES,
    RECORDED_REFUSALS, UNDELAYED,
};

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

/// Failures of one key in a sliding window.
#[derive(Default)]
struct Failures {
    times: VecDeque<Duration>,
}

impl Failures {
    fn within(&mut self, now: Duration, window: Duration) -> u32 {
        while self.times.front().is_some_and(|at| now.saturating_sub(*at) > window) {
            self.times.pop_front();
        }
        u32::try_from(self.times.len()).unwrap_or(u32::MAX)
    }
}

struct Table<K> {
    window: Duration,
    rows: HashMap<K, Failures>,
}

impl<K: Hash + Eq + Clone> Table<K> {
    fn new(window: Duration) -> Self {
        Table { window, rows: HashMap::new() }
    }

    fn count(&mut self, key: &K, now: Duration) -> u32 {
        let Some(row) = self.rows.get_mut(key) else {
            return 0;
        };
        let count = row.within(now, self.window);
        if count == 0 {
            self.rows.remove(key);
        }
        count
    }

    /// `most` bounds the memory of one row: more failures than that say nothing new.
    fn add(&mut self, key: K, now: Duration, most: u32) {
        if self.rows.len() >= PENALTIES && !self.rows.contains_key(&key) {
            self.make_room(now);
        }
        let row = self.rows.entry(key).or_default();
        row.times.push_back(now);
        while row.times.len() > usize::try_from(most).unwrap_or(usize::MAX).max(1) {
            row.times.pop_front();
        }
    }

    /// Drops what has decayed; if that is not enough, the half whose last failure is oldest.
    fn make_room(&mut self, now: Duration) {
        let window = self.window;
        self.rows.retain(|_, row| row.within(now, window) > 0);
        if self.rows.len() < PENALTIES {
            return;
        }
        let mut last: Vec<Duration> =
            self.rows.values().filter_map(|row| row.times.back().copied()).collect();
        last.sort_unstable();
        let median = last.get(last.len() / 2).copied().unwrap_or(now);
        self.rows.retain(|_, row| row.times.back().is_some_and(|at| *at > median));
    }
}

/// What a login must wait for, or that it is refused unheard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Penalty {
    /// None.
    None,
    /// The answer to a wrong password is given after this time.
    Delay(Duration),
    /// Refused unheard, for about this time.
    Limited(Duration),
}

/// All penalties of a node. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Penalties(Arc<Shared>);

struct Shared {
    env: Env,
    state: Mutex<State>,
    /// A guess that was being heard has ended.
    settled: Notify,
}

/// A password that is being heard. It holds one of the tries of its address and account until it
/// is known how it ended; a login that is cut meanwhile was wrong.
#[must_use]
pub(crate) struct Hearing {
    penalties: Penalties,
    origin: Origin,
    account: (SiteId, Name),
    allowed: Allowed,
    right: bool,
}

impl Hearing {
    /// It was right, or nothing was compared: the try is given back.
    pub(crate) fn give_back(mut self) {
        self.right = true;
    }
}

impl Drop for Hearing {
    fn drop(&mut self) {
        self.penalties.settle(self);
    }
}

struct State {
    origins: Table<Origin>,
    accounts: Table<(SiteId, Name)>,
    known: HashMap<(SiteId, Name), VecDeque<Origin>>,
    /// Being heard now.
    origins_heard: HashMap<Origin, u32>,
    accounts_heard: HashMap<(SiteId, Name), u32>,
    /// Refusals recorded, limits told.
    recorded: Table<Origin>,
    told: Table<Origin>,
}

/// The limits that a policy sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowed {
    pub(crate) address: u32,
    pub(crate) account: u32,
}

impl Penalties {
    pub(crate) fn new(env: Env) -> Self {
        Penalties(Arc::new(Shared {
            env,
            settled: Notify::new(),
            state: Mutex::new(State {
                origins: Table::new(ADDRESS_WINDOW),
                accounts: Table::new(ACCOUNT_WINDOW),
                known: HashMap::new(),
                origins_heard: HashMap::new(),
                accounts_heard: HashMap::new(),
                recorded: Table::new(ADDRESS_WINDOW),
                told: Table::new(ADDRESS_WINDOW),
            }),
        }))
    }

    /// Waits until a password of `account` from `origin` may be heard, and takes one try: guesses
    /// at the same time share what is left.
    ///
    /// # Errors
    /// Refused unheard, for about this time.
    pub(crate) async fn hear(
        &self,
        origin: Origin,
        account: &(SiteId, Name),
        allowed: Allowed,
    ) -> Result<Hearing, Duration> {
        // Most need not wait.
        if let Some(heard) = self.try_hear(origin, account, allowed) {
            return heard;
        }
        loop {
            let mut settled = std::pin::pin!(self.0.settled.notified());
            settled.as_mut().enable();
            if let Some(heard) = self.try_hear(origin, account, allowed) {
                return heard;
            }
            settled.await;
        }
    }

    /// `None`: guesses that are being heard now decide whether there is a try left.
    fn try_hear(
        &self,
        origin: Origin,
        account: &(SiteId, Name),
        allowed: Allowed,
    ) -> Option<Result<Hearing, Duration>> {
        let now = self.0.env.elapsed();
        let mut state = self.0.state.lock();
        let at_origin = state.origins_heard.get(&origin).copied().unwrap_or(0);
        let at_account = state.accounts_heard.get(account).copied().unwrap_or(0);
        let known = state.known.get(account).is_some_and(|known| known.contains(&origin));
        let of_origin = state.origins.count(&origin, now);
        let of_account = if known { 0 } else { state.accounts.count(account, now) };
        if of_origin >= allowed.address {
            return Some(Err(ADDRESS_WINDOW));
        }
        if !known && of_account >= allowed.account {
            return Some(Err(ACCOUNT_WINDOW));
        }
        let full = of_origin.saturating_add(at_origin) >= allowed.address;
        if full || (!known && of_account.saturating_add(at_account) >= allowed.account) {
            return None;
        }
        state.origins_heard.insert(origin, at_origin + 1);
        state.accounts_heard.insert(account.clone(), at_account + 1);
        let (penalties, account) = (self.clone(), account.clone());
        Some(Ok(Hearing { penalties, origin, account, allowed, right: false }))
    }

    fn settle(&self, hearing: &Hearing) {
        if !hearing.right {
            self.failed(hearing.origin, &hearing.account, hearing.allowed);
        }
        let mut state = self.0.state.lock();
        leave(&mut state.origins_heard, &hearing.origin);
        leave(&mut state.accounts_heard, &hearing.account);
        drop(state);
        self.0.settled.notify_waiters();
    }

    /// True if a refusal from `origin` should be recorded: a flood must not fill the journal.
    pub(crate) fn may_record(&self, origin: Origin) -> bool {
        let now = self.0.env.elapsed();
        let mut state = self.0.state.lock();
        let may = state.recorded.count(&origin, now) < RECORDED_REFUSALS;
        if may {
            state.recorded.add(origin, now, RECORDED_REFUSALS);
        }
        may
    }

    /// True once in the window of an address: that it is limited is news then.
    pub(crate) fn may_tell(&self, origin: Origin) -> bool {
        let now = self.0.env.elapsed();
        let mut state = self.0.state.lock();
        let may = state.told.count(&origin, now) == 0;
        if may {
            state.told.add(origin, now, 1);
        }
        may
    }

    /// What a try for `account` from `origin` meets now. An address that the account logged in
    /// from before is not held for what strangers did.
    pub(crate) fn look(
        &self,
        origin: Origin,
        account: &(SiteId, Name),
        allowed: Allowed,
    ) -> Penalty {
        let now = self.0.env.elapsed();
        let mut state = self.0.state.lock();
        let failures = state.origins.count(&origin, now);
        if failures >= allowed.address {
            return Penalty::Limited(ADDRESS_WINDOW);
        }
        let known = state.known.get(account).is_some_and(|known| known.contains(&origin));
        if !known && state.accounts.count(account, now) >= allowed.account {
            return Penalty::Limited(ACCOUNT_WINDOW);
        }
        match failures.saturating_sub(UNDELAYED) {
            0 => Penalty::None,
            over => {
                let doubled = FIRST_DELAY.saturating_mul(1 << over.min(10));
                Penalty::Delay(doubled.min(LONGEST_DELAY))
            }
        }
    }

    /// A try failed.
    pub(crate) fn failed(&self, origin: Origin, account: &(SiteId, Name), allowed: Allowed) {
        let now = self.0.env.elapsed();
        let mut state = self.0.state.lock();
        state.origins.add(origin, now, allowed.address);
        let known = state.known.get(account).is_some_and(|known| known.contains(&origin));
        if !known {
            state.accounts.add(account.clone(), now, allowed.account);
        }
    }

    /// A login succeeded: the address is known from now on.
    pub(crate) fn succeeded(&self, origin: Origin, account: &(SiteId, Name)) {
        let mut state = self.0.state.lock();
        if state.known.len() >= PENALTIES && !state.known.contains_key(account) {
            state.known.clear();
        }
        let known = state.known.entry(account.clone()).or_default();
        if known.back() == Some(&origin) {
            return;
        }
        known.retain(|other| *other != origin);
        known.push_back(origin);
        if known.len() > KNOWN_ADDRESSES {
            known.pop_front();
        }
    }
}

fn leave<K: Hash + Eq>(heard: &mut HashMap<K, u32>, key: &K) {
    if let Some(count) = heard.get_mut(key) {
        *count = count.saturating_sub(1);
        if *count == 0 {
            heard.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: Allowed = Allowed { address: 20, account: 100 };

    fn acme() -> (SiteId, Name) {
        (SiteId::MAIN, "acme".parse().unwrap())
    }

    fn from(text: &str) -> Origin {
        Origin::of(text.parse().unwrap())
    }

    #[test]
    fn an_address_is_heard_twenty_times_an_hour() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        let mut heard = 0;
        for _ in 0..500 {
            if !matches!(penalties.look(from("192.0.2.1"), &acme(), ALLOWED), Penalty::Limited(_)) {
                heard += 1;
                penalties.failed(from("192.0.2.1"), &acme(), ALLOWED);
            }
            env.advance(Duration::from_secs(7));
        }
        assert!(heard <= 20, "{heard} guesses were heard in {} s", 500 * 7);
        env.advance(Duration::from_secs(3601));
        let later = penalties.look(from("192.0.2.1"), &acme(), ALLOWED);
        assert!(!matches!(later, Penalty::Limited(_)), "the penalty never ends");
    }

    #[test]
    fn a_crowd_is_heard_a_hundred_times_a_day_and_the_owner_is_let_in() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        penalties.succeeded(from("198.51.100.7"), &acme());
        let mut heard = 0;
        for at in 0..1000u32 {
            let stranger = Origin::of(IpAddr::from(at.to_be_bytes()));
            if penalties.look(stranger, &acme(), ALLOWED) == Penalty::None {
                heard += 1;
                penalties.failed(stranger, &acme(), ALLOWED);
            }
        }
        assert_eq!(heard, 100);
        assert_eq!(penalties.look(from("198.51.100.7"), &acme(), ALLOWED), Penalty::None);
    }

    #[test]
    fn a_clock_that_jumps_changes_nothing() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        for _ in 0..20 {
            penalties.failed(from("192.0.2.1"), &acme(), ALLOWED);
        }
        for years in [-30i64, 30] {
            env.set_now(entrepot_model::Timestamp(env.now().micros() + years * 31_536_000_000_000));
            let penalty = penalties.look(from("192.0.2.1"), &acme(), ALLOWED);
            assert!(matches!(penalty, Penalty::Limited(_)));
        }
    }

    #[test]
    fn an_ipv6_network_is_one_origin() {
        assert_eq!(from("2001:db8::1"), from("2001:db8::ffff"));
        assert_ne!(from("2001:db8::1"), from("2001:db8:0:1::1"));
        assert_eq!(from("::ffff:192.0.2.1"), from("192.0.2.1"));
    }

    #[test]
    fn memory_is_bounded() {
        let env = Env::simulated(1);
        let penalties = Penalties::new(env.clone());
        for at in 0..(PENALTIES as u32 + 10) {
            env.advance(Duration::from_micros(1));
            penalties.failed(Origin::of(IpAddr::from(at.to_be_bytes())), &acme(), ALLOWED);
        }
        assert!(penalties.0.state.lock().origins.rows.len() <= PENALTIES);
    }
}
