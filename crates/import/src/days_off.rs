//! Holidays of an iCalendar file (RFC 5545), as a policy's calendar has them.
//!
//! Such files come from governments, banks and exchanges: each holiday is an event of whole days,
//! of one year or of each. What is anything else is left out, and the report says so.

use std::collections::BTreeSet;

use entrepot_nouns::calendar::CalendarDate;
use icalendar::parser::{Component, Property, read_components, unfold};
use jiff::civil::Date;

use crate::report::{Outcome, Report, ReportLine};

/// Longest event that is taken for holidays, in days.
const DAYS: usize = 31;

/// What a file says.
#[derive(Clone, Debug)]
pub struct DaysOff {
    /// The days of its events, of one year each or of all.
    pub days: BTreeSet<CalendarDate>,
    /// A line for each event.
    pub report: Vec<ReportLine>,
}

/// The holidays of an iCalendar file.
///
/// # Errors
/// It is no such file, or is cut; a sentence.
pub fn days_off(text: &str) -> Result<DaysOff, String> {
    let unfolded = unfold(text.trim_start_matches('\u{feff}'));
    let components = read_components(&unfolded)
        .map_err(|error| error.lines().next().unwrap_or("it cannot be read").to_owned())?;
    let mut events = Vec::new();
    collect(&components, &mut events);
    // The parser stops where it cannot go on, and says nothing of what follows.
    let begun = unfolded.lines().filter(|line| is_begin(line)).count();
    if begun == 0 {
        return Err("it has no event: is it an iCalendar file?".to_owned());
    }
    if events.len() != begun {
        let (read, line) = (events.len(), "BEGIN:VEVENT");
        return Err(format!("only {read} of {begun} events could be read: a '{line}' has no end"));
    }
    let (mut days, mut report) = (BTreeSet::new(), Report::default());
    for event in events {
        let what = value(event, "SUMMARY").unwrap_or("an event").to_owned();
        let place = value(event, "DTSTART").unwrap_or("no begin").to_owned();
        match days_of(event) {
            Ok(found) => {
                let known = found.iter().all(|day| days.contains(day));
                let outcome = if known { Outcome::AlreadyThere } else { Outcome::Taken };
                let names: Vec<String> = found.iter().map(ToString::to_string).collect();
                report.add(outcome, place, what, names.join(", "));
                days.extend(found);
            }
            Err(why) => report.refused(place, what, why),
        }
    }
    Ok(DaysOff { days, report: report.lines })
}

fn is_begin(line: &str) -> bool {
    line.trim_end().eq_ignore_ascii_case("BEGIN:VEVENT")
}

fn collect<'c>(components: &'c [Component<'c>], events: &mut Vec<&'c Component<'c>>) {
    for component in components {
        if component.name.as_str().eq_ignore_ascii_case("VEVENT") {
            events.push(component);
        }
        collect(&component.components, events);
    }
}

fn property<'c>(event: &'c Component<'c>, name: &str) -> Option<&'c Property<'c>> {
    event.properties.iter().find(|it| it.name.as_str().eq_ignore_ascii_case(name))
}

fn value<'c>(event: &'c Component<'c>, name: &str) -> Option<&'c str> {
    property(event, name).map(|property| property.val.as_str().trim())
}

/// The days of an event, or why it is not one of holidays.
fn days_of(event: &Component<'_>) -> Result<Vec<CalendarDate>, String> {
    if value(event, "STATUS").is_some_and(|status| status.eq_ignore_ascii_case("CANCELLED")) {
        return Err("it is cancelled".to_owned());
    }
    let begins = value(event, "DTSTART").ok_or("it has no DTSTART")?;
    let first = date(begins).ok_or("it is not of whole days")?;
    let last = match (value(event, "DTEND"), value(event, "DURATION")) {
        (Some(ends), _) => {
            let after = date(ends).ok_or_else(|| format!("'{ends}' is no day"))?;
            // A DTEND on the first day, which RFC 5545 §3.6.1 forbids, means that day.
            if after > first { after.yesterday().map_err(|_| "it has no end")? } else { first }
        }
        (None, Some(duration)) => last_of(first, duration)?,
        (None, None) => first,
    };
    let days: Vec<Date> = first.series(jiff::Span::new().days(1)).take(DAYS + 1).collect();
    let days: Vec<Date> = days.into_iter().take_while(|day| *day <= last).collect();
    if days.len() > DAYS {
        return Err(format!("it is longer than {DAYS} days"));
    }
    if ["RDATE", "EXDATE", "EXRULE"].iter().any(|name| property(event, name).is_some()) {
        return Err("it repeats on days of its own: add them by hand".to_owned());
    }
    let Some(rule) = value(event, "RRULE") else {
        return Ok(days.into_iter().map(CalendarDate::on).collect());
    };
    if is_each_year(rule, first) {
        return Ok(days.into_iter().map(CalendarDate::yearly).collect());
    }
    Err(format!(
        "it repeats by '{rule}', and not on the same day of each year: add its days by hand"
    ))
}

