//! Policies: limits and posture of a site, account or listener.

use ipnet::IpNet;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::calendar::Calendar;
use crate::ftp::TlsReuse;
use crate::hours::Hours;
use crate::limits::{API_TOKEN_DAYS, HOURS, PASSWORD_LENGTH, SIGN_IN_HOURS, SIGN_IN_MINUTES};
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::rates::{PerDirection, Rates};
use crate::time::Timestamp;

/// A set of SSH algorithms, see docs/protocols/sftp.md.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum AlgorithmPreset {
    /// Post-quantum and modern key exchange, AEAD and encrypt-then-MAC only.
    #[default]
    Modern,
    /// Adds what clients of about 2014 need; nothing with SHA-1, CBC or below 112 bits.
    Compatible,
    /// Only what FIPS 140-3 approves. It narrows the algorithms; it is no validated module.
    Fips,
}

/// Algorithms that are offered only by name, because they are weak.
pub const LEGACY_ALGORITHMS: [&str; 7] = [
    "ssh-rsa",
    "diffie-hellman-group14-sha1",
    "aes128-cbc",
    "aes192-cbc",
    "aes256-cbc",
    "hmac-sha1",
    "hmac-sha1-etm@openssh.com",
];

/// A weak algorithm that is offered until a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LegacyAlgorithm {
    /// Its name, one of [`LEGACY_ALGORITHMS`].
    pub name: String,
    /// No longer from this moment on.
    pub until: Timestamp,
}

/// Limits and posture. What is unset is inherited: account, then its groups, then site, then the
/// built-in default that each field names. Of a listener's policy count `allow`, `deny`, the shared
/// rates, and, with those of the site behind them, what is said of SSH.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Unique among the policies of its site; never changes.
    pub name: Name,
    /// Networks that may connect. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub allow: Vec<IpNet>,
    /// Networks that may not; wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<String>")]
    pub deny: Vec<IpNet>,
    /// Most sessions of one account at a time. Default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Seconds without a request before a session is ended. Default 900.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u32>,
    /// Most uploads and downloads of one account at a time. Default 10,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfers: Option<u32>,
    /// A session whose running transfers move fewer bytes a second than this for a minute is ended.
    /// Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_bytes_per_second: Option<u64>,
    /// Bytes a second from the peer to us, each session by itself. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_upload_bytes_per_second: Option<u64>,
    /// Bytes a second from us to the peer, each session by itself. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session_download_bytes_per_second: Option<u64>,
    /// Bytes a second from the peer to us, all sessions of the account together. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_bytes_per_second: Option<u64>,
    /// Bytes a second from us to the peer, all sessions of the account together. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_bytes_per_second: Option<u64>,
    /// Bytes a second from the peer to us, of everything together that the policy is set on: all
    /// members of a group, all sessions of a listener or a site. Not inherited. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_upload_bytes_per_second: Option<u64>,
    /// The same from us to the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_download_bytes_per_second: Option<u64>,
    /// Bytes a second from the peer to us, of all sites together, on each node by itself. Counts on
    /// the policy of the site `main` only. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_upload_bytes_per_second: Option<u64>,
    /// The same from us to the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub global_download_bytes_per_second: Option<u64>,
    /// Rates that hold in certain hours in place of those above; of several entries that hold, the
    /// first that sets a rate counts for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hours: Vec<Hours>,
    /// Days on which schedules of rules run and files are expected, for rules that name this
    /// policy as their calendar; it is not inherited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calendar: Option<Calendar>,
    /// Wrong passwords from one address within an hour before it must wait; accounts that logged in
    /// from there lately need not. Default 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_failures: Option<u32>,
    /// Wrong passwords for one account within a day, from addresses it never logged in from,
    /// before only known addresses are let try. Default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_failures: Option<u32>,
    /// Characters that a password has at least when it is set. Default 8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub least_password_length: Option<u32>,
    /// Days that an API token is valid which is made without an end. Default 90.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_token_days: Option<u32>,
    /// Minutes without a request before a browser is signed out. Default 30.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in_idle_minutes: Option<u32>,
    /// Hours after which a browser is signed out, whatever it does. Default 12.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sign_in_hours: Option<u32>,
    /// Days that an unfinished upload is kept for its owner to resume. Default 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_days: Option<u32>,
    /// Name endings of files still being written by clients that rename when done; publishing one
    /// raises no arrival, the rename does. Default `.filepart`, `.partial`, `.part`, `.tmp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_names: Option<Vec<String>>,
    /// Whether encrypted data connections of FTP must resume the session of their control
    /// connection. Default: what the listener says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls_reuse: Option<TlsReuse>,
    /// An upload over FTP must have as many bytes as ALLO announced before it (TYPE I). Default no.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strict_size: Option<bool>,
    /// Bytes of files whose digests an account may ask for within an hour. Default 1 TiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest_bytes_per_hour: Option<u64>,
    /// SSH algorithms of a listener. Default `modern`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithms: Option<AlgorithmPreset>,
    /// Weak SSH algorithms that a listener offers besides, each until a day. Default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub legacy_algorithms: Vec<LegacyAlgorithm>,
    /// Oldest clients that a listener takes, as they name themselves: `OpenSSH_7.4`,
    /// `WinSCP_release_5.9`. Clients of other names pass. Default none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub least_clients: Vec<String>,
}

