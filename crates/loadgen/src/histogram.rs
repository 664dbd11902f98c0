//! A histogram of times with at most 1.6 % error: 64 buckets for each power of two of
//! microseconds, as HdrHistogram does it.

use std::time::Duration;

const SUB: u64 = 64;
const BUCKETS: usize = 64 * 40;

/// Counts of times.
#[derive(Clone)]
pub struct Histogram {
    counts: Vec<u64>,
    total: u64,
    sum_us: u64,
    max_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BUCKETS], total: 0, sum_us: 0, max_us: 0 }
    }
}

impl Histogram {
    /// Counts one time.
    pub fn record(&mut self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(count) = self.counts.get_mut(bucket(us)) {
            *count += 1;
        }
        self.total += 1;
        self.sum_us = self.sum_us.saturating_add(us);
        self.max_us = self.max_us.max(us);
    }

    /// Adds all that another counted.
    pub fn merge(&mut self, other: &Histogram) {
        for (count, more) in self.counts.iter_mut().zip(&other.counts) {
            *count += more;
        }
        self.total += other.total;
        self.sum_us = self.sum_us.saturating_add(other.sum_us);
        self.max_us = self.max_us.max(other.max_us);
    }

    /// How many times were counted.
    pub fn count(&self) -> u64 {
        self.total
    }

    /// The longest time, exact to the microsecond; zero if none was counted.
    pub fn max(&self) -> Duration {
        Duration::from_micros(self.max_us)
    }

    /// The mean, exact to the microsecond; zero if none was counted.
    pub fn mean(&self) -> Duration {
        Duration::from_micros(self.sum_us.checked_div(self.total).unwrap_or(0))
    }

    /// The time that `per_mille` of all do not exceed: 500 is the median, 990 is p99.
    pub fn quantile(&self, per_mille: u64) -> Duration {
        let rank = (self.total * per_mille).div_ceil(1000).max(1);
        let mut seen = 0;
        for (at, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_micros(upper(at).min(self.max_us));
            }
        }
        self.max()
    }
}

/// Buckets 0 to 63 hold one microsecond each; then each power of two has 32 buckets of its own.
fn bucket(us: u64) -> usize {
    if us < SUB {
        return usize::try_from(us).unwrap_or(0);
    }
    let power = 63 - us.leading_zeros() - 5;
    let place = u64::from(power) * (SUB / 2) + (us >> power);
    usize::try_from(place).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The largest microsecond of a bucket.
fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < SUB {
        return bucket;
    }
    let power = bucket / (SUB / 2) - 1;
    let place = bucket - power * (SUB / 2);
    ((place + 1) << power).saturating_sub(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_cover_every_time_within_their_error() {
        let mut us = 1u64;
        while us < 1 << 40 {
            for value in [us - 1, us, us + us / 3, us + us / 2] {
                let top = upper(bucket(value));
                assert!(top >= value, "{value} is above its bucket {top}");
                assert!(top - value <= value / 32 + 1, "{value} lies far below {top}");
            }
            us *= 2;
        }
    }

    #[test]
    fn quantiles() {
        let mut histogram = Histogram::default();
        for us in 1..=1000 {
            histogram.record(Duration::from_micros(us));
        }
        let near = |per_mille: u64, want: u64| {
            let found = histogram.quantile(per_mille).as_micros() as u64;
            assert!(found.abs_diff(want) <= want / 30 + 1, "{per_mille}: {found}");
        };
        near(500, 500);
        near(950, 950);
        near(990, 990);
        assert_eq!(histogram.max(), Duration::from_micros(1000));
        assert_eq!(histogram.count(), 1000);
        assert_eq!(Histogram::default().quantile(500), Duration::ZERO);
    }
}
