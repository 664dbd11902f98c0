//! Who is asked about passwords that are not kept here.

mod ldap;

use std::net::IpAddr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::limits::{LOGIN_HOOK_ACCOUNTS, LOGIN_HOOK_ARGUMENTS, LOGIN_HOOK_SECONDS, URL_BYTES};
use crate::name::Name;
use crate::noun::FieldError;
pub use ldap::{LdapHook, LdapSearch, LdapSecurity, LdapUrl};

/// Passwords of names that have none of their own here are somebody else's to judge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LoginCheck {
    /// Who is asked.
    pub hook: LoginHook,
    /// So long an answer is waited for; later it is a refusal. Default 5.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<u32>,
    /// Accounts that it may let somebody in as, and groups whose members it may. Unset: any that is
    /// no administrator. Names that are no account let nobody in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Vec<Name>>,
}

/// Who is asked. In a document a mapping with one key: `http`, `exec` or `ldap`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LoginHook {
    /// A web service.
    Http(HttpHook),
    /// A program of this machine.
    Exec(ExecHook),
    /// A directory service.
    Ldap(LdapHook),
}

/// A web service that is asked by POST.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HttpHook {
    /// `https://…`; `http://…` of this very machine only.
    pub url: HookUrl,
    /// Whether it may lie in a private network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub private: bool,
    /// Certificates (PEM) of who may vouch for it. Unset: whom this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
}

/// A program that is given the question on its standard input.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecHook {
    /// Its absolute path and arguments; the process file must allow it.
    pub program: Vec<String>,
}

/// Where a web service is, in its parts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct HookUrl {
    /// Whether requests go under TLS (`https`).
    pub secure: bool,
    /// Name or address; an IPv6 address without its brackets.
    pub host: String,
    /// TCP port; of a URL that names none 443 under TLS, else 80.
    pub port: u16,
    /// From the first slash on.
    pub path: String,
}

impl HookUrl {
    /// Host and port as they stand in the URL.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    fn parse(text: &str) -> Option<HookUrl> {
        let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '#' | '\\' | '"' | '<' | '>');
        if text.len() > URL_BYTES || !text.chars().all(plain) {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let secure = match scheme {
            "https" => true,
            "http" => false,
            _ => return None,
        };
        let cut = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(cut);
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        let (host, port) = host_and_port(authority)?;
        let port = port.unwrap_or(if secure { 443 } else { 80 });
        Some(HookUrl { secure, host, port, path })
    }
}

/// Of the part of a URL between its slashes; an IPv6 address without its brackets.
fn host_and_port(authority: &str) -> Option<(String, Option<u16>)> {
    let (host, port) = match authority.strip_prefix('[') {
        Some(inner) => {
            let (host, behind) = inner.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            match behind {
                "" => (host, None),
                behind => (host, Some(behind.strip_prefix(':')?)),
            }
        }
        None => match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        },
    };
    let named = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
    let good = authority.starts_with('[') || host.chars().all(named);
    if !good || host.is_empty() {
        return None;
    }
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u16>().ok().filter(|port| digits && *port > 0)
    };
    let port = match port {
        Some(text) => Some(number(text)?),
        None => None,
    };
    Some((host.to_ascii_lowercase(), port))
}

/// True for a host that is named as this machine itself.
fn is_here(host: &str) -> bool {
    let address = host.parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|it| it.to_canonical().is_loopback())
}

impl TryFrom<String> for HookUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let url = HookUrl::parse(&text)
            .ok_or_else(|| format!("'{text}' is no URL such as https://login.example/check"))?;
        if url.secure || is_here(&url.host) {
            Ok(url)
        } else {
            Err("passwords go to other machines under TLS only: write https".to_owned())
        }
    }
}

impl From<HookUrl> for String {
    fn from(url: HookUrl) -> String {
        let scheme = if url.secure { "https" } else { "http" };
        format!("{scheme}://{}{}", url.authority(), url.path)
    }
}

impl LoginCheck {
    /// So long an answer is waited for.
    pub fn seconds(&self) -> u32 {
        self.seconds.unwrap_or(5)
    }

