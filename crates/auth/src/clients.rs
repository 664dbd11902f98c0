//! How old a client is, by its identification line (RFC 4253 §4.2), such as
//! `SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u7`. A client can lie; this is for old ones, not bad ones.

use std::cmp::Ordering;

use entrepot_ssh::wire;

/// The entry of `least` that a client is older than; `None`: it is of that age or newer, of no name
/// in the list, or says no version.
pub(crate) fn too_old<'a>(client: &str, least: &'a [String]) -> Option<&'a str> {
    let (name, version) = parts(wire::software(client));
    let older = |asked: &&String| {
        let (asked_name, asked_version) = parts(asked);
        name.eq_ignore_ascii_case(asked_name)
            && !version.is_empty()
            && compare(version, asked_version) == Ordering::Less
    };
    least.iter().find(older).map(String::as_str)
}

/// `OpenSSH_` and `9.2p1`.
fn parts(software: &str) -> (&str, &str) {
    let software = software.split_whitespace().next().unwrap_or_default();
    let digit = software.find(|letter: char| letter.is_ascii_digit()).unwrap_or(software.len());
    software.split_at(digit)
}

/// By their numbers, whatever stands between them: 9.10 is newer than 9.9, 9.2p1 than 9.2.
fn compare(one: &str, other: &str) -> Ordering {
    fn numbers(version: &str) -> impl Iterator<Item = u64> {
        let digits = version.split(|letter: char| !letter.is_ascii_digit());
        digits.filter(|part| !part.is_empty()).map(|part| part.parse().unwrap_or(u64::MAX))
    }
    numbers(one).cmp(numbers(other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_by_their_numbers_and_only_of_the_same_name() {
        let least = ["OpenSSH_7.4".to_owned(), "WinSCP_release_5.9".to_owned()];
        for (client, older_than) in [
            ("SSH-2.0-OpenSSH_6.6.1p1 Ubuntu-2ubuntu2", Some("OpenSSH_7.4")),
            ("SSH-2.0-OpenSSH_7.4", None),
            ("SSH-2.0-OpenSSH_7.4p1", None),
            ("SSH-2.0-OpenSSH_10.0", None),
            ("SSH-2.0-openssh_7.3", Some("OpenSSH_7.4")),
            ("SSH-2.0-OpenSSH", None),
            ("SSH-2.0-OpenSSH_for_Windows_7.1", None),
            ("SSH-2.0-WinSCP_release_5.8.3", Some("WinSCP_release_5.9")),
            ("SSH-2.0-WinSCP_release_5.17.10", None),
            ("SSH-2.0-libssh2_1.4.0", None),
            ("SSH-2.0-OpenSSH_99999999999999999999999", None),
            ("", None),
        ] {
            assert_eq!(too_old(client, &least), older_than, "{client}");
        }
    }
}
