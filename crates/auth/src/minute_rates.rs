//! How often something came within a minute, by what it is of.

use std::collections::HashMap;
use std::time::Duration;

use entrepot_nouns::Env;
use parking_lot::Mutex;

const MINUTE: Duration = Duration::from_secs(60);

/// Counts of this minute, by the id of a noun.
pub(crate) struct Rates {
    env: Env,
    counts: Mutex<HashMap<[u8; 16], Minute>>,
}

#[derive(Clone, Copy)]
struct Minute {
    since: Duration,
    count: u32,
}

impl Rates {
    /// Nothing yet, by the clock of `env`.
    pub(crate) fn new(env: Env) -> Rates {
        Rates { env, counts: Mutex::default() }
    }

    /// Counts one more of a noun; how long to wait if it is one too many.
    pub(crate) fn count(&self, id: [u8; 16], most: u32) -> Result<(), Duration> {
        let now = self.env.elapsed();
        let mut counts = self.counts.lock();
        let minute = counts.entry(id).or_insert(Minute { since: now, count: 0 });
        let spent = now.saturating_sub(minute.since);
        if spent >= MINUTE {
            *minute = Minute { since: now, count: 0 };
        }
        if minute.count >= most {
            return Err(MINUTE.saturating_sub(spent));
        }
        minute.count += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_minute_has_its_count_for_each_noun() {
        let env = Env::simulated(1);
        let rates = Rates::new(env.clone());
        assert_eq!(rates.count([1; 16], 2), Ok(()));
        env.advance(Duration::from_secs(20));
        assert_eq!(rates.count([1; 16], 2), Ok(()));
        assert_eq!(rates.count([1; 16], 2), Err(Duration::from_secs(40)));
        assert_eq!(rates.count([2; 16], 2), Ok(()));
        env.advance(Duration::from_secs(40));
        assert_eq!(rates.count([1; 16], 2), Ok(()));
    }
}
