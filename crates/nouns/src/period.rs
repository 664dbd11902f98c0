//! Lengths of time as documents have them: `30s`, `15m`, `4h`, `7d`.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A length of time in whole seconds; as text a number and `s`, `m`, `h` or `d`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
#[schemars(with = "String")]
pub struct Period(u32);

/// Seconds of each unit, the longest first.
const UNITS: [(char, u32); 4] = [('d', 86_400), ('h', 3_600), ('m', 60), ('s', 1)];

impl Period {
    /// Of so many seconds.
    pub const fn from_seconds(seconds: u32) -> Period {
        Period(seconds)
    }

    /// As what clocks are compared with.
    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.0))
    }
}

impl TryFrom<String> for Period {
    type Error = String;

    fn try_from(text: String) -> Result<Period, String> {
        let wrong = || format!("'{text}' is no length of time such as 30s, 15m, 4h or 7d");
        let last = text.chars().last().ok_or_else(wrong)?;
        let (_, seconds) = UNITS.into_iter().find(|(unit, _)| *unit == last).ok_or_else(wrong)?;
        let digits = text.strip_suffix(last).unwrap_or_default();
        if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(wrong());
        }
        let number: u32 = digits.parse().map_err(|_| wrong())?;
        number.checked_mul(seconds).map(Period).ok_or_else(wrong)
    }
}

impl From<Period> for String {
    fn from(period: Period) -> String {
        period.to_string()
    }
}

/// In the longest unit of which it is a whole number.
impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole =
            UNITS.into_iter().find(|(_, seconds)| self.0 > 0 && self.0.is_multiple_of(*seconds));
        let (unit, seconds) = whole.unwrap_or(('s', 1));
        write!(f, "{}{unit}", self.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_and_written_in_the_longest_whole_unit() {
        for (text, seconds, written) in [
            ("30s", 30, "30s"),
            ("90s", 90, "90s"),
            ("15m", 900, "15m"),
            ("120m", 7_200, "2h"),
            ("4h", 14_400, "4h"),
            ("7d", 604_800, "7d"),
            ("0s", 0, "0s"),
        ] {
            let period = Period::try_from(text.to_owned()).unwrap();
            assert_eq!(period, Period::from_seconds(seconds), "{text}");
            assert_eq!(period.to_string(), written, "{text}");
        }
        for bad in
            ["", "s", "30", "30 s", "-1s", "+1s", "1.5h", "4H", "1w", "4294967296s", "99999d"]
        {
            assert!(Period::try_from(bad.to_owned()).is_err(), "{bad}");
        }
    }
}
