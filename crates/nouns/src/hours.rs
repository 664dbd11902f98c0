//! Hours of the week: when the rates of a policy are others. Clocks are those of a time zone, so
//! that eight o'clock stays eight o'clock in summer.

use std::fmt;

use jiff::civil::{Time, Weekday};
use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::noun::FieldError;
use crate::rates::{PerDirection, Rates};
use crate::time::Timestamp;

/// A day of the week.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Day {
    pub(crate) const ALL: [Day; 7] =
        [Day::Mon, Day::Tue, Day::Wed, Day::Thu, Day::Fri, Day::Sat, Day::Sun];

    /// As documents spell it.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Day::Mon => "mon",
            Day::Tue => "tue",
            Day::Wed => "wed",
            Day::Thu => "thu",
            Day::Fri => "fri",
            Day::Sat => "sat",
            Day::Sun => "sun",
        }
    }

    pub(crate) fn of(weekday: Weekday) -> Day {
        match weekday {
            Weekday::Monday => Day::Mon,
            Weekday::Tuesday => Day::Tue,
            Weekday::Wednesday => Day::Wed,
            Weekday::Thursday => Day::Thu,
            Weekday::Friday => Day::Fri,
            Weekday::Saturday => Day::Sat,
            Weekday::Sunday => Day::Sun,
        }
    }
}

/// A time of the day to the minute; as text `08:00`. `24:00` is the end of the day.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub struct Clock(u16);

impl Clock {
    pub(crate) const MIDNIGHT: Clock = Clock(0);
    pub(crate) const END: Clock = Clock(24 * 60);

    /// Minutes since midnight; 1440 at the end of the day.
    pub fn minutes(self) -> u16 {
        self.0
    }

    fn of(time: Time) -> Clock {
        Clock(u16::from(time.hour().unsigned_abs()) * 60 + u16::from(time.minute().unsigned_abs()))
    }
}

impl TryFrom<String> for Clock {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let two = |part: &str| match part.len() {
            2 => part.parse::<u16>().ok().filter(|_| part.bytes().all(|b| b.is_ascii_digit())),
            _ => None,
        };
        let parts = text.split_once(':').and_then(|(hour, minute)| two(hour).zip(two(minute)));
        let clock = parts.filter(|(_, minute)| *minute < 60).map(|(h, m)| Clock(h * 60 + m));
        let clock = clock.filter(|clock| *clock <= Clock::END);
        clock.ok_or_else(|| format!("'{text}' is no time of the day from 00:00 to 24:00"))
    }
}

impl From<Clock> for String {
    fn from(clock: Clock) -> String {
        clock.to_string()
    }
}

impl fmt::Display for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}:{:02}", self.0 / 60, self.0 % 60)
    }
}

/// A time zone by its name in the IANA database, such as `Europe/Paris`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct Zone {
    name: String,
    zone: TimeZone,
}

impl TryFrom<String> for Zone {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let zone = TimeZone::get(&name);
        let zone = zone.map_err(|_| {
            format!("'{name}' is no time zone that is known here; write it as in Europe/Paris")
        })?;
        Ok(Zone { name, zone })
    }
}

impl From<Zone> for String {
    fn from(zone: Zone) -> String {
        zone.name
    }
}

impl Default for Zone {
    fn default() -> Self {
        Zone { name: "UTC".to_owned(), zone: TimeZone::UTC }
    }
}

impl Zone {
    fn is_utc(&self) -> bool {
        self.name == "UTC"
    }
}

/// Part of some days of the week.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    days: Vec<Day>,
    from: Clock,
    to: Clock,
    zone: TimeZone,
}

