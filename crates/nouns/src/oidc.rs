//! Providers of OpenID Connect: who else may say who a person is that signs in with a browser
//! (OpenID Connect Core 1.0, OpenID Connect Discovery 1.0).

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::document::is_default;
use crate::limits::{
    LOGIN_HOOK_ACCOUNTS, OIDC_IDENTITIES, OIDC_LIST, OIDC_PROVIDERS, OIDC_TEXT_BYTES, URL_BYTES,
};
use crate::login::HookUrl;
use crate::name::Name;
use crate::noun::FieldError;
use crate::secret::{Sealed, Secret};

/// A provider that a site trusts, as it registered the site as its client.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcProvider {
    /// What its button says behind "Sign in with"; unset: its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Its issuer identifier, exactly as its discovery document has it: `https://…`; `http://…` of
    /// this very machine only.
    pub issuer: IssuerUrl,
    /// By which it knows this site.
    pub client_id: String,
    /// The secret of the client, sealed. None: a public client, which proves itself by PKCE alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret_sealed: Option<Sealed>,
    /// Accepted in documents and requests only: sealed on the way in, never stored or shown.
    #[serde(default, skip_serializing)]
    pub client_secret: Option<Secret>,
    /// Scopes that are asked for beside `openid`. Default `profile`, `email`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<Vec<String>>,
    /// The claim whose value is the name of the account, for accounts that name no subject of the
    /// provider. Default `preferred_username`. `email` counts only if the provider has verified it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<String>,
    /// A claim without which nobody is let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<RequiredClaim>,
    /// Domains of which the person must have an e-mail address that the provider has verified.
    /// Empty: none is asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub email_domains: Vec<String>,
    /// Accounts that it may let somebody in as, and groups whose members it may. Unset: any whose
    /// `login` takes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounts: Option<Vec<Name>>,
    /// Whether it may lie in a private network.
    #[serde(default, skip_serializing_if = "is_default")]
    pub private: bool,
    /// Certificates (PEM) of who may vouch for it. Unset: whom this machine trusts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub authorities: Option<String>,
}

/// A claim that must have a value, or hold it in a list, such as `groups`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RequiredClaim {
    /// The name of the claim.
    pub claim: String,
    /// The text that it must be, or contain as one of its texts.
    pub value: String,
}

/// A person as a provider knows it; the account that names it is that person's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct OidcIdentity {
    /// The provider, by its name in the site.
    pub provider: Name,
    /// The claim `sub` of the person, which never changes.
    pub subject: String,
}

/// The issuer identifier of a provider: a URL without query and fragment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct IssuerUrl(String);

impl IssuerUrl {
    /// The URL as it was given: issuers are compared as texts.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// True if it is asked in clear text, which only one of this machine is.
    pub fn is_clear(&self) -> bool {
        self.0.starts_with("http://")
    }
}

impl TryFrom<String> for IssuerUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let no_issuer = || format!("'{text}' is no issuer such as https://login.example/tenant");
        if text.contains(['?', '#']) || text.len() > URL_BYTES {
            return Err(no_issuer());
        }
        match HookUrl::try_from(text.clone()) {
            Ok(_) => Ok(IssuerUrl(text)),
            Err(_) if text.starts_with("http://") => {
                Err("a provider is asked under TLS only: write https".to_owned())
            }
            Err(_) => Err(no_issuer()),
        }
    }
}

impl From<IssuerUrl> for String {
    fn from(issuer: IssuerUrl) -> String {
        issuer.0
    }
}

impl OidcProvider {
    /// What its button says.
    pub fn label<'a>(&'a self, name: &'a Name) -> &'a str {
        self.label.as_deref().unwrap_or(name.as_str())
    }

    /// Scopes that are asked for beside `openid`.
    pub fn scopes(&self) -> Vec<&str> {
        match &self.scopes {
            Some(scopes) => scopes.iter().map(String::as_str).collect(),
            None => vec!["profile", "email"],
        }
    }

    /// The claim whose value is the name of the account.
    pub fn claim(&self) -> &str {
        self.claim.as_deref().unwrap_or("preferred_username")
    }

    /// True if it may let somebody in as the account of this lineage: its name, then its groups.
    pub fn may_admit(&self, lineage: &[Name]) -> bool {
        let listed = |accounts: &Vec<Name>| accounts.iter().any(|name| lineage.contains(name));
        self.accounts.as_ref().is_none_or(listed)
    }

