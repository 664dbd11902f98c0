//! Points in time as FTP writes them (RFC 3659 §2.3): UTC, no clock of our own.

/// Seconds since 1970 in UTC, with a fraction that is parsed and kept but never printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Time {
    /// Whole seconds since 1970-01-01T00:00:00Z.
    pub seconds: i64,
    /// Nanoseconds above them.
    pub nanos: u32,
}

/// The fields of a date in the proleptic Gregorian calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// 1 to 9999 for what was parsed.
    pub year: i64,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59; 60 is parsed as the next second.
    pub second: u32,
}

/// English names, as `ls` and every client that reads it want them.
pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

const DAY_SECONDS: i64 = 86_400;

impl Civil {
    /// The seconds since 1970, or `None` if there is no such date.
    pub fn seconds(self) -> Option<i64> {
        let valid = (1..=9999).contains(&self.year)
            && (1..=days_in(self.year, self.month)?).contains(&self.day)
            && self.hour < 24
            && self.minute < 60
            && self.second <= 60;
        let clock = i64::from(self.hour) * 3600 + i64::from(self.minute) * 60;
        valid.then(|| self.days() * DAY_SECONDS + clock + i64::from(self.second))
    }

    /// Days since 1970-01-01 (Howard Hinnant's `days_from_civil`).
    fn days(self) -> i64 {
        let year = if self.month <= 2 { self.year - 1 } else { self.year };
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let month = i64::from((self.month + 9) % 12);
        let of_year = (153 * month + 2) / 5 + i64::from(self.day) - 1;
        era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
    }
}

fn days_in(year: i64, month: u32) -> Option<u32> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    Some(match month {
        1 | 3 | 5 | 7 | 8 | 10 | 12 => 31,
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        _ => return None,
    })
}

impl Time {
    /// A time without a fraction.
    pub const fn from_seconds(seconds: i64) -> Time {
        Time { seconds, nanos: 0 }
    }

    /// The date; years beyond four digits are cut to 9999.
    pub fn civil(self) -> Civil {
        let days = self.seconds.div_euclid(DAY_SECONDS).clamp(-719_162, 2_932_896);
        let clock = u32::try_from(self.seconds.rem_euclid(DAY_SECONDS)).unwrap_or(0);
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let of_era = shifted.rem_euclid(146_097);
        let years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
        let of_year = of_era - (365 * years + years / 4 - years / 100);
        let month = (5 * of_year + 2) / 153;
        let day = u32::try_from(of_year - (153 * month + 2) / 5 + 1).unwrap_or(1);
        let month = u32::try_from(if month < 10 { month + 3 } else { month - 9 }).unwrap_or(1);
        let year = years + era * 400 + i64::from(month <= 2);
        Civil { year, month, day, hour: clock / 3600, minute: clock / 60 % 60, second: clock % 60 }
    }

    /// A time-val: 14 digits and an optional fraction. `None` for what is no date.
    pub fn parse(text: &str) -> Option<Time> {
        let (whole, fraction) = match text.split_once('.') {
            Some((whole, fraction)) => (whole, Some(fraction)),
            None => (text, None),
        };
        let nanos = match fraction {
            Some(digits) => nanos(digits)?,
            None => 0,
        };
        (whole.len() == 14).then(|| Time::digits(whole, nanos)).flatten()
    }

    /// The short form of `SITE UTIME`: 12 digits without seconds, or 14.
    pub fn parse_short(text: &str) -> Option<Time> {
        match text.len() {
            12 => Time::digits(&format!("{text}00"), 0),
            _ => Time::parse(text),
        }
    }

    fn digits(text: &str, nanos: u32) -> Option<Time> {
        if !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let field = |from: usize, to: usize| text.get(from..to)?.parse::<u32>().ok();
        let civil = Civil {
            year: i64::from(field(0, 4)?),
            month: field(4, 6)?,
            day: field(6, 8)?,
            hour: field(8, 10)?,
            minute: field(10, 12)?,
            second: field(12, 14)?,
        };
        Some(Time { seconds: civil.seconds()?, nanos })
    }

    /// The 14 digits.
    pub fn digits_14(self) -> String {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        format!("{year:04}{month:02}{day:02}{hour:02}{minute:02}{second:02}")
    }
}

fn nanos(digits: &str) -> Option<u32> {
    let valid = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let nine: String = digits.chars().chain("000000000".chars()).take(9).collect();
    if valid { nine.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_that_do_not_exist_are_refused() {
        for text in [
            "20260230000000",
            "20261301000000",
            "20260001000000",
            "20260100000000",
            "20260101240000",
            "20260101006000",
            "20260101000061",
            "00000101000000",
            "2026010100000",
            "202601010000000",
            "20260101000000.",
            "20260101000000.1x",
            "+0260101000000",
            "2026 101000000",
            "",
        ] {
            assert_eq!(Time::parse(text), None, "{text}");
        }
        assert_eq!(Time::parse("20240229000000").unwrap().seconds, 1_709_164_800);
        assert_eq!(Time::parse("19700101000000.5").unwrap().nanos, 500_000_000);
        assert_eq!(Time::parse_short("202611210345").unwrap().digits_14(), "20261121034500");
        assert_eq!(Time::from_seconds(i64::MAX).digits_14().len(), 14);
        assert_eq!(Time::from_seconds(i64::MIN).digits_14().len(), 14);
    }

    proptest! {
        #[test]
        fn what_is_printed_is_parsed(seconds in -62_135_596_800i64..253_402_300_800) {
            let time = Time::from_seconds(seconds);
            prop_assert_eq!(Time::parse(&time.digits_14()), Some(time));
        }
    }
}