impl Window {
    /// True if `at` lies in it: by the clock on the wall, also when that is put forward or back.
    pub fn contains(&self, at: Timestamp) -> bool {
        // A time beyond what a calendar can show lies in no window.
        let Ok(at) = jiff::Timestamp::from_microsecond(at.micros()) else { return false };
        let wall = self.zone.to_datetime(at);
        let (day, clock) = (wall.date().weekday(), Clock::of(wall.time()));
        let begins_on = |day: Weekday| self.days.is_empty() || self.days.contains(&Day::of(day));
        if self.from < self.to {
            return begins_on(day) && self.from <= clock && clock < self.to;
        }
        // Over midnight: the day is the one on which it began.
        (begins_on(day) && self.from <= clock) || (begins_on(day.previous()) && clock < self.to)
    }
}

/// Rates of a policy that hold in certain hours, in place of those that hold at other times.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hours {
    /// On these days; empty: on all. Hours that go over midnight belong to the day they begin on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub days: Vec<Day>,
    /// From this time of the day on; unset: from its beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Clock>,
    /// Until this time, which does not belong to it; before `from`: of the next day. Unset: until
    /// the end of the day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Clock>,
    /// Whose clocks. Default `UTC`.
    #[serde(default, skip_serializing_if = "Zone::is_utc")]
    pub timezone: Zone,
    /// Bytes a second from the peer to us, each session by itself; unset: the policy's own rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_upload_bytes_per_second: Option<u64>,
    /// Bytes a second from us to the peer, each session by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_download_bytes_per_second: Option<u64>,
    /// Bytes a second from the peer to us, all sessions of the account together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_bytes_per_second: Option<u64>,
    /// Bytes a second from us to the peer, all sessions of the account together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_bytes_per_second: Option<u64>,
    /// Bytes a second from the peer to us, of everything together that the policy is set on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_upload_bytes_per_second: Option<u64>,
    /// Bytes a second from us to the peer, of everything together that the policy is set on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_download_bytes_per_second: Option<u64>,
    /// Bytes a second from the peer to us, of all sites together; on the site `main` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_upload_bytes_per_second: Option<u64>,
    /// Bytes a second from us to the peer, of all sites together; on the site `main` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_download_bytes_per_second: Option<u64>,
}

impl Hours {
    /// When they hold.
    pub fn window(&self) -> Window {
        Window {
            days: self.days.clone(),
            from: self.from.unwrap_or(Clock::MIDNIGHT),
            to: self.to.unwrap_or(Clock::END),
            zone: self.timezone.zone.clone(),
        }
    }

    /// The rates that they set.
    pub fn rates(&self) -> Rates {
        let pair = |upload, download| PerDirection { upload, download };
        Rates {
            session: pair(
                self.session_upload_bytes_per_second,
                self.session_download_bytes_per_second,
            ),
            account: pair(self.upload_bytes_per_second, self.download_bytes_per_second),
            shared: pair(
                self.shared_upload_bytes_per_second,
                self.shared_download_bytes_per_second,
            ),
            global: pair(
                self.global_upload_bytes_per_second,
                self.global_download_bytes_per_second,
            ),
        }
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        let window = self.window();
        if window.from == window.to {
            let problem = "they end when they begin: leave out from and to for the whole day";
            return Err(FieldError::new("hours", problem));
        }
        if window.from == Clock::END {
            return Err(FieldError::new("hours", "no day begins at 24:00: write 00:00"));
        }
        if self.rates() == Rates::default() {
            return Err(FieldError::new("hours", "they set no rate, add one"));
        }
        self.rates().check("hours.")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(json: &str) -> Hours {
        serde_json::from_str(json).unwrap()
    }

    fn holds(hours: &Hours, at: &str) -> bool {
        hours.window().contains(at.parse().unwrap())
    }

    const WORK: &str = r#"{"days": ["mon", "fri"], "from": "08:00", "to": "18:00",
        "timezone": "Europe/Paris", "upload_bytes_per_second": 5000}"#;