    fn check(&self, name: &Name) -> Result<(), FieldError> {
        let field = |field: &str| format!("oidc.{name}.{field}");
        let required = self.required.iter();
        let required = required.flat_map(|it| [("required", &it.claim), ("required", &it.value)]);
        let texts = std::iter::once(("client_id", &self.client_id))
            .chain(self.label.iter().map(|label| ("label", label)))
            .chain(self.claim.iter().map(|claim| ("claim", claim)))
            .chain(self.email_domains.iter().map(|domain| ("email_domains", domain)))
            .chain(required);
        for (named, text) in texts {
            if !is_text(text) {
                let problem = format!("1 to {OIDC_TEXT_BYTES} bytes without control characters");
                return Err(FieldError::new(field(named), problem));
            }
        }
        if self.email_domains.iter().any(|domain| domain.contains('@')) {
            let problem = "name the domain alone, such as example.com";
            return Err(FieldError::new(field("email_domains"), problem));
        }
        let is_scope = |scope: &String| {
            let plain = |byte: u8| matches!(byte, b'!' | b'#'..=b'[' | b']'..=b'~');
            !scope.is_empty() && scope.len() <= OIDC_TEXT_BYTES && scope.bytes().all(plain)
        };
        if self.scopes.iter().flatten().any(|scope| !is_scope(scope)) {
            return Err(FieldError::new(field("scopes"), "one scope each, without blanks"));
        }
        for (named, count, most) in [
            ("scopes", self.scopes.as_ref().map_or(0, Vec::len), OIDC_LIST),
            ("email_domains", self.email_domains.len(), OIDC_LIST),
            ("accounts", self.accounts.as_ref().map_or(0, Vec::len), LOGIN_HOOK_ACCOUNTS),
        ] {
            if count > most {
                return Err(FieldError::new(field(named), format!("there are more than {most}")));
            }
        }
        Ok(())
    }
}

fn is_text(text: &str) -> bool {
    !text.is_empty() && text.len() <= OIDC_TEXT_BYTES && !text.contains(char::is_control)
}

/// The providers of a site.
pub(crate) fn check_providers(all: &BTreeMap<Name, OidcProvider>) -> Result<(), FieldError> {
    if all.len() > OIDC_PROVIDERS {
        return Err(FieldError::new("oidc", format!("there are more than {OIDC_PROVIDERS}")));
    }
    all.iter().try_for_each(|(name, provider)| provider.check(name))
}

/// The identities of an account.
pub(crate) fn check_identities(all: &[OidcIdentity]) -> Result<(), FieldError> {
    if all.len() > OIDC_IDENTITIES {
        return Err(FieldError::new("oidc", format!("there are more than {OIDC_IDENTITIES}")));
    }
    // OpenID Connect Core §2: at most 255 letters of ASCII.
    let is_subject = |text: &str| is_text(text) && text.len() <= 255;
    if all.iter().any(|identity| !is_subject(&identity.subject)) {
        let problem = "a subject is 1 to 255 characters long, without control characters";
        return Err(FieldError::new("oidc", problem));
    }
    let twice = |(at, one): (usize, &OidcIdentity)| all.iter().skip(at + 1).any(|it| it == one);
    if all.iter().enumerate().any(twice) {
        return Err(FieldError::new("oidc", "an identity stands there twice, remove one"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issuers_are_asked_under_tls_and_keep_their_spelling() {
        let issuer = |text: &str| IssuerUrl::try_from(text.to_owned());
        for good in [
            "https://login.example",
            "https://login.example/",
            "https://Login.example:8443/realms/a",
            "http://127.0.0.1:8080",
        ] {
            assert_eq!(issuer(good).map(String::from).as_deref(), Ok(good));
        }
        for bad in [
            "http://login.example",
            "http://10.0.0.1/",
            "https://login.example/?a=b",
            "https://login.example/#a",
            "https://user@login.example/",
            "login.example",
            "",
        ] {
            assert!(issuer(bad).is_err(), "{bad:?} was taken");
        }
    }

    #[test]
    fn what_cannot_be_a_provider_is_refused() {
        let check = |more: &str| {
            let json =
                format!(r#"{{"corp":{{"issuer":"https://a.example","client_id":"e"{more}}}}}"#);
            let all: BTreeMap<Name, OidcProvider> = serde_json::from_str(&json).unwrap();
            check_providers(&all).map_err(|error| error.field)
        };
        assert_eq!(check(r#","email_domains":["example.com"],"scopes":[]"#), Ok(()));
        for (more, field) in [
            (r#","scopes":["a b"]"#, "oidc.corp.scopes"),
            (r#","label":"""#, "oidc.corp.label"),
            (r#","email_domains":["a@example.com"]"#, "oidc.corp.email_domains"),
            (r#","required":{"claim":"groups","value":"\n"}"#, "oidc.corp.required"),
        ] {
            assert_eq!(check(more), Err(field.to_owned()), "{more}");
        }
        let identity = OidcIdentity { provider: "corp".parse().unwrap(), subject: "1".to_owned() };
        assert_eq!(check_identities(std::slice::from_ref(&identity)), Ok(()));
        assert!(check_identities(&[identity.clone(), identity.clone()]).is_err(), "twice");
        assert!(check_identities(&[OidcIdentity { subject: String::new(), ..identity }]).is_err());
    }
}
