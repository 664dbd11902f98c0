//! Policies as they hold: of several the first that sets a field, else the default.

use std::net::IpAddr;

use entrepot_nouns::ftp::TlsReuse;
use entrepot_nouns::login::LoginCheck;
use entrepot_nouns::{AlgorithmPreset, LegacyAlgorithm, Policy, Timestamp};
use ipnet::IpNet;

use crate::limits::DIGEST_BYTES_PER_HOUR;
use crate::rates::{SharedRates, TimedRates};

/// Why an address is refused by the policy of a listener.
pub(crate) const NOT_HERE: &str = "the listener does not admit this address";

/// Limits with every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct EffectivePolicy {
    /// Networks that may connect; empty: all.
    pub allow: Vec<IpNet>,
    /// Networks that may not.
    pub deny: Vec<IpNet>,
    /// Most sessions at a time.
    pub sessions: u32,
    /// Seconds without a request before the end.
    pub idle_seconds: u32,
    /// Most transfers at a time.
    pub transfers: u32,
    /// Bytes a second that running transfers must move; none: no limit.
    pub least_bytes_per_second: Option<u64>,
    /// How fast one session may go.
    pub session_rates: TimedRates,
    /// How fast all sessions of the account may go together.
    pub account_rates: TimedRates,
    /// Wrong passwords of an address within an hour.
    pub address_failures: u32,
    /// Wrong passwords for the account within a day, from addresses it never came from.
    pub account_failures: u32,
    /// Days that an API token is valid which is made without an end.
    pub api_token_days: u32,
    /// Minutes without a request before a browser is signed out.
    pub sign_in_idle_minutes: u32,
    /// Hours after which a browser is signed out.
    pub sign_in_hours: u32,
    /// Days that an unfinished upload is kept.
    pub partial_days: u32,
    /// Name endings of files still being written.
    pub temporary_names: Vec<String>,
    /// Whether data connections must resume TLS; none: what the listener says.
    pub tls_reuse: Option<TlsReuse>,
    /// Uploads over FTP are as long as announced, or refused.
    pub strict_size: bool,
    /// Bytes that may be digested within an hour.
    pub digest_bytes_per_hour: u64,
    /// SSH algorithms of a listener.
    pub algorithms: AlgorithmPreset,
    /// Weak ones besides.
    pub legacy_algorithms: Vec<LegacyAlgorithm>,
    /// Oldest versions of SSH clients that a listener admits, such as `OpenSSH_7.4`; a client that
    /// none of them names is admitted in any version.
    pub least_clients: Vec<String>,
}

/// What a listener asks of those who log in by it.
#[derive(Debug)]
pub(crate) struct ListenerPolicy {
    pub(crate) own: EffectivePolicy,
    pub(crate) shared: SharedRates,
    /// The login hook for names without a password here.
    pub(crate) check: Option<LoginCheck>,
}

impl Default for EffectivePolicy {
    fn default() -> Self {
        EffectivePolicy {
            allow: Vec::new(),
            deny: Vec::new(),
            sessions: 1000,
            idle_seconds: 900,
            transfers: 10_000,
            least_bytes_per_second: None,
            session_rates: TimedRates::default(),
            account_rates: TimedRates::default(),
            address_failures: 20,
            account_failures: 100,
            api_token_days: 90,
            sign_in_idle_minutes: 30,
            sign_in_hours: 12,
            partial_days: 7,
            temporary_names: [".filepart", ".partial", ".part", ".tmp"].map(str::to_owned).to_vec(),
            tls_reuse: None,
            strict_size: false,
            digest_bytes_per_hour: DIGEST_BYTES_PER_HOUR,
            algorithms: AlgorithmPreset::default(),
            legacy_algorithms: Vec::new(),
            least_clients: Vec::new(),
        }
    }
}

/// The first list that is not empty.
fn first_set<T: Clone>(policies: &[Policy], pick: fn(&Policy) -> &Vec<T>) -> Vec<T> {
    policies.iter().map(pick).find(|list| !list.is_empty()).cloned().unwrap_or_default()
}

impl EffectivePolicy {
    /// Field by field the first of `policies` that sets it, else the default.
    pub fn resolve(policies: &[Policy]) -> Self {
        let default = EffectivePolicy::default();
        let number = |pick: fn(&Policy) -> Option<u32>| policies.iter().find_map(pick);
        EffectivePolicy {
            allow: first_set(policies, |policy| &policy.allow),
            deny: first_set(policies, |policy| &policy.deny),
            sessions: number(|policy| policy.sessions).unwrap_or(default.sessions),
            idle_seconds: number(|policy| policy.idle_seconds).unwrap_or(default.idle_seconds),
            transfers: number(|policy| policy.transfers).unwrap_or(default.transfers),
            least_bytes_per_second: policies
                .iter()
                .find_map(|policy| policy.least_bytes_per_second),
            session_rates: TimedRates::of(policies, |rates| rates.session),
            account_rates: TimedRates::of(policies, |rates| rates.account),
            address_failures: number(|policy| policy.address_failures)
                .unwrap_or(default.address_failures),
            account_failures: number(|policy| policy.account_failures)
                .unwrap_or(default.account_failures),
            api_token_days: number(|policy| policy.api_token_days)
                .unwrap_or(default.api_token_days),
            sign_in_idle_minutes: number(|policy| policy.sign_in_idle_minutes)
                .unwrap_or(default.sign_in_idle_minutes),
            sign_in_hours: number(|policy| policy.sign_in_hours).unwrap_or(default.sign_in_hours),
            partial_days: number(|policy| policy.partial_days).unwrap_or(default.partial_days),
            temporary_names: policies
                .iter()
                .find_map(|policy| policy.temporary_names.clone())
                .unwrap_or(default.temporary_names),
            tls_reuse: policies.iter().find_map(|policy| policy.tls_reuse),
            strict_size: policies.iter().find_map(|policy| policy.strict_size).unwrap_or_default(),
            digest_bytes_per_hour: policies
                .iter()
                .find_map(|policy| policy.digest_bytes_per_hour)
                .unwrap_or(default.digest_bytes_per_hour),
            algorithms: policies.iter().find_map(|policy| policy.algorithms).unwrap_or_default(),
            legacy_algorithms: first_set(policies, |policy| &policy.legacy_algorithms),
            least_clients: first_set(policies, |policy| &policy.least_clients),
        }
    }

    /// The weak SSH algorithms that are offered at `now`.
    pub fn legacy_at(&self, now: Timestamp) -> impl Iterator<Item = &str> {
        let valid = self.legacy_algorithms.iter().filter(move |legacy| now < legacy.until);
        valid.map(|legacy| legacy.name.as_str())
    }

    /// True if `address` may connect.
    pub fn admits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let allowed = self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&address));
        allowed && !self.deny.iter().any(|net| net.contains(&address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_policy_that_sets_a_field_wins() {
        let mut own = Policy::new("own".parse().unwrap());
        own.sessions = Some(3);
        let mut group = Policy::new("group".parse().unwrap());
        group.sessions = Some(9);
        group.idle_seconds = Some(60);
        group.deny = vec!["10.0.0.0/8".parse().unwrap()];
        let resolved = EffectivePolicy::resolve(&[own, group]);
        assert_eq!((resolved.sessions, resolved.idle_seconds), (3, 60));
        assert_eq!(resolved.partial_days, 7);
        assert!(!resolved.admits("10.1.2.3".parse().unwrap()));
        assert!(!resolved.admits("::ffff:10.1.2.3".parse().unwrap()));
        assert!(resolved.admits("192.0.2.1".parse().unwrap()));
    }
}
