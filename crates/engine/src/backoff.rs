//! How long to wait before the next try.

use std::fmt;
use std::time::Duration;

use entrepot_nouns::Env;
use entrepot_nouns::rule::Retry;
use tokio_util::sync::CancellationToken;

use crate::limits::{AWAY_FIRST, AWAY_LONGEST};

/// The pause after the `attempts`-th attempt of a job failed (1 = the first):
/// `first_delay · 2^(attempts − 1)`, at most `longest_delay`, spread by ± 20 %.
pub(crate) fn after_attempt(retry: &Retry, attempts: u32, env: &Env) -> Duration {
    let first = Duration::from_secs(u64::from(retry.first_delay_seconds));
    let longest = Duration::from_secs(u64::from(retry.longest_delay_seconds));
    spread(doubled(first, longest, attempts.saturating_sub(1)), env)
}

/// Doubling pauses while something we need is away.
pub(crate) struct Away {
    tries: u32,
}

impl Away {
    /// Begins with the shortest pause.
    pub(crate) fn new() -> Self {
        Away { tries: 0 }
    }

    /// The next pause.
    pub(crate) fn next(&mut self, env: &Env) -> Duration {
        let pause = doubled(AWAY_FIRST, AWAY_LONGEST, self.tries);
        self.tries = self.tries.saturating_add(1);
        spread(pause, env)
    }
}

/// The pauses between looks at something: each look says how long the one behind it is, and one
/// that fails is tried again, ever more seldom.
pub(crate) struct Looks<'l> {
    env: &'l Env,
    stop: &'l CancellationToken,
    /// What the log says of one that fails.
    failing: &'static str,
    away: Away,
}

impl<'l> Looks<'l> {
    pub(crate) fn new(env: &'l Env, stop: &'l CancellationToken, failing: &'static str) -> Self {
        Looks { env, stop, failing, away: Away::new() }
    }

    /// Pauses behind a look, no longer than until `stop`.
    pub(crate) async fn pause<E: fmt::Display>(&mut self, looked: Result<Duration, E>) {
        let pause = match looked {
            Ok(pause) => {
                self.away = Away::new();
                pause
            }
            Err(error) => {
                tracing::warn!(code = "EP0801", %error, "{}", self.failing);
                self.away.next(self.env)
            }
        };
        tokio::select! {
            biased;
            () = self.stop.cancelled() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

fn doubled(first: Duration, longest: Duration, times: u32) -> Duration {
    let factor = 1u32.checked_shl(times).unwrap_or(u32::MAX);
    first.saturating_mul(factor).min(longest)
}

/// Between 80 % and 120 %, so that what failed together does not come back together.
pub(crate) fn spread(pause: Duration, env: &Env) -> Duration {
    let mut random = [0; 2];
    env.fill_random(&mut random);
    let thousandths = 800 + u32::from(u16::from_le_bytes(random)) * 400 / u32::from(u16::MAX);
    pause.saturating_mul(thousandths) / 1000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_its_cap_with_a_spread_of_a_fifth() {
        let retry = Retry { attempts: 10, first_delay_seconds: 5, longest_delay_seconds: 60 };
        let env = Env::simulated(3);
        let mut seen_low = false;
        let mut seen_high = false;
        for _ in 0..200 {
            for (attempts, seconds) in [(1, 5), (2, 10), (3, 20), (4, 40), (5, 60), (40, 60)] {
                let base = Duration::from_secs(seconds);
                let pause = after_attempt(&retry, attempts, &env);
                assert!(pause >= base * 4 / 5 && pause <= base * 6 / 5, "{attempts}: {pause:?}");
                seen_low |= pause < base * 9 / 10;
                seen_high |= pause > base * 11 / 10;
            }
        }
        assert!(seen_low && seen_high, "no spread");
    }

    #[test]
    fn huge_numbers_saturate() {
        let retry = Retry {
            attempts: u32::MAX,
            first_delay_seconds: u32::MAX,
            longest_delay_seconds: u32::MAX,
        };
        let pause = after_attempt(&retry, u32::MAX, &Env::simulated(1));
        assert!(pause >= Duration::from_secs(u64::from(u32::MAX) * 4 / 5));
        let mut away = Away::new();
        let env = Env::simulated(1);
        for _ in 0..100 {
            assert!(away.next(&env) <= AWAY_LONGEST * 6 / 5);
        }
    }
}