/// The last day of so many days or weeks (RFC 5545 §3.3.6).
fn last_of(first: Date, duration: &str) -> Result<Date, String> {
    let wrong = || format!("its duration is '{duration}', which is not of whole days");
    let (count, factor) = match duration.strip_prefix('P') {
        Some(rest) if rest.ends_with('D') => (rest.trim_end_matches('D'), 1),
        Some(rest) if rest.ends_with('W') => (rest.trim_end_matches('W'), 7),
        _ => return Err(wrong()),
    };
    let days = count.parse::<u16>().ok().filter(|count| (1..=400).contains(count));
    let days = days.ok_or_else(wrong)? * factor;
    first.checked_add(jiff::Span::new().days(i64::from(days) - 1)).map_err(|_| wrong())
}

/// Whether a rule (RFC 5545 §3.3.10) means the same day of each year, with no end.
fn is_each_year(rule: &str, first: Date) -> bool {
    let (month, day) = (first.month().to_string(), first.day().to_string());
    let mut is_yearly = false;
    for part in rule.split(';') {
        let (key, value) = part.split_once('=').unwrap_or((part, ""));
        match (key.to_ascii_uppercase().as_str(), value) {
            ("FREQ", _) => is_yearly = value.eq_ignore_ascii_case("YEARLY"),
            ("INTERVAL", "1") | ("WKST", _) => {}
            ("BYMONTH", _) if value.trim_start_matches('0') == month => {}
            ("BYMONTHDAY", _) if value.trim_start_matches('0') == day => {}
            _ => return false,
        }
    }
    is_yearly
}

/// A whole day, such as `20261225`.
fn date(text: &str) -> Option<Date> {
    let digits = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = |from: usize, to: usize| text.get(from..to)?.parse::<i16>().ok();
    if !digits {
        return None;
    }
    let (month, day) = (i8::try_from(number(4, 6)?).ok()?, i8::try_from(number(6, 8)?).ok()?);
    Date::new(number(0, 4)?, month, day).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(events: &[&str]) -> String {
        let events: String = events
            .iter()
            .map(|event| format!("BEGIN:VEVENT\r\nUID:1\r\n{event}\r\nEND:VEVENT\r\n"))
            .collect();
        format!("BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//y//EN\r\n{events}END:VCALENDAR\r\n")
    }

    fn days(event: &str) -> Result<String, String> {
        let found = days_off(&file(&[event])).unwrap();
        let line = &found.report[0];
        if line.outcome == Outcome::NotTaken { Err(line.why.clone()) } else { Ok(line.why.clone()) }
    }

    #[test]
    fn events_of_whole_days_are_holidays_of_one_year_or_of_each() {
        let date = |text: &str| format!("DTSTART;VALUE=DATE:{text}");
        for (event, wanted) in [
            (date("20260403"), "2026-04-03"),
            (format!("{}\r\nDTEND;VALUE=DATE:20260404", date("20260403")), "2026-04-03"),
            (format!("{}\r\nDTEND;VALUE=DATE:20260403", date("20260403")), "2026-04-03"),
            (
                format!("{}\r\nDTEND;VALUE=DATE:20270102", date("20261231")),
                "2026-12-31, 2027-01-01",
            ),
            (format!("{}\r\nDURATION:P2D", date("20261224")), "2026-12-24, 2026-12-25"),
            (format!("{}\r\nRRULE:FREQ=YEARLY", date("20201225")), "12-25"),
            (format!("{}\r\nRRULE:FREQ=YEARLY;BYMONTH=05;BYMONTHDAY=1", date("20200501")), "05-01"),
            (format!("SUMMARY:Neujahr\\, frei\r\n{}", date("20270101")), "2027-01-01"),
        ] {
            assert_eq!(days(&event).as_deref(), Ok(wanted), "{event}");
        }
        for (event, why) in [
            ("DTSTART:20260403T090000Z".to_owned(), "not of whole days"),
            ("SUMMARY:x".to_owned(), "no DTSTART"),
            (date("20260230"), "not of whole days"),
            (format!("{}\r\nSTATUS:CANCELLED", date("20260403")), "cancelled"),
            (format!("{}\r\nRRULE:FREQ=WEEKLY", date("20260403")), "FREQ=WEEKLY"),
            (format!("{}\r\nRRULE:FREQ=YEARLY;BYDAY=1MO", date("20260504")), "BYDAY"),
            (format!("{}\r\nRRULE:FREQ=YEARLY;COUNT=3", date("20260504")), "COUNT"),
            (format!("{}\r\nRDATE;VALUE=DATE:20260505", date("20260504")), "of its own"),
            (format!("{}\r\nDTEND;VALUE=DATE:20270403", date("20260403")), "longer than"),
            (format!("{}\r\nDURATION:PT3H", date("20260403")), "PT3H"),
        ] {
            assert!(days(&event).unwrap_err().contains(why), "{event}: {:?}", days(&event));
        }
    }

    #[test]
    fn what_is_no_such_file_or_is_cut_is_refused() {
        let whole = file(&["DTSTART;VALUE=DATE:20260403", "DTSTART;VALUE=DATE:20260406"]);
        assert_eq!(days_off(&whole).unwrap().days.len(), 2);
        assert_eq!(days_off(&format!("\u{feff}{whole}")).unwrap().days.len(), 2);
        let folded = whole.replace("VALUE=DATE", "VALUE=D\r\n ATE");
        assert_eq!(days_off(&folded).unwrap().days.len(), 2);
        let cut = whole.len() - "END:VEVENT\r\nEND:VCALENDAR\r\n".len();
        for bad in
            ["", "hello", "name: bank", "BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n", &whole[..cut]]
        {
            assert!(days_off(bad).is_err(), "{bad}");
        }
    }
}