impl Policy {
    /// A policy that sets nothing.
    pub fn new(name: Name) -> Self {
        Policy {
            name,
            allow: Vec::new(),
            deny: Vec::new(),
            sessions: None,
            idle_seconds: None,
            transfers: None,
            least_bytes_per_second: None,
            session_upload_bytes_per_second: None,
            session_download_bytes_per_second: None,
            upload_bytes_per_second: None,
            download_bytes_per_second: None,
            shared_upload_bytes_per_second: None,
            shared_download_bytes_per_second: None,
            global_upload_bytes_per_second: None,
            global_download_bytes_per_second: None,
            hours: Vec::new(),
            calendar: None,
            address_failures: None,
            account_failures: None,
            least_password_length: None,
            api_token_days: None,
            sign_in_idle_minutes: None,
            sign_in_hours: None,
            partial_days: None,
            temporary_names: None,
            tls_reuse: None,
            strict_size: None,
            digest_bytes_per_hour: None,
            algorithms: None,
            legacy_algorithms: Vec::new(),
            least_clients: Vec::new(),
        }
    }

    /// The rates that it sets for all times that `hours` leave.
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

    /// True if `address` may connect.
    pub fn admits(&self, address: std::net::IpAddr) -> bool {
        let address = address.to_canonical();
        let allowed = self.allow.is_empty() || self.allow.iter().any(|net| net.contains(&address));
        allowed && !self.deny.iter().any(|net| net.contains(&address))
    }
}

impl Noun for Policy {
    const KIND: Kind = Kind::Policy;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }
    fn check(&self) -> Result<(), FieldError> {
        self.rates().check("")?;
        if self.least_password_length.is_some_and(|least| least > PASSWORD_LENGTH) {
            let problem = format!("more than {PASSWORD_LENGTH} characters are too many to ask for");
            return Err(FieldError::new("least_password_length", problem));
        }
        if self.api_token_days.is_some_and(|days| !(1..=API_TOKEN_DAYS).contains(&days)) {
            let problem = format!("from 1 to {API_TOKEN_DAYS}");
            return Err(FieldError::new("api_token_days", problem));
        }
        for (field, set, range) in [
            ("sign_in_idle_minutes", self.sign_in_idle_minutes, SIGN_IN_MINUTES),
            ("sign_in_hours", self.sign_in_hours, SIGN_IN_HOURS),
        ] {
            if set.is_some_and(|set| !range.contains(&set)) {
                let problem = format!("from {} to {}", range.start(), range.end());
                return Err(FieldError::new(field, problem));
            }
        }
        if self.hours.len() > HOURS {
            return Err(FieldError::new("hours", format!("there are more than {HOURS} entries")));
        }
        self.hours.iter().try_for_each(Hours::check)?;
        self.calendar.iter().try_for_each(Calendar::check)?;
        let known = |legacy: &&LegacyAlgorithm| LEGACY_ALGORITHMS.contains(&legacy.name.as_str());
        if let Some(unknown) = self.legacy_algorithms.iter().find(|legacy| !known(legacy)) {
            let of = LEGACY_ALGORITHMS.join(", ");
            let problem = format!("'{}' is none of {of}", unknown.name);
            return Err(FieldError::new("legacy_algorithms", problem));
        }
        let versionless =
            |client: &&String| !client.contains(|letter: char| letter.is_ascii_digit());
        if let Some(client) = self.least_clients.iter().find(versionless) {
            let problem = format!("'{client}' has no version; write it as in OpenSSH_7.4");
            return Err(FieldError::new("least_clients", problem));
        }
        Ok(())
    }
}
