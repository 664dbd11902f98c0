//! What is decided about one window: a function of what came in it, what was decided before, and
//! the time.

use std::time::Duration;

use entrepot_db::{Decision, ExpectTelling, ExpectedWindow};
use entrepot_nouns::{Expect, Timestamp};

/// What a rule asks of each window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    count: u64,
    warn: Option<Duration>,
}

/// When it is looked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Timestamp,
    /// All files that came before are counted; none: it is not known how far the nodes are.
    pub(super) counted_until: Option<Timestamp>,
}

/// Whether it is decided that files were missed in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Yes,
    /// It ended too long ago.
    TooLate,
}

/// What a look at a window came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// What is decided now, with the numbers.
    pub(super) decided: Vec<ExpectTelling>,
    /// Something is due that waits for events of nodes.
    pub(super) waits: bool,
}

impl Demand {
    pub(super) fn of(expect: &Expect) -> Demand {
        let warn = expect.warn.map(|warn| warn.duration());
        Demand { count: u64::from(expect.count), warn }
    }

    /// When something is due in a window that ends then, in this order.
    pub(super) fn instants(&self, ends: Timestamp) -> impl Iterator<Item = Timestamp> {
        self.warn.map(|warn| ends.minus(warn)).into_iter().chain([ends])
    }

    /// Decides what can be decided, and notes it in the window.
    pub(super) fn decide(
        &self,
        window: &mut ExpectedWindow,
        moment: Moment,
        judged: Judged,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        if window.seen > self.count {
            self.note(window, Decision::Extra, &mut outcome);
        }
        let has_ended = moment.now >= window.ends;
        let is_short = window.seen < self.count;
        if let Some(warn) = self.warn
            && !has_ended
            && is_short
        {
            let at = window.ends.minus(warn);
            if moment.has(at) {
                self.note(window, Decision::Soon, &mut outcome);
            }
            outcome.waits |= moment.now >= at && !window.decided.contains(&Decision::Soon);
        }
        let is_judged =
            [Decision::Met, Decision::Missed].iter().any(|it| window.decided.contains(it));
        if has_ended && !is_judged && judged == Judged::Yes {
            match (is_short, moment.has(window.ends)) {
                (false, _) => self.note(window, Decision::Met, &mut outcome),
                (true, true) => self.note(window, Decision::Missed, &mut outcome),
                (true, false) => outcome.waits = true,
            }
        }
        let come = window.seen.saturating_add(window.late);
        if window.decided.contains(&Decision::Missed) && come >= self.count {
            self.note(window, Decision::Late, &mut outcome);
        }
        outcome
    }

    /// Decides `decision`, unless that was done before.
    fn note(&self, window: &mut ExpectedWindow, decision: Decision, outcome: &mut Outcome) {
        if window.decided.contains(&decision) {
            return;
        }
        let seen = match decision {
            Decision::Late => window.seen.saturating_add(window.late),
            _ => window.seen,
        };
        window.decided.push(decision);
        outcome.decided.push(ExpectTelling { decision, seen, count: self.count });
    }
}

impl Moment {
    /// Whether it is `at` by now, and all files that came before are counted.
    fn has(&self, at: Timestamp) -> bool {
        self.now >= at && self.counted_until.is_some_and(|until| until >= at)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn hours(hours: u32) -> Timestamp {
        Timestamp(0).plus(HOUR * hours)
    }

    /// From 6 to 18 o'clock.
    fn window(seen: u64, late: u64, decided: &[Decision]) -> ExpectedWindow {
        ExpectedWindow {
            rule: Uuid::nil(),
            terms: Uuid::nil(),
            begins: hours(6),
            ends: hours(18),
            seen,
            late,
            touched: true,
            decided: decided.to_vec(),
            telling: Vec::new(),
            decided_at: Timestamp(0),
        }
    }

    #[test]
    fn each_thing_is_decided_once_and_when_all_that_came_is_counted() {
        use Decision::{Extra, Late, Met, Missed, Soon};
        let demand = Demand { count: 2, warn: Some(HOUR) };
        for (seen, late, before, now, until, decided, waits) in [
            (0, 0, vec![], 16, 16, vec![], false),
            (1, 0, vec![], 17, 17, vec![Soon], false),
            (1, 0, vec![], 17, 16, vec![], true),
            (2, 0, vec![], 17, 17, vec![], false),
            (1, 0, vec![Soon], 17, 17, vec![], false),
            (1, 0, vec![], 18, 18, vec![Missed], false),
            (1, 0, vec![Soon], 18, 17, vec![], true),
            (2, 0, vec![], 18, 17, vec![Met], false),
            (2, 0, vec![Met], 19, 19, vec![], false),
            (3, 0, vec![], 7, 7, vec![Extra], false),
            (3, 0, vec![Extra], 18, 18, vec![Met], false),
            (1, 1, vec![], 18, 18, vec![Missed, Late], false),
            (2, 0, vec![Missed], 19, 18, vec![Late], false),
            (0, 1, vec![Missed], 19, 18, vec![], false),
            (0, 3, vec![Missed, Late], 19, 18, vec![], false),
            (1, 5, vec![Met], 19, 18, vec![], false),
        ] {
            let mut row = window(seen, late, &before);
            let moment = Moment { now: hours(now), counted_until: Some(hours(until)) };
            let outcome = demand.decide(&mut row, moment, Judged::Yes);
            let found: Vec<_> = outcome.decided.iter().map(|it| it.decision).collect();
            assert_eq!((found, outcome.waits), (decided.clone(), waits), "{seen} {late} {now}");
            assert_eq!(row.decided, [before, decided].concat());
        }
    }

    #[test]
    fn of_a_window_that_ended_long_ago_only_what_was_judged_goes_on() {
        let demand = Demand { count: 1, warn: None };
        let moment = Moment { now: hours(200), counted_until: Some(hours(200)) };
        let mut row = window(0, 0, &[]);
        assert_eq!(demand.decide(&mut row, moment, Judged::TooLate), Outcome::default());
        let mut row = window(0, 1, &[Decision::Missed]);
        let outcome = demand.decide(&mut row, moment, Judged::TooLate);
        let told = ExpectTelling { decision: Decision::Late, seen: 1, count: 1 };
        assert_eq!(outcome.decided, [told]);
        let unknown = Moment { now: hours(18), counted_until: None };
        assert!(demand.decide(&mut window(0, 0, &[]), unknown, Judged::Yes).waits);
    }
}
