//! What wrong passwords have delayed or locked, as requests and answers name it.

use std::net::IpAddr;

use entrepot_auth::LoginLimit;
use entrepot_nouns::{Name, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is unlocked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum UnlockTarget {
    /// An address; of IPv6 its /64.
    Address(IpAddr),
    /// An account of the site, whichever addresses its wrong passwords came from.
    Account(Name),
}

/// An address, an account, or an account at an address that has had too many wrong passwords.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginLimitRow {
    /// The address, of IPv6 its /64; unset: every address that the account never logged in from.
    pub address: Option<String>,
    /// The account; unset: every account that never logged in from the address.
    pub account: Option<Name>,
    /// `locked` or `delayed`.
    pub state: String,
    /// Wrong passwords that count.
    pub failures: u32,
    /// The time of the first of them.
    pub since: Timestamp,
    /// When it ends, if no more come.
    pub until: Timestamp,
}

impl From<LoginLimit> for LoginLimitRow {
    fn from(limit: LoginLimit) -> Self {
        LoginLimitRow {
            address: limit.address,
            account: limit.account,
            state: limit.state.as_str().to_owned(),
            failures: limit.failures,
            since: limit.since,
            until: limit.until,
        }
    }
}
