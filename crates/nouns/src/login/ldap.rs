//! A directory service that is asked about passwords (LDAP, RFC 4511 to 4516).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{host_and_port, is_here};
use crate::document::is_default;
use crate::limits::{LDAP_TEXT_BYTES, URL_BYTES};
use crate::noun::FieldError;

/// What stands for the name that the client gave.
const USER: &str = "{user}";

/// A directory service. A password is right if the service takes it in a simple bind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LdapHook {
    /// `ldaps://…`; or `ldap://…`, where TLS begins by StartTLS before anything is said. To this
    /// very machine it stays in clear text unless there are `authorities`.
    pub url: LdapUrl,
    /// Whether it may lie in a private network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub private: bool,
    /// Certificates (PEM) of who may vouch for it. Unset: whom this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
    /// The name of the bind: `uid={user},ou=people,dc=example,dc=com`, or as other services take it
    /// `{user}@corp.example`.
    pub bind: String,
    /// What must be found with the rights of who has logged in. Unset: the bind alone decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub search: Option<LdapSearch>,
}

/// A search that must find exactly one entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LdapSearch {
    /// The entry below which all are looked at; it may have `{user}`.
    pub base: String,
    /// As RFC 4515 writes it: `(&(uid={user})(memberOf=cn=transfer,ou=groups,dc=example,dc=com))`.
    pub filter: String,
    /// The attribute that holds the name of the account, once. Unset: the account has the name that
    /// the client gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
}

/// Where a directory service is, in its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct LdapUrl {
    /// Whether it is under TLS from the first byte (`ldaps`).
    pub secure: bool,
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// TCP port; of a URL that names none 636 for `ldaps`, else 389.
    pub port: u16,
}

/// How a directory service is spoken to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LdapSecurity {
    /// Under TLS from the first byte.
    Tls,
    /// TLS begins by the operation StartTLS.
    StartTls,
    /// In clear text, on this machine.
    Clear,
}

impl LdapUrl {
    /// The host as it stands in a URL.
    fn bracketed(&self) -> String {
        if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() }
    }
}

impl TryFrom<String> for LdapUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bad = || format!("'{text}' is no URL such as ldaps://directory.example");
        let (scheme, authority) = text.split_once("://").ok_or_else(bad)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let (host, port) = host_and_port(authority).ok_or_else(bad)?;
        let (secure, usual) = match scheme {
            "ldaps" => (true, 636),
            "ldap" => (false, 389),
            _ => return Err(bad()),
        };
        if text.len() > URL_BYTES {
            return Err(bad());
        }
        Ok(LdapUrl { secure, host, port: port.unwrap_or(usual) })
    }
}

impl From<LdapUrl> for String {
    fn from(url: LdapUrl) -> String {
        let scheme = if url.secure { "ldaps" } else { "ldap" };
        format!("{scheme}://{}:{}", url.bracketed(), url.port)
    }
}

impl LdapHook {
    /// How it is spoken to: passwords go to other machines under TLS only.
    pub fn security(&self) -> LdapSecurity {
        match &self.url {
            url if url.secure => LdapSecurity::Tls,
            url if is_here(&url.host) && self.authorities.is_none() => LdapSecurity::Clear,
            _ => LdapSecurity::StartTls,
        }
    }

    pub(super) fn check(&self) -> Result<(), FieldError> {
        let field = |name: &str| format!("login.hook.ldap.{name}");
        if !self.bind.contains(USER) {
            // One name for all would let everybody in by one password.
            return Err(FieldError::new(field("bind"), "has {user} for the name of the client"));
        }
        if self.security() != LdapSecurity::Clear && self.url.host.contains(':') {
            let problem = "under TLS a directory service has a name or an IPv4 address";
            return Err(FieldError::new(field("url"), problem));
        }
        let mut texts = vec![("bind", &self.bind)];
        if let Some(LdapSearch { base, filter, account }) = &self.search {
            texts.extend([("search.base", base), ("search.filter", filter)]);
            texts.extend(account.as_ref().map(|account| ("search.account", account)));
            if !filter.starts_with('(') || !filter.ends_with(')') {
                let problem = "stands in parentheses, as in (uid={user})";
                return Err(FieldError::new(field("search.filter"), problem));
            }
            let is_letter = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
            if account.as_ref().is_some_and(|it| it.is_empty() || !it.chars().all(is_letter)) {
                let problem = "is the name of an attribute, such as uid";
                return Err(FieldError::new(field("search.account"), problem));
            }
        }
        match texts.into_iter().find(|(_, text)| text.len() > LDAP_TEXT_BYTES) {
            None => Ok(()),
            Some((name, _)) => {
                let problem = format!("longer than {LDAP_TEXT_BYTES} bytes");
                Err(FieldError::new(field(name), problem))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_go_to_other_machines_under_tls() {
        use LdapSecurity::{Clear, StartTls, Tls};
        for (text, security, again) in [
            ("ldaps://Directory.example", Tls, "ldaps://directory.example:636"),
            ("ldap://directory.example/", StartTls, "ldap://directory.example:389"),
            ("ldap://10.0.0.1:1389", StartTls, "ldap://10.0.0.1:1389"),
            ("ldap://localhost:1389", Clear, "ldap://localhost:1389"),
            ("ldap://[::1]", Clear, "ldap://[::1]:389"),
        ] {
            let url = LdapUrl::try_from(text.to_owned()).unwrap();
            let bind = "{user}@a".to_owned();
            let mut hook = LdapHook { url, private: false, authorities: None, bind, search: None };
            assert_eq!(hook.security(), security, "{text}");
            assert_eq!(String::from(hook.url.clone()), again);
            hook.authorities = Some(String::new());
            assert_ne!(hook.security(), Clear, "{text}");
        }
        let refused = [
            "ldapi:///run/slapd",
            "ldap://",
            "ldap://a/dc=example??sub",
            "ldap://user@a",
            "directory.example",
        ];
        for text in refused {
            assert!(LdapUrl::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let check = |bind: &str, search: &str| {
            let json = format!(r#"{{"url": "ldaps://a", "bind": "{bind}"{search}}}"#);
            let hook = serde_json::from_str::<LdapHook>(&json).unwrap();
            hook.check().map_err(|error| error.field)
        };
        let search = |filter: &str, account: &str| {
            let fields = format!(r#""base": "dc=a", "filter": "{filter}", "account": "{account}""#);
            check("{user}@a", &format!(r#", "search": {{{fields}}}"#))
        };
        assert_eq!(check("uid={user},dc=a", ""), Ok(()));
        assert_eq!(search("(uid={user})", "uid"), Ok(()));
        assert_eq!(check("{user}@a", r#", "authorities": "x""#), Ok(()));
        assert_eq!(check("cn=reader,dc=a", ""), Err("login.hook.ldap.bind".to_owned()));
        let filter = Err("login.hook.ldap.search.filter".to_owned());
        assert_eq!(search("uid={user}", "uid"), filter);
        assert_eq!(search("(uid={user})", "u d"), Err("login.hook.ldap.search.account".to_owned()));
        let long = "x".repeat(LDAP_TEXT_BYTES);
        assert_eq!(search(&format!("({long})"), "uid"), filter);
    }
}