    #[test]
    fn hours_are_those_of_their_time_zone_in_summer_and_winter() {
        let work = hours(WORK);
        // 2026-01-05 and 2026-07-06 are Mondays; Paris is one hour ahead in winter, two in summer.
        for (at, held) in [
            ("2026-01-05T06:59:59Z", false),
            ("2026-01-05T07:00:00Z", true),
            ("2026-01-05T16:59:59Z", true),
            ("2026-01-05T17:00:00Z", false),
            ("2026-07-06T05:59:59Z", false),
            ("2026-07-06T06:00:00Z", true),
            ("2026-07-06T16:00:00Z", false),
            ("2026-01-06T10:00:00Z", false),
            ("2026-01-09T10:00:00Z", true),
        ] {
            assert_eq!(holds(&work, at), held, "{at}");
        }
    }

    #[test]
    fn a_clock_that_is_put_forward_or_back_keeps_the_hours_of_the_wall() {
        let night = hours(
            r#"{"from": "02:30", "to": "04:00", "timezone": "Europe/Paris",
                "upload_bytes_per_second": 5000}"#,
        );
        // 2026-03-29: 02:00 becomes 03:00. There is no 02:30; the hours begin at 03:00.
        assert!(!holds(&night, "2026-03-29T00:59:59Z"));
        assert!(holds(&night, "2026-03-29T01:00:00Z"));
        assert!(!holds(&night, "2026-03-29T02:00:00Z"));
        // 2026-10-25: 03:00 becomes 02:00. There are two 02:30, and an hour between.
        for (at, held) in [
            ("2026-10-25T00:29:59Z", false),
            ("2026-10-25T00:30:00Z", true),
            ("2026-10-25T01:00:00Z", false),
            ("2026-10-25T01:30:00Z", true),
            ("2026-10-25T02:59:59Z", true),
            ("2026-10-25T03:00:00Z", false),
        ] {
            assert_eq!(holds(&night, at), held, "{at}");
        }
    }

    #[test]
    fn hours_over_midnight_belong_to_the_day_they_begin_on() {
        let night = hours(
            r#"{"days": ["fri"], "from": "22:00", "to": "06:00", "upload_bytes_per_second": 5000}"#,
        );
        // 2026-01-09 is a Friday.
        for (at, held) in [
            ("2026-01-09T05:00:00Z", false),
            ("2026-01-09T22:00:00Z", true),
            ("2026-01-10T05:59:59Z", true),
            ("2026-01-10T06:00:00Z", false),
            ("2026-01-10T23:00:00Z", false),
        ] {
            assert_eq!(holds(&night, at), held, "{at}");
        }
        let always = hours(r#"{"upload_bytes_per_second": 5000}"#);
        assert!(holds(&always, "2026-01-09T00:00:00Z") && holds(&always, "2026-01-09T23:59:59Z"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_a_sentence() {
        for (json, sentence) in [
            (r#"{"from": "8:00"}"#, "no time of the day"),
            (r#"{"from": "08:60"}"#, "no time of the day"),
            (r#"{"to": "24:01"}"#, "no time of the day"),
            (r#"{"timezone": "Europe/Atlantis"}"#, "no time zone"),
            (r#"{"days": ["monday"]}"#, "unknown variant"),
            (r#"{"rate": 5}"#, "unknown field"),
        ] {
            let refused = serde_json::from_str::<Hours>(json).unwrap_err().to_string();
            assert!(refused.contains(sentence), "{json}: {refused}");
        }
        for (json, sentence) in [
            (
                r#"{"from": "08:00", "to": "08:00", "upload_bytes_per_second": 5000}"#,
                "they end when",
            ),
            (
                r#"{"from": "24:00", "to": "06:00", "upload_bytes_per_second": 5000}"#,
                "no day begins",
            ),
            (r#"{"from": "08:00"}"#, "they set no rate"),
            (r#"{"global_download_bytes_per_second": 5}"#, "hours.global_download"),
        ] {
            let refused = hours(json).check().unwrap_err().to_string();
            assert!(refused.contains(sentence), "{json}: {refused}");
        }
        let work = hours(WORK);
        assert_eq!(work.check(), Ok(()));
        assert_eq!(hours(&serde_json::to_string(&work).unwrap()), work, "the text form goes round");
    }
}
