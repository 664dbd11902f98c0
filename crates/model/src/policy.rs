//! Policies: limits and posture of a site, account or listener.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun};

/// Limits and posture. What is unset is inherited: account, then its groups, then listener, then
/// site, then the built-in default that each field names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Its name.
    pub name: Name,
    /// Networks that may connect. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<IpNet>,
    /// Networks that may not; wins over `allow`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deny: Vec<IpNet>,
    /// Most sessions of one account at a time. Default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sessions: Option<u32>,
    /// Seconds without a request before a session is ended. Default 900.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idle_seconds: Option<u32>,
    /// Bytes a second from the peer to us, all sessions of the account together. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload_bytes_per_second: Option<u64>,
    /// Bytes a second from us to the peer, all sessions of the account together. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download_bytes_per_second: Option<u64>,
    /// Wrong passwords from one address within an hour before it must wait. Default 20.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_failures: Option<u32>,
    /// Wrong passwords for one account within a day, from addresses it never logged in from,
    /// before only known addresses are let try. Default 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account_failures: Option<u32>,
    /// Days that an unfinished upload is kept for its owner to resume. Default 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub partial_days: Option<u32>,
    /// Name endings of files still being written by clients that rename when done; publishing one
    /// raises no arrival, the rename does. Default `.filepart`, `.partial`, `.part`, `.tmp`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temporary_names: Option<Vec<String>>,
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
            upload_bytes_per_second: None,
            download_bytes_per_second: None,
            address_failures: None,
            account_failures: None,
            partial_days: None,
            temporary_names: None,
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
    fn references(&self) -> Vec<(Kind, Name)> {
        Vec::new()
    }
    fn check(&self) -> Result<(), FieldError> {
        let rates = [
            ("upload_bytes_per_second", self.upload_bytes_per_second),
            ("download_bytes_per_second", self.download_bytes_per_second),
        ];
        for (field, rate) in rates {
            if rate.is_some_and(|rate| rate < 1024) {
                return Err(FieldError::new(field, "the least rate is 1024 bytes a second"));
            }
        }
        Ok(())
    }
}
