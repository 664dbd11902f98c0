//! How often what failed has been tried, and how often it may be.
//!
//! A failure counts for one `retry` alone: that of its step, if the step has one, else that of the
//! rule. So a partner who is away for a day does not use up the attempts of the other steps.

use std::time::Duration;

use entrepot_nouns::rule::Retry;
use entrepot_nouns::{Env, StepAddress};

use super::Run;
use crate::backoff;

/// The attempts that count for the step under way.
pub(super) struct Tries {
    retry: Retry,
    /// With this one.
    made: u32,
}

impl Tries {
    pub(super) fn are_left(&self) -> bool {
        self.made < self.retry.attempts
    }

    /// How long to wait before the next one, where the other side asks for `asked` at the least.
    pub(super) fn pause(&self, asked: Duration, env: &Env) -> Duration {
        let longest = Duration::from_secs(u64::from(self.retry.longest_delay_seconds));
        backoff::after_attempt(&self.retry, self.made, env).max(asked.min(longest))
    }
}

impl Run<'_> {
    /// Of the step under way, or of the job.
    pub(super) fn tries(&self) -> Tries {
        let address = self.current.as_ref().map(|(address, _)| address);
        let own = address.and_then(|address| Some((address, self.own_retry(address)?)));
        if let Some((address, retry)) = own {
            let failed = self.progress.failures().find(|(it, _)| *it == address);
            let failed = failed.map_or(0, |(_, count)| count);
            return Tries { retry, made: failed.saturating_add(1) };
        }
        Tries { retry: self.rule.noun.retry, made: self.attempts_of_rule() }
    }

    /// The attempts of the job but for those that count for a step alone.
    pub(super) fn attempts_of_rule(&self) -> u32 {
        let own = self.progress.failures().filter(|(address, _)| self.own_retry(address).is_some());
        let own = own.map(|(_, count)| count).fold(0, u32::saturating_add);
        self.job.attempts.saturating_sub(own)
    }

    fn own_retry(&self, address: &StepAddress) -> Option<Retry> {
        let address = address.in_rule();
        let place = self.rule.noun.all_places().into_iter().find(|it| it.address == address)?;
        place.step.retry
    }
}
