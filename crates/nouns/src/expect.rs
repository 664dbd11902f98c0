//! Rules that start when a file should have come by now and has not.

use std::fmt;

use jiff::civil::Weekday;
use regex::Regex;
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::hours::{Clock, Day};
use crate::limits::{EXPECT_ACCOUNTS, EXPECT_FILES, FILE_PATTERN_BYTES, FILE_PATTERNS};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Reference};
use crate::period::Period;
use crate::watch::glob;

/// Files that should come in a window of each day. A rule starts when fewer have come by its end,
/// and when they come later, or when more come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Which files count: `/in/PAY*.csv` is compared with the whole path, a pattern without a
    /// slash with the name. `*` stands for any letters but the slash, `**` for any at all, `?` for
    /// one.
    #[serde(rename = "match")]
    pub matching: Vec<PathPattern>,
    /// Count files that rules fetch from this endpoint or deliver to it, by their path there;
    /// unset: files that accounts upload, by their path as the account sees it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<Name>,
    /// Count uploads of these accounts alone; empty: of all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub accounts: Vec<Name>,
    /// The end of the window, such as `18:00`: the files should have come before. At or before
    /// `from`: on the next day.
    pub by: Clock,
    /// The begin of the window.
    #[serde(default = "midnight", skip_serializing_if = "is_midnight")]
    pub from: Clock,
    /// The days on which a window begins: a list of `mon`, `tue`, `wed`, `thu`, `fri`, `sat` and
    /// `sun`, or a text such as `mon-fri`. Unset: all.
    #[serde(default, skip_serializing_if = "Days::is_all")]
    #[schemars(with = "Vec<Day>")]
    pub days: Days,
    /// The policy with the calendar of the days on which a window begins: those that are in both.
    /// Unset: no other days are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Name>,
    /// The time zone of these times, such as `Europe/Berlin`.
    #[serde(default = "utc", skip_serializing_if = "is_utc")]
    pub zone: String,
    /// How many files should come in a window.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u32,
    /// Warn so long before the end if fewer have come by then. As text: `30m`, `2h`. Unset: do not
    /// warn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warn: Option<Period>,
}

const MINUTES_OF_A_DAY: u16 = 24 * 60;

const fn midnight() -> Clock {
    Clock::MIDNIGHT
}

fn utc() -> String {
    "UTC".to_owned()
}

const fn one() -> u32 {
    1
}

// The signatures are what serde's `skip_serializing_if` asks for.
fn is_midnight(from: &Clock) -> bool {
    *from == midnight()
}

fn is_utc(zone: &str) -> bool {
    zone == "UTC"
}

fn is_one(count: &u32) -> bool {
    *count == one()
}

impl Expect {
    /// How long a window is, on a day of 24 hours.
    fn minutes(&self) -> u16 {
        let (from, by) = (self.from.minutes(), self.by.minutes());
        if by > from { by - from } else { MINUTES_OF_A_DAY - from + by }
    }

    /// Whether a file of this path counts.
    pub fn matches(&self, path: &str) -> bool {
        self.matching.iter().any(|pattern| pattern.fits(path))
    }

    pub(crate) fn references(&self) -> Vec<Reference> {
        let endpoint = self.endpoint.iter();
        let endpoint =
            endpoint.map(|name| Reference::new("when.expect.endpoint", Kind::Endpoint, name));
        let accounts = self.accounts.iter().enumerate();
        let accounts = accounts.map(|(at, name)| {
            Reference::new(format!("when.expect.accounts.{at}"), Kind::Account, name)
        });
        let calendar = self.calendar.iter();
        let calendar =
            calendar.map(|name| Reference::new("when.expect.calendar", Kind::Policy, name));
        endpoint.chain(accounts).chain(calendar).collect()
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let flaw =
            |field: &str, text: String| Err(FieldError::new(format!("when.expect.{field}"), text));
        if self.matching.is_empty() || self.matching.len() > FILE_PATTERNS {
            return flaw("match", format!("name 1 to {FILE_PATTERNS} patterns"));
        }
        if self.accounts.len() > EXPECT_ACCOUNTS {
            return flaw("accounts", format!("at most {EXPECT_ACCOUNTS}"));
        }
        if self.endpoint.is_some() && !self.accounts.is_empty() {
            let text = "goes with uploads alone: take it out, or 'endpoint'";
            return flaw("accounts", text.to_owned());
        }
        if self.from == Clock::END {
            return flaw("from", "no day begins at 24:00: write 00:00".to_owned());
        }
        if self.days.is_none() {
            return flaw("days", "name at least one day, or leave it out".to_owned());
        }
        if !(1..=EXPECT_FILES).contains(&self.count) {
            return flaw("count", format!("from 1 to {EXPECT_FILES}"));
        }
        if let Some(warn) = self.warn {
            let longest = Period::from_seconds(u32::from(self.minutes()) * 60);
            if warn < Period::from_seconds(1) || warn >= longest {
                let text = format!("from 1s to less than the window, which is {longest} long");
                return flaw("warn", text);
            }
        }
        Ok(())
    }
}

