//! Failures by key in a sliding window, on the monotonic clock, so that a clock that jumps neither
//! lifts a penalty nor makes it last.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use crate::limits::PENALTIES;

/// Failures of each key, and tries that are being checked now and may become failures.
pub(crate) struct Ledger<K> {
    window: Duration,
    rows: HashMap<K, Failures>,
    pending: HashMap<K, u32>,
}

/// When each failure of one key was.
#[derive(Default)]
struct Failures(VecDeque<Duration>);

/// Whether one more try may be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// It may: even if all tries that are being checked now fail, the limit is not reached.
    Free,
    /// Tries that are being checked now decide.
    Undecided,
    /// Not before this time.
    Full { until: Duration },
}

/// From when to when a key has more failures than it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) since: Duration,
    pub(crate) until: Duration,
}

impl Failures {
    fn forget_before(&mut self, now: Duration, window: Duration) {
        while self.0.front().is_some_and(|at| now.saturating_sub(*at) > window) {
            self.0.pop_front();
        }
    }

    fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }
}

impl<K: Hash + Eq + Clone> Ledger<K> {
    pub(crate) fn new(window: Duration) -> Self {
        Ledger { window, rows: HashMap::new(), pending: HashMap::new() }
    }

    /// Failures of `key` in the window.
    pub(crate) fn count(&mut self, key: &K, now: Duration) -> u32 {
        let Some(row) = self.rows.get_mut(key) else {
            return 0;
        };
        row.forget_before(now, self.window);
        let count = row.count();
        if count == 0 {
            self.rows.remove(key);
        }
        count
    }

    /// Whether one more try of a key that may fail `most` times may be checked.
    pub(crate) fn room(&mut self, key: &K, most: u32, now: Duration) -> Room {
        let failures = self.count(key, now);
        if failures >= most {
            let until = self.span(key, most, now).map_or(now + self.window, |span| span.until);
            return Room::Full { until };
        }
        let pending = self.pending.get(key).copied().unwrap_or(0);
        if failures.saturating_add(pending) >= most { Room::Undecided } else { Room::Free }
    }

    /// From when to when `key` has `most` failures; `None`: it has not so many now.
    pub(crate) fn span(&mut self, key: &K, most: u32, now: Duration) -> Option<Span> {
        if self.count(key, now) < most {
            return None;
        }
        let times = &self.rows.get(key)?.0;
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        // It has one too few when the oldest of the last `most` is forgotten.
        let since = times.get(most.checked_sub(1)?)?;
        let until = times.get(times.len().checked_sub(most)?)?.saturating_add(self.window);
        Some(Span { since: *since, until })
    }

    /// A try of `key` is being checked.
    pub(crate) fn begin(&mut self, key: &K) {
        *self.pending.entry(key.clone()).or_default() += 1;
    }

