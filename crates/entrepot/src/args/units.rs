//! Values of options: sizes, rates, times, words.

use std::net::IpAddr;
use std::time::Duration;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use entrepot_admin::{UnlockTarget, explained};
use entrepot_net::tls::TlsVersion;
use entrepot_nouns::{Env, Kind, Timestamp};

/// Reads a kind of configuration.
pub(super) fn kind() -> impl TypedValueParser<Value = Kind> {
    PossibleValuesParser::new(Kind::ALL.map(Kind::as_str)).try_map(|word| word.parse::<Kind>())
}

/// Reads a word of an enum through its document form.
pub(super) fn word<T: serde::de::DeserializeOwned>(text: &str) -> Result<T, String> {
    let word = serde_json::Value::String(text.to_owned());
    serde_json::from_value(word)
        .map_err(|error| explained(&error.to_string()).replace("unknown variant", "unknown word"))
}

/// Reads `10`, `64K`, `1M`, `2G`.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let (digits, shift) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (text.get(..at), 10),
        Some((at, 'M' | 'm')) => (text.get(..at), 20),
        Some((at, 'G' | 'g')) => (text.get(..at), 30),
        _ => (Some(text), 0),
    };
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number
        .and_then(|number| number.checked_mul(1 << shift))
        .ok_or_else(|| format!("'{text}' is no size such as 64K, 1M or 2G"))
}

/// Reads an address, or the /64 of an IPv6 address.
pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    let address = text.strip_suffix("/64").unwrap_or(text).parse();
    match address {
        Ok(address @ IpAddr::V6(_)) => Ok(address),
        Ok(address @ IpAddr::V4(_)) if !text.contains('/') => Ok(address),
        _ => Err(format!("'{text}' is no address such as 192.0.2.7 or 2001:db8:0:7::/64")),
    }
}

/// Reads an address, else the name of an account.
pub(super) fn unban_target(text: &str) -> Result<UnlockTarget, String> {
    match address(text) {
        Ok(address) => Ok(UnlockTarget::Address(address)),
        Err(_) => text.parse().map(UnlockTarget::Account).map_err(|error| format!("{error}")),
    }
}

/// Reads `50ms` or `50`.
pub(super) fn milliseconds(text: &str) -> Result<std::time::Duration, String> {
    let number = text.strip_suffix("ms").unwrap_or(text).parse();
    number
        .map(std::time::Duration::from_millis)
        .map_err(|_| format!("'{text}' is no round trip such as 50ms"))
}

/// Reads the end of something that begins now: a moment, or a time from now on such as `30d`.
pub(super) fn end(text: &str) -> Result<Timestamp, String> {
    let (digits, seconds) = match text.char_indices().next_back() {
        Some((at, 'm')) => (text.get(..at), 60),
        Some((at, 'h')) => (text.get(..at), 3_600),
        Some((at, 'd')) => (text.get(..at), 86_400),
        Some((at, 'w')) => (text.get(..at), 7 * 86_400),
        _ => return text.parse(),
    };
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number
        .filter(|number| *number > 0)
        .and_then(|number| number.checked_mul(seconds))
        .map(|seconds| Env::real().now().plus(Duration::from_secs(seconds)))
        .ok_or_else(|| format!("'{text}' is no time such as 30d, 12h or 2027-01-01T00:00:00Z"))
}

/// Reads a time such as `90s`, `10m`, `1h`.
pub(super) fn time(text: &str) -> Result<Duration, String> {
    let (digits, seconds) = match text.char_indices().next_back() {
        Some((at, 's')) => (text.get(..at), 1),
        Some((at, 'm')) => (text.get(..at), 60),
        Some((at, 'h')) => (text.get(..at), 3_600),
        _ => (None, 0),
    };
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number
        .filter(|number| *number > 0)
        .and_then(|number| number.checked_mul(seconds))
        .map(Duration::from_secs)
        .ok_or_else(|| format!("'{text}' is no time such as 90s, 10m or 1h"))
}

/// Reads `100M`, `1G`.
pub(super) fn bits(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().next_back() {
        Some((at, 'K' | 'k')) => (text.get(..at), 1_000),
        Some((at, 'M' | 'm')) => (text.get(..at), 1_000_000),
        Some((at, 'G' | 'g')) => (text.get(..at), 1_000_000_000),
        _ => (Some(text), 1),
    };
    let number: Option<u64> = digits.and_then(|digits| digits.parse().ok());
    number
        .filter(|number| *number > 0)
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("'{text}' is no rate such as 100M or 1G"))
}

/// Reads `1.2` or `1.3`.
pub(super) fn tls_version(text: &str) -> Result<TlsVersion, String> {
    match text {
        "1.2" => Ok(TlsVersion::Tls12),
        "1.3" => Ok(TlsVersion::Tls13),
        _ => Err(format!("'{text}' is no version of TLS: give 1.2 or 1.3")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        assert_eq!(bits("1G"), Ok(1_000_000_000));
        assert_eq!(bits("150M"), Ok(150_000_000));
        assert_eq!(milliseconds("50ms"), Ok(std::time::Duration::from_millis(50)));
        assert!(bits("0").is_err() && bits("fast").is_err() && milliseconds("5s").is_err());
    }

    #[test]
    fn addresses() {
        assert_eq!(address("192.0.2.7"), Ok(IpAddr::from([192, 0, 2, 7])));
        assert_eq!(address("2001:db8::/64").unwrap(), address("2001:db8::").unwrap());
        for bad in ["", "acme", "192.0.2.0/24", "192.0.2.7/64", "2001:db8::/48"] {
            assert!(address(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn what_is_unbanned_is_an_address_or_an_account() {
        let address = UnlockTarget::Address(IpAddr::from([192, 0, 2, 7]));
        assert_eq!(unban_target("192.0.2.7"), Ok(address));
        assert_eq!(unban_target("acme"), Ok(UnlockTarget::Account("acme".parse().unwrap())));
        assert!(unban_target("192.0.2.0/24").is_err() && unban_target("a b").is_err());
    }

    #[test]
    fn ends() {
        let hour = end("1h").unwrap().since(Env::real().now());
        assert!(hour <= Duration::from_secs(3_600) && hour > Duration::from_secs(3_500));
        assert!(end("2w").unwrap() > end("13d").unwrap());
        assert_eq!(end("2027-01-01T00:00:00Z").unwrap().seconds(), 1_798_761_600);
        for bad in ["", "0d", "-1d", "d", "5y", "tomorrow", "99999999999999999w"] {
            assert!(end(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn times() {
        assert_eq!(time("90s"), Ok(Duration::from_secs(90)));
        assert_eq!(time("2h"), Ok(Duration::from_secs(7_200)));
        for bad in ["", "0s", "10", "m", "1d", "99999999999999999h"] {
            assert!(time(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn sizes() {
        assert_eq!(size("10"), Ok(10));
        assert_eq!(size("64K"), Ok(65_536));
        assert_eq!(size("2G"), Ok(2 << 30));
        for bad in ["", "K", "1T", "-1", "99999999999G"] {
            assert!(size(bad).is_err(), "{bad:?}");
        }
    }
}