/// Days of the week, in their order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Days(Vec<Day>);

impl Default for Days {
    fn default() -> Days {
        Days(Day::ALL.to_vec())
    }
}

impl Days {
    pub(crate) fn is_all(&self) -> bool {
        self.0.len() == Day::ALL.len()
    }

    pub(crate) fn is_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether this day is one of them.
    pub fn has(&self, day: Weekday) -> bool {
        self.0.contains(&Day::of(day))
    }

    fn of(is: impl Fn(Day) -> bool) -> Days {
        Days(Day::ALL.into_iter().filter(|day| is(*day)).collect())
    }
}

/// `mon-fri`, `mon,wed`, `fri-mon`.
impl TryFrom<&str> for Days {
    type Error = String;

    fn try_from(text: &str) -> Result<Days, String> {
        let place = |word: &str| {
            let word = word.trim();
            let found = Day::ALL.iter().position(|day| day.as_str().eq_ignore_ascii_case(word));
            found.ok_or_else(|| format!("'{word}' is no day: mon, tue, wed, thu, fri, sat, sun"))
        };
        let mut places = [false; 7];
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (place(first)?, place(last)?);
            for (at, named) in places.iter_mut().enumerate() {
                let inside = if first <= last {
                    first <= at && at <= last
                } else {
                    first <= at || at <= last
                };
                *named |= inside;
            }
        }
        let named = Day::ALL.into_iter().zip(places).filter(|(_, named)| *named);
        Ok(Days(named.map(|(day, _)| day).collect()))
    }
}

impl<'de> Deserialize<'de> for Days {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Days, D::Error> {
        deserializer.deserialize_any(EitherForm)
    }
}

/// Reads a list or a text. An untagged enum would not say what is wrong in it.
struct EitherForm;

impl<'de> Visitor<'de> for EitherForm {
    type Value = Days;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("days such as 'mon-fri', or a list of days")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Days, E> {
        Days::try_from(text).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Days, A::Error> {
        let days = Vec::<Day>::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(Days::of(|day| days.contains(&day)))
    }
}

/// A pattern for paths: `/in/PAY*.csv` fits whole paths, `PAY*.csv` names.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct PathPattern {
    text: String,
    regex: Regex,
}

impl PartialEq for PathPattern {
    fn eq(&self, other: &PathPattern) -> bool {
        self.text == other.text
    }
}

impl Eq for PathPattern {}

impl TryFrom<String> for PathPattern {
    type Error = String;

    fn try_from(text: String) -> Result<PathPattern, String> {
        if text.is_empty() || text.len() > FILE_PATTERN_BYTES {
            return Err(format!("a pattern has 1 to {FILE_PATTERN_BYTES} bytes"));
        }
        if text.contains('/') && !text.starts_with('/') {
            return Err(format!("'{text}' is no whole path: begin it with '/'"));
        }
        let regex = glob(&text)?;
        Ok(PathPattern { text, regex })
    }
}

impl From<PathPattern> for String {
    fn from(pattern: PathPattern) -> String {
        pattern.text
    }
}

