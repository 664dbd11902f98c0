//! What each account has had digested lately: reading a file over and over costs the client a line.

use std::collections::HashMap;
use std::time::Duration;

use entrepot_nouns::Env;
use parking_lot::Mutex;

use crate::account_key::AccountKey;
use crate::limits::DIGESTS_REMEMBERED;

/// Budgets of bytes an hour. One that is used up fills again evenly; one of which nothing is used
/// takes a file of any size.
pub(crate) struct DigestBudgets {
    env: Env,
    spent: Mutex<HashMap<AccountKey, Spent>>,
}

#[derive(Clone, Copy)]
struct Spent {
    bytes: u64,
    at: Duration,
    /// The budget it was spent of.
    an_hour: u64,
}

impl Spent {
    /// What is left of it by now.
    fn now(&self, now: Duration) -> u64 {
        let passed = now.saturating_sub(self.at).as_nanos();
        let given_back = u128::from(self.an_hour).saturating_mul(passed) / HOUR.as_nanos();
        self.bytes.saturating_sub(u64::try_from(given_back).unwrap_or(u64::MAX))
    }
}

const HOUR: Duration = Duration::from_secs(3600);

impl DigestBudgets {
    pub(crate) fn new(env: Env) -> Self {
        DigestBudgets { env, spent: Mutex::default() }
    }

    /// Takes so many bytes of an account's budget; false: they do not fit. Of no budget nothing is
    /// taken, and what was spent of an earlier one is given back as that one said.
    pub(crate) fn take(&self, account: &AccountKey, bytes: u64, an_hour: u64) -> bool {
        if an_hour == 0 {
            return bytes == 0;
        }
        let now = self.env.elapsed();
        let mut all = self.spent.lock();
        let before = all.get(account).map_or(0, |spent| spent.now(now));
        if before > 0 && before.saturating_add(bytes) > an_hour {
            // Another budget counts from now on. The same one does not begin anew: parts of a byte
            // would be lost each time.
            if let Some(spent) = all.get_mut(account).filter(|spent| spent.an_hour != an_hour) {
                *spent = Spent { bytes: before, at: now, an_hour };
            }
            return false;
        }
        if all.len() >= DIGESTS_REMEMBERED {
            all.retain(|_, spent| spent.now(now) > 0);
        }
        if all.len() < DIGESTS_REMEMBERED || all.contains_key(account) {
            let bytes = before.saturating_add(bytes);
            all.insert(account.clone(), Spent { bytes, at: now, an_hour });
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::SiteId;

    use super::*;

    fn account(name: &str) -> AccountKey {
        AccountKey { site: SiteId::MAIN, name: name.parse().unwrap() }
    }

    #[test]
    fn a_budget_fills_again_within_the_hour_and_takes_one_large_file() {
        let env = Env::simulated(1);
        let budgets = DigestBudgets::new(env.clone());
        let acme = account("acme");
        let other = account("other");
        assert!(budgets.take(&acme, 600, 1000));
        assert!(!budgets.take(&acme, 600, 1000), "it does not fit");
        assert!(budgets.take(&acme, 400, 1000), "it just fits");
        assert!(!budgets.take(&acme, 1, 1000));
        assert!(budgets.take(&other, 1000, 1000), "each account has its own");
        env.advance(HOUR / 2);
        assert!(!budgets.take(&acme, 501, 1000));
        assert!(budgets.take(&acme, 500, 1000));
        env.advance(HOUR);
        assert!(budgets.take(&acme, 5000, 1000), "nothing is used, so one large file passes");
        env.advance(HOUR);
        assert!(!budgets.take(&acme, 1, 1000), "and is paid for");
        env.advance(4 * HOUR);
        assert!(budgets.take(&acme, 1, 1000));
    }

    #[test]
    fn a_budget_fills_again_from_the_first_moment_on() {
        let env = Env::simulated(1);
        let budgets = DigestBudgets::new(env.clone());
        let (acme, an_hour) = (account("acme"), 1 << 40);
        assert!(budgets.take(&acme, an_hour, an_hour));
        assert!(!budgets.take(&acme, 3, an_hour), "nothing is left");
        env.advance(Duration::from_micros(1));
        assert!(budgets.take(&acme, 3, an_hour), "a microsecond gives back 305 bytes");
    }

    #[test]
    fn no_budget_takes_nothing_and_a_larger_one_counts_at_once() {
        let env = Env::simulated(1);
        let budgets = DigestBudgets::new(env.clone());
        let acme = account("acme");
        assert!(!budgets.take(&acme, 1, 0));
        assert!(budgets.take(&acme, 0, 0));
        assert!(budgets.take(&acme, 1_000_000, 10), "nothing is used, so one large file passes");
        env.advance(HOUR);
        assert!(!budgets.take(&acme, 1, 1000), "the debt is of a small budget");
        env.advance(998 * HOUR);
        assert!(!budgets.take(&acme, 1, 1000), "nearly");
        env.advance(2 * HOUR);
        assert!(budgets.take(&acme, 500, 1000), "it is paid off at the new rate");
        // Who asks again and again does not hold up what is given back.
        for _ in 1..3600 {
            env.advance(Duration::from_millis(500));
            assert!(!budgets.take(&acme, 1001, 1000));
        }
        env.advance(Duration::from_millis(500));
        assert!(budgets.take(&acme, 1001, 1000));
    }
}
