//! The instants of a schedule: an expression and the time zone of its clock.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use croner::parser::{CronParser, Year};
use entrepot_nouns::{Calendar, Cron, FieldError, Timestamp};
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{Span, Zoned};

use crate::limits::{CRON_BYTES, CRON_YEARS};

/// A year of 366 days.
const YEAR: Duration = Duration::from_secs(366 * 86_400);
/// How far back instants are searched for, each only where the one before found too few.
const SPANS: [Duration; 6] = [
    Duration::from_secs(60),
    Duration::from_secs(3_600),
    Duration::from_secs(86_400),
    Duration::from_secs(30 * 86_400),
    YEAR,
    YEAR.saturating_mul(CRON_YEARS),
];

/// The zones that this program brings along: all nodes have the same ones.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// An expression, its zone and the days of its calendar, ready to be asked.
#[derive(Clone, Debug)]
pub(crate) struct Instants {
    cron: croner::Cron,
    zone: TimeZone,
    calendar: Option<Arc<Calendar>>,
}

impl Instants {
    /// Reads the expression and finds the zone; only instants on days of `calendar` count.
    ///
    /// # Errors
    /// The field of the rule that cannot be used, and why.
    pub(crate) fn of(cron: &Cron, calendar: Option<Arc<Calendar>>) -> Result<Instants, FieldError> {
        let (expression, zone) = (parse(&cron.expression)?, zone(&cron.zone, "when.cron.zone")?);
        Ok(Instants { cron: expression, zone, calendar })
    }

    /// The days on which instants count.
    pub(crate) fn calendar(&self) -> Option<&Arc<Calendar>> {
        self.calendar.as_ref()
    }

    /// The first instant after `at`; `None` if there is none for thousands of years, or on days of
    /// the calendar none for [`CRON_YEARS`].
    pub(crate) fn after(&self, at: Timestamp) -> Option<Timestamp> {
        self.next(&self.zoned(at)?).map(|found| instant(&found))
    }

    fn next(&self, after: &Zoned) -> Option<Zoned> {
        let mut found = next(&self.cron, after)?;
        let Some(calendar) = &self.calendar else { return Some(found) };
        let last = after.date().checked_add(Span::new().years(CRON_YEARS)).ok()?;
        while !calendar.has(found.date()) {
            if found.date() > last {
                return None;
            }
            let over = found.end_of_day().ok()?;
            found = next(&self.cron, &over)?;
        }
        Some(found)
    }

    /// The newest instants after `after` and up to `now`, at most `most`; the oldest first.
    pub(crate) fn between(&self, after: Timestamp, now: Timestamp, most: usize) -> Vec<Timestamp> {
        let mut found = Vec::new();
        for span in SPANS {
            let from = now.minus(span).max(after);
            found = self.all_between(from, now);
            if found.len() >= most || from == after {
                break;
            }
        }
        found.split_off(found.len().saturating_sub(most))
    }

    fn all_between(&self, after: Timestamp, now: Timestamp) -> Vec<Timestamp> {
        let mut found = Vec::new();
        let mut last = self.zoned(after);
        while let Some(at) = last.and_then(|last| self.next(&last))
            && instant(&at) <= now
        {
            found.push(instant(&at));
            last = Some(at);
        }
        found
    }

    fn zoned(&self, at: Timestamp) -> Option<Zoned> {
        let at = jiff::Timestamp::from_microsecond(at.micros()).ok()?;
        Some(at.to_zoned(self.zone.clone()))
    }
}

/// Says what of a schedule cannot be used: also that it has no instant in the next ten years.
/// Blocks for as long as such an instant is searched for.
///
/// # Errors
/// The field of the rule, and why.
pub(crate) fn check(cron: &Cron, now: Timestamp) -> Result<(), FieldError> {
    let instants = Instants::of(cron, None)?;
    let none = || {
        let text = format!("'{}' has no instant in the next {CRON_YEARS} years", cron.expression);
        wrong_expression(text)
    };
    let start = instants.zoned(now).ok_or_else(none)?;
    // With years the search ends where they end, not in the year 5000.
    let first = i64::from(start.year());
    let years = format!("{first}-{}", first.saturating_add(i64::from(CRON_YEARS)));
    let fields = cron.expression.split_whitespace().count();
    let seconds = if fields == 5 { "0 " } else { "" };
    let text = format!("{seconds}{} {years}", cron.expression.trim());
    let limited = CronParser::builder().year(Year::Required).build().parse(&text);
    let limited = limited.map_err(|error| wrong_expression(said(&cron.expression, &error)))?;
    next(&limited, &start).map(drop).ok_or_else(none)
}

fn next(cron: &croner::Cron, after: &Zoned) -> Option<Zoned> {
    cron.find_next_occurrence(after, false).ok()
}

