//! The windows in which a rule expects files: a part of each of its days, by the clock of a zone.

use std::time::Duration;

use entrepot_nouns::expect::Days;
use entrepot_nouns::hours::Clock;
use entrepot_nouns::{Expect, FieldError, Timestamp};
use jiff::civil::Date;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::calendars::{Calendars, NamedCalendar};
use crate::schedule;

/// The longest time between two windows is a week, or what a calendar leaves of a year; the rest is
/// for days that lose an hour, or the whole of a window.
const DAYS_BACK: usize = 400;

/// The time in which the files of one day should come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) begins: Timestamp,
    /// The first moment after it.
    pub(crate) ends: Timestamp,
}

/// All windows of a rule.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Windows {
    days: Days,
    from: Clock,
    by: Clock,
    zone: TimeZone,
    calendar: Option<NamedCalendar>,
}

impl Windows {
    /// Finds the zone, and the calendar among those of the site.
    ///
    /// # Errors
    /// There is no such zone, or no such calendar.
    pub(crate) fn of(expect: &Expect, calendars: &Calendars) -> Result<Windows, FieldError> {
        let zone = schedule::zone(&expect.zone, "when.expect.zone")?;
        let calendar = calendars.named(expect.calendar.as_ref(), "when.expect.calendar")?;
        let Expect { days, from, by, .. } = expect.clone();
        Ok(Windows { days, from, by, zone, calendar })
    }

    /// The newest window that begins at or before `at`.
    pub(crate) fn latest(&self, at: Timestamp) -> Option<Window> {
        let mut days = std::iter::successors(self.date(at), |day| day.yesterday().ok());
        let begun = |day: Date| self.on(day).filter(|window| window.begins <= at);
        days.by_ref().take(DAYS_BACK).find_map(begun)
    }

    /// The first window that begins after `at`.
    pub(crate) fn next(&self, at: Timestamp) -> Option<Window> {
        let first = self.date(at).and_then(|day| day.yesterday().ok());
        let mut days = std::iter::successors(first, |day| day.tomorrow().ok());
        let later = |day: Date| self.on(day).filter(|window| window.begins > at);
        days.by_ref().take(DAYS_BACK).find_map(later)
    }

    /// The windows that end after `after` and begin at or before `now`, the oldest first.
    pub(crate) fn between(&self, after: Timestamp, now: Timestamp) -> Vec<Window> {
        let mut found = Vec::new();
        let mut window = self.latest(now);
        while let Some(at) = window.filter(|window| window.ends > after) {
            found.push(at);
            window = self.latest(at.begins.minus(Duration::from_micros(1)));
        }
        found.reverse();
        found
    }

    fn date(&self, at: Timestamp) -> Option<Date> {
        let at = jiff::Timestamp::from_microsecond(at.micros()).ok()?;
        Some(self.zone.to_datetime(at).date())
    }

    /// Since when the calendar is as it is, at least.
    pub(crate) fn judged_from(&self) -> Timestamp {
        self.calendar.as_ref().map_or(Timestamp(i64::MIN), |named| named.since)
    }

    /// Whether the calendar has the day on which a window begins.
    pub(crate) fn has_day_of(&self, begins: Timestamp) -> bool {
        self.date(begins).is_some_and(|day| !self.is_left_out(day))
    }

    fn is_left_out(&self, day: Date) -> bool {
        self.calendar.as_ref().is_some_and(|named| !named.calendar.has(day))
    }

    /// The window that begins on a day; none if it is none of its days, or a change of the clock
    /// takes all of it.
    fn on(&self, day: Date) -> Option<Window> {
        if self.is_left_out(day) || !self.days.has(day.weekday()) {
            return None;
        }
        let last = if self.by > self.from { day } else { day.tomorrow().ok()? };
        let (begins, ends) = (self.instant(day, self.from)?, self.instant(last, self.by)?);
        (begins < ends).then_some(Window { begins, ends })
    }

    /// When a clock shows this time. A time that a change of the clock leaves out is the first
    /// moment after it; of one that comes twice the first counts.
    fn instant(&self, day: Date, clock: Clock) -> Option<Timestamp> {
        let (hour, minute) = (clock.minutes() / 60, clock.minutes() % 60);
        let (day, hour) = if hour == 24 { (day.tomorrow().ok()?, 0) } else { (day, hour) };
        let time = day.at(i8::try_from(hour).ok()?, i8::try_from(minute).ok()?, 0, 0);
        let found = self.zone.to_ambiguous_timestamp(time);
        let at = match found.offset() {
            AmbiguousOffset::Gap { after, .. } => {
                let before = after.to_timestamp(time).ok()?;
                self.zone.following(before).next()?.timestamp()
            }
            _ => found.compatible().ok()?,
        };
        Some(Timestamp(at.as_microsecond()))
    }
}

#[cfg(test)]
mod tests {
    use entrepot_nouns::noun::Stored;
    use entrepot_nouns::{Policy, SiteId};
    use serde_json::json;

    use uuid::Uuid;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn windows(from: &str, by: &str, days: &str, zone: &str) -> Windows {
        let expect = json!({"match": ["*"], "from": from, "by": by, "days": days, "zone": zone});
        Windows::of(&serde_json::from_value(expect).unwrap(), &Calendars::default()).unwrap()
    }