    /// True if it may let somebody in as the account of this lineage: its name, then its groups.
    pub fn may_admit(&self, lineage: &[Name]) -> bool {
        let listed = |accounts: &Vec<Name>| accounts.iter().any(|name| lineage.contains(name));
        self.accounts.as_ref().is_none_or(listed)
    }

    /// The program that decides, if one does.
    pub(crate) fn program(&self) -> Option<&str> {
        match &self.hook {
            LoginHook::Exec(ExecHook { program }) => program.first().map(String::as_str),
            LoginHook::Http(_) | LoginHook::Ldap(_) => None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), FieldError> {
        if !(1..=LOGIN_HOOK_SECONDS).contains(&self.seconds()) {
            let problem = format!("from 1 to {LOGIN_HOOK_SECONDS}");
            return Err(FieldError::new("login.seconds", problem));
        }
        if self.accounts.as_ref().is_some_and(|accounts| accounts.len() > LOGIN_HOOK_ACCOUNTS) {
            let problem = format!("more than {LOGIN_HOOK_ACCOUNTS}: name a group instead");
            return Err(FieldError::new("login.accounts", problem));
        }
        match &self.hook {
            LoginHook::Http(_) => Ok(()),
            LoginHook::Exec(exec) => exec.check(),
            LoginHook::Ldap(ldap) => ldap.check(),
        }
    }
}

impl ExecHook {
    fn check(&self) -> Result<(), FieldError> {
        let field = "login.hook.exec.program";
        if !self.program.first().is_some_and(|path| path.starts_with('/')) {
            return Err(FieldError::new(field, "begins with an absolute path"));
        }
        if self.program.len() > LOGIN_HOOK_ARGUMENTS {
            let problem = format!("more than {LOGIN_HOOK_ARGUMENTS} arguments");
            return Err(FieldError::new(field, problem));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Result<HookUrl, String> {
        HookUrl::try_from(text.to_owned())
    }

    #[test]
    fn passwords_leave_the_machine_under_tls_only() {
        for (text, parts) in [
            ("https://login.example/check", (true, "login.example", 443, "/check")),
            ("https://Login.Example:8443", (true, "login.example", 8443, "/")),
            ("https://[2001:db8::1]:9/a?b=c", (true, "2001:db8::1", 9, "/a?b=c")),
            ("http://localhost:8080/x", (false, "localhost", 8080, "/x")),
            ("http://127.0.0.1", (false, "127.0.0.1", 80, "/")),
            ("http://[::1]/", (false, "::1", 80, "/")),
        ] {
            let found = url(text).unwrap();
            let found = (found.secure, &*found.host, found.port, &*found.path);
            assert_eq!(found, parts, "{text}");
            assert_eq!(url(&String::from(url(text).unwrap())), url(text), "{text} goes round");
        }
        for bad in [
            "http://login.example/",
            "http://10.0.0.1/",
            "http://127.0.0.1.evil.example/",
            "http://localhost@evil.example/",
            "https://user:pw@login.example/",
            "https:///x",
            "https://a b/",
            "https://a/\r\nHost: b",
            "https://a:0/",
            "https://a:+8/",
            "https://a:/",
            "https://[::1/",
            "https://a/#x",
            "ftp://a/",
            "login.example",
            "",
        ] {
            assert!(url(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn what_cannot_be_asked_is_refused() {
        let check = |json: &str| {
            serde_json::from_str::<LoginCheck>(json).unwrap().check().map_err(|it| it.field)
        };
        assert_eq!(check(r#"{"hook": {"exec": {"program": ["/bin/x", "a"]}}}"#), Ok(()));
        let program = "login.hook.exec.program".to_owned();
        assert_eq!(check(r#"{"hook": {"exec": {"program": ["x"]}}}"#), Err(program.clone()));
        assert_eq!(check(r#"{"hook": {"exec": {"program": []}}}"#), Err(program));
        let slow = r#"{"hook": {"http": {"url": "https://a/"}}, "seconds": 60}"#;
        assert_eq!(check(slow), Err("login.seconds".to_owned()));
    }
}
