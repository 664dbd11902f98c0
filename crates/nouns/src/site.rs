//! Sites: tenants, and the host names by which clients choose one.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::limits::{HOST_BYTES, SITE_HOSTS};
use crate::login::LoginCheck;
use crate::name::Name;
use crate::noun::{FieldError, Kind, Noun, Reference};
use crate::oidc::{OidcProvider, check_providers};
use crate::retention::Retention;

/// A tenant: owns everything below it. The default site is `main` and never needs naming.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Unique among all sites; never changes.
    pub name: Name,
    /// Host names that it is reached by (FTP's HOST, the server name of TLS), of no other site.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<HostName>,
    /// The policy of all its accounts and listeners that name none of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<Name>,
    /// Who is asked about passwords of names that have none here, by listeners that do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub login: Option<LoginCheck>,
    /// Providers of OpenID Connect that may say who signs in with a browser, each under a name that
    /// stands in addresses and events.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub oidc: BTreeMap<Name, OidcProvider>,
    /// How long it keeps what it records; unset: as each field of it names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<Retention>,
    /// Free text for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Noun for Site {
    const KIND: Kind = Kind::Site;
    fn name(&self) -> &Name {
        &self.name
    }
    fn references(&self) -> Vec<Reference> {
        let policy = self.policy.iter();
        let policy = policy.map(|name| Reference::new("policy", Kind::Policy, name));
        let export = self.retention.iter().filter_map(|retention| retention.export.as_ref());
        let endpoint = export.map(|export| {
            Reference::new("retention.export.endpoint", Kind::Endpoint, &export.endpoint)
        });
        policy.chain(endpoint).collect()
    }
    fn check(&self) -> Result<(), FieldError> {
        if self.hosts.len() > SITE_HOSTS {
            return Err(FieldError::new("hosts", format!("there are more than {SITE_HOSTS}")));
        }
        let twice =
            |(at, host): (usize, &HostName)| self.hosts.iter().skip(at + 1).any(|it| it == host);
        if self.hosts.iter().enumerate().any(twice) {
            return Err(FieldError::new("hosts", "a name stands there twice, remove one"));
        }
        self.retention.as_ref().map_or(Ok(()), |retention| retention.check(&self.name))?;
        check_providers(&self.oidc)?;
        self.login.as_ref().map_or(Ok(()), LoginCheck::check)
    }
    fn programs(&self) -> Vec<&str> {
        self.login.as_ref().and_then(LoginCheck::program).into_iter().collect()
    }
}

/// A name of DNS in small letters, international ones as `xn--…` (RFC 5890 §2.3.2.1); never an
/// address.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(transparent)]
pub struct HostName(String);

/// Why a text is no [`HostName`].
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("'{text}' is not a host name such as files.example.com; write other letters as xn--…")]
pub struct HostNameError {
    /// What was given, cut to 80 characters.
    pub text: String,
}

impl HostName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = HostNameError;

    fn from_str(text: &str) -> Result<Self, HostNameError> {
        let name = text.to_ascii_lowercase();
        let label = |label: &str| {
            let fits = (1..=63).contains(&label.len());
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            fits && label.bytes().all(plain) && !label.starts_with('-') && !label.ends_with('-')
        };
        let number = |label: &str| label.bytes().all(|byte| byte.is_ascii_digit());
        let is_address = name.rsplit('.').next().is_none_or(number);
        if name.len() <= HOST_BYTES && name.split('.').all(label) && !is_address {
            Ok(HostName(name))
        } else {
            Err(HostNameError { text: text.chars().take(80).collect() })
        }
    }
}

impl<'de> Deserialize<'de> for HostName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_names_are_names_of_dns_and_no_addresses() {
        let host = |text: &str| text.parse::<HostName>().map(|host| host.as_str().to_owned());
        assert_eq!(host("Files.Example.COM").as_deref(), Ok("files.example.com"));
        assert_eq!(host("xn--bcher-kva.example").as_deref(), Ok("xn--bcher-kva.example"));
        assert_eq!(host("intranet").as_deref(), Ok("intranet"));
        let bad =
            ["", "a..b", ".a", "a.", "-a", "a-", "a b", "büch.er", "192.0.2.1", "::1", "a:21"];
        for bad in bad {
            assert!(host(bad).is_err(), "{bad}");
        }
        let site = r#"{"name":"north","hosts":["a.example","A.example"]}"#;
        let site: Site = serde_json::from_str(site).unwrap();
        assert!(site.check().is_err(), "twice");
    }
}
