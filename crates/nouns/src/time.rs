//! Points in time.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Microseconds since 1970-01-01T00:00:00Z (UTC, leap seconds smeared away as POSIX does).
/// In documents and JSON it is RFC 3339 text in UTC; in tables a 64-bit number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// Microseconds since the epoch.
    pub fn micros(self) -> i64 {
        self.0
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(1_000_000)
    }

    /// From whole seconds since the epoch.
    pub fn from_seconds(seconds: i64) -> Self {
        Timestamp(seconds.saturating_mul(1_000_000))
    }

    /// This much later; saturates.
    pub fn plus(self, by: Duration) -> Self {
        Timestamp(self.0.saturating_add(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// This much earlier; saturates.
    pub fn minus(self, by: Duration) -> Self {
        Timestamp(self.0.saturating_sub(i64::try_from(by.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; zero if it lies ahead.
    pub fn since(self, earlier: Timestamp) -> Duration {
        Duration::from_micros(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }
}

impl Timestamp {
    /// Day, time and microseconds in UTC for names of files, which then sort by time:
    /// `20241103-175904-105000`.
    pub fn compact(self) -> String {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => at.strftime("%Y%m%d-%H%M%S-%6f").to_string(),
            Err(_) => self.to_string(),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match jiff::Timestamp::from_microsecond(self.0) {
            Ok(at) => write!(f, "{at:.6}"),
            Err(_) => write!(f, "{}us", self.0),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Timestamp {
    type Err = String;

    /// RFC 3339 with an offset.
    fn from_str(text: &str) -> Result<Self, String> {
        text.parse::<jiff::Timestamp>()
            .map(|at| Timestamp(at.as_microsecond()))
            .map_err(|_| format!("'{text}' is not a time such as 2026-11-21T04:30:00Z"))
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_file_has_day_time_and_microseconds() {
        assert_eq!(Timestamp(1_730_656_744_105_000).compact(), "20241103-175904-105000");
    }

    #[test]
    fn text_form_goes_round() {
        let at = Timestamp(1_763_700_000_123_456);
        assert_eq!(at.to_string().parse::<Timestamp>().unwrap(), at);
        assert_eq!(Timestamp(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
