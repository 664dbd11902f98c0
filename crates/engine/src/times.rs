//! How long something took, each time: counted in buckets of which each ends an eighth, or less,
//! behind where it begins.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets for each power of two of microseconds.
const SUB: u64 = 8;
/// For all times below two to the 40 microseconds, which are twelve days.
const BUCKETS: usize = 8 * 38;

/// See the module. Counting takes no lock.
pub struct Times {
    counts: Box<[AtomicU64]>,
    longest_us: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        let counts = (0..BUCKETS).map(|_| AtomicU64::new(0)).collect();
        Times { counts, longest_us: AtomicU64::new(0) }
    }
}

impl Times {
    pub(crate) fn add(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let last = self.counts.len().saturating_sub(1);
        if let Some(count) = self.counts.get(bucket(us).min(last)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    /// How many there were.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The longest one; zero if there was none.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.longest_us.load(Ordering::Relaxed))
    }

    /// What so many of a thousand did not exceed, an eighth too long at most; zero if there was
    /// none.
    pub fn quantile(&self, per_mille: u64) -> Duration {
        let wanted = self.count().saturating_mul(per_mille).div_ceil(1_000).max(1);
        let mut seen = 0;
        for (at, count) in (0..).zip(self.counts.iter()) {
            seen += count.load(Ordering::Relaxed);
            if seen >= wanted {
                return Duration::from_micros(end(at)).min(self.longest());
            }
        }
        self.longest()
    }
}

/// The bucket of a time.
fn bucket(us: u64) -> usize {
    if us < SUB {
        return usize::try_from(us).unwrap_or_default();
    }
    let power = us.ilog2();
    let place = u64::from(power - 2) * SUB + ((us >> (power - 3)) - SUB);
    usize::try_from(place).unwrap_or(usize::MAX)
}

/// The longest time of a bucket, in microseconds.
fn end(bucket: u64) -> u64 {
    if bucket < SUB {
        return bucket;
    }
    let power = bucket / SUB + 2;
    ((SUB + bucket % SUB + 1) << (power - 3)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_time_is_in_a_bucket_that_ends_an_eighth_later_at_most() {
        for us in (0..5_000).chain([65_535, 65_536, 1_000_000, (1 << 40) - 1]) {
            let end = end(bucket(us) as u64);
            assert!(us <= end && end <= us + us / 8, "{us} {end}");
        }
        assert_eq!(bucket((1 << 40) - 1) + 1, BUCKETS);
    }

    #[test]
    fn quantiles_are_those_of_what_was_counted() {
        let times = Times::default();
        assert_eq!((times.count(), times.quantile(990)), (0, Duration::ZERO));
        for ms in 1..=1_000 {
            times.add(Duration::from_millis(ms));
        }
        assert_eq!((times.count(), times.longest()), (1_000, Duration::from_secs(1)));
        for (per_mille, ms) in [(500, 500), (990, 990), (1_000, 1_000)] {
            let found = times.quantile(per_mille).as_micros() as u64;
            assert!(found >= ms * 1_000 && found <= ms * 1_125, "{per_mille}: {found}");
        }
        times.add(Duration::MAX);
        assert_eq!(times.count(), 1_001);
    }
}