    /// A try of `key` was checked.
    pub(crate) fn end(&mut self, key: &K) {
        if let Some(count) = self.pending.get_mut(key) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.pending.remove(key);
            }
        }
    }

    /// Notes a failure; one that another node has seen may be older than the last. `most` bounds
    /// the memory of one key: more failures than that say nothing new.
    pub(crate) fn add(&mut self, key: K, at: Duration, most: u32) {
        if self.rows.len() >= PENALTIES && !self.rows.contains_key(&key) {
            self.make_room(at);
        }
        let times = &mut self.rows.entry(key).or_default().0;
        let place = times.partition_point(|time| *time <= at);
        times.insert(place, at);
        while times.len() > usize::try_from(most).unwrap_or(usize::MAX).max(1) {
            times.pop_front();
        }
    }

    /// Forgets the failures of the keys that `which` names.
    pub(crate) fn forget(&mut self, which: impl Fn(&K) -> bool) {
        self.rows.retain(|key, _| !which(key));
    }

    /// Failures of the keys that `which` names, together.
    pub(crate) fn sum(&mut self, which: impl Fn(&K) -> bool, now: Duration) -> u32 {
        self.forget_old(now);
        let counts = self.rows.iter().filter(|(key, _)| which(key)).map(|(_, row)| row.count());
        counts.fold(0, u32::saturating_add)
    }

    /// Keys with more than `least` failures, those with most first, at most `limit`.
    pub(crate) fn worst(&mut self, least: u32, limit: usize, now: Duration) -> Vec<(K, u32)> {
        self.forget_old(now);
        let rows = self.rows.iter().map(|(key, row)| (key, row.count()));
        let mut worst: Vec<_> = rows.filter(|(_, count)| *count > least).collect();
        worst.sort_unstable_by_key(|(_, count)| std::cmp::Reverse(*count));
        worst.truncate(limit);
        worst.into_iter().map(|(key, count)| (key.clone(), count)).collect()
    }

    fn forget_old(&mut self, now: Duration) {
        let window = self.window;
        self.rows.retain(|_, row| {
            row.forget_before(now, window);
            row.count() > 0
        });
    }

    /// Drops what has decayed; if that is not enough, the half whose last failure is oldest.
    fn make_room(&mut self, now: Duration) {
        self.forget_old(now);
        if self.rows.len() < PENALTIES {
            return;
        }
        let mut last: Vec<Duration> =
            self.rows.values().filter_map(|row| row.0.back().copied()).collect();
        last.sort_unstable();
        let median = last.get(last.len() / 2).copied().unwrap_or(now);
        self.rows.retain(|_, row| row.0.back().is_some_and(|at| *at > median));
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(100);

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_key_is_full_until_it_has_one_failure_less_than_it_may_have() {
        let mut ledger = Ledger::new(WINDOW);
        for second in [10, 20, 30] {
            assert_eq!(ledger.room(&'a', 3, at(second)), Room::Free);
            ledger.add('a', at(second), 3);
        }
        assert_eq!(ledger.room(&'a', 3, at(31)), Room::Full { until: at(110) });
        assert_eq!(ledger.span(&'a', 3, at(31)), Some(Span { since: at(30), until: at(110) }));
        assert_eq!(ledger.room(&'a', 3, at(110)), Room::Full { until: at(110) });
        assert_eq!(ledger.room(&'a', 3, at(111)), Room::Free);
        // Its limit was lowered meanwhile.
        assert_eq!(ledger.room(&'a', 1, at(111)), Room::Full { until: at(130) });
        assert_eq!(ledger.span(&'a', 1, at(111)).unwrap().since, at(20));
        assert_eq!(ledger.room(&'b', 0, at(111)), Room::Full { until: at(211) });
    }

    #[test]
    fn tries_that_are_being_heard_share_what_is_left() {
        let mut ledger = Ledger::new(WINDOW);
        ledger.add('a', at(1), 3);
        ledger.begin(&'a');
        assert_eq!(ledger.room(&'a', 3, at(2)), Room::Free);
        ledger.begin(&'a');
        assert_eq!(ledger.room(&'a', 3, at(2)), Room::Undecided);
        ledger.end(&'a');
        ledger.end(&'a');
        assert_eq!(ledger.room(&'a', 3, at(2)), Room::Free);
        assert!(ledger.pending.is_empty());
    }

    #[test]
    fn the_worst_come_first_and_what_is_forgotten_counts_no_more() {
        let mut ledger = Ledger::new(WINDOW);
        for (key, count) in [('a', 3), ('b', 5), ('c', 2)] {
            (0..count).for_each(|second| ledger.add(key, at(second), 9));
        }
        assert_eq!(ledger.worst(2, 9, at(10)), [('b', 5), ('a', 3)]);
        assert_eq!(ledger.worst(0, 1, at(10)), [('b', 5)]);
        assert_eq!(ledger.sum(|key| *key != 'c', at(101)), 6, "two were too old to count");
        ledger.forget(|key| *key == 'b');
        assert_eq!(ledger.worst(0, 9, at(101)), [('a', 2), ('c', 1)]);
    }

    #[test]
    fn memory_is_bounded() {
        let mut ledger = Ledger::new(WINDOW);
        for key in 0..PENALTIES + 10 {
            ledger.add(key, Duration::from_micros(key as u64), 3);
        }
        assert!(ledger.len() <= PENALTIES);
        (0..10).for_each(|second| ledger.add(1, at(second), 3));
        assert_eq!(ledger.count(&1, at(10)), 3);
    }
}
