//! What happens at the instants of one schedule: a function of how far it has come, the time, and
//! whether its last run has ended.

use std::sync::Arc;

use entrepot_db::{Schedule, Telling};
use entrepot_nouns::cron::{Missed, Overlap};
use entrepot_nouns::{Calendar, Cron, Timestamp};
use uuid::Uuid;

use super::instants::Instants;
use crate::ids;
use crate::limits::{CRON_MISSED, CRON_ON_TIME};

/// An enabled rule that starts by the clock.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    pub(super) rule: Uuid,
    pub(super) cron: Cron,
    pub(super) instants: Instants,
    /// When the rule was stored as it is; instants before are none of its.
    pub(super) since: Timestamp,
}

/// What is known of the run of the last instant that was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LastRun {
    /// It has not ended.
    Open,
    /// There was none, or it has ended.
    Ended,
}

const OVERLAPS: &str = "the run before it had not ended";
const REPLACED: &str = "the run before it had not ended, and a later instant waits in its place";
const PASSED: &str = "no node could start it then, and it is not made up for";

impl Plan {
    /// Whether its instants are those of this schedule and calendar, and the same is done about
    /// them.
    pub(super) fn is_of(&self, cron: &Cron, calendar: Option<&Arc<Calendar>>) -> bool {
        self.cron == *cron && self.instants.calendar() == calendar
    }

    /// How far the schedule has come: `found`, unless the schedule is another one since. A changed
    /// schedule begins anew, and makes up for nothing.
    pub(super) fn standing(&self, found: Option<Schedule>, now: Timestamp) -> Schedule {
        let Cron { expression, zone, .. } = &self.cron;
        match found {
            Some(found) if found.expression == *expression && found.zone == *zone => found,
            found => Schedule {
                rule: self.rule,
                expression: expression.clone(),
                zone: zone.clone(),
                planned: self.since.min(now),
                due: found.as_ref().and_then(|found| found.due),
                missed: Vec::new(),
                queued: None,
                telling: found.and_then(|found| found.telling),
                changed_at: now,
            },
        }
    }

    /// Decides about the instants up to `now`, or lets one that waits begin: at most one decision,
    /// which is told before the next is made. False if nothing has changed.
    pub(super) fn decide(&self, at: &mut Schedule, now: Timestamp, last: LastRun) -> bool {
        if at.telling.is_some() {
            return false;
        }
        let before = at.clone();
        at.changed_at = now;
        self.arrived(at, now, last);
        if at.telling.is_none() && self.may_run(last) {
            let next =
                if at.missed.is_empty() { at.queued.take() } else { Some(at.missed.remove(0)) };
            if let Some(instant) = next {
                self.start(at, instant);
            }
        }
        let is_changed = Schedule { changed_at: before.changed_at, ..at.clone() } != before;
        if !is_changed {
            at.changed_at = before.changed_at;
        }
        is_changed
    }

    /// Takes in the instants that have come since the last look.
    fn arrived(&self, at: &mut Schedule, now: Timestamp, last: LastRun) {
        let most = if self.cron.missed == Missed::All { CRON_MISSED } else { 1 };
        let mut come = self.instants.between(at.planned, now, most);
        let Some(&newest) = come.last() else { return };
        at.planned = newest;
        let age = now.since(newest);
        let makes_up = match self.cron.missed {
            Missed::All => true,
            Missed::Last => age <= self.cron.late.duration().max(CRON_ON_TIME),
            Missed::None => age <= CRON_ON_TIME,
        };
        if !makes_up {
            return self.skip(at, newest, PASSED);
        }
        if come.len() > 1 || age > CRON_ON_TIME && self.cron.missed == Missed::All {
            at.missed.append(&mut come);
            let over = at.missed.len().saturating_sub(CRON_MISSED);
            at.missed.drain(..over);
            return;
        }
        let is_free = self.may_run(last) && at.missed.is_empty();
        match self.cron.overlap {
            Overlap::Parallel => self.start(at, newest),
            Overlap::Skip if !is_free => self.skip(at, newest, OVERLAPS),
            Overlap::Queue if !is_free => {
                if let Some(replaced) = at.queued.replace(newest) {
                    self.skip(at, replaced, REPLACED);
                }
            }
            // One that is queued has waited for this longer.
            Overlap::Queue if at.queued.is_some() => {
                if let Some(queued) = at.queued.replace(newest) {
                    self.start(at, queued);
                }
            }
            Overlap::Skip | Overlap::Queue => self.start(at, newest),
        }
    }

    fn may_run(&self, last: LastRun) -> bool {
        self.cron.overlap == Overlap::Parallel || last == LastRun::Ended
    }

    fn start(&self, at: &mut Schedule, instant: Timestamp) {
        at.due = Some(instant);
        self.tell(at, instant, None);
    }

    fn skip(&self, at: &mut Schedule, instant: Timestamp, why: &str) {
        self.tell(at, instant, Some(why.to_owned()));
    }

    fn tell(&self, at: &mut Schedule, planned: Timestamp, skipped: Option<String>) {
        let event = ids::planned(self.rule, planned);
        at.telling = Some(Telling { event, planned, skipped });
    }
}

/// True while an instant waits for its run.
pub(super) fn is_waiting(at: &Schedule) -> bool {
    !at.missed.is_empty() || at.queued.is_some()
}