    fn text(window: Option<Window>) -> String {
        let short = |at: Timestamp| at.to_string()[5..16].to_owned();
        window.map_or_else(String::new, |it| format!("{} {}", short(it.begins), short(it.ends)))
    }

    #[test]
    fn a_time_counts_for_the_newest_window_that_has_begun() {
        // 2026-03-02 is a Monday.
        let work = windows("06:00", "18:00", "mon-fri", "UTC");
        for (now, latest, next) in [
            ("2026-03-02T06:00:00Z", "03-02T06:00 03-02T18:00", "03-03T06:00 03-03T18:00"),
            ("2026-03-02T05:59:59Z", "02-27T06:00 02-27T18:00", "03-02T06:00 03-02T18:00"),
            ("2026-03-08T12:00:00Z", "03-06T06:00 03-06T18:00", "03-09T06:00 03-09T18:00"),
        ] {
            assert_eq!(text(work.latest(at(now))), latest, "{now}");
            assert_eq!(text(work.next(at(now))), next, "{now}");
        }
        let night = windows("22:00", "02:00", "fri", "UTC");
        assert_eq!(text(night.latest(at("2026-03-07T01:00:00Z"))), "03-06T22:00 03-07T02:00");
        assert_eq!(text(night.latest(at("2026-03-13T21:00:00Z"))), "03-06T22:00 03-07T02:00");
        let whole = windows("00:00", "24:00", "mon-sun", "UTC");
        assert_eq!(text(whole.latest(at("2026-03-07T23:59:59Z"))), "03-07T00:00 03-08T00:00");
        let found = work.between(at("2026-03-05T18:00:00Z"), at("2026-03-09T07:00:00Z"));
        let found: Vec<_> = found.into_iter().map(|window| text(Some(window))).collect();
        assert_eq!(found, ["03-06T06:00 03-06T18:00", "03-09T06:00 03-09T18:00"]);
    }

    #[test]
    fn times_are_those_of_the_zone_when_summer_time_begins_and_ends() {
        for (from, by, now, wanted) in [
            ("06:00", "18:00", "2026-03-28T12:00:00Z", "03-28T05:00 03-28T17:00"),
            ("06:00", "18:00", "2026-03-29T12:00:00Z", "03-29T04:00 03-29T16:00"),
            // 2026-03-29: there is no 02:00 to 03:00.
            ("00:00", "02:30", "2026-03-29T12:00:00Z", "03-28T23:00 03-29T01:00"),
            ("02:30", "04:00", "2026-03-29T12:00:00Z", "03-29T01:00 03-29T02:00"),
            // Nothing is left of this one: the one of the day before is the newest.
            ("02:10", "02:50", "2026-03-29T12:00:00Z", "03-28T01:10 03-28T01:50"),
            // 2026-10-25: 02:00 to 03:00 comes twice, the first counts.
            ("00:00", "02:30", "2026-10-25T12:00:00Z", "10-24T22:00 10-25T00:30"),
            ("02:30", "04:00", "2026-10-25T12:00:00Z", "10-25T00:30 10-25T03:00"),
        ] {
            let found = windows(from, by, "mon-sun", "Europe/Berlin").latest(at(now));
            assert_eq!(text(found), wanted, "{from} {by} {now}");
        }
        // A day that Samoa never had: the window over it ends with the gap.
        let samoa = windows("12:00", "12:00", "mon-sun", "Pacific/Apia");
        let found = samoa.latest(at("2011-12-30T09:00:00Z"));
        assert_eq!(text(found), "12-29T22:00 12-30T10:00");
    }

    #[test]
    fn days_that_a_calendar_leaves_out_have_no_window() {
        let policy = json!({"name": "bank", "calendar": {"except": ["2026-12-25", "12-28"]}});
        let (noun, id): (Policy, _) = (serde_json::from_value(policy).unwrap(), Uuid::nil());
        let (revision, changed_at, site) = (1, Timestamp::default(), SiteId::MAIN);
        let calendars = Calendars::of(vec![Stored { id, site, revision, changed_at, noun }]);
        let expect = json!({"match": ["*"], "from": "06:00", "by": "18:00", "days": "mon-fri",
            "calendar": "bank"});
        let mut expect: Expect = serde_json::from_value(expect).unwrap();
        let bank = Windows::of(&expect, &calendars).unwrap();
        let found = bank.between(at("2026-12-24T00:00:00Z"), at("2026-12-29T12:00:00Z"));
        let begins: Vec<_> = found.iter().map(|window| window.begins).collect();
        assert_eq!(begins, [at("2026-12-24T06:00:00Z"), at("2026-12-29T06:00:00Z")]);
        assert_eq!(bank.next(begins[0]).map(|window| window.begins), Some(begins[1]));
        expect.calendar = Some("other".parse().unwrap());
        let error = Windows::of(&expect, &calendars).unwrap_err();
        assert_eq!(error.to_string(), "when.expect.calendar: policy 'other' has no calendar");
    }

    #[test]
    fn a_zone_that_is_not_known_is_named_by_its_field() {
        let expect = json!({"match": ["*"], "by": "18:00", "zone": "Europe/Berlln"});
        let expect = serde_json::from_value(expect).unwrap();
        let error = Windows::of(&expect, &Calendars::default()).unwrap_err();
        assert_eq!(error.field, "when.expect.zone");
        assert!(error.problem.contains("did you mean 'Europe/Berlin'"), "{error}");
    }
}
