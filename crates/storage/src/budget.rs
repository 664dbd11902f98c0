//! How much there is of something on a node, and how those who use it share it: descriptors,
//! sessions, memory.
//!
//! 1. Nobody may hold more than what is left free for others. Alone that is half of the whole, two
//!    get a third each, and of many there is always something left for one who comes anew.
//! 2. The first part is given to everybody as long as anything is free.
//! 3. A part of the whole is kept for administrators, who are bound by the whole alone.
//!
//! What was taken is given back when its [`Permit`] is dropped. Taking is a few atomic operations:
//! no lock is held, and nothing waits.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use entrepot_nouns::AccountId;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// Who holds parts of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holder {
    /// The sessions of an account, all together.
    Account(AccountId),
    /// The jobs of all rules together.
    Rules,
    /// The node itself: recovery, counts, what is dropped.
    Node,
}

/// What of a budget somebody may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// A fair share.
    Ordinary,
    /// All that is free, and what is kept for administrators.
    Administrator,
}

/// So much of something, shared by its holders. Cheap to clone.
#[derive(Clone)]
pub struct Budget(Arc<Whole>);

struct Whole {
    total: u64,
    /// The part of it that only administrators get.
    kept: u64,
    used: AtomicU64,
    refused: AtomicU64,
    /// Something was given back.
    freed: Notify,
    holders: Mutex<HashMap<Holder, Weak<Held>>>,
}

/// What one holder has.
struct Held {
    holder: Holder,
    amount: AtomicU64,
    whole: Arc<Whole>,
}

impl Budget {
    /// `total` in all, of which `kept` is for administrators only.
    pub fn new(total: u64, kept: u64) -> Budget {
        let counter = || AtomicU64::new(0);
        let (used, refused, holders) = (counter(), counter(), Mutex::default());
        Budget(Arc::new(Whole { total, kept, used, refused, freed: Notify::new(), holders }))
    }

    /// The share of a holder: the same one for all who ask for it at a time.
    pub fn share(&self, holder: Holder, standing: Standing) -> Share {
        let mut holders = self.0.holders.lock();
        let known = holders.get(&holder).and_then(Weak::upgrade);
        let held = known.unwrap_or_else(|| {
            let (amount, whole) = (AtomicU64::new(0), Arc::clone(&self.0));
            let held = Arc::new(Held { holder, amount, whole });
            holders.insert(holder, Arc::downgrade(&held));
            held
        });
        Share { held, standing }
    }

    /// How much there is, used or not.
    pub fn total(&self) -> u64 {
        self.0.total
    }

    /// What all holders have together.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed).min(self.0.total)
    }

    /// How often something was refused, since the start.
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Budget({} of {})", self.used(), self.total())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut holders = self.whole.holders.lock();
        // Another one may have taken its place meanwhile.
        if holders.get(&self.holder).is_some_and(|held| held.strong_count() == 0) {
            holders.remove(&self.holder);
        }
    }
}

/// What a holder may take of a budget. Cheap to clone.
#[derive(Clone)]
pub struct Share {
    held: Arc<Held>,
    standing: Standing,
}

impl Share {
    /// Takes so much, or nothing.
    pub fn take(&self, amount: u64) -> Option<Permit> {
        let taken = self.add(amount);
        if !taken {
            self.held.whole.refused.fetch_add(1, Ordering::Relaxed);
        }
        taken.then(|| Permit { share: self.clone(), amount })
    }

    /// Takes at most `most`, less as the share is used up, but `least` or nothing.
    pub fn take_between(&self, least: u64, most: u64) -> Option<Permit> {
        let amount = most.min(self.left() / PART_OF_LEFT).max(least);
        self.take(amount)
    }

    /// What the holder has now.
    pub fn held(&self) -> u64 {
        self.held.amount.load(Ordering::Relaxed)
    }

    /// Ready when anybody has given something back since it was asked for.
    pub fn freed(&self) -> impl Future<Output = ()> + '_ {
        self.held.whole.freed.notified()
    }

    /// What can still be taken now, were nobody else to take anything.
    fn left(&self) -> u64 {
        let whole = &self.held.whole;
        let free = whole.total.saturating_sub(whole.used.load(Ordering::Relaxed));
        match self.standing {
            Standing::Administrator => free,
            Standing::Ordinary => free.saturating_sub(whole.kept).saturating_sub(self.held()) / 2,
        }
    }

    fn add(&self, amount: u64) -> bool {
        let whole = &self.held.whole;
        let held = self.held.amount.fetch_add(amount, Ordering::Relaxed).saturating_add(amount);
        let used = whole.used.fetch_add(amount, Ordering::Relaxed).saturating_add(amount);
        let fits = whole.total.checked_sub(used).is_some_and(|free| match self.standing {
            Standing::Administrator => true,
            Standing::Ordinary => {
                let for_others = free.checked_sub(whole.kept);
                for_others.is_some_and(|free| held == amount || held <= free)
            }
        });
        if !fits {
            self.give_back(amount);
        }
        fits
    }

    fn give_back(&self, amount: u64) {
        self.held.amount.fetch_sub(amount, Ordering::Relaxed);
        self.held.whole.used.fetch_sub(amount, Ordering::Relaxed);
        self.held.whole.freed.notify_waiters();
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let amount = self.held();
        write!(f, "Share({amount} of {:?})", self.held.holder)
    }
}