fn instant(at: &Zoned) -> Timestamp {
    Timestamp(at.timestamp().as_microsecond())
}

fn parse(expression: &str) -> Result<croner::Cron, FieldError> {
    if expression.len() > CRON_BYTES {
        return Err(wrong_expression(format!("it is longer than {CRON_BYTES} bytes")));
    }
    if !matches!(expression.split_whitespace().count(), 5 | 6) {
        let text = format!(
            "'{expression}' has not 5 fields (minute, hour, day of the month, month, day of the \
             week), nor 6 with seconds before them"
        );
        return Err(wrong_expression(text));
    }
    let parser = CronParser::builder().year(Year::Disallowed).build();
    parser.parse(expression).map_err(|error| wrong_expression(said(expression, &error)))
}

/// What the parser says, as the rest of a sentence.
fn said(expression: &str, error: &croner::errors::CronError) -> String {
    let error = error.to_string();
    let why = error.strip_prefix("Component error: ").unwrap_or(&error).trim_end_matches('.');
    format!("'{expression}' cannot be used: {why}")
}

fn wrong_expression(text: String) -> FieldError {
    FieldError::new("when.cron.expression", text)
}

/// The time zone of this name, which `field` of a rule has.
///
/// # Errors
/// There is none.
pub(crate) fn zone(name: &str, field: &str) -> Result<TimeZone, FieldError> {
    // The database finds names in any case; in a document they stand as it has them.
    let known = || ZONES.available();
    if known().any(|zone| zone.as_str() == name)
        && let Ok(zone) = ZONES.get(name)
    {
        return Ok(zone);
    }
    let wanted = name.to_lowercase();
    let near = known()
        .map(|zone| {
            let lower = zone.as_str().to_lowercase();
            let city = lower.rsplit('/').next().unwrap_or(&lower);
            let distance =
                strsim::levenshtein(&lower, &wanted).min(strsim::levenshtein(city, &wanted));
            (distance, zone.to_string())
        })
        .min();
    let hint = match near {
        Some((distance, zone)) if distance <= wanted.len() / 3 => {
            format!("; did you mean '{zone}'?")
        }
        _ => "; write it as in Europe/Paris".to_owned(),
    };
    Err(FieldError::new(field, format!("'{name}' is no time zone that is known{hint}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    fn cron(expression: &str, zone: &str) -> Cron {
        Cron { zone: zone.to_owned(), ..Cron::new(expression) }
    }

    /// The instants after `after`, in UTC.
    fn following(expression: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let instants = Instants::of(&cron(expression, zone), None).unwrap();
        let mut last = at(after);
        let next = std::iter::repeat_with(|| {
            last = instants.after(last).unwrap();
            last.to_string()[..19].to_owned()
        });
        next.take(count).collect()
    }

    #[test]
    fn the_hour_that_summer_time_takes_and_the_one_that_winter_time_repeats() {
        let berlin = "Europe/Berlin";
        for (expression, after, wanted) in [
            // 2026-03-29: 02:00 to 03:00 is left out. A fixed time runs at the end of the gap.
            (
                "30 2 * * *",
                "2026-03-27T12:00:00Z",
                &["2026-03-28T01:30:00", "2026-03-29T01:00:00", "2026-03-30T00:30:00"][..],
            ),
            (
                "*/30 * * * *",
                "2026-03-29T00:29:59Z",
                &["2026-03-29T00:30:00", "2026-03-29T01:00:00", "2026-03-29T01:30:00"],
            ),
            ("15 * * * *", "2026-03-28T23:30:00Z", &["2026-03-29T00:15:00", "2026-03-29T01:15:00"]),
            // 2026-10-25: 02:00 to 03:00 comes twice. A fixed time runs once.
            ("30 2 * * *", "2026-10-24T12:00:00Z", &["2026-10-25T00:30:00", "2026-10-26T01:30:00"]),
            (
                "*/30 2 * * *",
                "2026-10-24T12:00:00Z",
                &[
                    "2026-10-25T00:00:00",
                    "2026-10-25T00:30:00",
                    "2026-10-25T01:00:00",
                    "2026-10-25T01:30:00",
                    "2026-10-26T01:00:00",
                ],
            ),
            (
                "15 * * * *",
                "2026-10-24T23:30:00Z",
                &["2026-10-25T00:15:00", "2026-10-25T01:15:00", "2026-10-25T02:15:00"],
            ),
        ] {
            let found = following(expression, berlin, after, wanted.len());
            assert_eq!(found, wanted, "{expression} after {after}");
        }
        let east = following("0 3 * * *", "Asia/Kolkata", "2026-01-01T00:00:00Z", 1);
        assert_eq!(east, ["2026-01-01T21:30:00"]);
        let seconds = following("*/20 * * * * *", "UTC", "2026-01-01T00:00:05.5Z", 2);
        assert_eq!(seconds, ["2026-01-01T00:00:20", "2026-01-01T00:00:40"]);
    }

    #[test]
    fn the_newest_instants_of_a_long_time_are_found_without_all_the_others() {
        let each_second = Instants::of(&cron("* * * * * *", "UTC"), None).unwrap();
        let (then, now) = (at("2016-01-01T00:00:00Z"), at("2026-01-01T00:00:00.7Z"));
        let found = each_second.between(then, now, 100);
        assert_eq!(found.len(), 100);
        assert_eq!(found.first(), Some(&at("2025-12-31T23:58:21Z")));
        assert_eq!(found.last(), Some(&at("2026-01-01T00:00:00Z")));
        assert_eq!(each_second.between(at("2025-12-31T23:59:59Z"), now, 9).len(), 1);
        assert_eq!(each_second.between(now, now, 9), []);
        assert_eq!(each_second.between(now, then, 9), [], "the clock was set back");
        let yearly = Instants::of(&cron("0 0 29 2 *", "UTC"), None).unwrap();
        let found = yearly.between(then, now, 100);
        assert_eq!(
            found,
            [at("2016-02-29T00:00:00Z"), at("2020-02-29T00:00:00Z"), at("2024-02-29T00:00:00Z")]
        );
    }

    #[test]
    fn only_days_of_the_calendar_count_by_the_clock_of_the_zone() {
        let with = |calendar: serde_json::Value, expression: &str, zone: &str| {
            let calendar = Arc::new(serde_json::from_value(calendar).unwrap());
            Instants::of(&cron(expression, zone), Some(calendar)).unwrap()
        };
        let bank = json!({"days": ["mon", "tue", "wed", "thu", "fri"], "except": ["12-25"]});
        let daily = with(bank.clone(), "30 0 * * *", "Europe/Berlin");
        // The 24th of December 2026 is a Thursday.
        let mut last = at("2026-12-23T12:00:00Z");
        for wanted in ["2026-12-23T23:30:00Z", "2026-12-27T23:30:00Z", "2026-12-28T23:30:00Z"] {
            last = daily.after(last).unwrap();
            assert_eq!(last, at(wanted));
        }
        // What is left out for days is not walked through second by second.
        let seconds = with(bank, "* * * * * *", "UTC");
        assert_eq!(seconds.after(at("2026-12-24T23:59:59Z")), Some(at("2026-12-28T00:00:00Z")));
        let (friday, monday) = (at("2026-12-25T00:00:00Z"), at("2026-12-28T00:00:01.5Z"));
        assert_eq!(seconds.between(friday, monday, 9).len(), 2);
        let leap = with(json!({"days": [], "also": ["02-29"]}), "0 9 * * *", "UTC");
        assert_eq!(leap.after(friday), Some(at("2028-02-29T09:00:00Z")));
        let over = with(json!({"days": [], "also": ["2026-01-01"]}), "0 9 * * *", "UTC");
        assert_eq!(over.after(friday), None);
    }

    #[test]
    fn what_is_no_schedule_is_named_with_its_field() {
        let now = at("2026-01-01T00:00:00Z");
        for good in ["0 3 * * *", "*/5 * * * * *", "0 0 L * *", "0 9 * * MON-FRI", "0 0 1 * +MON"] {
            assert_eq!(check(&cron(good, "UTC"), now), Ok(()), "{good}");
        }
        for (bad, word) in [
            ("", "5 fields"),
            ("0 3 * *", "5 fields"),
            ("0 0 3 * * * 2027", "5 fields"),
            ("@daily", "5 fields"),
            ("61 3 * * *", "61 3 * * *"),
            ("0 25 * * *", "0 25 * * *"),
            ("0/10 * * * *", "0/10"),
            ("0 3 * * FOO", "FOO"),
            ("0 0 30 2 *", "no instant in the next 10 years"),
            ("0 0 31 2,4,6 *", "no instant in the next 10 years"),
        ] {
            let error = check(&cron(bad, "UTC"), now).unwrap_err();
            assert_eq!(error.field, "when.cron.expression", "{bad}");
            assert!(error.problem.contains(word), "{bad}: {}", error.problem);
        }
        for (bad, hint) in [
            ("Europe/Berlln", "did you mean 'Europe/Berlin'"),
            ("europe/berlin", "did you mean 'Europe/Berlin'"),
            ("Berlin", "did you mean 'Europe/Berlin'"),
            ("Mars/Olympus", "Europe/Paris"),
            ("", "Europe/Paris"),
        ] {
            let error = check(&cron("0 3 * * *", bad), now).unwrap_err();
            assert_eq!(error.field, "when.cron.zone", "{bad}");
            assert!(error.problem.contains(hint), "{bad}: {}", error.problem);
        }
    }
}
