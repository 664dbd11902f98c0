//! How many sessions with a host application are kept ready, and for how long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::noun::FieldError;
use crate::period::Period;

/// Limits and times of the sessions of a model on a node. Every session counts against `max` from
/// the moment at which it is opened until it is over, whatever is done with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionPool {
    /// Sessions that are opened at the start, before anybody asks.
    pub initial: u32,
    /// At least so many wait for callers, as far as `max` allows.
    pub min_idle: u32,
    /// At most so many wait for callers; those beyond are logged off. Unset: up to `max`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_idle: Option<u32>,
    /// Most sessions in all.
    pub max: u32,
    /// Most sessions that are being opened at the same time.
    pub max_pending: u32,
    /// Most calls that wait for a session; more are refused at once.
    pub max_waiting: u32,
    /// Longest time for which a call waits for a session.
    pub wait: Period,
    /// An idle session is looked at so often.
    pub idle_check: Period,
    /// Idle sessions beyond `min_idle` are logged off after so long. Unset: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_time: Option<Period>,
    /// Sessions are replaced after so long. Unset: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age: Option<Period>,
    /// Sessions are replaced after so many calls. Unset: never.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_uses: Option<u32>,
    /// A session that a client has left somewhere must be home, or logged off, within so long.
    pub rogue_time: Period,
    /// A session that a client holds is taken from it when nothing has come for so long.
    pub hold: Period,
    /// The same for a session that its client has suspended.
    pub suspend: Period,
    /// Most sessions that one account may hold at a time. Unset: as many as there are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_held: Option<u32>,
    /// A user whose session ended without a log-off rests for so long, for the host may not know
    /// yet that the session is over.
    pub user_rest: Period,
}

impl Default for SessionPool {
    fn default() -> Self {
        SessionPool {
            initial: 0,
            min_idle: 0,
            max_idle: None,
            max: 50,
            max_pending: 10,
            max_waiting: 5_000,
            wait: Period::from_seconds(10),
            idle_check: Period::from_seconds(120),
            idle_time: None,
            max_age: None,
            max_uses: None,
            rogue_time: Period::from_seconds(30),
            hold: Period::from_seconds(300),
            suspend: Period::from_seconds(3_600),
            max_held: None,
            user_rest: Period::from_seconds(300),
        }
    }
}

impl SessionPool {
    /// Most sessions that a pool may have.
    pub const MOST: u32 = 20_000;
    /// Most calls that may wait for one.
    pub const MOST_WAITING: u32 = 100_000;

    /// Checks that the limits fit each other; `front` is the field that they are in.
    ///
    /// # Errors
    /// They do not.
    pub fn check(&self, front: &str) -> Result<(), FieldError> {
        let wrong =
            |field: &str, what: &str| Err(FieldError::new(format!("{front}.{field}"), what));
        if self.max == 0 || self.max > Self::MOST {
            return wrong("max", "give a number from 1 to 20000");
        }
        if self.max_pending == 0 {
            return wrong("max_pending", "give at least 1, or no session is ever opened");
        }
        if self.max_waiting > Self::MOST_WAITING {
            return wrong("max_waiting", "give at most 100000");
        }
        if self.initial > self.max {
            return wrong("initial", "give at most as many as 'max'");
        }
        if self.min_idle > self.max_idle.unwrap_or(self.max).min(self.max) {
            return wrong("min_idle", "give at most as many as 'max_idle' and 'max'");
        }
        if self.max_uses == Some(0) {
            return wrong("max_uses", "give at least 1, or leave it away");
        }
        let times = [
            ("wait", Some(self.wait)),
            ("idle_check", Some(self.idle_check)),
            ("idle_time", self.idle_time),
            ("max_age", self.max_age),
            ("rogue_time", Some(self.rogue_time)),
            ("hold", Some(self.hold)),
            ("suspend", Some(self.suspend)),
        ];
        for (field, time) in times {
            if time.is_some_and(|time| time == Period::from_seconds(0)) {
                return wrong(field, "give at least 1s");
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_contradict_each_other_are_refused() {
        let usual = SessionPool::default();
        assert_eq!(usual.check("pool"), Ok(()));
        let zero = Period::from_seconds(0);
        for (field, pool) in [
            ("max", SessionPool { max: 0, ..usual.clone() }),
            ("max", SessionPool { max: 20_001, ..usual.clone() }),
            ("max_pending", SessionPool { max_pending: 0, ..usual.clone() }),
            ("max_waiting", SessionPool { max_waiting: 100_001, ..usual.clone() }),
            ("initial", SessionPool { initial: 51, ..usual.clone() }),
            ("min_idle", SessionPool { min_idle: 51, ..usual.clone() }),
            ("min_idle", SessionPool { min_idle: 3, max_idle: Some(2), ..usual.clone() }),
            ("max_uses", SessionPool { max_uses: Some(0), ..usual.clone() }),
            ("idle_check", SessionPool { idle_check: zero, ..usual.clone() }),
            ("max_age", SessionPool { max_age: Some(zero), ..usual.clone() }),
            ("hold", SessionPool { hold: zero, ..usual.clone() }),
            ("suspend", SessionPool { suspend: zero, ..usual.clone() }),
        ] {
            let error = pool.check("pool").unwrap_err();
            assert_eq!(error.field, format!("pool.{field}"));
        }
    }
}