impl PathPattern {
    /// Whether it fits the file at this path. In linear time, whatever files are called.
    fn fits(&self, path: &str) -> bool {
        let name = path.rsplit('/').next().unwrap_or(path);
        self.regex.is_match(if self.text.starts_with('/') { path } else { name })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn expect(more: Value) -> Result<Expect, String> {
        let mut fields = json!({"match": ["/in/PAY*.csv"], "by": "18:00"});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(fields).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_left_out_has_its_default_and_is_not_written() {
        let plain = expect(json!({})).unwrap();
        assert_eq!(plain.check(), Ok(()));
        assert_eq!((plain.count, plain.warn, plain.zone.as_str()), (1, None, "UTC"));
        assert!(Day::ALL.len() == 7 && plain.days.is_all());
        let written = serde_json::to_value(&plain).unwrap();
        assert_eq!(written, json!({"match": ["/in/PAY*.csv"], "by": "18:00"}));
        let all = json!({
            "match": ["/in/*"], "accounts": ["acme"], "by": "02:00", "from": "22:00",
            "days": ["mon", "sat"], "zone": "Europe/Berlin", "count": 3, "warn": "30m",
        });
        let read = expect(all.clone()).unwrap();
        assert_eq!(read.check(), Ok(()));
        assert_eq!(serde_json::to_value(&read).unwrap(), all);
    }

    #[test]
    fn days_are_a_list_or_a_text() {
        for (text, days) in [
            ("mon-fri", json!(["mon", "tue", "wed", "thu", "fri"])),
            ("sat,sun", json!(["sat", "sun"])),
            ("fri-mon", json!(["mon", "fri", "sat", "sun"])),
            ("Tue, Mon-Mon", json!(["mon", "tue"])),
        ] {
            let read = expect(json!({"days": text})).unwrap();
            assert_eq!(serde_json::to_value(&read.days).unwrap(), days, "{text}");
            assert_eq!(expect(json!({"days": days})).unwrap(), read);
        }
        assert!(expect(json!({"days": "mon-sun"})).unwrap().days.is_all());
        for bad in [json!("mon-"), json!(""), json!("1-5"), json!(["monday"]), json!(3)] {
            assert!(expect(json!({"days": bad})).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pattern_fits_whole_paths_or_names() {
        let of = |pattern: &str| expect(json!({"match": [pattern]})).unwrap();
        for (pattern, path, fits) in [
            ("/in/PAY*.csv", "/in/PAY1.csv", true),
            ("/in/PAY*.csv", "/in/PAY/1.csv", false),
            ("/in/PAY*.csv", "/other/in/PAY1.csv", false),
            ("/in/**", "/in/a/b", true),
            ("PAY?.csv", "/any/where/PAY1.csv", true),
            ("PAY?.csv", "/PAY1.csv/other", false),
        ] {
            assert_eq!(of(pattern).matches(path), fits, "{pattern} {path}");
        }
    }

    #[test]
    fn what_cannot_be_expected_is_named_by_its_field() {
        for (bad, field) in [
            (json!({"match": []}), "match"),
            (json!({"endpoint": "bank", "accounts": ["acme"]}), "accounts"),
            (json!({"from": "24:00"}), "from"),
            (json!({"days": []}), "days"),
            (json!({"count": 0}), "count"),
            (json!({"warn": "0s"}), "warn"),
            (json!({"warn": "18h"}), "warn"),
            (json!({"from": "23:00", "by": "01:00", "warn": "2h"}), "warn"),
        ] {
            let error = expect(bad.clone()).unwrap().check().unwrap_err();
            assert_eq!(error.field, format!("when.expect.{field}"), "{bad}");
        }
        for good in [
            json!({"from": "23:00", "by": "01:00", "warn": "119m"}),
            json!({"from": "06:00", "by": "06:00"}),
            json!({"by": "24:00"}),
            json!({"endpoint": "bank"}),
        ] {
            assert_eq!(expect(good.clone()).unwrap().check(), Ok(()), "{good}");
        }
        for bad in [
            json!({"match": ["in/PAY*.csv"]}),
            json!({"match": [""]}),
            json!({"by": "25:00"}),
            json!({"by": "8:00"}),
            json!({"warn": "soon"}),
            json!({"calendars": "bank"}),
        ] {
            assert!(expect(bad.clone()).is_err(), "{bad} was taken");
        }
    }
}
