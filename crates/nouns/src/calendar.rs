//! Calendars: on which days schedules run and files are expected.

use std::collections::BTreeSet;
use std::fmt;

use jiff::civil::Date;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::expect::Days;
use crate::hours::Day;
use crate::limits::CALENDAR_DATES;
use crate::noun::FieldError;

/// The days of a business, which a policy has: `when.cron.calendar` and `when.expect.calendar` of
/// rules name that policy. A day begins and ends by the clock of what asks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Calendar {
    /// The days of the week that belong to it, but for those below: a list of `mon`, `tue`, `wed`,
    /// `thu`, `fri`, `sat` and `sun`, or a text such as `mon-fri`. Unset: all.
    #[serde(default, skip_serializing_if = "Days::is_all")]
    #[schemars(with = "Vec<Day>")]
    pub days: Days,
    /// Days that do not belong to it, such as holidays: `2026-12-25`, or `12-25` of each year.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub except: BTreeSet<CalendarDate>,
    /// Days that belong to it whatever the two above say.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub also: BTreeSet<CalendarDate>,
}

impl Calendar {
    /// Whether this day belongs to it.
    pub fn has(&self, day: Date) -> bool {
        let names = |dates: &BTreeSet<CalendarDate>| {
            dates.contains(&CalendarDate::on(day)) || dates.contains(&CalendarDate::yearly(day))
        };
        names(&self.also) || (self.days.has(day.weekday()) && !names(&self.except))
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        for (field, dates) in [("except", &self.except), ("also", &self.also)] {
            if dates.len() > CALENDAR_DATES {
                let text = format!("at most {CALENDAR_DATES} days");
                return Err(FieldError::new(format!("calendar.{field}"), text));
            }
        }
        if let Some(both) = self.except.intersection(&self.also).next() {
            let text = format!("'{both}' stands in 'except' too");
            return Err(FieldError::new("calendar.also", text));
        }
        if self.days.is_none() && self.also.is_empty() {
            let text = "no day belongs to it: name days of the week, or days in 'also'";
            return Err(FieldError::new("calendar.days", text));
        }
        Ok(())
    }
}

/// A day, or the same day of each year; as text `2026-12-25` or `12-25`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct CalendarDate {
    /// Unset: each year.
    year: Option<i16>,
    month: i8,
    day: i8,
}

/// A year with a 29th of February.
const LEAP_YEAR: i16 = 2000;

impl CalendarDate {
    /// That day alone.
    pub fn on(day: Date) -> CalendarDate {
        CalendarDate { year: Some(day.year()), month: day.month(), day: day.day() }
    }

    /// That day of each year; the 29th of February only of those that have one.
    pub fn yearly(day: Date) -> CalendarDate {
        CalendarDate { year: None, month: day.month(), day: day.day() }
    }
}

impl TryFrom<String> for CalendarDate {
    type Error = String;

    fn try_from(text: String) -> Result<CalendarDate, String> {
        let number = |part: &str, digits: usize| match part.len() {
            len if len == digits && part.bytes().all(|byte| byte.is_ascii_digit()) => {
                part.parse::<i16>().ok()
            }
            _ => None,
        };
        let parts: Vec<&str> = text.split('-').collect();
        let parts = match *parts.as_slice() {
            [month, day] => Some((None, month, day)),
            [year, month, day] => number(year, 4).map(|year| (Some(year), month, day)),
            _ => None,
        };
        let date = parts.and_then(|(year, month, day)| {
            let month = i8::try_from(number(month, 2)?).ok()?;
            let day = i8::try_from(number(day, 2)?).ok()?;
            Date::new(year.unwrap_or(LEAP_YEAR), month, day).ok()?;
            Some(CalendarDate { year, month, day })
        });
        date.ok_or_else(|| {
            format!("'{text}' is no day: write 2026-12-25, or 12-25 for that day of each year")
        })
    }
}

impl From<CalendarDate> for String {
    fn from(date: CalendarDate) -> String {
        date.to_string()
    }
}

impl fmt::Display for CalendarDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CalendarDate { year, month, day } = self;
        match year {
            Some(year) => write!(f, "{year:04}-{month:02}-{day:02}"),
            None => write!(f, "{month:02}-{day:02}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn calendar(json: &serde_json::Value) -> Calendar {
        serde_json::from_value(json.clone()).unwrap()
    }

    #[test]
    fn a_day_belongs_by_its_weekday_but_for_those_that_are_named() {
        let json = json!({
            "days": ["mon", "tue", "wed", "thu", "fri"],
            "except": ["12-25", "2026-04-03"],
            "also": ["2026-12-05", "2027-12-25"],
        });
        let bank = calendar(&json);
        assert_eq!(serde_json::to_value(&bank).unwrap(), json, "in their order");
        for (day, belongs) in [
            ("2026-04-02", true),
            ("2026-04-03", false),
            ("2027-04-02", true),
            ("2026-04-04", false),
            ("2026-12-05", true),
            ("2026-12-12", false),
            ("2026-12-25", false),
            ("2029-12-25", false),
            ("2027-12-25", true),
        ] {
            assert_eq!(bank.has(day.parse().unwrap()), belongs, "{day}");
        }
        assert!(Calendar::default().has("2026-04-04".parse().unwrap()));
        let leap = calendar(&json!({"except": ["02-29"]}));
        assert!(!leap.has("2028-02-29".parse().unwrap()));
        assert!(leap.has("2027-02-28".parse().unwrap()));
    }

    #[test]
    fn what_is_no_day_or_no_calendar_is_named() {
        for bad in ["2026-02-30", "13-01", "12-00", "2026-1-01", "25.12.", "", "26-12-25", "+1-01"]
        {
            let error = CalendarDate::try_from(bad.to_owned()).unwrap_err();
            assert!(error.contains(bad), "{error}");
        }
        for (bad, field) in [
            (json!({"except": ["12-25"], "also": ["12-25"]}), "calendar.also"),
            (json!({"days": []}), "calendar.days"),
        ] {
            assert_eq!(calendar(&bad).check().unwrap_err().field, field);
        }
        assert_eq!(calendar(&json!({"days": [], "also": ["2026-12-31"]})).check(), Ok(()));
    }
}