/// The largest part of what is left that [`Share::take_between`] takes at once.
const PART_OF_LEFT: u64 = 8;

/// A part of a budget; dropping it gives the part back.
#[derive(Debug)]
pub struct Permit {
    share: Share,
    amount: u64,
}

impl Permit {
    /// How much it is.
    pub fn amount(&self) -> u64 {
        self.amount
    }

    /// Takes more; `false`: the share is used up, and nothing has changed.
    pub fn grow(&mut self, by: u64) -> bool {
        let grown = self.share.add(by);
        if grown {
            self.amount += by;
        } else {
            self.share.held.whole.refused.fetch_add(1, Ordering::Relaxed);
        }
        grown
    }

    /// Gives back what is more than `amount`.
    pub fn shrink_to(&mut self, amount: u64) {
        let surplus = self.amount.saturating_sub(amount);
        self.amount -= surplus;
        self.share.give_back(surplus);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.share.give_back(self.amount);
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    fn account(number: u128) -> Holder {
        Holder::Account(AccountId(Uuid::from_u128(number)))
    }

    /// Takes one at a time until nothing is given any more.
    fn all_it_can(share: &Share) -> Vec<Permit> {
        std::iter::from_fn(|| share.take(1)).collect()
    }

    #[test]
    fn one_alone_gets_half_and_the_next_a_part_of_what_is_left() {
        let budget = Budget::new(120, 0);
        let shares: Vec<Share> =
            (0..4).map(|it| budget.share(account(it), Standing::Ordinary)).collect();
        let held: Vec<Vec<Permit>> = shares.iter().map(all_it_can).collect();
        let counts: Vec<usize> = held.iter().map(Vec::len).collect();
        assert_eq!(counts, [60, 30, 15, 7]);
        assert_eq!((budget.used(), budget.refused()), (112, 4));
        drop(held);
        assert_eq!(budget.used(), 0);
        drop(shares);
        assert!(budget.0.holders.lock().is_empty(), "a holder is remembered for ever");
    }

    #[test]
    fn those_who_come_together_get_the_same() {
        let budget = Budget::new(120, 0);
        let shares = [0, 1].map(|it| budget.share(account(it), Standing::Ordinary));
        let mut held = Vec::new();
        while let (Some(one), Some(other)) = (shares[0].take(1), shares[1].take(1)) {
            held.push((one, other));
        }
        assert_eq!(held.len(), 40, "a third each");
    }

    #[test]
    fn everybody_gets_a_first_part_and_only_administrators_what_is_kept() {
        let budget = Budget::new(10, 2);
        let first = budget.share(account(1), Standing::Ordinary);
        let permits = all_it_can(&first);
        assert_eq!(permits.len(), 4);
        let others: Vec<Permit> = (2..10)
            .filter_map(|it| budget.share(account(it), Standing::Ordinary).take(1))
            .collect();
        assert_eq!(others.len(), 4, "eight are for accounts");
        let administrator = budget.share(account(99), Standing::Administrator);
        assert_eq!(all_it_can(&administrator).len(), 2);
    }

    #[test]
    fn all_sessions_of_an_account_share_one_share() {
        let budget = Budget::new(100, 0);
        let one = budget.share(account(1), Standing::Ordinary);
        let other = budget.share(account(1), Standing::Ordinary);
        let held = all_it_can(&one);
        assert_eq!(held.len(), 50);
        assert!(other.take(1).is_none());
        assert!(budget.share(Holder::Rules, Standing::Ordinary).take(1).is_some());
    }

    #[test]
    fn a_permit_grows_as_far_as_the_share_and_shrinks() {
        let budget = Budget::new(100, 0);
        let share = budget.share(account(1), Standing::Ordinary);
        let mut permit = share.take(10).unwrap();
        assert!(permit.grow(40) && !permit.grow(1));
        permit.shrink_to(5);
        assert_eq!((permit.amount(), budget.used()), (5, 5));
        permit.shrink_to(7);
        assert_eq!(permit.amount(), 5, "shrinking never grows");
    }

    #[test]
    fn what_is_taken_ahead_becomes_less_as_the_share_is_used_up() {
        let budget = Budget::new(1024, 0);
        let share = budget.share(account(1), Standing::Ordinary);
        let taken: Vec<Permit> =
            std::iter::from_fn(|| share.take_between(4, 32)).take(1000).collect();
        let amounts: Vec<u64> = taken.iter().map(Permit::amount).collect();
        assert_eq!((amounts.first(), amounts.last()), (Some(&32), Some(&4)));
        assert!(amounts.is_sorted_by(|one, next| one >= next), "{amounts:?}");
        assert!(budget.used() > 1024 / 2 - 4 && budget.used() <= 1024 / 2);
    }
}
